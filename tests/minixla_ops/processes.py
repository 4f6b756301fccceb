"""Checks of operations that processes run together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import minixla as mx
from tests.harness import graph_of
from tests.oracles.compare import assert_same
from tests.oracles.parallel import interpret_parallel, run_xla_parallel

Function = Callable[..., Any]


def simulated(
    function: Function, arguments: Sequence[Sequence[Any]], partitions: int = 1
) -> list[list[np.ndarray]]:
    """The leaves of each process's results; 64-bit types stay as they are."""
    rows = [arguments[start : start + partitions] for start in range(0, len(arguments), partitions)]
    with jax.enable_x64(True):
        results = mx.simulate(function, rows)
    return [jax.tree.leaves(each) for row in results for each in row]


def check_processes(
    function: Function,
    arguments: Sequence[Sequence[np.ndarray]],
    *,
    partitions: int = 1,
    ulp: float = 0,
    interpreter: bool = True,
    xla: bool = True,
) -> list[list[np.ndarray]]:
    """Asserts that simulation, StableHLO's interpreter and XLA's replicas agree.

    The interpreter is asked for two processes at most: it runs as many as there are cores.

    Args:
        function: what every process runs.
        arguments: NumPy arrays of each process, partitions innermost.
        partitions: how many partitions each replica has; XLA is asked for 1 only.
        ulp: how far results may be apart.
        interpreter, xla: whether to ask that oracle; leave one out only with a reason.

    Returns:
        The results of each process.
    """
    expected = simulated(function, arguments, partitions)
    graph = graph_of(function, arguments[0])
    opinions = []
    if interpreter and len(arguments) <= 2:
        grid = [[graph] * partitions] * (len(arguments) // partitions)
        opinions.append(("interpreter", interpret_parallel(grid, arguments)))
    if xla and partitions == 1:
        opinions.append(("XLA", run_xla_parallel(graph, arguments)))
    for name, actual in opinions:
        for process, pair in enumerate(zip(expected, actual, strict=True)):
            for one, other in zip(*pair, strict=True):
                what = f"simulation against {name}, process {process}"
                assert_same(one, other, ulp=ulp, name=what)
    return expected


def check_system(
    function: Function,
    arguments: Sequence[Sequence[np.ndarray]],
    *,
    partitions: int = 1,
    order: int = 1,
) -> None:
    """Asserts that derivatives of all processes together, of all results by all inputs, are right.

    Forward mode against central finite differences of the whole system, reverse mode as its
    adjoint; for `order` 2 the same for both derivatives.

    Args:
        function: of f64 arrays; what every process runs.
        arguments: f64 arrays of each process.
        partitions: how many partitions each replica has.
        order: 1 or 2.
    """
    generator = np.random.default_rng(order)
    step = 1e-5

    def noise(rows: Any) -> Any:
        return [[generator.standard_normal(np.shape(x)) for x in row] for row in rows]

    def flat(*xs: Any) -> Any:
        return tuple(jax.tree.leaves(function(*xs)))

    def run(f: Function, *parts: Any) -> Any:
        return simulated(f, [tuple(each) for each in zip(*parts, strict=True)], partitions)

    directions = noise(arguments)
    count = len(arguments[0])

    def forward(xs: Any, ts: Any) -> Any:
        return mx.jvp(flat, tuple(xs), tuple(ts))[1]

    slopes = run(forward, arguments, directions)
    moved = [
        simulated(
            flat,
            [
                tuple(x + sign * step * t for x, t in zip(*row, strict=True))
                for row in zip(arguments, directions, strict=True)
            ],
            partitions,
        )
        for sign in (1, -1)
    ]
    for slope, high, low in zip(slopes, *moved, strict=True):
        for one, above, below in zip(slope, high, low, strict=True):
            np.testing.assert_allclose(one, (above - below) / (2 * step), rtol=1e-5, atol=1e-6)
    cotangents = noise(slopes)

    def reverse(xs: Any, cs: Any) -> Any:
        return mx.vjp(flat, *xs)[1](tuple(cs))

    pulled = run(reverse, arguments, cotangents)
    np.testing.assert_allclose(
        _inner(pulled, directions), _inner(cotangents, slopes), rtol=1e-9, atol=1e-9
    )
    if order > 1:
        joined = [(*xs, *ts) for xs, ts in zip(arguments, directions, strict=True)]
        check_system(
            lambda *both: forward(both[:count], both[count:]), joined, partitions=partitions
        )
        joined = [(*xs, *cs) for xs, cs in zip(arguments, cotangents, strict=True)]
        check_system(
            lambda *both: reverse(both[:count], both[count:]), joined, partitions=partitions
        )


def _inner(first: Any, second: Any) -> float:
    rows = zip(first, second, strict=True)
    return float(sum(np.sum(x * y) for row in rows for x, y in zip(*row, strict=True)))


def check_process_batches(
    function: Function, arguments: Sequence[Sequence[np.ndarray]], axes: Sequence[int | None]
) -> None:
    """Asserts that vmap in every process equals one run for each member.

    Args:
        function: what every replica runs.
        arguments: arrays of each replica, with a batch of 2 where `axes` says so.
        axes: where the batch is in each argument.
    """
    batched = simulated(mx.vmap(function, in_axes=tuple(axes)), arguments)
    for member in range(2):
        given = [
            tuple(
                x if at is None else np.take(x, member, at) for x, at in zip(row, axes, strict=True)
            )
            for row in arguments
        ]
        for one, other in zip(batched, simulated(function, given), strict=True):
            for whole, alone in zip(one, other, strict=True):
                np.testing.assert_allclose(whole[member], alone, rtol=1e-12)
