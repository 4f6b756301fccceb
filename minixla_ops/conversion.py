"""Operations that change the element type or the number of bits that a value keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import TypeAttribute
from minixla.core.element_types import ElementType, element_type
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla_ops.elementwise import Unary
from minixla_ops.rules import array_shape

__all__ = ["convert_element_type"]


def converted(array: np.ndarray, target: ElementType) -> np.ndarray:
    """`array` with each value converted to `target` as XLA converts it."""
    source = array.dtype
    with np.errstate(all="ignore"):
        if target.kind == "pred":
            return array != 0
        if source.kind == "c" and not target.is_complex:
            array = array.real
        if target.is_integer and _is_float(array.dtype):
            return _saturated(array, target)
        if target.is_integer:
            return array.astype(target.dtype)
        return array.astype(target.dtype)


def _is_float(dtype: np.dtype) -> bool:
    return np.issubdtype(dtype, np.floating) or element_type(dtype).is_float


def _saturated(array: np.ndarray, target: ElementType) -> np.ndarray:
    """Floats as integers: fractions are cut off, NaN is 0, what does not fit is clamped."""
    if array.dtype.itemsize < 4:
        array = array.astype(np.float32)
    bits = target.bits - (target.kind == "signed")
    highest, lowest = (1 << bits) - 1, -(1 << bits) if target.kind == "signed" else 0
    wide = np.int64 if target.kind == "signed" else np.uint64
    # 2**bits is exact in every float type, the greatest integer below it need not be.
    too_high, too_low = array >= float(highest + 1), array < lowest
    inside = np.where(too_high | too_low | np.isnan(array), 0, array)
    whole = np.trunc(inside).astype(wide)
    whole = np.where(too_high, wide(highest), np.where(too_low, wide(lowest), whole))
    return whole.astype(target.dtype)


@register
class ConvertElementType(Unary):
    """The same values in another element type, as C++'s static_cast has them. XLA: ConvertElementType.

    Integers wrap; floats are rounded to the nearest (ties to even), become integers by cutting off
    the fraction and saturating (NaN gives 0), and pred by comparing with 0; complex numbers lose
    their imaginary part on the way to a real type.

    Attributes:
        new_element_type: the type to convert to.
    """

    hlo_name = "convert"
    stablehlo_name = "convert"
    attributes = {"new_element_type": TypeAttribute()}
    linear_operands = (0,)

    def result_shape(self, operand: Shape, *, new_element_type: ElementType) -> Shape:
        return operand.with_element_type(new_element_type)

    def reference(self, operand: np.ndarray, *, new_element_type: ElementType) -> np.ndarray:
        return converted(operand, new_element_type)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        **attributes: Any,
    ) -> Sequence[str]:
        return emit.operation("stablehlo.convert", operands, shapes, results)

    def transpose(
        self, cotangents: Any, operands: Any, linear: Any, *, new_element_type: ElementType
    ) -> Any:
        return (convert_element_type(cotangents, array_shape(operands[0]).element_type),)


def convert_element_type(operand: Any, new_element_type: Any) -> Any:
    """`operand` converted to `new_element_type`; see ConvertElementType.

    Args:
        operand: an array of any element type.
        new_element_type: an ElementType, its name, or a dtype.

    Returns:
        An array of the same dimensions.
    """
    kind = element_type(new_element_type)
    return bind(ConvertElementType.instance, operand, new_element_type=kind)  # type: ignore[attr-defined]
