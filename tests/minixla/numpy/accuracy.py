"""How far mx.numpy's element-wise functions are from the truth, and docs/accuracy.md.

`python -m tests.minixla.numpy.accuracy` prints the page; `python -m tests.minixla.numpy.accuracy
measure` the errors on this machine and the operands that have them.
"""

from __future__ import annotations

import functools
import itertools
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.comparison import real_part_info
from tests.compilation import OPTIMIZED
from tests.minixla.derivative_rows import section as derivatives
from tests.minixla.numpy.accuracy_rows import BINARY, TYPES, UNARY, WIDE, WIDE_COMPLEX, Array, Row
from tests.minixla.numpy.array_accuracy import section as functions_of_arrays
from tests.minixla.scipy.accuracy import section as special_functions
from tests.oracles.values import all_values, edge_pairs, edge_values

#: Operands of each sort, for `measure` and `make test-full`.
MANY = 4000

# Operands.


def _cast(values: Any, dtype: np.dtype) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)


def _join(real: Any, imag: Any, dtype: np.dtype) -> Array:
    result = np.empty(len(real), dtype)
    part = np.dtype(f"f{dtype.itemsize // 2}")
    result.real, result.imag = _cast(real, part), _cast(imag, part)
    return result


class _Draws:
    """Random numbers, `count` at a time, of the range and the precision of a type."""

    def __init__(self, dtype: np.dtype, count: int) -> None:
        self.info = real_part_info(dtype)
        self.count = count
        self.generator = np.random.default_rng(count)
        self.log_of_largest = float(np.log(float(self.info.max)))

    def signs(self) -> Array:
        return self.generator.choice([-1.0, 1.0], self.count)

    def between(self, low: float, high: float) -> Array:
        return self.generator.uniform(low, high, self.count)

    def anywhere(self) -> Array:
        """Of any exponent, denormal numbers among them."""
        return self.signs() * 2.0 ** self.between(
            float(self.info.minexp) - 3, float(self.info.maxexp)
        )

    def small(self) -> Array:
        """From the type's precision to 0.1: what is added to a pole."""
        return self.signs() * 10.0 ** self.between(np.log10(float(self.info.eps)) - 1, -1)

    def whole(self, largest: int) -> Array:
        return self.generator.integers(-largest, largest, self.count)

    def zeros(self) -> Array:
        return self.signs() * 0.0


def _floats(dtype: np.dtype, count: int) -> Array:
    """Edges, all exponents, neighborhoods of -1, 0, 1, poles of tan and the ends of exp."""
    draws = _Draws(dtype, count)
    if draws.info.bits == 16:
        return all_values(dtype)[:: max(1, 2**15 // count)]
    groups = [
        draws.anywhere(),
        draws.between(-4, 4),
        draws.between(-100, 100),
        draws.small(),
        1 + draws.small(),
        draws.small() - 1,
        np.pi / 2 * draws.whole(50),
        draws.whole(50) + draws.small(),
        draws.log_of_largest * draws.between(-1.05, 1.05),
    ]
    return np.concatenate([edge_values(dtype), *[_cast(group, dtype) for group in groups]])


def _complexes(dtype: np.dtype, count: int) -> Array:
    """Edges, all exponents, both sides of cuts, neighborhoods of 1, -1, i, -i and of poles."""
    draws = _Draws(dtype, count)
    corner: Array = draws.generator.choice([1, -1, 1j, -1j], count)
    circle: Array = np.exp(1j * draws.between(-np.pi, np.pi)) * (1 + draws.small())
    ends = draws.log_of_largest * draws.between(-1.05, 1.05)
    groups = [
        (draws.anywhere(), draws.anywhere()),
        (draws.between(-4, 4), draws.between(-4, 4)),
        (draws.small(), draws.small()),
        (corner.real + draws.small(), corner.imag + draws.small()),
        (corner.real + draws.zeros(), corner.imag + draws.small()),
        (corner.real + draws.small(), corner.imag + draws.zeros()),
        (circle.real, circle.imag),
        *_both_ways(draws.between(-3, 3), draws.zeros()),
        *_both_ways(draws.anywhere(), draws.zeros()),
        *_both_ways(draws.between(-3, 3), draws.small()),
        *_both_ways(draws.between(-3, 3), draws.anywhere()),
        *_both_ways(np.pi / 2 * draws.whole(20), draws.small()),
        *_both_ways(ends, draws.between(-4, 4)),
    ]
    return np.concatenate([edge_values(dtype), *[_join(*group, dtype) for group in groups]])


def _both_ways(one: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    yield one, other
    yield other, one


def _pairs(dtype: np.dtype, count: int) -> tuple[Array, Array]:
    """Pairs of edges, of all exponents, of close numbers, of bases and exponents."""
    draws = _Draws(dtype, count)
    if dtype.kind == "c":
        parts = [draws.between(-4, 4) for _ in range(4)]
        return _join(*parts[:2], dtype), _join(*parts[2:], dtype)
    base = 2.0 ** draws.between(-8, 8)
    reach = np.minimum(draws.log_of_largest / np.abs(np.log(base)), 1e3)
    center = draws.between(-4, 4)
    groups = [
        (draws.anywhere(), draws.anywhere()),
        (draws.between(-4, 4), draws.between(-4, 4)),
        (10.0 ** draws.between(-4, 4), 10.0 ** draws.between(-4, 4) * draws.signs()),
        (base, draws.between(-1, 1) * reach),
        (center, center + draws.small()),
        (draws.whole(50), draws.whole(9)),
    ]
    edges = edge_pairs(dtype)
    thinned = slice(None, None, max(1, len(edges[0]) // (4 * count)))
    columns = ([_cast(group[at], dtype) for group in groups] for at in (0, 1))
    first, second = (
        np.concatenate([edge[thinned], *column])
        for edge, column in zip(edges, columns, strict=True)
    )
    return first, second


def operands_of(arity: int, kind: str, count: int) -> tuple[Array, ...]:
    """Operands of a type, about `count` of each sort; those of 16 bits are all values or a part."""
    dtype = TYPES[kind]
    if arity == 2:
        return _pairs(dtype, count)
    return ((_complexes if dtype.kind == "c" else _floats)(dtype, count),)


# Errors.


def _wide(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return x.astype(WIDE_COMPLEX if x.dtype.kind == "c" else WIDE)


def _flushed(x: Array) -> Array:
    """0 for what XLA:CPU may take for it: numbers whose half is denormal."""
    if x.dtype.kind == "c":
        return _join(_flushed(x.real), _flushed(x.imag), x.dtype)
    with np.errstate(invalid="ignore"):
        is_tiny = np.abs(x) < 2 * ml_dtypes.finfo(x.dtype).smallest_normal
    return np.where(is_tiny, np.copysign(np.zeros_like(x), x), x)


def _steps(size: Array, info: Any) -> Array:
    """The distance between neighboring values of the type at these sizes."""
    size = np.where(np.isfinite(size) & (size > 0), np.minimum(size, WIDE(float(info.max))), 1)
    exponent = np.frexp(size)[1] - 1
    return np.ldexp(WIDE(1), np.maximum(exponent, int(info.minexp)) - int(info.nmant))


def _part_errors(actual: Array, truth: Array, info: Any, zeros: bool, slack: float) -> Array:
    """Steps between real numbers; infinite where NaN, infinity or the sign of a zero differs."""
    top = np.ldexp(WIDE(1), int(info.maxexp))
    is_wrong = np.isnan(actual) != np.isnan(truth)
    is_wrong |= np.isinf(truth) & np.isfinite(actual)
    if zeros:
        is_wrong |= (actual == 0) & (np.signbit(actual) != np.signbit(truth)) & ~np.isnan(truth)
    with np.errstate(all="ignore"):
        # Infinity is the step after the largest number.
        error = np.abs(np.clip(actual, -top, top) - np.clip(truth, -top, top))
        steps = np.where(error <= slack, 0, error / _steps(np.abs(truth), info))
    return np.where(is_wrong, np.inf, np.where(np.isnan(truth), 0, steps))


def errors(actual: Array, truth: Array, row: Row, slack: float = 0) -> Array:
    """Steps from results to the truth; see `Row` for what is compared.

    Args:
        actual: results, in their type.
        truth: long doubles, or complex ones.
        row: of the function.
        slack: an absolute error that does not count.
    """
    info = real_part_info(actual.dtype)
    given = _wide(actual)
    if actual.dtype.kind != "c":
        return _part_errors(given, truth, info, row.zeros, slack)
    parts = [(given.real, truth.real), (given.imag, truth.imag)]
    found = [_part_errors(*part, info, row.zeros, slack) for part in parts]
    for at, (one, other) in enumerate(parts):
        # C99 leaves the sign of a zero or infinity open beside NaN.
        is_alike = (one == 0) & (other == 0) | np.isinf(one) & np.isinf(other)
        found[at] = np.where(is_alike & np.isnan(parts[1 - at][1]), 0, found[at])
    by_parts = np.maximum(*found)
    if row.by_parts:
        return by_parts
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(truth.real), np.abs(truth.imag))
        in_plane = np.abs(given - truth) / _steps(size, info)
    is_number = np.isfinite(given) & (size <= float(info.max))
    for one, other in parts:
        is_other_zero = (one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other))
        is_number &= ~(is_other_zero & row.zeros)
    return np.where(is_number, np.minimum(in_plane, by_parts), by_parts)


class Worst(NamedTuple):
    """The largest error of a function, in units of its bound's scale, and where it is."""

    steps: float
    operands: tuple[Any, ...]
    result: Any
    truth: Any

    def __str__(self) -> str:
        operands = ", ".join(map(str, self.operands))
        return f"{self.steps:.3g} at ({operands}): {self.result}, and not {self.truth}"


def worst(row: Row, operands: Sequence[Array], actual: Array, by_xla: bool) -> Worst:
    """The largest error of results; those of XLA:CPU may take tiny numbers for 0."""
    tiny = 2 * float(real_part_info(actual.dtype).smallest_normal)
    given = [operands]
    if by_xla and operands[0].dtype != np.float16:
        given = list(itertools.product(*[(x, _flushed(x)) for x in operands]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truths = [row.truth(*map(_wide, each)) for each in given]
    slack = tiny if len(given) > 1 else 0
    found = np.min([errors(actual, truth, row, slack) for truth in truths], axis=0)
    if row.scale is not None:
        with np.errstate(all="ignore"):
            found = found / row.scale(truths[0], *operands).astype(np.float64)
    for mask in (row.outside, row.apart if by_xla else None):
        if mask is not None:
            with np.errstate(all="ignore"):
                found = np.where(mask(*operands), 0, found)
    at = int(np.argmax(found))
    return Worst(float(found[at]), tuple(x[at] for x in operands), actual[at], truths[0][at])


def results(
    rows: Mapping[str, Row], kind: str, operands: Sequence[Array], options: Mapping[str, Any]
) -> dict[str, tuple[Array, Array]]:
    """What the functions that take the type give, compiled in one program, and in NumPy."""
    names = [name for name, row in rows.items() if row.bound(kind) is not None]

    def everything(*xs: Any) -> list[Any]:
        return [(rows[name].call or getattr(mnp, name))(*xs) for name in names]

    with jax.enable_x64(True):
        compiled = mx.jit(everything, compiler_options=dict(options))(*operands)
        in_numpy = mx.reference(everything)(*operands)
    pairs = zip(names, compiled, in_numpy, strict=True)
    return {name: (np.asarray(one), np.asarray(other)) for name, one, other in pairs}


@functools.cache
def measured(arity: int, kind: str, count: int, options: tuple[Any, ...]) -> dict[str, list[Worst]]:
    """The worst of XLA:CPU and the worst of NumPy, by the functions of a type."""
    rows = UNARY if arity == 1 else BINARY
    operands = operands_of(arity, kind, count)
    found = results(rows, kind, operands, dict(options))
    return {
        name: [worst(rows[name], operands, each, not at) for at, each in enumerate(pair)]
        for name, pair in found.items()
    }


def measure() -> Iterator[str]:
    """Lines: function, type, and the worst errors compiled and in NumPy."""
    for arity in (1, 2):
        for kind in TYPES:
            for name, pair in measured(arity, kind, MANY, tuple(OPTIMIZED.items())).items():
                for who, each in zip(("XLA", "NumPy"), pair, strict=True):
                    yield f"{name} {kind} {who}: {each}"


# The page.

_HEAD = """# Accuracy

This page lists error bounds of element-wise functions, functions of whole arrays, special
functions, and derivatives.

The tables show the largest error of each element-wise function in ULP. One ULP is the distance
between neighboring values of the type at the true result. 0 is exact, and 0.51 is correctly
rounded. The true result is NumPy's function of long doubles, which is accurate to about a
thousandth of an ULP of f64.

Operands are all values of f16 and bf16. For wider types, they are some 40,000 values, or 80,000
complex values:

- zeros of both signs, subnormal numbers, the largest numbers, infinities and NaN in every
  combination;
- both sides of branch cuts, and the neighborhoods of 1, -1, i, -i and of poles;
- random numbers of every exponent.

In f32 and f64, several times as many operands showed no larger error. At other operands, an error
may be slightly larger.

The bounds hold for programs that `mx.jit` compiles on XLA:CPU, and for `mx.reference`, which is
usually more accurate. NaN, infinities and signs of zero follow C99's Annex G, as in the array API.
The last column names the exceptions, where an operation of XLA itself differs. Errors of complex
numbers are distances in the plane, in ULP of the larger part. The errors of the inverse functions,
marked *parts*, hold for the real and the imaginary part separately. C99 leaves the sign of a zero
or infinity beside a NaN open.

XLA:CPU treats subnormal operands, results and intermediate values as zeros in f32, f64, bf16 and
complex types. A compiled result may therefore treat parts of its operands as 0 if they are below
twice the smallest normal number. Absolute errors below that number are not counted.

`python -m tests.minixla.numpy.accuracy` prints this page from the bounds in the tests. `python -m
tests.minixla.numpy.accuracy measure` shows the errors on your machine, and their operands. `make
test` runs a part of the operands, and `make test-full` runs all.
"""
_TITLES = {1: "Functions of one operand", 2: "Functions of two operands"}


def _cells(name: str, row: Row) -> Iterator[str]:
    yield f"`{name}`" + (" *parts*" if row.by_parts else "")
    for kind in TYPES:
        bound = row.bound(kind)
        yield "" if bound is None else f"{bound:g}"
    yield "; ".join(filter(None, [row.limit, "" if row.zeros else "not signs of zeros"]))
    yield row.why


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    columns = ["", *TYPES, "how it is compared", "where XLA:CPU differs"]
    for arity, rows in ((1, UNARY), (2, BINARY)):
        lines = [f"## {_TITLES[arity]}", "", _line(columns), _line(["---"] * len(columns))]
        lines += [_line(_cells(name, row)) for name, row in rows.items()]
        parts.append("\n".join(lines) + "\n")
    return "\n".join([*parts, functions_of_arrays(), special_functions(), derivatives()])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        for line in measure():
            print(line, flush=True)
    else:
        print(page(), end="")
