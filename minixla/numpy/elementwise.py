"""Element-wise functions of numbers: operators, exponentials, rounding, parts of complex numbers.

Inverse and hyperbolic functions, and what else has a derivative of its own, are in `inverses`;
functions whose results are booleans in `logic`.
"""

import math
from functools import wraps
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import one_program
from minixla.numpy import element_functions as elements
from minixla.numpy import operands
from minixla.numpy.element_functions import (
    by_parts,
    either,
    of_inexact,
    of_one,
    of_promoted,
    of_two,
)
from minixla.numpy.operands import convert, default_float, keep_weak, kind_of, lifted
from minixla.numpy.shared_sections import ONE_OPERAND, PARAMETERS, TWO_OPERANDS
from minixla.numpy.ufuncs import with_methods
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise import binary, complex_functions, operators, unary
from minixla_ops.elementwise.families import in_f32
from minixla_ops.elementwise.promotion import inexact_type, numeric_type
from minixla_ops.helpers import shorthand

# Operators.


@with_methods(0)
@of_two
def add(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Add element-wise; logical OR for booleans.

    Example:
        >>> np.add(np.array([1, 2]), 3)
        Array([4, 5], dtype=int32)
    """
    return operators.add(x1, x2)


@with_methods()
@of_two
def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Subtract element-wise.

    Example:
        >>> np.subtract(np.array([1, 2]), 3)
        Array([-2, -1], dtype=int32)
    """
    return operators.subtract(x1, x2)


@with_methods(1)
@of_two
def multiply(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply element-wise; logical AND for booleans.

    Example:
        >>> np.multiply(np.array([1, 2]), np.array([[3], [4]]))
        Array([[3, 6],
               [4, 8]], dtype=int32)
    """
    return operators.multiply(x1, x2)


@of_two
def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Divide element-wise; integers become floats.

    Example:
        >>> np.divide(np.array([1, 2]), 4)
        Array([0.25, 0.5 ], dtype=float32)
    """
    return operators.divide(x1, x2)


@of_two
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Divide element-wise and round down.

    Example:
        >>> np.floor_divide(np.array([-3, 3]), 2)
        Array([-2,  1], dtype=int32)
    """
    return operators.floor_divide(x1, x2)


@of_two
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of `floor_divide`, with the sign of x2.

    Example:
        >>> np.remainder(np.array([-3, 3]), 2)
        Array([1, 1], dtype=int32)
    """
    return operators.remainder(x1, x2)


@api_boundary
@documented(PARAMETERS, TWO_OPERANDS)
def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Raise x1 to the power of x2; a known integer x2 gives repeated products.

    Example:
        >>> np.power(np.array([2.0, 3.0]), 2)
        Array([4., 9.], dtype=float32)
    """
    return operators.power(x1, x2)


@with_methods(-1)
@of_two
def bitwise_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Compute the bit-wise AND.

    Example:
        >>> np.bitwise_and(np.array([12, 10]), 6)
        Array([4, 2], dtype=int32)
    """
    return operators.bitwise_and(x1, x2)


@with_methods(0)
@of_two
def bitwise_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Compute the bit-wise OR.

    Example:
        >>> np.bitwise_or(np.array([12, 10]), 6)
        Array([14, 14], dtype=int32)
    """
    return operators.bitwise_or(x1, x2)


@with_methods(0)
@of_two
def bitwise_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Compute the bit-wise exclusive OR.

    Example:
        >>> np.bitwise_xor(np.array([12, 10]), 6)
        Array([10, 12], dtype=int32)
    """
    return operators.bitwise_xor(x1, x2)


@of_two
def left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Shift the bits of x1 to the left by x2.

    Example:
        >>> np.left_shift(np.array([1, 3]), 2)
        Array([ 4, 12], dtype=int32)
    """
    return operators.left_shift(x1, x2)


@of_two
def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Shift the bits of x1 to the right by x2; the sign stays.

    Example:
        >>> np.right_shift(np.array([8, -8]), 2)
        Array([ 2, -2], dtype=int32)
    """
    return operators.right_shift(x1, x2)


_maximum = operators.promoting(binary.Max(), "maximum")
_minimum = operators.promoting(binary.Min(), "minimum")


@with_methods()
@of_two
def maximum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the element-wise maximum; NaN if an operand is NaN.

    Example:
        >>> np.maximum(np.array([1.0, np.nan]), 2)
        Array([ 2., nan], dtype=float32)
    """
    return _maximum(x1, x2)


@with_methods()
@of_two
def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the element-wise minimum; NaN if an operand is NaN.

    Example:
        >>> np.minimum(np.array([1.0, np.nan]), 2)
        Array([ 1., nan], dtype=float32)
    """
    return _minimum(x1, x2)


@documented(PARAMETERS, TWO_OPERANDS)
def gcd(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the greatest common divisor of integers.

    Example:
        >>> np.gcd(np.array([12, 7]), 18)
        Array([6, 1], dtype=int32)
    """
    return operators.gcd(x1, x2)


@documented(PARAMETERS, TWO_OPERANDS)
def lcm(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the least common multiple of integers.

    Example:
        >>> np.lcm(np.array([4, 7]), 6)
        Array([12, 42], dtype=int32)
    """
    return operators.lcm(x1, x2)


@of_two
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Return the pair of `floor_divide` and `remainder`.

    Returns:
        A pair of arrays of the shape that the operands broadcast to.

    Example:
        >>> np.divmod(np.array([-3, 3]), 2)
        (Array([-2,  1], dtype=int32), Array([1, 1], dtype=int32))
    """
    return operators.divmod(x1, x2)


@with_methods()
@of_one
def negative(x: ArrayLike, /) -> Array:
    """Negate element-wise.

    Example:
        >>> np.negative(np.array([1.0, -2.0]))
        Array([-1.,  2.], dtype=float32)
    """
    return operators.negative(x)


@of_one
def positive(x: ArrayLike, /) -> Array:
    """Return the operand.

    Example:
        >>> np.positive(np.array([1.0, -2.0]))
        Array([ 1., -2.], dtype=float32)
    """
    return operators.positive(lifted(x))


@of_one
def absolute(x: ArrayLike, /) -> Array:
    """Compute the absolute value, also of complex numbers.

    Returns:
        An array with the shape and element type of `x`; complex numbers become real.

    Example:
        >>> np.absolute(np.array([-2, 3]))
        Array([2, 3], dtype=int32)
        >>> np.absolute(3 + 4j)
        Array(5., dtype=float32, weak_type=True)
    """
    return operators.absolute(lifted(x))


@of_one
def bitwise_not(x: ArrayLike, /) -> Array:
    """Invert each bit.

    Example:
        >>> np.bitwise_not(np.array([0, 5]))
        Array([-1, -6], dtype=int32)
    """
    return operators.bitwise_not(x)


@of_promoted(numeric_type)
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of division rounded toward zero, with the sign of x1.

    The remainder of an integer divided by 0 is 0.

    Example:
        >>> np.fmod(np.array([-3, 3]), 2)
        Array([-1,  1], dtype=int32)
    """
    x2 = lifted(x2)
    if kind_of(x2).is_integer:
        x2 = ops.select(x2 == 0, shorthand.ones_like(x2), x2)
    return ops.rem(x1, x2)


@of_promoted(inexact_type)
def float_power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Raise x1 to the power of x2 as floats.

    Example:
        >>> np.float_power(np.array([2, 4]), -1)
        Array([0.5 , 0.25], dtype=float32)
    """
    return ops.pow(x1, x2)


@of_promoted(inexact_type)
def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the angle of the point (x2, x1), in (-pi, pi].

    Example:
        >>> np.arctan2(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
        Array([0.       , 1.5707964], dtype=float32)
    """
    return ops.atan2(x1, x2)


@of_promoted()
def fmax(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the element-wise maximum, ignoring NaN.

    Example:
        >>> np.fmax(np.array([1.0, np.nan]), 2)
        Array([2., 2.], dtype=float32)
    """
    return ops.select(operators.greater(x1, x2) | operators.not_equal(x2, x2), x1, x2)


@of_promoted()
def fmin(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the element-wise minimum, ignoring NaN.

    Example:
        >>> np.fmin(np.array([1.0, np.nan]), 2)
        Array([1., 2.], dtype=float32)
    """
    return ops.select(operators.less(x1, x2) | operators.not_equal(x2, x2), x1, x2)


@of_promoted(inexact_type, is_real=True)
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return 0 where x1 < 0, x2 where x1 is 0, and 1 where x1 > 0.

    Example:
        >>> np.heaviside(np.array([-1.0, 0.0, 2.0]), 0.5)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    x1 = lifted(x1)
    at_zero = ops.select(x1 != x1, x1, x2)
    above = ops.select(x1 > 0, shorthand.ones_like(x1), at_zero)
    return ops.select(x1 < 0, shorthand.full_like(x1, 0), above)


@of_promoted(inexact_type, is_real=True)
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 with the sign of x2.

    Example:
        >>> np.copysign(np.array([1.0, -2.0]), -0.0)
        Array([-1., -2.], dtype=float32)
    """
    size = ops.abs(x1)
    return ops.select(mnp.signbit(x2), -size, size)


@of_promoted(inexact_type, is_real=True)
def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the next float after x1 in the direction of x2.

    Example:
        >>> np.nextafter(np.float32(1), 2) - 1
        Array(1.1920929e-07, dtype=float32)
    """
    return ops.next_after(x1, x2)


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
_complex_square = one_program()(
    elements.with_derivatives(complex_functions.square, lambda result, z: z + z)
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


@documented(PARAMETERS)
@one_program()
def square(x: ArrayLike, /) -> Array:
    """Compute x * x.

    Returns:
        An array with the shape and element type of `x`; booleans become integers.

    Example:
        >>> np.square(np.array([-3, 2]))
        Array([9, 4], dtype=int32)
    """
    kind = numeric_type(kind_of(x, "square"))
    number = lifted(convert(x, kind))
    return keep_weak(_complex_square(number) if kind.is_complex else number * number, x)


@documented(PARAMETERS)
@one_program()
def sign(x: ArrayLike, /) -> Array:
    """Return -1, 0 or 1 by the sign of x; x / abs(x) for complex numbers.

    NaN stays NaN.

    Raises:
        ShapeError: `x` contains booleans.

    Example:
        >>> np.sign(np.array([-2.5, 0.0, 3.0]))
        Array([-1.,  0.,  1.], dtype=float32)
    """
    is_unsigned = kind_of(x, "sign").kind == "unsigned"
    return minimum(x, 1) if is_unsigned else keep_weak(ops.sign(lifted(x)), x)


def _rounded_by(function: Any, x: Any, subject: str) -> Any:
    """Round floats; integers and booleans stay as they are."""
    is_inexact, x = kind_of(x, subject).is_inexact, lifted(x)
    return keep_weak(function(x), x) if is_inexact else x


@documented(PARAMETERS, ONE_OPERAND)
@one_program()
def floor(x: ArrayLike) -> Array:
    """Round down to an integer.

    Example:
        >>> np.floor(np.array([-1.5, 1.5]))
        Array([-2.,  1.], dtype=float32)
    """
    return _rounded_by(ops.floor, x, "floor")


@documented(PARAMETERS, ONE_OPERAND)
@one_program()
def ceil(x: ArrayLike) -> Array:
    """Round up to an integer.

    Example:
        >>> np.ceil(np.array([-1.5, 1.5]))
        Array([-1.,  2.], dtype=float32)
    """
    return _rounded_by(ops.ceil, x, "ceil")


def _toward_zero(x: Any) -> Any:
    return ops.select(x < 0, ops.ceil(x), ops.floor(x))


@documented(PARAMETERS, ONE_OPERAND)
@one_program()
def trunc(x: ArrayLike) -> Array:
    """Round toward zero to an integer.

    Example:
        >>> np.trunc(np.array([-1.5, 1.5]))
        Array([-1.,  1.], dtype=float32)
    """
    return _rounded_by(_toward_zero, x, "trunc")


@documented(PARAMETERS)
@one_program()
def rint(x: ArrayLike, /) -> Array:
    """Round to the nearest integer as a float, ties to even.

    Both parts of complex numbers are rounded.

    Returns:
        An array with the shape and element type of `x`; integers and booleans become floats.

    Example:
        >>> np.rint(np.array([0.5, 1.5, 2.7]))
        Array([0., 2., 3.], dtype=float32)
    """
    if not kind_of(x, "rint").is_inexact:
        return lifted(convert(lifted(x), default_float()))
    return keep_weak(by_parts(ops.round_nearest_even, lifted(x)), x)


@documented(PARAMETERS)
@one_program("a")
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Round to a number of decimals, ties to even.

    Args:
        a: an array; integers stay as they are.
        decimals: the number of decimals; negative values round before the point.

    Raises:
        AttributeValueError: `a` contains integers and `decimals` is negative.

    Example:
        >>> np.round(np.array([1250.0, 1350.0]), -2)
        Array([1200., 1400.], dtype=float32)
        >>> np.round(2.5)
        Array(2., dtype=float32, weak_type=True)
    """
    operands.refuse_out("round", out)
    kind = kind_of(a, "round")
    places = operands.static_int(decimals, "round", "decimals")
    a = lifted(a)
    if kind.is_integer and places >= 0:
        return a
    if not kind.is_inexact:
        problem = f"{kind} cannot be rounded to {places} decimals"
        raise operands.type_error("round", problem, "Convert to floats first.")
    if places > math.log10(float(mnp.finfo(kind.dtype).max)):
        return a
    return keep_weak(by_parts(lambda part: _rounded(part, places), a), a)


def _rounded(x: Any, decimals: int) -> Any:
    if decimals == 0:
        return ops.round_nearest_even(x)
    if kind_of(x).name == "f16":  # 10**decimals soon overflows it
        return in_f32(lambda x: _rounded(x, decimals), x)
    factor = shorthand.full_like(x, 10.0 ** math.fabs(decimals))
    scale, unscale = (ops.mul, ops.div) if decimals > 0 else (ops.div, ops.mul)
    scaled = scale(x, factor)
    # What overflows has no decimals.
    rounded = unscale(ops.round_nearest_even(scaled), factor)
    return ops.select(ops.abs(scaled) == math.inf, x, rounded)


@documented(PARAMETERS)
@one_program("x")
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """Return the fractional and the integer part of x, both with its sign.

    Returns:
        A pair of arrays of floats with the shape of `x`.

    Raises:
        ShapeError: `x` is complex.

    Example:
        >>> np.modf(np.array([-1.5, 2.0]))
        (Array([-0.5,  0. ], dtype=float32), Array([-1.,  2.], dtype=float32))
    """
    operands.refuse_out("modf", out)
    number = operands.inexact_operand(x, "modf")
    no_fraction = ops.mul(ops.sign(number), shorthand.full_like(number, 0))
    is_infinite = ops.abs(number) == math.inf
    fraction = ops.select(is_infinite, no_fraction, ops.rem(number, shorthand.ones_like(number)))
    return keep_weak(fraction, x), keep_weak(trunc(number), x)


@documented(PARAMETERS)
@one_program()
def real(val: ArrayLike, /) -> Array:
    """Return the real part.

    Example:
        >>> np.real(np.array([1 + 2j, 3]))
        Array([1., 3.], dtype=float32)
    """
    is_complex, number = kind_of(val, "real").is_complex, lifted(val)
    return keep_weak(ops.real(number) if is_complex else number, val)


@documented(PARAMETERS)
@one_program()
def imag(val: ArrayLike, /) -> Array:
    """Return the imaginary part; zeros for real numbers.

    Example:
        >>> np.imag(np.array([1 + 2j, 3]))
        Array([2., 0.], dtype=float32)
    """
    shape = operands.operand_shape(val, "imag")
    is_complex = shape.element_type.is_complex
    return ops.imag(lifted(val)) if is_complex else lifted(shorthand.zeros(shape))


@documented(PARAMETERS)
@one_program()
def conjugate(x: ArrayLike, /) -> Array:
    """Return the complex conjugate; real numbers stay as they are.

    Example:
        >>> np.conjugate(np.array([1 + 2j, 3]))
        Array([1.-2.j, 3.-0.j], dtype=complex64)
    """
    return unary.conjugate(lifted(x))


@documented(PARAMETERS)
@one_program("z")
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Return the angle of complex numbers from the positive real axis.

    Args:
        z: an array or a scalar.
        deg: whether the result is in degrees, not radians.

    Returns:
        A real array with the shape of `z`.

    Example:
        >>> np.angle(np.array([1, 1j]), deg=True)
        Array([ 0., 90.], dtype=float32)
    """
    z = lifted(z if kind_of(z, "angle").is_inexact else convert(z, default_float()))
    result = ops.atan2(imag(z), real(z))
    return rad2deg(result) if deg else result


@one_program("arr", "min", "max")
def clip(arr: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Clip elements to the range from `min` to `max`.

    Args:
        arr: an array or a scalar.
        min: the lower bound, which broadcasts with `arr`; None for no bound.
        max: the upper bound, which broadcasts with `arr`; None for no bound.

    Returns:
        An array of the shape that the arguments broadcast to, with their common element type.

    Raises:
        ShapeError: an argument is complex.

    Example:
        >>> np.clip(np.arange(5), 1, 3)
        Array([1, 1, 2, 3, 3], dtype=int32)
    """
    refusal = "complex numbers have no order", "Clip the real and the imaginary part."
    for each in [each for each in (arr, min, max) if each is not None]:
        elements.refuse_complex("clip", kind_of(each, "clip"), refusal)
    result = arr if min is None else maximum(min, arr)
    return lifted(result if max is None else minimum(max, result))


@documented(PARAMETERS)
@one_program("x", known=("nan", "posinf", "neginf"))
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Replace NaN and infinities.

    Args:
        x: an array; integers stay as they are.
        nan: the replacement of NaN.
        posinf: the replacement of inf; default: the largest finite number of the type.
        neginf: the replacement of -inf; default: the lowest finite number of the type.

    Example:
        >>> np.nan_to_num(np.array([np.nan, 1.0, np.inf]), posinf=9)
        Array([0., 1., 9.], dtype=float32)
    """
    kind, x = kind_of(x, "nan_to_num"), lifted(x)
    if not kind.is_inexact:
        return x
    limits = mnp.finfo(kind.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf

    def replaced(part: Any) -> Any:
        rows = ((mnp.isnan, nan), (mnp.isposinf, high), (mnp.isneginf, low))
        for test, number in rows:
            part = mnp.where(test(part), convert(number, kind.real), part)
        return part

    return keep_weak(by_parts(replaced, x), x)


# Other names of the same functions.
abs, pow, mod, true_divide = absolute, power, remainder, divide
invert = bitwise_invert = bitwise_not
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
atan2, radians, degrees, fix, around, conj = arctan2, deg2rad, rad2deg, trunc, round, conjugate
