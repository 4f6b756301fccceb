"""Typed random keys of JAX's (`jax.random.key`) at the border: inside, a key is its numbers.

Whoever takes a pytree apart with `flatten` finds the numbers in place of the keys. Whoever puts
arrays of JAX's into the structure gets JAX's keys, and traced values of ours a `RandomKey`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax import tree_util
from jax._src.array import ArrayImpl

from minixla.core.batching import BatchTracer
from minixla.core.forward import ForwardTracer
from minixla.core.reverse import LinearTracer, ReverseTracer
from minixla.core.shapes import DeclaredArray, Shape
from minixla.core.tracing import GraphTracer, Tracer
from minixla.reference_evaluator.trace import ReferenceTracer

#: The classes of tracers; JAX looks classes up, not their bases.
_WRAPPING = (ForwardTracer, ReverseTracer, LinearTracer, BatchTracer)
TRACERS = (Tracer, GraphTracer, ReferenceTracer, *_WRAPPING)
# Types of which no object is a key: mostly there are no others.
_NO_KEYS = {
    *TRACERS,
    *(ArrayImpl, np.ndarray, DeclaredArray, bool, int, float, complex, str),
    *(np.float32, np.float64, np.int32, np.int64, np.bool_),
}


@tree_util.register_pytree_node_class
class RandomKey:
    """A random key, or an array of keys, whose numbers are traced: a pytree of them."""

    __slots__ = ("__weakref__", "data", "dtype")

    def __init__(self, data: Any, dtype: Any) -> None:
        self.data = data  # the numbers, those of each key along the last dimensions
        self.dtype = dtype  # JAX's type of the key, such as `key<fry>`

    @classmethod
    def of(cls, key: Any) -> RandomKey:
        """The numbers of a key of JAX's, or the shape of the numbers for that of a key."""
        if isinstance(key, jax.Array):
            return cls(jax.random.key_data(key), key.dtype)
        return cls(jax.eval_shape(jax.random.key_data, key), key.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimension sizes of the array of keys."""
        return self.data.shape[: -_key_rank(self.dtype)]

    #: The number of dimensions of the array of keys, and the number of keys.
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a single random key")
        return self.shape[0]

    def __iter__(self) -> Iterator[RandomKey]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> RandomKey:
        own = index if isinstance(index, tuple) else (index,)
        rest = () if any(each is Ellipsis for each in own) else (Ellipsis,)
        return RandomKey(
            self.data[(*own, *rest, *[slice(None)] * _key_rank(self.dtype))], self.dtype
        )

    def reshape(self, *sizes: Any) -> RandomKey:
        """The keys in an array of other dimensions."""
        wanted = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        sizes = np.empty(self.shape, np.bool_).reshape(wanted).shape
        return RandomKey(
            self.data.reshape((*sizes, *self.data.shape[-_key_rank(self.dtype) :])), self.dtype
        )

    def __repr__(self) -> str:
        return f"RandomKey<{self.dtype.name}[{','.join(map(str, self.shape))}], {self.data!r}>"

    def tree_flatten(self) -> tuple[tuple[Any], Any]:
        """The numbers, and the type of the key."""
        return (self.data,), self.dtype

    @classmethod
    def tree_unflatten(cls, dtype: Any, children: Sequence[Any]) -> Any:
        """JAX's key where the numbers are JAX's or NumPy's; float0 and shapes as for JAX's key."""
        (data,) = children
        if isinstance(data, (jax.Array, np.ndarray)):
            if data.dtype == np.uint32:
                return jax.random.wrap_key_data(jax.numpy.asarray(data), dtype=dtype)
            if data.dtype == jax.dtypes.float0:
                return np.zeros(data.shape[: -_key_rank(dtype)], data.dtype)
        if isinstance(data, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(data.shape[: -_key_rank(dtype)], dtype)
        return cls(data, dtype)


@lru_cache(maxsize=64)
def _key_rank(dtype: Any) -> int:
    """How many dimensions the numbers of one key have."""
    return len(jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape)


def _is_key(leaf: Any) -> bool:
    return not isinstance(leaf, Tracer) and _is_key_type(getattr(leaf, "dtype", None))


def _is_key_type(dtype: Any) -> bool:
    if dtype is None or isinstance(dtype, np.dtype):
        return False
    return jax.numpy.issubdtype(dtype, jax.dtypes.prng_key)


def as_key(numbers: Any, dtype: Any) -> Any:
    """Numbers as a key where `dtype` is the type of one; else as they are."""
    return RandomKey.tree_unflatten(dtype, (numbers,)) if _is_key_type(dtype) else numbers


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a pytree and its structure; keys of JAX's are a RandomKey in it."""
    leaves, structure = tree_util.tree_flatten(tree)
    if _NO_KEYS.issuperset(map(type, leaves)) or not any(map(_is_key, leaves)):
        return leaves, structure
    opened = tree_util.tree_map(lambda leaf: RandomKey.of(leaf) if _is_key(leaf) else leaf, tree)
    return tree_util.tree_flatten(opened)


def leaf_paths(tree: Any) -> list[Any]:
    """Where in a pytree each leaf is that `flatten` gives (JAX: tree_flatten_with_path)."""
    listed = tree_util.tree_leaves_with_path(tree, is_leaf=lambda x: isinstance(x, RandomKey))
    return [path for path, _ in listed]


@lru_cache(maxsize=4096)
def key_ranks(structure: Any) -> tuple[int, ...]:
    """For each leaf how many of its last dimensions belong to a key; () where there are no keys."""
    data = structure.node_data()
    if data is not None and data[0] is RandomKey:
        return (_key_rank(data[1]),)
    rows = [(key_ranks(each), each.num_leaves) for each in structure.children()]
    if not any(ranks for ranks, _ in rows):
        return ()
    return tuple([rank for ranks, count in rows for rank in ranks or (0,) * count])


def shapes_of_members(structure: Any, shapes: list[Any]) -> list[Any]:
    """The shapes of the leaves of a structure as users see them: a key is a scalar."""
    ranks = key_ranks(structure)
    return [
        s.with_dimensions(s.dimensions[:-rank]) if rank and isinstance(s, Shape) else s
        for s, rank in zip(shapes, ranks or [0] * len(shapes), strict=True)
    ]


def without_keys(structure: Any) -> Any:
    """The structure with a leaf in place of each RandomKey, as JAX's own functions see it."""
    zeros = [np.zeros((1,) * rank, jax.dtypes.float0) for rank in key_ranks(structure)]
    if not zeros:
        return structure
    return tree_util.tree_structure(tree_util.tree_unflatten(structure, zeros))
