"""ScaledDot: a product of scaled operands, such as block-scaled narrow floats."""

from collections.abc import Sequence

import numpy as np

import minixla_ops as ops
from minixla.core import ELEMENT_TYPES, ElementType, builder, element_type, register
from minixla.typing import Array
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.casting import cast
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.products.dot import Dot, DotGeneral
from minixla_ops.products.product import summing_type
from minixla_ops.programs.lowering import Lowered


@register
class ScaledDot(Lowered, Dot):
    """Multiply lhs and rhs, each with its scale, like DotGeneral. XLA: ScaledDot.

    A scale has the rank of its operand. In each dimension, its size is the operand's or divides it,
    and its element i is for a block of neighbors: operand[j] is multiplied by
    scale[j // (operand size / scale size)]. A scalar scales all elements. Products are computed and
    summed in the result's type, but at least in f32.

    Args:
        lhs: an array of floats.
        lhs_scale: a scalar, or an array with a float for each block of lhs.
        rhs: an array of floats; its element type is that of lhs unless preferred_element_type is
            given.
        rhs_scale: a scalar, or an array with a float for each block of rhs.
        dimension_number: see `dot_general`; the attribute's name is dimension_numbers.
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to return. Default: that of lhs and rhs, but f32 for types
            below 16 bits, which could not represent the products.

    Returns:
        An array like the result of `dot_general`.

    Checks:
        (C1) ... (C7) see Dot.
        (C8) all operands have floating-point types.
        (C9) a scale is a scalar, or its sizes divide those of its operand.

    Example:
        >>> lhs, rhs = np.float32([[1, 2]]), np.float32([[1, 1]])
        >>> scale, one = np.float32([[10, 1]]), np.float32(1)
        >>> ops.scaled_dot(lhs, scale, rhs, one, (([1], [1]), ([], [])))
        Array([[12.]], dtype=float32)
    """

    operands = "lhs", "lhs_scale", "rhs", "rhs_scale"

    def shape(self, *operands):
        lhs, lhs_scale, rhs, rhs_scale = operands
        for name, operand in zip(self.operands, operands, strict=True):
            if not operand.element_type.is_float:
                self.refuse(
                    "C8", f"{name} must have a floating-point type, not {operand.element_type}"
                )
        for name, whole, scale in (("lhs", lhs, lhs_scale), ("rhs", rhs, rhs_scale)):
            pairs = zip(scale.dimensions, whole.dimensions, strict=False)
            fits = all(count == size or (count > 0 and size % count == 0) for count, size in pairs)
            if scale.rank and not (fits and scale.rank == whole.rank):
                self.refuse("C9", f"the sizes of {name}_scale must divide those of {name}")
        product = self.dot_shape(lhs, rhs, self.dimension_numbers)
        return product.with_element_type(self._result_type(lhs.element_type))

    def reference(self, *operands):
        own = element_type(operands[0].dtype)
        kind = self._result_type(own)
        wide = summing_type(kind, own, element_type(operands[2].dtype))
        lhs, lhs_scale, rhs, rhs_scale = (cast(operand, wide) for operand in operands)
        with np.errstate(all="ignore"):
            lhs, rhs = lhs * _repeated(lhs_scale, lhs.shape), rhs * _repeated(rhs_scale, rhs.shape)
            return cast(DotGeneral(self.dimension_numbers).reference(lhs, rhs), kind)

    def lowered(self, *operands):
        lhs_type, _, other, _ = (array_shape(operand).element_type for operand in operands)
        kind = self._result_type(lhs_type)
        wide = summing_type(kind, lhs_type, other)
        lhs, lhs_scale, rhs, rhs_scale = (convert(operand, wide) for operand in operands)
        lhs = lhs * _spread(lhs_scale, array_shape(lhs).dimensions)
        rhs = rhs * _spread(rhs_scale, array_shape(rhs).dimensions)
        product = ops.dot_general(lhs, rhs, self.dimension_numbers, self.precision_config)
        return convert(product, kind)

    def hlo(self, emit, operands, shapes, result):
        lhs, lhs_scale, rhs, rhs_scale = operands  # the scales are last in HLO
        return super().hlo(emit, [lhs, rhs, lhs_scale, rhs_scale], shapes, result)

    def _result_type(self, lhs_type: ElementType) -> ElementType:
        default = lhs_type if lhs_type.bits >= 16 else ELEMENT_TYPES["f32"]
        return self.preferred_element_type or default


def _repeated(scale: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    for dimension, count in enumerate(scale.shape):
        if count not in (0, 1):
            scale = np.repeat(scale, sizes[dimension] // count, dimension)
    return scale


def _spread(scale: Array, sizes: Sequence[int]) -> Array:
    """Repeat a scale to the sizes of its operand."""
    counts = array_shape(scale).dimensions
    if not counts:
        return ops.broadcast_in_dim(scale, sizes, ())
    pairs = zip(counts, sizes, strict=True)
    split = [part for n, size in pairs for part in (n, size // n if n else 1)]
    return ops.reshape(ops.broadcast_in_dim(scale, split, range(0, 2 * len(counts), 2)), sizes)


scaled_dot = builder(ScaledDot, dimension_numbers="dimension_number")
