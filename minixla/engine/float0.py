"""float0, the type of JAX's zero tangents of integers, whose arrays have no values.

Programs do not contain float0. If a function becomes a program, the arrays of float0 belong to the
structure of its arguments and results.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.tree_util import keystr, register_pytree_node, tree_map, tree_unflatten

from minixla.core.tracing import Tracer
from minixla.engine import random_keys
from minixla.engine.structures import PyTreeDef, nodes, with_leaves
from minixla.typing import ArrayLike, PyTree

FLOAT0 = jax.dtypes.float0


class _Zeros:
    """A node of a structure in place of a float0 array; unflattening restores the array."""

    def __init__(self, dimensions: tuple[int, ...]) -> None:
        self.dimensions = dimensions


def float0_zeros(dimensions: tuple[int, ...]) -> Any:
    """Return an array of float0."""
    return np.zeros(dimensions, FLOAT0)


register_pytree_node(
    _Zeros, lambda zeros: ((), zeros.dimensions), lambda dimensions, _: float0_zeros(dimensions)
)


def is_float0(leaf: object) -> bool:
    """Return whether a leaf of a pytree is an array of float0."""
    return not isinstance(leaf, Tracer) and getattr(leaf, "dtype", None) == FLOAT0


def flatten(tree: PyTree) -> tuple[list[Any], PyTreeDef]:
    """Flatten like `random_keys.flatten`, with float0 arrays in the structure, not as leaves."""
    leaves, structure = random_keys.flatten(tree)
    is_whole = not any(map(is_float0, leaves))
    return (leaves, structure) if is_whole else random_keys.flatten(of_values(tree))


def of_values(tree: PyTree) -> PyTree:
    """Move the float0 arrays of a pytree from its leaves to its structure."""
    return tree_map(lambda leaf: _Zeros(leaf.shape) if is_float0(leaf) else leaf, tree)


def places(name: str, tree: PyTree, with_float0: bool = False) -> list[str]:
    """Return the paths of the leaves of the argument `name`, without those of float0 by default."""
    whole = tree if with_float0 else of_values(tree)
    return [name + keystr(path) for path in random_keys.leaf_paths(whole)]


def structure_places(name: str, structure: PyTreeDef) -> list[str]:
    """Return the paths of the leaves of a structure, for messages."""
    try:
        return places(name, tree_unflatten(structure, range(structure.num_leaves)))
    except Exception:  # a user's container that accepts only arrays
        return [f"leaf {index} of {name}" for index in range(structure.num_leaves)]


@lru_cache(maxsize=1024)
def with_float0(structure: PyTreeDef) -> tuple[PyTreeDef, tuple[bool, ...]]:
    """Return the structure with float0 arrays as leaves, and a flag for each leaf that is one."""

    def is_zeros(kind: type, _: object) -> bool:
        return kind is _Zeros

    zeros = nodes(structure, is_zeros)
    return with_leaves(structure, is_zeros), tuple([node is not None for node in zeros])


class _StandIn(np.ndarray):
    """A placeholder for a float0 array while axes are determined."""


def stand_in(leaf: Any) -> Any:
    """Return the leaf, or for a float0 array a placeholder with its dimensions."""
    return np.broadcast_to(False, leaf.shape).view(_StandIn) if is_float0(leaf) else leaf


def member_of(leaf: Any, axis: int | None) -> np.ndarray | None:
    """Return the float0 zeros of a placeholder, without the mapped axis; None if it is an array."""
    if not isinstance(leaf, _StandIn):
        return None
    return float0_zeros(leaf.shape if axis is None else leaf.shape[:axis] + leaf.shape[axis + 1 :])


def with_axis(tree: PyTree, size: int, axis: int = 0) -> PyTree:
    """Add an axis of `size` to each float0 array of a pytree."""

    def stacked(leaf: Any) -> ArrayLike:
        if not is_float0(leaf):
            return leaf
        at = axis % (leaf.ndim + 1)
        return float0_zeros((*leaf.shape[:at], size, *leaf.shape[at:]))

    return tree_map(stacked, tree)
