"""Operations with three operands that choose between values: Select and Clamp."""

from collections.abc import Sequence
from itertools import repeat

import numpy as np

import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, Shape, TupleShape, register, shape_of
from minixla.core.builders import builds
from minixla.core.errors import ShapeError, explain
from minixla.core.linear import add_cotangents, spread
from minixla.typing import Array, ArrayLike
from minixla_ops.dynamic_sizes.dimension_sizes import common_sizes
from minixla_ops.elementwise.families import COMPLEX, Elementwise
from minixla_ops.elementwise.numpy_special import maximum, minimum
from minixla_ops.helpers.batch_dimensions import batch_size, move_batch
from minixla_ops.helpers.shorthand import array_shape, zeros_like
from minixla_ops.helpers.tuple_operations import from_leaves, tuple_leaves, tuple_value

_PRED = ELEMENT_TYPES["pred"]


@register
class Select(Elementwise):
    """Choose on_true if pred is true, else on_false, element-wise. XLA: Select.

    A scalar pred chooses one of the two values as a whole.

    Args:
        pred: an array with element type pred and the dimensions of the values, or a scalar. It
            must be a scalar if the values are tuples.
        on_true: an array with any element type, or a tuple.
        on_false: a value with the same shape.

    Returns:
        A value with the shape of on_true.

    Checks:
        (C1) pred has the element type pred.
        (C2) on_true and on_false are arrays with equal shapes.
        (C3) pred has their dimensions or is a scalar.
        (C4) for tuples, pred is a scalar and the tuples have equal shapes.

    Example:
        >>> ops.select(np.array([True, False]), np.int32([1, 2]), np.int32([3, 4]))
        Array([1, 4], dtype=int32)
    """

    stablehlo_name = "select"
    is_cheap = True
    operands = ("pred", "on_true", "on_false")
    linear_operands = (1, 2)

    def shape(self, pred, on_true, on_false):
        if pred.element_type is not _PRED:
            self.refuse("C1", "pred must have element type pred", "Compare it with 0 (ne).")
        if on_true is not on_false:
            advice = "Convert and broadcast them to the same shape, or use mx.numpy.where."
            self.refuse("C2", "on_true and on_false must have equal shapes", advice)
        if pred.rank and pred.dimensions != on_true.dimensions:
            advice = "Broadcast it with broadcast_in_dim."
            self.refuse("C3", "pred must be a scalar or have the dimensions of on_true", advice)
        return on_true

    def reference(self, pred, on_true, on_false):
        return np.where(pred, on_true, on_false)

    def stablehlo(self, emit, operands, shapes, results):
        name, types = emit.name(), f"{shapes[0].stablehlo}, {results[0].stablehlo}"
        emit.line(f"{name} = stablehlo.select {', '.join(operands)} : {types}")
        return [name]

    def hlo(self, emit, operands, shapes, result):
        # In HLO, pred has the dimensions of the values.
        pred, *values = operands
        if result.rank and shapes[0].rank == 0:
            whole = result.with_element_type(_PRED)
            pred = emit.instruction("broadcast", [pred], whole, dimensions=())
        return emit.instruction("select", [pred, *values], result)

    def transpose(self, cotangents, operands, linear):
        pred, nothing = operands[0], zeros_like(cotangents)
        return [
            None,
            ops.select(pred, cotangents, nothing) if linear[1] else None,
            ops.select(pred, nothing, cotangents) if linear[2] else None,
        ]

    def batch(self, operands, dimensions):
        size = batch_size(operands, dimensions)
        at = next((dimension for dimension in dimensions[1:] if dimension is not None), 0)
        values = [*map(move_batch, operands[1:], dimensions[1:], repeat(at), repeat(size))]
        return self(_beside(operands[0], dimensions[0], values[0], at), *values), at


@builds(Select)
def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    on_true, on_false = tuple_value(on_true), tuple_value(on_false)
    shapes = [shape_of(operand) for operand in (pred, on_true, on_false)]
    if not isinstance(shapes[1], TupleShape):
        return Select()(*common_sizes(pred, on_true, on_false))
    if shapes[1] is not shapes[2] or shapes[0] is not Shape(_PRED):
        operands = zip(Select.operands, shapes, strict=True)
        problem = "(C4) select of tuples needs a scalar pred and tuples of equal shapes"
        details = [f"{name} {shape}" for name, shape in operands]
        advice = "Pass pred[] as pred, and tuples of equal shapes as on_true and on_false."
        raise explain(ShapeError, "select", problem, details, advice)
    pairs = zip(tuple_leaves(on_true), tuple_leaves(on_false), strict=True)
    return from_leaves(shapes[1], iter([Select()(pred, *pair) for pair in pairs]))


@register
class Undefined(Select):
    """A Select between a value and the constant NaN.

    It is the result of a function outside its domain. Its derivative there is NaN in both modes,
    whereas that of a constant is 0.
    """

    spec_names = ()

    def jvp(self, primals, tangents, results):
        return self(*_replaced(primals, tangents))

    def transpose(self, cotangents, operands, linear):
        # A zero cotangent stays 0: the result is not used.
        chosen = self(*_replaced(operands, spread(linear, repeat(cotangents))))
        zeros = ops.select(ops.eq(cotangents, zeros_like(cotangents)), cotangents, chosen)
        return spread(linear, repeat(zeros))


def _replaced(operands: Sequence[Array], others: Sequence[Array | None]) -> list[Array]:
    """Replace operands by the others that are not None."""
    pairs = zip(operands, others, strict=True)
    return [operand if other is None else other for operand, other in pairs]


@register
class Clamp(Elementwise):
    """Clamp operand between two bounds, minimum(maximum(operand, min), max). XLA: Clamp.

    NaN stays NaN, and the result is max if min > max.

    Args:
        min: the lower bound, an array with the dimensions of operand, or a scalar.
        operand: an array with any element type.
        max: the upper bound, like min.

    Returns:
        An array with the shape of operand.

    Checks:
        (C1) min, operand and max have equal element types.
        (C2) min and max are scalars or have the dimensions of operand.

    Example:
        >>> ops.clamp(np.int32(0), np.int32([-1, 2, 9]), np.int32(5))
        Array([0, 2, 5], dtype=int32)
    """

    stablehlo_name = "clamp"
    is_cheap = True
    operands = ("min", "operand", "max")
    lowered_types = COMPLEX
    numpy = staticmethod(lambda min, operand, max: minimum(maximum(operand, min), max))

    def lowered(self, min, operand, max):
        return ops.min(ops.max(operand, min), max)

    def shape(self, min, operand, max):
        shapes = min, operand, max
        if len({shape.element_type for shape in shapes}) > 1:
            self.refuse(
                "C1", "the element types must be equal", "Convert with convert_element_type."
            )
        for name, bound in (("min", min), ("max", max)):
            if bound.rank and bound is not operand:
                advice = "Broadcast it with broadcast_in_dim."
                self.refuse(
                    "C2", f"{name} must be a scalar or have the dimensions of operand", advice
                )
        return operand

    def jvp(self, primals, tangents, results):
        low, operand, high = primals
        moves_alone = (
            lambda: (low > operand) & (low < high),
            lambda: (operand > low) & (operand < high),
            lambda: (high < operand) | (high < low),
        )
        total = None
        for tangent, holds in zip(tangents, moves_alone, strict=True):
            if tangent is not None:
                if array_shape(tangent).dimensions != array_shape(results).dimensions:
                    tangent = ops.broadcast_in_dim(tangent, array_shape(results).dimensions, ())
                share = ops.select(holds(), tangent, zeros_like(tangent))
                total = add_cotangents(total, share)
        return total

    def batch(self, operands, dimensions):
        size = batch_size(operands, dimensions)
        at = dimensions[1] or 0
        operand = move_batch(operands[1], dimensions[1], at, size)
        low, high = (_beside(operands[i], dimensions[i], operand, at) for i in (0, 2))
        return self(low, operand, high), at


@builds(Clamp)
def clamp(min: ArrayLike, operand: ArrayLike, max: ArrayLike) -> Array:
    return Clamp()(*common_sizes(min, operand, max))


def _beside(operand: Array, dimension: int | None, value: Array, at: int) -> Array:
    """Align a batched pred or bound with `value`, whose batch dimension is `at`; keep scalars."""
    sizes = array_shape(value).dimensions
    rank = array_shape(operand).rank
    if dimension is None:
        return operand if rank == 0 else move_batch(operand, None, at, sizes[at])
    if rank == 1:
        return ops.broadcast_in_dim(operand, sizes, (at,))
    return move_batch(operand, dimension, at, sizes[at])
