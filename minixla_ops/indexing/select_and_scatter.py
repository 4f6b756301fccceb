"""SelectAndScatter: scatter values to the selected elements of windows (gradients of pooling)."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core import Graph, Operation, Shape, register, shape_of
from minixla.core.attributes import Instance, attribute
from minixla.core.builders import builds
from minixla.core.sharding_rule import ABSENT, NEED_REPLICATION, PERMUTATION
from minixla.typing import Array, ArrayLike
from minixla_ops.folds import sliding_windows
from minixla_ops.folds.fold import initial_values
from minixla_ops.folds.reduce_window import select_and_gather
from minixla_ops.folds.selected_elements import scatter_to_selected, selected_elements
from minixla_ops.helpers.batch_dimensions import align_batches
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.indexing.scatter_computations import apply_updates
from minixla_ops.programs import computations
from minixla_ops.programs.lowering import Lowered, lowered_program
from minixla_ops.programs.reference_evaluation import apply_elementwise


@register
class SelectAndScatter(Lowered, sliding_windows.Windowed):
    """Combine values into an array at the selected elements of a sliding window.

    In each window position one element of `operand` is selected. In row-major order, the current
    element is kept while `select(current, next)` is true, else the next one replaces it. Padding is
    never selected. The result starts as `init_value` everywhere. For each position in row-major
    order, the result at the selected element becomes `scatter(result, element of source)`.
    XLA: SelectAndScatter.

    Args:
        operand: the array under the window.
        select: a Graph or a function of two scalars to pred, such as `ge`: whether the first,
            earlier element stays selected. It must be transitive.
        window_dimensions: the window's size in each dimension.
        window_strides: the distance between its positions in each dimension.
        padding: `"SAME"`, `"VALID"` or (low, high) for each dimension; negative numbers crop.
        source: the values, one for each position, with the operand's element type.
        init_value: a scalar, the initial value of the result; a Python scalar is converted.
        scatter: a Graph or a function from the current result and a value to the new result, such
            as `add`. It must be associative.

    Returns:
        An array with the operand's shape.

    Checks:
        (C1) source has the operand's element type.
        (C2) each list has one entry for each dimension.
        (C3) window sizes and strides are at least 1.
        (C4) source has an element for each position of the window.
        (C5) init_value is a scalar of the operand's element type.
        (C6) select takes two scalars of this type and returns a pred.
        (C7) scatter takes two scalars of this type and returns one.

    Raises:
        TransformError: a computation reads a traced value of the enclosing function.

    Example:
        >>> x, values = np.int32([1, 5, 2, 3]), np.int32([10, 20])
        >>> ops.select_and_scatter(x, ops.ge, (2,), (2,), "VALID", values, 0, ops.add)
        Array([ 0, 10,  0, 20], dtype=int32)
    """

    stablehlo_name = "select_and_scatter"
    operands = "operand", "source", "init_value"
    linear_operands = (1, 2)
    select: Graph = attribute(Instance(Graph))
    scatter: Graph = attribute(Instance(Graph))

    def shape(self, operand, source, init_value):
        if source.element_type is not operand.element_type:
            problem = "source must have the element type of operand"
            self.refuse("C1", problem, "Convert it with convert_element_type.")
        self.check_window(operand.rank, "C2", "C3")
        positions = self.window.positions(operand.dimensions)
        if source.dimensions != positions:
            told = f"source has dimensions {source.dimensions}, but"
            advice = "source must have an element for each position of the window, like the"
            advice = f"{advice} result of reduce_window with these window arguments."
            self.refuse("C4", f"{told} the window has positions {positions}", advice)
        scalar = Shape(operand.element_type)
        if init_value is not scalar:
            self.refuse("C5", f"init_value must be {scalar}, not {init_value}")
        check, both = computations.check_computation, (scalar, scalar)
        check(self, "C6", "select", self.select, both, [Shape("pred")])
        check(self, "C7", "scatter", self.scatter, both, [scalar])
        return operand

    def reference(self, operand, source, init_value):
        result = np.full(operand.size, init_value, operand.dtype)
        with np.errstate(all="ignore"):
            selected = _selected(operand, self.select, self.window)
        # In row-major order, the flat index is the sum of the indices along each dimension.
        steps = [math.prod(operand.shape[dimension + 1 :]) for dimension in range(operand.ndim)]
        offsets = np.array([np.dot(offset, steps) for offset in self.window.offsets()])
        counts = zip(selected.shape, self.window_strides, self.padding, steps, strict=True)
        starts = [(np.arange(n) * stride - low) * step for n, stride, (low, _), step in counts]
        targets = sum(np.ix_(*starts), offsets[selected])
        is_any = selected >= 0
        apply_updates(self.scatter, [result], targets[is_any], [source[is_any]])
        return result.reshape(operand.shape)

    def stablehlo(self, emit, operands, shapes, results):
        # XLA aborts if padding removes more elements than there are.
        rule = Operation if shapes[1].size else Lowered
        return rule.stablehlo(self, emit, operands, shapes, results)

    def selected_elements(self, operand: Array) -> ArrayLike:
        """Return the index of the selected element for each position, s32."""
        return selected_elements(operand, self.select, self.window)

    def scattered(self, base: Shape, chosen: Any, source: Array, init_value: Array) -> Array:
        """Return the result for the indices of the selected elements."""
        return scatter_to_selected(self.scatter, self.window, base, chosen, source, init_value)

    def lowered(self, *operands):
        operand, *others = operands
        base = array_shape(operand)
        chosen = self.selected_elements(operand) if base.size else None
        return self.scattered(base, chosen, *others)

    def jvp(self, primals, tangents, results):
        if computations.monoid_of(self.scatter) != "add":
            return super().jvp(primals, tangents, results)
        # The selection is piecewise constant in the operand.
        if tangents[1] is None and tangents[2] is None:
            return None
        return Operation.jvp(self, primals, [None, *tangents[1:]], results)

    def transpose(self, cotangents, operands, linear):
        if computations.monoid_of(self.scatter) != "add":
            raise self.not_linear(f"{self.scatter.name}: only sums are linear")
        windowed = cotangents, operands[0], self.select, self.window
        of_source = select_and_gather(*windowed) if linear[1] else None
        return None, of_source, computations.total(cotangents) if linear[2] else None

    def vjp(self, cotangents, operands, results, active):
        if computations.monoid_of(self.scatter) == "add":
            return self.transpose(cotangents, operands, active)
        program = lowered_program(self, tuple(map(shape_of, operands)))
        return computations.pulled_program(program, operands, [cotangents], active)

    def batch(self, operands, dimensions):
        if dimensions[2] is not None:
            return super().batch(operands, dimensions)
        (operand, source), at = align_batches(operands[:2], dimensions[:2])
        window = self.window.inserted(at)
        record = SelectAndScatter(*window[:3], self.select, self.scatter)
        return record(operand, source, operands[2]), at

    def sharding_rule(self, operand, source, init_value):
        rule = self.sharding_factors((operand, source, init_value))
        for index, pair in enumerate(zip(source.dimensions, operand.dimensions, strict=True)):
            if index in self.window.moving:
                rule.add([ABSENT, index, ABSENT], [ABSENT], pair[0], NEED_REPLICATION)
                rule.add([index, ABSENT, ABSENT], [index], pair[1], PERMUTATION)
            else:
                rule.same(index, pair[0])
        return rule.build()


def _selected(operand: np.ndarray, select: Graph, window: sliding_windows.Window) -> np.ndarray:
    """Return the index of the window's selected element for each position, or -1."""
    present = window.present(operand.shape)
    base = sliding_windows.padded_base(operand, np.zeros((), operand.dtype), window)
    view = sliding_windows.window_view(base, window)
    best = view[(..., *[0] * operand.ndim)]
    chosen, is_any = np.full(window.positions(operand.shape), -1), np.False_
    for number, (here, index) in enumerate(zip(present, np.ndindex(*window.sizes), strict=True)):
        element, taken = view[(..., *index)], here
        if np.any(is_any):
            taken = here & ~(apply_elementwise(select, [best, element])[0] & is_any)
        best = np.where(taken, element, best)
        chosen = np.maximum(chosen, taken * (number + 1) - 1)  # choosing takes ten times as long
        is_any = is_any | here
    return chosen


@builds(SelectAndScatter)
def select_and_scatter(
    operand: ArrayLike,
    select: computations.Computation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[Sequence[int]],
    source: ArrayLike,
    init_value: ArrayLike,
    scatter: computations.Computation,
) -> Array:
    name = "select_and_scatter"
    (shape,) = SelectAndScatter.array_shapes([shape_of(operand, name)])
    scalars = [Shape(shape.element_type)] * 2
    (initial,) = initial_values([shape], [init_value])
    parameters = window_dimensions, window_strides, padding
    window = sliding_windows.resolve_window(shape.dimensions, *parameters)
    graphs = [
        computations.computation_of(function, scalars, name) for function in (select, scatter)
    ]
    return SelectAndScatter(*window[:3], *graphs)(operand, source, initial)
