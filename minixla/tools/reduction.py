"""Reduction of a program: the smallest one found for which something still holds.

Each pass tries smaller programs, and keeps one for which it holds. A program is smaller if it has
fewer instructions, else fewer constants and inputs, else fewer elements, else simpler numbers. So
the passes end. The results of a candidate do not matter, and it may be invalid: an edit that raises
an error is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from minixla.core.errors import MinixlaError
from minixla.core.graph import Graph, Value
from minixla.core.shapes import Shape
from minixla.tools.graph_parts import every_step, inlined, is_array
from minixla.tools.program_edits import (
    Program,
    cut,
    inner_programs,
    instruction_count,
    is_constant,
    resized,
    showing,
    tidy,
)
from minixla.tools.rounding import declared_values
from minixla.tools.simplifications import (
    number_cost,
    simpler_arrays,
    simpler_constants,
    simpler_graphs,
)

#: A function that makes a candidate, which may raise an error.
Candidates = Iterator[Callable[[], Program]]
_INVALID = (MinixlaError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
# Larger arrays do not become constants.
_MOST_BYTES = 4096


def reduced(program: Program, holds: Callable[[Program], bool], seconds: float) -> Program:
    """Return a small program for which something holds.

    Args:
        program: a program for which it holds.
        holds: the test; errors of invalid programs count as False.
        seconds: the time after which no other candidate is tried.

    Returns:
        The smallest program found; the first one if no smaller one was found.
    """
    return Reducer(holds, seconds).run(program)


class Reducer:
    """The search for a small program for which something holds."""

    def __init__(self, holds: Callable[[Program], bool], seconds: float) -> None:
        self._holds = holds
        self._end = time.monotonic() + seconds
        self._tried: set[Any] = set()

    def run(self, program: Program) -> Program:
        """Return the smallest program found."""
        program = self._improved(program, _without_calls)
        program = self._improved(program, _single_outputs)
        program = self._bisected(program, _beginning)
        program = self._improved(program, _single_outputs)
        program = self._bisected(program, _ending)
        passes = (_earlier_outputs, _cuts, _inner_programs, _graphs, _sizes, _numbers)
        while True:
            before = program
            for candidates in passes:
                program = self._improved(program, candidates)
            if program is before:
                return program

    def _improved(self, program: Program, candidates: Callable[[Program], Candidates]) -> Program:
        """Return the program after one pass, which ends when no candidate is left to try."""
        start, size = 0, _size(program)
        while True:
            for number, make in enumerate(candidates(program)):
                if time.monotonic() > self._end:
                    return program
                # The first ones were tried before the last change.
                smaller = self._tried_one(make, size) if number >= start else None
                if smaller is not None:
                    program, start, size = smaller, number, _size(smaller)
                    break
            else:
                if start == 0:
                    return program
                start = 0

    def _tried_one(self, make: Callable[[], Program], size: Any = None) -> Program | None:
        """Return a candidate if it is smaller, new, valid, and the condition holds."""
        try:
            candidate = tidy(make())
            if size is not None and not _size(candidate) < size:
                return None
            key = candidate.graph, *[array.tobytes() for array in candidate.operands]
            if key in self._tried:
                return None
            self._tried.add(key)
            return candidate if self._holds(candidate) else None
        except _INVALID:
            return None

    def _bisected(
        self, program: Program, part: Callable[[Program, int, dict[Value, Any]], Program]
    ) -> Program:
        """Return the shortest part of a program found by bisection."""
        values = declared_values(*program)
        few, many = 0, len(program.graph.instructions)
        shortest = program
        while many - few > 1 and time.monotonic() < self._end:
            middle = (few + many) // 2
            candidate = self._tried_one(partial(part, program, middle, values))
            few, many = (few, middle) if candidate is not None else (middle, many)
            shortest = candidate or shortest
        return shortest


def _size(program: Program) -> Any:
    """Return a key that orders programs by size."""
    graph = program.graph
    steps = list(every_step(graph))
    arrays = [*program.operands, *[x.op.literal.array for x in steps if is_constant(x)]]
    count = len(steps) + len(graph.inputs) + len(graph.outputs)
    elements = sum(shape.size for shape in _shapes(graph))
    return instruction_count(graph), count, elements, sum(map(number_cost, arrays))


def _shapes(graph: Graph) -> list[Shape]:
    """Return the shapes of all arrays in a program."""
    results = [shape for step in every_step(graph) for shape in step.shapes]
    return [shape for shape in (*graph.input_shapes, *results) if isinstance(shape, Shape)]


def _live(graph: Graph, count: int) -> list[Value]:
    """Return the values made by the first instructions that the others or the outputs read."""
    read = {x for step in graph.instructions[count:] for x in step.operands}
    read |= {*graph.outputs}
    made = [x for step in graph.instructions[:count] for x in step.results]
    return [value for value in made if value in read]


def _beginning(program: Program, count: int, values: dict[Value, Any]) -> Program:
    """Return the first instructions, whose values that are read later are the outputs."""
    steps = program.graph.instructions[:count]
    live = [x for x in _live(program.graph, count) if is_array(x)]
    if not live:
        raise ValueError("no array is read later")
    return showing(Program(_of(program.graph, steps), program.operands), live)


def _of(graph: Graph, steps: Sequence[Any]) -> Graph:
    return Graph(graph.inputs, steps, graph.outputs, graph.name)


def _ending(program: Program, left: int, values: dict[Value, Any]) -> Program:
    """Return the last instructions, which take the values that they read."""
    graph = program.graph
    count = len(graph.instructions) - left
    live = [value for value in _live(graph, count) if value.literal is None]
    if not all(map(is_array, live)):
        raise ValueError("they read values that are not arrays")
    return cut(program, {value: np.asarray(values[value]) for value in live}, False)


def _without_calls(program: Program) -> Candidates:
    yield lambda: Program(inlined(program.graph.silent()), program.operands)


def _single_outputs(program: Program) -> Candidates:
    for output in program.graph.outputs if len(program.graph.outputs) > 1 else ():
        yield partial(showing, program, [output])


def _earlier_outputs(program: Program) -> Candidates:
    """Yield the program with an intermediate value as its only output."""
    for step in program.graph.instructions:
        for value in step.results:
            if is_array(value) and not is_constant(step):
                yield partial(showing, program, [value])


def _cuts(program: Program) -> Candidates:
    """Yield the program with inputs or constants in place of an instruction's results."""
    values = declared_values(*program)
    for step in reversed(program.graph.instructions):
        if is_constant(step) or not all(map(is_array, step.results)):
            continue
        arrays = {value: np.asarray(values[value]) for value in step.results}
        yield partial(cut, program, arrays, False)
        if sum(array.nbytes for array in arrays.values()) <= _MOST_BYTES:
            yield partial(cut, program, arrays, True)


def _inner_programs(program: Program) -> Candidates:
    """Yield the programs that instructions run, with the operands of their first run.

    A program that takes slices of an operand, as the body of a scan, gets the first ones.
    """
    values = declared_values(*program)
    for step in program.graph.instructions:
        for inner in inner_programs(step):
            read = step.operands[len(step.operands) - len(inner.inputs) :]
            arrays = [np.asarray(values[value]) for value in read if is_array(value)]
            yield partial(_of_arrays, inner, arrays)


def _of_arrays(graph: Graph, arrays: Sequence[np.ndarray]) -> Program:
    """Return a program with operands of its shapes, made of arrays or their first slices."""
    operands = []
    for shape, array in zip(graph.input_shapes, arrays, strict=True):
        operand = array if Shape(array.dtype, array.shape) == shape else array[0]
        if Shape(operand.dtype, operand.shape) != shape:
            raise ValueError("the operands do not fit")
        operands.append(operand)
    return Program(graph, tuple(operands))


def _graphs(program: Program) -> Candidates:
    for make in simpler_graphs(program.graph):
        yield partial(_with_graph, program, make)


def _numbers(program: Program) -> Candidates:
    """Yield the program with simpler numbers in an input or a constant."""
    for index, operand in enumerate(program.operands):
        for array in simpler_arrays(operand):
            operands = (*program.operands[:index], array, *program.operands[index + 1 :])
            yield partial(Program, program.graph, operands)
    for make in simpler_constants(program.graph):
        yield partial(_with_graph, program, make)


def _with_graph(program: Program, make: Callable[[], Graph]) -> Program:
    return Program(make(), program.operands)


def _sizes(program: Program) -> Candidates:
    """Yield the program with smaller dimensions."""
    sizes = {size for shape in _shapes(program.graph) for size in shape.dimensions}
    for size in sorted(sizes - {0, 1}, reverse=True):
        for smaller in sorted({1, 2, size // 2, size - 1} - {0, size}):
            pairs = {size: smaller}
            # Windows and padding often add up to the size.
            for changes in (pairs, {**pairs, size - 1: smaller - 1}):
                for is_last in (False, True):
                    yield partial(resized, program, changes, is_last)
