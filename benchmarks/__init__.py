"""Benchmarks against JAX, in one process and interleaved: `python -m benchmarks`."""

from collections.abc import Callable, Iterator

from benchmarks import (
    arrays,
    convolutions,
    draws,
    extending,
    far,
    importing,
    jax_code,
    linear_algebra,
    making,
    peers,
    running,
    sharding,
    whole_programs,
)
from benchmarks.measure import Comparison, Effort

__all__ = ["ON_REQUEST", "SUITES"]

#: Every suite by name: a function of the effort that yields comparisons.
SUITES: dict[str, Callable[[Effort], Iterator[Comparison]]] = {
    "tracing": making.tracing,
    "nested": making.nested,
    "first_call": making.first_call,
    "growth": making.growth,
    "text": making.text,
    "imports": making.imports,
    "calls": running.calls,
    "eager": running.eager,
    "steps": running.steps,
    "layers": running.layers,
    "convolutions": convolutions.convolutions,
    "reference": running.reference,
    "interpreter": running.interpreter,
    "arrays": arrays.arrays,
    "draws": draws.draws,
    "importing": importing.importing,
    "extending": extending.extending,
    "sharding": sharding.sharding,
    "jax_code": jax_code.jax_code,
    "linear_algebra": linear_algebra.linear_algebra,
    "programs": whole_programs.whole_programs,
    "deep": whole_programs.deep,
    "memory": whole_programs.memory,
}
#: Suites that run only if they are named: they need an extra (`far`, `peers`) or take minutes.
ON_REQUEST: dict[str, Callable[[Effort], Iterator[Comparison]]] = {
    "far": far.far,
    "peers": peers.peers,
    "scale": whole_programs.scale,
}
