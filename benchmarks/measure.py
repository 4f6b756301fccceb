"""Timing of several variants in turn, so that a slow moment of the machine hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["Comparison", "interleaved", "per_call"]


class Comparison(NamedTuple):
    """Medians of one measurement.

    Attributes:
        name: what was measured.
        unit: of the medians.
        medians: by variant.
        ratio: the median over rounds of minixla's time divided by JAX's in the same round.
        rounds: how many there were.
    """

    name: str
    unit: str
    medians: dict[str, float]
    ratio: float | None
    rounds: int


_SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6}


def interleaved(
    name: str, variants: Mapping[str, Callable[[], Any]], rounds: int, unit: str = "ms"
) -> Comparison:
    """Runs each variant once a round, after one round that does not count.

    Args:
        name: what is measured.
        variants: functions of nothing; `minixla` and `jax` are compared.
        rounds: how many rounds.
        unit: s, ms or us.
    """
    times: dict[str, list[float]] = {variant: [] for variant in variants}
    for number in range(rounds + 1):
        for variant, run in variants.items():
            start = time.perf_counter()
            run()
            elapsed = time.perf_counter() - start
            if number:
                times[variant].append(elapsed)
    return _comparison(name, times, unit, rounds)


def per_call(
    name: str, variants: Mapping[str, Callable[[], Any]], rounds: int, calls: int
) -> Comparison:
    """Time of one call in microseconds; each round makes `calls` calls of each variant."""
    times: dict[str, list[float]] = {variant: [] for variant in variants}
    for number in range(rounds + 1):
        for variant, run in variants.items():
            start = time.perf_counter()
            for _ in range(calls):
                run()
            elapsed = (time.perf_counter() - start) / calls
            if number:
                times[variant].append(elapsed)
    return _comparison(name, times, "us", rounds)


def _comparison(
    name: str, times: Mapping[str, list[float]], unit: str, rounds: int
) -> Comparison:
    scale = _SCALE[unit]
    medians = {variant: statistics.median(each) * scale for variant, each in times.items()}
    ratio = None
    if "minixla" in times and "jax" in times:
        pairs = zip(times["minixla"], times["jax"], strict=True)
        ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    return Comparison(name, unit, medians, ratio, rounds)
