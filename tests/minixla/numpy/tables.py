"""What the tests of mx.numpy share: a function of ours against jax.numpy's of the same name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import minixla as mx
import minixla.numpy as mnp

# In units of the type's eps: JAX computes f16 and bf16 partly in f32, we round each operation.
TOLERANCES = {"float16": 8, "bfloat16": 8, "float32": 16, "complex64": 32, "float64": 32}


def values(dtype: Any, *shape: int, seed: int = 0, low: float = -3, high: float = 3) -> np.ndarray:
    """Random values: floats in [low, high), small integers, booleans."""
    generator = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return generator.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        return generator.integers(0 if kind.kind == "u" else -4, 5, shape).astype(kind)
    drawn = generator.uniform(low, high, shape)
    if kind.kind == "c":
        drawn = drawn + 1j * generator.uniform(low, high, shape)
    return drawn.astype(kind)


def named(name: str, module: Any) -> Callable[..., Any]:
    """A function by its dotted name."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def assert_close(actual: Any, expected: Any, units: float | None = None) -> None:
    """Asserts equal structure, dtypes and shapes, and values within `units` of eps."""
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other, units)
        return
    if isinstance(expected, (bool, int, str)):
        assert actual == expected
        return
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype, f"{actual.dtype} instead of {expected.dtype}"
    assert actual.shape == expected.shape, f"{actual.shape} instead of {expected.shape}"
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    units = TOLERANCES[actual.dtype.name] if units is None else units
    tolerance = units * float(ml_dtypes.finfo(actual.dtype).eps)
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        actual.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance
    )


def split(args: Sequence[Any]) -> tuple[list[np.ndarray], Callable[..., list[Any]]]:
    """The arrays in a nest of arguments, and how to put others in their places."""
    leaves, tree = jax.tree.flatten(list(args), is_leaf=lambda x: x is None or isinstance(x, slice))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

    def rebuild(arrays: Sequence[Any]) -> list[Any]:
        filled = list(leaves)
        for at, array in zip(places, arrays, strict=True):
            filled[at] = array
        return jax.tree.unflatten(tree, filled)

    return [leaves[at] for at in places], rebuild


def run(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], by: Callable[..., Any] = mx.reference
) -> Any:
    """What our function gives, with the arrays among its arguments traced."""
    arrays, rebuild = split(args)
    function = named(name, mnp)
    return by(lambda *xs: function(*rebuild(xs), **kwargs))(*arrays)


def check_batched(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Asserts that vmap over the first array of floats gives what single calls give."""
    arrays, rebuild = split(args)
    place = next((at for at, x in enumerate(arrays) if x.dtype.kind in "fcV"), None)
    if place is None:
        return
    function = named(name, mnp)
    members = [arrays[place], (arrays[place] * 0.9).astype(arrays[place].dtype)]

    def call(x: Any) -> Any:
        return function(*rebuild([*arrays[:place], x, *arrays[place + 1 :]]), **kwargs)

    batched = mx.reference(mx.vmap(call, in_axes=-1))(np.stack(members, -1))
    for at, member in enumerate(members):
        one = jax.tree.map(lambda leaf, at=at: leaf[at], batched)
        assert_close(one, mx.reference(call)(member), 64)


def check(
    name: str,
    *args: Any,
    units: float | None = None,
    jit: bool = False,
    batch: bool = True,
    **kwargs: Any,
) -> None:
    """Asserts that our function and JAX's agree, in NumPy evaluation and, with `jit`, compiled.

    With `batch`, also that our function can be batched.
    """
    if batch:
        check_batched(name, args, kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's, of narrowed dtypes
        arrays, rebuild = split(args)
        expected = named(name, jnp)(*rebuild([jnp.asarray(x) for x in arrays]), **kwargs)
        assert_close(run(name, args, kwargs), expected, units)
        if jit:
            assert_close(run(name, args, kwargs, mx.jit), expected, units)


def check_gradient(name: str, *args: Any, units: float = 64, **kwargs: Any) -> None:
    """Asserts that derivatives of a sum of squares of the result agree with JAX's."""
    arrays, rebuild = split(args)
    floats = tuple(at for at, x in enumerate(arrays) if x.dtype.kind in "fc")

    def loss(namespace: Any, *xs: Any) -> Any:
        result = named(name, namespace)(*rebuild(xs), **kwargs)
        leaves = result if isinstance(result, (tuple, list)) else [result]
        return sum((leaf * leaf).sum() for leaf in leaves)

    expected = jax.grad(lambda *xs: loss(jnp, *xs), argnums=floats)(*arrays)
    actual = mx.reference(mx.grad(lambda *xs: loss(mnp, *xs), argnums=floats))(*arrays)
    assert_close(actual, expected, units)
