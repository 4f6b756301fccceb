"""Programs from outside: reading them, and their derivatives beside those that JAX makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

import minixla as mx
from benchmarks.measure import Comparison, Effort, interleaved
from benchmarks.models import JAX, Model, models

__all__ = ["importing"]


def importing(effort: Effort) -> Iterator[Comparison]:
    """Reading StableHLO; derivatives of a JAX program that was exported, beside JAX's own."""
    for length in (10,) if effort.small else (1_000, 10_000):
        for form, source in _chain(length).items():
            yield interleaved(
                f"import of StableHLO, {form}: {length:,} operations",
                {"minixla": partial(mx.import_stablehlo, source)},
                effort.rounds(10),
                collect=True,
            )
    for model in models(effort.small)[: 1 if effort.small else None]:
        yield from _derivatives(model, effort)


def _chain(length: int) -> dict[str, Any]:
    """A program of a chain of operations as text, and as the bytes of jax.export."""

    def chain(x: Any) -> Any:
        for _ in range(length // 2):
            x = jnp.tanh(x) * x
        return x

    exported = jax.export.export(jax.jit(chain))(np.ones(8, np.float32))
    return {"text": exported.mlir_module(), "bytes": bytes(exported.serialize())}


def _derivatives(model: Model, effort: Effort) -> Iterator[Comparison]:
    """value_and_grad of a model's exported loss, lowered and run."""
    loss = model.loss(JAX)
    arguments = jax.tree.map(jnp.asarray, (model.parameters, *model.batch))
    exported = jax.export.export(jax.jit(loss))(*arguments)
    variants = {
        "minixla": lambda: mx.jit(mx.value_and_grad(mx.import_stablehlo(exported))),
        "jax": lambda: jax.jit(jax.value_and_grad(lambda *args: loss(*args))),
    }
    lowered = {name: partial(_lowered, make, arguments) for name, make in variants.items()}
    title = f"grad + lower, imported: {model.name}"
    yield interleaved(title, lowered, effort.rounds(10), collect=True)
    steps = {name: _blocking(make(), arguments) for name, make in variants.items()}
    yield interleaved(f"step, imported: {model.name}", steps, effort.rounds(50))


def _lowered(make: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
    return make().lower(*arguments)


def _blocking(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: jax.block_until_ready(function(*arguments))
