"""Random programs as they are drawn: values, the numbers that they hold, and the next operation.

A `Draft` traces a program and evaluates it by the reference at the same time, so that a row of the
table can ask for operands that hold numbers for which all evaluators promise the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.tracing import GraphTrace, current_trace, shape_of, trace_to_graph, tracing
from tests.oracles.values import edge_values, is_float, random_values

# Not s2 and u2: XLA:CPU compares them wrongly with constants, and their concatenation kills it.
SIGNED = ("s32", "s8", "s64", "s16", "s4")
UNSIGNED = ("u8", "u32", "u64", "u16", "u4")
# Not f4, f6 and f8e8m0fnu: XLA:CPU or the interpreter does not compute in them.
SMALL = ("f8e4m3fn", "f8e5m2", "f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz")
FLOATS = ("f32", "f64", "f16", "bf16", *SMALL)
COMPLEX = ("c64", "c128")
PRED = ("pred",)
INTEGERS = (*SIGNED, *UNSIGNED)
REALS = (*FLOATS, *INTEGERS)
NUMERIC = (*REALS, *COMPLEX)
KINDS = (*NUMERIC, *PRED)

MOST_ELEMENTS = 96


def is_inexact(dtype: np.dtype) -> bool:
    """Whether it is a floating-point or complex type."""
    return dtype.kind == "c" or is_float(dtype)


def largest_exact(dtype: np.dtype) -> float:
    """Up to which number a floating-point type has all integers."""
    info = ml_dtypes.finfo(np.real(np.zeros((), dtype)).dtype)
    return min(2.0 ** (info.nmant + 1), float(info.max))


class Domain(NamedTuple):
    """Which numbers an operand may hold: of a known array, and of one that is drawn.

    Attributes:
        accepts: whether an array holds only such numbers.
        sample: an array of a type and sizes.
        free: whether it takes every array of integers and Booleans, so that nothing need be known.
    """

    accepts: Callable[[np.ndarray], bool]
    sample: Callable[[np.random.Generator, np.dtype, tuple[int, ...]], np.ndarray]
    free: bool = False


def _parts(array: np.ndarray) -> np.ndarray:
    """The real numbers in a floating-point or complex array, in double."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag]).astype(np.float64)
    return array.astype(np.float64)


def _small(
    generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...], most: float = 3
) -> np.ndarray:
    """Small whole numbers, of both signs where the type has them."""
    low = 0 if dtype == np.bool_ or "uint" in dtype.name else -int(most)
    most = 1 if dtype == np.bool_ else int(most)
    numbers = generator.integers(low, most, sizes, endpoint=True).astype(np.float64)
    if dtype.kind == "c":
        return (numbers + 1j * generator.integers(low, most, sizes, endpoint=True)).astype(dtype)
    return numbers.astype(dtype)


def _normal(array: np.ndarray) -> np.ndarray:
    """The array with zeros for denormal numbers."""
    if array.dtype.kind == "c":
        parts = np.stack([array.real, array.imag], -1)
        return _normal(parts).view(array.dtype)[..., 0]
    smallest = float(ml_dtypes.finfo(array.dtype).smallest_normal)
    with np.errstate(invalid="ignore"):
        tiny = np.abs(array.astype(np.float64)) < smallest
    return np.where(tiny, np.zeros((), array.dtype), array)


def _any(
    generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...], special: bool = True
) -> np.ndarray:
    """Numbers from everywhere: NaN, infinities and -0 too where `special`."""
    if generator.random() < 0.5:
        return _small(generator, dtype, sizes)
    if dtype != np.bool_ and generator.random() < 0.5:
        values = edge_values(dtype)
        if is_inexact(dtype):
            keep = np.isfinite(_parts(values))
            keep = keep.all(0) if dtype.kind == "c" else keep
            values = _normal(values if special else values[keep])
        found = generator.choice(values, sizes)
    else:
        found = random_values(dtype, sizes, int(generator.integers(2**31)))
        found = _normal(found) if is_inexact(dtype) else found
    if not special and is_inexact(dtype):
        found = found + np.zeros((), dtype)  # -0 becomes 0
    return np.asarray(found, dtype)


def whole(most: Callable[[np.dtype], float], free: bool = True) -> Domain:
    """Integers of any size, and floats that are whole numbers up to a bound, without -0.

    Sums and products of such are exact in any order and with any intermediate precision.
    """

    def accepts(array: np.ndarray) -> bool:
        if not is_inexact(array.dtype):
            return True
        parts = _parts(array)
        with np.errstate(invalid="ignore"):
            whole_numbers = (parts == np.round(parts)) & (np.abs(parts) <= most(array.dtype))
        return bool((whole_numbers & ~((parts == 0) & np.signbit(parts))).all())

    def sample(
        generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...]
    ) -> np.ndarray:
        if is_inexact(dtype):
            return _small(generator, dtype, sizes, min(3, most(dtype)))
        return _any(generator, dtype, sizes)

    return Domain(accepts, sample, free)


def summed(count: int) -> Domain:
    """What may be summed `count` at a time."""
    return whole(lambda dtype: largest_exact(dtype) // max(count, 1))


def multiplied(count: int = 1) -> Domain:
    """What may be multiplied, and `count` of the products summed; complex ones are two each."""
    return whole(lambda dtype: (largest_exact(dtype) / max(2 * count, 2)) ** 0.5 // 1)


def _finite_normal(array: np.ndarray) -> bool:
    if not is_inexact(array.dtype):
        return True
    parts, info = _parts(array), ml_dtypes.finfo(np.real(array).dtype)
    fits = np.isfinite(parts) & ((parts == 0) | (np.abs(parts) >= float(info.smallest_normal)))
    return bool((fits & ~((parts == 0) & np.signbit(parts))).all())


def small(low: int, high: int) -> Domain:
    """Whole numbers of [low, high]; from 0 on in types without a sign."""

    def accepts(array: np.ndarray) -> bool:
        values = array.astype(np.float64)
        return bool(((values >= low) & (values <= high) & (values == np.round(values))).all())

    def sample(
        generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...]
    ) -> np.ndarray:
        info = ml_dtypes.finfo(dtype) if is_float(dtype) else ml_dtypes.iinfo(dtype)
        least, most = max(low, int(float(info.min))), min(high, int(float(info.max)))
        return generator.integers(least, most, sizes, endpoint=True).astype(dtype)

    return Domain(accepts, sample)


#: Every number; NaN keeps no bits.
ANY = Domain(lambda array: True, _any, free=True)
#: Numbers that every order puts in the same places: no NaN, no -0, no denormals.
ORDERED = Domain(_finite_normal, lambda *given: _any(*given, special=False), free=True)
#: What may be added to another such number.
TERM = summed(2)
#: What may be multiplied by another such number.
FACTOR = multiplied()


class Entry(NamedTuple):
    """A value of a program and the array that it is, where that is known."""

    value: Any
    array: Any


class Draft:
    """A program that is being drawn.

    Args:
        draw: hypothesis' function that draws from a strategy.
        trace: what records the program.
        kinds: element types that are drawn where any would do.
        symbolic: whether values are unknown, as in the body of a loop.
    """

    def __init__(
        self, draw: Any, trace: GraphTrace, kinds: Sequence[str], symbolic: bool = False
    ) -> None:
        self.draw = draw
        self.trace = trace
        self.kinds = kinds
        self.symbolic = symbolic
        self.pool: list[Entry] = []
        self.inputs: list[np.ndarray] = []
        self.used: list[str] = []
        self._arrays: dict[int, Any] = {}
        self._evaluated = 0

    # Draws.

    def integer(self, low: int, high: int) -> int:
        """An integer of [low, high]."""
        return self.draw(st.integers(low, high))

    def choice(self, given: Any) -> Any:
        """One of a sequence."""
        given = list(given)
        return given[self.integer(0, len(given) - 1)]

    def chance(self, one_in: int = 2) -> bool:
        """True once in `one_in` times."""
        return self.integer(0, one_in - 1) == one_in - 1

    def subset(self, given: Sequence[Any]) -> list[Any]:
        """Some of a sequence, in its order."""
        return [each for each in given if self.chance()]

    def shuffled(self, given: Any) -> list[Any]:
        """A sequence in another order."""
        return self.draw(st.permutations(list(given)))

    def size(self, least: int = 0) -> int:
        """A dimension's size."""
        return max(self.choice((2, 3, 1, 4, 0)), least)

    def sizes(self, ranks: Sequence[int] = (2, 1, 0, 3), least: int = 0) -> tuple[int, ...]:
        """The sizes of an array."""
        return tuple([self.size(least) for _ in range(self.choice(ranks))])

    def kind(self, allowed: Sequence[str]) -> str:
        """An element type: one of the program's own where these are allowed."""
        return self.choice([each for each in self.kinds if each in allowed] or allowed)

    # Values.

    def fresh(self, kind: str, sizes: Sequence[int], domain: Domain = ANY) -> Any:
        """A new input, or a constant, of numbers of the domain."""
        generator = np.random.default_rng(self.integer(0, 999))
        shape = Shape(kind, sizes)
        array = np.asarray(domain.sample(generator, shape.dtype, shape.dimensions), shape.dtype)
        if self.symbolic or self.chance(4):
            from minixla.core.attributes import Literal
            from minixla_ops import constant

            value = constant(Literal(array, shape))
            self.evaluate()
        else:
            value = self.trace.add_input(shape)
            self.inputs.append(array)
            self._arrays[id(value._value)] = array
        return self.add(value, array)

    def add(self, value: Any, array: Any) -> Any:
        """Puts a value into the pool."""
        if isinstance(shape_of(value), Shape):
            self.pool.append(Entry(value, array))
        return value

    def array(
        self,
        kinds: Sequence[str] = KINDS,
        domain: Domain = ANY,
        *,
        sizes: Sequence[int] | None = None,
        ranks: Sequence[int] = (2, 1, 0, 3),
        least: int = 0,
    ) -> Any:
        """A value of one of these types and of these sizes, or ranks, with numbers of a domain."""
        fitting = [
            entry.value
            for entry in self.pool
            if self._fits(entry, kinds, domain, sizes, ranks, least)
        ]
        if fitting and not self.chance(5):
            return self.choice(fitting[-8:])
        given = self.sizes(ranks, least) if sizes is None else tuple(sizes)
        return self.fresh(self.kind(kinds), given, domain)

    def like(self, value: Any, domain: Domain = ANY, kinds: Sequence[str] | None = None) -> Any:
        """A value of the same sizes and, if no others are named, of the same type."""
        shape = shape_of(value)
        return self.array(kinds or (str(shape.element_type),), domain, sizes=shape.dimensions)

    def _fits(
        self,
        entry: Entry,
        kinds: Sequence[str],
        domain: Domain,
        sizes: Sequence[int] | None,
        ranks: Sequence[int],
        least: int,
    ) -> bool:
        shape = shape_of(entry.value)
        if str(shape.element_type) not in kinds:
            return False
        if shape.dimensions != tuple(sizes) if sizes is not None else shape.rank not in ranks:
            return False
        if any(each < least for each in shape.dimensions):
            return False
        if entry.array is None:
            return domain.free and not shape.element_type.is_inexact
        return domain.accepts(entry.array)

    def known(self, value: Any) -> Any:
        """The array that a value is; None where that is unknown."""
        return self._arrays.get(id(self.trace.capture(value)))

    def evaluate(self) -> None:
        """Finds the numbers of all values that were recorded since the last time."""
        for instruction in self.trace.instructions[self._evaluated :]:
            if not self.symbolic or not instruction.operands:
                operands = [self._arrays.get(id(each)) for each in instruction.operands]
                outcome = instruction.op.reference(*operands, **instruction.attributes)
                outcomes = (outcome,) if instruction.single else outcome
                for value, array in zip(instruction.results, outcomes, strict=True):
                    self._check(instruction, value.shape, array)
                    self._arrays[id(value)] = array
        self._evaluated = len(self.trace.instructions)

    def _check(self, instruction: Any, shape: Any, array: Any) -> None:
        if isinstance(shape, Shape):
            found = np.asarray(array)
            assert (found.dtype, found.shape) == (shape.dtype, shape.dimensions), (
                f"the reference of {instruction.op.name} gives {found.dtype}{list(found.shape)} "
                f"where its shape rule says {shape}"
            )

    # Programs.

    def record(self, results: Any) -> None:
        """Puts the results of a builder into the pool."""
        self.evaluate()
        for each in results if isinstance(results, (list, tuple)) else [results]:
            shape = shape_of(each)
            if isinstance(shape, Shape) and shape.size <= MOST_ELEMENTS and shape.rank <= 4:
                self.add(each, self.known(each))

    def inner(self, shapes: Sequence[Any], rows: Sequence[Any], steps: int, outputs: Any) -> Graph:
        """A program whose inputs are unknown, of `steps` operations, with outputs of given shapes."""

        def function(*values: Any) -> list[Any]:
            draft = Draft(self.draw, current_trace(), self.kinds, symbolic=True)
            for value in values:
                draft.add(value, None)
            for _ in range(steps):
                draft.step(rows)
            found = []
            for shape in outputs:
                fitting = [e.value for e in draft.pool if shape_of(e.value) is shape]
                found.append(
                    self.choice(fitting[-4:])
                    if fitting
                    else draft.fresh(str(shape.element_type), shape.dimensions)
                )
            return found

        return trace_to_graph(function, shapes)[0]

    def step(self, rows: Sequence[Any]) -> None:
        """One more operation, of one of the rows."""
        row = self.choice(rows)
        call = row.call(self)
        if call is not None:
            self.used.append(row.name)
            self.record(row.builder(*call[0], **call[1]))

    def finish(self) -> tuple[Graph, list[np.ndarray], list[Any]]:
        """The program, its inputs, and the reference's outputs: the last value and some others."""
        own = [e for e in self.pool if self.trace.capture(e.value).instruction is not None]
        chosen = [*own[:-1], *own[-1:]]
        chosen = [e for i, e in enumerate(own) if i == len(own) - 1 or self.chance(3)]
        graph = self.trace.graph([entry.value for entry in chosen])
        return graph, self.inputs, [np.asarray(entry.array) for entry in chosen]


def drawn_program(
    draw: Any, rows: Sequence[Any], most: int = 30
) -> tuple[Graph, list[np.ndarray], list[Any]]:
    """A program of 1 to `most` operations, its inputs and the reference's outputs."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique=True))
    trace = GraphTrace(current_trace())
    draft = Draft(draw, trace, kinds)
    with tracing(trace):
        for _ in range(draw(st.integers(1, most))):
            draft.step(rows)
        return draft.finish()
