"""SelectAndScatter: values added where a window's selected elements are (gradients of pooling)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Instance, Integers
from minixla.core.derived import batched_graph, call_vjp_graphs, jvp_graph, vjp_graphs
from minixla.core.graph import Graph
from minixla.core.linear import linear_jvp
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, closed_graph, shape_of
from minixla_ops.batching import batch_size, move_batch
from minixla_ops.calls import Call, call
from minixla_ops.computations import check_computation, computation_of, monoid_of
from minixla_ops.evaluation import apply_elementwise
from minixla_ops.folding import initial_values, not_a_sum
from minixla_ops.reduce_window import select_and_gather
from minixla_ops.rules import array_shape, sum_over
from minixla_ops.window_programs import scatter_to_selected
from minixla_ops.windows import (
    PaddingPairs,
    Window,
    dilated_size,
    padded_base,
    resolve_window,
    window_of,
    window_text,
    window_view,
)

__all__ = ["select_and_scatter"]

#: Windows that do not overlap, one in up to so many places, are lowered as programs, which XLA:CPU
#: runs many times faster. (Where they overlap it would compute all anew for each element.)
_MOST_ELEMENTS = 64


@register
class SelectAndScatter(Operation):
    """Combines values into an array where a sliding window's selected elements are.

    For each position of the window one element of `operand` is selected: the first stays while
    `select(it, next)` is True, else the next takes its place, in row-major order; padding is never
    selected. The result starts as `init_value` everywhere; for each position in row-major order
    the selected element's place gets `scatter(result there, source's element)`.
    XLA: SelectAndScatter.

    Attributes:
        select: the Graph from two scalars to pred; transitive.
        window_dimensions, window_strides: one number >= 1 for each dimension.
        padding: a pair (low, high) for each dimension; negative numbers take away.
        scatter: the Graph from two scalars to one; associative.

    Checks:
        (C1) source has the operand's element type.
        (C2) each list has one entry for each dimension.
        (C3) window sizes and strides are at least 1.
        (C4) source has an element for each position of the window.
        (C5) init_value is a scalar of the operand's element type.
        (C6) select takes two such scalars and gives a pred.
        (C7) scatter takes two such scalars and gives one.
    """

    stablehlo_name = "select_and_scatter"
    operand_names = ("operand", "source", "init_value")
    attributes = {
        "select": Instance(Graph),
        "window_dimensions": Integers(),
        "window_strides": Integers(),
        "padding": PaddingPairs(),
        "scatter": Instance(Graph),
    }
    linear_operands = (1, 2)

    def shape(
        self,
        operand: Any,
        source: Any,
        init_value: Any,
        *,
        select: Graph,
        scatter: Graph,
        **attributes: Any,
    ) -> Shape:
        operand, source, init_value = self.array_shapes([operand, source, init_value])
        given = [f"operand {operand}", f"source {source}", f"init_value {init_value}"]
        if source.element_type is not operand.element_type:
            self.reject(
                "C1",
                "source has another element type than operand",
                given,
                "Convert it with convert_element_type.",
            )
        window = window_of(**attributes)
        window.check(operand.rank, self.reject_attribute, "C2", "C3")
        positions = window.positions(operand.dimensions)
        if source.dimensions != positions:
            self.reject(
                "C4",
                f"source has dimensions {source.dimensions}, the window has positions {positions}",
                [*given, f"window {window.hlo}"],
                "source must have an element for each position of the window, as what "
                "reduce_window with these window arguments gives.",
            )
        scalar = Shape(operand.element_type)
        if init_value is not scalar:
            self.reject("C5", f"init_value is {init_value}", given, f"It must be {scalar}.")
        check_computation(self, "C6", "select", select, (scalar, scalar), (Shape("pred"),))
        check_computation(self, "C7", "scatter", scatter, (scalar, scalar), (scalar,))
        return operand

    def reference(
        self,
        operand: np.ndarray,
        source: np.ndarray,
        init_value: np.ndarray,
        *,
        select: Graph,
        scatter: Graph,
        **attributes: Any,
    ) -> np.ndarray:
        window = window_of(**attributes)
        if source.size == 0:
            return np.broadcast_to(init_value, operand.shape).astype(operand.dtype)
        with np.errstate(all="ignore"):
            selected = _selected(operand, select, window)
            # A place gets the values of later positions through earlier elements of the window.
            padded = np.full(window.padded(operand.shape), init_value, operand.dtype)
            for index, offset in reversed(list(enumerate(window.offsets()))):
                place = padded[_span(offset, window, source.shape)]
                chosen = selected == index
                combined = apply_elementwise(scatter, [place, source])[0]
                np.copyto(place, combined.astype(operand.dtype, copy=False), where=chosen)
        return _without_padding(padded, init_value, window, operand.shape)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        *,
        select: Graph,
        scatter: Graph,
        **attributes: Any,
    ) -> Sequence[str]:
        window = window_of(**attributes)
        is_tiling = not window.overlaps and math.prod(window.strides) <= _MOST_ELEMENTS
        if is_tiling:
            program = self.program(tuple(shapes), select=select, scatter=scatter, **attributes)
            return Call(program).stablehlo(emit, operands, shapes, results)
        return emit.operation(
            "stablehlo.select_and_scatter",
            operands,
            shapes,
            results,
            [emit.region(select), emit.region(scatter)],
            **window_text(window, dilations=False),
        )

    def hlo_attributes(self, shapes: Sequence[AnyShape], /, **attributes: Any) -> dict[str, Any]:
        select, scatter = attributes.pop("select"), attributes.pop("scatter")
        return {"window": window_of(**attributes).hlo, "select": select, "scatter": scatter}

    def program(
        self, shapes: tuple[Any, ...], *, select: Graph, scatter: Graph, **attributes: Any
    ) -> Graph:
        """The operation as a program of others, kept with its computation `scatter`."""
        window = window_of(**attributes)
        key = (self.name, shapes, select, window)
        program = scatter.memo.get(key)
        if program is None:

            def function(operand: Any, source: Any, initial: Any) -> Any:
                return scatter_to_selected(operand, source, initial, select, scatter, window)

            program = closed_graph(function, shapes, self.builder_name, self.builder_name)
            program = scatter.memo[key] = program.pruned()
        return program

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], results: Any, /, **attributes: Any
    ) -> Any:
        if monoid_of(attributes["scatter"]) == "add":
            # Which elements are selected is piecewise constant in the operand.
            if tangents[1] is None and tangents[2] is None:
                return None
            return linear_jvp(self, primals, [None, *tangents[1:]], attributes)
        program = self.program(tuple(map(shape_of, primals)), **attributes)
        derived = jvp_graph(program, tuple([tangent is not None for tangent in tangents]))
        given = [tangent for tangent in tangents if tangent is not None]
        outcome = call(derived.graph, *primals, *given)
        return outcome[1] if derived.active_outputs[0] else None

    def transpose(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        linear: Sequence[bool],
        /,
        *,
        select: Graph,
        scatter: Graph,
        **attributes: Any,
    ) -> Sequence[Any]:
        if monoid_of(scatter) != "add":
            raise not_a_sum(self, scatter)
        of_source = of_initial = None
        if linear[1]:
            of_source = select_and_gather(cotangents, operands[0], select, window_of(**attributes))
        if linear[2]:
            of_initial = sum_over(cotangents, range(array_shape(cotangents).rank))
        return None, of_source, of_initial

    def vjp(
        self,
        cotangents: Any,
        operands: Sequence[Any],
        results: Any,
        active: Sequence[bool],
        /,
        **attributes: Any,
    ) -> Sequence[Any]:
        if monoid_of(attributes["scatter"]) == "add":
            return self.transpose(cotangents, operands, active, **attributes)
        program = self.program(tuple(map(shape_of, operands)), **attributes)
        graphs = vjp_graphs(program, tuple(active))
        _, pullback = call_vjp_graphs(graphs, 1, list(operands))
        return pullback({0: cotangents})

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, int]:
        size = batch_size(operands, dimensions)
        if dimensions[2] is not None:
            shapes = tuple(map(_member_shape, operands, dimensions))
            program = self.program(shapes, **attributes)
            batched = batched_graph(program, tuple(dimensions), size)
            (result,) = call(batched.graph, *operands)
            return result, batched.dimensions[0]  # type: ignore[return-value]  # init is batched
        at = next(dimension for dimension in dimensions if dimension is not None)
        operand, source = (
            move_batch(value, dimension, at, size)
            for value, dimension in zip(operands[:2], dimensions[:2], strict=True)
        )
        select, scatter = attributes.pop("select"), attributes.pop("scatter")
        window = window_of(**attributes).inserted(at)
        return _bound(operand, source, operands[2], select, scatter, window), at


def _bound(
    operand: Any, source: Any, initial: Any, select: Graph, scatter: Graph, window: Window
) -> Any:
    return bind(
        SelectAndScatter.instance,
        operand,
        source,
        initial,
        select=select,
        window_dimensions=window.sizes,
        window_strides=window.strides,
        padding=window.padding,
        scatter=scatter,
    )


def _member_shape(value: Any, dimension: int | None) -> Shape:
    shape = array_shape(value)
    if dimension is None:
        return shape
    return shape.with_dimensions(shape.dimensions[:dimension] + shape.dimensions[dimension + 1 :])


def _selected(operand: np.ndarray, select: Graph, window: Window) -> np.ndarray:
    """For each position the number of the window's selected element; -1 where there is none."""
    present = window.present(operand.shape)
    view = window_view(padded_base(operand, np.zeros((), operand.dtype), window), window)
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


def _span(offset: Sequence[int], window: Window, positions: Sequence[int]) -> tuple[slice, ...]:
    """Where the elements at `offset` of all positions are in the padded base."""
    return tuple(
        slice(at, at + dilated_size(count, stride), stride)
        for at, stride, count in zip(offset, window.strides, positions, strict=True)
    )


def _without_padding(
    padded: np.ndarray, filling: np.ndarray, window: Window, base: Sequence[int]
) -> np.ndarray:
    """The base's part of a padded one; `filling` where padding had taken away."""
    whole = np.full(base, filling, padded.dtype)
    inner, outer = [], []
    for (low, _), size, extent in zip(window.padding, base, padded.shape, strict=True):
        start, stop = max(low, 0), min(low + size, extent)
        inner.append(slice(start, max(stop, start)))
        outer.append(slice(start - low, max(stop, start) - low))
    whole[tuple(outer)] = padded[tuple(inner)]
    return whole


def select_and_scatter(
    operand: Any,
    select: Graph | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[Sequence[int]],
    source: Any,
    init_value: Any,
    scatter: Graph | Callable[..., Any],
) -> Any:
    """Combines values into an array where a sliding window's selected elements are.

    Args:
        operand: the array under the window.
        select: a Graph or a function of two scalars to pred, such as `ge`: whether the first, which
            comes first, stays selected. Transitive.
        window_dimensions: the window's size in each dimension.
        window_strides: the distance between its positions in each dimension.
        padding: `"SAME"`, `"VALID"` or (low, high) for each dimension.
        source: the values, one for each position, of the operand's element type.
        init_value: a scalar: what the result holds before; a Python number is converted.
        scatter: a Graph or a function from what the result holds and a value to what it holds then,
            such as `add`. Associative.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeError, AttributeValueError: see SelectAndScatter.
        TransformError: a computation reads a traced value of the enclosing function.
    """
    name = "select_and_scatter"
    (shape,) = SelectAndScatter.instance.array_shapes([shape_of(operand, name)])
    scalar = Shape(shape.element_type)
    (initial,) = initial_values([shape], [init_value])
    return _bound(
        operand,
        source,
        initial,
        computation_of(select, (scalar, scalar), name),
        computation_of(scatter, (scalar, scalar), name),
        resolve_window(name, shape.dimensions, window_dimensions, window_strides, padding),
    )
