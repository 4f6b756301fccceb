"""Folds as programs of differentiable operations: what reductions of any computation derive by.

A fold goes over the first dimension of its operands. Where the computation is associative it
combines neighbours in a tree of logarithmic depth, which keeps their order; otherwise it goes one
element at a time, as XLA:CPU evaluates short reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.derived import jvp_graph
from minixla.core.element_types import ElementType
from minixla.core.graph import Graph, remembered
from minixla.core.linear import spread
from minixla.core.tracing import closed_graph, evaluate_graph
from minixla_ops.programs.computations import apply_computation, monoid_of
from minixla_ops.programs.reference_evaluation import apply_elementwise
from minixla_ops.vocabulary.shorthand import array_shape, instantiate

Values = list[Any]


def fold(computation: Graph, operands: Sequence[Any], initials: Sequence[Any]) -> Values:
    """N values of equal dimensions folded over the first.

    They start from N scalars, or values of the results' dimensions. The computation takes N running
    values and N elements (scalars) and gives N scalars.
    """
    count = array_shape(operands[0]).dimensions[0]
    if count > 2 and is_associative(computation):
        operands, count = _fold_pairs(computation, list(operands)), 1
    rows = [
        [_cut(value, index, index + 1, drop=True) for value in operands] for index in range(count)
    ]
    sizes = array_shape(operands[0]).dimensions[1:]
    return fold_in_order(computation, rows, initials, sizes)


def fold_in_order(
    computation: Graph,
    rows: Iterable[Sequence[Any]],
    initials: Sequence[Any],
    sizes: Sequence[int],
    present: Iterable[np.ndarray] | None = None,
) -> Values:
    """`fold` of rows of N values of dimensions `sizes`, one after the other.

    `present` says for each row where it takes part, as booleans whose dimensions of size 1 are
    stretched; default: everywhere.
    """
    running = [
        each if array_shape(each).rank == len(sizes) else ops.broadcast_in_dim(each, sizes, ())
        for each in initials
    ]
    for row, there in zip(rows, repeat(None) if present is None else present, strict=False):
        combined = apply_computation(computation, [*running, *row])
        if there is not None and not there.all():
            whole = spread_mask(there, sizes)
            pairs = zip(combined, running, strict=True)
            combined = [ops.select(whole, new, old) for new, old in pairs]
        running = combined
    return running


def _fold_pairs(computation: Graph, values: Values) -> Values:
    """Values folded over their first dimension to size 1, neighbours first."""
    while (count := array_shape(values[0]).dimensions[0]) > 1:
        even = count - count % 2
        lower = [_cut(value, 0, even, 2) for value in values]
        upper = [_cut(value, 1, even, 2) for value in values]
        combined = apply_computation(computation, [*lower, *upper])
        if count % 2:
            last = [_cut(value, even, count) for value in values]
            combined = [ops.concat_in_dim(pair, 0) for pair in zip(combined, last, strict=True)]
        values = combined
    return values


def spread_mask(mask: np.ndarray, sizes: Sequence[int]) -> Any:
    """A mask with dimensions of size 1 stretched to `sizes`, kept small in the program."""
    return ops.broadcast_in_dim(mask, sizes, range(mask.ndim))


def _cut(value: Any, start: int, limit: int, stride: int = 1, drop: bool = False) -> Any:
    cut = ops.slice_in_dim(value, start, limit, 0, stride)
    return ops.reshape(cut, array_shape(value).dimensions[1:]) if drop else cut


_TRIALS = 64


@remembered
def is_associative(computation: Graph) -> bool:
    """Whether f(f(a, b), c) = f(a, f(b, c)), as far as trying random values in double tells."""
    if monoid_of(computation) is not None:
        return True
    generator = np.random.default_rng(0)
    types = [array_shape(shape).element_type for shape in computation.output_shapes]
    a, b, c = ([_random(kind, generator) for kind in types] for _ in range(3))

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[np.ndarray]:
        return apply_elementwise(computation, [*left, *right])

    with np.errstate(all="ignore"):
        leftwards, rightwards = combine(combine(a, b), c), combine(a, combine(b, c))
        return all(map(_close, leftwards, rightwards))


def _random(kind: ElementType, generator: np.random.Generator) -> np.ndarray:
    """Random numbers, of either sign where there is one; floats in double for clear verdicts."""
    if kind.kind == "pred":
        return generator.integers(0, 2, _TRIALS) > 0
    if kind.is_integer:
        lowest = -(1 << min(kind.bits - 1, 4)) if kind.kind == "signed" else 0
        return generator.integers(lowest, 1 << min(kind.bits - 1, 4), _TRIALS).astype(kind.dtype)
    real = generator.normal(size=_TRIALS)
    return real + 1j * generator.normal(size=_TRIALS) if kind.is_complex else real


def _close(first: np.ndarray, second: np.ndarray) -> bool:
    if first.dtype.kind not in "fc":
        return bool(np.array_equal(first, second))
    finite = np.isfinite(first) & np.isfinite(second)
    return bool(np.allclose(first[finite], second[finite], rtol=1e-3, atol=1e-3))


Halves = tuple[Sequence[Any], Sequence[Any]]


def tangents_of_fold(
    computation: Graph, primals: Halves, tangents: Halves, apply: Callable[..., Sequence[Any]]
) -> tuple[Any, ...]:
    """The tangents of N values that are folded, which are folded together with them; None for zero.

    The values that f, from 2 N scalars to N, is applied to are two lists of N, and so are their
    tangents. `apply` folds lists as long as a computation says, which it gets first.
    """
    moving = [any(each is not None for each in pair) for pair in zip(*tangents, strict=True)]
    if not any(moving):
        return (None,) * len(moving)
    pairs, carried = paired_computation(computation, moving)
    joined = []
    for values, moved in zip(primals, tangents, strict=True):
        columns = zip(moved, values, carried, strict=True)
        joined.append([*values, *(instantiate(t, value) for t, value, flag in columns if flag)])
    return tuple(spread(carried, apply(pairs, *joined)[len(moving) :]))


def paired_computation(
    computation: Graph, moving: Sequence[bool]
) -> tuple[Graph, tuple[bool, ...]]:
    """The computation that folds N values together with tangents, and which of them have one.

    It goes from (values, tangents, element values, element tangents) to (values, tangents);
    `moving` says which values have a tangent at the start.
    """
    moving = tuple(moving)
    while True:
        reached = jvp_graph(computation, (*moving, *moving)).known
        wider = tuple(one or other for one, other in zip(moving, reached, strict=True))
        if wider == moving:
            break
        moving = wider
    return _make_paired(computation, moving), moving


@remembered
def _make_paired(computation: Graph, moving: tuple[bool, ...]) -> Graph:
    derived = jvp_graph(computation, (*moving, *moving))
    count, pairs = len(moving), sum(moving)
    shapes = computation.output_shapes
    tangents = list(compress(shapes, moving))

    def function(*arguments: Any) -> Values:
        running, elements = arguments[: count + pairs], arguments[count + pairs :]
        primals = [*running[:count], *elements[:count]]
        outcome = evaluate_graph(derived.graph, [*primals, *running[count:], *elements[count:]])
        given = map(instantiate, spread(derived.known, outcome[count:]), shapes)
        return [*outcome[:count], *compress(given, moving)]

    name = f"jvp_{computation.name}"
    return closed_graph(function, [*shapes, *tangents] * 2, "reduce", name).pruned()
