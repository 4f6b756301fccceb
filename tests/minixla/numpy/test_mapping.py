"""Functions of parts of arrays, applied to whole ones, against NumPy's and JAX's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import assert_close, values

F32 = np.float32
X = values(F32, 2, 3, 4)
V = values(F32, 5)


def in_all_ways(function, *arrays):
    """What a function gives in NumPy, compiled, and outside of programs."""
    return [evaluate(function)(*arrays) for evaluate in (mx.reference, mx.jit, lambda f: f)]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_apply_along_axis(axis: int) -> None:
    def ends(np_):
        return lambda v, offset: np_.stack([v[0] + offset, v.sum()])

    expected = np.apply_along_axis(ends(np), axis, X, 1)
    found = in_all_ways(lambda x: mnp.apply_along_axis(ends(mnp), axis, x, 1), X)
    for each in found:
        assert_close(each, expected)
    totals = mnp.apply_along_axis(mnp.sum, axis, X)
    assert_close(totals, np.apply_along_axis(np.sum, axis, X))


def test_apply_over_axes() -> None:
    def total(a, axis):
        return a.sum(axis)

    for found in in_all_ways(lambda x: mnp.apply_over_axes(total, x, [0, -1]), X):
        assert_close(found, np.apply_over_axes(np.sum, X, [0, -1]))
    with pytest.raises(ValueError, match="not returning an array of the correct shape"):
        mnp.apply_over_axes(lambda a, axis: a.sum((0, 1)), X, [0])


SIGNATURES = [
    ("(n,k),(k)->(n)", lambda a, b: a @ b, [(4, 1, 2, 3), (5, 3)]),
    ("(),()->()", lambda a, b: a * b, [(4, 1), (5,)]),
    (None, lambda a, b: a * b + 1, [(1, 4), (3, 1)]),
    ("(n)->(n),()", lambda a: (a * 2, a.sum()), [(2, 1, 3)]),
    ("(n)->()", lambda a: a.sum(), [(3,)]),
]


@pytest.mark.parametrize(("signature", "function", "sizes"), SIGNATURES)
def test_vectorize(signature, function, sizes) -> None:
    arrays = [values(F32, *size, seed=at) for at, size in enumerate(sizes)]
    expected = jnp.vectorize(function, signature=signature)(*arrays)
    for found in in_all_ways(mnp.vectorize(function, signature=signature), *arrays):
        assert_close(found, expected)


def test_vectorize_leaves_arguments_as_they_are() -> None:
    function = mnp.vectorize(lambda x, n, *, scale, y=None: x**n * scale, excluded={1, "scale"})
    assert_close(function(V, 3, scale=2.0), V**3 * 2)
    assert_close(mnp.vectorize(lambda a, b: a if b is None else b)(V, None), V)
    scaled = mnp.vectorize(lambda s, v: v * s, excluded={0}, signature="(n)->(n)")
    assert_close(scaled(2, X), 2 * X)  # the signature does not count what is left out
    assert_close(mx.grad(lambda v: mnp.vectorize(mnp.sin)(v).sum())(V), np.cos(V))


def test_piecewise() -> None:
    pieces = [lambda x: -x, lambda x: mx.cond(x > 1, lambda x: x * 2, lambda x: x * 3, x), 7]
    expected = np.where(V < 0, -V, np.where(V > 1, V * 2, np.where(V > 0.5, V * 3, 7)))
    for found in in_all_ways(lambda v: mnp.piecewise(v, [v < 0, v > 0.5], pieces), V):
        assert_close(found, expected.astype(F32))
    for conditions, functions in (([V < 0], [1]), ([V < 0], [1, 2]), ([V < 0, V < 1], [1, 2])):
        assert_close(
            mnp.piecewise(V, conditions, functions), np.piecewise(V, conditions, functions)
        )
    scaled = mnp.piecewise(V, [V < 0], [lambda x, by: x * by, 0], 3)
    assert_close(scaled, np.where(V < 0, V * 3, 0).astype(F32))
    slope = mx.grad(lambda v: mnp.piecewise(v, [v < 0], [lambda x: -x, lambda x: x * x]).sum())(V)
    theirs = jax.grad(lambda v: jnp.piecewise(v, [v < 0], [lambda x: -x, lambda x: x * x]).sum())(V)
    assert_close(slope, theirs)
    roots = mx.grad(lambda v: mnp.piecewise(v, [v > 0], [mnp.sqrt, 0]).sum())(
        np.float32([-1, 0, 4])
    )
    assert_close(roots, np.float32([0, 0, 0.25]))  # what is not taken has no derivative


WRONG = [
    (lambda: mnp.histogram(V, range=3.5), ValueError, "range is not a pair"),
    (lambda: mnp.apply_along_axis(mnp.sum, 3, X), ValueError, "axis 3 is out of bounds"),
]


@pytest.mark.parametrize(("made", "kind", "message"), WRONG)
def test_what_is_wrong_is_said(made, kind, message) -> None:
    with pytest.raises(kind, match=message):
        made()
