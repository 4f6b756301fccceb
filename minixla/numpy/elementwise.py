"""Element-wise functions of one number: squares, signs, rounding, parts of complex numbers."""

import math
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program
from minixla.numpy import element_functions as elements
from minixla.numpy import operands
from minixla.numpy.arithmetic import maximum, minimum
from minixla.numpy.element_functions import (
    by_parts,
)
from minixla.numpy.exponentials import rad2deg
from minixla.numpy.operands import convert, default_float, keep_weak, kind_of, lifted
from minixla.numpy.shared_sections import ONE_OPERAND, PARAMETERS
from minixla.typing import Array, ArrayLike
from minixla_ops.elementwise import complex_functions, unary
from minixla_ops.elementwise.families import in_f32
from minixla_ops.elementwise.promotion import numeric_type
from minixla_ops.helpers import shorthand

_complex_square = one_program()(
    elements.with_derivatives(complex_functions.square, lambda result, z: z + z)
)


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
    """Round floats; return integers and booleans unchanged."""
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
        a: an array; integers are returned unchanged.
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
    # A number that overflows when scaled has no decimals.
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
    """Return the complex conjugate; real numbers are returned unchanged.

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
    for operand in [each for each in (arr, min, max) if each is not None]:
        elements.refuse_complex("clip", kind_of(operand, "clip"), refusal)
    result = arr if min is None else maximum(min, arr)
    return lifted(result if max is None else minimum(max, result))


fix, around, conj = trunc, round, conjugate
