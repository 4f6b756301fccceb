"""Element-wise rounding to integral values, which stay in the operand's float type."""

from __future__ import annotations

from typing import Any

import numpy as np

from minixla.core.builders import builder
from minixla.core.operation import register
from minixla_ops.elementwise.families import FLOATS, Unary, row


def _half_away_from_zero(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    # Not trunc(x + 0.5), which rounds the number before 0.5 up.
    step = np.where(np.abs(x - whole) >= 0.5, 1, 0).astype(x.dtype)
    return whole + np.copysign(step, x)


class _Rounding(Unary):
    """Base class of roundings."""

    element_types = FLOATS
    zero_derivative = "it is piecewise constant"


def _row(stablehlo_name: str, numpy: Any, meaning: str) -> Any:
    name = stablehlo_name.title().replace("_", "")
    meaning = f"{meaning} XLA: {name}."
    return row(_Rounding, name, meaning, stablehlo_name=stablehlo_name, numpy=numpy)


ceil = _row("ceil", np.ceil, "The smallest integral value not below x.")
floor = _row("floor", np.floor, "The largest integral value not above x.")
round_nearest_even = _row(
    "round_nearest_even", np.rint, "The nearest integral value, ties to the even one: 1.5 -> 2."
)


@register
class RoundNearestAfz(_Rounding):
    """The nearest integral value, ties away from zero: 2.5 -> 3, -0.5 -> -1.

    XLA: RoundNearestAfz, and Round, its older name.
    """

    spec_names = ("RoundNearestAfz", "Round")
    stablehlo_name = "round_nearest_afz"
    numpy = _half_away_from_zero


round_nearest_afz = builder(RoundNearestAfz)


def round(operand: Any) -> Any:
    """The nearest integral values, ties away from zero: `round_nearest_afz` by its older name."""
    return round_nearest_afz(operand)
