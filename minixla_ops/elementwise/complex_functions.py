"""Complex functions that XLA lacks, composed of real functions.

XLA's complex products, roots and logarithms overflow early and lose signs of zero, which decide the
side of a branch cut. Inverse functions are computed in the first quadrant, and signs are restored
afterwards. Special values follow Annex G of C99, as the array API requires.

Sources: T. E. Hull, T. F. Fairgrieve, P. T. P. Tang, Implementing the Complex Arcsine and Arccosine
Functions Using Exception Handling (1997); W. Kahan, Branch Cuts for Complex Elementary Functions
(1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

import minixla_ops as ops
from minixla.core.tracing import one_program
from minixla.typing import Array
from minixla_ops.elementwise.conversion import sign_bit
from minixla_ops.elementwise.unary import conjugate
from minixla_ops.helpers.shorthand import array_shape, full_like, ones_like

_Function = Callable[[Array], Array]


def square_limit(x: Array) -> float:
    """Return a power of two whose square is far from overflow in the floating type of `x`."""
    return 2.0 ** (int(ml_dtypes.finfo(array_shape(x).dtype).maxexp) // 2 - 2)


def i_times(z: Array) -> Array:
    """Multiply z by i, including the signs of zeros."""
    return ops.complex(-ops.imag(z), ops.real(z))


@one_program()
def square(z: Array) -> Array:
    """Compute the square; its real part neither cancels nor overflows early."""
    x, y = ops.real(z), ops.imag(z)
    width, height = ops.abs(x), ops.abs(y)
    # 0 for equal parts, like x * x - y * y.
    real = ops.select(width == height, width - height, (x - y) * (x + y))
    return ops.complex(real, 2 * (x * y))


def exp2(z: Array) -> Array:
    """Compute 2 to the power of z."""
    x, y = ops.real(z), ops.imag(z)
    angle = y * math.log(2)
    half = ops.pow(full_like(x, 2), 0.5 * x)
    # If the angle is infinite or NaN, infinity stays infinite and 0 stays 0.
    is_open = angle - angle != 0
    cosine = ops.select(is_open & (ops.abs(x) == math.inf), ones_like(x), ops.cos(angle))
    sine = ops.select(is_open & (x == -math.inf), full_like(x, 0), ops.sin(angle))
    # Order the factors so that none overflows before the product does.
    return ops.complex(half * cosine * half, ops.select(y == 0, y, half * sine * half))


# XLA's functions, with corrected special values.


def _is_open(x: Array) -> Array:
    return x - x != 0


def _infinite(x: Array, y: Array) -> Array:
    return (ops.abs(x) == math.inf) | (ops.abs(y) == math.inf)


def _exponential(function: _Function, least: float) -> _Function:
    """Wrap a function like exp(x + iy), which is `least` and 0 times exp(iy) for x = -inf."""

    def of_complex(z: Array) -> Array:
        x, y, result = ops.real(z), ops.imag(z), function(z)
        # If the angle is infinite or NaN, infinity stays infinite and 0 stays 0.
        has_no_angle = _is_open(y) & (ops.abs(x) == math.inf)
        limit = ops.select(x > 0, x, full_like(x, least))
        real = ops.select(has_no_angle, limit, ops.real(result))
        real = ops.select(real == 0, ops.select(x == 0, x, real), real)
        nothing = _with_sign(full_like(x, 0), y)
        imag = ops.select(has_no_angle & (x < 0), nothing, ops.imag(result))
        return ops.complex(real, ops.select(y == 0, y, imag))

    return of_complex


exp, expm1 = _exponential(ops.exp, 0), _exponential(ops.expm1, -1)


def _logarithm(function: _Function) -> _Function:
    def of_complex(z: Array) -> Array:
        x, y, result = ops.real(z), ops.imag(z), function(z)
        size = ops.select(_infinite(x, y), full_like(x, math.inf), ops.real(result))
        return ops.complex(size, ops.imag(result))

    return of_complex


log, log1p = _logarithm(ops.log), _logarithm(ops.log1p)


def sqrt(z: Array) -> Array:
    """Compute the square root in the right half-plane."""
    x, y, root = ops.real(z), ops.imag(z), ops.sqrt(z)
    infinity, is_high = full_like(x, math.inf), ops.abs(y) == math.inf
    real = ops.select(is_high | ((x == math.inf) & (y != y)), infinity, ops.real(root))
    imag = ops.select((x == -math.inf) & (y != y), infinity, ops.imag(root))
    return ops.complex(real, _with_sign(ops.abs(ops.select(is_high, y, imag)), y))


def tanh(z: Array) -> Array:
    """Compute the hyperbolic tangent."""
    x, y, result = ops.real(z), ops.imag(z), ops.tanh(z)
    real = ops.select((x == 0) & _is_open(y), x, ops.real(result))
    nothing = _with_sign(full_like(x, 0), y)
    imag = ops.select(_is_open(y) & (ops.abs(x) == math.inf), nothing, ops.imag(result))
    return ops.complex(real, ops.select(y == 0, y, imag))


def _with_sign(size: Array | np.ndarray, of: Array) -> Array:
    return ops.select(sign_bit(of), -size, size)


def _parts_of_arcsin(z: Array) -> tuple[Array, Array, Array, Array]:
    """Return the signed parts of z, and the leg b and height for x = |Re z| and y = |Im z|.

    In the right triangle with legs x and b, the angle at b is Re arcsin(x + iy). The height is
    Im arcsin(x + iy).
    """
    signed_x, signed_y = ops.real(z), ops.imag(z)
    x, y = ops.abs(signed_x), ops.abs(signed_y)
    is_inside = x < 1
    # Distances from -1 and 1: half of their sum is a, the semi-major axis of the ellipse.
    far, near = ops.abs(ops.complex(x + 1, y)), ops.abs(ops.complex(x - 1, y))
    beyond_far, beyond_near = far + (x + 1), near + ops.abs(x - 1)
    # y * y * flatness is 2 (a - 1) for x < 1, and 2 (a - x) for x > 1. Halve late: halves of the
    # smallest numbers may flush to 0.
    flatness = 1 / beyond_far + 1 / beyond_near
    rise = y / beyond_far * y
    twice_above_1 = ops.select(is_inside, y * flatness * y, rise + (near + (x - 1)))
    above_1 = 0.5 * twice_above_1
    a, half = above_1 + 1, 0.5 * (above_1 + 2)
    root = ops.select(is_inside, y * ops.sqrt(flatness * half), ops.sqrt(twice_above_1 * half))
    half = 0.5 * (a + x)
    leg = ops.select(
        x > 1, y * ops.sqrt(flatness * half), ops.sqrt(half * (rise + (near + (1 - x))))
    )
    height = ops.log1p(above_1 + root)
    # Far from 0 the height is log(2 |x + iy|).
    larger = ops.max(x, y)
    ratio = ops.min(x, y) / larger
    far_height = math.log(2) + ops.log(larger) + 0.5 * ops.log1p(ratio * ratio)
    is_infinite = (x == math.inf) | (y == math.inf)
    far_height = ops.select(is_infinite, full_like(x, math.inf), far_height)
    limit = square_limit(x)
    is_far = (x > limit) | (y > limit)
    heights = ops.select(is_far, far_height, height)
    return signed_x, signed_y, ops.select(is_far, y, leg), heights


def arcsin(z: Array) -> Array:
    """Compute the arcsine of complex numbers."""
    x, y, leg, height = _parts_of_arcsin(z)
    # The leg may be NaN if x is 0.
    angle = ops.select(x == 0, x, ops.atan2(x, leg))
    return ops.complex(angle, _with_sign(height, y))


def _angle_of_arccos(x: Array, leg: Array) -> Array:
    # XLA returns -pi if the leg is a denormal number.
    return ops.select(x == 0, full_like(x, math.pi / 2), ops.abs(ops.atan2(leg, x)))


def arccos(z: Array) -> Array:
    """Compute the arccosine of complex numbers."""
    x, y, leg, height = _parts_of_arcsin(z)
    return ops.complex(_angle_of_arccos(x, leg), _with_sign(-height, y))


def arccosh(z: Array) -> Array:
    """Compute the inverse hyperbolic cosine of complex numbers."""
    x, y, leg, height = _parts_of_arcsin(z)
    return ops.complex(height, _with_sign(_angle_of_arccos(x, leg), y))


def _inverse_roots(z: Array, offset: float) -> Array:
    """Compute 1 / sqrt(z + offset) for Im z >= 0, where XLA's root is correct, by reflection."""
    return ops.rsqrt(ops.complex(ops.real(z) + offset, ops.abs(ops.imag(z))))


def slope_of_arcsin(z: Array) -> Array:
    """Compute arcsin's derivative, 1 / (sqrt(1 - z) sqrt(1 + z)), on both sides of its cuts."""
    slope = _inverse_roots(-z, 1) * conjugate(_inverse_roots(z, 1))
    return ops.select(sign_bit(ops.imag(z)), slope, conjugate(slope))


def slope_of_arccosh(z: Array) -> Array:
    """Compute arccosh's derivative, 1 / (sqrt(z - 1) sqrt(z + 1)), on both sides of its cut."""
    slope = _inverse_roots(z, -1) * _inverse_roots(z, 1)
    return ops.select(sign_bit(ops.imag(z)), conjugate(slope), slope)


def arctanh(z: Array) -> Array:
    """Compute the inverse hyperbolic tangent of complex numbers."""
    signed_x, signed_y = ops.real(z), ops.imag(z)
    x, y = ops.abs(signed_x), ops.abs(signed_y)
    limit = square_limit(x)
    # A quarter of log1p(4x / |1 - z|**2), and its limits if the square under- or overflows.
    ratio = 4 * x / ((1 - x) * (1 - x) + y * y)
    scale = 1 / 16 / limit
    near_x, near_y = x * scale, y * scale
    far = near_x / (near_x * near_x + near_y * near_y) * scale
    near_pole = 0.5 * (math.log(2) - ops.log(y))
    real = ops.select((x > limit) | (y > limit), far, 0.25 * ops.log1p(ratio))
    real = ops.select((x == 1) & (y < 1 / limit), near_pole, real)
    real = ops.select((x == math.inf) | (y == math.inf), full_like(x, 0), real)
    real = ops.select(x == 0, x, real)
    near, height = (ops.min(part, full_like(x, limit)) for part in (x, y))
    angle = 0.5 * ops.atan2(2 * height, (1 - near) * (1 + near) - height * height)
    angle = ops.select(y == math.inf, full_like(x, math.pi / 2), angle)
    return ops.complex(_with_sign(real, signed_x), _with_sign(angle, signed_y))


def _turned(function: _Function) -> _Function:
    # -i sin(iz) is sinh(z), and so on. -(i sin(iz)) would lose signs of zeros.
    def turned(z: Array) -> Array:
        result = function(i_times(z))
        return ops.complex(ops.imag(result), -ops.real(result))

    return turned


sinh, arcsinh, arctan = map(_turned, (ops.sin, arcsin, arctanh))
