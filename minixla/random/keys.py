"""Random keys: creating, splitting and reading them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import minixla.numpy as mnp
from minixla.core.docstrings import documented
from minixla.core.element_types import U32, canonical_element_type, element_type
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Tracer, one_program
from minixla.engine.random_keys import KeyNumbers, as_key, is_key
from minixla.numpy.operands import lifted, shape_error, static_sizes, value_error
from minixla.random import implementations, sampling
from minixla.typing import Array, ArrayLike, DTypeLike, KeyLike
from minixla_ops.elementwise.operators import convert, operand_shape

_SHARED = """
Args:
    key: a random key from `key`, `split` or `fold_in`, a raw key (`PRNGKey`), or a JAX key.
    keys: a random key, or an array of keys.
    seed: an integer.
    impl: the implementation, as for `key_dtype`; not together with `dtype`.
    dtype: the dtype of the key, as from `key_dtype`; not together with `impl`.
"""


@documented(_SHARED)
@api_boundary
def key_dtype(impl_spec: Any = None) -> Any:
    """Return the dtype of the keys of an implementation (JAX: `jax.random.key_dtype`).

    Args:
        impl_spec: "threefry2x32", "rbg", "unsafe_rbg", or the dtype of their keys; default: the
            value of `jax_default_prng_impl`, usually "threefry2x32".

    Returns:
        The dtype, which typed JAX keys have, too.

    Raises:
        AttributeValueError: the implementation is unknown.

    Example:
        >>> mx.random.key_dtype("threefry2x32")
        key<fry>
    """
    if impl_spec is None:
        return sampling.default_type()
    if isinstance(impl_spec, str) and impl_spec in implementations.IMPLEMENTATIONS:
        return sampling.key_type(impl_spec)
    if impl_spec in map(sampling.key_type, implementations.IMPLEMENTATIONS):
        return impl_spec
    names = " or ".join([f'"{name}"' for name in implementations.IMPLEMENTATIONS])
    problem = "the implementation of random keys is unknown"
    raise value_error("key_dtype", problem, f"Pass {names}.", given=impl_spec)


@documented(_SHARED)
@api_boundary
def key(seed: ArrayLike, *, impl: Any = None, dtype: DTypeLike | None = None) -> Array:
    """Create a typed random key (JAX: `jax.random.key`).

    All functions of this module draw from keys. The same key always yields the same numbers:
    `split` it, and use each part once.

    Returns:
        A JAX key, an array of shape ().

    Raises:
        ShapeError: the seed is not a single integer.
        AttributeValueError: the implementation is unknown, or `impl` and `dtype` are both given.

    Example:
        >>> key, subkey = mx.random.split(mx.random.key(0))
        >>> mx.random.normal(subkey, (2,))
        Array([-2.4424558, -2.0356805], dtype=float32)
    """
    return as_key(*_made("key", seed, _chosen("key", impl, dtype)))


@documented(_SHARED)
@api_boundary
def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
    """Create a raw random key, an array of u32 (JAX: `jax.random.PRNGKey`).

    A raw key does not know its implementation: functions assume `jax_default_prng_impl`. Prefer
    `key`.

    Args:
        impl: the implementation, as for `key_dtype`.

    Returns:
        An array of u32.

    Raises:
        ShapeError: the seed is not a single integer.
        AttributeValueError: the implementation is unknown.

    Example:
        >>> mx.random.PRNGKey(7)
        Array([0, 7], dtype=uint32)
    """
    return _made("PRNGKey", seed, key_dtype(impl))[0]


def _chosen(subject: str, impl: Any, dtype: Any) -> Any:
    if impl is not None and dtype is not None:
        raise value_error(subject, "impl and dtype are both given", "Pass one of them.")
    return key_dtype(impl if dtype is None else dtype)


def _made(subject: str, seed: Any, dtype: Any) -> tuple[Any, Any]:
    if is_key(seed):
        raise shape_error(subject, "the seed is a random key", "Pass an integer.")
    seed = int(seed) if isinstance(seed, bool) else seed
    shape = operand_shape(seed, subject)
    if shape.rank or not shape.element_type.is_integer:
        advice = "Pass an integer; map over several: mx.vmap(mx.random.key)(seeds)."
        raise shape_error(subject, "the seed is not a single integer", advice, f"seed {shape}")
    if type(seed) is int:
        # As in JAX, without 64-bit mode an integer keeps only its lowest 32 bits.
        wide = np.array(seed, np.int64)
        seed = lifted(wide.astype(canonical_element_type(element_type(wide.dtype)).dtype))
    return _of_seed(KeyNumbers(seed, dtype)), dtype


@sampling.as_call()
def _of_seed(key: KeyNumbers) -> Any:
    return sampling.implementation_of(key).seed(key.data)


@documented(_SHARED)
@one_program("key")
def split(key: KeyLike, num: int | Sequence[int] = 2) -> Array:
    """Create new keys from a key (JAX: `jax.random.split`).

    Args:
        key: a random key; do not use it again.
        num: the number of new keys, or the shape of the array of keys.

    Returns:
        An array of keys, typed or raw like `key`. Raw keys have their numbers along the last
        dimension.

    Raises:
        ShapeError: `key` is not a single random key.

    Example:
        >>> mx.random.split(mx.random.key(0), 3).shape
        (3,)
    """
    parent = sampling.single(sampling.typed(key, "split"), "split")
    data = _split(parent, static_sizes(num, "split"))
    keys: Any = parent.with_data(data) if is_key(key) else data
    return keys


@sampling.as_call()
def _split(key: KeyNumbers, sizes: tuple[int, ...]) -> Any:
    return sampling.implementation_of(key).split(key.data, sizes)


@documented(_SHARED)
@api_boundary
def fold_in(key: KeyLike, data: ArrayLike) -> Array:
    """Create a new key from a key and an integer (JAX: `jax.random.fold_in`).

    Args:
        data: an integer; different integers yield different keys.

    Returns:
        A key, typed or raw like `key`.

    Raises:
        ShapeError: `key` is not a single random key, or `data` is not a single integer.

    Example:
        >>> key = mx.random.key(0)
        >>> mx.random.uniform(mx.random.fold_in(key, 1)) != mx.random.uniform(key)
        Array(True, dtype=bool)
    """
    if not isinstance(data, Tracer) and not hasattr(data, "aval"):
        data = mnp.asarray(data, U32)  # raises an error for negative numbers
    return _key_with(key, data)


@one_program("key", "data")
def _key_with(key: Any, data: Any) -> Any:
    parent = sampling.single(sampling.typed(key, "fold_in"), "fold_in")
    shape = operand_shape(data, "fold_in")
    if shape.rank:
        advice = "Map over several: mx.vmap(mx.random.fold_in, (None, 0))(key, numbers)."
        raise shape_error("fold_in", "data is not a single number", advice, f"data {shape}")
    numbers = _folded(parent, lifted(convert(data, U32)))
    return parent.with_data(numbers) if is_key(key) else numbers


@sampling.as_call("data")
def _folded(key: KeyNumbers, data: Any) -> Any:
    return sampling.implementation_of(key).fold_in(key.data, data)


@documented(_SHARED)
@api_boundary
def key_data(keys: KeyLike) -> Array:
    """Return the numbers of keys (JAX: `jax.random.key_data`).

    Returns:
        An array of u32, with the numbers of each key along the last dimension.

    Raises:
        ShapeError: `keys` are not random keys.

    Example:
        >>> mx.random.key_data(mx.random.key(7))
        Array([0, 7], dtype=uint32)
    """
    return sampling.typed(keys, "key_data").data


@documented(_SHARED)
@api_boundary
def key_impl(keys: KeyLike) -> str:
    """Return the name of the implementation of keys (JAX: `jax.random.key_impl`).

    Returns:
        "threefry2x32", "rbg" or "unsafe_rbg".

    Raises:
        ShapeError: `keys` are not random keys.

    Example:
        >>> mx.random.key_impl(mx.random.key(0))
        'threefry2x32'
    """
    dtype = sampling.typed(keys, "key_impl").dtype
    return next(
        name for name in implementations.IMPLEMENTATIONS if sampling.key_type(name) == dtype
    )


@documented(_SHARED)
@api_boundary
def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Create typed keys from their numbers, the inverse of `key_data`.

    JAX: `jax.random.wrap_key_data`.

    Args:
        key_bits_array: an array of u32, with the numbers of each key along the last dimension.

    Returns:
        A key, or an array of keys.

    Raises:
        ShapeError: the numbers do not fit the implementation.
        AttributeValueError: the implementation is unknown, or `impl` and `dtype` are both given.

    Example:
        >>> mx.random.wrap_key_data(np.uint32([0, 7])).shape
        ()
    """
    kind = _chosen("wrap_key_data", impl, dtype)
    numbers = sampling.checked_data(key_bits_array, kind, "wrap_key_data")
    return as_key(lifted(numbers), kind)


@documented(_SHARED)
@api_boundary
def clone(key: KeyLike) -> Array:
    """Return the same key, to draw the same numbers on purpose (JAX: `jax.random.clone`).

    Returns:
        A key with the same numbers.

    Raises:
        ShapeError: `key` is not a random key.

    Example:
        >>> key = mx.random.key(0)
        >>> mx.random.uniform(mx.random.clone(key)) == mx.random.uniform(key)
        Array(True, dtype=bool)
    """
    sampling.typed(key, "clone")
    same: Any = key
    return same
