"""Measure functions of arrays: sorting, sets, statistics, transforms; eager and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from benchmarks.measure import Comparison, Effort, blocking, interleaved, per_call
from benchmarks.models import FRAMEWORKS

#: Functions of a NumPy-like namespace and a vector of floats.
_PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda np_, x: np_.sort(x),
    "argsort": lambda np_, x: np_.argsort(x),
    "unique, at most 16": lambda np_, x: np_.unique(np_.round(x), size=16),
    "median": lambda np_, x: np_.median(x),
    "percentile": lambda np_, x: np_.percentile(x, 25),
    "searchsorted": lambda np_, x: np_.searchsorted(x, x),
    "histogram": lambda np_, x: np_.histogram(x)[0],
    "cumsum": lambda np_, x: np_.cumsum(x),
    "cumprod": lambda np_, x: np_.cumprod(x),
    "max": lambda np_, x: np_.max(x),
    "argmax": lambda np_, x: np_.argmax(x),
    "convolve with 16 numbers": lambda np_, x: np_.convolve(x, x[:16]),
    "fft": lambda np_, x: np_.fft.fft(x),
    "rfft": lambda np_, x: np_.fft.rfft(x),
    "var": lambda np_, x: np_.var(x),
    "diff": lambda np_, x: np_.diff(x),
    "interp": lambda np_, x: np_.interp(x, x, x),
}


def _vector(size: int) -> Any:
    return jnp.asarray(np.random.default_rng(0).standard_normal(size), jnp.float32)


def arrays(effort: Effort) -> Iterator[Comparison]:
    """Measure eager calls on short vectors, and compiled calls on long vectors."""
    yield from _eager(effort)
    yield from _compiled(effort)


def _eager(effort: Effort) -> Iterator[Comparison]:
    rounds, count = effort.rounds(40), 5 if effort.small else 100
    x = _vector(16)
    for name, program in _PROGRAMS.items():
        variants = {each.name: partial(program, each.numpy, x) for each in FRAMEWORKS}
        yield per_call(f"eager {name}, f32[16]", variants, rounds, count)
    yield from _random(rounds, count, 16)


def _compiled(effort: Effort) -> Iterator[Comparison]:
    size, rounds = 1000 if effort.small else 100_000, effort.rounds(40)
    x = _vector(size)
    for name, program in _PROGRAMS.items():
        variants = {}
        for each in FRAMEWORKS:
            compiled = each.jit(partial(program, each.numpy))
            variants[each.name] = blocking(compiled, x)
        yield interleaved(f"compiled {name}, f32[{size}]", variants, rounds)
    square = _vector(size // 1000 * 1000).reshape(-1, 100)
    for name in ("fft2", "fftn"):
        variants = {}
        for each in FRAMEWORKS:
            compiled = each.jit(getattr(each.numpy.fft, name))
            variants[each.name] = blocking(compiled, square)
        yield interleaved(f"compiled {name}, f32[{len(square)},100]", variants, rounds)
    variants = {}
    for each in FRAMEWORKS:
        variants[each.name] = blocking(each.jit(partial(each.numpy.max, axis=1)), square)
    yield interleaved(f"compiled max over rows, f32[{len(square)},100]", variants, rounds)
    yield from _indices(rounds, size)
    yield from _special(rounds, size)


def _indices(rounds: int, size: int) -> Iterator[Comparison]:
    """The index of the maximum in rows of computed and of random elements."""
    for row in (8, 16, 20, 31, 32, 100):
        table = _vector(size // row * row).reshape(-1, row)
        variants = {}
        for each in FRAMEWORKS:
            compiled = each.jit(lambda x, np_=each.numpy: np_.argmax(x * 2 + 1, axis=1))
            variants[each.name] = blocking(compiled, table)
        title = f"compiled argmax over rows of a sum, f32[{len(table)},{row}]"
        yield interleaved(title, variants, rounds)
    key, logits = jax.random.key(0), _vector(size * 8).reshape(-1, 8)
    draws = {"minixla": mx.random.categorical, "jax": jax.random.categorical}
    variants = {each.name: blocking(each.jit(draws[each.name]), key, logits) for each in FRAMEWORKS}
    yield interleaved(f"compiled random.categorical, f32[{len(logits)},8]", variants, rounds)


def _special(rounds: int, size: int) -> Iterator[Comparison]:
    """Measure compiled special functions; `erfc` also for slower arguments."""
    draw = np.random.default_rng(0).uniform
    a, b = draw(0.1, 5, (2, size)).astype(np.float32)
    share, near = draw(0, 1, size).astype(np.float32), draw(-2, 2, size).astype(np.float32)
    rows = [
        *[(name, "", [a]) for name in ("gamma", "gammaln")],
        *[(name, "", [a, b]) for name in ("beta", "betaln", "gammainc")],
        ("betainc", "", [a, b, share]),
        ("zeta", "", [a + 1, b]),
        ("polygamma", "", [np.full(size, 2, np.int32), b]),
        *[(name, "", [near]) for name in ("erfc", "erfcx", "ndtr", "log_ndtr")],
        ("erfc", " up to 5", [a]),
    ]
    for name, what, operands in rows:
        variants = {}
        for each in FRAMEWORKS:
            compiled = each.jit(getattr(each.library.scipy.special, name))
            variants[each.name] = blocking(compiled, *map(jnp.asarray, operands))
        yield interleaved(f"compiled {name}{what}, f32[{size}]", variants, rounds)


def _random(rounds: int, count: int, size: int) -> Iterator[Comparison]:
    """Measure normal random numbers, if the framework has them."""
    if not hasattr(mx, "random"):
        return
    key = jax.random.key(0)
    draws = {"minixla": mx.random.normal, "jax": jax.random.normal}
    variants = {name: partial(draw, key, (size,)) for name, draw in draws.items()}
    yield per_call(f"eager random normal, f32[{size}]", variants, rounds, count)
