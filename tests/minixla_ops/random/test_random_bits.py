"""The ciphers of RngBitGenerator and its reference: against XLA, `jax.random`, known answers."""

import functools
import itertools
import math

import jax
import ml_dtypes
import numpy as np
import pytest
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.mlir.dialects import stablehlo
from jax.extend.random import threefry_2x32 as jax_threefry_2x32
from jax.interpreters import mlir

from minixla.core.shapes import Shape
from minixla_ops.random.random_bit_generator import (
    RngBitGenerator,
    philox_rounds,
    threefry_rounds,
)
from tests.harness import QUICKLY
from tests.selection import diagonal

# NumPy warns where the arithmetic of scalars, unlike that of arrays, wraps around.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

UNSIGNED = {
    2: np.dtype(ml_dtypes.uint2),
    4: np.dtype(ml_dtypes.uint4),
    **{width: np.dtype(f"uint{width}") for width in (8, 16, 32, 64)},
}
# Signed integers and floats by the width of the unsigned type whose bits they hold.
SAME_BITS = {
    2: [ml_dtypes.int2],
    4: [ml_dtypes.int4, ml_dtypes.float4_e2m1fn],
    8: [
        np.int8,
        ml_dtypes.float8_e3m4,
        ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
    ],
    16: [np.int16, np.float16, ml_dtypes.bfloat16],
    32: [np.int32, np.float32],
    64: [np.int64, np.float64],
}

FEW_DIMENSIONS = [(), (0,), (7,), (4, 3), (3, 5)]
MANY_DIMENSIONS = [
    *FEW_DIMENSIONS,
    (1,),
    (2,),
    (1, 1),
    (3, 0),
    (0, 5),
    (3, 4),
    (5, 3),
    (5, 5),
    (1, 7, 1),
    (3, 1, 6),
    (2, 3, 5, 7),
    (10_007,),
    (301, 401),
]

MAX_U32, MAX_U64 = 2**32 - 1, 2**64 - 1
# Key, low and high half of the counter; an algorithm with a shorter state takes its head.
STATES = [
    (0, 0, 0),
    (1, 2, 3),
    (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0),
    (MAX_U32, MAX_U32, MAX_U32),
    (2**32, MAX_U32 - 5, MAX_U64),
    (MAX_U64, MAX_U64, 0),
    (MAX_U64 - 1, MAX_U64 - 2, MAX_U64),
    (7, MAX_U64 - 40, MAX_U32),
]

#: An algorithm and the size of its state.
STATE_SIZES = [("THREE_FRY", 2), ("PHILOX", 3)]

generate_p = Primitive("rng_bit_generator")
generate_p.multiple_results = True


@generate_p.def_abstract_eval
def _(state, *, algorithm, dtype, dimensions):
    return [ShapedArray(state.shape, state.dtype), ShapedArray(dimensions, dtype)]


def generate_lowering(context, state, *, algorithm, dtype, dimensions):
    module = context.module_context
    result_types = [mlir.aval_to_ir_type(module, aval) for aval in context.avals_out]
    attribute = stablehlo.RngAlgorithmAttr.get(algorithm)
    return stablehlo.RngBitGeneratorOp(*result_types, attribute, state).results


mlir.register_lowering(generate_p, generate_lowering)


def xla_results(algorithm, dtypes, all_dimensions, states):
    """For each state, what XLA gives for all dimensions and dtypes: a new state and an array.

    The dtypes are of one width, the first is unsigned.
    """

    def program(state):
        results = []
        for dimensions in all_dimensions:
            new_state, bits = generate_p.bind(
                state, algorithm=algorithm, dtype=dtypes[0], dimensions=dimensions
            )
            # XLA would return unsigned bits whatever type the operation asked for.
            results += [(new_state, jax.lax.bitcast_convert_type(bits, d)) for d in dtypes]
        return results

    with jax.enable_x64(True):
        compiled = jax.jit(program, compiler_options=QUICKLY)
        return [jax.tree.map(np.asarray, compiled(state)) for state in states]


def assert_same(ours, theirs, case=""):
    assert isinstance(ours, np.ndarray), case
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), case
    assert ours.tobytes() == theirs.tobytes(), case


def check_against_xla(algorithm, state_size, dtypes, all_dimensions):
    states = [np.array(state[:state_size], np.uint64) for state in STATES]
    expected = xla_results(algorithm, dtypes, all_dimensions, states)
    cases = list(itertools.product(all_dimensions, dtypes))
    for state, results in zip(states, expected, strict=True):
        for (dimensions, dtype), (new_state, values) in zip(cases, results, strict=True):
            case = f"{dtype.name}{dimensions} of state {state}"
            operation = RngBitGenerator(f"rng_{algorithm.lower()}", Shape(dtype, dimensions))
            our_state, our_values = operation.reference(state)
            assert_same(our_state, new_state, case)
            assert_same(our_values, values, case)


@pytest.mark.parametrize(("state", "width"), diagonal(STATE_SIZES, [*UNSIGNED]))
def test_bits_of_every_type(state, width):
    algorithm, state_size = state
    dtypes = [UNSIGNED[width], *map(np.dtype, SAME_BITS[width])]
    check_against_xla(algorithm, state_size, dtypes, FEW_DIMENSIONS)


@pytest.mark.parametrize(("state", "width"), diagonal(STATE_SIZES, [32, 64]))
def test_bits_of_many_shapes(state, width):
    check_against_xla(*state, [UNSIGNED[width]], MANY_DIMENSIONS)


@pytest.mark.parametrize(
    ("state", "width"), diagonal([("PHILOX", 2), ("DEFAULT", 2), ("DEFAULT", 3)], [32, 64])
)
def test_bits_of_other_states(state, width):
    check_against_xla(*state, [UNSIGNED[width]], FEW_DIMENSIONS)


def test_the_state_is_left_as_it_was():
    state = np.array([5, 6, 7], np.uint64)
    RngBitGenerator("rng_philox", Shape("u32", (9,))).reference(state)
    RngBitGenerator("rng_three_fry", Shape("u32", (9,))).reference(state[:2])
    assert state.tolist() == [5, 6, 7]


def threefry2x32(key, counter):
    with np.errstate(over="ignore"):
        return threefry_rounds(np.asarray(key, np.uint32), np.asarray(counter, np.uint32))


def philox4x32(key, counter):
    words = philox_rounds(np.asarray(key, np.uint64), np.asarray(counter, np.uint64))
    return np.asarray(words, np.uint32)


# Known answers of Random123 (kat_vectors): counter, key, result; the third from the digits of pi.
THREEFRY_ANSWERS = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((MAX_U32, MAX_U32), (MAX_U32, MAX_U32), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]
PHILOX_ANSWERS = [
    ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((MAX_U32,) * 4, (MAX_U32, MAX_U32), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(
    ("cipher", "answers"), [(threefry2x32, THREEFRY_ANSWERS), (philox4x32, PHILOX_ANSWERS)]
)
def test_ciphers_give_the_published_answers(cipher, answers):
    counters, keys, results = (np.array(part, np.uint32) for part in zip(*answers, strict=True))
    assert_same(np.stack(cipher(tuple(keys.T), tuple(counters.T)), 1), results)


# The key arithmetic of `jax.random` under its default, jax_threefry_partitionable.


def threefry_2x32(keypair, counts):
    """An array's first half, in row-major order, is paired with its second."""
    padded = np.append(counts, np.zeros(counts.size % 2, np.uint32))
    words = np.concatenate(threefry2x32(keypair, np.split(padded, 2)))
    return words[: counts.size].reshape(counts.shape)


def high_and_low(key, dimensions):
    indices = np.arange(math.prod(dimensions), dtype=np.uint64).reshape(dimensions)
    return threefry2x32(key, (indices >> np.uint64(32), indices & np.uint64(MAX_U32)))


def threefry_random_bits(key, dtype, dimensions):
    high, low = high_and_low(key, dimensions)
    wide = low | high.astype(np.uint64) << np.uint64(32)
    return np.asarray(wide if np.dtype(dtype).itemsize == 8 else high ^ low).astype(dtype)


JAX_SEEDS = [0, 42, MAX_U32, 2**63 - 1]


def key_and_words(seed):
    key = jax.random.key(seed, impl="threefry2x32")
    return key, np.asarray(jax.random.key_data(key))


@functools.cache
def bits_by_jax(dtype):
    return jax.jit(
        lambda key: [jax.random.bits(key, dimensions, dtype) for dimensions in FEW_DIMENSIONS],
        compiler_options=QUICKLY,
    )


SPLITS = [(1,), (2,), (5,), (3, 4), (2, 0)]
NUMBERS = [0, 1, 2**31, MAX_U32]


@functools.partial(jax.jit, compiler_options=QUICKLY)
def keys_by_jax(key, numbers):
    split = [jax.random.key_data(jax.random.split(key, dimensions)) for dimensions in SPLITS]
    return split, [jax.random.key_data(jax.random.fold_in(key, number)) for number in numbers]


@pytest.mark.parametrize("seed", JAX_SEEDS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_random_bits_are_those_of_jax_random(seed, dtype):
    with jax.enable_x64(True), jax.threefry_partitionable(True):
        key, words = key_and_words(seed)
        for dimensions, expected in zip(FEW_DIMENSIONS, bits_by_jax(dtype)(key), strict=True):
            ours = threefry_random_bits(words, dtype, dimensions)
            assert_same(ours, np.asarray(expected), dimensions)


@pytest.mark.parametrize("seed", JAX_SEEDS)
def test_keys_are_those_of_jax_random(seed):
    with jax.enable_x64(True), jax.threefry_partitionable(True):
        key, words = key_and_words(seed)
        split, folded = keys_by_jax(key, np.array(NUMBERS, np.uint32))
        for dimensions, expected in zip(SPLITS, split, strict=True):
            assert_same(
                np.stack(high_and_low(words, dimensions), -1), np.asarray(expected), dimensions
            )
        for data, expected in zip(NUMBERS, folded, strict=True):
            assert_same(
                threefry_2x32(words, np.array([0, data], np.uint32)), np.asarray(expected), data
            )


@pytest.mark.parametrize("dimensions", FEW_DIMENSIONS)
def test_threefry_of_an_array_is_that_of_jax(dimensions):
    counts = np.random.default_rng(0).integers(0, 2**32, dimensions, np.uint32, endpoint=False)
    counts = np.asarray(counts, np.uint32)
    key = (np.uint32(0x13198A2E), np.uint32(MAX_U32))
    expected = np.asarray(jax_threefry_2x32(key, jax.numpy.asarray(counts)))
    assert_same(threefry_2x32(key, counts), expected)
