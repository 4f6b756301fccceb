"""Simpler variants of a graph with the same inputs and outputs, and simpler numbers.

A variant is a function that makes it, because an edit may be invalid and raise an error. Variants
need not compute the same results: the caller tries them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.shapes import Shape
from minixla.tools.graph_parts import is_array
from minixla.tools.program_edits import (
    Editor,
    inner_programs,
    is_constant,
    replacing,
    with_inner,
)

Variants = Iterator[Callable[[], Graph]]
# Arrays with more elements are simplified as a whole, not element by element.
_MOST_ELEMENTS = 32


def simpler_graphs(graph: Graph) -> Variants:
    """Yield graphs with fewer instructions, also in inner programs."""
    for step in reversed(graph.instructions):
        for inner in inner_programs(step):
            yield from _with_inlined(graph, step, inner)
        if not is_constant(step):
            yield from _without(graph, step)
    yield from _with_other_outputs(graph)
    for step in graph.instructions:
        for inner in inner_programs(step):
            for make in simpler_graphs(inner):
                yield partial(with_inner, graph, step, inner, make)
        for index in range(len(step.results) if step.op.name == "While" else 0):
            if step.op.body.outputs[index] is step.op.body.inputs[index]:
                yield partial(_without_loop_value, graph, step, index)


def simpler_constants(graph: Graph) -> Variants:
    """Yield graphs with simpler numbers in a constant, also in inner programs."""
    for step in graph.instructions:
        if is_constant(step) and step.op.literal.is_printed:
            for array in simpler_arrays(step.op.literal.array):
                results = partial(_constants, [array])
                yield partial(replacing, graph, step, results)
        for inner in inner_programs(step):
            for make in simpler_constants(inner):
                yield partial(with_inner, graph, step, inner, make)


def simpler_arrays(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield arrays of the same shape with simpler numbers, the simplest first."""
    for number in (0, 1):
        yield np.full(array.shape, number).astype(array.dtype)
    flat = array.ravel()
    distinct = {number.tobytes(): number for number in flat[:4096]}
    for number in list(distinct.values())[: 8 if flat.size > 1 else 0]:
        yield np.full(array.shape, number)
    for number in list(distinct.values())[:8]:
        is_number = np.array([element.tobytes() == number.tobytes() for element in flat])
        for simpler in simpler_numbers(number):
            yield np.where(is_number, simpler, flat).astype(array.dtype).reshape(array.shape)
    if not 1 < flat.size <= _MOST_ELEMENTS:
        return
    for index in range(flat.size):
        for number in (0, 1):
            changed = flat.copy()
            changed[index] = np.asarray(number).astype(array.dtype)
            yield changed.reshape(array.shape)


def simpler_numbers(number: Any) -> Iterator[Any]:
    """Yield simpler scalars than a scalar of an array."""
    kind = element_type(number.dtype)
    if kind.is_complex:
        yield from (number.real + 0j, 1j * number.imag)
        return
    wide = float(number) if kind.is_float else int(number)
    if wide != wide or wide in (float("inf"), float("-inf")):
        return
    candidates: list[float] = [2, 3, -1, abs(wide), wide // 2 if kind.is_integer else wide / 2]
    if kind.is_integer:
        candidates += [wide - 1] if wide > 0 else [wide + 1]
    elif wide:
        exponent = int(np.floor(np.log2(abs(wide))))
        # Round to a whole number, a power of two, one and two digits.
        candidates += [float(round(wide)), float(np.ldexp(1.0, exponent)), float(f"{wide:.0e}")]
        candidates += [float(f"{wide:.1e}")]
    with np.errstate(all="ignore"):
        for candidate in candidates:
            if candidate >= 0 or kind.kind != "unsigned":
                yield np.asarray(candidate).astype(number.dtype)


def number_cost(array: np.ndarray) -> int:
    """Return how complicated the numbers of an array are, in characters."""
    flat = array.ravel()
    distinct = {number.tobytes(): number for number in flat[:4096]}
    simple = {np.full((), number).astype(array.dtype).tobytes() for number in (0, 1)}
    cost = sum(len(f"{number}") + 1 for key, number in distinct.items() if key not in simple)
    changes = flat.view(np.uint8).reshape(flat.size, -1) if flat.size else flat.reshape(0, 1)
    jumps = int((changes[1:] != changes[:-1]).any(axis=1).sum()) if flat.size > 1 else 0
    zeros = 0 if not flat.size else int(np.count_nonzero(changes.any(axis=1)))
    return 4 * cost + 2 * jumps + min(zeros, 1)


def _constants(arrays: Sequence[np.ndarray], editor: Editor) -> list[Value]:
    return [editor.constant(array) for array in arrays]


def _with_inlined(graph: Graph, step: Instruction, inner: Graph) -> Variants:
    """Yield the graph with an inner program in place of the instruction that runs it, if it fits.

    For a loop that is one iteration, and for a conditional one of its branches.
    """
    operands = step.operands[len(step.operands) - len(inner.inputs) :]
    shapes = tuple([value.shape for value in operands])
    if shapes == inner.input_shapes and inner.output_shapes == tuple(step.shapes):

        def results(editor: Editor) -> list[Value]:
            return editor.inline(inner, [editor.values[x] for x in operands])

        yield partial(replacing, graph, step, results)


def _without(graph: Graph, step: Instruction) -> Variants:
    """Yield the graph with an operand, zeros or ones in place of an instruction's results."""
    for operand in dict.fromkeys(step.operands):
        if all(operand.shape == shape for shape in step.shapes):

            def results(editor: Editor, operand: Value = operand) -> list[Value]:
                return [editor.values[operand]] * len(step.results)

            yield partial(replacing, graph, step, results)
    if all(map(is_array, step.results)):
        shapes = [shape for shape in step.shapes if isinstance(shape, Shape)]
        for number in (0, 1):
            arrays = [np.full(x.dimensions, number).astype(x.dtype) for x in shapes]
            yield partial(replacing, graph, step, partial(_constants, arrays))


def _with_other_outputs(graph: Graph) -> Variants:
    """Yield the graph with an input in place of an output."""
    for index, output in enumerate(graph.outputs):
        for value in graph.inputs if output.instruction is not None else ():
            if value.shape == output.shape:
                outputs = [*graph.outputs[:index], value, *graph.outputs[index + 1 :]]
                yield partial(_with_outputs, graph, outputs)


def _with_outputs(graph: Graph, outputs: Sequence[Value]) -> Graph:
    return Graph(graph.inputs, graph.instructions, outputs, graph.name).pruned()


def _without_loop_value(graph: Graph, step: Instruction, index: int) -> Graph:
    """Return the graph where a loop does not carry a value that its body returns unchanged."""
    op, initial = step.op, step.operands[index]

    def results(editor: Editor) -> list[Value]:
        programs = [_without_input(inner, index, initial) for inner in (op.condition, op.body)]
        body = programs[1]
        outputs = [*body.outputs[:index], *body.outputs[index + 1 :]]
        smaller = type(op)(programs[0], _with_outputs(body, outputs))
        operands = [editor.values[x] for i, x in enumerate(step.operands) if i != index]
        made = list(editor.add(smaller, operands, step.source))
        made.insert(index, editor.values[initial])
        return made

    return replacing(graph, step, results)


def _without_input(graph: Graph, index: int, value: Value) -> Graph:
    """Return a graph without one input, which must be a constant outside if it is read."""
    editor = Editor(graph)
    removed = editor.inputs.pop(index)
    for place, each in enumerate(editor.inputs):
        each.index = place
    if value.literal is not None:
        editor.values[graph.inputs[index]] = editor.constant(value.literal.array)
    made = editor.run(lambda *_: None)
    if any(removed in step.operands for step in made.instructions):
        raise ValueError("the program reads the input")
    return made
