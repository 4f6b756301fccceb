"""Gather and Scatter for dimension numbers drawn at random: XLA, derivatives, batches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import minixla_ops as ops
from minixla_ops.indexing.index_numbers import interleaved
from minixla_ops.indexing.scatter_computations import overwrite
from tests.harness import Together, check_batching, check_derivatives


class Case(NamedTuple):
    """Arrays of small integers, dimension numbers as a tuple, and the windows' sizes."""

    operand: np.ndarray
    indices: np.ndarray
    updates: np.ndarray
    numbers: tuple[Any, ...]
    windows: list[int]


INDEX_TYPES = [(np.int8, -3), (np.uint8, 0), (np.int32, -3), (np.uint32, 0)]


def drawn(seed: int) -> Case:
    """A case of rank up to 3 with every part of the dimension numbers; sizes are sometimes 0."""
    generator = np.random.default_rng(seed)
    smallest = int(generator.random() > 0.1)

    def size(limit: int) -> int:
        return int(generator.integers(min(smallest, limit), limit + 1))

    def some(values: list[int]) -> list[int]:
        return [
            int(v) for v in generator.permutation(values)[: generator.integers(len(values) + 1)]
        ]

    rank = int(generator.integers(0, 4))
    sizes = [size(3) for _ in range(rank)]
    batching = sorted(some(list(range(rank))))[:2] if generator.random() < 0.5 else []
    others = [d for d in range(rank) if d not in batching]
    collapsed = sorted(d for d in some(others) if sizes[d])
    moving = some(others)
    inner = [d for d in others if d not in collapsed]
    windows = [size(sizes[d]) if d in inner else min(sizes[d], 1) for d in range(rank)]
    # The windows' own dimensions: those for batching stand among others, in any order.
    extra = [size(3) for _ in range(generator.integers(0, 3))]
    order = generator.permutation(len(extra) + len(batching)).tolist()
    outer = [[*extra, *(sizes[d] for d in batching)][each] for each in order]
    places = [order.index(len(extra) + each) for each in range(len(batching))]
    at = int(generator.integers(0, len(outer) + 1))
    index_sizes = [*outer[:at], len(moving), *outer[at:]]
    if len(moving) == 1 and at == len(outer) and generator.random() < 0.5:
        index_sizes = index_sizes[:-1]
    along = [place + (place >= at) for place in places]
    window_dims = sorted(generator.permutation(len(outer) + len(inner))[: len(inner)].tolist())
    kind, lowest = INDEX_TYPES[generator.integers(len(INDEX_TYPES))]
    indices = generator.integers(lowest, 5, index_sizes).astype(kind)
    update_sizes = interleaved(outer, [windows[d] for d in inner], window_dims)
    return Case(
        generator.integers(-3, 4, sizes).astype(np.float32),
        indices,
        generator.integers(-3, 4, update_sizes).astype(np.float32),
        (window_dims, collapsed, moving, at, batching, along),
        windows,
    )


def affine(old, update):
    return old * 2 + update


COMPUTATIONS = [ops.add, overwrite, affine, ops.max]


def functions_of(seed):
    """A gather and a scatter of the same random case."""
    case = drawn(seed)
    gather_numbers = ops.GatherDimensionNumbers(*case.numbers)
    scatter_numbers = ops.ScatterDimensionNumbers(*case.numbers)
    computation = COMPUTATIONS[seed % 4]

    def gather(x, i):
        return ops.gather(x, i, gather_numbers, case.windows)

    def scatter(x, i, u):
        return ops.scatter(x, i, u, computation, scatter_numbers)

    return gather, scatter


def row_of(seed):
    gather, scatter = functions_of(seed)
    case = drawn(seed)
    return (
        lambda x, i, u: (gather(x, i), scatter(x, i, u)),
        [case.operand, case.indices, case.updates],
        # The interpreter scatters into its operand, which the gather reads as well.
        {"interpreter": False, "signed_zeros": False},
    )


ON_XLA = Together({seed: row_of(seed) for seed in range(30)})


def test_numbers_of_the_other_kind_and_plain_tuples_are_no_equals():
    read = ops.GatherDimensionNumbers((1,), (0,), (0,), 1)
    written = ops.ScatterDimensionNumbers(*read)
    assert read == ops.GatherDimensionNumbers(*written)
    assert read != written
    assert tuple(read) != read
    assert len({read, written, ops.GatherDimensionNumbers(*read)}) == 2


@pytest.mark.parametrize("seed", ON_XLA.rows)
def test_random_dimension_numbers(seed):
    case, (gather, scatter) = drawn(seed), functions_of(seed)
    given = case.operand, case.indices, case.updates
    ON_XLA.check(seed)
    check_batching(gather, given[:2], size=2)
    check_batching(scatter, given, size=2)
    generator = np.random.default_rng(seed)
    x, u = generator.normal(size=case.operand.shape), generator.normal(size=case.updates.shape)
    check_derivatives(lambda x: gather(x, case.indices), [x], order=1)
    check_derivatives(lambda x, u: scatter(x, case.indices, u), [x, u], order=1)
