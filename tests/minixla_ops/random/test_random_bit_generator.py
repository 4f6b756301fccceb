"""RngBitGenerator, the operation: bit for bit as XLA runs it."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from minixla.core.shapes import Shape
from minixla_ops.random.random_bit_generator import RngBitGenerator
from tests.harness import check_batching, check_operation, check_rejected, graph_of
from tests.oracles import run_xla

STATES = {
    "three_fry": ("rng_three_fry", [2**63 + 5, 2**64 - 1]),
    "philox": ("rng_philox", [7, 2**64 - 1, 9]),
    "philox, short state": ("rng_philox", [7, 11]),
    "default": ("rng_default", [1, 2, 3]),
    "default, short state": ("rng_default", [1, 2]),
}
TYPES = [
    "u2", "u4", "u8", "u16", "u32", "u64", "s2", "s4", "s8", "s16", "s32", "s64",
    "f4e2m1fn", "f8e5m2", "f8e4m3fn", "bf16", "f16", "f32", "f64",
]  # fmt: skip


def generator(case, *shapes):
    """The states and data for some shapes, each from the same initial state."""
    algorithm, _ = STATES[case]
    return lambda state: [ops.rng_bit_generator(algorithm, state, each) for each in shapes]


def state_of(case):
    return np.array(STATES[case][1], np.uint64)


# StableHLO's interpreter does not implement rng_bit_generator: it aborts.
@pytest.mark.parametrize("case", STATES)
def test_bits_are_those_of_xla(case):
    shapes = [Shape(kind, (3, 5)) for kind in TYPES]
    graph = graph_of(generator(case, *shapes), [state_of(case)])
    expected = run_xla(graph.stablehlo(), [state_of(case)])
    results = jax.tree.leaves(
        [RngBitGenerator(STATES[case][0], shape).reference(state_of(case)) for shape in shapes]
    )
    for result, other, shape in zip(results, expected, graph.output_shapes, strict=True):
        assert result.dtype == other.dtype
        assert result.dtype == shape.dtype  # type: ignore[union-attr]  # all are arrays
        # Bits, not values: among floats there are NaNs.
        assert result.tobytes() == other.tobytes(), shape


@pytest.mark.parametrize("dimensions", [(), (1,), (7,), (2, 1, 3, 4), (0,), (3, 0), (2, 2)])
def test_dimensions(dimensions):
    for case in ("three_fry", "philox"):
        shapes = [Shape(kind, dimensions) for kind in ("u8", "u32", "u64")]
        check_operation(generator(case, *shapes), [state_of(case)], interpreter=False)


def test_as_the_engine_runs_it():
    state = state_of("philox")
    with jax.enable_x64(True):
        new_state, data = ops.rng_bit_generator("rng_philox", state, Shape("s8", (6,)))
    expected = RngBitGenerator("rng_philox", Shape("s8", (6,))).reference(state)
    np.testing.assert_array_equal(new_state, expected[0])
    np.testing.assert_array_equal(data, expected[1])


def test_jax_draws_the_same_bits():
    with jax.enable_x64(True):
        key = jax.numpy.array([1, 2, 3, 4], np.uint32)
        algorithm = jax.lax.RandomAlgorithm.RNG_THREE_FRY
        new_key, bits = jax.lax.rng_bit_generator(key, (5,), np.uint32, algorithm)
        state = np.asarray(key).view(np.uint64)
        new_state, data = ops.rng_bit_generator("rng_three_fry", state, Shape("u32", (5,)))
    np.testing.assert_array_equal(np.asarray(new_state).view(np.uint32), new_key)
    np.testing.assert_array_equal(data, bits)


def test_without_64_bit_mode():
    def draw(words):
        state, data = ops.rng_bit_generator(
            "rng_three_fry", ops.bitcast_convert_type(words, "u64"), Shape("u32", (3,))
        )
        return ops.bitcast_convert_type(state, "u32"), data

    words = np.array([[1, 2], [3, 4]], np.uint32)
    state = words.view(np.uint64).ravel()
    _, expected = RngBitGenerator("rng_three_fry", Shape("u32", (3,))).reference(state)
    with jax.enable_x64(False):
        new_words, data = mx.jit(draw)(words)
    assert new_words.tolist() == [[1, 2], [5, 4]]
    np.testing.assert_array_equal(data, expected)


def test_fact_results_are_the_state_and_the_data():
    graph = graph_of(generator("philox", Shape("u16", (4, 2))), [state_of("philox")])
    assert list(map(str, graph.output_shapes)) == ["u64[3]", "u16[4,2]"]


def test_fact_equal_states_give_equal_bits_and_the_new_state_gives_others():
    def twice(state):
        state, first = ops.rng_bit_generator("rng_three_fry", state, Shape("u32", (8,)))
        return first, ops.rng_bit_generator("rng_three_fry", state, Shape("u32", (8,)))[1]

    with jax.enable_x64(True):
        first, second = mx.reference(twice)(state_of("three_fry"))
        again, _ = mx.reference(twice)(state_of("three_fry"))
    np.testing.assert_array_equal(first, again)
    assert not (first == second).any()


def test_fact_bits_are_uniform():
    _, data = RngBitGenerator("rng_philox", Shape("u32", (100_000,))).reference(state_of("philox"))
    # The number of ones in each position is binomial: 5 standard deviations.
    ones = np.unpackbits(data.view(np.uint8)).reshape(-1, 32).sum(0, dtype=int)
    assert (np.abs(ones - 50_000) < 5 * np.sqrt(25_000)).all()


@pytest.mark.parametrize(
    "kind, expected", [("u32", []), ("f32", ["bitcast_convert"]), ("s4", ["bitcast_convert"])]
)
def test_types_other_than_unsigned_are_bitcast(kind, expected):
    # XLA would return the unsigned type, whatever the module declares.
    text = graph_of(generator("philox", Shape(kind, (4,))), [state_of("philox")]).stablehlo()
    assert "#stablehlo<rng_algorithm PHILOX>" in text
    assert [name for name in ("bitcast_convert",) if name in text] == expected


@pytest.mark.parametrize("kind", ["u32", "f32"])
def test_hlo_text_is_read_by_xla_and_runs_to_the_same_bits(kind):
    state = state_of("three_fry")
    graph = graph_of(generator("three_fry", Shape(kind, (4,))), [state])
    assert "algorithm=rng_three_fry" in str(graph)
    proto = _hlo.hlo_module_from_text(str(graph)).as_serialized_hlo_module_proto()
    module = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))
    for one, other in zip(
        run_xla(module, [state]), run_xla(graph.stablehlo(), [state]), strict=True
    ):
        assert one.tobytes() == other.tobytes()


REJECTED = {
    "three_fry": ("rng_three_fry", (3,), np.uint64, ShapeError, "(C1)", "u64[2]"),
    "philox": ("rng_philox", (4,), np.uint64, ShapeError, "(C1)", "u64[2] or u64[3]"),
    "rank": ("rng_philox", (1, 3), np.uint64, ShapeError, "(C1)", "initial_state u64[1,3]"),
    "type": ("rng_default", (2,), np.uint32, ShapeError, "(C1)", "initial_state u32[2]"),
    "algorithm": ("philox", (2,), np.uint64, AttributeValueError, "rng_three_fry", "'philox'"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    algorithm, sizes, dtype, error, *phrases = REJECTED[case]
    check_rejected(
        lambda state: ops.rng_bit_generator(algorithm, state, Shape("u8", (2,))),
        [np.zeros(sizes, dtype)],
        error,
        "rng_bit_generator",
        *phrases,
    )


@pytest.mark.parametrize(
    "shape", [Shape("pred", (2,)), Shape("c64", (2,)), Shape("f6e2m3fn", (2,)), mx.TupleShape([])]
)
def test_rejects_types_without_random_bits(shape):
    check_rejected(
        lambda state: ops.rng_bit_generator("rng_philox", state, shape),
        [state_of("philox")],
        AttributeValueError,
        "(C2)",
        f"random bits are not supported for {shape}",
    )


def test_data_have_no_tangent():
    def function(x):
        _, data = ops.rng_bit_generator("rng_philox", state_of("philox"), Shape("f32", (2,)))
        return data + x

    def noise(x):
        state = ops.bitcast_convert_type(x, "u64")
        return ops.rng_bit_generator("rng_philox", state, Shape("f32", (2,)))[1]

    with jax.enable_x64(True):
        _, of_noise = mx.jvp(noise, (np.ones(3),), (np.ones(3),))
        _, of_sum = mx.jvp(function, (np.ones(2),), (np.ones(2),))
        assert (
            mx.grad(lambda x: ops.reshape(ops.slice(noise(x), [0], [1]), ()))(np.ones(3)).tolist()
            == [0] * 3
        )
    assert of_noise.tolist() == [0, 0]
    assert of_sum.tolist() == [1, 1]


@pytest.mark.parametrize("case", STATES)
def test_batching(case):
    shapes = [("u16", (2, 3)), ("u64", (3,)), ("s8", (5,)), ("f32", ()), ("u4", (0, 2))]
    check_batching(generator(case, *(Shape(*each) for each in shapes)), [state_of(case)])


@pytest.mark.parametrize("case", ["three_fry", "philox"])
def test_a_batch_is_a_program_of_elementwise_operations(case):
    states = np.tile(state_of(case), (100, 1))
    graph = graph_of(mx.vmap(generator(case, Shape("u32", (4,)))), [states])
    names = {each.op.name for each in graph.instructions}
    assert "RngBitGenerator" not in names
    assert len(graph.instructions) < 300


def test_batches_of_sizes_0_and_1():
    check_batching(generator("three_fry", Shape("u32", (3,))), [state_of("three_fry")], size=1)
    with jax.enable_x64(True):
        mapped = mx.vmap(generator("philox", Shape("u32", (3,))))
        ((states, data),) = mx.reference(mapped)(np.zeros((0, 3), np.uint64))
    assert states.shape == (0, 3)
    assert data.shape == (0, 3)
