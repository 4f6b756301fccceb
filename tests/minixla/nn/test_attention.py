"""dot_product_attention against jax.nn."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from tests.harness import by_jax, check_rejected
from tests.minixla.nn.comparing import Case, Table, check, check_transformed, draw
from tests.minixla.numpy.tables import assert_close

BATCH, LENGTH, POSITIONS, HEADS, SIZE = 2, 3, 4, 4, 2
MASK = np.random.default_rng(0).integers(0, 2, (BATCH, 1, LENGTH, POSITIONS)).astype(bool)
BIAS = draw(1, HEADS, LENGTH, POSITIONS, seed=3)
LENGTHS = np.array([1, 3], np.int32)
BLIND = np.concatenate([MASK[:, :, :2], np.zeros_like(MASK[:, :, :1])], 2)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"scale": 0.3},
    {"is_causal": True},
    {"mask": MASK},
    {"mask": BLIND},
    {"bias": BIAS},
    {"bias": BIAS, "mask": MASK, "is_causal": True},
    {"query_seq_lengths": LENGTHS},
    {"query_seq_lengths": LENGTHS, "key_value_seq_lengths": LENGTHS, "is_causal": True},
    {"local_window_size": 1},
    {"local_window_size": (2, 0), "implementation": "xla"},
    {"return_residual": True, "mask": BLIND},
]


def operands(key_heads: int = HEADS, dtype: Any = np.float32) -> list[np.ndarray]:
    query = draw(BATCH, LENGTH, HEADS, SIZE, dtype=dtype)
    key, value = (draw(BATCH, POSITIONS, key_heads, SIZE, dtype=dtype, seed=s) for s in (1, 2))
    return [query, key, value]


def case(options: dict[str, Any], key_heads: int) -> Case:
    return Case(
        lambda *xs: mx.nn.dot_product_attention(*xs, **options),
        lambda *xs: jax.nn.dot_product_attention(*xs, **options),
        operands(key_heads),
        # The options do the same to scores of any heads.
        eager=key_heads == 2 or not options,
    )


TABLE = Table(
    {
        (f"{'-'.join(options)}-{at}", key_heads): case(options, key_heads)
        for at, options in enumerate(OPTIONS)
        for key_heads in [4, 2, 1]
    }
)


@pytest.mark.parametrize(("options", "key_heads"), TABLE.cases)
def test_options(options: str, key_heads: int) -> None:
    TABLE.check((options, key_heads))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_16_bits(dtype: Any) -> None:
    given = operands(2, dtype)
    # JAX's asks for products that XLA:CPU has not; only outside jit it tries others then.
    expected = jax.nn.dot_product_attention(*given)
    assert_close(mx.reference(mx.nn.dot_product_attention)(*given), expected)
    assert_close(mx.jit(mx.nn.dot_product_attention)(*given), expected)


def test_without_batch_or_with_two() -> None:
    query, key, value = operands()
    one = mx.reference(mx.nn.dot_product_attention)(query[0], key[0], value[0])
    nested = mx.reference(mx.nn.dot_product_attention)(query[None], key[None], value[None])
    expected = by_jax(jax.nn.dot_product_attention, query, key, value)
    np.testing.assert_allclose(one, expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nested[0], expected, rtol=1e-5, atol=1e-6)


def formula(query: Any, key: Any, value: Any) -> Any:
    """Attention with half as many key heads; JAX's own computes the softmax of f64 in f32."""
    key, value = jnp.repeat(key, 2, -2), jnp.repeat(value, 2, -2)
    scores = jnp.einsum("bthd,bshd->bhts", query, key) / math.sqrt(query.shape[-1])
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), value)


def test_derivatives_and_batches() -> None:
    given = [x[:1] for x in operands(2)]
    check(Case(mx.nn.dot_product_attention, formula, given))
    check_transformed(mx.nn.dot_product_attention, formula, given, batched=[0, 2])


@pytest.mark.parametrize(
    ("place", "sizes"),
    [(0, (2,)), (1, (BATCH, POSITIONS, 3, SIZE)), (2, (BATCH, 5, HEADS, SIZE)), (0, (1, 3, 4, 2))],
)
def test_rejected(place: int, sizes: tuple[int, ...]) -> None:
    given = operands()
    given[place] = draw(*sizes)
    name = ("query", "key", "value")[place]
    shape = f"{name} f32[{','.join(map(str, sizes))}]"
    message = "dot_product_attention: query, key and value do not fit each other"
    check_rejected(
        lambda *xs: mx.nn.dot_product_attention(*xs), given, mx.ShapeError, message, shape
    )


SCALED = [draw(2, 3, 8), draw(2, 5, 8, seed=1), draw(2, 3, 4, seed=2), draw(2, 5, 4, seed=3)]


def scaled_product(lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any) -> Any:
    """What JAX's documentation says of scaled_matmul, which JAX runs on GPUs only."""
    lhs, rhs = lhs * jnp.repeat(lhs_scales, 2, -1), rhs * jnp.repeat(rhs_scales, 2, -1)
    return jnp.einsum("bmk,bnk->bmn", lhs, rhs)


def test_scaled_matmul() -> None:
    eights = [np.asarray(x, ml_dtypes.float8_e4m3fn) for x in SCALED[:2]]
    wide = [x.astype(np.float32) for x in eights]
    check(Case(mx.nn.scaled_matmul, scaled_product, SCALED, eager=True))
    found = mx.jit(mx.nn.scaled_matmul)(*eights, *SCALED[2:])
    assert_close(found, jax.jit(scaled_product)(*wide, *SCALED[2:]), 8)
    half = mx.nn.scaled_matmul(*SCALED, preferred_element_type=np.float16)
    assert half.dtype == np.float16


@pytest.mark.parametrize(
    ("function", "phrases"),
    [
        (
            lambda q: mx.nn.dot_product_attention(q, q, q, query_seq_lengths=np.ones(3, "i4")),
            ("query_seq_lengths does not fit the batch", "s32[3]", "dimensions (2,)"),
        ),
        (
            lambda q: mx.nn.scaled_matmul(q[0], q[0], q[0, :, :, :1], q[0, :, :2, :1]),
            ("scaled_matmul: the shapes of the operands", "rhs_scales f32[3,2,1]"),
        ),
    ],
)
def test_what_does_not_fit_is_named(function: Any, phrases: Any) -> None:
    check_rejected(function, operands()[:1], mx.ShapeError, *phrases)


def test_an_implementation_that_is_not_there() -> None:
    with pytest.raises(mx.AttributeValueError, match="implementation is 'cudnn'"):
        mx.nn.dot_product_attention(*operands(), implementation="cudnn")
