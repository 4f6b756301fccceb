"""Functions whose derivatives are given, since those of their formulas lose digits or are NaN."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import minixla_ops as ops
from minixla_ops.vocabulary.shorthand import full_like, ones_like

__all__ = ["root", "with_derivatives"]

Function = Callable[..., Any]


def with_derivatives(function: Function, *derivatives: Function) -> Function:
    """`function` with derivatives of its own.

    Args:
        function: of one array or several.
        derivatives: for each operand a function of the result and the operands.
    """

    @cache
    def made() -> Any:
        # Transformations are built on this package, too.
        from minixla.transforms.custom_derivatives import custom_jvp

        custom = custom_jvp(function)
        custom.defjvps(*[_rule(each) for each in derivatives])
        return custom

    return lambda *operands: made()(*operands)


def _rule(derivative: Function) -> Function:
    return lambda tangent, result, *operands: tangent * derivative(result, *operands)


def root(x: Any) -> Any:
    """The square root of numbers >= 0; its derivative at 0 is 0."""
    is_zero = x == 0
    positive = ops.select(is_zero, ones_like(x), x)
    return ops.select(is_zero, full_like(x, 0), ops.sqrt(positive))
