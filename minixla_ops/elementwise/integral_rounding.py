"""Element-wise rounding to integral values, which stay in the operand's float type."""

from __future__ import annotations

from typing import Any

import numpy as np

from minixla.core.builders import builder
from minixla.core.operation import register
from minixla_ops.elementwise.families import FLOATS, Unary


def _half_away_from_zero(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    # Not trunc(x + 0.5), which rounds the number before 0.5 up.
    step = np.where(np.abs(x - whole) >= 0.5, 1, 0).astype(x.dtype)
    return whole + np.copysign(step, x)


class _Rounding(Unary):
    """Base class of roundings."""

    element_types = FLOATS
    zero_derivative = "it is piecewise constant"


@register
class Ceil(_Rounding):
    """The smallest integral value not below x. XLA: Ceil."""

    stablehlo_name = "ceil"
    numpy = np.ceil


@register
class Floor(_Rounding):
    """The largest integral value not above x. XLA: Floor."""

    stablehlo_name = "floor"
    numpy = np.floor


@register
class RoundNearestAfz(_Rounding):
    """The nearest integral value, ties away from zero: 2.5 -> 3, -0.5 -> -1.

    XLA: RoundNearestAfz, and Round, its older name.
    """

    spec_names = ("RoundNearestAfz", "Round")
    stablehlo_name = "round_nearest_afz"
    numpy = staticmethod(_half_away_from_zero)


@register
class RoundNearestEven(_Rounding):
    """The nearest integral value, ties to the even one: 2.5 -> 2, 1.5 -> 2.

    XLA: RoundNearestEven.
    """

    stablehlo_name = "round_nearest_even"
    numpy = np.rint


ceil = builder(Ceil)
floor = builder(Floor)
round_nearest_afz = builder(RoundNearestAfz)
round_nearest_even = builder(RoundNearestEven)


def round(operand: Any) -> Any:
    """The nearest integral values, ties away from zero: `round_nearest_afz` by its older name."""
    return round_nearest_afz(operand)
