"""Derivatives and batches of convolutions: against JAX, finite differences and loops."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from tests.harness import check_batching, check_derivatives, graph_of
from tests.minixla_ops.convolutions import CASES, LAST, convolution, jax_convolution, reference
from tests.minixla_ops.product_tables import exact_values

DIFFERENTIABLE = [case for case in CASES if "size 0" not in case]
SECOND_ORDER = [
    "both dilated, strides",
    "reversal, dilated",
    "feature groups",
    "batch groups, strided",
]


@pytest.mark.parametrize("case", DIFFERENTIABLE)
def test_derivatives(case):
    lhs, rhs, given = CASES[case]
    generator = np.random.default_rng(0)
    operands = [generator.standard_normal(lhs), generator.standard_normal(rhs)]
    is_second = case in SECOND_ORDER
    # JAX's rules, whose compilation takes most of the time, where groups and lists meet.
    jax_function = jax_convolution(lhs, rhs, **given) if is_second else None
    check_derivatives(convolution(**given), operands, jax_function, order=1 + is_second)


def test_complex_derivatives():
    lhs, rhs, given = CASES["both dilated, strides"]
    generator = np.random.default_rng(0)
    operands = [
        generator.standard_normal(sizes) + 1j * generator.standard_normal(sizes)
        for sizes in (lhs, rhs)
    ]
    check_derivatives(convolution(**given), operands, jax_convolution(lhs, rhs, **given), order=1)


def test_derivatives_with_preferred_element_type():
    x, w = (
        exact_values((1, 2, 4), ml_dtypes.bfloat16),
        exact_values((2, 2, 2), ml_dtypes.bfloat16, 1),
    )
    cotangent = exact_values((1, 2, 3), np.float32, 2)

    def pulled(function, *operands):
        return mx.reference(lambda *xs: mx.vjp(function, *xs[:2])[1](xs[2]))(*operands)

    narrow = pulled(convolution(preferred_element_type="f32"), x, w, cotangent)
    wide = pulled(convolution(), x.astype(np.float32), w.astype(np.float32), cotangent)
    for one, other in zip(narrow, wide, strict=True):
        assert one.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(one.astype(np.float32), other)


@pytest.mark.parametrize("case", ["batch size 0", "kernel larger than input", "spatial size 0"])
def test_gradients_of_empty_convolutions_are_zero(case):
    lhs, rhs, given = CASES[case]
    operands = [np.ones(lhs, np.float32), np.ones(rhs, np.float32)]

    def pulled(x, w):
        result, pullback = mx.vjp(convolution(**given), x, w)
        return pullback(result)

    for operand, slope in zip(operands, mx.reference(pulled)(*operands), strict=True):
        expected = 0 if reference(convolution(**given), *operands).size == 0 else slope
        np.testing.assert_array_equal(slope, np.broadcast_to(expected, operand.shape))


def test_a_gradient_is_two_convolutions():
    def pulled(x, w):
        result, pullback = mx.vjp(convolution(padding="SAME", numbers=LAST), x, w)
        return pullback(result)

    graph = graph_of(
        pulled, [np.zeros((2, 5, 5, 3), np.float32), np.zeros((3, 3, 3, 4), np.float32)]
    )
    names = [each.op.name for each in graph.pruned().instructions]
    assert sorted(names) == ["ConvGeneralDilated"] * 3 + ["Rev"]


@pytest.mark.parametrize("case", CASES)
def test_batching(case):
    lhs, rhs, given = CASES[case]
    operands = [exact_values(lhs, np.float64), exact_values(rhs, np.float64, 1)]
    check_batching(convolution(**given), operands, size=2)


def test_batches_of_sizes_0_and_1():
    lhs, rhs, given = CASES["feature groups"]
    operands = [exact_values(lhs, np.float64), exact_values(rhs, np.float64, 1)]
    check_batching(convolution(**given), operands, size=1)
    empty = mx.reference(mx.vmap(convolution(**given)))(np.zeros((0, *lhs)), np.zeros((0, *rhs)))
    assert empty.shape == (0, 2, 6, 4)


def test_a_batch_makes_one_convolution():
    for axes in ((0, None), (None, 0), (0, 0)):
        shapes = [
            (3, *lhs) if a == 0 else lhs
            for lhs, a in zip(((2, 4, 5), (6, 2, 2)), axes, strict=True)
        ]
        mapped = mx.vmap(convolution(groups=2), in_axes=axes)
        graph = graph_of(mapped, [np.zeros(sizes, np.float32) for sizes in shapes])
        names = [each.op.name for each in graph.instructions]
        assert names.count("ConvGeneralDilated") == 1
