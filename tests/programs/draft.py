"""Random programs as they are drawn: values, the numbers that they hold, and the next operation.

A `Draft` traces a program and evaluates it by the reference at the same time, so that a row of the
table can ask for operands that hold numbers for which all evaluators promise the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from minixla.core.attributes import Literal
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.tracing import GraphTrace, current_trace, shape_of, trace_to_graph, tracing
from minixla_ops import constant
from minixla_ops.helpers.shorthand import array_shape
from tests.programs.domains import ANY, KINDS, Domain

#: Larger values, and those of more than four dimensions, are not used again.
MOST_ELEMENTS = 96


# Made once: hypothesis' own look-up of a strategy that it has made takes as long as the draw.
_integers = functools.cache(st.integers)


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
        domain: what operands hold where a row asks for nothing in particular.
        symbolic: whether values are unknown, as in the body of a loop.
    """

    def __init__(
        self,
        draw: Any,
        trace: GraphTrace,
        kinds: Sequence[str],
        domain: Domain = ANY,
        symbolic: bool = False,
    ) -> None:
        self.draw = draw
        self.trace = trace
        self.kinds = kinds
        self.domain = domain
        self.symbolic = symbolic
        self.pool: list[Entry] = []
        self.inputs: list[np.ndarray] = []
        self._arrays: dict[int, Any] = {}
        self._evaluated = 0

    # Draws.

    def integer(self, low: int, high: int) -> int:
        """An integer of [low, high]."""
        return self.draw(_integers(low, high))

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

    def fresh(self, kind: str, sizes: Sequence[int], domain: Domain | None = None) -> Any:
        """A new input, or a constant, of numbers of the domain."""
        generator = np.random.default_rng(self.integer(0, 999))
        shape = Shape(kind, sizes)
        domain = domain or self.domain
        array = np.asarray(domain.sample(generator, shape.dtype, shape.dimensions), shape.dtype)
        if self.symbolic or self.chance(4):
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
        domain: Domain | None = None,
        *,
        sizes: Sequence[int] | None = None,
        ranks: Sequence[int] = (2, 1, 0, 3),
        least: int = 0,
    ) -> Any:
        """A value of one of these types and of these sizes, or ranks, with numbers of a domain."""
        domain = domain or self.domain
        fitting = [
            entry.value
            for entry in self.pool
            if self._fits(entry, kinds, domain, sizes, ranks, least)
        ]
        if fitting and not self.chance(5):
            return self.choice(fitting[-8:])
        given = self.sizes(ranks, least) if sizes is None else tuple(sizes)
        return self.fresh(self.kind(kinds), given, domain)

    def like(
        self, value: Any, domain: Domain | None = None, kinds: Sequence[str] | None = None
    ) -> Any:
        """A value of the same sizes and, if no others are named, of the same type."""
        shape = array_shape(value)
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
        shape = array_shape(entry.value)
        if str(shape.element_type) not in kinds:
            return False
        if shape.dimensions != tuple(sizes) if sizes is not None else shape.rank not in ranks:
            return False
        if any(each < least for each in shape.dimensions):
            return False
        if entry.array is None:
            return domain is ANY or (domain.free and not shape.element_type.is_inexact)
        return domain.accepts(entry.array)

    def known(self, value: Any) -> Any:
        """The array that a value is; None where that is unknown."""
        return self._arrays.get(id(self.trace.capture(value)))

    def evaluate(self) -> None:
        """Finds the numbers of all values that were recorded since the last time."""
        for instruction in self.trace.instructions[self._evaluated :]:
            if not self.symbolic or not instruction.operands:
                operands = [self._arrays.get(id(each)) for each in instruction.operands]
                outcome = instruction.op.reference(*operands)
                outcomes = (outcome,) if instruction.single else outcome
                for value, array in zip(instruction.results, outcomes, strict=True):
                    self._check(instruction, value.shape, array)
                    is_number = isinstance(array, np.generic)  # which NumPy gives for a sum
                    self._arrays[id(value)] = np.asarray(array) if is_number else array
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

    def inner(
        self, shapes: Sequence[Any], rows: Sequence[Any], steps: int, outputs: Sequence[Any]
    ) -> Graph:
        """A program of `steps` operations on unknown inputs, with outputs of these shapes."""

        def function(*values: Any) -> list[Any]:
            trace = current_trace()
            assert isinstance(trace, GraphTrace)
            draft = Draft(self.draw, trace, self.kinds, self.domain, symbolic=True)
            for value in values:
                draft.add(value, None)
            for _ in range(steps):
                draft.step(rows)
            return [draft.of_shape(shape) for shape in outputs]

        return trace_to_graph(function, shapes)[0]

    def of_shape(self, shape: Any) -> Any:
        """One of the last values of a shape, or a new one."""
        fitting = [entry.value for entry in self.pool if shape_of(entry.value) is shape]
        if fitting:
            return self.choice(fitting[-4:])
        return self.fresh(str(shape.element_type), shape.dimensions)

    def step(self, rows: Sequence[Any]) -> None:
        """One more operation, of one of the rows."""
        row = self.choice(rows)
        call = row.call(self)
        if call is not None:
            self.record(row.builder(*call[0], **call[1]))

    def finish(self) -> Program:
        """The program; its outputs are the last value and some others."""
        own = [each for each in self.pool if self.trace.capture(each.value).instruction is not None]
        chosen = [each for i, each in enumerate(own) if i == len(own) - 1 or self.chance(3)]
        graph = self.trace.graph([entry.value for entry in chosen])
        return Program(graph, self.inputs, [np.asarray(entry.array) for entry in chosen])


class Program(NamedTuple):
    """A program with numbers.

    Attributes:
        graph: the program.
        inputs: what it is applied to.
        outputs: what the reference gives.
    """

    graph: Graph
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]

    def __repr__(self) -> str:
        return f"{self.graph}\ninputs {self.inputs}\nreference {self.outputs}"


@st.composite
def programs(
    draw: Any,
    rows: Sequence[Any],
    most: int = 30,
    kinds: Sequence[str] = KINDS,
    domain: Domain = ANY,
) -> Program:
    """Programs of 1 to `most` operations.

    Args:
        draw: hypothesis'.
        rows: those of the table that are drawn.
        most: how many operations at most.
        kinds: the element types that are drawn where any would do; up to four of all by default.
        domain: what operands hold where a row asks for nothing in particular.
    """
    if kinds is KINDS:
        kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique=True))
    trace = GraphTrace(current_trace())
    draft = Draft(draw, trace, kinds, domain)
    with tracing(trace), np.errstate(all="ignore"):
        for _ in range(draw(st.integers(1, most))):
            draft.step(rows)
        return draft.finish()
