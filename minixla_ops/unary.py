"""Element-wise operations of one operand."""

from __future__ import annotations

from typing import Any

import numpy as np

from minixla.core.attributes import Optional, Text
from minixla.core.operation import register
from minixla.core.tracing import bind
from minixla_ops.elementwise import INEXACT, NUMERIC, Unary, named_like

__all__ = ["exp", "log", "neg", "tanh"]


class FloatUnary(Unary):
    """Base class of the functions that take an accuracy request (rule RA).

    Attributes:
        result_accuracy: MLIR text of a `#stablehlo.result_accuracy`, or None. It asks for an
            implementation and does not change what the function is.
    """

    element_types = INEXACT
    attributes = {"result_accuracy": Optional(Text())}


def _unary(operation: type[Unary]) -> Any:
    instance = operation.instance  # type: ignore[attr-defined]

    def builder(operand: Any) -> Any:
        return bind(instance, operand)

    return named_like(builder, operation)


def _unary_with_accuracy(operation: type[FloatUnary]) -> Any:
    instance = operation.instance  # type: ignore[attr-defined]

    def builder(operand: Any, result_accuracy: str | None = None) -> Any:
        return bind(instance, operand, result_accuracy=result_accuracy)

    return named_like(builder, operation)


@register
class Neg(Unary):
    """Negation, -x; integers wrap. XLA: Neg."""

    hlo_name = "negate"
    stablehlo_name = "negate"
    element_types = NUMERIC
    linear_operands = (0,)
    numpy = np.negative

    def transpose(self, cotangents: Any, operands: Any, linear: Any, **attributes: Any) -> Any:
        return (-cotangents,)


@register
class Exp(FloatUnary):
    """Exponential, e**x. XLA: Exp."""

    hlo_name = "exponential"
    stablehlo_name = "exponential"
    numpy = np.exp

    def derivative(self, operand: Any, result: Any, **attributes: Any) -> Any:
        return result


@register
class Log(FloatUnary):
    """Natural logarithm. XLA: Log."""

    stablehlo_name = "log"
    numpy = np.log

    def derivative(self, operand: Any, result: Any, **attributes: Any) -> Any:
        return 1 / operand


@register
class Tanh(FloatUnary):
    """Hyperbolic tangent. XLA: Tanh."""

    stablehlo_name = "tanh"
    numpy = np.tanh

    def derivative(self, operand: Any, result: Any, **attributes: Any) -> Any:
        return 1 - result * result


neg = _unary(Neg)
exp = _unary_with_accuracy(Exp)
log = _unary_with_accuracy(Log)
tanh = _unary_with_accuracy(Tanh)
