"""The truth of mx.numpy's element-wise functions, and bounds of their errors: a row a function.

The truth is NumPy's function of long doubles, which have 11 bits more than f64 where they are
x87's; what NumPy lacks, or computes with less care, is written out here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import minixla.numpy as mnp

Function = Callable[..., Any]
#: Of NumPy, whose annotations give parts to complex types alone.
Array = Any

WIDE, WIDE_COMPLEX = np.longdouble, np.clongdouble
#: The truth needs more digits than f64 has.
HAS_LONG_DOUBLE = np.finfo(WIDE).nmant > 60
TYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}
_PI, _LOG_2 = 4 * np.arctan(WIDE(1)), np.log(WIDE(2))


# The truth.


def _join(real: Array, imag: Array) -> Array:
    """The complex array of these parts, signs of zeros included."""
    result = np.empty(np.shape(real), WIDE_COMPLEX)
    result.real, result.imag = real, imag
    return result


def _by_kind(of_floats: Function, of_complex: Function) -> Function:
    return lambda x: of_complex(x) if x.dtype.kind == "c" else of_floats(x)


def _expm1(z: Array) -> Array:
    power = np.exp(z)
    near = np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2
    return _join(np.where(np.abs(z.real) < 1, near, power.real - 1), power.imag)


def _log1p(z: Array) -> Array:
    far = np.log(_join(1 + z.real, z.imag))
    near = np.log1p(z.real * (2 + z.real) + z.imag * z.imag) / 2
    return _join(np.where(np.abs(z) < 0.5, near, far.real), far.imag)


def _exp2(z: Array) -> Array:
    power = np.exp(_join(z.real * _LOG_2, z.imag * _LOG_2))
    size, angle = np.exp2(z.real), z.imag * _LOG_2
    finite = _join(size * np.cos(angle), np.where(z.imag == 0, z.imag, size * np.sin(angle)))
    return np.where(np.isfinite(z), finite, power)


def _square(z: Array) -> Array:
    return _join(z.real * z.real - z.imag * z.imag, 2 * z.real * z.imag)


def _reciprocal(z: Array) -> Array:
    zero = _join(np.copysign(WIDE(0), z.real), -np.copysign(WIDE(0), z.imag))
    return np.where(np.isinf(z.real) | np.isinf(z.imag), zero, 1 / z)


def _sign(x: Array) -> Array:
    return np.where((x == 0) | np.isnan(x), x, np.sign(x))


def _direction(z: Array) -> Array:
    size = np.abs(z)
    return np.where(z == 0, z, _join(z.real / size, z.imag / size))


def _sinc(x: Array) -> Array:
    whole = np.rint(x)
    sine = np.sin(_PI * (x - whole)) / (_PI * x)
    return np.where(x == 0, 1, np.where(whole % 2 == 0, sine, -sine))


def _complex_sinc(z: Array) -> Array:
    whole = np.rint(z.real)
    sine = np.sin(_join(_PI * (z.real - whole), _PI * z.imag))
    quotient = np.where(whole % 2 == 0, sine, -sine) / (_PI * z)
    return np.where(z == 0, 1, quotient)


def _power(x: Array, y: Array) -> Array:
    # glibc's powl(-inf, -2.0**63) is infinite.
    if x.dtype.kind != "c":
        x = np.where(np.isinf(x) & (np.abs(y) >= 2.0**63), np.abs(x), x)
    return np.power(x, y)


def _log2_of_sum(x: Array, y: Array) -> Array:
    larger, apart = np.maximum(x, y), np.abs(x - y)
    total = larger + np.log1p(np.exp2(-apart)) / _LOG_2
    return np.where(np.isnan(apart), x + y, total)


# Where XLA:CPU differs.


def _minus_zero(x: Array) -> Array:
    """-0, and what XLA:CPU may take for it."""
    return np.signbit(x) & (np.abs(x) < 2 * _normal(x))


def _below_axis(z: Array) -> Array:
    return _minus_zero(z.imag)


def _is_half_known(z: Array) -> Array:
    return np.isnan(z.real) & np.isinf(z.imag) | np.isinf(z.real) & np.isnan(z.imag)


def _is_tiny(*operands: Array) -> Array:
    """Whether a part, or its half, is a denormal number."""
    parts = [part for x in operands for part in (x.real, x.imag)]
    return np.any([(part != 0) & (np.abs(part) < 2 * _normal(part)) for part in parts], axis=0)


def _is_low(*operands: Array) -> Array:
    """Whether operands are so small that their differences may be denormal."""
    low = _normal(operands[0]) / float(ml_dtypes.finfo(operands[0].dtype).eps)
    return np.any([np.abs(x) < 2 * low for x in operands], axis=0)


def _has_no_angle(z: Array) -> Array:
    return ~np.isfinite(z.imag)


def _has_no_real(z: Array) -> Array:
    return ~np.isfinite(z.real)


def _normal(part: Array) -> float:
    return float(ml_dtypes.finfo(part.dtype).smallest_normal)


def _size(z: Array) -> Array:
    return np.maximum(np.abs(z.real), np.abs(z.imag))


def _complex_only(mask: Function) -> Function:
    return lambda x: mask(x) if x.dtype.kind == "c" else np.zeros(x.shape, bool)


def _left_of_axis(z: Array) -> Array:
    return _minus_zero(z.real)


def _largest(z: Array) -> float:
    return float(ml_dtypes.finfo(z.real.dtype).max)


def _log_of_largest(z: Array) -> float:
    return float(np.log(_largest(z)))


def _near_log1p_pole(z: Array) -> Array:
    return np.abs(z + 1) < 1e-9


def _near_zero_of_expm1(z: Array) -> Array:
    return (np.abs(z.imag) > 3) & (np.abs(np.exp(z.astype(np.complex128)) - 1) < 0.1)


def _near_pole_of_tan(z: Array) -> Array:
    return np.abs(np.cos(z.astype(np.complex128))) < 0.1


def _near_pole_of_tanh(z: Array) -> Array:
    return np.abs(np.cosh(z.astype(np.complex128))) < 0.1


def _either(*masks: Function) -> Function:
    return lambda *operands: np.any([mask(*operands) for mask in masks], axis=0)


class Row(NamedTuple):
    """What is known of one function.

    Attributes:
        truth: of long doubles, or complex ones.
        bounds: steps between neighbouring values of the type at the truth; types in TYPES' order,
            None where the function does not take one.
        call: ours; default: the one of the row's name.
        by_parts: whether bounds of complex numbers are those of each part, not in the plane.
        zeros: whether signs of zeros are compared.
        scale: from the truth and the operands, how many times the bound the error may be.
        outside: where the function is not compared at all, and `limit` says where that is.
        apart: where XLA:CPU differs for reasons of its own, and `why` gives them.
    """

    truth: Function
    bounds: Sequence[float | None]
    call: Function | None = None
    by_parts: bool = False
    zeros: bool = True
    scale: Function | None = None
    outside: Function | None = None
    limit: str = ""
    apart: Function | None = None
    why: str = ""

    def bound(self, kind: str) -> float | None:
        """The greatest error for a type of TYPES."""
        return dict(zip(TYPES, self.bounds, strict=False)).get(kind)


_EXACT, _ROUNDED = (0, 0, 0, 0, 0, 0), (0.51,) * 6
_EXACT_REAL, _ROUNDED_REAL = _EXACT[:4], _ROUNDED[:4]
_NO_SIGN = "complex: -0 as an imaginary part counts as +0"
_HALF = "complex: NaN if one part is infinite and the other NaN"
_TINY = "NaN or a wrong value for subnormal operands"
_OPEN = "both parts are NaN for an infinite or NaN angle"
_MODERATE = "complex: for moderate numbers"
_CONDITIONED = "times the larger operand over the result"


def _conditioning(truth: Array, *operands: Array) -> Array:
    """By how much the operands exceed the result."""
    size = np.max(np.abs(operands), axis=0)
    ratio = size / np.maximum(np.abs(truth), WIDE(1e-300))
    return np.where(np.isfinite(ratio), np.maximum(ratio, 1), 1)


def _magnified(truth: Array, z: Array) -> Array:
    """By how much an angle's or exponent's rounding is magnified."""
    return np.fmax(1, np.abs(_PI * z.imag)) if z.dtype.kind == "c" else np.ones(z.shape)


def _magnified_power(truth: Array, base: Array, exponent: Array) -> Array:
    if base.dtype.kind != "c":
        return np.ones(base.shape)
    return np.fmax(1, np.abs(exponent * np.log(base)))


def _rough(name: str, offset: float, low: float, high: float, factor: float) -> Function:
    """`factor` between two moduli of operands of the dtype called `name`, offset added; else 1."""

    def scale(truth: Array, x: Array) -> Array:
        is_rough = (np.abs(x + offset) > low) & (np.abs(x + offset) < high)
        return np.where(is_rough & (x.dtype.name == name), factor, 1)

    return scale


def _product(*scales: Function) -> Function:
    return lambda *given: np.prod([scale(*given) for scale in scales], axis=0)


def _logarithm(truth: Function, bounds: Sequence[float]) -> Row:
    return Row(
        truth,
        bounds,
        scale=_rough("complex128", 0, 0.75, 0.86, 25),
        apart=_complex_only(_either(_is_half_known, _is_tiny)),
        why="c128: 25 times as much where the modulus is 0.75 to 0.86; "
        f"{_HALF}, or for subnormal operands",
    )


UNARY: dict[str, Row] = {
    # Exact.
    "abs": Row(np.abs, (0, 0, 0, 0, 3, 3), apart=_complex_only(_is_half_known), why=_HALF),
    "ceil": Row(np.ceil, _EXACT_REAL),
    "conj": Row(np.conj, _EXACT),
    "fabs": Row(np.fabs, _EXACT_REAL),
    "floor": Row(np.floor, _EXACT_REAL),
    "imag": Row(np.imag, _EXACT),
    "modf": Row(lambda x: np.modf(x)[0], _EXACT_REAL, call=lambda x: mnp.modf(x)[0]),
    "negative": Row(np.negative, _EXACT),
    "positive": Row(np.positive, _EXACT),
    "real": Row(np.real, _EXACT),
    "rint": Row(np.rint, _EXACT),
    "round": Row(np.round, _EXACT),
    "sign": Row(
        _by_kind(_sign, _direction),
        (0, 0, 0, 0, 3, 3),
        outside=_complex_only(lambda z: np.isinf(z.real) | np.isinf(z.imag)),
        limit="not of complex infinities",
        apart=_complex_only(_either(_is_tiny, lambda z: _size(z) > _largest(z) / 2)),
        why=f"{_TINY}; complex: 0 where the modulus overflows",
    ),
    "trunc": Row(np.trunc, _EXACT_REAL),
    # Powers and logarithms.
    "cbrt": Row(
        np.cbrt,
        (0.51, 0.51, 1.2, 4),
        apart=_is_tiny,
        why=_TINY,
    ),
    "exp": Row(
        np.exp,
        (0.51, 0.51, 5, 2, 4, 4),
    ),
    "exp2": Row(
        _by_kind(np.exp2, _exp2),
        (0.51, 0.51, 0.6, 1, 4, 4),
        scale=_magnified,
        outside=_complex_only(lambda z: np.abs(z.imag) > 1e4),
        limit="complex: times pi abs(Im z), up to 10^4",
        apart=_complex_only(_is_tiny),
        why=_TINY,
    ),
    "expm1": Row(
        _by_kind(np.expm1, _expm1),
        (2.5, 0.51, 6, 4, 6, 6),
        apart=_complex_only(
            _either(
                _left_of_axis,
                _near_zero_of_expm1,
                lambda z: z.real > _log_of_largest(z),
            )
        ),
        why="complex: -0 as a real part counts as +0; larger errors near 2 k pi i; "
        "overflows where the exponential of the real part does",
    ),
    "log": _logarithm(np.log, (0.51, 0.51, 1.5, 1, 3, 10)),
    "log10": _logarithm(np.log10, (0.51, 0.51, 3, 3, 4, 10)),
    "log1p": Row(
        _by_kind(np.log1p, _log1p),
        (0.51, 0.51, 3, 2, 4, 10),
        scale=_product(
            _rough("float64", 1, 0.58, 0.72, 70), _rough("complex128", 1, 0.58, 0.86, 25)
        ),
        apart=_complex_only(_either(_is_tiny, _near_log1p_pole)),
        why="f64: 70 times as much between -0.42 and -0.28; c128: 25 times as much where the "
        "modulus of 1 + z is 0.58 to 0.86; complex: NaN for subnormal operands; "
        "larger errors near -1",
    ),
    "log2": _logarithm(np.log2, (0.51, 0.51, 2.5, 2, 3, 10)),
    "reciprocal": Row(
        _by_kind(lambda x: 1 / x, _reciprocal),
        (0.51, 0.51, 0.51, 0.51, 3, 3),
        zeros=False,
        outside=_complex_only(lambda z: _size(z) > _largest(z) / 4),
        limit="complex: not if the result is subnormal",
    ),
    "sqrt": Row(
        np.sqrt,
        (0.51, 0.51, 0.51, 0.51, 3, 3),
    ),
    "square": Row(_by_kind(np.square, _square), (0.51, 0.51, 0.51, 0.51, 2, 2)),
    # Angles.
    "angle": Row(
        np.angle, (0.51, 0.51, 0.51, 0.51, 2, 1.5), apart=_complex_only(_is_tiny), why=_TINY
    ),
    "deg2rad": Row(lambda x: x * _PI / 180, (1.1, 0.6, 0.8, 0.8)),
    "rad2deg": Row(lambda x: x * 180 / _PI, (1.1, 0.8, 0.8, 1)),
    "cos": Row(np.cos, (0.51, 0.51, 0.8, 0.8, 6, 6)),
    "sin": Row(np.sin, (0.51, 0.51, 0.8, 0.8, 6, 6)),
    "sinc": Row(
        _by_kind(_sinc, _complex_sinc),
        (0.51, 0.51, 3, 3, 7, 7),
        zeros=False,
        scale=_magnified,
        outside=_complex_only(
            lambda z: ~((np.abs(z.imag) < _log_of_largest(z) / 4) & (_size(z) < _largest(z) / 4))
        ),
        limit="complex: times pi abs(Im z), far from the overflow of sin(pi z)",
    ),
    "tan": Row(
        np.tan,
        (0.51, 0.51, 1, 1, 10, 10),
        apart=_complex_only(_either(_left_of_axis, _has_no_real, _near_pole_of_tan)),
        why=f"complex: -0 as a real part counts as +0; {_OPEN}; "
        "larger errors where abs(cos z) < 0.1",
    ),
    "arccos": Row(np.arccos, (0.51, 0.51, 2, 2, 4, 4), by_parts=True),
    "arcsin": Row(np.arcsin, (0.51, 0.51, 2.5, 2, 4, 4), by_parts=True),
    "arctan": Row(np.arctan, (0.51, 0.51, 1, 1.5, 4, 4), by_parts=True),
    # Hyperbolic.
    "cosh": Row(np.cosh, (0.51, 0.51, 3, 4, 6, 6)),
    "sinh": Row(np.sinh, (0.51, 0.51, 6, 5, 6, 6)),
    "tanh": Row(
        np.tanh,
        (0.51, 0.51, 4.5, 8, 10, 10),
        apart=_complex_only(_near_pole_of_tanh),
        why="complex: larger errors where abs(cosh z) < 0.1",
    ),
    "arccosh": Row(np.arccosh, (0.51, 0.51, 3, 3, 4, 4), by_parts=True),
    "arcsinh": Row(np.arcsinh, (0.51, 0.51, 3, 3, 4, 4), by_parts=True),
    "arctanh": Row(np.arctanh, (0.51, 0.51, 3.5, 3, 4, 4), by_parts=True),
}

_POWER = Row(
    _power,
    (0.51, 0.51, 0.7, 1, 8, 8),
    scale=_magnified_power,
    limit="complex: times abs(y log x), for moderate numbers",
    apart=_is_tiny,
    why=_TINY,
)
BINARY: dict[str, Row] = {
    "add": Row(np.add, _ROUNDED),
    "arctan2": Row(np.arctan2, (0.51, 0.51, 2, 1), apart=_is_tiny, why=_TINY),
    "copysign": Row(np.copysign, _EXACT_REAL),
    "divide": Row(np.divide, (0.51, 0.51, 0.51, 0.51, 4, 4), limit=_MODERATE),
    "float_power": _POWER,
    "floor_divide": Row(
        np.floor_divide, (0.51, 0.51, 2, 2), apart=_is_low, why="subnormal remainders are 0"
    ),
    "fmax": Row(np.fmax, _EXACT_REAL, zeros=False),
    "fmin": Row(np.fmin, _EXACT_REAL, zeros=False),
    "fmod": Row(np.fmod, _EXACT_REAL, apart=_is_low, why="subnormal remainders are 0"),
    "heaviside": Row(np.heaviside, _EXACT_REAL),
    "hypot": Row(np.hypot, (2, 2, 2, 2)),
    "logaddexp": Row(
        np.logaddexp, (0.51, 0.51, 3, 3), zeros=False, scale=_conditioning, limit=_CONDITIONED
    ),
    "logaddexp2": Row(
        _log2_of_sum, (0.51, 0.51, 4, 4), zeros=False, scale=_conditioning, limit=_CONDITIONED
    ),
    "maximum": Row(np.maximum, _EXACT_REAL, zeros=False),
    "minimum": Row(np.minimum, _EXACT_REAL, zeros=False),
    "multiply": Row(np.multiply, (0.51, 0.51, 0.51, 0.51, 2, 2), limit=_MODERATE),
    "power": _POWER,
    "remainder": Row(np.remainder, _ROUNDED_REAL, apart=_is_low, why="subnormal remainders are 0"),
    "subtract": Row(np.subtract, _ROUNDED),
}
