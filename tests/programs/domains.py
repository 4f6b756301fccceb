"""Element types, and domains: which numbers an operand of a random program may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes
import numpy as np

from tests.oracles.values import edge_values, is_float, random_values

# Not s2 and u2: XLA:CPU compares them wrongly with constants, and their concatenation kills it.
SIGNED = ("s32", "s8", "s64", "s16", "s4")
UNSIGNED = ("u8", "u32", "u64", "u16", "u4")
# Not f4, f6 and f8e8m0fnu: XLA:CPU or the interpreter does not compute in them.
SMALL = ("f8e4m3fn", "f8e5m2", "f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz")
FLOATS = ("f32", "f64", "f16", "bf16", *SMALL)
COMPLEX = ("c64", "c128")
PRED = ("pred",)
INTEGERS = (*SIGNED, *UNSIGNED)
REALS = (*FLOATS, *INTEGERS)
NUMERIC = (*REALS, *COMPLEX)
KINDS = (*NUMERIC, *PRED)


def is_inexact(dtype: np.dtype) -> bool:
    """Whether it is a floating-point or complex type."""
    return dtype.kind == "c" or is_float(dtype)


def largest_exact(dtype: np.dtype) -> float:
    """Up to which number a floating-point type has all integers."""
    info = ml_dtypes.finfo(np.real(np.zeros((), dtype)).dtype)
    return min(2.0 ** (info.nmant + 1), float(info.max))


class Domain(NamedTuple):
    """Which numbers an operand may hold: of a known array, and of one that is drawn.

    Attributes:
        accepts: whether an array holds only such numbers.
        sample: an array of a type and sizes.
        free: whether it takes every array of integers and Booleans, so that nothing need be known.
    """

    accepts: Callable[[np.ndarray], bool]
    sample: Callable[[np.random.Generator, np.dtype, tuple[int, ...]], np.ndarray]
    free: bool = False


def _parts(array: np.ndarray) -> np.ndarray:
    """The real numbers in a floating-point or complex array, in double."""
    if array.dtype.kind == "c":
        return np.stack([np.real(array), np.imag(array)]).astype(np.float64)
    return array.astype(np.float64)


def _small(
    generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...], most: float = 3
) -> np.ndarray:
    """Small whole numbers, of both signs where the type has them."""
    low = 0 if dtype == np.bool_ or "uint" in dtype.name else -int(most)
    most = 1 if dtype == np.bool_ else int(most)
    numbers = generator.integers(low, most, sizes, endpoint=True).astype(np.float64)
    if dtype.kind == "c":
        return (numbers + 1j * generator.integers(low, most, sizes, endpoint=True)).astype(dtype)
    return numbers.astype(dtype)


def _normal(array: np.ndarray) -> np.ndarray:
    """The array with zeros for denormal numbers."""
    if array.dtype.kind == "c":
        parts = np.stack([np.real(array), np.imag(array)], -1)
        return _normal(parts).view(array.dtype)[..., 0]
    smallest = float(ml_dtypes.finfo(array.dtype).smallest_normal)
    with np.errstate(invalid="ignore"):
        tiny = np.abs(array.astype(np.float64)) < smallest
    return np.where(tiny, np.zeros((), array.dtype), array)


def _any(
    generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...], special: bool = True
) -> np.ndarray:
    """Numbers from everywhere: NaN, infinities and -0 too where `special`."""
    if generator.random() < 0.5:
        return _small(generator, dtype, sizes)
    if dtype != np.bool_ and generator.random() < 0.5:
        values = edge_values(dtype)
        if is_inexact(dtype):
            keep = np.isfinite(_parts(values))
            keep = keep.all(0) if dtype.kind == "c" else keep
            values = _normal(values if special else values[keep])
        found = generator.choice(values, sizes)
    else:
        found = random_values(dtype, sizes, int(generator.integers(2**31)))
        found = _normal(found) if is_inexact(dtype) else found
    if not special and is_inexact(dtype):
        found = found + np.zeros((), dtype)  # -0 becomes 0
    return np.asarray(found, dtype)


def whole(most: Callable[[np.dtype], float], free: bool = True) -> Domain:
    """Integers of any size, and floats that are whole numbers up to a bound, without -0.

    Sums and products of such are exact in any order and with any intermediate precision.
    """

    def accepts(array: np.ndarray) -> bool:
        if not is_inexact(array.dtype):
            return True
        parts = _parts(array)
        with np.errstate(invalid="ignore"):
            whole_numbers = (parts == np.round(parts)) & (np.abs(parts) <= most(array.dtype))
        return bool((whole_numbers & ~((parts == 0) & np.signbit(parts))).all())

    def sample(
        generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...]
    ) -> np.ndarray:
        if is_inexact(dtype):
            return _small(generator, dtype, sizes, min(3, most(dtype)))
        return _any(generator, dtype, sizes)

    return Domain(accepts, sample, free)


def summed(count: int) -> Domain:
    """What may be summed `count` at a time."""
    return whole(lambda dtype: largest_exact(dtype) // max(count, 1))


def multiplied(count: int = 1) -> Domain:
    """What may be multiplied, and `count` of the products summed; complex ones are two each."""
    return whole(lambda dtype: (largest_exact(dtype) / max(2 * count, 2)) ** 0.5 // 1)


def _finite_normal(array: np.ndarray) -> bool:
    if not is_inexact(array.dtype):
        return True
    parts, info = _parts(array), ml_dtypes.finfo(np.real(array).dtype)
    fits = np.isfinite(parts) & ((parts == 0) | (np.abs(parts) >= float(info.smallest_normal)))
    return bool((fits & ~((parts == 0) & np.signbit(parts))).all())


def small(low: int, high: int) -> Domain:
    """Whole numbers of [low, high]; from 0 on in types without a sign."""

    def accepts(array: np.ndarray) -> bool:
        values = array.astype(np.float64)
        return bool(((values >= low) & (values <= high) & (values == np.round(values))).all())

    def sample(
        generator: np.random.Generator, dtype: np.dtype, sizes: tuple[int, ...]
    ) -> np.ndarray:
        info = ml_dtypes.finfo(dtype) if is_float(dtype) else ml_dtypes.iinfo(dtype)
        least, most = max(low, int(float(info.min))), min(high, int(float(info.max)))
        return generator.integers(least, most, sizes, endpoint=True).astype(dtype)

    return Domain(accepts, sample)


#: Every number; NaN keeps no bits.
ANY = Domain(lambda array: True, _any, free=True)
#: Numbers that every order puts in the same places: no NaN, no -0, no denormals.
ORDERED = Domain(_finite_normal, lambda *given: _any(*given, special=False), free=True)
#: What may be added to another such number.
TERM = summed(2)
#: What may be multiplied by another such number.
FACTOR = multiplied()
