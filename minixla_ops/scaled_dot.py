"""ScaledDot: a product of operands that have scales, as those of few bits do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Optional, TypeAttribute
from minixla.core.element_types import ELEMENT_TYPES, ElementType, element_type
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.casting import cast
from minixla_ops.composed import Composed
from minixla_ops.dot import Dot, DotGeneral, dot_general
from minixla_ops.dot_dimensions import DotDimensionNumbers, DotDimensions
from minixla_ops.operators import convert
from minixla_ops.products import Precision, PrecisionAttribute, summing_type
from minixla_ops.reshaping import reshape
from minixla_ops.rules import array_shape

__all__ = ["scaled_dot"]


@register
class ScaledDot(Composed, Dot):
    """DotGeneral of lhs and rhs, each multiplied by its scale. XLA: ScaledDot.

    A scale has the rank of its operand. In each dimension its size is the operand's or divides
    it, and its element i is that of a block of neighbours: operand[j] is multiplied by
    scale[j // (operand size / scale size)]. A scalar scales all elements alike. Products are
    computed and summed in the result's type, but at least in f32.

    Attributes:
        dimension_numbers, precision_config: see DotGeneral.
        preferred_element_type: the type to return; default: that of lhs and rhs, but f32 where it
            has fewer than 16 bits, which could not hold what they multiply to.

    Checks:
        (C1) ... (C7) see Dot.
        (C8) all operands are of floating-point types.
        (C9) the sizes of a scale divide those of its operand, unless it is a scalar.
    """

    operand_names = ("lhs", "lhs_scale", "rhs", "rhs_scale")
    attributes = {
        "dimension_numbers": DotDimensions(),
        "precision_config": Optional(PrecisionAttribute()),
        "preferred_element_type": Optional(TypeAttribute()),
    }

    def shape(
        self,
        *operands: Any,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> Shape:
        shapes = self.array_shapes(operands)
        given = [f"{name} {each}" for name, each in zip(self.operand_names, shapes, strict=True)]
        for name, each in zip(self.operand_names, shapes, strict=True):
            if not each.element_type.is_float:
                self.reject("C8", f"{name} is of type {each.element_type}", given,
                            "It takes floating-point types.")  # fmt: skip
        lhs, lhs_scale, rhs, rhs_scale = shapes
        for name, whole, scale in (("lhs", lhs, lhs_scale), ("rhs", rhs, rhs_scale)):
            if scale.rank and not _divides(scale.dimensions, whole.dimensions):
                self.reject("C9", f"the sizes of {name}_scale do not divide those of {name}",
                            given, "A scale is a scalar or has one element a block.")  # fmt: skip
        kind = _result_type(lhs.element_type, preferred_element_type)
        return self.dot_shape(lhs, rhs, dimension_numbers, kind)

    def reference(
        self,
        *operands: np.ndarray,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> np.ndarray:
        own = element_type(operands[0].dtype)
        kind = _result_type(own, preferred_element_type)
        wide = summing_type(own, kind)
        lhs, lhs_scale, rhs, rhs_scale = (cast(each, wide) for each in operands)
        numbers: dict[str, Any] = {"dimension_numbers": dimension_numbers}
        numbers.update(precision_config=None, preferred_element_type=None)
        with np.errstate(all="ignore"):
            lhs, rhs = lhs * _repeated(lhs_scale, lhs.shape), rhs * _repeated(rhs_scale, rhs.shape)
            return cast(DotGeneral.instance.reference(lhs, rhs, **numbers), kind)

    def composition(
        self,
        *operands: Any,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> Any:
        own = array_shape(operands[0]).element_type
        kind = _result_type(own, preferred_element_type)
        wide = summing_type(own, kind)
        lhs, lhs_scale, rhs, rhs_scale = (convert(each, wide) for each in operands)
        lhs = lhs * _spread(lhs_scale, array_shape(lhs).dimensions)
        rhs = rhs * _spread(rhs_scale, array_shape(rhs).dimensions)
        return convert(dot_general(lhs, rhs, dimension_numbers, precision_config), kind)

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        **attributes: Any,
    ) -> str:
        lhs, lhs_scale, rhs, rhs_scale = operands  # HLO has the scales last
        texts = self.hlo_attributes(shapes, **attributes)
        return emit.instruction(self.hlo_name, [lhs, rhs, lhs_scale, rhs_scale], result, **texts)

    def hlo_attributes(
        self,
        shapes: Sequence[AnyShape],
        /,
        *,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision | None,
        preferred_element_type: ElementType | None,
    ) -> dict[str, Any]:
        return self.dot_hlo(dimension_numbers, precision_config)


def _result_type(own: ElementType, preferred: ElementType | None) -> ElementType:
    return preferred or (own if own.bits >= 16 else ELEMENT_TYPES["f32"])


def _divides(blocks: Sequence[int], sizes: Sequence[int]) -> bool:
    return len(blocks) == len(sizes) and all(
        count == size or (count > 0 and size % count == 0)
        for count, size in zip(blocks, sizes, strict=True)
    )


def _repeated(scale: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    for dimension, count in enumerate(scale.shape):
        if count not in (0, 1):
            scale = np.repeat(scale, sizes[dimension] // count, dimension)
    return scale


def _spread(scale: Any, sizes: Sequence[int]) -> Any:
    """A scale repeated to the sizes of its operand."""
    counts = array_shape(scale).dimensions
    if not counts:
        return broadcast_in_dim(scale, sizes, ())
    split = [n for count, size in zip(counts, sizes, strict=True)
             for n in (count, size // count if count else 1)]  # fmt: skip
    return reshape(broadcast_in_dim(scale, split, range(0, 2 * len(counts), 2)), sizes)


def scaled_dot(
    lhs: Any,
    lhs_scale: Any,
    rhs: Any,
    rhs_scale: Any,
    dimension_number: Any,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The product of two arrays, each multiplied by its scale first.

    Args:
        lhs: an array of floats.
        lhs_scale: a scalar, or an array with a float for each block of lhs: in each dimension its
            size divides that of lhs.
        rhs: an array of the type of lhs.
        rhs_scale: the same for rhs.
        dimension_number: see `dot_general`.
        precision_config: DEFAULT, HIGH or HIGHEST, or a pair of them for lhs and rhs.
        preferred_element_type: the type to return; default: that of lhs, but f32 for types of
            fewer than 16 bits.

    Returns:
        An array as `dot_general` gives it.

    Raises:
        AttributeValueError, ShapeError: see ScaledDot.
    """
    return bind(
        ScaledDot.instance,
        lhs,
        lhs_scale,
        rhs,
        rhs_scale,
        dimension_numbers=dimension_number,
        precision_config=precision_config,
        preferred_element_type=preferred_element_type,
    )
