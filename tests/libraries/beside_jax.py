"""Run programs of JAX's libraries with minixla's transformations and with JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import minixla as mx


def assert_same(run: Callable[[Any], Any], rtol: float = 1e-5, atol: float = 1e-6) -> Any:
    """Check that a program gives the same arrays with minixla as with JAX.

    Args:
        run: a function of the library whose transformations the program uses.
        rtol: the relative tolerance.
        atol: the absolute tolerance.

    Returns:
        The results with JAX.
    """
    expected, found = run(jax), run(mx)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert jnp.asarray(ours).dtype == jnp.asarray(theirs).dtype
        assert np.isfinite(theirs).all()
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
    return expected


def train(
    library: Any, loss: Callable[..., Any], parameters: Any, batches: list[Any], state: Any = None
) -> list[float]:
    """Train with Optax's AdamW, with a schedule and clipped gradients.

    Args:
        library: minixla or jax.
        loss: a function of parameters, a batch and the state; returns the loss and the next state.
        parameters: a pytree of arrays.
        batches: the arguments of the steps.
        state: a pytree that the loss updates, such as running means.

    Returns:
        The losses, and a checksum of the trained parameters.
    """
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, len(batches))
    # With Adam's default eps, a gradient that is zero except for rounding would move a parameter.
    adam = optax.adamw(schedule, eps=1e-3)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), adam)

    @library.jit
    def step(parameters: Any, moments: Any, state: Any, batch: Any) -> Any:
        derived = library.value_and_grad(loss, has_aux=True)
        (value, state), gradient = derived(parameters, batch, state)
        updates, moments = optimizer.update(gradient, moments, parameters)
        return optax.apply_updates(parameters, updates), moments, state, value

    moments, losses = optimizer.init(parameters), []
    for batch in batches:
        parameters, moments, state, value = step(parameters, moments, state, batch)
        losses.append(float(value))
    checksum = sum(float(jnp.sum(jnp.abs(leaf))) for leaf in jax.tree.leaves(parameters))
    return [*losses, checksum]


def images(count: int = 6, size: int = 8) -> list[tuple[np.ndarray, np.ndarray]]:
    """Alternate two batches: images f32[size,8,8,1], labeled by the brightest of four quarters."""
    draws = np.random.default_rng(0)
    batches = []
    for _ in range(2):
        x = draws.normal(size=(size, 8, 8, 1)).astype(np.float32)
        quarters = x.reshape(size, 2, 4, 2, 4).sum((2, 4)).reshape(size, 4)
        batches.append((x, quarters.argmax(1).astype(np.int32)))
    return (batches * count)[:count]


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Compute the mean cross entropy with Optax."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
