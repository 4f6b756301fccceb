"""ReduceWindow: fold the elements at each position of a sliding window (pooling).

Windows are also expressed as slices and pads, from which derivatives of all computations follow:
for each offset in the window, one array holds the elements at this offset for all positions.
"""

import math
from collections.abc import Sequence
from typing import Any

import minixla_ops as ops
from minixla.core import Graph, Shape, register
from minixla.core.attributes import Integers, attribute
from minixla.core.builders import builds
from minixla.core.sharding_rule import PERMUTATION
from minixla.core.tracing import closed_graph, evaluate_graph
from minixla.typing import Array, ArrayLike
from minixla_ops.folds import numpy_folds, sliding_windows
from minixla_ops.folds.fold import Fold, fold_arguments, halves
from minixla_ops.folds.fold_programs import fold_in_order, started
from minixla_ops.folds.sliding_windows import Window, dilated_size
from minixla_ops.helpers.shorthand import array_shape, as_results, splat, zeros, zeros_like
from minixla_ops.movement.slicing import pad_with_zeros
from minixla_ops.programs import computations
from minixla_ops.programs.call import Call

#: General computations over windows of at most this many elements become programs. StableHLO does
#: not specify the order of the elements, while a program has the specified order.
_MOST_ELEMENTS = 64


@register
class ReduceWindow(sliding_windows.Windowed, Fold):
    """Fold the elements at each position of a window over N arrays. XLA: ReduceWindow.

    result[o] = f(...f(init, base[o s + k_0 wd])..., base[o s + k_n wd]) for stride s and window
    dilation wd; k runs over the window's elements in row-major order. Padding and the holes of base
    dilation are skipped. StableHLO fills them with the initial value, which is the same, as this
    must be an identity of f.

    Args:
        operands: N arrays with equal dimensions, or one array.
        init_values: N scalars with their element types, or one; Python scalars are converted.
        computation: a Graph or a function f from N running values and N elements (scalars) to N
            scalars, such as `max`; associative, with the initial values as its identity.
        window_dimensions: the window's size in each dimension.
        window_strides: the distance between its positions in each dimension.
        padding: `"SAME"`, `"VALID"` or (low, high) for each dimension; negative numbers crop.
        base_dilations: the distance between the operands' elements; default 1.
        window_dilations: the distance between the window's elements; default 1.

    Returns:
        An array of the same rank, with one element for each position; a tuple of N for N > 1.

    Checks:
        (C1) ... (C4) see Fold.
        (C5) each list has one entry for each dimension.
        (C6) window sizes, strides and dilations are at least 1.

    Raises:
        TransformError: the computation reads a traced value of the enclosing function.

    Example:
        >>> ops.reduce_window(np.int32([3, 1, 4, 1]), -9, ops.max, (2,), (1,), "VALID")
        Array([3, 4, 4], dtype=int32)
    """

    stablehlo_name = "reduce_window"
    base_dilations: tuple[int, ...] = attribute(Integers(), hlo=None)
    window_dilations: tuple[int, ...] = attribute(Integers(), hlo=None)

    def shape(self, *shapes):
        operands = self.check_operands(shapes)
        self.check_window(operands[0].rank, "C5", "C6")
        sizes = self.window.positions(operands[0].dimensions)
        return as_results([Shape(operand.element_type, sizes) for operand in operands])

    def reference(self, *operands):
        arrays, initials = halves(operands)
        monoid = computations.monoid_of(self.computation)
        if monoid is not None:
            return numpy_folds.fold_windows_by_monoid(monoid, arrays[0], self.window, initials[0])
        return as_results(numpy_folds.fold_windows(self.computation, arrays, self.window, initials))

    def stablehlo(self, emit, operands, shapes, results):
        is_general = computations.monoid_of(self.computation) is None
        if is_general and math.prod(self.window_dimensions) <= _MOST_ELEMENTS:
            return Call(self.program(tuple(shapes))).stablehlo(emit, operands, shapes, results)
        return super().stablehlo(emit, operands, shapes, results)

    def folded(self, operands, initials):
        window, shape = self.window, array_shape(operands[0])
        sizes = window.positions(shape.dimensions)
        fill = computations.padding_element(self.computation, shape.element_type)
        rows = zip(*[window_elements(operand, window, fill) for operand in operands], strict=True)
        if fill is None:
            present = window.present(shape.dimensions)
            return fold_in_order(self.computation, rows, initials, sizes, present)
        (total,) = fold_in_order(self.computation, rows, next(rows), sizes)
        return [started(self.computation, initials[0], total)]

    def over_batch(self, at):
        return ReduceWindow(self.computation, *self.window.inserted(at)), at

    def sharding_rule(self, *operands):
        rule = self.sharding_factors(operands)
        moving = dict.fromkeys(self.window.moving, PERMUTATION)
        return rule.pointwise(rule.result_sizes[0], moving).build()

    def sum_transpose(self, cotangent, operand):
        # Each base element sums the cotangents of the windows that contain it. These form windows
        # of the same size and dilation over the results, spread by the stride, in steps of the base
        # dilation.
        window = self.window
        config, sizes = [], array_shape(cotangent).dimensions
        columns: Any = zip(operand.dimensions, sizes, *window, strict=True)
        for base, count, size, stride, (low, _), dilation, gap in columns:
            extent, spread = dilated_size(size, gap), dilated_size(count, stride)
            before = extent - 1 - low
            after = dilated_size(base, dilation) + extent - 1 - spread - before
            config.append((before, after, stride - 1))
        ones, padding = (1,) * operand.rank, ((0, 0),) * operand.rank
        if all(low >= 0 and high >= 0 and not between for low, high, between in config):
            # Pass padding here: XLA turns running sums into a tree, but not after a separate Pad.
            padding = tuple([(low, high) for low, high, _ in config])
        else:
            cotangent = pad_with_zeros(cotangent, config)
        spread = Window(window.sizes, window.base_dilations, padding, ones, window.window_dilations)
        zero = zeros(operand.with_dimensions(()))
        return ReduceWindow(self.computation, *spread)(cotangent, zero)

    def extreme_jvp(self, tangent, operand, result):
        return select_and_gather(tangent, operand, self._comparison(), self.window)

    def extreme_vjp(self, cotangent, operand, result):
        window, select = self.window, self._comparison()
        if {*window.base_dilations, *window.window_dilations} <= {1}:
            return ops.select_and_scatter(operand, select, *window[:3], cotangent, 0, ops.add)
        # SelectAndScatter has no dilation, so transpose the gather of the selected elements.
        operands = _gather_operands(zeros_like(operand), operand)
        gathering: Fold = _gathering(select, array_shape(operand), window)
        active = [False, False, True, False, False, False]
        return list(gathering.vjp((None, None, cotangent), operands, None, active))[2]

    def _comparison(self) -> Graph:
        """Return the comparison that selects the maximum or minimum, the first of equal ones."""
        scalar = self.computation.output_shapes[0]
        comparison = ops.ge if computations.monoid_of(self.computation) == "max" else ops.le
        return computations.computation_of(comparison, (scalar, scalar), "reduce_window")


@builds(ReduceWindow)
def reduce_window(
    operands: ArrayLike | Sequence[ArrayLike],
    init_values: ArrayLike | Sequence[ArrayLike],
    computation: computations.Computation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[Sequence[int]],
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> Any:
    shapes, values, graph = fold_arguments(ReduceWindow, operands, init_values, computation)
    parameters = window_dimensions, window_strides, padding, base_dilations, window_dilations
    window = sliding_windows.resolve_window(shapes[0].dimensions, *parameters)
    return ReduceWindow(graph, *window)(*values)


def select_and_gather(values: Array, operand: Array, select: Graph, window: Window) -> Array:
    """Return, for each window position, the element of `values` where `select` picks `operand`'s.

    It is the transpose of SelectAndScatter; zero if the window contains no element.
    """
    gathering = _gathering(select, array_shape(operand), window)
    return gathering(*_gather_operands(values, operand))[2]


def _gather_operands(values: Array, operand: Array) -> list[ArrayLike]:
    # The first operand marks existing elements: no value of `operand` can mark missing ones.
    there = splat(True, Shape("pred", array_shape(operand).dimensions))
    scalar = array_shape(operand).with_dimensions(())
    return [there, operand, values, splat(False, Shape("pred")), zeros(scalar), zeros(scalar)]


def _gathering(chooser: Graph, operand: Shape, window: Window) -> ReduceWindow:
    """Build the ReduceWindow that keeps the (present, element, value) that `chooser` picks."""

    def pick(
        a: Array, first: Array, kept: Array, b: Array, second: Array, other: Array
    ) -> list[Array]:
        (wins,) = evaluate_graph(chooser, [first, second])
        keeps = ops.and_(a, ops.or_(wins, ops.not_(b)))
        return [ops.or_(a, b), ops.select(keeps, first, second), ops.select(keeps, kept, other)]

    pred, scalar, name = Shape("pred"), Shape(operand.element_type), "select_and_gather"
    shapes = [pred, scalar, scalar] * 2
    computation = chooser.remembered(name, closed_graph, pick, shapes, name, name)
    return ReduceWindow(computation, *window)


def window_elements(operand: Array, window: Window, fill: ArrayLike | None = None) -> list[Any]:
    """Return, for each offset in the window in row-major order, its elements at all positions.

    Missing elements are `fill`, or other elements of the operand, so that computations never see
    values from elsewhere.
    """
    base = array_shape(operand)
    positions = window.positions(base.dimensions)
    if base.size == 0 or math.prod(positions) == 0:
        return [zeros(base.with_dimensions(positions))] * math.prod(window.sizes)
    padded = _padded(operand, window, fill)
    spans = [*map(dilated_size, positions, window.strides)]
    return [
        ops.slice(padded, offset, list(map(sum, zip(offset, spans, strict=True))), window.strides)
        for offset in window.offsets()
    ]


def _padded(operand: Array, window: Window, fill: ArrayLike | None) -> Array:
    config = window.padding_config
    if not any(map(any, config)):
        return operand
    if all(low <= 0 and high <= 0 and not holes for low, high, holes in config):
        return pad_with_zeros(operand, config)
    if fill is None:
        fill = ops.reshape(ops.slice(operand, [0] * len(config), [1] * len(config)), ())
    return ops.pad(operand, fill, config)
