"""SelectAndScatter: values added where a window's selected elements are (gradients of pooling)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.attributes import Instance, Integers, attribute
from minixla.core.builders import named_like
from minixla.core.derived import batched_graph, jvp_graph
from minixla.core.graph import Graph
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import shape_of
from minixla_ops.folds import sliding_windows
from minixla_ops.folds.fold import initial_values
from minixla_ops.folds.reduce_window import scatter_to_selected, select_and_gather
from minixla_ops.indexing.scatter_computations import apply_updates
from minixla_ops.programs.call import Call
from minixla_ops.programs.computations import (
    check_computation,
    computation_of,
    monoid_of,
    program_of,
    pulled_program,
    sum_over,
)
from minixla_ops.programs.reference_evaluation import apply_elementwise
from minixla_ops.vocabulary.batch_dimensions import align_batches, batch_size, member_shapes
from minixla_ops.vocabulary.shorthand import array_shape

#: Windows that do not overlap, one in up to so many places, are lowered as programs, which XLA:CPU
#: runs many times faster, and for which XLA:GPU needs no memory besides; XLA:TPU accesses 1.6 times
#: the bytes. (Where windows overlap XLA:CPU would compute all anew for each element; programs of
#: some 32 places and more it may compile for minutes.)
_MOST_ELEMENTS = 25


@register
class SelectAndScatter(sliding_windows.Windowed):
    """Combines values into an array where a sliding window's selected elements are.

    For each position of the window one element of `operand` is selected: the first stays while
    `select(it, next)` is True, else the next takes its place, in row-major order; padding is never
    selected. The result starts as `init_value` everywhere; for each position in row-major order
    the selected element's place gets `scatter(result there, source's element)`.
    XLA: SelectAndScatter.

    Args:
        operand: the array under the window.
        select: a Graph or a function of two scalars to pred, such as `ge`: whether the first, which
            comes first, stays selected. Transitive.
        window_dimensions: the window's size in each dimension.
        window_strides: the distance between its positions in each dimension.
        padding: `"SAME"`, `"VALID"` or (low, high) for each dimension; negative numbers take away.
        source: the values, one for each position, of the operand's element type.
        init_value: a scalar: what the result holds before; a Python number is converted.
        scatter: a Graph or a function from what the result holds and a value to what it holds then,
            such as `add`. Associative.

    Returns:
        An array of the operand's shape.

    Checks:
        (C1) source has the operand's element type.
        (C2) each list has one entry for each dimension.
        (C3) window sizes and strides are at least 1.
        (C4) source has an element for each position of the window.
        (C5) init_value is a scalar of the operand's element type.
        (C6) select takes two such scalars and gives a pred.
        (C7) scatter takes two such scalars and gives one.

    Raises:
        TransformError: a computation reads a traced value of the enclosing function.
    """

    stablehlo_name = "select_and_scatter"
    operands = "operand", "source", "init_value"
    linear_operands = (1, 2)
    select: Graph = attribute(Instance(Graph))
    window_dimensions: tuple[int, ...] = attribute(Integers(), hlo=None)
    window_strides: tuple[int, ...] = attribute(Integers(), hlo=None)
    padding: sliding_windows.Pairs = attribute(sliding_windows.PaddingPairs(), hlo=None)
    scatter: Graph = attribute(Instance(Graph))

    def shape(self, operand, source, init_value):
        operand, source, init_value = self.array_shapes([operand, source, init_value])
        if source.element_type is not operand.element_type:
            problem = "source has another element type than operand"
            self.refuse("C1", problem, "Convert it with convert_element_type.")
        self.check_window(operand.rank, "C2", "C3")
        positions = self.window.positions(operand.dimensions)
        if source.dimensions != positions:
            told = f"source has dimensions {source.dimensions}"
            advice = "source must have an element for each position of the window, as what"
            advice = f"{advice} reduce_window with these window arguments gives."
            self.refuse("C4", f"{told}, the window has positions {positions}", advice)
        scalar = Shape(operand.element_type)
        if init_value is not scalar:
            self.refuse("C5", f"init_value is {init_value}", f"It must be {scalar}.")
        check_computation(self, "C6", "select", self.select, (scalar, scalar), (Shape("pred"),))
        check_computation(self, "C7", "scatter", self.scatter, (scalar, scalar), (scalar,))
        return operand

    def reference(self, operand, source, init_value):
        result = np.full(operand.size, init_value, operand.dtype)
        with np.errstate(all="ignore"):
            selected = _selected(operand, self.select, self.window)
        is_any = selected >= 0
        offsets = np.array([*self.window.offsets()]).reshape(-1, operand.ndim)[selected[is_any]]
        starts = np.argwhere(is_any) * self.window_strides - [low for low, _ in self.padding]
        places = tuple((starts + offsets).T)
        targets = np.arange(operand.size).reshape(operand.shape)[places].reshape(-1)
        apply_updates(self.scatter, [result], targets, [source[is_any]])
        return result.reshape(operand.shape)

    def stablehlo(self, emit, operands, shapes, results):
        is_large = self.window.overlaps or math.prod(self.window_strides) > _MOST_ELEMENTS
        if is_large or emit.platform == "tpu":
            return super().stablehlo(emit, operands, shapes, results)
        program = self.program(tuple(shapes))
        return Call(program).stablehlo(emit, operands, shapes, results)

    def program(self, shapes: tuple[AnyShape, ...]) -> Graph:
        """The operation as a program of others, kept with its computation `scatter`."""
        function = partial(scatter_to_selected, self.select, self.scatter, self.window)
        return program_of(self, self.scatter, shapes, function, self.builder_name)

    def jvp(self, primals, tangents, results):
        if monoid_of(self.scatter) == "add":
            # Which elements are selected is piecewise constant in the operand.
            if tangents[1] is None and tangents[2] is None:
                return None
            return super().jvp(primals, [None, *tangents[1:]], results)
        program = self.program(tuple(map(shape_of, primals)))
        derived = jvp_graph(program, tuple([tangent is not None for tangent in tangents]))
        given = [tangent for tangent in tangents if tangent is not None]
        outcome = ops.call(derived.graph, *primals, *given)
        return outcome[1] if derived.known[0] else None

    def transpose(self, cotangents, operands, linear):
        if monoid_of(self.scatter) != "add":
            raise self.not_linear(f"{self.scatter.name}: it is linear only where it sums")
        of_source = of_initial = None
        if linear[1]:
            of_source = select_and_gather(cotangents, operands[0], self.select, self.window)
        if linear[2]:
            of_initial = sum_over(cotangents, range(array_shape(cotangents).rank))
        return None, of_source, of_initial

    def vjp(self, cotangents, operands, results, active):
        if monoid_of(self.scatter) == "add":
            return self.transpose(cotangents, operands, active)
        program = self.program(tuple(map(shape_of, operands)))
        return pulled_program(program, operands, [cotangents], active)

    def batch(self, operands, dimensions):
        if dimensions[2] is not None:
            program = self.program(member_shapes(operands, dimensions))
            size = batch_size(operands, dimensions)
            batched = batched_graph(program, tuple(dimensions), size)
            (result,) = ops.call(batched.graph, *operands)
            return result, batched.known[0]
        (operand, source), at = align_batches(operands[:2], dimensions[:2])
        window = self.window.inserted(at)
        record = SelectAndScatter(self.select, *window[:3], self.scatter)
        return record(operand, source, operands[2]), at


def _selected(operand: np.ndarray, select: Graph, window: sliding_windows.Window) -> np.ndarray:
    """For each position the number of the window's selected element; -1 where there is none."""
    present = window.present(operand.shape)
    view = sliding_windows.window_view(
        sliding_windows.padded_base(operand, np.zeros((), operand.dtype), window), window
    )
    best: Any = None
    chosen = np.full(window.positions(operand.shape), -1)
    for number, (here, index) in enumerate(zip(present, np.ndindex(*window.sizes), strict=True)):
        element = view[(..., *index)]
        taken = here
        if best is not None:
            stays = apply_elementwise(select, [best, element])[0]
            taken = here & ~(stays & (chosen >= 0))
        best = element if best is None else np.where(taken, element, best)
        chosen = np.where(taken, number, chosen)
    return chosen


def _select_and_scatter(
    operand: Any,
    select: Graph | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[Sequence[int]],
    source: Any,
    init_value: Any,
    scatter: Graph | Callable[..., Any],
) -> Any:
    name = "select_and_scatter"
    (shape,) = SelectAndScatter.array_shapes([shape_of(operand, name)])
    scalars = [Shape(shape.element_type)] * 2
    (initial,) = initial_values([shape], [init_value])
    window = sliding_windows.resolve_window(
        shape.dimensions, window_dimensions, window_strides, padding
    )
    record = SelectAndScatter(
        computation_of(select, scalars, name), *window[:3], computation_of(scatter, scalars, name)
    )
    return record(operand, source, initial)


select_and_scatter = named_like(_select_and_scatter, SelectAndScatter)
