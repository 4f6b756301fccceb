"""What is measured: tracing, first calls, call overhead, eager operations, steps, growth, pooling."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from benchmarks.measure import Comparison, interleaved, per_call
from benchmarks.models import JAX, MINIXLA, MODELS, Framework, Model

__all__ = ["SUITES"]

_FRAMEWORKS = (MINIXLA, JAX)


def _lowering(framework: Framework, model: Model) -> Callable[[], Any]:
    """Traces, differentiates and lowers the model anew, as no cache knows the function."""

    def run() -> Any:
        loss = model.loss(framework)
        derived = framework.value_and_grad(lambda *args: loss(*args))
        return framework.jit(lambda *args: derived(*args)).lower(model.parameters, *model.batch)

    return run


def tracing(quick: bool) -> Iterator[Comparison]:
    """Trace, differentiate and lower value_and_grad of each model."""
    for model in MODELS:
        variants = {each.name: _lowering(each, model) for each in _FRAMEWORKS}
        gc.collect()
        yield interleaved(f"trace + grad + lower: {model.name}", variants, 5 if quick else 15)


def first_call(quick: bool) -> Iterator[Comparison]:
    """The same and XLA's compilation: what the user waits for at the first step."""
    for model in MODELS:
        variants = {
            each.name: lambda lower=_lowering(each, model): lower().compile()
            for each in _FRAMEWORKS
        }
        yield interleaved(f"first call: {model.name}", variants, 2 if quick else 5)


def calls(quick: bool) -> Iterator[Comparison]:
    """A call of a small jitted function, and an eager operation."""
    rounds, count = (20, 200) if quick else (60, 500)
    x = jnp.ones((64, 64))
    ours, theirs = mx.jit(lambda x: mx.numpy.tanh(x)), jax.jit(lambda x: jnp.tanh(x))
    variants = {"minixla": lambda: ours(x), "jax": lambda: theirs(x)}
    yield per_call("call of a jitted tanh, f32[64,64]", variants, rounds, count)
    parameters = {f"p{index}": jnp.ones(8) for index in range(20)}
    ours = mx.jit(lambda p: {name: v + 1 for name, v in p.items()})
    theirs = jax.jit(lambda p: {name: v + 1 for name, v in p.items()})
    variants = {"minixla": lambda: ours(parameters), "jax": lambda: theirs(parameters)}
    yield per_call("call of a jitted function of 20 arrays", variants, rounds, count)
    variants = {"minixla": lambda: mx.numpy.tanh(x), "jax": lambda: jnp.tanh(x)}
    yield per_call("eager tanh, f32[64,64]", variants, rounds, count)
    variants = {"minixla": lambda: mx.numpy.add(x, x), "jax": lambda: jnp.add(x, x)}
    yield per_call("eager add, f32[64,64]", variants, rounds, count)


def steps(quick: bool) -> Iterator[Comparison]:
    """One compiled value_and_grad of each model."""
    for model in MODELS:
        arguments = jax.tree.map(jnp.asarray, (model.parameters, *model.batch))
        variants = {}
        for framework in _FRAMEWORKS:
            step = framework.jit(framework.value_and_grad(model.loss(framework)))
            variants[framework.name] = lambda step=step: jax.block_until_ready(step(*arguments))
        yield interleaved(f"step: {model.name}", variants, 20 if quick else 100)


def growth(quick: bool) -> Iterator[Comparison]:
    """Tracing and differentiating chains of 100 to 30,000 operations, per operation."""
    for length in (100, 1_000) if quick else (100, 1_000, 10_000, 30_000):
        variants = {
            "minixla": _chain(mx.numpy.tanh, mx.make_graph, mx.grad, length),
            "jax": _chain(jnp.tanh, jax.make_jaxpr, jax.grad, length),
        }
        rounds = max(2, min(20, 20_000 // length))
        found = interleaved(f"trace + grad of {length:,} operations, each", variants, rounds, "us")
        medians = {name: value / length for name, value in found.medians.items()}
        yield found._replace(medians=medians)


def _chain(tanh: Any, make: Any, grad: Any, length: int) -> Callable[[], Any]:
    def chain(x: Any) -> Any:
        for _ in range(length // 2):
            x = tanh(x) * x
        return x.sum()

    return lambda: make(grad(lambda x: chain(x)))(np.ones(8, np.float32))


def layers(quick: bool) -> Iterator[Comparison]:
    """Compiled gradients of 2x2 max pooling and of batch normalisation."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal((128, 28, 28, 32)), jnp.float32)
    scale, offset = jnp.ones(32), jnp.zeros(32)
    rounds = 10 if quick else 40

    def pooled(framework: Framework) -> Any:
        def loss(x: Any) -> Any:
            return (framework.nn.max_pool(x, (2, 2), (2, 2)) ** 2).sum()

        return framework.jit(framework.value_and_grad(loss))

    def normed(framework: Framework) -> Any:
        def loss(x: Any, scale: Any, offset: Any) -> Any:
            return (framework.nn.batch_norm(x, scale, offset)[0] ** 3).sum()

        return framework.jit(framework.value_and_grad(loss, argnums=(0, 1, 2)))

    for name, make, arguments in (
        ("gradient of max pooling, f32[128,28,28,32]", pooled, (x,)),
        ("gradient of batch norm, f32[128,28,28,32]", normed, (x, scale, offset)),
    ):
        variants = {
            each.name: lambda step=make(each), given=arguments: jax.block_until_ready(step(*given))
            for each in _FRAMEWORKS
        }
        yield interleaved(name, variants, rounds)


#: Every suite by name: a function of `quick` that yields comparisons.
SUITES: dict[str, Callable[[bool], Iterator[Comparison]]] = {
    "tracing": tracing,
    "first_call": first_call,
    "calls": calls,
    "steps": steps,
    "growth": growth,
    "layers": layers,
}
