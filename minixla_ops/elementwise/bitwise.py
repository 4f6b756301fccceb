"""Element-wise operations on the bits of two operands."""

from __future__ import annotations

import numpy as np

from minixla.core.element_types import ELEMENT_TYPES, element_type
from minixla.core.operation import register
from minixla_ops.elementwise.binary import binary_builder
from minixla_ops.elementwise.families import INTEGERS, INTEGERS_AND_PRED, Binary
from minixla_ops.vocabulary.casting import cast


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
    #: As signed (s) or unsigned (u) integers of which NumPy sees the operands.
    seen_as = "u"

    def reference(self, lhs, rhs):
        kind = element_type(lhs.dtype)
        seen = ELEMENT_TYPES[f"{self.seen_as}{kind.bits}"]
        return cast(super().reference(cast(lhs, seen), cast(rhs, seen)), kind)


@register
class ShiftLeft(_Shift):
    """The bits of lhs moved left by rhs; zeros come in. XLA: ShiftLeft."""

    stablehlo_name = "shift_left"
    numpy = np.left_shift


@register
class ShiftRightArithmetic(_Shift):
    """The bits of lhs moved right by rhs; its first bit is repeated. XLA: ShiftRightArithmetic."""

    stablehlo_name = "shift_right_arithmetic"
    seen_as = "s"
    numpy = np.right_shift


@register
class ShiftRightLogical(_Shift):
    """The bits of lhs moved right by rhs; zeros come in. XLA: ShiftRightLogical."""

    stablehlo_name = "shift_right_logical"
    numpy = np.right_shift


and_, or_, xor, shift_left = map(binary_builder, (And, Or, Xor, ShiftLeft))
shift_right_arithmetic = binary_builder(ShiftRightArithmetic)
shift_right_logical = binary_builder(ShiftRightLogical)
