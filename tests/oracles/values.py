"""Element types and the values worth trying in each: edges, pairs of edges, random arrays.

Everything here is deterministic: the same call gives the same bytes on every machine.
"""

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import numpy.typing as npt

from minixla.core.element_types import element_type

__all__ = [
    "ALL_TYPES",
    "BOOLEANS",
    "COMPLEX",
    "DTYPES",
    "FLOATS",
    "INTEGERS",
    "SMALL_FLOATS",
    "all_values",
    "bit_width",
    "edge_pairs",
    "edge_values",
    "is_float",
    "is_integer",
    "random_values",
    "tensor_type",
    "type_name",
]

TypeList = list[tuple[str, np.dtype]]

BOOLEANS: TypeList = [("i1", np.dtype(np.bool_))]
SIGNED: TypeList = [
    ("i2", np.dtype(ml_dtypes.int2)),
    ("i4", np.dtype(ml_dtypes.int4)),
    *((f"i{bits}", np.dtype(f"int{bits}")) for bits in (8, 16, 32, 64)),
]
UNSIGNED: TypeList = [
    ("ui2", np.dtype(ml_dtypes.uint2)),
    ("ui4", np.dtype(ml_dtypes.uint4)),
    *((f"ui{bits}", np.dtype(f"uint{bits}")) for bits in (8, 16, 32, 64)),
]
INTEGERS: TypeList = [*SIGNED, *UNSIGNED]
SMALL_FLOATS: TypeList = [
    ("f4E2M1FN", np.dtype(ml_dtypes.float4_e2m1fn)),
    ("f6E2M3FN", np.dtype(ml_dtypes.float6_e2m3fn)),
    ("f6E3M2FN", np.dtype(ml_dtypes.float6_e3m2fn)),
    ("f8E3M4", np.dtype(ml_dtypes.float8_e3m4)),
    ("f8E4M3", np.dtype(ml_dtypes.float8_e4m3)),
    ("f8E4M3FN", np.dtype(ml_dtypes.float8_e4m3fn)),
    ("f8E4M3FNUZ", np.dtype(ml_dtypes.float8_e4m3fnuz)),
    ("f8E4M3B11FNUZ", np.dtype(ml_dtypes.float8_e4m3b11fnuz)),
    ("f8E5M2", np.dtype(ml_dtypes.float8_e5m2)),
    ("f8E5M2FNUZ", np.dtype(ml_dtypes.float8_e5m2fnuz)),
    ("f8E8M0FNU", np.dtype(ml_dtypes.float8_e8m0fnu)),
]
FLOATS: TypeList = [
    *SMALL_FLOATS,
    ("bf16", np.dtype(ml_dtypes.bfloat16)),
    ("f16", np.dtype(np.float16)),
    ("f32", np.dtype(np.float32)),
    ("f64", np.dtype(np.float64)),
]
COMPLEX: TypeList = [
    ("complex<f32>", np.dtype(np.complex64)),
    ("complex<f64>", np.dtype(np.complex128)),
]
ALL_TYPES: TypeList = [*BOOLEANS, *INTEGERS, *FLOATS, *COMPLEX]

DTYPES: dict[str, np.dtype] = dict(ALL_TYPES)
_NAMES: dict[np.dtype, str] = {dtype: name for name, dtype in ALL_TYPES}
_INTEGER_DTYPES = {dtype for _, dtype in INTEGERS}
_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)  # Powers of two and a NaN: no zero and no sign.


def type_name(dtype: npt.DTypeLike) -> str:
    """StableHLO's name of a NumPy type; TypeError where it has none."""
    try:
        return _NAMES[np.dtype(dtype)]
    except KeyError:
        raise TypeError(f"StableHLO has no element type for NumPy's {np.dtype(dtype)}") from None


def tensor_type(array: np.ndarray) -> str:
    """StableHLO's type of an array: `tensor<2x3xf32>`."""
    return f"tensor<{''.join(f'{size}x' for size in array.shape)}{type_name(array.dtype)}>"


def is_integer(dtype: npt.DTypeLike) -> bool:
    """Whether it is an integer type, the 2-bit and 4-bit ones included; a Boolean is not."""
    return np.dtype(dtype) in _INTEGER_DTYPES


def is_float(dtype: npt.DTypeLike) -> bool:
    """Whether it is a real floating-point type, the small ones included."""
    return element_type(np.dtype(dtype)).is_float


def bit_width(dtype: npt.DTypeLike) -> int:
    """Bits of a real type that carry its value; fewer than its bytes hold for 2, 4 and 6 bits."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return 1
    return (ml_dtypes.finfo(dtype) if is_float(dtype) else ml_dtypes.iinfo(dtype)).bits


def all_values(dtype: npt.DTypeLike) -> np.ndarray:
    """Every value of a real type of up to 16 bits, in the order of its bit patterns."""
    dtype = np.dtype(dtype)
    bits = bit_width(dtype)
    if bits > 16:
        raise ValueError(f"{dtype} has 2**{bits} values")
    return np.arange(2**bits, dtype=f"uint{8 * dtype.itemsize}").view(dtype)


def edge_values(dtype: npt.DTypeLike) -> np.ndarray:
    """The values of a type that break implementations, each bit pattern once.

    Types of up to 6 bits give all their values. Floats: zeros, ones and halves, what is next to
    them, the ends of the denormal and normal ranges, integers around 2**precision and 2**31..2**64,
    the thresholds of exp and of squaring, infinities and NaNs, all with both signs. Integers: both
    ends, small ones, powers of two and what is next to them. Complex: pairs of fourteen floats.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return _complex_edges(dtype)
    if dtype == np.bool_ or bit_width(dtype) <= 6:
        return all_values(dtype)
    return _float_edges(dtype) if is_float(dtype) else _integer_edges(dtype)


def edge_pairs(dtype: npt.DTypeLike) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of edge values, as the operands of a binary op."""
    values = edge_values(dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def random_values(
    dtype: npt.DTypeLike,
    shape: Sequence[int],
    seed: int,
    low: float | None = None,
    high: float | None = None,
) -> np.ndarray:
    """An array of uniformly distributed values in [low, high).

    Without bounds, integers come from their whole range and floats from [-4, 4), rounded to the
    type. Complex values have both parts in the range. f8E8M0FNU, with neither zero nor sign, gets
    exponents uniform between those of the bounds, which are 2**-4 and 2**4 if not given.
    """
    dtype, generator = np.dtype(dtype), np.random.default_rng(seed)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(dtype)
    if is_integer(dtype):
        info = ml_dtypes.iinfo(dtype)
        start = int(info.min) if low is None else int(low)
        stop = int(info.max) + 1 if high is None else int(high)
        wide = np.uint64 if start >= 0 else np.int64
        return generator.integers(start, stop - 1, shape, wide, endpoint=True).astype(dtype)
    if dtype == _E8M0:
        ends = np.log2([2.0**-4 if low is None else low, 2.0**4 if high is None else high])
        return np.exp2(np.floor(generator.uniform(*ends, shape))).astype(dtype)
    low, high = -4.0 if low is None else low, 4.0 if high is None else high
    values = generator.uniform(low, high, shape)
    if dtype.kind == "c":
        values = values + 1j * generator.uniform(low, high, shape)
    return values.astype(dtype)


def _distinct(values: np.ndarray) -> np.ndarray:
    """The values without repeated bit patterns, in order of first appearance."""
    bits = np.ascontiguousarray(values).view(f"uint{8 * values.dtype.itemsize}")
    return values[np.sort(np.unique(bits, return_index=True)[1])]


def _float_edges(dtype: np.dtype) -> np.ndarray:
    info = ml_dtypes.finfo(dtype)
    eps, largest = 2.0**-info.nmant, float(info.max)
    normal, denormal = float(info.smallest_normal), float(info.smallest_subnormal)
    exp_end = np.log(largest)
    rows = (
        (0, 1, 1 + eps, 1 - eps / 2, 1.5, 2, 2.5, 3, 3.5, 7.75, 100, 1e-3, np.pi, np.pi / 2),
        (0.5, 0.5 + eps / 2, 0.5 - eps / 4),
        (1 / eps - 1, 1 / eps - 0.5, 1 / eps, 2 / eps - 1, 2 / eps, 2 / eps + 2, 1e10),
        (2.0**31 - 128, 2.0**31, 2.0**32, 2.0**53 - 1, 2.0**63, 2.0**64),
        (exp_end * (1 - eps), exp_end * (1 + eps), largest**0.5, (2 * largest) ** 0.5, normal**0.5),
        (denormal, 3 * denormal, normal - denormal, normal, normal + denormal),
        (largest / 2, largest * (1 - eps), largest),
    )
    positive = np.array([value for row in rows for value in row if value <= largest])
    if dtype == _E8M0:
        return _distinct(np.array([*positive[positive > 0], np.nan]).astype(dtype))
    with np.errstate(invalid="ignore"):  # Not every type has infinities: they become NaN.
        special = np.array([np.inf, -np.inf, np.nan, -np.nan]).astype(dtype)
    return _distinct(np.concatenate([positive.astype(dtype), (-positive).astype(dtype), special]))


def _integer_edges(dtype: np.dtype) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype)
    powers = [2**k for k in (3, 4, 7, 8, 11, 15, 16, 24, 31, 32, 53, 62, 63)]
    values = {0, 1, 2, 3, 5, 7, 10, 100, *powers}
    values |= {power + step for power in powers for step in (-1, 1)}
    values |= {-value for value in values} | {info.min, info.min + 1, info.max - 1, info.max}
    return np.array([value for value in sorted(values) if info.min <= value <= info.max], dtype)


def _complex_edges(dtype: np.dtype) -> np.ndarray:
    part = np.dtype(f"f{dtype.itemsize // 2}")
    info = ml_dtypes.finfo(part)
    tiny, small = float(info.smallest_subnormal), float(info.smallest_normal)
    parts = np.array(
        [0, -0.0, 1, -1, 0.5, -3, np.pi, small, tiny, info.max, -info.max, np.inf, -np.inf, np.nan],
        part,
    )
    result = np.empty(len(parts) ** 2, dtype)
    result.real, result.imag = np.repeat(parts, len(parts)), np.tile(parts, len(parts))
    return result
