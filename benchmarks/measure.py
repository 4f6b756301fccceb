"""Time several variants in turn, so that a slow moment of the machine affects all of them."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax


class Effort(NamedTuple):
    """The amount of measurements.

    Attributes:
        fraction: of the rounds of a full run.
        small: whether to take small models and short chains.
        least: how many rounds there are at least.
    """

    fraction: float
    small: bool = False
    least: int = 2

    def rounds(self, full: int) -> int:
        """Return the number of rounds if a full run has `full`."""
        return max(self.least, round(full * self.fraction))


FULL = Effort(1.0)
QUICK = Effort(0.2)


class Comparison(NamedTuple):
    """The medians of one measurement.

    Attributes:
        name: what was measured.
        unit: of the medians.
        medians: by variant.
        ratio: the median over rounds of minixla's time divided by the other's in the same round;
            None where there is nothing to compare with.
        rounds: how many there were.
        noise: how far the ratio may be off: twice the standard error of a median, from how far the
            rounds are apart.
    """

    name: str
    unit: str
    medians: dict[str, float]
    ratio: float | None
    rounds: int
    noise: float = 0.0


def ratio_of(ours: float, theirs: float) -> float:
    """Return the ratio of two sizes; 1 if they are equal, including zero."""
    return 1.0 if ours == theirs else ours / theirs if theirs else math.inf


def blocking(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """Return a call of a function that waits for its results."""
    return lambda: jax.block_until_ready(function(*arguments))


#: The default clock, in seconds.
clocks: list[Callable[[], float]] = [time.perf_counter]

_SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6}


def interleaved(
    name: str,
    variants: Mapping[str, Callable[..., Any]],
    rounds: int,
    unit: str = "ms",
    *,
    prepare: Mapping[str, Callable[[], Any]] | None = None,
    per: int = 1,
    collect: bool = False,
    clock: Callable[[], float] | None = None,
) -> Comparison:
    """Run each variant once per round, after a warm-up round.

    Every other round runs them in the opposite order.

    Args:
        name: what is measured.
        variants: functions; `minixla` is compared with the other one, `jax` or `interpreter`.
        rounds: how many rounds.
        unit: s, ms or us.
        prepare: for each variant what makes its argument, outside the clock; default: none.
        per: what to divide the times by, such as the number of operations.
        collect: whether to collect garbage before each run, outside the clock, so that none pays
            for what another left.
        clock: gives seconds: `time.process_time` leaves out what other processes do. Default: the
            last of `clocks`.
    """
    clock = clock or clocks[-1]
    times: dict[str, list[float]] = {variant: [] for variant in variants}
    for number in range(rounds + 1):
        order = list(variants.items())
        for variant, run in order[:: -1 if number % 2 else 1]:
            given = () if prepare is None else (prepare[variant](),)
            if collect:
                gc.collect()
            start = clock()
            run(*given)
            elapsed = clock() - start
            if number:
                times[variant].append(elapsed / per)
    return summary(name, times, unit)


def per_call(
    name: str,
    variants: Mapping[str, Callable[[], Any]],
    rounds: int,
    calls: int,
    unit: str = "us",
) -> Comparison:
    """Return the time of one call; each round runs `calls` calls of each variant in a row."""

    def repeated(run: Callable[[], Any]) -> Callable[[], None]:
        def runs() -> None:
            for _ in range(calls):
                run()

        return runs

    loops = {variant: repeated(run) for variant, run in variants.items()}
    return interleaved(name, loops, rounds, unit, per=calls)


def other_variant(variants: Mapping[str, Any]) -> str | None:
    """Return the variant that minixla is compared with."""
    return next((variant for variant in variants if variant != "minixla"), None)


def summary(name: str, times: Mapping[str, Sequence[float]], unit: str) -> Comparison:
    """Compare times in seconds, by variant and round."""
    scale = _SCALE[unit]
    medians = {variant: statistics.median(each) * scale for variant, each in times.items()}
    rounds = min(len(each) for each in times.values())
    ratio, noise = None, 0.0
    other = other_variant(times)
    if "minixla" in times and other is not None:
        pairs = zip(times["minixla"], times[other], strict=True)
        ratios = [ours / theirs for ours, theirs in pairs]
        ratio = statistics.median(ratios)
        # 1.48 converts the median of distances to the deviation of a normal distribution; 1.25
        # converts the error of a mean to that of a median.
        spread = 1.48 * statistics.median([abs(each - ratio) for each in ratios])
        noise = 2 * 1.25 * spread / math.sqrt(rounds)
    return Comparison(name, unit, medians, ratio, rounds, noise)


def merged(repeated: Sequence[Comparison]) -> Comparison:
    """Combine several runs: return the run with the median ratio, and the noise of all.

    The noise reaches to the worst of them: what runs differ in is not seen within one.
    """
    first, *_ = repeated
    if first.ratio is None:
        return first
    ordered = sorted(repeated, key=lambda each: each.ratio or 0.0)
    middle, worst = ordered[(len(ordered) - 1) // 2], ordered[-1]
    assert middle.ratio is not None and worst.ratio is not None
    return middle._replace(noise=max(middle.noise, worst.ratio - middle.ratio))
