"""Constants outside jit: arrays on the device that operations share and users never get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops

MAKERS: dict[str, Callable[[], Any]] = {
    "zeros": lambda: mx.numpy.zeros(4),
    "full_like": lambda: mx.numpy.full_like(np.ones(4, np.float32), 3),
    "no gradient": lambda: mx.grad(lambda p: p[0].sum())([np.ones(4, np.float32)] * 2)[1],
    "power of 0": lambda: mx.numpy.power(np.ones(4, np.float32), 0),
}


@pytest.mark.parametrize("name", MAKERS)
def test_results_may_be_donated(name: str) -> None:
    make = MAKERS[name]
    first, second = make(), make()
    expected = np.asarray(first)
    # One array given twice could not be donated, and a shared one would be gone afterwards.
    given = jax.jit(lambda x, y: (x + 1, y + 1), donate_argnums=(0, 1))(first, second)
    jax.block_until_ready(given)
    np.testing.assert_array_equal(make(), expected)
    np.testing.assert_array_equal(ops.mul(np.ones(4, np.float32), make()), expected)


def test_numbers_beside_arrays() -> None:
    x = jax.numpy.ones((8, 8))
    for number in (1.5, 2.5, 1.5, -0.0, True):
        result = mx.numpy.multiply(x, number)
        np.testing.assert_array_equal(result, np.full((8, 8), number, np.float32))
        assert np.signbit(result).all() == (str(number) == "-0.0")


def test_values_of_one_content_and_two_types() -> None:
    for dtype in (np.float32, np.int32, np.uint32, np.bool_, np.float16):
        zeros = mx.numpy.zeros((3,), dtype)
        assert zeros.dtype == dtype
        assert (zeros == 0).all()
    x = np.ones(3, np.float32)
    assert np.signbit(ops.mul(x, mx.numpy.full_like(x, -0.0))).all()
    assert not np.signbit(ops.mul(x, mx.numpy.full_like(x, 0.0))).any()


def test_64_bit_mode_changes_between_calls() -> None:
    for wide in (False, True, False):
        with jax.enable_x64(wide):
            assert mx.numpy.zeros(3).dtype == (np.float64 if wide else np.float32)
            x = jax.numpy.ones(3)
            assert mx.numpy.add(x, 2).dtype == x.dtype
