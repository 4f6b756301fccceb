"""Measure the time before a program runs: import, tracing, derivatives, lowering, compilation."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from benchmarks.measure import Comparison, Effort, interleaved, summary
from benchmarks.models import FRAMEWORKS, Framework, Model, models


def _lowering(framework: Framework, model: Model) -> Callable[[], Any]:
    """Trace, differentiate and lower a new function of the model, which is not cached."""

    def run() -> Any:
        loss = model.loss(framework)
        derived = framework.value_and_grad(lambda *args: loss(*args))
        return framework.jit(lambda *args: derived(*args)).lower(model.parameters, *model.batch)

    return run


def tracing(effort: Effort) -> Iterator[Comparison]:
    """Trace, differentiate and lower value_and_grad of each model."""
    for model in models(effort.small):
        variants = {each.name: _lowering(each, model) for each in FRAMEWORKS}
        name = f"trace + grad + lower: {model.name}"
        yield interleaved(name, variants, effort.rounds(15), collect=True)


def nested(effort: Effort) -> Iterator[Comparison]:
    """Trace and lower nested transformations of each model's loss."""
    for model in models(effort.small):
        for name, transformed in _NESTED.items():
            variants = {
                each.name: partial(_lower_nested, each, model, transformed) for each in FRAMEWORKS
            }
            title = f"{name}: {model.name}"
            yield interleaved(title, variants, effort.rounds(7), collect=True)


def _lower_nested(framework: Framework, model: Model, transformed: Callable[..., Any]) -> Any:
    loss = model.loss(framework)
    function = transformed(framework.library, framework.numpy, lambda *args: loss(*args))
    return framework.jit(lambda *args: function(*args)).lower(model.parameters, *model.batch)


def _squared_gradient(library: Any, numpy: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return the gradient of the squared norm of the gradient."""

    def norm(*args: Any) -> Any:
        leaves = jax.tree.leaves(library.grad(loss)(*args))
        return sum([(leaf * leaf).sum() for leaf in leaves])

    return library.grad(norm)


def _gradient_of_each(library: Any, numpy: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return the gradient for each of two batches."""

    def of_two(parameters: Any, *batch: Any) -> Any:
        pairs = [numpy.stack([each, each]) for each in batch]
        axes = (None, *[0] * len(batch))
        return library.vmap(library.grad(loss), axes)(parameters, *pairs)

    return of_two


_NESTED = {
    "grad of grad": _squared_gradient,
    "vmap of grad": _gradient_of_each,
    "jacrev": lambda library, numpy, loss: library.jacrev(loss),
}


def _compile(lower: Callable[[], Any]) -> Any:
    return lower().compile()


def first_call(effort: Effort) -> Iterator[Comparison]:
    """Measure the same with XLA's compilation: the time until the first step ends."""
    for model in models(effort.small)[: 1 if effort.small else None]:
        variants = {each.name: partial(_compile, _lowering(each, model)) for each in FRAMEWORKS}
        yield interleaved(f"first call: {model.name}", variants, effort.rounds(7), collect=True)
        # XLA's part: a first call cannot be faster than this.
        prepare = {each.name: _lowering(each, model) for each in FRAMEWORKS}
        compiled = dict.fromkeys(prepare, lambda lowered: lowered.compile())
        title = f"  XLA's compilation: {model.name}"
        yield interleaved(title, compiled, effort.rounds(7), prepare=prepare, collect=True)


def growth(effort: Effort) -> Iterator[Comparison]:
    """Measure tracing and differentiating chains of operations, per operation."""
    for length in (10,) if effort.small else (1_000, 10_000):
        yield _chains(effort, length, "trace", lambda function: function, lambda function: function)
    for length in (10, 20) if effort.small else (100, 1_000, 10_000, 30_000):
        yield _chains(effort, length, "trace + grad", mx.grad, jax.grad)
    for length in (10,) if effort.small else (1_000, 10_000, 30_000):
        yield _lowered_chains(effort, length)


def _chains(
    effort: Effort, length: int, name: str, ours: Callable[..., Any], theirs: Callable[..., Any]
) -> Comparison:
    """Measure both frameworks on a transformed chain, each with its own function."""
    x = np.ones(8, np.float32)
    variants = {
        "minixla": lambda: mx.make_graph(ours(_chain(mx.numpy.tanh, length)))(x),
        "jax": lambda: jax.make_jaxpr(theirs(_chain(jnp.tanh, length)))(x),
    }
    return _grown(effort, name, length, variants)


def _lowered_chains(effort: Effort, length: int) -> Comparison:
    """Measure both frameworks tracing, differentiating and lowering a chain."""
    x = np.ones(8, np.float32)
    variants = {
        each.name: lambda each=each: each.jit(
            each.value_and_grad(_chain(each.numpy.tanh, length))
        ).lower(x)
        for each in FRAMEWORKS
    }
    return _grown(effort, "trace + grad + lower", length, variants)


def _grown(
    effort: Effort, name: str, length: int, variants: dict[str, Callable[[], Any]]
) -> Comparison:
    """Return the time to build the program of a chain, per operation."""
    rounds = effort.rounds(max(3, min(20, 50_000 // length)))
    title = f"{name} of {length:,} operations, each"
    return interleaved(title, variants, rounds, "us", per=length, collect=True)


def _chain(tanh: Any, length: int) -> Callable[[Any], Any]:
    """Return a new function of `length` operations, which is not cached."""

    def chain(x: Any) -> Any:
        for _ in range(length // 2):
            x = tanh(x) * x
        return x.sum()

    return chain


def text(effort: Effort) -> Iterator[Comparison]:
    """Measure lowering of a trace, per operation: writing StableHLO, and JAX parsing it."""
    x = np.ones(8, np.float32)
    for length in (10,) if effort.small else (1_000, 10_000):
        rounds = effort.rounds(max(5, min(20, 20_000 // length)))
        yield interleaved(
            f"StableHLO text of {length:,} operations, each",
            {"minixla": lambda graph: graph.stablehlo()},
            rounds,
            "us",
            prepare={"minixla": lambda n=length: mx.make_graph(_chain(mx.numpy.tanh, n))(x)},
            per=length,
            collect=True,
        )
        yield interleaved(
            f"lowering of {length:,} traced operations, each",
            dict.fromkeys(("minixla", "jax"), lambda traced: traced.lower()),
            rounds,
            "us",
            prepare={
                "minixla": lambda n=length: mx.jit(_chain(mx.numpy.tanh, n)).trace(x),
                "jax": lambda n=length: jax.jit(_chain(jnp.tanh, n)).trace(x),
            },
            per=length,
            collect=True,
        )


_FIRST_STEP = """
import numpy as np
def loss(p, x):
    for w, b in p:
        x = numpy.tanh(x @ w + b)
    return (x ** 2).mean()
p = [(np.ones((8, 8), np.float32), np.zeros(8, np.float32))] * 3
print(framework.jit(framework.grad(loss))(p, np.ones((4, 8), np.float32))[0][0].shape)
"""
_PROGRAMS = {
    "import in a new process": {"minixla": "import minixla", "jax": "import jax"},
    "import and first compiled gradient of an MLP": {
        "minixla": "import minixla as framework; numpy = framework.numpy" + _FIRST_STEP,
        "jax": "import jax as framework, jax.numpy as numpy" + _FIRST_STEP,
    },
}


def imports(effort: Effort) -> Iterator[Comparison]:
    """Measure the import in a new process, without Python's own start."""
    for name, programs in list(_PROGRAMS.items())[: 1 if effort.small else None]:
        times: dict[str, list[float]] = {variant: [] for variant in programs}
        for number in range(effort.rounds(7) + 1):
            for variant, program in programs.items():
                elapsed = _process(program) - _process("pass")
                if number:
                    times[variant].append(elapsed)
        yield summary(name, times, "ms")


def _process(program: str) -> float:
    """Return the seconds that a Python process takes to run a program."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    # Python compiles the modules in the warm-up round.
    settings = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": ""}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start
