"""XLA's family Compare: one operation for each direction and order."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES, F32, ElementType, element_type
from minixla.core.errors import AttributeValueError, explain
from minixla.core.operation import register
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise.families import ALL, COMPLEX, FLOATS, Binary
from minixla_ops.elementwise.numpy_special import lexicographic
from minixla_ops.helpers.shorthand import array_shape, written
from minixla_ops.movement.broadcasting import broadcast_operands

_OF_SIX_BITS = frozenset(kind for kind in FLOATS if kind.bits == 6)
_NUMPY: dict[str, np.ufunc] = dict(
    EQ=np.equal, NE=np.not_equal, GE=np.greater_equal, GT=np.greater, LE=np.less_equal, LT=np.less
)


class Comparison(Binary):
    """Base class of comparisons of lhs and rhs; the result is pred.

    Floats are compared by IEEE 754: a comparison with NaN is false, except for `Ne`, and -0 equals
    +0. The total order compares floats by sign and bits instead:
    -NaN < -inf < -finite < -0 < +0 < +finite < +inf < +NaN. Other types are compared as usual.
    Complex numbers are ordered by real parts, then by imaginary parts.

    Attributes:
        direction: EQ, NE, GE, GT, LE or LT.
        total_order: whether floats are compared in the total order.
    """

    element_types = ALL
    stablehlo_name = "compare"
    is_cheap = True
    zero_derivative = "the result is pred"
    direction: ClassVar[str]
    total_order: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        by_parts = frozenset() if cls.direction in ("EQ", "NE") else COMPLEX
        cls.lowered_types = by_parts | _OF_SIX_BITS if cls.total_order else by_parts

    def result_shape(self, operand):
        return operand.with_element_type(ELEMENT_TYPES["pred"])

    def reference(self, lhs, rhs):
        kind, holds = element_type(lhs.dtype), _NUMPY[self.direction]
        with np.errstate(all="ignore"):
            if self.total_order and kind.is_float:
                return np.asarray(holds(total_order(lhs, kind), total_order(rhs, kind)))
            if kind in self.lowered_types:
                return lexicographic(holds, lhs, rhs)
            return np.asarray(holds(lhs, rhs))

    def stablehlo(self, emit, operands, shapes, results):
        kind = shapes[0].element_type
        if kind in self.lowered_types:
            return super().stablehlo(emit, operands, shapes, results)
        how = _COMPARE_TYPES.get(kind.kind, "FLOAT")
        how = "TOTALORDER" if self.total_order and kind.is_float else how
        text = f"stablehlo.compare {self.direction}, {', '.join(operands)}, {how}"
        return written(emit, text, shapes, results[0])

    def lowered(self, lhs, rhs):
        if not array_shape(lhs).element_type.is_complex:
            # XLA crashes on 6-bit types. They have no NaN, so comparing in f32 gives the same
            # order.
            return self(*[ops.convert_element_type(operand, F32) for operand in (lhs, rhs)])
        # StableHLO's compare has this meaning, but XLA compares only the real parts.
        real, imag = ([part(operand) for operand in (lhs, rhs)] for part in (ops.real, ops.imag))
        holds = MEMBERS[self.direction, False]()
        return ops.select(ops.eq(real[0], real[1]), holds(*imag), holds(*real))

    def hlo_attributes(self, shapes):
        in_total_order = self.total_order and shapes[0].element_type.is_float
        return {"direction": self.direction, "type": "TOTALORDER" if in_total_order else None}


_COMPARE_TYPES = {"pred": "UNSIGNED", "unsigned": "UNSIGNED", "signed": "SIGNED"}


def total_order(array: np.ndarray, kind: ElementType) -> np.ndarray:
    """Map the floats of `array` to integers in the total order."""
    bits = array.view(f"u{array.dtype.itemsize}").astype(np.uint64)
    if kind.name == "f8e8m0fnu":  # this type has no sign
        return bits
    sign = np.uint64(1 << (kind.bits - 1))
    magnitude = (bits & ~sign).astype(np.int64)
    position = np.where(bits & sign, ~magnitude, magnitude)
    if kind.name.endswith("fnuz"):  # only the sign bit of NaN is set
        return np.where(bits == sign, np.iinfo(np.int64).min, position)
    return position


@register
class Eq(Comparison):
    """Element-wise lhs == rhs. XLA: Eq.

    Example:
        >>> ops.eq(np.float32([1, 2]), np.float32([2, 2]))
        Array([False,  True], dtype=bool)
    """

    spec_names = "Eq", "Compare"
    direction = "EQ"


@register
class Ne(Comparison):
    """Element-wise lhs != rhs; true if either is NaN. XLA: Ne.

    Example:
        >>> ops.ne(np.float32([1, np.nan]), np.float32([1, np.nan]))
        Array([False,  True], dtype=bool)
    """

    spec_names = "Ne", "Compare"
    direction = "NE"


@register
class Ge(Comparison):
    """Element-wise lhs >= rhs. XLA: Ge.

    Example:
        >>> ops.ge(np.float32([1, 2]), np.float32([2, 2]))
        Array([False,  True], dtype=bool)
    """

    spec_names = "Ge", "Compare"
    direction = "GE"


@register
class Gt(Comparison):
    """Element-wise lhs > rhs. XLA: Gt.

    Example:
        >>> ops.gt(np.float32([1, 3]), np.float32([2, 2]))
        Array([False,  True], dtype=bool)
    """

    spec_names = "Gt", "Compare"
    direction = "GT"


@register
class Le(Comparison):
    """Element-wise lhs <= rhs. XLA: Le.

    Example:
        >>> ops.le(np.float32([1, 3]), np.float32([2, 2]))
        Array([ True, False], dtype=bool)
    """

    spec_names = "Le", "Compare"
    direction = "LE"


@register
class Lt(Comparison):
    """Element-wise lhs < rhs. XLA: Lt.

    Example:
        >>> ops.lt(np.float32([1, 3]), np.float32([2, 2]))
        Array([ True, False], dtype=bool)
    """

    spec_names = "Lt", "Compare"
    direction = "LT"


@register
class EqTotalOrder(Comparison):
    """Element-wise equality in the total order of floats: the same bits. XLA: EqTotalOrder.

    Example:
        >>> ops.eq_total_order(np.float32([0.0, np.nan]), np.float32([-0.0, np.nan]))
        Array([False,  True], dtype=bool)
    """

    spec_names = "EqTotalOrder", "Compare"
    direction = "EQ"
    total_order = True


@register
class NeTotalOrder(Comparison):
    """Element-wise inequality in the total order of floats. XLA: NeTotalOrder.

    Example:
        >>> ops.ne_total_order(np.float32([0.0, np.nan]), np.float32([-0.0, np.nan]))
        Array([ True, False], dtype=bool)
    """

    spec_names = "NeTotalOrder", "Compare"
    direction = "NE"
    total_order = True


@register
class GeTotalOrder(Comparison):
    """Element-wise lhs >= rhs in the total order of floats. XLA: GeTotalOrder.

    Example:
        >>> ops.ge_total_order(np.float32([0.0, -0.0]), np.float32([-0.0, 0.0]))
        Array([ True, False], dtype=bool)
    """

    spec_names = "GeTotalOrder", "Compare"
    direction = "GE"
    total_order = True


@register
class GtTotalOrder(Comparison):
    """Element-wise lhs > rhs in the total order of floats. XLA: GtTotalOrder.

    Example:
        >>> ops.gt_total_order(np.float32([0.0, np.nan]), np.float32([-0.0, np.inf]))
        Array([ True,  True], dtype=bool)
    """

    spec_names = "GtTotalOrder", "Compare"
    direction = "GT"
    total_order = True


@register
class LeTotalOrder(Comparison):
    """Element-wise lhs <= rhs in the total order of floats. XLA: LeTotalOrder.

    Example:
        >>> ops.le_total_order(np.float32([0.0, -0.0]), np.float32([-0.0, 0.0]))
        Array([False,  True], dtype=bool)
    """

    spec_names = "LeTotalOrder", "Compare"
    direction = "LE"
    total_order = True


@register
class LtTotalOrder(Comparison):
    """Element-wise lhs < rhs in the total order of floats. XLA: LtTotalOrder.

    Example:
        >>> ops.lt_total_order(np.float32([-0.0, np.inf]), np.float32([0.0, np.nan]))
        Array([ True,  True], dtype=bool)
    """

    spec_names = "LtTotalOrder", "Compare"
    direction = "LT"
    total_order = True


#: Comparison classes by direction and total_order.
MEMBERS: dict[tuple[str, bool], type[Comparison]] = {
    (member.direction, member.total_order): member for member in Comparison.__subclasses__()
}


def compare(
    lhs: ArrayLike,
    rhs: ArrayLike,
    direction: str,
    broadcast_dimensions: Sequence[int] | None = None,
    total_order: bool = False,
) -> Array:
    """Compare two arrays in the given direction; see Comparison.

    XLA: Compare.

    Args:
        lhs: an array with any element type.
        rhs: an array with the same element type.
        direction: EQ, NE, GE, GT, LE or LT.
        broadcast_dimensions: for each dimension of the lower-rank operand, its dimension in the
            other operand.
        total_order: whether floats are compared in the total order.

    Returns:
        A pred array with the dimensions that both operands broadcast to.

    Raises:
        AttributeValueError: direction or total_order is invalid.
        ShapeError: the operands do not broadcast.

    Example:
        >>> ops.compare(np.int32([1, 2, 3]), np.int32([2, 2, 2]), "GE")
        Array([False,  True,  True], dtype=bool)
    """
    operation = None
    if isinstance(direction, str) and isinstance(total_order, (bool, np.bool_)):
        operation = MEMBERS.get((direction, bool(total_order)))
    if operation is None:
        details = [f"direction = {direction!r}", f"total_order = {total_order!r}"]
        advice = f"direction must be one of {', '.join(_NUMPY)}, and total_order True or False."
        raise explain(
            AttributeValueError, "compare", "direction or total_order is invalid", details, advice
        )
    record = operation()
    return record(*broadcast_operands(record, lhs, rhs, broadcast_dimensions))
