"""Element-wise operations on the bits of two operands."""

from __future__ import annotations

import numpy as np

from minixla.core.element_types import element_type
from minixla.core.operation import register
from minixla_ops.elementwise.binary import binary_builder
from minixla_ops.elementwise.families import INTEGERS, INTEGERS_AND_PRED, Binary


class _Bitwise(Binary):
    """Base class of the operations on bits."""

    element_types = INTEGERS_AND_PRED
    zero_derivative = "integers have no derivative"


@register
class And(_Bitwise):
    """The bits that lhs and rhs both have; of pred a logical and. XLA: And."""

    stablehlo_name = "and"
    builder_name = "and_"
    numpy = np.bitwise_and


@register
class Or(_Bitwise):
    """The bits that lhs or rhs has; of pred a logical or. XLA: Or."""

    stablehlo_name = "or"
    builder_name = "or_"
    numpy = np.bitwise_or


@register
class Xor(_Bitwise):
    """The bits that one of lhs and rhs has; of pred whether they differ. XLA: Xor."""

    stablehlo_name = "xor"
    numpy = np.bitwise_xor


class _Shift(_Bitwise):
    """Base class of shifts by rhs bits; amounts outside [0, width) shift every bit out."""

    element_types = INTEGERS

    def reference(self, lhs, rhs):
        kind = element_type(lhs.dtype)
        # The bits stand at the left end of 64; what is shifted out is shifted by 63 and by 1.
        free = np.uint64(64 - kind.bits)
        bits = lhs.astype(np.int64).view(np.uint64) << free
        amount = rhs.astype(np.int64)
        is_inside = (amount >= 0) & (amount < kind.bits)
        for step in (np.where(is_inside, amount, 63), np.where(is_inside, 0, 1)):
            bits = self.shifted(bits, step.astype(np.uint64))
        return np.asarray((bits >> free).astype(lhs.dtype))

    def shifted(self, bits: np.ndarray, amount: np.ndarray) -> np.ndarray:
        """Patterns of 64 bits shifted by amounts in [0, 63]."""
        raise self.lacks("shifted")


@register
class ShiftLeft(_Shift):
    """The bits of lhs moved left by rhs; zeros come in. XLA: ShiftLeft."""

    stablehlo_name = "shift_left"

    def shifted(self, bits, amount):
        return bits << amount


@register
class ShiftRightArithmetic(_Shift):
    """The bits of lhs moved right by rhs; its first bit is repeated. XLA: ShiftRightArithmetic."""

    stablehlo_name = "shift_right_arithmetic"

    def shifted(self, bits, amount):
        return (bits.view(np.int64) >> amount.view(np.int64)).view(np.uint64)


@register
class ShiftRightLogical(_Shift):
    """The bits of lhs moved right by rhs; zeros come in. XLA: ShiftRightLogical."""

    stablehlo_name = "shift_right_logical"

    def shifted(self, bits, amount):
        return bits >> amount


and_ = binary_builder(And)
or_ = binary_builder(Or)
xor = binary_builder(Xor)
shift_left = binary_builder(ShiftLeft)
shift_right_arithmetic = binary_builder(ShiftRightArithmetic)
shift_right_logical = binary_builder(ShiftRightLogical)
