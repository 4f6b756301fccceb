"""Functions of the chlo dialect that XLA's operation set lacks.

A program in StableHLO keeps them, and a backend writes them as it does for JAX. Their derivatives
are the known ones, rather than those of polynomials that approximate them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.operation import Operation, register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind
from minixla.interop.decomposition import decomposition
from minixla_ops import cosh, exp, rsqrt
from minixla_ops.elementwise import FLOATS, Binary, Elementwise, Unary
from minixla_ops.evaluation import apply_elementwise
from minixla_ops.rules import full_like

__all__ = ["SPECIAL"]


def _approximated(name: str, count: int = 1) -> Any:
    """The function in NumPy: what MLIR writes for it, in double."""
    scalar = Shape(ELEMENT_TYPES["f64"])

    def function(*operands: np.ndarray) -> np.ndarray:
        graph = decomposition(f"chlo.{name}", (scalar,) * count, (scalar,), "")
        return apply_elementwise(graph, operands)[0]

    return staticmethod(function)


class _Special(Elementwise):
    """Base class: a function of floats with the name of its class in snake_case."""

    element_types = FLOATS
    in_double = True
    spec_names = ()

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        **attributes: Any,
    ) -> Sequence[str]:
        """The operation of chlo."""
        return emit.operation(f"chlo.{self.builder_name}", operands, shapes, results)


class _SpecialUnary(_Special, Unary):
    #: d result / d operand from operand and result.
    rule: Callable[[Any, Any], Any]

    def derivative(self, operand: Any, result: Any, /, **attributes: Any) -> Any:
        """See `rule`."""
        return type(self).rule(operand, result)


@register
class Sinh(_SpecialUnary):
    """Hyperbolic sine."""

    numpy = np.sinh
    rule = staticmethod(lambda x, y: cosh(x))


@register
class Asin(_SpecialUnary):
    """Inverse sine."""

    numpy = np.arcsin
    rule = staticmethod(lambda x, y: rsqrt(1 - x * x))


@register
class Acos(_SpecialUnary):
    """Inverse cosine."""

    numpy = np.arccos
    rule = staticmethod(lambda x, y: -rsqrt(1 - x * x))


@register
class Atan(_SpecialUnary):
    """Inverse tangent."""

    numpy = np.arctan
    rule = staticmethod(lambda x, y: 1 / (1 + x * x))


@register
class Asinh(_SpecialUnary):
    """Inverse hyperbolic sine."""

    numpy = np.arcsinh
    rule = staticmethod(lambda x, y: rsqrt(1 + x * x))


@register
class Acosh(_SpecialUnary):
    """Inverse hyperbolic cosine."""

    numpy = np.arccosh
    rule = staticmethod(lambda x, y: rsqrt((x - 1) * (x + 1)))


@register
class Atanh(_SpecialUnary):
    """Inverse hyperbolic tangent."""

    numpy = np.arctanh
    rule = staticmethod(lambda x, y: 1 / (1 - x * x))


@register
class Erfc(_SpecialUnary):
    """1 - erf(x), accurate where that is small."""

    numpy = _approximated("erfc")
    rule = staticmethod(lambda x, y: (-2 / math.sqrt(math.pi)) * exp(-x * x))


@register
class ErfInv(_SpecialUnary):
    """The inverse of erf."""

    numpy = _approximated("erf_inv")
    rule = staticmethod(lambda x, y: (math.sqrt(math.pi) / 2) * exp(y * y))


@register
class Lgamma(_SpecialUnary):
    """The logarithm of the absolute value of the gamma function."""

    numpy = _approximated("lgamma")
    rule = staticmethod(lambda x, y: bind(Digamma.instance, x))


@register
class Digamma(_SpecialUnary):
    """The derivative of lgamma."""

    numpy = _approximated("digamma")
    rule = staticmethod(lambda x, y: bind(Polygamma.instance, full_like(x, 1), x))


class _InSecond(_Special, Binary):
    """Base class: the derivative with respect to the first operand is not defined, as in JAX."""

    def derivatives(
        self, lhs: Any, rhs: Any, result: Any
    ) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """NaN, and that of the second operand."""
        return lambda: full_like(lhs, math.nan), lambda: self.second(lhs, rhs)

    def second(self, lhs: Any, rhs: Any) -> Any:
        """The derivative with respect to the second operand."""
        raise NotImplementedError


@register
class Polygamma(_InSecond):
    """The n-th derivative of digamma at x, for operands n, x."""

    numpy = _approximated("polygamma", 2)

    def second(self, lhs: Any, rhs: Any) -> Any:
        """The next polygamma."""
        return bind(self, lhs + 1, rhs)


@register
class Zeta(_InSecond):
    """Hurwitz's zeta function: the sum of (q + k)**-x over k >= 0, for operands x, q."""

    numpy = _approximated("zeta", 2)

    def second(self, lhs: Any, rhs: Any) -> Any:
        """-x zeta(x + 1, q)."""
        return -lhs * bind(self, lhs + 1, rhs)


@register
class NextAfter(_Special, Binary):
    """The float next to the first operand in the direction of the second."""

    zero_derivative = "it is piecewise constant"
    in_double = False

    def reference(self, lhs: np.ndarray, rhs: np.ndarray, /, **attributes: Any) -> np.ndarray:
        """NumPy's, which ml_dtypes extends to its types."""
        return np.asarray(np.nextafter(lhs, rhs))


_UNARY = (Sinh, Asin, Acos, Atan, Asinh, Acosh, Atanh, Erfc, ErfInv, Lgamma, Digamma)
#: By chlo's name.
SPECIAL: dict[str, Operation] = {
    f"chlo.{each.builder_name}": each.instance for each in (*_UNARY, Polygamma, Zeta, NextAfter)
}
