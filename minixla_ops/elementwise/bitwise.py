"""Element-wise operations on the bits of two operands."""

from __future__ import annotations

from functools import partial

import numpy as np

from minixla.core.element_types import ELEMENT_TYPES, element_type
from minixla_ops.elementwise.binary import binary_builder
from minixla_ops.elementwise.families import INTEGERS, INTEGERS_AND_PRED, Binary, named_row
from minixla_ops.vocabulary.casting import cast


class _Bitwise(Binary):
    """Base class of the operations on bits."""

    element_types = INTEGERS_AND_PRED
    zero_derivative = "integers have no derivative"


class _Shift(_Bitwise):
    """Base class of shifts by rhs bits; amounts outside [0, width) shift every bit out."""

    element_types = INTEGERS
    #: As signed (s) or unsigned (u) integers of which NumPy sees the operands.
    seen_as = "u"

    def reference(self, lhs, rhs):
        kind = element_type(lhs.dtype)
        seen = ELEMENT_TYPES[f"{self.seen_as}{kind.bits}"]
        return cast(super().reference(cast(lhs, seen), cast(rhs, seen)), kind)


_row = partial(named_row, _Bitwise, build=binary_builder)
_shift = partial(named_row, _Shift, build=binary_builder)
and_ = _row("and", np.bitwise_and, "The bits that lhs and rhs both have; of pred a logical and.")
or_ = _row("or", np.bitwise_or, "The bits that lhs or rhs has; of pred a logical or.")
xor = _row(
    "xor", np.bitwise_xor, "The bits that one of lhs and rhs has; of pred whether they differ."
)
shift_left = _shift(
    "shift_left", np.left_shift, "The bits of lhs moved left by rhs; zeros come in."
)
shift_right_arithmetic = _shift(
    "shift_right_arithmetic",
    np.right_shift,
    "The bits of lhs moved right by rhs; its first bit is repeated.",
    seen_as="s",
)
shift_right_logical = _shift(
    "shift_right_logical", np.right_shift, "The bits of lhs moved right by rhs; zeros come in."
)
