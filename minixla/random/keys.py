"""Random keys: made of seeds, split, folded into, opened."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import minixla.numpy as mnp
from minixla.core.element_types import U32, canonical_element_type, element_type
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Tracer, one_program
from minixla.engine.random_keys import KeyNumbers, as_key, is_key
from minixla.numpy.operands import lifted, shape_error, static_sizes, value_error
from minixla.random import implementations, sampling
from minixla_ops.elementwise.operators import convert, operand_shape


@api_boundary
def key_dtype(impl_spec: Any = None) -> Any:
    """The type of the keys of an implementation.

    Args:
        impl_spec: "threefry2x32", "rbg", "unsafe_rbg", or such a type; default: JAX's
            `jax_default_prng_impl`, which is "threefry2x32".

    Raises:
        AttributeValueError: there is no such implementation.
    """
    if impl_spec is None:
        return sampling.default_type()
    if isinstance(impl_spec, str) and impl_spec in implementations.IMPLEMENTATIONS:
        return sampling.key_type(impl_spec)
    if impl_spec in map(sampling.key_type, implementations.IMPLEMENTATIONS):
        return impl_spec
    known = " or ".join([f'"{each}"' for each in implementations.IMPLEMENTATIONS])
    problem = "there is no such implementation of random keys"
    raise value_error("key_dtype", problem, f"Give {known}.", given=impl_spec)


@api_boundary
def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> jax.Array:
    """A typed random key: what every function of this module draws from.

    A key always gives the same numbers: `split` it, and use each part once.

    Args:
        seed: an integer.
        impl: the implementation, as for `key_dtype`; or
        dtype: the type of key.

    Returns:
        A JAX key (`jax.random.key`), an array of shape ().

    Raises:
        ShapeError: the seed is no single integer.
        AttributeValueError: there is no such implementation, or both are given.

    Example:
        key = mx.random.key(0)
        key, own = mx.random.split(key)
        noise = mx.random.normal(own, (3,))
    """
    return as_key(*_made("key", seed, _chosen("key", impl, dtype)))


@api_boundary
def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A raw random key: its numbers, an array of u32, which does not say whose key it is.

    Functions take it for one of JAX's `jax_default_prng_impl`. Prefer `key`.

    Args:
        seed: an integer.
        impl: the implementation, as for `key_dtype`.

    Raises:
        ShapeError: the seed is no single integer.
        AttributeValueError: there is no such implementation.
    """
    return _made("PRNGKey", seed, key_dtype(impl))[0]


def _chosen(subject: str, impl: Any, dtype: Any) -> Any:
    if impl is not None and dtype is not None:
        raise value_error(subject, "impl and dtype are both given", "Give one of them.")
    return key_dtype(impl if dtype is None else dtype)


def _made(subject: str, seed: Any, dtype: Any) -> tuple[Any, Any]:
    if is_key(seed):
        raise shape_error(subject, "the seed is a random key", "Give an integer.")
    seed = int(seed) if isinstance(seed, bool) else seed
    shape = operand_shape(seed, subject)
    if shape.rank or not shape.element_type.is_integer:
        advice = "Give an integer; map over several: mx.vmap(mx.random.key)(seeds)."
        raise shape_error(subject, "the seed is no single integer", advice, f"seed {shape}")
    if type(seed) is int:
        # As in JAX, what does not fit into 32 bits loses its high ones without 64-bit mode.
        wide = np.array(seed, np.int64)
        seed = lifted(wide.astype(canonical_element_type(element_type(wide.dtype)).dtype))
    return _of_seed(KeyNumbers(seed, dtype)), dtype


@sampling.as_call()
def _of_seed(key: KeyNumbers) -> Any:
    return sampling.implementation_of(key).seed(key.data)


@one_program("key")
def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """New keys made of a key: an array of them, as typed or raw as it is.

    Args:
        key: a random key; do not use it for anything else afterwards.
        num: how many, or the shape of the array of keys.

    Raises:
        ShapeError: it is no single key.
    """
    given = sampling.single(sampling.typed(key, "split"), "split")
    data = _split(given, static_sizes(num, "split"))
    return given.with_data(data) if is_key(key) else data


@sampling.as_call()
def _split(key: KeyNumbers, sizes: tuple[int, ...]) -> Any:
    return sampling.implementation_of(key).split(key.data, sizes)


@api_boundary
def fold_in(key: Any, data: Any) -> Any:
    """A new key made of a key and a number, as typed or raw as the key is.

    Args:
        key: a random key.
        data: an integer; different ones give different keys.

    Raises:
        ShapeError: it is no single key, or no single integer.
    """
    if not isinstance(data, Tracer) and not hasattr(data, "aval"):
        data = mnp.asarray(data, U32)  # raises an error for negative numbers
    return _key_with(key, data)


@one_program("key", "data")
def _key_with(key: Any, data: Any) -> Any:
    given = sampling.single(sampling.typed(key, "fold_in"), "fold_in")
    shape = operand_shape(data, "fold_in")
    if shape.rank:
        advice = "Map over several: mx.vmap(mx.random.fold_in, (None, 0))(key, numbers)."
        raise shape_error("fold_in", "data is no single number", advice, f"data {shape}")
    numbers = _folded(given, lifted(convert(data, U32)))
    return given.with_data(numbers) if is_key(key) else numbers


@sampling.as_call("data")
def _folded(key: KeyNumbers, data: Any) -> Any:
    return sampling.implementation_of(key).fold_in(key.data, data)


@api_boundary
def key_data(keys: Any) -> Any:
    """The numbers of keys, u32, those of each along the last dimension."""
    return sampling.typed(keys, "key_data").data


@api_boundary
def key_impl(keys: Any) -> str:
    """The name of the implementation that keys are of, "threefry2x32", "rbg" or "unsafe_rbg"."""
    dtype = sampling.typed(keys, "key_impl").dtype
    return next(
        each for each in implementations.IMPLEMENTATIONS if sampling.key_type(each) == dtype
    )


@api_boundary
def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> jax.Array:
    """Typed keys of these numbers, the other way round from `key_data`.

    Args:
        key_bits_array: u32, those of each key along the last dimension.
        impl: the implementation, as for `key_dtype`; or
        dtype: the type of keys.

    Raises:
        ShapeError: these are not the numbers of such keys.
        AttributeValueError: there is no such implementation, or both are given.
    """
    kind = _chosen("wrap_key_data", impl, dtype)
    numbers = sampling.checked_data(key_bits_array, kind, "wrap_key_data")
    return as_key(lifted(numbers), kind)


@api_boundary
def clone(key: Any) -> Any:
    """The same key, for those who draw the same numbers on purpose."""
    sampling.typed(key, "clone")
    return key
