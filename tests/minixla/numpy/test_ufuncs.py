"""Methods of ufuncs against NumPy's; ufuncs made of functions of scalars."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import assert_close, values

F32 = np.float32
X = values(F32, 3, 4)
N = values(np.int32, 3, 4)
OF_TWO = ["add", "subtract", "multiply", "maximum", "minimum", "logaddexp", "logaddexp2"]
OF_TWO += [f"{kind}_{name}" for kind in ("bitwise", "logical") for name in ("and", "or", "xor")]
CALLS = {
    "reduce": ({}, {"axis": 1}, {"axis": -1, "keepdims": True}),
    "accumulate": ({}, {"axis": 1}),
    "reduceat": ({"indices": np.array([0, 2, 1])}, {"indices": np.array([2, 0]), "axis": 1}),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_methods_are_numpys(name: str) -> None:
    x = N if name.startswith("bitwise") else X
    ours, theirs = getattr(mnp, name), getattr(np, name)
    assert isinstance(ours, mnp.ufunc)
    assert (ours.nin, ours.nout, ours.nargs) == (2, 1, 3)
    for method, rows in CALLS.items():
        for options in rows:
            expected = getattr(theirs, method)(x, **options)
            found = mx.reference(lambda x, m=method, o=options: getattr(ours, m)(x, **o))(x)
            assert_close(found, expected, 64)
    assert_close(ours.outer(x, x[0]), theirs.outer(x, x[0]), 64)
    if name != "subtract":
        assert_close(ours.reduce(x, axis=None), theirs.reduce(x, axis=None), 64)


def test_reductions_of_some_elements() -> None:
    mask = X > 0
    for name, initial in (("add", 2.0), ("maximum", -9.0), ("logaddexp", -1.0), ("subtract", 3.0)):
        for where in (mask, None):
            options = {"axis": 1, "initial": initial, **({} if where is None else {"where": where})}
            expected = getattr(np, name).reduce(X, **options)
            found = mx.jit(functools.partial(getattr(mnp, name).reduce, **options))(X)
            assert_close(found, expected, 64)


def test_elements_at_indices() -> None:
    places, changes = np.array([0, 2, 0]), np.array([[1.0], [2.0], [3.0]], F32)
    for name in ("add", "subtract", "multiply", "maximum", "logaddexp"):
        expected = X.copy()
        getattr(np, name).at(expected, places, changes)
        updated = functools.partial(getattr(mnp, name).at, inplace=False)
        found = mx.jit(updated)(X, places, changes)
        assert_close(found, expected, 64)
    expected = X.copy()
    np.negative.at(expected, [1])
    assert_close(mnp.negative.at(X, np.array([1]), inplace=False), expected)


def test_ufuncs_of_functions_of_scalars() -> None:
    step = mnp.frompyfunc(lambda a, b: a * b + 1, 2, 1, identity=0)
    assert_close(step(X, X[0]), X * X[0] + 1)
    expected = [X[0]]
    for row in X[1:]:
        expected.append(expected[-1] * row + 1)
    assert_close(step.accumulate(X), np.array(expected))
    first = np.zeros(4, F32)
    for row in X:
        first = first * row + 1
    assert_close(mx.jit(step.reduce)(X), first)
    assert mx.grad(lambda x: step.reduce(x).sum())(X).shape == X.shape
    pair = mnp.frompyfunc(lambda a: (a, -a), 1, 2)
    assert [each.shape for each in pair(X)] == [X.shape] * 2


def test_ufuncs_are_pickled_by_name_and_shown() -> None:
    assert pickle.loads(pickle.dumps(mnp.add)) is mnp.add
    assert repr(mnp.add) == "<minixla.numpy.ufunc 'add'>"


WRONG = [
    (lambda: mnp.add(X, X, out=X), "add: out and where are not supported"),
    (lambda: mnp.negative.reduce(X), "it has 1 arguments and 1 results.*reduce is not supported"),
    (lambda: mnp.subtract.reduce(X, where=X > 0), "subtract: it has no identity"),
    (lambda: mnp.add.at(X, 0, 1.0), "arrays do not change in place"),
    (lambda: mnp.add.reduce(X, axis=4), "axis 4 is out of bounds"),
]


@pytest.mark.parametrize(("made", "message"), WRONG)
def test_what_is_wrong_is_said(made, message) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        made()
