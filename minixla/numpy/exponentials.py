"""Exponentials, logarithms, roots and trigonometric functions; inverses are in `inverses`."""

import math
from functools import wraps
from typing import Any

import minixla_ops as ops
from minixla.numpy import element_functions as elements
from minixla.numpy.element_functions import (
    by_parts,
    either,
    of_inexact,
)
from minixla.numpy.operands import kind_of, lifted
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise import complex_functions
from minixla_ops.elementwise.families import in_f32
from minixla_ops.helpers import shorthand


def _with_special_values(derivative: Any) -> Any:
    """Add C99's special values of complex numbers to an operation, with a derivative.

    Args:
        derivative: a function of the result and the operand.

    Returns:
        A decorator.
    """

    def made(function: Any) -> Any:
        name = function.__name__
        of_complex = elements.with_derivatives(getattr(complex_functions, name), derivative)
        return of_inexact()(wraps(function)(either(function, of_complex)))

    return made


@_with_special_values(lambda result, z: result)
def exp(x: ArrayLike, /) -> Array:
    """Compute e to the power of x.

    Example:
        >>> np.exp(np.array([0.0, 1.0]))
        Array([1.       , 2.7182817], dtype=float32)
    """
    return ops.exp(x)


@_with_special_values(lambda result, z: result + 1)
def expm1(x: ArrayLike, /) -> Array:
    """Compute exp(x) - 1, accurately near 0.

    Example:
        >>> np.expm1(np.array([0.0, 1e-8]))
        Array([0.e+00, 1.e-08], dtype=float32)
    """
    return ops.expm1(x)


@_with_special_values(lambda result, z: 1 / z)
def log(x: ArrayLike, /) -> Array:
    """Compute the natural logarithm.

    Example:
        >>> np.log(np.array([1.0, 2.0, 0.0]))
        Array([0.       , 0.6931472,      -inf], dtype=float32)
    """
    return ops.log(x)


@_with_special_values(lambda result, z: 1 / (1 + z))
def log1p(x: ArrayLike, /) -> Array:
    """Compute log(1 + x), accurately near 0.

    Example:
        >>> np.log1p(np.array([0.0, 1e-8]))
        Array([0.e+00, 1.e-08], dtype=float32)
    """
    return ops.log1p(x)


@_with_special_values(lambda result, z: 1 - result * result)
def tanh(x: ArrayLike, /) -> Array:
    """Compute the hyperbolic tangent.

    Example:
        >>> np.tanh(np.array([0.0, 1.0]))
        Array([0.       , 0.7615942], dtype=float32)
    """
    return ops.tanh(x)


@_with_special_values(lambda result, z: 0.5 / result)
def sqrt(x: ArrayLike, /) -> Array:
    """Compute the square root; NaN for negative reals.

    Example:
        >>> np.sqrt(np.array([4, 9]))
        Array([2., 3.], dtype=float32)
        >>> np.sqrt(np.array([-4 + 0j]))
        Array([0.+2.j], dtype=complex64)
    """
    return ops.sqrt(x)


@of_inexact()
def sin(x: ArrayLike, /) -> Array:
    """Compute the sine of an angle in radians.

    Example:
        >>> np.sin(np.array([0.0, np.pi / 2]))
        Array([0., 1.], dtype=float32)
    """
    return ops.sin(x)


@of_inexact()
def cos(x: ArrayLike, /) -> Array:
    """Compute the cosine of an angle in radians.

    Example:
        >>> np.cos(np.array([0.0, np.pi]))
        Array([ 1., -1.], dtype=float32)
    """
    return ops.cos(x)


@of_inexact()
def tan(x: ArrayLike, /) -> Array:
    """Compute the tangent of an angle in radians.

    Example:
        >>> np.tan(np.array([0.0, 1.0]))
        Array([0.       , 1.5574077], dtype=float32)
    """
    return ops.tan(x)


@of_inexact()
def cosh(x: ArrayLike, /) -> Array:
    """Compute the hyperbolic cosine.

    Example:
        >>> np.cosh(np.array([0.0, 1.0]))
        Array([1.       , 1.5430806], dtype=float32)
    """
    return ops.cosh(x)


@of_inexact(is_real=True)
def cbrt(x: ArrayLike, /) -> Array:
    """Compute the cube root.

    Example:
        >>> np.cbrt(np.array([-8.0, 27.0]))
        Array([-2.,  3.], dtype=float32)
    """
    return ops.cbrt(x)


@of_inexact(is_real=True)
def fabs(x: ArrayLike, /) -> Array:
    """Compute the absolute value as a float.

    Example:
        >>> np.fabs(np.array([-2, 3]))
        Array([2., 3.], dtype=float32)
    """
    return ops.abs(x)


@of_inexact()
def reciprocal(x: ArrayLike, /) -> Array:
    """Compute 1 / x.

    Example:
        >>> np.reciprocal(np.array([2, 4]))
        Array([0.5 , 0.25], dtype=float32)
    """
    return 1 / lifted(x)


@of_inexact()
def deg2rad(x: ArrayLike, /) -> Array:
    """Convert degrees to radians.

    Example:
        >>> np.deg2rad(np.array([0, 180]))
        Array([0.       , 3.1415927], dtype=float32)
    """
    return lifted(x) * (math.pi / 180)


@of_inexact()
def rad2deg(x: ArrayLike, /) -> Array:
    """Convert radians to degrees.

    Example:
        >>> np.rad2deg(np.array([0, np.pi]))
        Array([  0., 180.], dtype=float32)
    """
    return lifted(x) * (180 / math.pi)


def _scaled(x: Any, factor: float) -> Any:
    return by_parts(lambda part: part * factor, x)


@of_inexact()
def log2(x: ArrayLike, /) -> Array:
    """Compute the logarithm to base 2.

    Example:
        >>> np.log2(np.array([1, 8]))
        Array([0., 3.], dtype=float32)
    """
    return in_f32(lambda x: _scaled(ops.log(x), 1 / math.log(2)), lifted(x))


@of_inexact()
def log10(x: ArrayLike, /) -> Array:
    """Compute the logarithm to base 10.

    Example:
        >>> np.log10(np.array([1, 1000]))
        Array([0., 3.], dtype=float32)
    """
    return in_f32(lambda x: _scaled(ops.log(x), 1 / math.log(10)), lifted(x))


_complex_exp2 = elements.with_derivatives(
    complex_functions.exp2, lambda result, z: _scaled(result, math.log(2))
)


@of_inexact()
def exp2(x: ArrayLike, /) -> Array:
    """Compute 2 to the power of x.

    Example:
        >>> np.exp2(np.array([3, -1]))
        Array([8. , 0.5], dtype=float32)
    """
    if kind_of(x).is_complex:
        return _complex_exp2(x)
    return ops.pow(shorthand.full_like(lifted(x), 2), x)


radians, degrees = deg2rad, rad2deg
