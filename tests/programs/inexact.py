"""Random programs of operations that round, and bounds of how far their results may be off.

Values stay between -8 and 8, and away from poles and branch points. `bounds` evaluates a program in
double and carries the error of each value along. An instruction y = f(x) of type t, whose operands
are off by e, gives a result off by at most

    |J| e + c u (|y| + |J| |x|),    c = 8 + the size of the largest operand,

where u is the unit roundoff of t, and J the Jacobian of f, found by differences in double. The
first term is what the operands' errors become. The second allows f to be evaluated with an error of
some u in its result and in its operands, as functions of a few ulp are, and sums of n products,
whose errors are at most n u times the sum of the products' magnitudes, |J| |x| for bilinear f.
Errors of second order are left out, which a factor of 2 at the end covers: errors are below 1e-3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

import minixla_ops as ops
from minixla.core.graph import Graph
from minixla.reference_evaluator.trace import widened
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.linear_algebra.gaps import over_columns, over_rows
from minixla_ops.linear_algebra.matrices import adjoint
from minixla_ops.programs.computations import sum_over
from tests.programs.domains import COMPLEX, Domain, is_inexact
from tests.programs.draft import Draft
from tests.programs.rows import Call, Row
from tests.programs.table import TABLE

REAL = ("f32", "f64")
INEXACT: dict[str, Row] = {}


def within(low: float, high: float) -> Domain:
    """Numbers of [low, high], and complex ones with such parts."""

    def accepts(array: np.ndarray) -> bool:
        if not is_inexact(array.dtype):
            return False
        parts = np.stack([np.real(array), np.imag(array)]) if array.dtype.kind == "c" else array
        return bool(((parts >= low) & (parts <= high)).all())

    def sample(
        generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...]
    ) -> np.ndarray:
        if dtype == np.bool_:
            return generator.random(sizes) < 0.5
        if not is_inexact(dtype):
            return generator.integers(0, 3, sizes).astype(dtype)
        shift = 1j * generator.uniform(low, high, sizes) if dtype.kind == "c" else 0
        return (generator.uniform(low, high, sizes) + shift).astype(dtype)

    return Domain(accepts, sample)


def _positive_definite(
    generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...]
) -> np.ndarray:
    root = generator.uniform(-1, 1, sizes)
    return (root @ np.swapaxes(root, -1, -2) + 2 * np.eye(sizes[-1])).astype(dtype)


def _triangular(
    generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...]
) -> np.ndarray:
    return (generator.uniform(-0.5, 0.5, sizes) + 2 * np.eye(sizes[-1])).astype(dtype)


def row(
    *names: str, interpreted: bool = True, function: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Makes a function that draws a call the row of these builders, or of `function`."""

    def decorated(call: Callable[[Draft], Call]) -> Callable[[Draft], Call]:
        for name in names:
            INEXACT[name] = Row(name, call, interpreted, function=function)
        return call

    return decorated


#: Where nothing else is asked for.
USUAL = within(-8, 8)
_MODERATE = within(-3, 3)
_LARGE = within(0.5, 8)


def _of_one(domain: Domain, d: Draft) -> Call:
    return (d.array(REAL, domain),), {}


def _of_two(first: Domain, second: Domain, d: Draft) -> Call:
    lhs = d.array(REAL, first)
    return (lhs, d.like(lhs, second)), {}


for names, ends in (
    ("sin cos tanh logistic neg", (-8, 8)),
    ("exp expm1 cosh", (-3, 3)),
    # The interpreter's erf is inaccurate near its zero.
    ("erf", (0.25, 3)),
    ("log sqrt rsqrt cbrt abs", (0.5, 8)),
    ("log1p", (-0.5, 8)),
    ("tan", (-1, 1)),
):
    row(*names.split())(partial(_of_one, within(*ends)))

for names, first, second in (
    ("add sub max min", USUAL, USUAL),
    ("mul", _MODERATE, _MODERATE),
    ("complex", _MODERATE, _MODERATE),
    ("div gap_quotient", USUAL, _LARGE),
    ("atan2", USUAL, _LARGE),
    ("pow", within(0.5, 3), within(-2, 2)),
):
    row(*names.split())(partial(_of_two, first, second))

_MOVING = """broadcast broadcast_in_dim collapse concat_in_dim dynamic_slice dynamic_update_slice
    gather optimization_barrier pad reshape rev select slice slice_in_dim transpose"""
INEXACT.update({name: TABLE[name] for name in _MOVING.split()})


@row("real", "imag")
def _parts(d: Draft) -> Call:
    return (d.array(COMPLEX, USUAL),), {}


@row("reduce")
def _reduce(d: Draft) -> Call:
    value = d.array(REAL, USUAL)
    kind, shape = array_shape(value).element_type, array_shape(value)
    function, init = d.choice(((ops.add, 0), (ops.max, -100), (ops.min, 100)))
    dimensions = d.subset(range(shape.rank))
    return (value, ops.constant(np.array(init, kind.dtype)), function, dimensions), {}


@row("reduce_window")
def _reduce_window(d: Draft) -> Call:
    value = d.array(REAL, USUAL, ranks=(1, 2))
    shape = array_shape(value)
    window = [d.integer(1, 3) for _ in shape.dimensions]
    zero = ops.constant(np.array(0, shape.dtype))
    return (value, zero, ops.add, window, [1] * shape.rank, d.choice(("SAME", "VALID"))), {}


@row("dot_general")
def _dot_general(d: Draft) -> Call:
    lhs = d.array(REAL, _MODERATE, ranks=(2,), least=1)
    shape = array_shape(lhs)
    rhs = d.array((str(shape.element_type),), _MODERATE, sizes=(d.size(), shape.dimensions[0]))
    return (lhs, rhs, (([0], [1]), ([], []))), {}


@row("conv")
def _conv(d: Draft) -> Call:
    kind, features = d.kind(REAL), d.integer(1, 2)
    lhs = d.array((kind,), _MODERATE, sizes=(1, features, d.size(1)))
    rhs = d.array((kind,), _MODERATE, sizes=(d.integer(1, 2), features, d.integer(1, 2)))
    return (lhs, rhs, [1], d.choice(("SAME", "VALID"))), {}


@row("fft", interpreted=False)
def _fft(d: Draft) -> Call:
    kind = d.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    value = d.array(REAL if kind == "RFFT" else COMPLEX, USUAL, ranks=(1, 2), least=1)
    size = array_shape(value).dimensions[-1]
    return (value, kind, [2 * size - 1 if kind == "IRFFT" else size]), {}


_REGULAR = Domain(lambda array: False, _triangular)
_SYMMETRIC = Domain(lambda array: False, _positive_definite)


def _of_square(domain: Domain, d: Draft) -> Call:
    size = d.integer(1, 3)
    return (d.array(REAL, domain, sizes=(*d.sizes((0, 1)), size, size)),), {}


def _sum_of_squares(values: Any) -> Any:
    return sum_over(ops.mul(values, values), (array_shape(values).rank - 1,))


# Of several results those that are floats; of values and vectors what no backend chooses.
for name, function, domain in (
    ("lu", lambda a: ops.lu(a)[0], _REGULAR),
    ("geqrf", ops.geqrf, _REGULAR),
    ("householder_product", lambda a: ops.householder_product(*ops.geqrf(a)), _REGULAR),
    ("qr", ops.qr, _REGULAR),
    ("eigh", partial(ops.eigh, vectors=False), _SYMMETRIC),
    ("eig", lambda a: _sum_of_squares(ops.eig(a, vectors=False)), _REGULAR),
    ("svd", partial(ops.svd, vectors=False), _REGULAR),
):
    row(name, interpreted=False, function=function)(partial(_of_square, domain))


def _solved(a: Any, b: Any, way: str) -> Any:
    lu, _, permutation = ops.lu(a)
    return ops.lu_solve(a, lu, permutation, b, way)


@row("lu_solve", interpreted=False, function=_solved)
def _lu_solve(d: Draft) -> Call:
    (a,), _ = _of_square(_REGULAR, d)
    shape = array_shape(a)
    sizes = (*shape.dimensions[:-1], d.size(1))
    b = d.array((str(shape.element_type),), USUAL, sizes=sizes)
    return (a, b, d.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))), {}


def _between(p: Any, c: Any, way: str) -> Any:
    p = (p + adjoint(p)) / 2
    w, v = ops.eigh(p)
    shape = array_shape(p)
    w = ops.convert_element_type(w, shape.element_type)
    return ops.lyapunov_solve(p, over_rows(w, shape) + over_columns(w, shape), v, c, way)


@row("lyapunov_solve", interpreted=False, function=_between)
def _lyapunov_solve(d: Draft) -> Call:
    (p,), _ = _of_square(_SYMMETRIC, d)
    shape = array_shape(p)
    c = d.array((str(shape.element_type),), USUAL, sizes=shape.dimensions)
    return (p, c, d.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))), {}


@row("softmax")
def _softmax(d: Draft) -> Call:
    x = d.array(REAL, USUAL)
    return (x, [at for at in range(array_shape(x).rank) if d.chance()]), {}


@row("cholesky", interpreted=False)
def _cholesky(d: Draft) -> Call:
    (a,), _ = _of_square(_SYMMETRIC, d)
    return (a, d.chance()), {}


@row("triangular_solve", interpreted=False)
def _triangular_solve(d: Draft) -> Call:
    kind, size, left = d.kind(REAL), d.integer(1, 3), d.chance()
    a = d.array((kind,), _REGULAR, sizes=(size, size))
    b = d.array((kind,), USUAL, sizes=(size, d.size()) if left else (d.size(), size))
    keywords = {"transpose_a": d.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))}
    return (a, b, left, d.chance()), keywords


def _normalized(d: Draft, vectors: Sequence[Domain]) -> tuple[list[Any], int]:
    value = d.array(REAL, USUAL, ranks=(2, 3), least=2)
    shape = array_shape(value)
    at = d.integer(0, shape.rank - 1)
    kind, sizes = (str(shape.element_type),), shape.dimensions[at : at + 1]
    return [value, *[d.array(kind, domain, sizes=sizes) for domain in vectors]], at


@row("batch_norm_training", interpreted=False)
def _batch_norm_training(d: Draft) -> Call:
    arrays, at = _normalized(d, [_MODERATE, _MODERATE])
    return (*arrays, 0.5, at), {}


@row("batch_norm_inference", interpreted=False)
def _batch_norm_inference(d: Draft) -> Call:
    arrays, at = _normalized(d, [_MODERATE, _MODERATE, _MODERATE, _LARGE])
    return (*arrays, 0.5, at), {}


@row("batch_norm_grad", interpreted=False)
def _batch_norm_grad(d: Draft) -> Call:
    arrays, at = _normalized(d, [_MODERATE, _MODERATE, _LARGE])
    return (*arrays, d.like(arrays[0], _MODERATE), 0.5, at), {}


# Smooth programs in programs.


@row("while_")
def _while(d: Draft) -> Call:
    value, limit = d.array(REAL, USUAL), d.integer(0, 3)
    start = ops.constant(np.zeros((), np.int32))

    def condition(count: Any, x: Any) -> Any:
        return ops.lt(count, np.int32(limit))

    def body(count: Any, x: Any) -> Any:
        return ops.add(count, np.int32(1)), ops.sin(ops.add(x, x))

    return (condition, body, [start, value]), {}


@row("scan")
def _scan(d: Draft) -> Call:
    values = d.array(REAL, USUAL, ranks=(1, 2))
    shape = array_shape(values)
    carry = d.array((str(shape.element_type),), USUAL, sizes=shape.dimensions[1:])

    def body(x: Any, carried: Any) -> Any:
        return ops.cos(carried), ops.tanh(ops.add(ops.mul(x, carried), carried))

    return (values, carry, body), {"is_reverse": d.chance()}


@row("conditional")
def _conditional(d: Draft) -> Call:
    value = d.array(REAL, USUAL)
    flag = d.array(("pred",), within(0, 1), sizes=())
    other = d.like(value, USUAL)
    return (flag, [value, other], ops.atan2 if d.chance() else ops.add, other, ops.sin), {}


@row("map")
def _map(d: Draft) -> Call:
    value = d.array(REAL, _MODERATE)
    return ([value, d.like(value, _MODERATE)], lambda x, y: ops.sin(ops.mul(x, y))), {}


@row("call")
def _call(d: Draft) -> Call:
    value = d.array(REAL, USUAL)
    return (lambda x: (ops.tanh(x), ops.mul(ops.sin(x), ops.cos(x))), value), {}


@row("sort")
def _sort(d: Draft) -> Call:
    return (d.array(REAL, USUAL, ranks=(1, 2)), ops.lt), {}


def bounds(graph: Graph, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The outputs of a program in double, and how far those in its own types may be off."""
    with np.errstate(all="ignore"):
        values = {id(v): _wide(x) for v, x in zip(graph.inputs, inputs, strict=True)}
        errors = {key: np.zeros(_reals(x).shape) for key, x in values.items()}
        for instruction in graph.instructions:
            operands = [values[id(each)] for each in instruction.operands]
            given = [errors[id(each)] for each in instruction.operands]
            outcomes, found = _carried(instruction, operands, given)
            for value, outcome, error in zip(instruction.results, outcomes, found, strict=True):
                values[id(value)], errors[id(value)] = outcome, error
    outputs = [id(each) for each in graph.outputs]
    return [values[each] for each in outputs], [2 * errors[each] for each in outputs]


def assert_within(
    actual: Sequence[np.ndarray], graph: Graph, inputs: Sequence[np.ndarray], name: str
) -> None:
    """Asserts that results are within the bounds of a program."""
    for one, truth, bound in zip(actual, *bounds(graph, inputs), strict=True):
        if not is_inexact(one.dtype):
            np.testing.assert_array_equal(one, truth, err_msg=name)
            continue
        off = np.abs(_reals(_wide(one)) - _reals(truth))
        worst = int(np.argmax(off - bound)) if off.size else 0
        assert (off <= bound).all(), (
            f"{name}: {_reals(_wide(one))[worst]!r} instead of {_reals(truth)[worst]!r} is off by "
            f"{off[worst]:.3g}, more than {bound[worst]:.3g}\n{graph}\ninputs {inputs}"
        )


def _wide(array: Any) -> np.ndarray:
    array = np.asarray(array)
    if not is_inexact(array.dtype):
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _reals(array: np.ndarray) -> np.ndarray:
    """The real numbers in an array, as a vector."""
    return (
        np.ascontiguousarray(array)
        .reshape(-1)
        .view(np.float64 if array.dtype.kind == "c" else array.dtype)
    )


def _unit(shape: Any) -> float:
    kind = shape.element_type
    if not kind.is_inexact:
        return 0.0
    return float(ml_dtypes.finfo(kind.real.dtype).eps) / 2


def _carried(
    instruction: Any, operands: Sequence[np.ndarray], errors: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The results of an instruction in double, and how far they are off."""
    operation = instruction.op.changed(widened)

    def evaluate(*given: np.ndarray) -> list[np.ndarray]:
        outcome = operation.reference(*given)
        return [_wide(each) for each in ((outcome,) if instruction.single else outcome)]

    results = evaluate(*operands)
    off = [np.zeros(_reals(each).shape) for each in results]
    moved = [np.abs(_reals(each)).astype(np.float64) for each in results]
    for position, (operand, error) in enumerate(zip(operands, errors, strict=True)):
        if not is_inexact(operand.dtype):
            continue
        numbers = _reals(operand)
        for index, number in enumerate(numbers):
            if not np.isfinite(number):  # it is exact
                continue
            step = 1e-6 * max(1.0, abs(number))
            ends = []
            for sign in (1, -1):
                other = numbers.copy()
                other[index] += sign * step
                given = [*operands]
                given[position] = other.view(operand.dtype).reshape(operand.shape)
                ends.append(evaluate(*given))
            for k, (above, below) in enumerate(zip(*ends, strict=True)):
                slope = np.abs(_reals(above).astype(float) - _reals(below)) / (2 * step)
                off[k] += slope * error[index]
                moved[k] += slope * abs(number)
    count = 8 + max([each.size for each in operands], default=0)
    count = count if operands else 0  # constants are exact
    rows = zip(off, moved, instruction.results, strict=True)
    return results, [each + count * _unit(value.shape) * size for each, size, value in rows]


#: The rows that StableHLO's interpreter evaluates.
INTERPRETED = [each for each in INEXACT.values() if each.interpreted]

__all__ = ["INEXACT", "INTERPRETED", "REAL", "USUAL", "assert_within", "bounds", "within"]
