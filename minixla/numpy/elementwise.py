"""Element-wise functions of numbers: operators, exponentials, rounding, parts of complex numbers.

Inverse and hyperbolic functions, and what else has a derivative of its own, are in `inverses`;
functions whose results are booleans in `logic`.
"""

import math
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import one_program
from minixla.numpy import element_functions as elements
from minixla.numpy import operands
from minixla.numpy.element_functions import by_parts, either, of_inexact, of_one, of_two
from minixla.numpy.operands import convert, default_float, keep_weak, kind_of, lifted
from minixla.numpy.ufuncs import with_methods
from minixla_ops.elementwise import binary, complex_functions, operators, unary
from minixla_ops.elementwise.families import in_f32
from minixla_ops.elementwise.promotion import inexact_type, numeric_type
from minixla_ops.helpers import shorthand

# Operators.

add = with_methods(0)(of_two("add", "The sum; of booleans, their or."))
subtract = with_methods()(of_two("subtract", "The difference."))
multiply = with_methods(1)(of_two("multiply", "The product; of booleans, their and."))
divide = true_divide = of_two("divide", "The quotient; of integers a float.")
floor_divide = of_two("floor_divide", "The quotient rounded down.")
remainder = mod = of_two("remainder", "What floor_divide leaves, with the sign of x2.")


@api_boundary
def power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power of x2; a known integer x2 means repeated products."""
    return operators.power(x1, x2)


pow = power
bitwise_and = with_methods(-1)(of_two("bitwise_and", "The and of each bit."))
bitwise_or = with_methods(0)(of_two("bitwise_or", "The or of each bit."))
bitwise_xor = with_methods(0)(of_two("bitwise_xor", "The exclusive or of each bit."))
left_shift = bitwise_left_shift = of_two("left_shift", "The bits of x1 moved up by x2 places.")
right_shift = bitwise_right_shift = of_two(
    "right_shift", "The bits of x1 moved down by x2 places; the sign stays."
)
maximum = with_methods()(
    of_two("maximum", "The greater; NaN wins.", operators.promoting(binary.Max(), "maximum"))
)
minimum = with_methods()(
    of_two("minimum", "The smaller; NaN wins.", operators.promoting(binary.Min(), "minimum"))
)
gcd = elements.named(operators.gcd, "gcd", "The greatest common divisor of integers, of any signs.")
lcm = elements.named(operators.lcm, "lcm", "The least common multiple of integers, of any signs.")
divmod = of_two("divmod", "The pair of `floor_divide` and `remainder`.")

negative = with_methods()(of_one("negative", "The number with the other sign."))
positive = of_one("positive", "The number itself.")
absolute = abs = of_one("absolute", "The absolute value, of complex numbers too.")
bitwise_not = invert = bitwise_invert = of_one("bitwise_not", "Each bit the other way.")


@elements.of_promoted(numeric_type)
def fmod(x1: Any, x2: Any, /) -> Any:
    """What division rounded toward zero leaves, with the sign of x1; 0 of an integer by 0."""
    if kind_of(x2).is_integer:
        x2 = ops.select(x2 == 0, shorthand.ones_like(x2), x2)
    return ops.rem(x1, x2)


def _promoted(name: str, text: str, function: Any, adjust: Any = None, **how: bool) -> Any:
    public = elements.named(lambda x1, x2: function(x1, x2), name, text)
    return elements.of_promoted(adjust, **how)(public)


float_power = _promoted("float_power", "x1 to the power of x2, as floats.", ops.pow, inexact_type)
arctan2 = atan2 = _promoted(
    "arctan2", "The angle of the point (x2, x1), in (-pi, pi].", ops.atan2, inexact_type
)


def _of_numbers(name: str, which: str, wins: Any) -> Any:
    text = f"The {which}; of a NaN and a number, the number."
    return _promoted(name, text, lambda x1, x2: ops.select(wins(x1, x2) | (x2 != x2), x1, x2))


fmax = _of_numbers("fmax", "greater", operators.greater)
fmin = _of_numbers("fmin", "smaller", operators.less)


@elements.of_promoted(inexact_type, is_real=True)
def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 where x1 < 0, x2 where it is 0, 1 where it is greater."""
    at_zero = ops.select(x1 != x1, x1, x2)
    above = ops.select(x1 > 0, shorthand.ones_like(x1), at_zero)
    return ops.select(x1 < 0, shorthand.full_like(x1, 0), above)


@elements.of_promoted(inexact_type, is_real=True)
def copysign(x1: Any, x2: Any, /) -> Any:
    """x1 with the sign of x2."""
    size = ops.abs(x1)
    return ops.select(mnp.signbit(x2), -size, size)


_NEXT = "The next float after x1 in the direction of x2."
nextafter = _promoted("nextafter", _NEXT, ops.next_after, inexact_type, is_real=True)


def _with_special_values(name: str, text: str, derivative: Any) -> Any:
    """An operation that needs more for C99's special values of complex numbers."""
    of_complex = elements.with_derivatives(getattr(complex_functions, name), derivative)
    return of_inexact(name, text, either(getattr(ops, name).default, of_complex))


exp = _with_special_values("exp", "e to the power of x.", lambda result, z: result)
expm1 = _with_special_values("expm1", "exp(x) - 1, exact near 0.", lambda result, z: result + 1)
log = _with_special_values("log", "The natural logarithm.", lambda result, z: 1 / z)
log1p = _with_special_values("log1p", "log(1 + x), exact near 0.", lambda result, z: 1 / (1 + z))
tanh = _with_special_values(
    "tanh", "The hyperbolic tangent.", lambda result, z: 1 - result * result
)
sqrt = _with_special_values(
    "sqrt", "The square root; NaN of negative numbers.", lambda result, z: 0.5 / result
)
sin = of_inexact("sin", "The sine of an angle in radians.")
cos = of_inexact("cos", "The cosine of an angle in radians.")
tan = of_inexact("tan", "The tangent of an angle in radians.")
cosh = of_inexact("cosh", "The hyperbolic cosine.")
cbrt = of_inexact("cbrt", "The cube root.", is_real=True)
fabs = of_inexact("fabs", "The absolute value as a float.", ops.abs, is_real=True)
reciprocal = of_inexact("reciprocal", "1 / x.", lambda x: 1 / x)
_ANGLE = "An angle given in {}, in {}."
deg2rad = of_inexact("deg2rad", _ANGLE.format("degrees", "radians"), lambda x: x * (math.pi / 180))
rad2deg = of_inexact("rad2deg", _ANGLE.format("radians", "degrees"), lambda x: x * (180 / math.pi))
radians, degrees = deg2rad, rad2deg


def _scaled(x: Any, factor: float) -> Any:
    return by_parts(lambda part: part * factor, x)


def _logarithm(base: int) -> Any:
    def logarithm(x: Any) -> Any:
        return _scaled(ops.log(x), 1 / math.log(base))

    text = f"The logarithm to base {base}."
    return of_inexact(f"log{base}", text, lambda x: in_f32(logarithm, x))


log2, log10 = _logarithm(2), _logarithm(10)

_complex_exp2 = elements.with_derivatives(
    complex_functions.exp2, lambda result, z: _scaled(result, math.log(2))
)
_complex_square = one_program()(
    elements.with_derivatives(complex_functions.square, lambda result, z: z + z)
)
_exp2 = either(lambda x: ops.pow(shorthand.full_like(x, 2), x), _complex_exp2)
exp2 = of_inexact("exp2", "2 to the power of x.", _exp2)


@one_program()
def square(x: Any, /) -> Any:
    """The product x * x."""
    kind = numeric_type(kind_of(x, "square"))
    number = lifted(convert(x, kind))
    return keep_weak(_complex_square(number) if kind.is_complex else number * number, x)


@one_program()
def sign(x: Any, /) -> Any:
    """-1, 0 or 1 by the sign of x; NaN is its own, complex numbers give x / abs(x)."""
    is_unsigned = kind_of(x, "sign").kind == "unsigned"
    return minimum(x, 1) if is_unsigned else keep_weak(ops.sign(lifted(x)), x)


def _rounding(name: str, text: str, function: Any = None) -> Any:
    """A function that leaves integers and booleans as they are."""
    function = function or getattr(ops, name)

    def public(x: Any) -> Any:
        is_inexact, x = kind_of(x, name).is_inexact, lifted(x)
        return keep_weak(function(x), x) if is_inexact else x

    return one_program()(elements.named(public, name, text))


floor = _rounding("floor", "The nearest integer that is not greater.")
ceil = _rounding("ceil", "The nearest integer that is not less.")
trunc = fix = _rounding(
    "trunc",
    "The nearest integer that is not farther from 0.",
    lambda x: ops.select(x < 0, ops.ceil(x), ops.floor(x)),
)


@one_program()
def rint(x: Any, /) -> Any:
    """The nearest integer as a float, ties to even; of each part of a complex number."""
    if not kind_of(x, "rint").is_inexact:
        return lifted(convert(lifted(x), default_float()))
    return keep_weak(by_parts(ops.round_nearest_even, lifted(x)), x)


@one_program("a")
def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """`a` rounded to so many decimals, ties to even.

    Args:
        a: an array; integers stay as they are.
        decimals: how many; negative ones round before the point.
        out: not supported.

    Raises:
        AttributeValueError: integers with negative decimals.
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


around = round


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


@one_program("x")
def modf(x: Any, /, out: None = None) -> tuple[Any, Any]:
    """The fraction and the integer part of x, both with its sign; `out` is not supported."""
    operands.refuse_out("modf", out)
    number = operands.inexact_operand(x, "modf")
    no_fraction = ops.mul(ops.sign(number), shorthand.full_like(number, 0))
    is_infinite = ops.abs(number) == math.inf
    fraction = ops.select(is_infinite, no_fraction, ops.rem(number, shorthand.ones_like(number)))
    return keep_weak(fraction, x), keep_weak(trunc(number), x)


@one_program()
def real(val: Any, /) -> Any:
    """The real part."""
    is_complex, number = kind_of(val, "real").is_complex, lifted(val)
    return keep_weak(ops.real(number) if is_complex else number, val)


@one_program()
def imag(val: Any, /) -> Any:
    """The imaginary part; zeros of real numbers."""
    shape = operands.operand_shape(val, "imag")
    is_complex = shape.element_type.is_complex
    return ops.imag(lifted(val)) if is_complex else lifted(shorthand.zeros(shape))


@one_program()
def conjugate(x: Any, /) -> Any:
    """The complex conjugate; of real numbers the number itself."""
    return unary.conjugate(lifted(x))


conj = conjugate


@one_program("z")
def angle(z: Any, deg: bool = False) -> Any:
    """The angle of a complex number from the positive real axis, in radians or degrees."""
    z = lifted(z if kind_of(z, "angle").is_inexact else convert(z, default_float()))
    result = ops.atan2(imag(z), real(z))
    return rad2deg(result) if deg else result


@one_program("arr", "min", "max")
def clip(arr: Any, /, min: Any = None, max: Any = None) -> Any:
    """`arr` brought between `min` and `max`; None is no bound.

    Raises:
        ShapeError: an argument is complex.
    """
    refusal = "complex numbers have no order", "Clip the real and the imaginary part."
    for each in [each for each in (arr, min, max) if each is not None]:
        elements.refuse_complex("clip", kind_of(each, "clip"), refusal)
    result = arr if min is None else maximum(min, arr)
    return lifted(result if max is None else minimum(max, result))


@one_program("x", known=("nan", "posinf", "neginf"))
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
