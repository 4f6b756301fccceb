"""What the tests of mx.nn share: functions of ours against JAX's, by every way to run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from tests.harness import check_batching, check_derivatives
from tests.minixla.numpy.tables import assert_close

__all__ = ["check", "check_both", "check_compiled", "draw", "gradients"]

Function = Callable[..., Any]


def draw(*sizes: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Normally distributed values."""
    return np.random.default_rng([seed, *sizes]).standard_normal(sizes).astype(dtype)


def check(
    function: Function, jax_function: Function, *arrays: np.ndarray, units: float | None = None
) -> None:
    """Asserts that both give the same, ours in NumPy, compiled, and at once on JAX arrays.

    Results may be apart by `units` of their type's eps. Only f32 runs at once: other types
    would compile each operation again.
    """
    expected = check_compiled(function, jax_function, *arrays, units=units)
    if all(array.dtype == np.float32 for array in arrays):
        assert_close(function(*map(jnp.asarray, arrays)), expected, units)


def check_compiled(
    function: Function,
    jax_function: Function,
    *arrays: np.ndarray,
    units: float | None = None,
    others: Sequence[np.ndarray] = (),
) -> Any:
    """Asserts that both give the same, ours in NumPy and compiled; returns what JAX's gives.

    `others` takes the place of `arrays` in a second run.
    """
    # Both in one program, which compiles in half the time.
    compiled = jax.jit(lambda *xs: (mx.jit(function)(*xs), jax_function(*xs)))
    expected: Any = None
    for given in filter(len, (others, arrays)):
        actual, expected = compiled(*given)
        with np.errstate(all="ignore"):
            assert_close(mx.reference(function)(*given), expected, units)
        assert_close(actual, expected, units)
    return expected


def check_both(
    function: Function,
    jax_function: Function,
    arrays: Sequence[np.ndarray],
    *,
    differences: bool = True,
    batched: Sequence[int] | None = None,
) -> None:
    """Asserts that values, first and second derivatives in both modes, and batches are right.

    Args:
        function, jax_function: ours and JAX's.
        arrays: operands; floats are computed in f64.
        differences: False where finite differences mean nothing.
        batched: the operands that may be batched; default: all.
    """
    wide = [np.asarray(x, np.float64) if x.dtype.kind == "f" else x for x in arrays]
    check(function, jax_function, *arrays)
    check_derivatives(function, wide, jax_function, order=1, differences=differences)
    check_derivatives(function, wide, order=2, differences=differences)
    check_batching(function, wide, size=2, batched=batched)


def gradients(function: Function, of: Any = mx) -> Function:
    """The derivative of a function of one array, at each element."""
    return of.vmap(of.grad(function))
