"""mx.nn.initializers, bit for bit those of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx

AXES = {"in_axis": 0, "out_axis": (1, 2), "batch_axis": ()}
BUILT: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("constant", (3,), {"dtype": np.int32}),
    ("uniform", (), {}),
    ("uniform", (0.5,), {"dtype": jnp.bfloat16}),
    ("normal", (0.02,), {}),
    ("truncated_normal", (), {"lower": -1.0}),
    ("glorot_normal", (), {}),
    ("xavier_uniform", (), AXES),
    ("lecun_normal", (), {}),
    ("lecun_uniform", (), {}),
    ("he_normal", (), {"dtype": np.float16}),
    ("kaiming_uniform", (), {}),
    ("variance_scaling", (2.0, "fan_geo_avg", "normal"), {}),
    ("variance_scaling", (2.0, "fan_in", "uniform"), {"dtype": np.complex64}),
]
SHAPE = (3, 4, 5)


@pytest.mark.parametrize(("name", "args", "options"), BUILT)
def test_the_same_bits(name: str, args: Any, options: dict[str, Any]) -> None:
    ours, theirs = (getattr(each.nn.initializers, name)(*args, **options) for each in (mx, jax))
    key = jax.random.key(7)
    expected = jax.jit(theirs, static_argnums=1)(key, SHAPE)
    found = mx.jit(lambda key: ours(key, SHAPE))(key)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["orthogonal", "delta_orthogonal"])
def test_orthogonal_matrices_are_those_of_jax_but_for_rounding(name: str) -> None:
    ours, theirs = (getattr(each.nn.initializers, name)(2.0) for each in (mx, jax))
    found, expected = (function(jax.random.key(7), SHAPE) for function in (ours, theirs))
    np.testing.assert_allclose(found, expected, rtol=0, atol=4e-6)
    rows = np.asarray(found)[1] if name == "delta_orthogonal" else np.reshape(found, (12, 5)).T
    np.testing.assert_allclose(rows @ rows.T, 4 * np.eye(len(rows)), atol=1e-5)


def test_an_initializer_takes_a_dtype_and_every_kind_of_key() -> None:
    drawn = mx.nn.initializers.normal()
    key, expected = (
        mx.random.key(3),
        jax.nn.initializers.normal()(jax.random.key(3), (4,), "bfloat16"),
    )
    for each in (key, jax.random.key(3), jax.random.PRNGKey(3)):
        found = drawn(each, (4,), jnp.bfloat16)
        np.testing.assert_array_equal(found, expected, strict=True)
    stacked = mx.vmap(lambda key: drawn(key, (4,)))(mx.random.split(key, 3))
    assert stacked.shape == (3, 4)
    assert len({float(row[0]) for row in stacked}) == 3


def test_zeros_and_ones_need_no_key() -> None:
    np.testing.assert_array_equal(mx.nn.initializers.zeros(None, (2, 0)), np.zeros((2, 0)))
    np.testing.assert_array_equal(mx.nn.initializers.ones(None, (2,), np.int32), [1, 1])


def test_errors_are_those_of_jax() -> None:
    with pytest.raises(ValueError, match="default in_axis"):
        mx.nn.initializers.glorot_normal()(jax.random.key(0), (3,))
    with pytest.raises(TypeError, match="unexpected keyword"):
        mx.nn.initializers.normal(deviation=1)
