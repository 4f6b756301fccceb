"""ReduceWindow: folding the elements under each position of a sliding window (pooling)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Instance, Integers
from minixla.core.graph import Graph
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, closed_graph, evaluate_graph
from minixla_ops.binary import add
from minixla_ops.bitwise import and_, or_
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.calls import Call
from minixla_ops.comparison import ge, gt, le, lt
from minixla_ops.computations import computation_of, is_identity, monoid_of, neutral_element
from minixla_ops.fold_programs import fold_in_order
from minixla_ops.folding import Fold, fold_arguments
from minixla_ops.movement import pad
from minixla_ops.numpy_folds import fold_windows, fold_windows_by_monoid
from minixla_ops.rules import array_shape, splat, sum_over, zeros, zeros_like
from minixla_ops.selection import select
from minixla_ops.unary import not_
from minixla_ops.window_programs import window_elements
from minixla_ops.windows import (
    PaddingPairs,
    Window,
    dilated_size,
    resolve_window,
    window_of,
    window_text,
)

__all__ = ["reduce_window", "select_and_gather"]


#: General computations over windows of up to so many elements are lowered as programs: element by
#: element in row-major order, which XLA:CPU runs faster and in which its own order may differ.
_MOST_ELEMENTS = 64


@register
class ReduceWindow(Fold):
    """Folds the elements under each position of a window over N arrays. XLA: ReduceWindow.

    result[o] = f(...f(init, base[o s + k_0 wd])..., base[o s + k_n wd]) over the window's elements
    k in row-major order, for stride s and window dilation wd. Padding and the holes that base
    dilation makes take no part (StableHLO fills them with the initial value instead: the same,
    where that is an identity of f, as it must be).

    Attributes:
        computation: the Graph f, from 2 N scalars to N scalars; associative.
        window_dimensions, window_strides, base_dilations, window_dilations: one number >= 1 for
            each dimension.
        padding: a pair (low, high) for each dimension; negative numbers take away.

    Checks:
        (C1) ... (C4) see Fold.
        (C5) each list has one entry for each dimension.
        (C6) window sizes, strides and dilations are at least 1.
    """

    stablehlo_name = "reduce_window"
    attributes = {
        "computation": Instance(Graph),
        "window_dimensions": Integers(),
        "window_strides": Integers(),
        "padding": PaddingPairs(),
        "base_dilations": Integers(),
        "window_dilations": Integers(),
    }

    def shape(self, *shapes: Any, computation: Graph, **attributes: Any) -> Any:
        operands = self.check_operands(shapes, computation)
        window = window_of(**attributes)
        window.check(operands[0].rank, self.reject_attribute, "C5", "C6")
        sizes = window.positions(operands[0].dimensions)
        results = tuple(Shape(each.element_type, sizes) for each in operands)
        return results[0] if len(results) == 1 else results

    def reference(self, *operands: np.ndarray, computation: Graph, **attributes: Any) -> Any:
        count = len(operands) // 2
        arrays, initials = operands[:count], operands[count:]
        window = window_of(**attributes)
        monoid = monoid_of(computation)
        if monoid is not None:
            return fold_windows_by_monoid(monoid, arrays[0], window, initials[0])
        results = fold_windows(computation, arrays, window, initials)
        return tuple(results) if count > 1 else results[0]

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        computation: Graph,
        **attributes: Any,
    ) -> Sequence[str]:
        window = window_of(**attributes)
        is_small = math.prod(window.sizes) <= _MOST_ELEMENTS
        if is_small and monoid_of(computation) is None:
            program = self.program(tuple(shapes), computation=computation, **attributes)
            return Call(program).stablehlo(emit, operands, shapes, results)
        return emit.operation(
            "stablehlo.reduce_window",
            operands,
            shapes,
            results,
            [emit.region(computation)],
            **window_text(window),
        )

    def hlo_attributes(self, shapes: Sequence[AnyShape], /, **attributes: Any) -> dict[str, Any]:
        computation = attributes.pop("computation")
        return {"window": window_of(**attributes).hlo, "to_apply": computation}

    def folded(
        self,
        operands: Sequence[Any],
        initials: Sequence[Any],
        *,
        computation: Graph,
        **attributes: Any,
    ) -> list[Any]:
        window = window_of(**attributes)
        base = array_shape(operands[0]).dimensions
        columns = [window_elements(operand, window) for operand in operands]
        rows = zip(*columns, strict=True)
        sizes, present = window.positions(base), window.present(base)
        return fold_in_order(computation, rows, initials, sizes, present)

    def over_batch(
        self, at: int, *, computation: Graph, **attributes: Any
    ) -> tuple[dict[str, Any], int]:
        window = window_of(**attributes).inserted(at)
        return {"computation": computation, **window.attributes}, at

    def sum_transpose(self, cotangent: Any, operand: Shape, **attributes: Any) -> Any:
        # Each base element sums the cotangents of the windows that it is in: windows of the same
        # size and dilation over the results, spread by the stride, in steps of the base dilation.
        window = window_of(**attributes)
        config = []
        for base, size, stride, extent, (low, _), dilation in zip(
            operand.dimensions,
            array_shape(cotangent).dimensions,
            window.strides,
            window.extents,
            window.padding,
            window.base_dilations,
            strict=True,
        ):
            before = extent - 1 - low
            spread = dilated_size(size, stride)
            config.append(
                (before, dilated_size(base, dilation) + extent - 1 - spread - before, stride - 1)
            )
        zero = splat(0, Shape(operand.element_type))
        return reduce_window(
            [pad(cotangent, zero, config)],
            [zero],
            add,
            window.sizes,
            window.base_dilations,
            "VALID",
            window_dilations=window.window_dilations,
        )

    def extreme_jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        result: Any,
        *,
        computation: Graph,
        **attributes: Any,
    ) -> Any:
        operand, initial = primals
        of_operand, of_initial = tangents
        gathered = None
        if of_operand is not None:
            chooser = _comparison(computation)
            gathered = select_and_gather(of_operand, operand, chooser, window_of(**attributes))
        starts = self._starts(operand, initial, computation, **attributes)
        if starts is None:
            return gathered
        spread = zeros_like(result)
        if of_initial is not None:
            spread = broadcast_in_dim(of_initial, array_shape(result).dimensions, ())
        return select(starts, spread, zeros_like(result) if gathered is None else gathered)

    def extreme_vjp(
        self,
        cotangent: Any,
        operands: Sequence[Any],
        result: Any,
        active: Sequence[bool],
        *,
        computation: Graph,
        **attributes: Any,
    ) -> Sequence[Any]:
        operand, initial = operands
        window = window_of(**attributes)
        starts = self._starts(operand, initial, computation, **attributes)
        of_operand = of_initial = None
        if active[0]:
            source = cotangent
            if starts is not None:
                source = select(starts, zeros_like(cotangent), cotangent)
            of_operand = _scatter_to_selected(source, operand, _comparison(computation), window)
        if active[1] and starts is not None:
            kept = select(starts, cotangent, zeros_like(cotangent))
            of_initial = sum_over(kept, range(len(window.sizes)))
        return of_operand, of_initial

    def _starts(self, operand: Any, initial: Any, computation: Graph, **attributes: Any) -> Any:
        """Where the initial value beats all elements of the window; None: nowhere."""
        monoid = monoid_of(computation)
        assert monoid is not None
        if is_identity(monoid, initial):
            return None
        kind = array_shape(operand).element_type
        neutral = neutral_element(monoid, kind)
        best = bind(self, operand, neutral, computation=computation, **attributes)
        spread = broadcast_in_dim(initial, array_shape(best).dimensions, ())
        return (gt if monoid == "max" else lt)(spread, best)


def _comparison(computation: Graph) -> Graph:
    """How the element is selected that is the maximum or minimum: the first of equal ones."""
    scalar = computation.output_shapes[0]
    comparison = ge if monoid_of(computation) == "max" else le
    return computation_of(comparison, (scalar, scalar), "reduce_window")


def _scatter_to_selected(source: Any, operand: Any, select: Graph, window: Window) -> Any:
    """Zeros like `operand` with the elements of `source` added where `select` picks `operand`'s."""
    from minixla_ops.select_and_scatter import select_and_scatter

    if not window.is_dilated:
        return select_and_scatter(
            operand, select, window.sizes, window.strides, window.padding, source, 0, add
        )
    # SelectAndScatter has no dilation: the transpose of what picks the selected elements.
    values = zeros_like(operand)
    operands = _gather_operands(values, operand)
    computation = _gather_computation(select, array_shape(operand))
    attributes = {"computation": computation, **window.attributes}
    active = [False, False, True, False, False, False]
    instance = ReduceWindow.instance
    return instance.vjp((None, None, source), operands, None, active, **attributes)[2]


def select_and_gather(values: Any, operand: Any, select: Graph, window: Window) -> Any:
    """For each position of the window the element of `values` where `select` picks `operand`'s.

    The transpose of SelectAndScatter. Zero where the window meets no element at all.

    Args:
        values: an array of the operand's shape.
        operand: an array.
        select: from two scalars to pred; True keeps the first.
        window: over all dimensions.
    """
    shape = array_shape(operand)
    results = bind(
        ReduceWindow.instance,
        *_gather_operands(values, operand),
        computation=_gather_computation(select, shape),
        **window.attributes,
    )
    return results[2]


def _gather_operands(values: Any, operand: Any) -> list[Any]:
    # The first says whether there is an element: no value of `operand` can stand for none.
    there = splat(True, Shape("pred", array_shape(operand).dimensions))
    scalar = array_shape(operand).with_dimensions(())
    return [there, operand, values, splat(False, Shape("pred")), zeros(scalar), zeros(scalar)]


def _gather_computation(chooser: Graph, operand: Shape) -> Graph:
    """Keeps of two (is there, element, value) the one whose element `select` picks."""
    found = chooser.memo.get("gather")
    if found is None:
        pred, scalar = Shape("pred"), Shape(operand.element_type)

        def pick(a: Any, first: Any, kept: Any, b: Any, second: Any, other: Any) -> list[Any]:
            (wins,) = evaluate_graph(chooser, [first, second])
            keeps = and_(a, or_(wins, not_(b)))
            return [or_(a, b), select(keeps, first, second), select(keeps, kept, other)]

        shapes = [pred, scalar, scalar] * 2
        found = closed_graph(pick, shapes, "select_and_gather", "select_and_gather")
        chooser.memo["gather"] = found
    return found


def reduce_window(
    operands: Any,
    init_values: Any,
    computation: Graph | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[Sequence[int]],
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> Any:
    """Folds the elements under each position of a sliding window.

    Args:
        operands: N arrays of equal dimensions, or one array.
        init_values: N scalars of their element types, or one; Python numbers are converted.
        computation: a Graph or a function from N running values and N elements (scalars) to N
            scalars, such as `max`; associative, with the initial values as its identity.
        window_dimensions: the window's size in each dimension.
        window_strides: the distance between its positions in each dimension.
        padding: `"SAME"`, `"VALID"` or (low, high) for each dimension.
        base_dilations: the distance between the operands' elements; default 1.
        window_dilations: the distance between the window's elements; default 1.

    Returns:
        An array of as many dimensions, one element for each position; a tuple of N for N > 1.

    Raises:
        ShapeError, AttributeValueError: see ReduceWindow.
        TransformError: the computation reads a traced value of the enclosing function.
    """
    operation: Fold = ReduceWindow.instance
    shapes, values, graph = fold_arguments(operation, operands, init_values, computation)
    window = resolve_window(
        "reduce_window",
        shapes[0].dimensions,
        window_dimensions,
        window_strides,
        padding,
        base_dilations,
        window_dilations,
    )
    return bind(operation, *values, computation=graph, **window.attributes)
