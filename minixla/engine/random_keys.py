"""Typed random keys: ours (`minixla.random.key`), a pytree of their numbers, and JAX's.

Whoever takes a pytree apart with `flatten` finds the numbers in place of the keys. Whoever puts
arrays of JAX's into the structure gets our keys where such were, and JAX's where those were
(`jax.random.key`): a `ForeignKey`, while its numbers are traced.
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
from minixla.engine.structures import with_leaves
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
    """A random key, or an array of keys: a pytree of their numbers.

    Attributes:
        data: the numbers, u32, those of each key along the last dimension.
        dtype: JAX's type of such keys, `key<fry>`, `key<rbg>` or `key<urbg>`.
    """

    __slots__ = ("__weakref__", "data", "dtype")
    __hash__ = None  # type: ignore[assignment]  # as that of arrays: == compares each key

    def __init__(self, data: Any, dtype: Any) -> None:
        self.data = data
        self.dtype = dtype

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
        return map(self.with_data, self.data if len(self) else ())

    def __getitem__(self, index: Any) -> RandomKey:
        own = index if isinstance(index, tuple) else (index,)
        rest = () if any(each is Ellipsis for each in own) else (Ellipsis,)
        return self.with_data(self.data[(*own, *rest, *[slice(None)] * _key_rank(self.dtype))])

    def reshape(self, *sizes: Any) -> RandomKey:
        """The keys in an array of other dimensions."""
        wanted = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        sizes = np.empty(self.shape, np.bool_).reshape(wanted).shape
        return self.with_data(self.data.reshape((*sizes, self.data.shape[-1])))

    def with_data(self, data: Any) -> Any:
        """A key of the same kind that has other numbers."""
        return self.tree_unflatten(self.dtype, (data,))

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, RandomKey) or other.dtype != self.dtype:
            return NotImplemented
        return (self.data == other.data).all(-1)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, RandomKey) or other.dtype != self.dtype:
            return NotImplemented
        return (self.data != other.data).any(-1)

    def __repr__(self) -> str:
        return f"RandomKey<{self.dtype.name}[{','.join(map(str, self.shape))}], {self.data!r}>"

    def tree_flatten(self) -> tuple[tuple[Any], Any]:
        """The numbers, and the type of the key."""
        return (self.data,), self.dtype

    @classmethod
    def tree_unflatten(cls, dtype: Any, children: Sequence[Any]) -> Any:
        """The key of these numbers, or of what stands for them."""
        return cls(children[0], dtype)


@tree_util.register_pytree_node_class
class ForeignKey(RandomKey):
    """A key of JAX's, or an array of such, whose numbers are traced."""

    __slots__ = ()

    @classmethod
    def of(cls, key: Any) -> ForeignKey:
        """The numbers of a key of JAX's, or the shape of the numbers for that of a key."""
        if isinstance(key, jax.Array):
            return cls(jax.random.key_data(key), key.dtype)
        return cls(jax.eval_shape(jax.random.key_data, key), key.dtype)

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


def is_key(leaf: Any) -> bool:
    """Whether a leaf of a pytree is a key of JAX's, or an array of such."""
    return not isinstance(leaf, (Tracer, type)) and _is_key_type(getattr(leaf, "dtype", None))


def _is_key_type(dtype: Any) -> bool:
    if dtype is None or isinstance(dtype, np.dtype):
        return False
    return jax.numpy.issubdtype(dtype, jax.dtypes.prng_key)


def as_key(numbers: Any, dtype: Any) -> Any:
    """Numbers as a key where `dtype` is the type of one; else as they are."""
    return ForeignKey.tree_unflatten(dtype, (numbers,)) if _is_key_type(dtype) else numbers


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a pytree and its structure; keys of JAX's are a ForeignKey in it."""
    leaves, structure = tree_util.tree_flatten(tree)
    if _NO_KEYS.issuperset(map(type, leaves)) or not any(map(is_key, leaves)):
        return leaves, structure
    opened = tree_util.tree_map(lambda leaf: ForeignKey.of(leaf) if is_key(leaf) else leaf, tree)
    return tree_util.tree_flatten(opened)


def with_keys_of_jax(tree: Any) -> Any:
    """The pytree, of JAX's values, with keys of JAX's in place of ours."""
    return tree_util.tree_map(
        lambda each: as_key(each.data, each.dtype) if _is_ours(each) else each,
        tree,
        is_leaf=_is_ours,
    )


def _is_ours(each: Any) -> bool:
    return isinstance(each, RandomKey)


def leaf_paths(tree: Any) -> list[Any]:
    """Where in a pytree each leaf is that `flatten` gives (JAX: tree_flatten_with_path)."""
    listed = tree_util.tree_leaves_with_path(tree, is_leaf=_is_ours)
    return [path for path, _ in listed]


@lru_cache(maxsize=4096)
def key_ranks(structure: Any) -> tuple[int, ...]:
    """For each leaf how many of its last dimensions belong to a key; () where there are no keys."""
    data = structure.node_data()
    if data is not None and data[0] in (RandomKey, ForeignKey):
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
    """The structure with a leaf in place of each ForeignKey, as JAX's own functions see it."""
    if not key_ranks(structure):
        return structure
    return with_leaves(structure, lambda kind, _: kind is ForeignKey)
