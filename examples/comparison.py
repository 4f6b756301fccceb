"""Compare minixla's loss and gradients of the digits network with the same network in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx


def jax_loss(parameters: dict[str, Any], images: Any, labels: Any) -> Any:
    """Compute the loss of `train_digits.loss` in JAX, in the type of its arguments."""
    x = images
    for block in ("1", "2"):
        x = jax.lax.conv_general_dilated(
            x,
            parameters["conv" + block],
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        mean = x.mean((0, 1, 2))
        variance = ((x - mean) ** 2).mean((0, 1, 2))
        x = (x - mean) / jnp.sqrt(variance + 1e-5)
        x = jax.nn.relu(x * parameters["scale" + block] + parameters["offset" + block])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    x = jax.nn.relu(x @ parameters["dense1"] + parameters["bias1"])
    scores = x @ parameters["dense2"] + parameters["bias2"]
    targets = jax.nn.one_hot(labels, 10, dtype=scores.dtype) * 0.9 + 0.1 / 10
    return -(targets * jax.nn.log_softmax(scores)).sum(-1).mean()


class Row(NamedTuple):
    """One array of the comparison.

    Attributes:
        name: the parameter whose gradient it is, or `loss`.
        ulp: the largest distance from JAX's value, in f32 steps at the array's largest element.
        minixla_error, jax_error: the norm of the error divided by the norm of the truth, which is
            JAX's result in double precision.
    """

    name: str
    ulp: float
    minixla_error: float
    jax_error: float


def compare_with_jax(
    loss: Callable[..., Any], parameters: dict[str, Any], images: np.ndarray, labels: np.ndarray
) -> list[Row]:
    """Compare loss and gradients of one batch in minixla, JAX, and JAX in double precision."""
    (value, _), gradient = mx.jit(mx.value_and_grad(loss, has_aux=True))(parameters, images, labels)
    ours = {"loss": value, **gradient}
    value, gradient = jax.jit(jax.value_and_grad(jax_loss))(parameters, images, labels)
    theirs = {"loss": value, **gradient}
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda p: np.asarray(p, np.float64), parameters)
        value, gradient = jax.jit(jax.value_and_grad(jax_loss))(
            wide, images.astype(np.float64), labels
        )
        truth = {"loss": value, **gradient}
    return [
        _row(name, *(np.asarray(each[name]) for each in (ours, theirs, truth))) for name in ours
    ]


def _row(name: str, ours: np.ndarray, theirs: np.ndarray, truth: np.ndarray) -> Row:
    step = np.spacing(np.abs(theirs).max())
    norm = np.linalg.norm(truth)
    return Row(
        name,
        float(np.abs(ours - theirs).max() / step),
        float(np.linalg.norm(ours - truth) / norm),
        float(np.linalg.norm(theirs - truth) / norm),
    )


def print_table(rows: list[Row]) -> None:
    """Print the comparison."""
    print("loss and gradients of a batch,      largest difference   relative error (f64 as truth)")
    print("at the initial parameters           from JAX, in ULP*        minixla          JAX")
    for row in rows:
        kind = "loss" if row.name == "loss" else f"gradient of {row.name}"
        print(f"{kind:<32}{row.ulp:>18.1f}{row.minixla_error:>20.1e}{row.jax_error:>13.1e}")
    print("* one step of f32 at the array's largest element")
