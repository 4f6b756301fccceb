"""Element-wise operators of numbers and bits, and functions of two numbers."""

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracebacks import api_boundary
from minixla.numpy.element_functions import (
    of_one,
    of_promoted,
    of_two,
)
from minixla.numpy.operands import kind_of, lifted
from minixla.numpy.shared_sections import PARAMETERS, TWO_OPERANDS
from minixla.numpy.ufuncs import with_methods
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise import binary, operators
from minixla_ops.elementwise.promotion import inexact_type, numeric_type
from minixla_ops.helpers import shorthand


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
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the greatest common divisor of integers.

    Example:
        >>> np.gcd(np.array([12, 7]), 18)
        Array([6, 1], dtype=int32)
    """
    return operators.gcd(x1, x2)


@documented(PARAMETERS, TWO_OPERANDS)
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
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
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the element-wise maximum, ignoring NaN.

    Example:
        >>> np.fmax(np.array([1.0, np.nan]), 2)
        Array([2., 2.], dtype=float32)
    """
    return ops.select(operators.greater(x1, x2) | operators.not_equal(x2, x2), x1, x2)


@of_promoted()
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
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


# Other names of the same functions.
abs, pow, mod, true_divide = absolute, power, remainder, divide
invert = bitwise_invert = bitwise_not
bitwise_left_shift, bitwise_right_shift, atan2 = left_shift, right_shift, arctan2
