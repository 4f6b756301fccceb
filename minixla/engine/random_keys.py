"""JAX's typed random keys: `jax.random.key` arrays, and their tracers in programs.

`flatten` replaces each key of a pytree by its numbers, which are arrays. Unflattening converts the
numbers back to keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.core
import numpy as np
from jax import tree_util

from minixla.core.batching import BatchTracer
from minixla.core.forward import ForwardTracer
from minixla.core.reverse import LinearTracer, ReverseTracer
from minixla.core.shapes import AnyShape, DeclaredArray, Shape
from minixla.core.tracing import GraphTracer, Tracer
from minixla.engine.jax_private import ArrayImpl, eval_trace, jax_trace_in_force
from minixla.engine.structures import PyTreeDef, with_leaves
from minixla.reference_evaluator.trace import ReferenceTracer
from minixla.typing import Array, PyTree

#: The classes of tracers; JAX looks up classes, not their bases.
_WRAPPING = (ForwardTracer, ReverseTracer, LinearTracer, BatchTracer)
TRACERS = (Tracer, GraphTracer, ReferenceTracer, *_WRAPPING)
# Types whose objects are never keys; most leaves have these types.
_NO_KEYS = {
    *TRACERS,
    *(ArrayImpl, np.ndarray, DeclaredArray, bool, int, float, complex, str),
    *(np.float32, np.float64, np.int32, np.int64, np.bool_),
}


@tree_util.register_pytree_node_class
class KeyNumbers:
    """The numbers of a random key or an array of keys, which represent it in programs.

    Attributes:
        data: the numbers, u32; the last dimension has the numbers of one key.
        dtype: JAX's key type: `key<fry>`, `key<rbg>` or `key<urbg>`.
    """

    __slots__ = ("__weakref__", "data", "dtype")

    def __init__(self, data: Array, dtype: np.dtype) -> None:
        self.data, self.dtype = data, dtype

    @classmethod
    def of(cls, key: Any) -> KeyNumbers:
        """Return the numbers of a key; for a key's shape, the shape of its numbers."""
        if type(key) is KeyTracer:
            return cls(key.data, key.dtype)
        if isinstance(key, jax.Array):
            return cls(numbers_of_key(key), key.dtype)
        return cls(jax.eval_shape(jax.random.key_data, key), key.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimension sizes of the array of keys."""
        return self.data.shape[: -_key_rank(self.dtype)]

    def with_data(self, data: Array) -> KeyNumbers:
        """Return a key of this type with other numbers."""
        return self.tree_unflatten(self.dtype, (data,))

    def tree_flatten(self) -> tuple[tuple[Array], np.dtype]:
        """Return the numbers, and the type of the key."""
        return (self.data,), self.dtype

    @classmethod
    def tree_unflatten(cls, dtype: np.dtype, children: Sequence[Array]) -> Any:
        """Return a key for numbers; float0 zeros and shapes become those of a key."""
        (data,) = children
        if isinstance(data, Tracer):
            return KeyTracer(data, dtype)
        if isinstance(data, (jax.Array, np.ndarray)):
            if data.dtype == np.uint32:
                return _key_of_numbers(jax.numpy.asarray(data), dtype)
            if data.dtype == jax.dtypes.float0:
                return np.zeros(data.shape[: -_key_rank(dtype)], data.dtype)
        if isinstance(data, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(data.shape[: -_key_rank(dtype)], dtype)
        return cls(data, dtype)


class KeyTracer(jax.core.Tracer):
    """A typed JAX key, or an array of keys, whose numbers are traced."""

    __slots__ = ("data",)

    def __init__(self, data: Tracer, dtype: np.dtype) -> None:
        aval = jax.core.ShapedArray(data.shape[: -_key_rank(dtype)], dtype)
        super().__init__(data._trace, aval)
        self.data, self._line_info = data, None


def numbers_of_key(key: Array) -> Array:
    """Return the numbers of a JAX key that is not a KeyTracer."""
    if isinstance(key, jax.core.Tracer):
        return jax.random.key_data(key)
    with jax_trace_in_force(eval_trace):
        return jax.random.key_data(key)


def _key_of_numbers(data: Array, dtype: Any) -> Array:
    if isinstance(data, jax.core.Tracer):
        return jax.random.wrap_key_data(data, dtype=dtype)
    with jax_trace_in_force(eval_trace):
        return jax.random.wrap_key_data(data, dtype=dtype)


@lru_cache(maxsize=64)
def _key_rank(dtype: np.dtype) -> int:
    """Return how many dimensions the numbers of one key have."""
    return len(jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape)


def is_key(leaf: object) -> bool:
    """Return whether a leaf of a pytree is a JAX key or an array of keys."""
    return not isinstance(leaf, (Tracer, type)) and _is_key_type(getattr(leaf, "dtype", None))


def _is_key_type(dtype: Any) -> bool:
    if dtype is None or isinstance(dtype, np.dtype):
        return False
    return jax.numpy.issubdtype(dtype, jax.dtypes.prng_key)


def as_key(numbers: Array, dtype: np.dtype) -> Array:
    """Convert numbers to a key if `dtype` is a key type; otherwise return them unchanged."""
    return KeyNumbers.tree_unflatten(dtype, (numbers,)) if _is_key_type(dtype) else numbers


def flatten(tree: PyTree) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves and the structure of a pytree; each key becomes a KeyNumbers."""
    leaves, structure = tree_util.tree_flatten(tree)
    if _NO_KEYS.issuperset(map(type, leaves)) or not any(map(is_key, leaves)):
        return leaves, structure
    opened = tree_util.tree_map(lambda leaf: KeyNumbers.of(leaf) if is_key(leaf) else leaf, tree)
    return tree_util.tree_flatten(opened)


def _is_ours(node: object) -> bool:
    return isinstance(node, KeyNumbers)


def leaf_paths(tree: PyTree) -> list[tuple[Any, ...]]:
    """Return the paths of the leaves that `flatten` returns (JAX: tree_flatten_with_path)."""
    listed = tree_util.tree_leaves_with_path(tree, is_leaf=_is_ours)
    return [path for path, _ in listed]


@lru_cache(maxsize=4096)
def key_ranks(structure: PyTreeDef) -> tuple[int, ...]:
    """Return for each leaf how many of its last dimensions belong to a key; () without keys."""
    data = structure.node_data()
    if data is not None and data[0] is KeyNumbers:
        return (_key_rank(data[1]),)
    rows = [(key_ranks(child), child.num_leaves) for child in structure.children()]
    if not any(ranks for ranks, _ in rows):
        return ()
    return tuple([rank for ranks, count in rows for rank in ranks or (0,) * count])


def shapes_of_members(structure: PyTreeDef, shapes: list[AnyShape]) -> list[AnyShape]:
    """Return the shapes of a structure's leaves as users see them: a key is a scalar."""
    ranks = key_ranks(structure)
    return [
        s.with_dimensions(s.dimensions[:-rank]) if rank and isinstance(s, Shape) else s
        for s, rank in zip(shapes, ranks or [0] * len(shapes), strict=True)
    ]


def without_keys(structure: PyTreeDef) -> PyTreeDef:
    """Return the structure with a leaf in place of each KeyNumbers, as JAX's functions see it."""
    if not key_ranks(structure):
        return structure
    return with_leaves(structure, lambda kind, _: kind is KeyNumbers)
