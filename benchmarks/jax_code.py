"""Compare JAX code under minixla's transformations with the same code under JAX's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from benchmarks.measure import Comparison, Effort, blocking, interleaved, per_call, summary
from benchmarks.models import JAX, models, random_array

#: The libraries whose transformations are compared, by name.
LIBRARIES: dict[str, Any] = {"minixla": mx, "jax": jax}
#: The number of operations of the function that is differentiated outside of `jit`.
OPERATIONS = 50


class Code(NamedTuple):
    """A loss written in JAX. Each call of `loss` returns a new function, which no cache knows."""

    name: str
    loss: Callable[[], Callable[..., Any]]
    arguments: tuple[Any, ...]


def codes(small: bool = False) -> list[Code]:
    """Return the benchmark's losses: `jax.numpy` and `jax.lax`, Equinox, Flax."""
    plain = [
        Code(model.name, lambda model=model: model.loss(JAX), (model.parameters, *model.batch))
        for model in models(small)
    ]
    return [*plain, equinox_transformer(small), flax_transformer(small)]


def _sizes(small: bool) -> tuple[int, int, int, int]:
    """Return the batch size, length, width and number of heads of the transformers."""
    return (1, 4, 8, 2) if small else (8, 64, 128, 4)


def equinox_transformer(small: bool = False) -> Code:
    """Build a block of attention and a block of dense layers in Equinox."""
    import equinox as eqx

    batch, length, width, heads = _sizes(small)

    class Block(eqx.Module):
        attention: eqx.nn.MultiheadAttention
        dense: eqx.nn.MLP
        norms: list[eqx.nn.LayerNorm]

        def __call__(self, x: Any) -> Any:
            normed = jax.vmap(self.norms[0])(x)
            causal = jnp.tril(jnp.ones((length, length), bool))
            x = x + self.attention(normed, normed, normed, mask=causal)
            return x + jax.vmap(self.dense)(jax.vmap(self.norms[1])(x))

    first, second = jax.random.split(jax.random.key(0))
    block = Block(
        eqx.nn.MultiheadAttention(heads, width, key=first),
        eqx.nn.MLP(width, width, 4 * width, 1, activation=jax.nn.gelu, key=second),
        [eqx.nn.LayerNorm(width) for _ in range(2)],
    )
    parameters, static = eqx.partition(block, eqx.is_array)

    def new_loss() -> Callable[..., Any]:
        def loss(parameters: Any, x: Any, y: Any) -> Any:
            return jnp.mean((jax.vmap(eqx.combine(parameters, static))(x) - y) ** 2)

        return loss

    x = random_array(batch, length, width)
    return Code("transformer in Equinox", new_loss, (parameters, x, x))


def flax_transformer(small: bool = False) -> Code:
    """Build a block of attention and a block of dense layers in Flax."""
    import flax.linen as linen

    batch, length, width, heads = _sizes(small)

    class Block(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            mask = linen.make_causal_mask(jnp.ones(x.shape[:2]))
            x = x + linen.MultiHeadDotProductAttention(heads)(linen.LayerNorm()(x), mask=mask)
            hidden = linen.gelu(linen.Dense(4 * width)(linen.LayerNorm()(x)))
            return x + linen.Dense(width)(hidden)

    block, x = Block(), random_array(batch, length, width)
    parameters = jax.jit(block.init)(jax.random.key(0), x)

    def new_loss() -> Callable[..., Any]:
        return lambda parameters, x, y: jnp.mean((block.apply(parameters, x) - y) ** 2)

    return Code("transformer in Flax", new_loss, (parameters, x, x))


def jax_code(effort: Effort) -> Iterator[Comparison]:
    """Measure tracing, eager derivatives, compiled steps and calls of JAX code."""
    losses = codes(effort.small)
    for code in losses[: 1 if effort.small else None]:
        yield _first_lowering(code, effort)
    for code in losses:
        variants = {name: _lowering(library, code) for name, library in LIBRARIES.items()}
        name = f"JAX code, trace + grad + lower: {code.name}"
        clock = time.process_time
        yield interleaved(name, variants, effort.rounds(15), collect=True, clock=clock)
    yield _eager_gradient(effort)
    for code in losses:
        arguments = jax.tree.map(jnp.asarray, code.arguments)
        variants = {
            name: blocking(library.jit(library.value_and_grad(code.loss())), *arguments)
            for name, library in LIBRARIES.items()
        }
        yield interleaved(f"JAX code, step: {code.name}", variants, effort.rounds(100))
    yield from _calls(effort)


def _lowering(library: Any, code: Code) -> Callable[[], Any]:
    """Return a function that traces, differentiates and lowers a new loss."""
    return lambda: library.jit(library.value_and_grad(code.loss())).lower(*code.arguments)


def _eager_gradient(effort: Effort) -> Comparison:
    """Measure the gradient of a function of many `jax.numpy` operations outside `jit`."""
    x = jnp.linspace(0.1, 1.0, 64)

    def function(x: Any) -> Any:
        y = x
        for _ in range(OPERATIONS // 5):
            y = jnp.tanh(jnp.sin(y) * x + jnp.cos(y))
        return jnp.sum(y)

    variants = {name: blocking(library.grad(function), x) for name, library in LIBRARIES.items()}
    count = 1 if effort.small else 5
    name = f"JAX code, eager gradient of {OPERATIONS} operations"
    return per_call(name, variants, effort.rounds(30), count, "ms")


def _calls(effort: Effort) -> Iterator[Comparison]:
    """Measure calls of small jitted functions."""
    rounds, count = effort.rounds(60), 10 if effort.small else 500
    x = jnp.ones((64, 64))
    parameters = {f"p{index}": jnp.ones(8) for index in range(20)}

    def added(parameters: Any) -> Any:
        return jax.tree.map(lambda x: x + 1, parameters)

    for what, function, argument in (
        ("tanh, f32[64,64]", jnp.tanh, x),
        ("20 arrays", added, parameters),
    ):
        variants = {
            name: partial(library.jit(lambda x, function=function: function(x)), argument)
            for name, library in LIBRARIES.items()
        }
        yield per_call(f"JAX code, jitted call: {what}", variants, rounds, count)


def _first_lowering(code: Code, effort: Effort) -> Comparison:
    """Measure the first lowering in a new process, after that of a one-operation function."""
    times: dict[str, list[float]] = {name: [] for name in LIBRARIES}
    for number in range(effort.rounds(7)):
        for name in list(times)[:: -1 if number % 2 else 1]:
            times[name].append(_in_a_new_process(name, code.name, effort.small))
    return summary(f"JAX code, first trace + grad + lower: {code.name}", times, "ms")


def _in_a_new_process(library: str, name: str, small: bool) -> float:
    """Return the seconds of CPU time of the first lowering."""
    root = Path(__file__).parents[1]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    call = f"first_lowering({library!r}, {name!r}, {small})"
    program = f"from benchmarks.jax_code import first_lowering; print({call})"
    command = [sys.executable, "-c", program]
    environment = os.environ | {"PYTHONPATH": path}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(run.stdout.splitlines()[-1])


def first_lowering(library: str, name: str, small: bool) -> float:
    """Lower a loss in this process, which must not have traced it; return the CPU seconds."""
    transformations = LIBRARIES[library]
    # Load the library's modules and start the backend.
    derived = transformations.value_and_grad(lambda x: jnp.sum(x * x))
    transformations.jit(derived).lower(np.ones(3, np.float32))
    code = next(each for each in codes(small) if each.name == name)
    run = _lowering(transformations, code)
    start = time.process_time()
    run()
    return time.process_time() - start
