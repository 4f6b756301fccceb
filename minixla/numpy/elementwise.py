"""Element-wise functions of one operand: exponentials, rounding, parts of complex numbers.

Inverse and hyperbolic functions, and what else has a derivative of its own, are in `inverses`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes

import minixla_ops as ops
from minixla.core.element_types import F32, ElementType
from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.promotion import numeric_type
from minixla.core.tracing import Tracer, one_program
from minixla.numpy import complex_functions
from minixla.numpy.arithmetic import maximum, minimum, named
from minixla.numpy.logic import isnan, isneginf, isposinf, where
from minixla.numpy.operands import (
    default_float,
    inexact_operand,
    keep_weak,
    lifted,
    operand_shape,
    refuse_out,
    static_int,
)
from minixla.numpy.own_derivatives import with_derivatives
from minixla_ops.elementwise.operators import convert
from minixla_ops.vocabulary.shorthand import full_like, ones_like, zeros

__all__ = [
    "angle",
    "around",
    "cbrt",
    "ceil",
    "clip",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fix",
    "floor",
    "imag",
    "log",
    "log10",
    "log1p",
    "log2",
    "modf",
    "nan_to_num",
    "rad2deg",
    "radians",
    "real",
    "reciprocal",
    "rint",
    "round",
    "sign",
    "sin",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]


def of_inexact(name: str, function: Callable[[Any], Any], text: str) -> Any:
    """The function of an array that converts integers and booleans to floats for `function`."""

    def of_one(x: Any, /) -> Any:
        if isinstance(x, Tracer):
            if not x._array_shape().element_type.is_inexact:
                x = inexact_operand(x, name)
            elif not x.weak_type:
                return function(x)
        return whole(x)

    def converted(x: Any) -> Any:
        return keep_weak(function(inexact_operand(x, name)), x)

    converted.__name__ = name
    whole = one_program()(converted)
    return named(of_one, name, text)


exp = of_inexact("exp", ops.exp, "e to the power of x.")
expm1 = of_inexact("expm1", ops.expm1, "exp(x) - 1, exact near 0.")
log = of_inexact("log", ops.log, "The natural logarithm.")
log1p = of_inexact("log1p", ops.log1p, "log(1 + x), exact near 0.")
sin = of_inexact("sin", ops.sin, "The sine of an angle in radians.")
cos = of_inexact("cos", ops.cos, "The cosine of an angle in radians.")
tan = of_inexact("tan", ops.tan, "The tangent of an angle in radians.")
tanh = of_inexact("tanh", ops.tanh, "The hyperbolic tangent.")
cosh = of_inexact("cosh", ops.cosh, "The hyperbolic cosine.")
sqrt = of_inexact("sqrt", ops.sqrt, "The square root; NaN of negative numbers.")
cbrt = of_inexact("cbrt", ops.cbrt, "The cube root.")


def _scaled_log(x: Any, factor: float) -> Any:
    kind = operand_shape(x, "log").element_type
    logarithm = ops.log(convert(x, F32) if kind.bits < 32 else x)
    if kind.is_complex:
        return complex_functions.scaled(logarithm, factor)
    return convert(logarithm * factor, kind)


_complex_exp2 = with_derivatives(
    complex_functions.exp2, lambda result, z: complex_functions.scaled(result, math.log(2))
)
_complex_square = one_program()(with_derivatives(complex_functions.square, lambda result, z: z + z))


def _exp2(x: Any) -> Any:
    is_complex = operand_shape(x, "exp2").element_type.is_complex
    return _complex_exp2(x) if is_complex else ops.pow(full_like(x, 2), x)


exp2 = of_inexact("exp2", _exp2, "2 to the power of x.")
log2 = of_inexact("log2", lambda x: _scaled_log(x, 1 / math.log(2)), "The logarithm to base 2.")
log10 = of_inexact("log10", lambda x: _scaled_log(x, 1 / math.log(10)), "The logarithm to base 10.")
reciprocal = of_inexact("reciprocal", lambda x: 1 / x, "1 / x.")
deg2rad = of_inexact("deg2rad", lambda x: x * (math.pi / 180), "An angle in radians.")
rad2deg = of_inexact("rad2deg", lambda x: x * (180 / math.pi), "An angle in degrees.")
radians, degrees = deg2rad, rad2deg


def square(x: Any, /) -> Any:
    """X * x."""
    kind = numeric_type(operand_shape(x, "square").element_type)
    number = lifted(convert(x, kind))
    return keep_weak(_complex_square(number) if kind.is_complex else number * number, x)


def fabs(x: Any, /) -> Any:
    """The absolute value as a float.

    Raises:
        ShapeError: x is complex.
    """
    if operand_shape(x, "fabs").element_type.is_complex:
        raise explain(ShapeError, "fabs", "x is complex", advice="Use absolute.")
    return keep_weak(ops.abs(inexact_operand(x, "fabs")), x)


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 by the sign of x; NaN is its own, complex numbers give x / abs(x)."""
    kind = operand_shape(x, "sign").element_type
    if kind.kind == "unsigned":
        return minimum(x, 1)
    return keep_weak(ops.sign(lifted(x)), x)


# Rounding.


def _rounding(name: str, operation: Callable[[Any], Any], text: str) -> Any:
    """A function that leaves integers and booleans as they are."""

    def of_one(x: Any, /) -> Any:
        kind = operand_shape(x, name).element_type
        x = lifted(x)
        return keep_weak(operation(x), x) if kind.is_inexact else x

    return named(of_one, name, text)


floor = _rounding("floor", ops.floor, "The nearest integer that is not greater.")
ceil = _rounding("ceil", ops.ceil, "The nearest integer that is not less.")
trunc = _rounding(
    "trunc",
    lambda x: ops.select(x < 0, ops.ceil(x), ops.floor(x)),
    "The nearest integer that is not farther from 0.",
)
fix = trunc


def rint(x: Any, /) -> Any:
    """The nearest integer as a float, ties to even; of each part of a complex number."""
    kind = operand_shape(x, "rint").element_type
    x = lifted(x)
    if not kind.is_inexact:
        return lifted(convert(x, default_float()))
    return keep_weak(_by_parts(x, kind, ops.round_nearest_even), x)


def _by_parts(x: Any, kind: ElementType, function: Callable[[Any], Any]) -> Any:
    if kind.is_complex:
        return ops.complex(function(ops.real(x)), function(ops.imag(x)))
    return function(x)


def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """`a` rounded to so many decimals, ties to even.

    Args:
        a: an array; integers stay as they are.
        decimals: how many; negative ones round before the point.
        out: not supported.

    Raises:
        AttributeValueError: integers with negative decimals.
    """
    refuse_out("round", out)
    kind = operand_shape(a, "round").element_type
    places = static_int(decimals, "round", "decimals")
    a = lifted(a)
    if kind.is_integer and places >= 0:
        return a
    if not kind.is_inexact:
        raise explain(
            AttributeValueError,
            "round",
            f"{kind} cannot be rounded to {places} decimals",
            advice="Convert to floats first.",
        )
    if places > math.log10(float(ml_dtypes.finfo(kind.real.dtype).max)):
        return a
    return keep_weak(_by_parts(a, kind, lambda part: _rounded(part, places)), a)


def _rounded(x: Any, decimals: int) -> Any:
    if decimals == 0:
        return ops.round_nearest_even(x)
    kind = operand_shape(x, "round").element_type
    if kind.name == "f16":  # 10**decimals soon overflows it
        return convert(_rounded(convert(x, F32), decimals), kind)
    factor = full_like(x, 10.0 ** abs(decimals))
    scale, unscale = (ops.mul, ops.div) if decimals > 0 else (ops.div, ops.mul)
    scaled = scale(x, factor)
    # What overflows has no decimals.
    is_whole = ops.abs(scaled) == math.inf
    return ops.select(is_whole, x, unscale(ops.round_nearest_even(scaled), factor))


around = round


def modf(x: Any, /) -> tuple[Any, Any]:
    """The fraction and the integer part of x, both with its sign."""
    number = inexact_operand(x, "modf")
    no_fraction = ops.mul(ops.sign(number), full_like(number, 0))
    is_infinite = ops.abs(number) == math.inf
    fraction = ops.select(is_infinite, no_fraction, ops.rem(number, ones_like(number)))
    return keep_weak(fraction, x), keep_weak(trunc(number), x)


# Parts of complex numbers.


def real(val: Any, /) -> Any:
    """The real part."""
    is_complex = operand_shape(val, "real").element_type.is_complex
    return keep_weak(ops.real(lifted(val)) if is_complex else lifted(val), val)


def imag(val: Any, /) -> Any:
    """The imaginary part; zeros of real numbers."""
    shape = operand_shape(val, "imag")
    return ops.imag(lifted(val)) if shape.element_type.is_complex else lifted(zeros(shape))


def conjugate(x: Any, /) -> Any:
    """The complex conjugate; of real numbers the number itself."""
    x = lifted(x)
    if not operand_shape(x, "conjugate").element_type.is_complex:
        return x
    return ops.complex(ops.real(x), -ops.imag(x))


conj = conjugate


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of a complex number from the positive real axis, in radians or degrees."""
    is_inexact = operand_shape(z, "angle").element_type.is_inexact
    z = lifted(z if is_inexact else convert(z, default_float()))
    result = ops.atan2(imag(z), real(z))
    return rad2deg(result) if deg else result


# Bounds.


def clip(arr: Any, /, min: Any = None, max: Any = None) -> Any:
    """`arr` brought between `min` and `max`; None is no bound.

    Raises:
        ShapeError: an argument is complex.
    """
    for each in (arr, min, max):
        if each is not None and operand_shape(each, "clip").element_type.is_complex:
            raise explain(
                ShapeError,
                "clip",
                "complex numbers have no order",
                advice="Clip the real and the imaginary part.",
            )
    result = arr if min is None else maximum(min, arr)
    return lifted(result if max is None else minimum(max, result))


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """`x` with other numbers in place of NaN and infinities.

    Args:
        x: an array; integers stay as they are.
        copy: has no effect.
        nan: in place of NaN.
        posinf: in place of inf; default: the type's largest number.
        neginf: in place of -inf; default: the type's least number.
    """
    kind = operand_shape(x, "nan_to_num").element_type
    x = lifted(x)
    if not kind.is_inexact:
        return x
    limits = ml_dtypes.finfo(kind.real.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf

    def replaced(part: Any) -> Any:
        for test, number in ((isnan, nan), (isposinf, high), (isneginf, low)):
            part = where(test(part), convert(number, kind.real), part)
        return part

    return keep_weak(_by_parts(x, kind, replaced), x)
