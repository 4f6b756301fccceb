"""Counter-based random bits in NumPy, bit for bit as XLA and `jax.random` make them.

Two block ciphers, Threefry-2x32-20 and Philox-4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel
random numbers: as easy as 1, 2, 3", SC 2011); on them the algorithms of XLA's RngBitGenerator,
which say how elements are counted and words laid out; and the key arithmetic of `jax.random`
under its default, jax_threefry_partitionable. RngBitGenerator, the operation, does not live here.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Words = tuple[npt.ArrayLike, ...]

_THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_THREEFRY_PARITY = 0x1BD11BDA
_PHILOX_ROUNDS = 10
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
WORD_BITS = np.uint64(32)

# Elements narrower than the byte that holds each of them in NumPy, by the names of ml_dtypes.
SUB_BYTE_WIDTHS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}


def threefry_rounds(key: Sequence[Any], counter: Sequence[Any]) -> tuple[Any, Any]:
    """Threefry-2x32-20 of u32 words: of arrays, of NumPy's or such as a program computes with."""
    keys = (*key, key[0] ^ key[1] ^ _THREEFRY_PARITY)
    left, right = (word + step for word, step in zip(counter, key, strict=True))
    for group in range(5):
        for distance in _THREEFRY_ROTATIONS[group % 2]:
            left += right
            right = right << distance | right >> (32 - distance)
            right ^= left
        left += keys[(group + 1) % 3]
        right += keys[(group + 2) % 3]
        right += group + 1
    return left, right


def philox_rounds(
    key: Sequence[Any], counter: Sequence[Any], low: Callable[[Any], Any]
) -> list[Any]:
    """Philox-4x32-10 of words in 64 bits, where the product of two fits; `low` drops the others."""
    x0, x1, x2, x3 = counter
    keys = list(key)
    for _ in range(_PHILOX_ROUNDS):
        product_0, product_1 = x0 * _PHILOX_MULTIPLIERS[0], x2 * _PHILOX_MULTIPLIERS[1]
        x0 = (product_1 >> 32) ^ x1 ^ keys[0]
        x2 = (product_0 >> 32) ^ x3 ^ keys[1]
        x1, x3 = low(product_1), low(product_0)
        keys = [low(word + step) for word, step in zip(keys, _PHILOX_KEY_STEPS, strict=True)]
    return [x0, x1, x2, x3]


def threefry2x32(key: Words, counter: Words) -> tuple[U32, U32]:
    """The block cipher Threefry-2x32-20, element by element.

    `key` and `counter` are two u32 words each, of shapes that broadcast together; the result is
    two u32 words of the broadcast shape. Of a 64-bit key or counter XLA passes the low word first,
    `jax.random` the high word.
    """
    words = np.broadcast_arrays(*[np.asarray(word, np.uint32) for word in (*key, *counter)])
    with np.errstate(over="ignore"):
        left, right = threefry_rounds(words[:2], words[2:])
    return np.asarray(left), np.asarray(right)


def philox4x32(key: Words, counter: Words) -> tuple[U32, ...]:
    """The block cipher Philox-4x32-10, element by element.

    `key` is two u32 words and `counter` four, of shapes that broadcast together; the result is
    four u32 words of the broadcast shape.
    """
    words = [np.asarray(word, np.uint32).astype(np.uint64) for word in (*key, *counter)]
    with np.errstate(over="ignore"):
        found = philox_rounds(words[:2], words[2:], lambda word: word & np.uint64(2**32 - 1))
    return tuple(np.asarray(word, np.uint32) for word in np.broadcast_arrays(*found))


def threefry_bits(
    state: U64, dtype: npt.DTypeLike, dimensions: tuple[int, ...]
) -> tuple[U64, np.ndarray]:
    """RngBitGenerator with RNG_THREE_FRY.

    Args:
        state: u64[2], the key and the counter.
        dtype: an integer of 2, 4, 8, 16, 32 or 64 bits or a float of 4, 8, 16, 32 or 64 bits. A
            signed integer or a float holds the bits of the unsigned integer of its width.
        dimensions: of the result, possibly none or with zeros.

    Returns:
        The new state, and an array of `dtype` and `dimensions`.

    Raises:
        TypeError: no random bits are made for `dtype`.
        ValueError: `state` is not u64[2].

    Source: XLA's prng.cc, ThreeFryBitGenerator.
    """
    key, counter = _key_and_counter(state, "RNG_THREE_FRY", (2,))
    dtype = np.dtype(dtype)
    if _bit_width(dtype) == 64:
        words = threefry2x32(_low_high(key), _low_high(_count(counter, dimensions)))
        return _advanced(state, math.prod(dimensions)), _elements(_join(*words), dtype, dimensions)
    # A block's two words become neighbours along one dimension, which is cut if its size is odd.
    sizes = dimensions or (1,)
    axis = paired_dimension(sizes)
    before, size, after = sizes[:axis], sizes[axis], sizes[axis + 1 :]
    blocks = (*before, (size + 1) // 2, *after)
    pairs = threefry2x32(_low_high(key), _low_high(_count(counter, blocks)))
    words = np.stack(pairs, axis + 1).reshape(*before, 2 * blocks[axis], *after)
    words = words[(slice(None),) * axis + (slice(size),)]
    return _advanced(state, math.prod(blocks)), _elements(words, dtype, dimensions)


def philox_bits(
    state: U64, dtype: npt.DTypeLike, dimensions: tuple[int, ...]
) -> tuple[U64, np.ndarray]:
    """RngBitGenerator with RNG_PHILOX.

    Args:
        state: u64[3], the key, the low and the high half of a 128-bit counter; or u64[2], the key
            and the low half, where the key is the high half too and the carry into it is lost.
        dtype: as for `threefry_bits`.
        dimensions: of the result, possibly none or with zeros.

    Returns:
        The new state, of the size of `state`, and an array of `dtype` and `dimensions`.

    Raises:
        TypeError: no random bits are made for `dtype`.
        ValueError: `state` is neither u64[2] nor u64[3].

    Source: XLA's prng.cc, PhiloxBitGenerator.
    """
    key, counter = _key_and_counter(state, "RNG_PHILOX", (2, 3))
    dtype = np.dtype(dtype)
    size = math.prod(dimensions)
    is_wide = _bit_width(dtype) == 64
    block_count = -(-size // (2 if is_wide else 4))
    low, high = counter[:1], counter[1:] if counter.size == 2 else key
    lows, highs = _add_to_128(low, high, np.arange(block_count, dtype=np.uint64))
    words = philox4x32(_low_high(key), _low_high(lows) + _low_high(highs))
    if is_wide:
        words = (_join(*words[:2]), _join(*words[2:]))
    new_counter = np.concatenate(_add_to_128(low, high, np.array([block_count], np.uint64)))
    new_state = np.concatenate([key, new_counter])[: state.size]
    return new_state, _elements(np.stack(words, 1).ravel()[:size], dtype, dimensions)


def default_bits(
    state: U64, dtype: npt.DTypeLike, dimensions: tuple[int, ...]
) -> tuple[U64, np.ndarray]:
    """RngBitGenerator with RNG_DEFAULT, which is RNG_PHILOX on CPU: see `philox_bits`."""
    return philox_bits(state, dtype, dimensions)


def threefry_2x32(keypair: Words, counts: npt.ArrayLike) -> U32:
    """Threefry of an array: its first half, in row-major order, is paired with its second.

    `keypair` is two u32 scalars; `counts` is u32 of any shape, with a zero added where its size is
    odd; the result is u32 of the same shape. Source: jax.extend.random.threefry_2x32.
    """
    counts = np.asarray(counts, np.uint32)
    padded = np.append(counts, np.zeros(counts.size % 2, np.uint32))
    words = np.concatenate(threefry2x32(keypair, tuple(np.split(padded, 2))))
    return words[: counts.size].reshape(counts.shape)


def threefry_random_bits(
    key: U32, dtype: npt.DTypeLike, dimensions: tuple[int, ...]
) -> npt.NDArray[np.unsignedinteger]:
    """jax.random.bits of a raw threefry key, u32[2], and an unsigned type of 8 to 64 bits."""
    high, low = threefry2x32((key[0], key[1]), _high_low_indices(dimensions))
    bits = _join(low, high) if np.dtype(dtype).itemsize == 8 else high ^ low
    return np.asarray(bits, dtype)


def threefry_split(key: U32, dimensions: tuple[int, ...]) -> U32:
    """jax.random.split of a raw threefry key, u32[2], into keys u32[*dimensions, 2]."""
    return np.stack(threefry2x32((key[0], key[1]), _high_low_indices(dimensions)), -1)


def threefry_fold_in(key: U32, data: int | np.integer) -> U32:
    """jax.random.fold_in of a raw threefry key, u32[2], and an integer that fits into u32."""
    return threefry_2x32((key[0], key[1]), np.array([0, data], np.uint32))


def _key_and_counter(state: U64, algorithm: str, sizes: tuple[int, ...]) -> tuple[U64, U64]:
    if state.dtype != np.uint64 or state.ndim != 1 or state.size not in sizes:
        wanted = " or ".join(f"u64[{size}]" for size in sizes)
        given = f"{state.dtype}{list(state.shape)}"
        raise ValueError(f"rng_bit_generator: {algorithm} needs a state {wanted}, not {given}.")
    return state[:1], state[1:]


def _bit_width(dtype: np.dtype) -> int:
    """Width of an element; TypeError for pred, complex, 6-bit floats and what XLA has not."""
    # Most types of ml_dtypes have the kind of void, but a name of their own.
    if dtype.kind not in "iufV" or dtype.name.startswith(("void", "float6_")) or dtype.itemsize > 8:
        raise TypeError(f"rng_bit_generator: no random bits are made for {dtype.name}.")
    return SUB_BYTE_WIDTHS.get(dtype.name, 8 * dtype.itemsize)


def _elements(words: np.ndarray, dtype: np.dtype, dimensions: tuple[int, ...]) -> np.ndarray:
    """The low bits of each word as an element of `dtype`."""
    bits = words & (2 ** _bit_width(dtype) - 1)
    return bits.astype(f"u{dtype.itemsize}").view(dtype).reshape(dimensions)


def _low_high(values: U64) -> tuple[U32, U32]:
    return values.astype(np.uint32), (values >> WORD_BITS).astype(np.uint32)


def _join(low: U32, high: U32) -> U64:
    return low | (high.astype(np.uint64) << WORD_BITS)


def _count(start: U64, dimensions: tuple[int, ...]) -> U64:
    """Array of start, start + 1, ... modulo 2**64, in row-major order."""
    return (start + np.arange(math.prod(dimensions), dtype=np.uint64)).reshape(dimensions)


def _high_low_indices(dimensions: tuple[int, ...]) -> tuple[U32, U32]:
    low, high = _low_high(_count(np.zeros(1, np.uint64), dimensions))
    return high, low


def _add_to_128(low: U64, high: U64, amount: U64) -> tuple[U64, U64]:
    total = low + amount
    return total, high + (total < amount)


def _advanced(state: U64, block_count: int) -> U64:
    return state + np.array([0, block_count], np.uint64)


def paired_dimension(sizes: tuple[int, ...]) -> int:
    """The first dimension of even size; where there is none, the first of the largest size."""
    even = (axis for axis, size in enumerate(sizes) if size % 2 == 0)
    return next(even, sizes.index(max(sizes)))
