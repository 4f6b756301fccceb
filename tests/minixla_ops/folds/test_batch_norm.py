"""BatchNormTraining, BatchNormInference, BatchNormGrad: against formulas, XLA's own, and JAX."""

from __future__ import annotations

import functools
import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from tests.harness import (
    by_jax,
    check_batching,
    check_derivatives,
    check_rejected,
    graph_of,
    results_together,
    unwrapped,
)
from tests.oracles import run_stablehlo, run_xla

EPSILON = float(np.float32(1e-3))
# Shape and feature_index: ranks 1 to 5, the feature dimension in every position.
SHAPES = {
    "rank 1": ((5,), 0),
    "rank 2, first": ((3, 4), 0),
    "rank 2, last": ((4, 3), 1),
    "rank 3, middle": ((2, 3, 4), 1),
    "rank 4, channels last": ((2, 3, 2, 3), 3),
    "rank 4, channels first": ((2, 3, 2, 2), 1),
    "rank 5": ((2, 2, 1, 3, 2), 3),
    "one feature": ((4, 1), 1),
}


def columns(vector, rank, at):
    return vector.reshape([-1 if each == at else 1 for each in range(rank)])


def training(x, scale, offset, epsilon, at, library=np):
    """As the specification has it, in any library."""
    others = tuple(each for each in range(x.ndim) if each != at)
    mean = x.mean(others)
    variance = library.square(x - columns(mean, x.ndim, at)).mean(others)
    y = inference(x, scale, offset, mean, variance, epsilon, at, library)
    return y, mean, variance


def inference(x, scale, offset, mean, variance, epsilon, at, library=np):
    scale, offset, mean, variance = (
        columns(v, x.ndim, at) for v in (scale, offset, mean, variance)
    )
    return scale * (x - mean) / library.sqrt(variance + epsilon) + offset


def gradient(x, scale, mean, variance, g, epsilon, at, library=np):
    others = tuple(each for each in range(x.ndim) if each != at)
    scale, mean, variance = (columns(v, x.ndim, at) for v in (scale, mean, variance))
    centered, shifted = x - mean, variance + epsilon
    c = (g * centered / shifted).mean(others, keepdims=True)
    d = g.mean(others, keepdims=True)
    grad_x = scale / library.sqrt(shifted) * (g - d - c * centered)
    return grad_x, (g * centered / library.sqrt(shifted)).sum(others), g.sum(others)


def operands_of(name, shape, at, dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    x, g = (generator.standard_normal(shape).astype(dtype) for _ in range(2))
    scale, offset, mean = (generator.standard_normal(shape[at]).astype(dtype) for _ in range(3))
    variance = generator.uniform(0.5, 2, shape[at]).astype(dtype)
    return {
        "training": [x, scale, offset],
        "inference": [x, scale, offset, mean, variance],
        "grad": [x, scale, mean, variance, g],
    }[name]


BUILDERS = {
    "training": ops.batch_norm_training,
    "inference": ops.batch_norm_inference,
    "grad": ops.batch_norm_grad,
}
FORMULAS = {"training": training, "inference": inference, "grad": gradient}


def builder(name, at, epsilon=EPSILON):
    return lambda *xs: BUILDERS[name](*xs, epsilon, at)


def formula(name, at, library=np):
    return lambda *xs: FORMULAS[name](*xs, EPSILON, at, library)


def reference(function, *operands):
    with jax.enable_x64(True):
        results = mx.reference(lambda *xs: tuple(jax.tree.leaves(function(*xs))))(*operands)
    return [np.asarray(each) for each in results]


def assert_close(actual, expected, dtype):
    """Within a few roundings in the type that computes, and one in the operands' own."""
    own = float(ml_dtypes.finfo(dtype).eps)
    summing = min(own, float(np.finfo(np.float32).eps))
    for one, other in zip(actual, jax.tree.leaves(expected), strict=True):
        assert one.dtype == dtype
        assert one.shape == other.shape
        largest = np.abs(other).max(initial=0)
        error = np.abs(one.astype(np.float64) - other)
        assert (error <= own * np.abs(other) + 16 * summing * largest).all()


TYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e5m2": ml_dtypes.float8_e5m2,
}
EMPTY = [((0, 2), 1), ((3, 0), 1), ((0,), 0), ((2, 0, 3), 2)]
ROWS = {
    "shapes": {
        (name, case): (builder(name, at), operands_of(name, shape, at))
        for name in BUILDERS
        for case, (shape, at) in SHAPES.items()
    },
    "types": {
        (name, kind): (builder(name, 1), operands_of(name, (4, 3, 2), 1, dtype))
        for name in BUILDERS
        for kind, dtype in TYPES.items()
    },
    "empty": {
        (name, shape): (builder(name, at), operands_of(name, shape, at, np.float32))
        for name in BUILDERS
        for shape, at in EMPTY
    },
}


@functools.cache
def by_oracle(run, table):
    """What an oracle gives for each row of a table."""
    return results_together(run, ROWS[table])


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("case", SHAPES)
def test_formula_in_reference_and_xla(name, case):
    function, operands = ROWS["shapes"][name, case]
    expected = FORMULAS[name](*operands, EPSILON, SHAPES[case][1])
    assert_close(reference(function, *operands), expected, np.float64)
    assert_close(unwrapped(by_oracle(run_xla, "shapes")[name, case]), expected, np.float64)


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("kind", TYPES)
def test_element_types(name, kind):
    function, operands = ROWS["types"][name, kind]
    expected = FORMULAS[name](*(each.astype(np.float64) for each in operands), EPSILON, 1)
    assert_close(reference(function, *operands), expected, TYPES[kind])
    for run in (run_xla, run_stablehlo):
        assert_close(unwrapped(by_oracle(run, "types")[name, kind]), expected, TYPES[kind])


@pytest.mark.parametrize("name", BUILDERS)
def test_xla_runs_its_own_operation_to_the_same_results(name):
    operands = operands_of(name, (4, 3, 2), 1, np.float32)
    text = str(graph_of(builder(name, 1), operands))
    assert f"batch-norm-{name}(" in text
    assert "epsilon=0.001" in text
    assert "feature_index=1" in text
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    module = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))
    assert_close(run_xla(module, operands), reference(builder(name, 1), *operands), np.float32)


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("shape, at", EMPTY)
def test_size_0(name, shape, at):
    function, operands = ROWS["empty"][name, shape]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing
        expected = jax.tree.leaves(FORMULAS[name](*operands, EPSILON, at))
    by_xla = unwrapped(by_oracle(run_xla, "empty")[name, shape])
    for results in (reference(function, *operands), by_xla):
        for result, other in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, other)


def test_training_gives_a_tuple():
    results = ops.batch_norm_training(jnp.ones((2, 3)), jnp.ones(3), jnp.ones(3), 0.1, 1)
    assert type(results) is tuple
    assert [each.shape for each in results] == [(2, 3), (3,), (3,)]


def test_fact_variance_divides_by_the_number_of_elements():
    x = np.array([[1, 1], [3, 5]], np.float32)
    _, mean, variance = reference(builder("training", 1), x, np.ones(2, "f4"), np.zeros(2, "f4"))
    assert mean.tolist() == [2, 3]
    assert variance.tolist() == [1, 4]


def test_fact_inference_is_training_with_given_moments():
    x, scale, offset = operands_of("training", (4, 3, 2), 1)
    y, mean, variance = reference(builder("training", 1), x, scale, offset)
    (again,) = reference(builder("inference", 1), x, scale, offset, mean, variance)
    np.testing.assert_allclose(again, y, rtol=1e-14)


def test_fact_grad_is_the_gradient_of_training():
    x, scale, offset = operands_of("training", (4, 3, 2), 1)
    g = np.random.default_rng(1).standard_normal(x.shape)
    _, mean, variance = training(x, scale, offset, EPSILON, 1)

    def by_formula(g, *xs):
        return jax.vjp(lambda *xs: formula("training", 1, jnp)(*xs)[0], *xs)[1](g)

    with jax.enable_x64(True):
        expected = by_jax(by_formula, g, x, scale, offset)
    results = reference(builder("grad", 1), x, scale, mean, variance, g)
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, other, rtol=1e-12, atol=1e-12)


def test_variance_that_is_small_against_the_mean():
    # E[x^2] - E[x]^2 would be all rounding errors, and may be negative.
    x = (1e4 + np.random.default_rng(0).standard_normal((512, 2))).astype(np.float32)
    operands = [x, np.ones(2, np.float32), np.zeros(2, np.float32)]
    expected = training(*(each.astype(np.float64) for each in operands), EPSILON, 1)
    text = graph_of(builder("training", 1), operands).stablehlo()
    for _, _, variance in (reference(builder("training", 1), *operands), run_xla(text, operands)):
        np.testing.assert_allclose(variance, expected[2], rtol=1e-3)


def test_f16_with_more_elements_than_f16_can_count():
    x = (np.random.default_rng(0).standard_normal((70_000, 1)) + 1).astype(np.float16)
    operands = [x, np.ones(1, np.float16), np.zeros(1, np.float16)]
    expected = training(*(each.astype(np.float64) for each in operands), EPSILON, 1)
    text = graph_of(builder("training", 1), operands).stablehlo()
    for results in (reference(builder("training", 1), *operands), run_xla(text, operands)):
        assert_close(results, expected, np.float16)


def test_epsilon_is_rounded_to_f32():
    operands = operands_of("training", (4, 3), 1)
    (instruction,) = graph_of(builder("training", 1, epsilon=1e-3), operands).instructions
    assert instruction.op.epsilon == float(np.float32(1e-3)) != 1e-3


REJECTED = {
    "C1": ("training", [(2, 3), (3,), (3,)], np.int32, 1, ShapeError, "type, not s32"),
    "C2": ("training", [(2, 3), (3,), (3,)], np.float32, 2, AttributeValueError, "no dimension 2"),
    "C3": ("training", [(2, 3), (2,), (3,)], np.float32, 1, ShapeError,
           "scale must have shape f32[3]"),
    "C3 rank": ("inference", [(2, 3), (3,), (3,), (3, 1), (3,)], np.float32, 1, ShapeError,
                "mean must have shape f32[3]"),
    "C4": ("grad", [(2, 3), (3,), (3,), (3,), (3, 2)], np.float32, 1, ShapeError,
           "grad_output must have shape f32[2,3]"),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case):
    name, shapes, dtype, at, error, phrase = REJECTED[case]
    operands = [np.zeros(sizes, dtype) for sizes in shapes]
    check_rejected(builder(name, at), operands, error, f"batch_norm_{name}: ({case[:2]})", phrase)


def test_rejects_vectors_of_another_type():
    operands = [np.zeros((2, 3), np.float32), np.zeros(3, np.float16), np.zeros(3, np.float32)]
    check_rejected(builder("training", 1), operands, ShapeError, "(C3)", "scale f16[3]")


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("case", ["rank 3, middle", "rank 4, channels last", "rank 1"])
def test_derivatives(name, case):
    shape, at = SHAPES[case]
    operands = operands_of(name, shape, at)
    # Compiling JAX's second derivatives takes long; finite differences know them too.
    if case == "rank 3, middle":
        check_derivatives(builder(name, at), operands, order=2)
    else:
        check_derivatives(builder(name, at), operands, formula(name, at, jnp), order=1)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)])
def test_cotangents_of_some_results(wanted):
    operands = operands_of("training", (4, 3, 2), 1)

    def some(function):
        return lambda *xs: [function(*xs)[index] for index in wanted]

    check_derivatives(
        some(builder("training", 1)), operands, some(formula("training", 1, jnp)), order=1
    )


@pytest.mark.parametrize("name", BUILDERS)
def test_derivatives_with_respect_to_single_operands(name):
    operands = operands_of(name, (3, 2), 1)
    for index in range(len(operands)):

        def alone(function, index=index):
            return lambda x: function(*operands[:index], x, *operands[index + 1 :])

        check_derivatives(
            alone(builder(name, 1)), [operands[index]], alone(formula(name, 1, jnp)), order=1
        )


def instructions_of(function, operands):
    return [each.op.name for each in graph_of(function, operands).pruned().instructions]


def test_the_gradient_is_one_batch_norm_grad():
    operands = operands_of("training", (4, 3), 1, np.float32)

    def pulled(x, scale, offset):
        y, pullback = mx.vjp(lambda *xs: builder("training", 1)(*xs)[0], x, scale, offset)
        return pullback(y)

    assert instructions_of(pulled, operands) == ["BatchNormTraining", "BatchNormGrad"]
    assert "batch-norm-grad(" in str(graph_of(pulled, operands))


def test_cotangents_of_moments_need_no_batch_norm_grad():
    operands = operands_of("training", (4, 3), 1, np.float32)

    def pulled(x, scale, offset):
        moments, pullback = mx.vjp(lambda *xs: builder("training", 1)(*xs)[1:], x, scale, offset)
        return pullback(moments)[0]

    assert "BatchNormGrad" not in instructions_of(pulled, operands)


def test_narrow_types_have_narrow_gradients():
    operands = operands_of("training", (4, 3), 1, ml_dtypes.bfloat16)

    def pulled(x, scale, offset):
        results, pullback = mx.vjp(builder("training", 1), x, scale, offset)
        return pullback(results)

    for slope in mx.reference(pulled)(*operands):
        assert slope.dtype == ml_dtypes.bfloat16
    for slope in mx.jit(pulled)(*operands):
        assert slope.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("shape, at", [((2, 3), 1), ((3, 2, 2), 0)])
def test_batching(name, shape, at):
    operands = operands_of(name, shape, at)
    if name != "training":  # batches hold the same elements in another order
        operands[-1 if name == "inference" else 3] = np.ones(shape[at])
    check_batching(builder(name, at), operands, size=2, rtol=1e-12)


def test_batch_of_size_0():
    mapped = mx.vmap(builder("training", 1), in_axes=(0, None, None))
    results = mx.reference(mapped)(np.zeros((0, 2, 3), "f4"), np.ones(3, "f4"), np.ones(3, "f4"))
    assert [each.shape for each in results] == [(0, 2, 3), (0, 3), (0, 3)]


def test_a_batch_is_one_operation_with_more_features():
    mapped = mx.vmap(builder("training", 1), in_axes=(0, None, None))
    operands = [np.zeros((5, 2, 3), "f4"), np.ones(3, "f4"), np.ones(3, "f4")]
    graph = graph_of(mapped, operands)
    found = [each for each in graph.instructions if each.op.name == "BatchNormTraining"]
    assert [str(each.operands[0].shape) for each in found] == ["f32[2,15]"]


def test_inference_over_a_batch_of_operands_alone_copies_nothing():
    mapped = mx.vmap(builder("inference", 1), in_axes=(1, None, None, None, None), out_axes=1)
    operands = [np.zeros((2, 5, 3), "f4"), *(np.ones(3, "f4") for _ in range(4))]
    assert instructions_of(mapped, operands) == ["BatchNormInference"]


def test_stablehlo_has_one_function_for_all_calls_of_a_shape():
    operands = operands_of("training", (4, 3), 1, np.float32)

    def twice(x, scale, offset):
        y, _, _ = builder("training", 1)(x, scale, offset)
        return builder("training", 1)(y, scale, offset)[0]

    text = graph_of(twice, operands).stablehlo()
    assert text.count("func.func private @batch_norm_training") == 1
    assert text.count("func.call @batch_norm_training") == 2


def test_source_lines_are_those_of_the_caller():
    operands = operands_of("training", (4, 3), 1, np.float32)
    graph_of(builder("training", 1), operands).stablehlo()

    def pushed(x, scale, offset):
        return mx.jvp(builder("training", 1), (x, scale, offset), (x, scale, offset))[1]

    lines = {
        each.source.function for each in graph_of(pushed, operands).instructions if each.source
    }
    assert all("pushed" in line or "builder" in line for line in lines), lines
