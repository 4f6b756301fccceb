"""Reduce: folding arrays along dimensions with any computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Instance, Integers
from minixla.core.graph import Graph
from minixla.core.operation import EVERY_OPERAND, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.bitwise import and_
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.comparison import eq
from minixla_ops.computations import is_identity, monoid_of, short_form
from minixla_ops.conversion import convert_element_type
from minixla_ops.fold_programs import fold
from minixla_ops.folding import Fold, fold_arguments
from minixla_ops.numpy_folds import fold_computation, fold_monoid
from minixla_ops.reshaping import reshape, transpose
from minixla_ops.rules import add_cotangents, array_shape, listed, sum_over, zeros_like

__all__ = ["reduce"]


@register
class Reduce(Fold):
    """Folds N arrays along dimensions, which the results no longer have. XLA: Reduce.

    Starting from the initial values, the running values and the next elements go through
    `computation`, in this order: f(running_0 ... running_N-1, element_0 ... element_N-1). XLA may
    regroup the applications and use the initial values more than once (XLA:CPU does for more than
    32 elements), so f must be associative and the initial values its identity.

    Attributes:
        computation: the Graph f, from 2 N scalars to N scalars.
        dimensions_to_reduce: which dimensions, in any order.

    Checks:
        (C1) ... (C4) see Fold.
        (C5) each dimension is one of the operands'.
        (C6) no dimension is named twice.
    """

    stablehlo_name = "reduce"
    dynamic_operands = EVERY_OPERAND
    attributes = {"computation": Instance(Graph), "dimensions_to_reduce": Integers()}

    def shape(
        self, *shapes: Any, computation: Graph, dimensions_to_reduce: tuple[int, ...]
    ) -> Shape | tuple[Shape, ...]:
        operands = self.check_operands(shapes, computation)
        first = operands[0]
        given = [f"operands[0] {first}", f"dimensions_to_reduce {dimensions_to_reduce}"]
        for dimension in dimensions_to_reduce:
            if not 0 <= dimension < first.rank:
                self.reject_attribute(
                    "C5",
                    f"dimension {dimension} is no dimension of the operands",
                    given,
                    f"Dimensions must be in [0, {first.rank}).",
                )
        if len(set(dimensions_to_reduce)) != len(dimensions_to_reduce):
            self.reject_attribute(
                "C6", "a dimension is named twice", given, "Name each dimension once."
            )
        kept = _kept(first.rank, dimensions_to_reduce)
        results = tuple(
            Shape(
                operand.element_type,
                [operand.dimensions[index] for index in kept],
                [operand.dynamic[index] for index in kept],
            )
            for operand in operands
        )
        return results[0] if len(results) == 1 else results

    def reference(
        self, *operands: np.ndarray, computation: Graph, dimensions_to_reduce: tuple[int, ...]
    ) -> Any:
        count = len(operands) // 2
        arrays, initials = operands[:count], operands[count:]
        axes = tuple(sorted(dimensions_to_reduce))
        monoid = monoid_of(computation)
        if monoid is not None:
            return fold_monoid(monoid, arrays[0], axes, initials[0])
        kept = _kept(arrays[0].ndim, axes)
        sizes = [arrays[0].shape[axis] for axis in kept]
        extent = math.prod([arrays[0].shape[axis] for axis in axes])
        ordered = [each.transpose(*axes, *kept).reshape(extent, *sizes) for each in arrays]
        results = fold_computation(computation, ordered, initials)
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
        dimensions_to_reduce: tuple[int, ...],
    ) -> Sequence[str]:
        operation = short_form(computation)
        if operation is None:
            return emit.operation(
                "stablehlo.reduce",
                operands,
                shapes,
                results,
                [emit.region(computation)],
                dimensions=dimensions_to_reduce,
            )
        name = emit.name()
        emit.line(
            f"{name} = stablehlo.reduce({operands[0]} init: {operands[1]}) applies {operation} "
            f"across dimensions = {list(dimensions_to_reduce)} : "
            f"({shapes[0].stablehlo}, {shapes[1].stablehlo}) -> {results[0].stablehlo}"
        )
        return [name]

    def hlo_attributes(self, shapes: Sequence[AnyShape], /, **attributes: Any) -> dict[str, Any]:
        return {
            "dimensions": attributes["dimensions_to_reduce"],
            "to_apply": attributes["computation"],
        }

    def folded(
        self,
        operands: Sequence[Any],
        initials: Sequence[Any],
        *,
        computation: Graph,
        dimensions_to_reduce: tuple[int, ...],
    ) -> list[Any]:
        stacked = [_stacked(operand, dimensions_to_reduce) for operand in operands]
        return fold(computation, stacked, initials)

    def over_batch(
        self, at: int, *, dimensions_to_reduce: tuple[int, ...], **attributes: Any
    ) -> tuple[dict[str, Any], int]:
        shifted = tuple([each + (each >= at) for each in dimensions_to_reduce])
        before = sum([each < at for each in shifted])
        return {**attributes, "dimensions_to_reduce": shifted}, at - before

    def sum_transpose(
        self, cotangent: Any, operand: Shape, *, dimensions_to_reduce: tuple[int, ...]
    ) -> Any:
        return _spread(cotangent, operand.dimensions, dimensions_to_reduce)

    def extreme_jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        result: Any,
        *,
        computation: Graph,
        dimensions_to_reduce: tuple[int, ...],
    ) -> Any:
        of_operand, of_initial = tangents
        winners, alone, count = _winners(primals, result, computation, dimensions_to_reduce)
        total = None
        if of_operand is not None:
            total = sum_over(of_operand * winners, dimensions_to_reduce)
        if of_initial is not None and alone is not None:
            total = add_cotangents(total, of_initial * alone)
        return None if total is None else total / count

    def extreme_vjp(
        self,
        cotangent: Any,
        operands: Sequence[Any],
        result: Any,
        active: Sequence[bool],
        *,
        computation: Graph,
        dimensions_to_reduce: tuple[int, ...],
    ) -> Sequence[Any]:
        winners, alone, count = _winners(operands, result, computation, dimensions_to_reduce)
        share = cotangent / count
        sizes = array_shape(operands[0]).dimensions
        of_operand = of_initial = None
        if active[0]:
            of_operand = _spread(share, sizes, dimensions_to_reduce) * winners
        if active[1] and alone is not None:
            of_initial = sum_over(share * alone, range(array_shape(share).rank))
        return of_operand, of_initial


def _stacked(operand: Any, dimensions_to_reduce: Sequence[int]) -> Any:
    """The reduced dimensions as one, in front."""
    shape = array_shape(operand)
    kept = _kept(shape.rank, dimensions_to_reduce)
    reduced = sorted(dimensions_to_reduce)
    sizes = [shape.dimensions[index] for index in kept]
    extent = math.prod([shape.dimensions[index] for index in reduced])
    order = (*reduced, *kept)
    ordered = operand if order == tuple(range(shape.rank)) else transpose(operand, order)
    return reshape(ordered, (extent, *sizes))


def _kept(rank: int, dimensions_to_reduce: Sequence[int]) -> list[int]:
    return [index for index in range(rank) if index not in dimensions_to_reduce]


def _spread(result: Any, sizes: Sequence[int], dimensions_to_reduce: Sequence[int]) -> Any:
    """A value of the result's dimensions repeated along the reduced ones."""
    return broadcast_in_dim(result, sizes, _kept(len(sizes), dimensions_to_reduce))


def _winners(
    operands: Sequence[Any],
    result: Any,
    computation: Graph,
    dimensions_to_reduce: tuple[int, ...],
) -> tuple[Any, Any, Any]:
    """What an extreme's derivative is shared among: all elements that attain it, else the start.

    Returns:
        1 at the elements that equal the result and 1 where only the initial value does (None:
        nowhere), 0 elsewhere; and the number of winners. Where the result is NaN all are 0, and
        the derivative is NaN.
    """
    operand, initial = operands
    shape, result_shape = array_shape(operand), array_shape(result)
    kind = shape.element_type
    repeated = _spread(result, shape.dimensions, dimensions_to_reduce)
    winners = convert_element_type(eq(operand, repeated), kind)
    count = sum_over(winners, dimensions_to_reduce)
    if is_identity(monoid_of(computation) or "", initial):
        return winners, None, count
    is_initial = eq(broadcast_in_dim(initial, result_shape.dimensions, ()), result)
    alone = convert_element_type(and_(is_initial, eq(count, zeros_like(count))), kind)
    return winners, alone, count + alone


def reduce(
    operands: Any,
    init_values: Any,
    computation: Graph | Callable[..., Any],
    dimensions_to_reduce: Sequence[int],
) -> Any:
    """Folds arrays along dimensions.

    Args:
        operands: N arrays of equal dimensions, or one array.
        init_values: N scalars of their element types, or one; Python numbers are converted.
        computation: a Graph or a function from N running values and N elements (scalars) to N
            scalars, such as `add`; associative, with the initial values as its identity.
        dimensions_to_reduce: which dimensions, in any order.

    Returns:
        An array without these dimensions; for N > 1 a tuple of N arrays.

    Raises:
        ShapeError, AttributeValueError: see Reduce.
        TransformError: the computation reads a traced value of the enclosing function.
    """
    operation: Fold = Reduce.instance
    _, values, graph = fold_arguments(operation, operands, init_values, computation)
    dimensions = listed(dimensions_to_reduce)
    return bind(operation, *values, computation=graph, dimensions_to_reduce=dimensions)
