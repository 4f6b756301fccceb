"""check_op over our own operations: every rule, on examples from the tables of random programs."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.graph import Graph
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape
from minixla.core.tracing import evaluate_graph
from minixla_ops.elementwise import incomplete
from minixla_ops.host import lapack
from tests.programs.examples import ROWS, example
from tests.programs.inexact import INEXACT

assert incomplete and lapack  # they register operations when they are imported

# Programs are shared by so many rows, as most of the time goes into making them.
_SHARED = 10
X = np.linspace(0.1, 0.9, 5, dtype=np.float32)


def exchanged(x):
    """A matrix far from singular ones, whose rows LU exchanges."""
    return x[:, None] * mx.numpy.cos(3 * x) + 3 * mx.numpy.eye(5, dtype=x.dtype)[::-1]


def solution(x):
    a = exchanged(x)
    lu, _, permutation = ops.lu(mx.stop_gradient(a))
    return ops.lu_solve(a, lu, permutation, x[:, None])


def lyapunov_solution(x):
    p = mx.numpy.outer(x, x) + mx.numpy.diag(x)
    w, v = ops.eigh(mx.stop_gradient(p))
    return ops.lyapunov_solve(p, w[:, None] + w, v, p)


def matrix(x):
    """A square matrix whose eigenvalues are far from each other."""
    return mx.numpy.outer(x, 1 - x) + mx.numpy.diag(x) * np.arange(1, 6, dtype=np.float32)


#: Operations that random programs leave out, each by a function of `X`.
MORE = {
    **{
        name: getattr(ops, name)
        for name in (
            *("sinh", "asin", "acos", "atan", "asinh", "atanh"),
            *("erfc", "erf_inv", "lgamma", "digamma"),
        )
    },
    "acosh": lambda x: ops.acosh(x + 2),
    "next_after": lambda x: ops.next_after(x, 1 - x),
    # In its first operand it has no derivative: it is NaN, as JAX's.
    "polygamma": lambda x: ops.polygamma(np.full_like(X, 2), x),
    "zeta": lambda x: ops.zeta(x + 3, x + 1),
    "a composite": lambda x: ops.composite_call(ops.tanh, x, name="test.composite"),
    "lu": lambda x: ops.lu(exchanged(x))[0],
    "lu_solve": solution,
    "lyapunov_solve": lyapunov_solution,
    "qr": lambda x: ops.qr(exchanged(x)),
    "reflections": lambda x: ops.householder_product(*ops.geqrf(exchanged(x))),
    "iota": lambda x: x * ops.iota(Shape("f32", (5,)), 0),
    # Signs are up to rounding errors.
    "eigh": lambda x: [each * each for each in ops.eigh(matrix(x))],
    # Of a matrix whose eigenvectors have no tiny elements, which rounding errors would change much.
    "eig": lambda x: [each * each for each in ops.eig(matrix(x) + np.float32(0.5))],
    "svd": lambda x: [each * each for each in ops.svd(matrix(x))],
    "gap_quotient": lambda x: ops.gap_quotient(x, x + 1),
    "mul_no_nan": lambda x: REGISTRY["MulNoNan"]()(x, x + 1),
    "div_no_nan": lambda x: REGISTRY["DivNoNan"]()(x, x + 2),
}

_STEPS = "ceil floor next_after round round_nearest_afz round_nearest_even sign"
#: Rows whose derivatives do not equal difference quotients, with the cause.
CORNERS = {
    "clamp": "bounds that meet are a corner",
    "reduce_precision": "it is a step function, whose derivative is that of what it stands for",
    **dict.fromkeys(_STEPS.split(), "it is a step function, asked at its steps"),
}

_REASONS = {
    "processes communicate: tests/oracles/parallel.py": """
        ReplicaId PartitionID AllGather AllToAll CollectivePermute CollectiveBroadcast
        RaggedAllToAll AllReduce ReduceScatter""",
    "it waits for another process, or a queue": "Infeed Outfeed Send SendDone Recv RecvDone",
    "its results are the backend's choice": "RngUniform RngNormal Undefined",
    "it gives arrays of dynamic sizes, which programs do not return": """
        SetDimensionSize DynamicReshape""",
    "only XLA's compiler makes it": """
        Copy AddDependency Domain Bitcast Fusion RngGetAndUpdateState ElidedConstant CopyStart
        CopyDone AllGatherStart AllGatherDone CollectivePermuteStart CollectivePermuteDone
        AllReduceStart AllReduceDone AsyncStart AsyncUpdate AsyncDone""",
    "it runs code of the user's": "CustomCall",
    "it is an input of a program": "Parameter",
    "its result is no array": "AfterAll",
    "rounding errors choose signs, and turn its vectors": "Schur",
    "programs that were read call it, whose tests are in tests/minixla/interop": """
        Betainc Igamma Igammac LapackCall""",
}
#: Why an operation is not checked.
LEFT_OUT = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def graph_of_row(name: str) -> tuple[Graph, list[np.ndarray]] | None:
    """A row's program, and its inputs; None for rows without inputs."""
    if name in MORE:
        return mx.make_graph(MORE[name])(X), [X]
    found = example(name, "f32", 1) or example(name, "f32")
    return None if found is None else (found.graph, found.inputs)


NAMES = [*[name for name in ROWS if name not in INEXACT], *MORE]
PARTS = [NAMES[start : start + _SHARED] for start in range(0, len(NAMES), _SHARED)]


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def operations_in(graph: Graph) -> set[str]:
    """The names of the operations of a program and of those that it runs."""
    within = (operations_in(each) for step in graph.instructions for each in step.op.computations)
    return {step.op.name for step in graph.instructions}.union(*within)


def test_each_operation_is_checked_or_there_is_a_reason():
    programs = filter(None, map(graph_of_row, NAMES))
    checked = set[str]().union(*[operations_in(graph) for graph, _ in programs])
    own = {name for name, kind in REGISTRY.items() if kind.__module__.startswith("minixla_ops.")}
    assert sorted(own - checked) == sorted(LEFT_OUT)


def check(names: list[str], order: int) -> None:
    """Checks the rows' programs side by side, as one function."""
    programs = list(filter(None, map(graph_of_row, names)))

    def rows(*operands):
        left = iter(operands)
        return [
            result
            for graph, inputs in programs
            for result in evaluate_graph(graph, [next(left) for _ in inputs])
        ]

    given = tuple([array for _, inputs in programs for array in inputs])
    report = mx.check_op(rows, [given], variants=False, order=order)
    assert report.ok, report


@pytest.mark.full
@pytest.mark.parametrize("names", PARTS, ids=lambda names: f"{names[0]} to {names[-1]}")
def test_every_rule_of_our_operations(names):
    check([name for name in names if name not in CORNERS], 1)


@pytest.mark.full
def test_operations_at_corners():
    check(list(CORNERS), 0)
