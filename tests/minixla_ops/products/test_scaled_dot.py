"""ScaledDot: blocks and their scales, against the oracles and products of scaled operands."""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import ShapeError
from tests.harness import (
    DerivativesTogether,
    Together,
    check_batching,
    check_operation,
    check_rejected,
    compiled_rows,
    graph_of,
)
from tests.minixla_ops.product_tables import exact_values

generator = np.random.default_rng(0)
MATRICES = (((1,), (0,)), ((), ()))
BATCHED = (((2,), (2,)), ((0,), (0,)))

# Sizes of lhs, lhs_scale, rhs, rhs_scale; dimension numbers.
CASES = {
    "blocks of the contracting dimension": ((2, 8), (2, 2), (8, 3), (4, 3), MATRICES),
    "blocks of all dimensions": ((4, 6), (2, 3), (6, 4), (2, 1), MATRICES),
    "a scale for each element": ((2, 3), (2, 3), (3, 2), (3, 2), MATRICES),
    "one block, and a scalar": ((2, 3), (1, 1), (3, 2), (), MATRICES),
    "a batch": ((2, 3, 4), (2, 3, 2), (2, 2, 4), (1, 2, 1), BATCHED),
    "size 1": ((1, 1), (1, 1), (1, 1), (1, 1), MATRICES),
    "size 0": ((0, 4), (0, 2), (4, 2), (1, 1), MATRICES),
    "nothing to sum": ((2, 0), (1, 0), (0, 2), (1, 1), MATRICES),
}


def product(case, **attributes):
    return lambda x, s, y, t: ops.scaled_dot(x, s, y, t, CASES[case][4], **attributes)


def operands_of(case, dtype=np.float32, scale=np.float32):
    lhs, lhs_scale, rhs, rhs_scale, _ = CASES[case]
    powers = [(2.0 ** generator.integers(-2, 3, n)).astype(scale) for n in (lhs_scale, rhs_scale)]
    return [exact_values(lhs, dtype), powers[0], exact_values(rhs, dtype, 1), powers[1]]


def repeated(scale, like, xp=np):
    for dimension, count in enumerate(scale.shape):
        repeats = like.shape[dimension] // max(count, 1)
        scale = xp.repeat(scale, repeats, dimension)
    return scale


def jax_product(case):
    def function(x, s, y, t):
        x, y = x * repeated(s, x, jnp), y * repeated(t, y, jnp)
        return lax.dot_general(x, y, CASES[case][4])

    return function


FACTS = Together(
    {
        case: (
            product(case),
            operands_of(case),
            # The interpreter aborts on empty products.
            {"signed_zeros": False, "interpreter": 0 not in CASES[case][0]},
        )
        for case in CASES
    }
)


@functools.cache
def by_jax_for_all():
    """From a case to JAX's result, all of them in one program."""
    rows = {case: (jax_product(case), FACTS.rows[case][1]) for case in CASES}
    return compiled_rows(rows, jit=jax.jit)


@pytest.mark.parametrize("case", CASES)
def test_fact_dot_general_of_operands_multiplied_by_their_scales(case):
    (result,) = FACTS.check(case)
    np.testing.assert_array_equal(result, by_jax_for_all()(case))


TYPES = [
    (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, "f32"),
    (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu, "f32"),
    (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, "f32"),
    (ml_dtypes.float8_e5m2, np.float32, "f32"),
    (ml_dtypes.bfloat16, ml_dtypes.bfloat16, "bf16"),
    (np.float16, np.float32, "f16"),
    (np.float32, ml_dtypes.float8_e8m0fnu, "f32"),
    (np.float64, np.float64, "f64"),
]


def test_element_types():
    case = "blocks of the contracting dimension"
    operands = [operands_of(case, own, scale) for own, scale, _ in TYPES]
    flat = [each for four in operands for each in four]
    # The interpreter makes the least f8e8m0fnu of zero and NaN only: scales have neither.
    results = check_operation(
        lambda *xs: [product(case)(*xs[4 * i : 4 * i + 4]) for i in range(len(TYPES))],
        flat,
        signed_zeros=False,
    )
    assert [mx.element_type(each.dtype).name for each in results] == [kind for *_, kind in TYPES]
    for four, result in zip(operands, results, strict=True):
        x, s, y, t = (each.astype(np.float64) for each in four)
        expected = (x * repeated(s, x)) @ (y * repeated(t, y))
        np.testing.assert_array_equal(result.astype(np.float64), expected)


def test_preferred_element_type_holds_the_products():
    case = "one block, and a scalar"
    x, _, y, _ = operands_of(case, ml_dtypes.float8_e4m3fn)
    large = np.full((1, 1), 256, np.float32), np.float32(512)
    for kind, dtype in (("f32", np.float32), ("bf16", ml_dtypes.bfloat16), ("f64", np.float64)):
        function = product(case, preferred_element_type=kind, precision_config="HIGHEST")
        (result,) = check_operation(function, [x, large[0], y, large[1]], signed_zeros=False)
        assert result.dtype == dtype
        expected = x.astype(np.float64) @ y.astype(np.float64) * 256 * 512
        np.testing.assert_array_equal(result.astype(np.float64), expected)


def test_double_precision():
    case = "blocks of all dimensions"
    operands = [each.astype(ml_dtypes.bfloat16) / 3 for each in operands_of(case)]
    wide = mx.reference(product(case), precision="float64")(*operands)
    x, s, y, t = (each.astype(np.float64) for each in operands)
    np.testing.assert_allclose(wide, (x * repeated(s, x)) @ (y * repeated(t, y)), rtol=1e-14)


DERIVATIVES = DerivativesTogether(
    {
        case: (
            product(case),
            [np.asarray(generator.standard_normal(sizes)) for sizes in CASES[case][:4]],
            jax_product(case),
            {"order": 2 if case in ("a batch", "one block, and a scalar") else 1},
        )
        for case in CASES
        if case != "nothing to sum"
    }
)


@pytest.mark.parametrize("case", DERIVATIVES.rows)
def test_derivatives(case):
    DERIVATIVES.check(case)


def test_derivatives_have_the_operands_types():
    case = "blocks of the contracting dimension"
    operands = operands_of(case, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16)
    cotangent = np.ones((2, 3), np.float32)

    def function(*xs):
        return mx.vjp(product(case), *xs[:4])[1](xs[4])

    found = mx.reference(function)(*operands, cotangent)
    run = mx.jit(function)(*operands, cotangent)
    for one, other, operand in zip(found, run, operands, strict=True):
        assert one.dtype == other.dtype == operand.dtype
        np.testing.assert_array_equal(one, np.asarray(other))


@pytest.mark.parametrize("case", ["blocks of the contracting dimension", "a batch"])
def test_batching(case):
    check_batching(product(case), operands_of(case))


def test_text():
    case = "a batch"
    text = str(graph_of(product(case), operands_of(case)))
    assert (
        "f32[2,3,2] scaled-dot(%arg0.1, %arg2.3, %arg1.2, %arg3.4), lhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}" in text
    )


def test_rejected():
    function = product("blocks of the contracting dimension")
    x, s, y, t = operands_of("blocks of the contracting dimension")

    def check(label, operands, *phrases):
        check_rejected(function, operands, ShapeError, f"scaled_dot: ({label})", *phrases)

    check("C1", [x, s, y.astype(np.float64), t], "element types")
    check("C7", [x[:, :4], s, y, t], "contracting dimensions")
    check(
        "C8",
        [x.astype(np.int8), s, y.astype(np.int8), t],
        "lhs must have a floating-point type, not s8",
    )
    check("C8", [x, s, y, t.astype(np.int32)], "rhs_scale must have a floating-point type, not s32")
    check("C8", [x.astype(np.complex64), s, y.astype(np.complex64), t], "c64")
    for sizes in ((2, 3), (2,), (2, 16), (2, 8, 1), (0, 8)):
        check("C9", [x, np.ones(sizes, np.float32), y, t], "sizes of lhs_scale")
    check("C9", [x, s, y, np.ones((3, 3), np.float32)], "sizes of rhs_scale")
