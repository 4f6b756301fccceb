"""Folds as programs of differentiable operations: what reductions of any computation derive by.

A fold goes over the first dimension of its operands. Where the computation is associative it
combines neighbours in a tree of logarithmic depth, which keeps their order; otherwise it goes one
element at a time, as XLA:CPU evaluates short reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.derived import jvp_graph
from minixla.core.element_types import ElementType
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.tracing import closed_graph, evaluate_graph, shape_of
from minixla_ops.computations import apply_computation, monoid_of
from minixla_ops.evaluation import apply_elementwise
from minixla_ops.rules import array_shape, instantiate, zeros

__all__ = ["fold", "is_associative", "tangent_computation", "tangent_operands"]


def fold(computation: Graph, operands: Sequence[Any], initials: Sequence[Any]) -> list[Any]:
    """Values folded over their first dimension, starting from `initials`.

    Args:
        computation: takes N running values and N elements (scalars), gives N scalars.
        operands: N values of the current trace, of equal dimensions.
        initials: N scalars, or values of the results' dimensions.
    """
    from minixla_ops.operators import broadcast_to

    count, *kept = array_shape(operands[0]).dimensions
    running = [broadcast_to(initial, kept) for initial in initials]
    if count == 0:
        return running
    if count > 2 and is_associative(computation):
        total = [_element(each, 0) for each in _pairwise(computation, list(operands))]
        return apply_computation(computation, [*running, *total])
    for index in range(count):
        elements = [_element(operand, index) for operand in operands]
        running = apply_computation(computation, [*running, *elements])
    return running


def _element(value: Any, index: int) -> Any:
    from minixla_ops.movement import slice_in_dim
    from minixla_ops.reshaping import reshape

    return reshape(slice_in_dim(value, index, index + 1, 0), array_shape(value).dimensions[1:])


def _pairwise(computation: Graph, values: list[Any]) -> list[Any]:
    """Values folded over their first dimension to size 1, neighbours first."""
    from minixla_ops.movement import concat_in_dim, slice_in_dim

    while (count := array_shape(values[0]).dimensions[0]) > 1:
        even = count - count % 2
        lower = [slice_in_dim(value, 0, even, 0, 2) for value in values]
        upper = [slice_in_dim(value, 1, even, 0, 2) for value in values]
        combined = apply_computation(computation, [*lower, *upper])
        if count % 2:
            last = [slice_in_dim(value, even, count, 0) for value in values]
            pairs = zip(combined, last, strict=True)
            combined = [concat_in_dim(pair, 0) for pair in pairs]
        values = combined
    return values


_TRIALS = 64


def is_associative(computation: Graph) -> bool:
    """Whether f(f(a, b), c) = f(a, f(b, c)), as far as trying it on random values in double tells."""
    memo = computation.memo
    if "associative" not in memo:
        memo["associative"] = monoid_of(computation) is not None or _try_associativity(computation)
    return memo["associative"]


def _try_associativity(computation: Graph) -> bool:
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


def tangent_operands(
    computation: Graph, tangents: Sequence[Any], count: int
) -> tuple[Graph, tuple[bool, ...]]:
    """The computation that folds N values together with the tangents of some of them.

    Args:
        computation: f, from 2 N scalars to N.
        tangents: for the N operands and then the N initial values, a tangent or None.
        count: N.

    Returns:
        The computation from (values, tangents, element values, element tangents) to (values,
        tangents), and which of the N values it has a tangent for.
    """
    moving = [
        tangents[index] is not None or tangents[count + index] is not None
        for index in range(count)
    ]
    while True:
        derived = jvp_graph(computation, (*moving, *moving))
        reached = [one or other for one, other in zip(moving, derived.active_outputs, strict=True)]
        if reached == moving:
            return tangent_computation(computation, tuple(moving)), tuple(moving)
        moving = reached
