"""Plain NumPy code on traced values, and the methods of arrays."""

from __future__ import annotations

import copy
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core import Tracer
from tests.harness import by_jax
from tests.minixla.numpy.tables import assert_close, values

F32, S32 = np.float32, np.int32
X = values(F32, 3, 4, low=0.1)
Y = values(F32, 4, seed=1, low=0.1)
SQUARE = values(F32, 3, 3, low=0.1)

UFUNCS = [
    name
    for name in dir(np)
    if isinstance(getattr(np, name), np.ufunc) and getattr(np, name).__name__ in mnp.__all__
]
INTEGER_UFUNCS = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd"}
INTEGER_UFUNCS |= {"lcm"}
UNARY_INTEGER_UFUNCS = {"bitwise_not", "invert", "bitwise_invert", "bitwise_count"}


def test_there_are_many_ufuncs() -> None:
    assert len(UFUNCS) > 70


@pytest.mark.parametrize("name", UFUNCS)
def test_ufunc(name: str) -> None:
    ufunc = getattr(np, name)
    if name in INTEGER_UFUNCS | UNARY_INTEGER_UFUNCS or "shift" in name:
        args = [values(S32, 3, 4), np.array([1, 2, 0, 1], S32)]
    elif name in ("matmul", "matvec", "vecmat"):
        args = {"matmul": [X, Y], "matvec": [X, Y], "vecmat": [X[:, 0], X]}[name]
    elif name == "ldexp":
        args = [X, np.array([1, 2, 0, -1], S32)]
    elif name in ("arccosh", "acosh"):
        args = [X + 1]
    else:
        args = [X / 4, Y]
    args = args[: ufunc.nin]
    with np.errstate(all="ignore"):
        expected = ufunc(*args)
    for place in range(ufunc.nin):

        def call(x, place=place):
            return ufunc(*args[:place], x, *args[place + 1 :])

        actual = mx.reference(call)(args[place])
        pairs = (
            zip(actual, expected, strict=True)
            if isinstance(expected, tuple)
            else [(actual, expected)]
        )
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=3e-6, atol=1e-6)


def test_methods_of_ufuncs() -> None:
    for method, ufunc in [("reduce", np.add), ("reduce", np.maximum), ("accumulate", np.multiply)]:
        for options in ({}, {"axis": 1}):
            expected = getattr(ufunc, method)(X, **options)
            actual = mx.reference(lambda x, m=method, u=ufunc, o=options: getattr(u, m)(x, **o))(X)
            np.testing.assert_allclose(actual, expected, rtol=1e-6)
    np.testing.assert_allclose(
        mx.reference(lambda x: np.add.reduce(x, axis=None))(X), X.sum(), rtol=1e-6
    )
    np.testing.assert_allclose(
        mx.reference(lambda x: np.multiply.outer(x, Y))(X), np.multiply.outer(X, Y)
    )
    assert mx.reference(lambda x: np.add(x, 1, dtype=np.float16))(X).dtype == np.float16


def plain(x, y):
    """Code that knows of NumPy alone."""
    h = np.tanh(np.dot(x, y)) + np.sum(x, axis=1, keepdims=False)
    h = np.where(h > 0, h, 0.1 * h)
    h = np.concatenate([h, np.mean(x, axis=1)])
    h = h - np.max(h) + 2 * np.ones_like(h)
    return np.sum(np.exp(h) * np.arange(h.shape[0])) + np.linalg.norm(x) + x[0, 1:].std()


def test_plain_numpy_code_is_traced_differentiated_and_batched() -> None:
    expected = plain(X, Y)
    for transformed in (mx.jit(plain), mx.reference(plain), mx.reference(mx.jit(plain))):
        np.testing.assert_allclose(transformed(X, Y), expected, rtol=1e-5)

    def of_jax(x, y):
        h = jnp.tanh(jnp.dot(x, y)) + jnp.sum(x, axis=1)
        h = jnp.where(h > 0, h, 0.1 * h)
        h = jnp.concatenate([h, jnp.mean(x, axis=1)])
        h = h - jnp.max(h) + 2 * jnp.ones_like(h)
        return jnp.sum(jnp.exp(h) * jnp.arange(h.shape[0])) + jnp.linalg.norm(x) + x[0, 1:].std()

    slopes = by_jax(jax.grad(of_jax, (0, 1)), X, Y)
    for way in (mx.reference, mx.jit):
        grad = way(mx.grad(plain, (0, 1)))
        for one, other in zip(grad(X, Y), slopes, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    # Each operation by itself.
    slope = mx.grad(lambda x: np.sum(np.tanh(np.dot(x, Y))))(X)
    np.testing.assert_allclose(slope, np.outer(1 - np.tanh(X @ Y) ** 2, Y), rtol=1e-4, atol=1e-5)
    many = np.stack([X, 2 * X])
    batched = mx.reference(mx.vmap(plain, in_axes=(0, None)))(many, Y)
    np.testing.assert_allclose(batched, [plain(x, Y) for x in many], rtol=1e-5)


FUNCTIONS = {
    "all": (X,),
    "allclose": (X, X),
    "any": (X,),
    "append": (X, Y),
    "argmax": (X,),
    "array_split": (Y, 3),
    "average": (X,),
    "broadcast_to": (Y, (2, 4)),
    "clip": (X, 0.5, 1.0),
    "concatenate": ([X, X],),
    "cumsum": (X, 1),
    "diag": (Y,),
    "diff": (X,),
    "einsum": ("ij,j->i", X, Y),
    "expand_dims": (X, 0),
    "flip": (X,),
    "full_like": (X, 2.0),
    "interp": (Y, np.sort(Y), Y),
    "isclose": (X, X),
    "kron": (X, X),
    "linalg.matrix_power": (SQUARE, 2),
    "linalg.norm": (X, None, 1),
    "max": (X,),
    "mean": (X,),
    "moveaxis": (X, 0, 1),
    "nan_to_num": (X,),
    "nansum": (X,),
    "ndim": (X,),
    "outer": (X, Y),
    "pad": (X, 1),
    "prod": (X,),
    "ravel": (X,),
    "real": (X,),
    "repeat": (X, 2),
    "reshape": (X, (2, -1)),
    "roll": (X, 1),
    "round": (X, 1),
    "shape": (X,),
    "size": (X,),
    "split": (X, 3),
    "squeeze": (X[None],),
    "stack": ([X, X],),
    "std": (X,),
    "sum": (X,),
    "swapaxes": (X, 0, 1),
    "take": (X, np.array([0, 1])),
    "take_along_axis": (X, np.array([[0]]), 1),
    "tensordot": (X, X.T, 1),
    "tile": (X, 2),
    "trace": (SQUARE,),
    "transpose": (X,),
    "tril": (SQUARE,),
    "var": (X,),
    "vstack": ([X, X],),
    "where": (X > 1, X, 0.0),
    "zeros_like": (X,),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpy_function(name: str) -> None:
    function = np
    for part in name.split("."):
        function = getattr(function, part)
    leaves, tree = jax.tree.flatten(FUNCTIONS[name], is_leaf=lambda x: x is None)
    place = next(at for at, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray))

    def call(x):
        return function(*jax.tree.unflatten(tree, [*leaves[:place], x, *leaves[place + 1 :]]))

    expected, actual = call(leaves[place]), mx.reference(call)(leaves[place])
    pairs = (
        zip(actual, expected, strict=True) if isinstance(expected, list) else [(actual, expected)]
    )
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_keywords_of_numpy() -> None:
    np.testing.assert_allclose(
        mx.reference(lambda x: np.clip(x, a_min=1, a_max=2))(X), np.clip(X, 1, 2)
    )
    assert mx.reference(lambda x: np.sum(x, axis=0, keepdims=True))(X).shape == (1, 4)


REFUSED = [
    (
        lambda x: np.add(x, 1, out=np.ones((3, 4))),
        r"numpy\.add: the result cannot be written to out",
    ),
    (lambda x: np.add(x, 1, where=x > 0), r"numpy\.add: the keyword where is not supported"),
    (lambda x: np.arctan2.reduce(x), r"numpy\.arctan2\.reduce: it has no counterpart"),
    (lambda x: np.add.at(x, 0, 1), r"numpy\.add\.at: it has no counterpart"),
    (lambda x: np.concatenate([x, x], casting="no"), r"numpy\.concatenate: the keyword casting"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED, ids=[row[1][:24] for row in REFUSED])
def test_refused(function, message: str) -> None:
    with pytest.raises(mx.UnsupportedError, match=message) as caught:
        mx.jit(function)(X)
    assert "called at" in str(caught.value)
    assert "test_protocols.py" in str(caught.value)


def test_updates_in_place_are_explained() -> None:
    def accumulate(x):
        total = np.zeros((3, 4), F32)
        total += x
        return total

    with pytest.raises(mx.UnsupportedError, match=r"(?s)numpy\.add: .*write total = total \+ x\."):
        mx.jit(accumulate)(X)


def test_numpy_arrays_and_scalars_on_the_left() -> None:
    calls = [
        lambda x: Y * x,
        lambda x: np.float32(2) - x,
        lambda x: np.float64(2) / x,
        lambda x: np.int32(2) ** x,
        lambda x: x < Y - X,
        lambda x: X @ x.T,
        lambda x: jnp.asarray(Y) + x,
    ]
    for call in calls:
        np.testing.assert_allclose(mx.reference(call)(X), call(X), rtol=1e-5)
        assert mx.reference(call)(X).dtype == jax.eval_shape(call, X).dtype


def test_the_array_api_namespace() -> None:
    def norm(x):
        xp = x.__array_namespace__()
        return (
            xp.sqrt(xp.sum(xp.pow(x, 2), axis=-1)),
            xp.concat([x, x], axis=0),
            xp.astype(x, xp.int32),
        )

    actual = mx.reference(norm)(X)
    np.testing.assert_allclose(actual[0], np.sqrt((X**2).sum(-1)), rtol=1e-6)
    assert actual[2].dtype == S32
    with pytest.raises(ValueError, match=r"version '1\.0'"):
        mx.reference(lambda x: x.__array_namespace__(api_version="1.0"))(X)


METHODS = [
    ("all", ()),
    ("any", (1,)),
    ("argmax", ()),
    ("argmin", (0,)),
    ("astype", (np.int32,)),
    ("clip", (0.5, 1)),
    ("conj", ()),
    ("copy", ()),
    ("cumprod", (1,)),
    ("cumsum", ()),
    ("diagonal", ()),
    ("dot", (Y,)),
    ("flatten", ()),
    ("max", ()),
    ("mean", (0,)),
    ("min", (1,)),
    ("prod", ()),
    ("ptp", ()),
    ("ravel", ()),
    ("repeat", (2,)),
    ("reshape", (4, 3)),
    ("reshape", ((2, -1),)),
    ("round", (1,)),
    ("squeeze", ()),
    ("std", ()),
    ("sum", (0,)),
    ("swapaxes", (0, 1)),
    ("take", (np.array([1, 0]),)),
    ("trace", ()),
    ("transpose", ()),
    ("transpose", (1, 0)),
    ("transpose", ((1, 0),)),
    ("var", (0,)),
]


@functools.cache
def methods_of_jax() -> list[Any]:
    return by_jax(lambda x: [getattr(x, name)(*args) for name, args in METHODS], X)


@pytest.mark.parametrize("place", range(len(METHODS)), ids=[str(each) for each in METHODS])
def test_method(place: int) -> None:
    name, args = METHODS[place]
    expected = methods_of_jax()[place]
    assert_close(mx.reference(lambda x: getattr(x, name)(*args))(X), expected)


@pytest.mark.parametrize("name", ["T", "mT", "real", "imag"])
def test_attribute(name: str) -> None:
    expected = by_jax(lambda x: getattr(x, name), X)
    assert_close(mx.reference(lambda x: getattr(x, name))(X), expected)


@pytest.mark.parametrize("name", ["itemsize", "nbytes", "size", "ndim", "shape"])
def test_attribute_that_is_known(name: str) -> None:
    actual = mx.reference(lambda x: getattr(x, name))(X)
    assert jax.tree.map(int, actual) == getattr(jnp.asarray(X), name)


def test_tracers_have_what_jax_arrays_have() -> None:
    theirs = {name for name in dir(jnp.ones(1)) if not name.startswith("_")}
    # About devices, memory and sharding, which a traced value has none of; and sorting.
    not_for_tracers = {
        *("addressable_data", "addressable_shards", "argpartition", "argsort", "aval", "byteswap"),
        *("clone", "committed", "copy_to_host_async", "delete", "device", "device_buffer"),
        *("device_buffers", "devices", "flat", "format", "global_shards", "is_deleted"),
        *("is_fully_addressable", "is_fully_replicated", "is_ready", "on_device_size_in_bytes"),
        *("platform", "sharding", "sort", "to_device", "tobytes", "traceback"),
        *("unsafe_buffer_pointer", "view"),
    }
    missing = theirs - not_for_tracers - set(dir(Tracer))
    assert not missing, missing


def test_python_functions() -> None:
    x = np.array([1.4, 2.6], F32)
    assert mx.reference(lambda x: [round(v) for v in x])(x)[1] == 3
    assert mx.reference(lambda x: copy.deepcopy(x) + copy.copy(x))(x).shape == (2,)
    assert mx.reference(lambda x: sum(x))(x) == pytest.approx(4.0)
    assert mx.reference(lambda x: max(x))(x) == pytest.approx(2.6)


def test_python_branches_on_values_that_are_known() -> None:
    assert mx.grad(lambda x: x * (1.0 if x > 0 else 2.0))(3.0) == 1
