"""Inverse and hyperbolic functions, sinc and logaddexp: compositions with derivatives of their own.

XLA has no such operations. Differentiating the compositions would lose digits, or give NaN where
the derivative exists. Complex formulas: W. Kahan, Branch Cuts for Complex Elementary Functions
(1987). Types narrower than f32 are computed in f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes

import minixla_ops as ops
from minixla.core.element_types import F32
from minixla.core.errors import ShapeError, explain
from minixla.numpy.elementwise import conjugate, of_inexact
from minixla.numpy.operands import marked, operand_shape, promote_inexact
from minixla_ops.operators import convert
from minixla_ops.rules import full_like, ones_like

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "logaddexp",
    "logaddexp2",
    "sinc",
    "sinh",
]

Function = Callable[[Any], Any]


def _with_derivative(function: Function, derivative: Function) -> Function:
    """`function` of an array, whose derivative is `derivative`."""

    @cache
    def made() -> Any:
        # Transformations are built on this package, too.
        from minixla.transforms.custom_derivatives import custom_jvp

        custom = custom_jvp(function)
        custom.defjvps(lambda tangent, result, x: tangent * derivative(x))
        return custom

    return lambda x: made()(x)


def _own(
    name: str,
    real: Function,
    complex: Function,
    derivative: Function,
    text: str,
    is_smooth: bool = False,
) -> Any:
    """A function by its formulas; with `is_smooth` the real one can be differentiated as it is."""
    real = real if is_smooth else _with_derivative(real, derivative)
    complex = _with_derivative(complex, derivative)

    def in_f32(x: Any) -> Any:
        kind = operand_shape(x, name).element_type
        if kind.is_complex:
            return complex(x)
        return convert(real(convert(x, F32)), kind) if kind.bits < 32 else real(x)

    return of_inexact(name, in_f32, text)


def _is_huge(x: Any) -> Any:
    """Whether x * x overflows."""
    largest = float(ml_dtypes.finfo(operand_shape(x, "function").dtype).max)
    return x > math.sqrt(largest) / 2


def _i_times(z: Any) -> Any:
    return ops.complex(-ops.imag(z), ops.real(z))


def _minus_i_times(z: Any) -> Any:
    return ops.complex(ops.imag(z), -ops.real(z))


# Trigonometric.


def _arcsin(x: Any) -> Any:
    return 2 * ops.atan2(x, 1 + ops.sqrt((1 - x) * (1 + x)))


def _complex_arcsin(z: Any) -> Any:
    low, high = ops.sqrt(1 - z), ops.sqrt(1 + z)
    angle = ops.atan2(ops.real(z), ops.real(low * high))
    return ops.complex(angle, _arcsinh(ops.imag(conjugate(low) * high)))


def _arccos(x: Any) -> Any:
    angle = 2 * ops.atan2(ops.sqrt((1 - x) * (1 + x)), 1 + x)
    return ops.select(x == -1, full_like(x, math.pi), angle)


def _complex_arccos(z: Any) -> Any:
    low, high = ops.sqrt(1 - z), ops.sqrt(1 + z)
    angle = 2 * ops.atan2(ops.real(low), ops.real(high))
    return ops.complex(angle, _arcsinh(ops.imag(conjugate(high) * low)))


def _arctan(x: Any) -> Any:
    return ops.atan2(x, ones_like(x))


def _complex_arctan(z: Any) -> Any:
    return _minus_i_times(_complex_arctanh(_i_times(z)))


# Hyperbolic.


def _sinh(x: Any) -> Any:
    # 2 sinh(x / 2) cosh(x / 2) neither cancels near 0 nor overflows early.
    half = x * 0.5
    growing, falling = ops.expm1(half), ops.expm1(-half)
    return (growing - falling) * (0.5 * (growing + falling) + 1)


def _complex_sinh(z: Any) -> Any:
    x, y = ops.real(z), ops.imag(z)
    return ops.complex(_sinh(x) * ops.cos(y), ops.cosh(x) * ops.sin(y))


def _arcsinh(x: Any) -> Any:
    size = ops.abs(x)
    near = ops.log1p(size + size * size / (1 + ops.sqrt(1 + size * size)))
    far = ops.log(size) + math.log(2)
    result = ops.select(_is_huge(size), far, near)
    # At 0 the sign of zero is kept.
    return ops.select(x == 0, x, ops.sign(x) * result)


def _complex_arcsinh(z: Any) -> Any:
    return _i_times(_complex_arcsin(_minus_i_times(z)))


def _arccosh(x: Any) -> Any:
    above = x - 1
    near = ops.log1p(above + ops.sqrt(above * (above + 2)))
    return ops.select(_is_huge(x), ops.log(x) + math.log(2), near)


def _complex_arccosh(z: Any) -> Any:
    low, high = ops.sqrt(z - 1), ops.sqrt(z + 1)
    angle = 2 * ops.atan2(ops.imag(low), ops.real(high))
    return ops.complex(_arcsinh(ops.real(conjugate(low) * high)), angle)


def _arctanh(x: Any) -> Any:
    return 0.5 * (ops.log1p(x) - ops.log1p(-x))


def _complex_arctanh(z: Any) -> Any:
    x, y = ops.real(z), ops.imag(z)
    real = 0.25 * ops.log1p(4 * x / ((1 - x) * (1 - x) + y * y))
    return ops.complex(real, 0.5 * ops.atan2(2 * y, (1 - x) * (1 + x) - y * y))


arcsin = asin = _own(
    "arcsin",
    _arcsin,
    _complex_arcsin,
    lambda x: ops.rsqrt((1 - x) * (1 + x)),
    "The angle in [-pi/2, pi/2] whose sine is x.",
)
arccos = acos = _own(
    "arccos",
    _arccos,
    _complex_arccos,
    lambda x: -ops.rsqrt((1 - x) * (1 + x)),
    "The angle in [0, pi] whose cosine is x.",
)
arctan = atan = _own(
    "arctan",
    _arctan,
    _complex_arctan,
    lambda x: 1 / (1 + x * x),
    "The angle in [-pi/2, pi/2] whose tangent is x.",
    is_smooth=True,
)
sinh = _own("sinh", _sinh, _complex_sinh, ops.cosh, "The hyperbolic sine.", is_smooth=True)
arcsinh = asinh = _own(
    "arcsinh",
    _arcsinh,
    _complex_arcsinh,
    lambda x: ops.rsqrt(1 + x * x),
    "The number whose hyperbolic sine is x.",
)
arccosh = acosh = _own(
    "arccosh",
    _arccosh,
    _complex_arccosh,
    lambda x: ops.rsqrt((x - 1) * (x + 1)),
    "The number >= 0 whose hyperbolic cosine is x.",
)
arctanh = atanh = _own(
    "arctanh",
    _arctanh,
    _complex_arctanh,
    lambda x: 1 / ((1 - x) * (1 + x)),
    "The number whose hyperbolic tangent is x.",
    is_smooth=True,
)


# Others.


@cache
def _sinc_at_zero(order: int) -> Function:
    """The derivative of sin(x) / x at 0 of an order, as a function with the next as derivative."""
    value = 0.0 if order % 2 else (-1) ** (order // 2) / (order + 1)
    return _with_derivative(lambda x: full_like(x, value), lambda x: _sinc_at_zero(order + 1)(x))


def _sinc(x: Any) -> Any:
    angle = x * math.pi
    is_zero = x == 0
    safe = ops.select(is_zero, ones_like(x), angle)
    return ops.select(is_zero, _sinc_at_zero(0)(angle), ops.sin(safe) / safe)


sinc = of_inexact("sinc", _sinc, "sin(pi x) / (pi x), 1 at 0.")


@cache
def _log_of_sum() -> Any:
    from minixla.transforms.custom_derivatives import custom_jvp

    custom = custom_jvp(_logaddexp)
    custom.defjvps(
        lambda tangent, result, x, y: tangent * ops.exp(_finite(x) - _finite(result)),
        lambda tangent, result, x, y: tangent * ops.exp(_finite(y) - _finite(result)),
    )
    return custom


def _finite(x: Any) -> Any:
    """`x` with 0 in place of inf, so that inf - inf is 0."""
    return ops.select(x == math.inf, full_like(x, 0), x)


def _logaddexp(x: Any, y: Any) -> Any:
    apart = x - y
    sum_of_both = ops.max(x, y) + ops.log1p(ops.exp(-ops.abs(apart)))
    # Equal infinities have no difference; their sum is the result.
    return ops.select(apart != apart, x + y, sum_of_both)


def logaddexp(x1: Any, x2: Any, /) -> Any:
    """log(exp(x1) + exp(x2)), without overflow on the way.

    Raises:
        ShapeError: the operands are complex.
    """
    (x1, x2), kind, weak = promote_inexact("logaddexp", x1, x2)
    if kind.is_complex:
        raise explain(
            ShapeError,
            "logaddexp",
            "it is not defined for complex numbers",
            advice="Use log(exp(x1) + exp(x2)).",
        )
    return marked(_log_of_sum()(x1, x2), weak)


def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """log2(2**x1 + 2**x2), without overflow on the way.

    Raises:
        ShapeError: the operands are complex.
    """
    (x1, x2), _, weak = promote_inexact("logaddexp2", x1, x2)
    ratio = math.log(2)
    return marked(logaddexp(x1 * ratio, x2 * ratio) / ratio, weak)
