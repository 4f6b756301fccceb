"""RngUniform and RngNormal: the distributions, effects, derivatives and checks.

A bound on the distance of distribution functions is that of Dvoretzky, Kiefer, Wolfowitz and
Massart: P(sup |F_n - F| > d) <= 2 exp(-2 n d^2); here the probability is 1e-9 for each sample.
"""

from __future__ import annotations

import math

import jax
import ml_dtypes
import numpy as np
import pytest
from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs

import minixla as mx
from minixla import AttributeValueError, Shape, ShapeError, ops
from minixla.reference_evaluator import seed
from tests.harness import check_rejected, graph_of
from tests.oracles.xla import run_xla

COUNT = 20_000
DISTANCE = math.sqrt(math.log(2 / 1e-9) / (2 * COUNT))


def normal_below(x):
    return 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def distance(samples, below, rounding):
    """The distance of distribution functions, less what rounding of the samples may add."""
    ordered = np.sort(np.asarray(samples, np.float64))
    steps = np.arange(COUNT + 1) / COUNT
    expected = below(ordered)
    found = max(np.max(expected - steps[:-1]), np.max(steps[1:] - expected))
    return found - rounding


def sampled(builder, first, second, kind, run):
    graph = graph_of(lambda a, b: builder(a, b, Shape(kind, (COUNT,))), [first, second])
    if run == "xla":
        return run_xla(graph.stablehlo(), [first, second])[0]
    seed(0)
    return mx.reference(lambda a, b: builder(a, b, Shape(kind, (COUNT,))))(first, second)


def pair(kind, *values):
    dtype = getattr(ml_dtypes, {"bf16": "bfloat16", "f8e5m2": "float8_e5m2"}.get(kind, ""), kind)
    dtype = {"f16": "f2", "f32": "f4", "f64": "f8"}.get(kind, dtype)
    return [np.array(value, dtype) for value in values]


# Half a unit in the last place of the largest value, as a share of the interval [-1, 3) below.
ROUNDING = {"f64": 0.0, "f32": 1e-6, "f16": 1e-3, "bf16": 8e-3, "f8e5m2": 0.15}


@pytest.mark.parametrize("run", ["reference", "xla"])
@pytest.mark.parametrize("kind", ROUNDING)
def test_fact_68_uniform_on_the_half_open_interval(kind, run):
    low, high = pair(kind, -1, 3)
    with jax.enable_x64(True):
        samples = sampled(ops.rng_uniform, low, high, kind, run)
    assert samples.dtype == low.dtype and samples.shape == (COUNT,)
    samples = samples.astype(np.float64)
    assert samples.min() >= -1 and samples.max() < 3
    assert distance(samples, lambda x: (x + 1) / 4, ROUNDING[kind]) < DISTANCE


@pytest.mark.parametrize("run", ["reference", "xla"])
@pytest.mark.parametrize("kind", ROUNDING)
def test_fact_67_normal_of_mean_and_deviation(kind, run):
    with jax.enable_x64(True):
        samples = sampled(ops.rng_normal, *pair(kind, 2, 4), kind, run)
    samples = (samples.astype(np.float64) - 2) / 4
    assert distance(samples, normal_below, ROUNDING[kind]) < DISTANCE


INTEGERS = {"i1": -3, "u1": 250, "i2": -3, "u2": 9, "i4": -3, "u4": 2**32 - 6, "i8": -3, "u8": 9}


@pytest.mark.parametrize("run", ["reference", "xla"])
def test_fact_68_integers_up_to_the_limit(run):
    for kind, low in INTEGERS.items():
        first, second = np.array(low, kind), np.array(low + 5, kind)
        with jax.enable_x64(True):
            samples = sampled(ops.rng_uniform, first, second, first.dtype, run)
        values, counts = np.unique(samples, return_counts=True)
        assert values.tolist() == [low + i for i in range(5)], kind
        # Six deviations of a binomial distribution: 1e-8 for each of 80 counts.
        assert np.all(np.abs(counts - COUNT / 5) < 6 * math.sqrt(COUNT * 0.2 * 0.8)), kind


@pytest.mark.parametrize("run", ["reference", "xla"])
def test_fact_68_booleans_and_small_integers(run):
    samples = sampled(ops.rng_uniform, np.array(False), np.array(True), "pred", run)
    assert samples.dtype == bool and not samples.any()
    low, high = np.array(-2, ml_dtypes.int4), np.array(3, ml_dtypes.int4)
    samples = sampled(ops.rng_uniform, low, high, "s4", "reference")
    assert set(samples.astype(int).tolist()) == {-2, -1, 0, 1, 2}


def test_upper_limit_not_above_the_lower():
    seed(0)
    for a, b in ((2, 2), (3, -1)):
        got = mx.reference(lambda a, b: ops.rng_uniform(a, b, Shape("s32", (9,))))(
            np.int32(a), np.int32(b)
        )
        assert got.tolist() == [a] * 9


def test_rounding_does_not_reach_the_upper_limit():
    # In [1, 1 + 2 eps) there are two floats; without care a quarter of the samples would be above.
    low, high = np.float32(1), np.float32(1 + 2**-22)
    for run in ("reference", "xla"):
        samples = sampled(ops.rng_uniform, low, high, "f32", run)
        assert samples.min() >= low and samples.max() < high


def test_the_seed_of_the_reference():
    @mx.reference
    def draw():
        return ops.rng_normal(np.float32(0), np.float32(1), Shape("f32", (4,)))

    seed(7)
    first, second = draw(), draw()
    seed(7)
    assert np.array_equal(draw(), first) and not np.array_equal(first, second)
    seed()
    assert not np.array_equal(draw(), first)


# Effects: neither dropped, merged nor repeated.


def two_and_one_unused(a):
    shape = Shape("f32", (3,))
    one, other = ops.rng_uniform(a, a + 1, shape), ops.rng_uniform(a, a + 1, shape)
    ops.rng_uniform(a, a + 1, shape)
    return one, other


@pytest.mark.parametrize("run", [mx.reference, mx.jit], ids=["reference", "xla"])
def test_equal_draws_differ(run):
    compiled = run(two_and_one_unused)
    one, other = compiled(np.float32(0))
    again, _ = compiled(np.float32(0))
    assert not np.array_equal(one, other) and not np.array_equal(one, again)


def test_an_unused_draw_is_kept():
    graph = mx.make_graph(two_and_one_unused)(np.float32(0))
    assert graph.has_side_effect
    assert [step.op.name for step in graph.pruned().instructions].count("RngUniform") == 3


def test_a_result_is_drawn_once_for_value_and_derivative():
    def function(sigma):
        sample = ops.rng_normal(np.float32(0), sigma, Shape("f32", (5,)))
        return mx.numpy.sum(sample), sample

    for run in (mx.reference, mx.jit):
        (_, sample), slope = run(mx.value_and_grad(function, has_aux=True))(np.float32(2))
        np.testing.assert_allclose(slope, np.sum(sample) / 2, rtol=1e-5)


# Derivatives: the sample moves with the parameters, its quantile fixed.


def forward(builder, first, second, tangents):
    def both(a, b):
        return mx.jvp(lambda a, b: builder(a, b, Shape("f64", (6,))), (a, b), tangents)

    with jax.enable_x64(True):
        seed(3)
        sample, slope = mx.reference(both)(first, second)
        moved = []
        for sign in (1, -1):
            seed(3)
            near = [x + sign * 1e-6 * t for x, t in zip((first, second), tangents, strict=True)]
            moved.append(mx.reference(lambda a, b: builder(a, b, Shape("f64", (6,))))(*near))
    return sample, slope, (moved[0] - moved[1]) / 2e-6


@pytest.mark.parametrize("builder", [ops.rng_uniform, ops.rng_normal], ids=["uniform", "normal"])
@pytest.mark.parametrize("tangents", [(1.0, 0.0), (0.0, 1.0), (0.3, -2.0)])
def test_forward_derivative_with_the_same_quantiles(builder, tangents):
    sample, slope, differences = forward(
        builder, np.float64(0.5), np.float64(2.0), tuple(map(np.float64, tangents))
    )
    assert sample.shape == slope.shape == (6,)
    np.testing.assert_allclose(slope, differences, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("builder", [ops.rng_uniform, ops.rng_normal], ids=["uniform", "normal"])
@pytest.mark.parametrize("run", [mx.reference, mx.jit], ids=["reference", "xla"])
def test_reverse_derivative_is_the_adjoint(builder, run):
    weights = np.arange(1, 7, dtype="f8")

    def function(a, b):
        sample = builder(a, b, Shape("f64", (6,)))
        return mx.numpy.sum(sample * weights), sample

    with jax.enable_x64(True):
        of_both = mx.value_and_grad(function, (0, 1), has_aux=True)
        (_, sample), (of_a, of_b) = run(of_both)(np.float64(0.5), np.float64(2.0))
    sample = np.asarray(sample)
    if builder is ops.rng_normal:
        slopes = np.ones(6), (sample - 0.5) / 2
    else:
        slopes = 1 - (sample - 0.5) / 1.5, (sample - 0.5) / 1.5
    np.testing.assert_allclose([of_a, of_b], [weights @ slope for slope in slopes], rtol=1e-12)


# Batches: members have samples of their own.


@pytest.mark.parametrize("run", [mx.reference, mx.jit], ids=["reference", "xla"])
def test_members_of_a_batch_draw_for_themselves(run):
    shape, zero, one = Shape("f32", (4,)), np.float32(0), np.float32(1)
    functions = (
        lambda x: x + ops.rng_normal(zero, one, shape),
        lambda x: x + mx.jit(lambda: ops.rng_uniform(zero, one, shape))(),
    )
    for function in functions:
        rows = np.asarray(run(mx.vmap(function))(np.zeros(3, "f4")))
        assert rows.shape == (3, 4) and len(np.unique(rows)) == 12


def test_parameters_may_differ_over_a_batch():
    seed(0)
    low = np.array([0, 10, -20], "f4")
    wide = Shape("f32", (COUNT,))
    rows = mx.reference(mx.vmap(lambda a: ops.rng_uniform(a, a + 2, wide)))(low)
    for row, start in zip(rows, low, strict=True):
        assert row.min() >= start and row.max() < start + 2
        assert distance(row, lambda x, start=start: (x - start) / 2, 1e-6) < DISTANCE
    rows = mx.reference(mx.vmap(lambda s: ops.rng_normal(np.float32(1), s, wide)))(low[1:])
    for row, deviation in zip(rows, low[1:], strict=True):

        def below(x, s=deviation):
            return normal_below((x - 1) / abs(s))

        assert distance(row, below, 1e-6) < DISTANCE
    counted = Shape("s32", (50,))
    rows = mx.reference(mx.vmap(lambda a: ops.rng_uniform(a, a + 1, counted)))(np.arange(3))
    assert rows.tolist() == [[i] * 50 for i in range(3)]


# Checks.

F32 = Shape("f32", (2,))


@pytest.mark.parametrize(
    ("function", "operands", "error", "phrases"),
    [
        (lambda a, b: ops.rng_uniform(a, b, F32), [np.float32(0), np.float64(1)], ShapeError,
         ["(C1)", "two scalars with equal types", "a f32[]", "b f64[]"]),
        (lambda a, b: ops.rng_normal(a, b, F32), [np.zeros(2, "f4"), np.float32(1)], ShapeError,
         ["(C1)", "mu f32[2]"]),
        (lambda a: ops.rng_uniform(a, a, Shape("s32", (2,))), [np.float32(0)], AttributeValueError,
         ["(C2)", "of type f32, not s32[2]"]),
        (lambda a: ops.rng_uniform(a, a, Shape("f32", (2,), (True,))), [np.float32(0)],
         AttributeValueError, ["(C2)", "static"]),
        (lambda a: ops.rng_normal(a, a, Shape("s32", (2,))), [np.int32(0)], ShapeError,
         ["(C3)", "element type s32 is not supported", "f64"]),
        (lambda a: ops.rng_uniform(a, a, Shape("c64", (2,))), [np.complex64(0)], ShapeError,
         ["(C3)", "c64"]),
        (lambda a: ops.rng_uniform(a, a, (2,)), [np.float32(0)], AttributeValueError,
         ["attribute output_shape", "must be a Shape"]),
    ],
)  # fmt: skip
def test_checks(function, operands, error, phrases):
    check_rejected(function, operands, error, *phrases)


@pytest.mark.parametrize("builder", [ops.rng_uniform, ops.rng_normal], ids=["uniform", "normal"])
def test_text(builder):
    graph = graph_of(lambda a, b: builder(a, b, Shape("f32", (2, 3))), [np.float32(0)] * 2)
    name = builder.__name__
    assert f"f32[2,3] rng(%arg0.1, %arg1.2), distribution={name}" in str(graph)
    assert f"distribution={name}" in _hlo.hlo_module_from_text(str(graph)).to_string()
