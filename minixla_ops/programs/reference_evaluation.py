"""Evaluation of graphs in NumPy by the reference rules of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.derived import batched_graph
from minixla.core.graph import Graph
from minixla.core.tracing import nested


def reference_graph(graph: Graph, operands: Sequence[object]) -> list[Any]:
    """Evaluate `graph` for NumPy operands (tuples of arrays for tuple shapes)."""
    with nested():
        values = dict(zip(graph.inputs, operands, strict=True))
        for instruction in graph.instructions:
            outcome = instruction.op.reference(
                *[values[operand] for operand in instruction.operands]
            )
            outcomes = (outcome,) if instruction.single else outcome
            for value, array in zip(instruction.results, outcomes, strict=True):
                # NumPy's functions return scalars, which are read-only, for arrays of rank 0.
                values[value] = np.asarray(array) if isinstance(array, np.generic) else array
        return [values[value] for value in graph.outputs]


def apply_elementwise(
    computation: Graph, operands: Sequence[np.ndarray], static: Sequence[object] = ()
) -> list[np.ndarray]:
    """Apply a computation of scalars element by element; `static` values are passed whole."""
    sizes = np.broadcast_shapes(*map(np.shape, operands))
    if not static and all(
        instruction.op.is_elementwise for instruction in computation.instructions
    ):
        results = reference_graph(computation, operands)
        return [np.broadcast_to(result, sizes) for result in results]
    flat = [np.broadcast_to(operand, sizes).reshape(-1) for operand in operands]
    size, places = flat[0].size, (*[0] * len(flat), *[None] * len(static))
    results = reference_graph(batched_graph(computation, places, size).graph, [*flat, *static])
    # A result that does not depend on operands is a scalar.
    return [np.broadcast_to(result, (size,)).reshape(sizes) for result in results]
