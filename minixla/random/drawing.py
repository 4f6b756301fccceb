"""Draws from a single typed key, of checked sizes and types."""

from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES, F32, S32, U32, ElementType
from minixla.numpy.operands import convert, default_float, default_int, kind_of
from minixla.random.sampling import finfo, random_bits, setting, split_keys
from minixla_ops.helpers.shorthand import full_like


def floats(
    key: Any, sizes: tuple[int, ...], kind: ElementType, low: Any = 0.0, high: Any = 1.0
) -> Any:
    """Draw the floats of `uniform`."""
    mantissa, unsigned = finfo(kind).nmant, ELEMENT_TYPES[f"u{kind.bits}"]
    width = 8 if mantissa < 8 else kind.bits
    words = convert(random_bits(key, width, sizes), unsigned)
    # Mantissas of floats from 1 to 2.
    one = int(np.ones((), kind.dtype).view(unsigned.dtype))
    words = ops.shift_right_logical(words, full_like(words, width - mantissa)) | full_like(
        words, one
    )
    shares = ops.bitcast_convert_type(words, kind)
    shares = shares - full_like(shares, 1)
    if type(low) is type(high) is float and (low, high) == (0, 1):
        return shares
    low, high = convert(low, kind), convert(high, kind)
    return mnp.maximum(low, shares * (high - low) + low)


def integers(key: Any, sizes: tuple[int, ...], minval: Any, maxval: Any, kind: ElementType) -> Any:
    """Draw the integers of `randint`."""
    low, high = (_whole(bound) for bound in (minval, maxval))
    if kind.bits < 32:
        info = np.iinfo(kind.dtype)
        low = mnp.clip(convert(low, S32), info.min, info.max)
        high = mnp.clip(convert(high, S32), info.min, info.max + 1)
        return convert(_integers(key, sizes, low, high, S32), kind)
    return _integers(key, sizes, low, high, kind)


def _whole(number: Any) -> Any:
    number = mnp.asarray(number)
    return number if kind_of(number).is_integer else convert(number, default_int())


def _integers(key: Any, sizes: tuple[int, ...], minval: Any, maxval: Any, kind: ElementType) -> Any:
    reaches_end = maxval > _clipped(np.iinfo(kind.dtype).max, kind_of(maxval))
    low, high = (
        mnp.broadcast_to(convert(_within(bound, kind), kind), sizes) for bound in (minval, maxval)
    )
    parts = split_keys(key, 2, sizes)
    upper, lower = (random_bits(parts[at], kind.bits, sizes) for at in range(2))
    unsigned = kind_of(upper)
    span = convert(high - low, unsigned)
    span = ops.select(high <= low, full_like(span, 1), span)
    span = mnp.where(reaches_end & (high > low), span + full_like(span, 1), span)
    # 2**bits modulo span; no intermediate number may exceed the type's maximum.
    factor = ops.rem(full_like(span, 1 << kind.bits // 2), span)
    factor = ops.rem(factor * factor, span)
    offset = ops.rem(ops.rem(upper, span) * factor + ops.rem(lower, span), span)
    return low + convert(offset, kind)


def _within(number: Any, kind: ElementType) -> Any:
    """Clip integers of any type to the limits of `kind`."""
    kind_of_number, info = kind_of(number), np.iinfo(kind.dtype)
    return mnp.clip(number, _clipped(info.min, kind_of_number), _clipped(info.max, kind_of_number))


def _clipped(number: int, kind: ElementType) -> Any:
    info = np.iinfo(kind.dtype)
    return np.asarray(min(max(number, info.min), info.max), kind.dtype)


def signs(key: Any, sizes: tuple[int, ...], kind: ElementType) -> Any:
    """Draw the numbers of `rademacher`."""
    heads = convert(floats(key, sizes, default_float()) < 0.5, kind)
    return convert(2 * heads - 1, kind)


def normals(key: Any, sizes: tuple[int, ...], kind: ElementType) -> Any:
    """Draw the numbers of `normal`."""
    if kind.is_complex:
        parts = split_keys(key, 2, sizes)
        real, imaginary = (convert(normals(parts[at], sizes, kind.real), kind) for at in range(2))
        return (real + 1j * imaginary) / np.asarray(np.sqrt(2), kind.dtype)
    one, zero = np.ones((), kind.dtype), np.zeros((), kind.dtype)
    shares = floats(key, sizes, kind, np.nextafter(-one, zero), one)
    return full_like(shares, np.sqrt(2)) * ops.erf_inv(shares)


def exponentials(key: Any, sizes: tuple[int, ...], kind: ElementType) -> Any:
    """Draw the numbers of `exponential`."""
    return -ops.log1p(-floats(key, sizes, kind))


def gumbels(key: Any, sizes: tuple[int, ...], kind: ElementType, mode: str | None) -> Any:
    """Draw the numbers of `gumbel`."""
    if (mode or _default_mode()) == "low":
        shares = floats(key, sizes, kind, finfo(kind).tiny, 1.0)
        return -ops.log(-ops.log(shares))
    if mode == "highest" and kind is F32:
        return _gumbels_of_all_floats(random_bits(key, 32, (2, *sizes)))
    info, both = finfo(kind), floats(key, (2, *sizes), kind)
    high, low = both[0], both[1]
    below = high + full_like(low, 2.0**-info.nmant) * low + full_like(low, info.tiny)
    share = ops.select(high >= 0.5, high, below)
    return -ops.log(-ops.log1p(-share))


def _default_mode() -> str:
    return "high" if setting("high_dynamic_range_gumbel") else "low"


def _gumbels_of_all_floats(bits: Any) -> Any:
    """Compute the numbers of `gumbel` from 64 bits each, which yield every float32 in (0, 1)."""
    inverted = ~bits
    carry = convert(inverted[1] == 0xFFFFFFFF, U32)
    inverted = inverted + mnp.stack([carry, full_like(carry, 1)])
    is_low = bits[0] < 1 << 31
    share = _share(ops.select(mnp.broadcast_to(is_low, bits.shape), bits, inverted))
    return ops.select(is_low, -ops.log(-ops.log1p(-share)), -ops.log(-ops.log(share)))


def _share(bits: Any) -> Any:
    """Return the float32 of a 64-bit fixed-point fraction, which is given as high and low words."""
    high, low = bits[0], bits[1]
    zeros, of_low = ops.clz(high), ops.clz(low)
    is_far = zeros == 32
    rest = ops.select(is_far, low << of_low, ops.shift_right_logical(low, 32 - zeros))
    mantissa = (high << zeros | rest) >> 8 & 0x7FFFFF
    exponent = (126 - ops.select(is_far, 32 + of_low, zeros)) << 23 & 0x3FC00000
    return ops.bitcast_convert_type(exponent | mantissa, F32)
