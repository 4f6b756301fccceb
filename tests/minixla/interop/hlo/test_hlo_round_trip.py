"""Graphs printed as HLO and imported again."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core import Graph, Literal, Shape, hlo_text
from minixla.core.graph import Instruction, Value
from minixla.core.operation import REGISTRY
from minixla_ops.movement.constants import Constant
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import graph_of
from tests.oracles import assert_same
from tests.programs.draft import Program, programs
from tests.programs.inexact import INEXACT, REAL, USUAL
from tests.programs.table import TABLE

#: HLO has no opcodes for these operations of ours.
_OURS = {"gap_quotient", "lu_solve", "lyapunov_solve", "softmax", "threefry2x32"}
ROWS = {name: row for name, row in TABLE.items() if name not in _OURS}
ROUNDING = [row for name, row in INEXACT.items() if name not in _OURS]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
EXAMPLES = settings.default.max_examples


def _is_stretched(step: Instruction) -> bool:
    (shape,), sizes = _shapes(step), step.op.out_dim_size
    dimensions = step.op.broadcast_dimensions
    return [sizes[at] for at in dimensions] != list(shape.dimensions)


def _has_unread_operand(step: Instruction) -> bool:
    branches = step.op.computations
    read = [{id(o) for each in b.instructions for o in each.operands} for b in branches]
    read = [found | set(map(id, b.outputs)) for found, b in zip(read, branches, strict=True)]
    rows = zip(*[b.inputs for b in branches], strict=True)
    return any(
        all(id(each) not in found for each, found in zip(row, read, strict=True)) for row in rows
    )


def _shapes(step: Instruction) -> list[Shape]:
    return [value.shape for value in step.operands]  # type: ignore[misc]  # arrays


def _of_integers(step: Instruction) -> bool:
    return not _shapes(step)[0].element_type.is_float


def _always(step: Instruction) -> bool:
    return True


#: When an instruction is printed as something else, and comes back as that.
OTHERWISE = {
    "Broadcast": _always,  # HLO has BroadcastInDim alone
    "BroadcastInDim": _is_stretched,  # a reshape stands before it
    # Operands that no branch reads are left out, one that is given twice is read once.
    "Conditional": lambda step: (
        _has_unread_operand(step) or len({*step.operands}) < len(step.operands)
    ),
    "Constant": lambda step: step.op.literal.is_splat and step.results[0].shape.rank,
    "GetTupleElement": _always,  # tuples are taken apart
    "Map": lambda step: step.op.static_count,  # it is a call
    "Pad": lambda step: not _shapes(step)[0].rank,  # it is a copy
    "RngBitGenerator": lambda step: step.op.output_shape.element_type.kind != "unsigned",
    "Select": lambda step: _shapes(step)[1].rank and not _shapes(step)[0].rank,
    "Tuple": _always,
    **{f"{name}TotalOrder": _of_integers for name in ("Eq", "Ne", "Ge", "Gt", "Le", "Lt")},
}


@pytest.fixture(scope="module", autouse=True)
def whole_constants():
    """Prints all numbers of constants, which `str(graph)` leaves out above 16, as XLA does."""
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True):
        patch.setattr(hlo_text, "_ELIDED_ABOVE", 1 << 40)
        yield


def instructions_of(graph: Graph) -> Iterator[Instruction]:
    """The instructions of a graph, and of the programs that they run."""
    for step in graph.instructions:
        yield step
        for computation in step.op.computations:
            yield from instructions_of(computation)


def is_printed_otherwise(graph: Graph) -> bool:
    """Whether an instruction comes back as another."""
    return any(
        step.op.name in OTHERWISE and OTHERWISE[step.op.name](step)
        for step in instructions_of(graph)
    )


def _is_half_nan(step: Instruction) -> bool:
    """Whether it is a constant of (NaN, 0): XLA's parser makes (NaN, NaN) of it."""
    if step.op.name != "Constant" or not np.iscomplexobj(step.op.literal.array):
        return False
    array = step.op.literal.array
    return bool(np.any(np.isnan(array.real) != np.isnan(array.imag)))


def check(program: Program) -> None:
    graph, inputs = program.graph, program.inputs
    # Programs within programs are drawn of all rows.
    assume(not any(step.op.builder_name in _OURS for step in instructions_of(graph)))
    back = mx.import_hlo(str(graph)).graph
    has_half_nan = any(map(_is_half_nan, instructions_of(graph)))
    if not is_printed_otherwise(graph) and not has_half_nan:
        assert back == graph
    # It is a fixed point in any case, and computes the same bits.
    assert mx.import_hlo(str(back)).graph == back
    if has_half_nan:
        return
    for one, other in zip(
        reference_graph(back, inputs), reference_graph(graph, inputs), strict=True
    ):
        assert_same(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("name", ROWS)
def test_every_row(name):
    settings(max_examples=3, database=None, suppress_health_check=SLOW)(
        given(programs([ROWS[name]], 2))(check)
    )()


@settings(max_examples=2 * EXAMPLES, suppress_health_check=SLOW)
@given(programs(list(ROWS.values())))
def test_random_programs(program):
    check(program)


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(programs(ROUNDING, 12, REAL, USUAL))
def test_random_inexact_programs(program):
    check(program)


def test_derivatives_and_batches():
    def function(x, w):
        return ops.tanh(ops.dot_general(x, w, ((1,), (0,)), None))

    x, w = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)

    def loss(x, w):
        return mx.numpy.sum(mx.numpy.tanh(x @ w) ** 2)

    for transformed in (mx.grad(loss), mx.vmap(loss, (0, None)), mx.jacrev(loss)):
        check(Program(graph_of(transformed, [x, w]), [x, w], []))


# Instructions that only XLA's passes make, built as the import builds them.

S = Shape("f32", (2, 3))


def graph_with(name, operands, /, **attributes):
    """A graph of one instruction of the operation."""
    inputs = [Value(shape, None, index) for index, shape in enumerate(operands)]
    operation = REGISTRY[name](**attributes)
    step = Instruction(operation, tuple(inputs), operation.infer(tuple(operands)), None)
    return Graph(inputs, [step], step.results)


def test_internal_instructions():
    body = graph_of(lambda x: [ops.neg(x), ops.sin(x)], [np.ones((2, 3), np.float32)])
    one = graph_of(ops.neg, [np.ones((2, 3), np.float32)])
    add = graph_of(ops.add, [np.float32(1), np.float32(2)])
    groups = {"replica_groups": ((0, 1), (2, 3))}
    for graph in (
        graph_with("Copy", [S]),
        graph_with("Domain", [S], entry="{replicated}", exit="{maximal device=0}"),
        graph_with("Fusion", [S], computation=body, kind="kInput"),
        graph_with("RngGetAndUpdateState", [], delta=3),
        graph_with("AllReduceStart", [S], computation=add, **groups),
        graph_with("AllReduce", [S, S], computation=add, **groups, channel_id=3),
        graph_with("AllGather", [S], all_gather_dimension=1, shard_count=2, **groups),
        graph_with("CollectiveBroadcast", [S], **groups),
        graph_with("CollectivePermute", [S], source_target_pairs=((0, 1), (1, 0))),
        graph_with("Call", [S], computation=one),
        graph_with("TopK", [S], k=2, largest=False),
        graph_with("ReplicaId", []),
        graph_with("Erf", [S], result_accuracy="HIGHEST"),
        graph_with("CustomCall", [S], target_name="x", shapes=(S,), has_side_effect=True,
                   options={"n": 3, "s": 'a"b', "f": np.float32(0.5), "t": True}),
    ):  # fmt: skip
        assert mx.import_hlo(str(graph)).graph == graph, str(graph)


def test_what_is_left_out_of_a_constant_is_missed():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hlo_text, "_ELIDED_ABOVE", 16)
        literal = Literal(np.arange(17, dtype=np.float32))
        step = Instruction(Constant(literal), (), literal.shape, None)
        imported = mx.import_hlo(str(Graph([], [step], step.results)))
        assert str(imported.graph) == str(mx.import_hlo(str(imported.graph)).graph)
    with pytest.raises(mx.ImportError_, match="omits the value"):
        mx.reference(imported)()


#: Branches of which not all operands are read, and what the programs give them.
UNREAD = {
    "an operand that only a tuple reads": """
first {
  x = f32[2] parameter(0)
  unread = (f32[2]) tuple(x)
  ROOT c = f32[2] constant({1, 2})
}
ENTRY e {
  i = s32[] parameter(0)
  x = f32[2] parameter(1)
  ROOT r = f32[2] conditional(i, x), branch_computations={first}
}
""",
    "a later member alone": """
first {
  t = (f32[2,2], f32[3], f32[2]) parameter(0)
  a = f32[2,2] get-tuple-element(t), index=0
  b = f32[2,2] abs(a)
  ROOT c = f32[2] get-tuple-element(t), index=2
}
ENTRY e {
  i = s32[] parameter(0)
  x = f32[2,2] parameter(1)
  y = f32[3] parameter(2)
  z = f32[2] parameter(3)
  t = (f32[2,2], f32[3], f32[2]) tuple(x, y, z)
  ROOT r = f32[2] conditional(i, t), branch_computations={first}
}
""",
    "operands that only another branch reads": """
first {
  x = f32[1] parameter(0)
  a = f32[1] abs(x)
  ROOT c = f32[2] constant({1, 2})
}
second {
  t = (f32[2,2], f32[2]) parameter(0)
  a = f32[2,2] get-tuple-element(t), index=0
  b = f32[2,2] abs(a)
  ROOT c = f32[2] get-tuple-element(t), index=1
}
ENTRY e {
  i = s32[] parameter(0)
  x = f32[1] parameter(1)
  y = f32[2,2] parameter(2)
  z = f32[2] parameter(3)
  t = (f32[2,2], f32[2]) tuple(y, z)
  ROOT r = f32[2] conditional(i, x, t), branch_computations={first, second}
}
""",
}


@pytest.mark.parametrize("text", UNREAD.values(), ids=UNREAD)
def test_branches_that_do_not_read_all_operands(text):
    back = mx.import_hlo(f"HloModule m\n{text}").graph
    assert mx.import_hlo(str(back)).graph == back
    x, y, z = np.float32([-1]), np.float32([[1, 2], [3, 4]]), np.float32([5, 6])
    given = [x, y, z] if "second" in text else [y, np.ones(3, np.float32), z]
    inputs = [np.int32(1), *given[: len(back.inputs) - 1]]
    if len(back.inputs) == 2:
        inputs[1] = z
    expected = [1, 2] if "unread" in text else [5, 6]
    assert_same(np.asarray(reference_graph(back, inputs)[0]), np.float32(expected))


def test_a_complex_number_that_is_half_nan_is_read_as_xla_reads_it():
    text = "HloModule m\nENTRY e {\n  ROOT c = c64[2] constant({(nan, 0), (1, -0.0)})\n}\n"
    assert "constant({(nan, nan), (1, -0)})" in _hlo.hlo_module_from_text(text).to_string()
    found = mx.reference(mx.import_hlo(text))()
    assert_same(
        np.asarray(found), np.array([complex(np.nan, np.nan), complex(1, -0.0)], np.complex64)
    )
