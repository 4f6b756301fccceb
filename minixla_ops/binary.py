"""Element-wise operations of two operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.operation import register
from minixla.core.roles import fill_role
from minixla.core.tracing import bind
from minixla_ops.broadcasting import broadcast_operands
from minixla_ops.elementwise import ALL, NUMERIC, Binary, named_like

__all__ = ["add", "div", "mul", "sub"]


def _binary(operation: type[Binary]) -> Any:
    instance = operation.instance  # type: ignore[attr-defined]

    def builder(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Any:
        lhs, rhs = broadcast_operands(instance, lhs, rhs, broadcast_dimensions)
        return bind(instance, lhs, rhs)

    return named_like(builder, operation)


@register
class Add(Binary):
    """Sum; integers wrap, pred is a logical or. XLA: Add."""

    stablehlo_name = "add"
    element_types = ALL
    linear_operands = (0, 1)
    numpy = np.add

    def jvp(self, primals: Any, tangents: Any, results: Any, **attributes: Any) -> Any:
        one, other = tangents
        if one is None or other is None:
            return other if one is None else one
        return bind(self, one, other)

    def transpose(self, cotangents: Any, operands: Any, linear: Any, **attributes: Any) -> Any:
        return [cotangents if flag else None for flag in linear]


@register
class Sub(Binary):
    """Difference; integers wrap. XLA: Sub."""

    hlo_name = "subtract"
    stablehlo_name = "subtract"
    element_types = NUMERIC
    linear_operands = (0, 1)
    numpy = np.subtract

    def jvp(self, primals: Any, tangents: Any, results: Any, **attributes: Any) -> Any:
        one, other = tangents
        if one is None:
            return -other
        return one if other is None else bind(self, one, other)

    def transpose(self, cotangents: Any, operands: Any, linear: Any, **attributes: Any) -> Any:
        return [cotangents if linear[0] else None, -cotangents if linear[1] else None]


@register
class Mul(Binary):
    """Product; integers wrap, pred is a logical and. XLA: Mul."""

    hlo_name = "multiply"
    stablehlo_name = "multiply"
    element_types = ALL
    linear_operands = (0, 1)
    jointly_linear = False
    numpy = np.multiply

    def transpose(self, cotangents: Any, operands: Any, linear: Any, **attributes: Any) -> Any:
        lhs, rhs = operands
        return [cotangents * rhs if linear[0] else None, lhs * cotangents if linear[1] else None]


@register
class Div(Binary):
    """Quotient; of integers rounded toward zero. XLA: Div."""

    hlo_name = "divide"
    stablehlo_name = "divide"
    element_types = NUMERIC

    numpy = np.divide

    def derivatives(
        self, lhs: Any, rhs: Any, result: Any
    ) -> tuple[Callable[[], Any], Callable[[], Any]]:
        return lambda: 1 / rhs, lambda: -result / rhs


add = _binary(Add)
sub = _binary(Sub)
mul = _binary(Mul)
div = _binary(Div)

fill_role("add", lambda x, y: bind(Add.instance, x, y))  # type: ignore[attr-defined]
