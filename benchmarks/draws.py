"""Measure random draws: lowering, compilation, runs of the compiled program and eager calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Comparison, Effort, blocking, interleaved, per_call
from benchmarks.models import FRAMEWORKS


def _draws(size: int) -> dict[str, Callable[[Any, Any], Any]]:
    """Return draws of `size` elements, functions of a namespace `random` and a key, by name."""
    logits = np.random.default_rng(0).standard_normal((size // 10, 10)).astype(np.float32)
    return {
        "split": lambda random, key: random.split(key, size),
        "uniform": lambda random, key: random.uniform(key, (size,)),
        "normal": lambda random, key: random.normal(key, (size,)),
        "truncated_normal": lambda random, key: random.truncated_normal(key, -1, 2, (size,)),
        "bernoulli": lambda random, key: random.bernoulli(key, 0.3, (size,)),
        "randint": lambda random, key: random.randint(key, (size,), 0, 1000),
        "permutation": lambda random, key: random.permutation(key, size),
        "categorical, 10 each": lambda random, key: random.categorical(key, jnp.asarray(logits)),
    }


def draws(effort: Effort) -> Iterator[Comparison]:
    """Measure draws of many elements in `jit`, and of few outside."""
    size = 100 if effort.small else 100_000
    key = jax.random.key(0)
    for name, draw in _draws(size).items():
        lowered, compiled, runs = {}, {}, {}
        for each in FRAMEWORKS:
            lower = partial(_lowered, each.library, draw, key)
            lowered[each.name] = lower
            compiled[each.name] = lambda lower=lower: lower().compile()
            runs[each.name] = blocking(lower().compile(), key)
        yield interleaved(f"lower: {name}", lowered, effort.rounds(15), collect=True)
        yield interleaved(f"lower and compile: {name}", compiled, effort.rounds(10), collect=True)
        yield interleaved(f"run: {name}", runs, effort.rounds(100), "us")
    for name, draw in {
        "split": lambda random: random.split(key),
        "normal, 1,000 elements": lambda random: random.normal(key, (1000,)),
        "permutation, 16 elements": lambda random: random.permutation(key, 16),
        "key": lambda random: random.key(0),
    }.items():
        variants = {each.name: blocking(draw, each.library.random) for each in FRAMEWORKS}
        yield per_call(f"eager {name}", variants, effort.rounds(40), 2 if effort.small else 100)


def _lowered(library: Any, draw: Callable[[Any, Any], Any], key: Any) -> Any:
    """Trace and lower a draw anew."""
    return library.jit(lambda key: draw(library.random, key)).lower(key)
