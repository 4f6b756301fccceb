"""Folds as programs of differentiable operations, from which derivatives of reductions follow.

A fold runs over the first dimension of its operands. If the computation is associative, neighbors
are combined in a tree of logarithmic depth, which keeps their order. Otherwise elements are
combined one after the other, as XLA evaluates short reductions.
"""

from __future__ import annotations

import operator
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
from minixla.typing import Array
from minixla_ops.elementwise.conversion import sign_bit
from minixla_ops.helpers.batch_dimensions import batch_member
from minixla_ops.helpers.shorthand import (
    Values,
    array_shape,
    instantiate,
    zeros_like,
)
from minixla_ops.programs.computations import apply_computation, monoid_of
from minixla_ops.programs.reference_evaluation import apply_elementwise


def fold(computation: Graph, operands: Values, initials: Values) -> list[Any]:
    """Fold over the first dimension, from scalars or values with the results' dimensions."""
    count = array_shape(operands[0]).dimensions[0]
    in_pairs = count > 2 and is_associative(computation)
    while in_pairs and count > 1:
        even = count - count % 2
        lower, upper = (
            [ops.slice_in_dim(value, start, even, 0, 2) for value in operands] for start in (0, 1)
        )
        combined = apply_computation(computation, [*lower, *upper])
        if count % 2:
            last = [ops.slice_in_dim(value, even, count, 0) for value in operands]
            combined = [ops.concat_in_dim(pair, 0) for pair in zip(combined, last, strict=True)]
        operands, count = combined, (count + 1) // 2
    rows = [[batch_member(value, 0, index) for value in operands] for index in range(count)]
    return fold_in_order(computation, rows, initials, array_shape(operands[0]).dimensions[1:])


def fold_in_order(
    computation: Graph,
    rows: Iterable[Values],
    initials: Values,
    sizes: Sequence[int],
    present: Iterable[np.ndarray] | None = None,
) -> list[Any]:
    """Fold rows of N values with dimensions `sizes`, one after the other.

    `present` marks where each row takes part (default: everywhere); sizes of 1 are stretched.
    """
    running = [_over(initial, sizes) for initial in initials]
    for row, there in zip(rows, repeat(None) if present is None else present, strict=False):
        combined = apply_computation(computation, [*running, *row])
        if there is not None and not there.all():
            whole = spread_mask(there, sizes)
            pairs = zip(combined, running, strict=True)
            combined = [ops.select(whole, new, old) for new, old in pairs]
        running = combined
    return running


def _over(initial: Array, sizes: Sequence[int]) -> Array:
    is_scalar = array_shape(initial).rank < len(sizes)
    return ops.broadcast_in_dim(initial, sizes, ()) if is_scalar else initial


def started(computation: Graph, initial: Array, total: Array) -> Array:
    """Return a monoid's fold from `initial`, given the fold `total` from the first element."""
    kind, sizes = array_shape(total).element_type, array_shape(total).dimensions
    initial = _over(initial, sizes)
    (result,) = apply_computation(computation, [initial, total])
    # Signs of 6-bit floats cannot be read: 6-bit integers do not exist. No backend has such floats.
    if monoid_of(computation) != "add" or not kind.is_float or kind.bits == 6:
        return result
    # XLA simplifies 0 + x to x, even if x is -0.
    is_negative_zero = ops.and_(ops.eq(total, zeros_like(total)), sign_bit(total))
    return ops.select(is_negative_zero, initial, result)


def spread_mask(mask: np.ndarray, sizes: Sequence[int]) -> Array:
    """Stretch a mask's dimensions of size 1 to `sizes`, with a small constant in the program."""
    return ops.broadcast_in_dim(mask, sizes, range(mask.ndim))


_TRIALS = 64


@remembered
def is_associative(computation: Graph) -> bool:
    """Test whether f(f(a, b), c) == f(a, f(b, c)) on random values in f64."""
    if monoid_of(computation) is not None:
        return True
    generator = np.random.default_rng(0)
    types = [array_shape(shape).element_type for shape in computation.output_shapes]
    a, b, c = ([_random(kind, generator) for kind in types] for _ in range(3))
    with np.errstate(all="ignore"):
        left = apply_elementwise(computation, [*apply_elementwise(computation, [*a, *b]), *c])
        right = apply_elementwise(computation, [*a, *apply_elementwise(computation, [*b, *c])])
        return all(map(_close, left, right))


def _random(kind: ElementType, generator: np.random.Generator) -> np.ndarray:
    """Draw random numbers, of both signs if possible; floats in f64 for clear results."""
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


Halves = tuple[Sequence[Array | None], Sequence[Array | None]]


def tangents_of_fold(
    computation: Graph, primals: Halves, tangents: Halves, apply: Callable[..., Values]
) -> tuple[Array | None, ...]:
    """Fold the tangents of N values together with the values; None stands for zero.

    `apply` is called with the combined computation and two lists of equal length.
    """
    pairs = zip(*tangents, strict=True)
    moving = tuple([any(tangent is not None for tangent in pair) for pair in pairs])
    if not any(moving):
        return (None,) * len(moving)
    together, carried = paired_computation(computation, moving)
    joined = []
    for values, moved in zip(primals, tangents, strict=True):
        columns = zip(moved, values, carried, strict=True)
        joined.append([*values, *(instantiate(t, value) for t, value, flag in columns if flag)])
    return tuple(spread(carried, apply(together, *joined)[len(moving) :]))


@remembered
def paired_computation(
    computation: Graph, moving: tuple[bool, ...]
) -> tuple[Graph, tuple[bool, ...]]:
    """Return the computation that folds values with tangents, and which values have tangents.

    `moving` marks the values that have a tangent at the start.
    """
    while True:
        derived = jvp_graph(computation, (*moving, *moving))
        wider = tuple(map(operator.or_, moving, derived.known))
        if wider == moving:
            break
        moving = wider
    count, pairs = len(moving), sum(moving)
    shapes = computation.output_shapes
    tangents = list(compress(shapes, moving))

    def function(*arguments: Array) -> list[Array]:
        running, elements = arguments[: count + pairs], arguments[count + pairs :]
        primals = [*running[:count], *elements[:count]]
        outcome = evaluate_graph(derived.graph, [*primals, *running[count:], *elements[count:]])
        tangents = map(instantiate, spread(derived.known, outcome[count:]), shapes)
        return [*outcome[:count], *compress(tangents, moving)]

    name = f"jvp_{computation.name}"
    graph = closed_graph(function, [*shapes, *tangents] * 2, "reduce", name).pruned()
    return graph, moving
