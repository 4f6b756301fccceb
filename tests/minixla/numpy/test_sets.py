"""Distinct elements and sets of them: whole results against NumPy's, sized ones against JAX's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import Table, call, gradient, numbered, run, values

F32, S32 = np.float32, np.int32
NANS = F32([3, np.nan, 1, 3, -0.0, 0, np.nan, 2, 9])
FEW = F32([2, 3, np.nan, 7, 7, 0])
PARTS = np.arange(9, dtype=F32) % 3
ARRAYS = {
    "NaN": NANS,
    "others": FEW,
    "matrix": values(S32, 3, 5),
    "complex": np.array([complex(*each) for each in zip(NANS, PARTS, strict=True)], np.complex64),
    "nothing": values(F32, 0),
    "booleans": np.array([True, False, True]),
    "scalar": F32(3),
}
SETS = ["intersect1d", "setdiff1d", "setxor1d", "union1d"]


def assert_equal(found: Any, expected: Any) -> None:
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert [np.shape(each) for each in found] == [np.shape(each) for each in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ARRAYS)
def test_distinct_elements(name: str) -> None:
    x = ARRAYS[name]
    for equal_nan in (True, False):
        for wanted in ((), (True,), (False, True), (False, False, True), (True, True, True)):
            found = mx.reference(lambda x, w=wanted, e=equal_nan: mnp.unique(x, *w, equal_nan=e))(x)
            assert_equal(found, np.unique(x, *wanted, equal_nan=equal_nan))
    assert_equal(mnp.unique_values(x), np.unique(x, equal_nan=False))
    for each in ("unique_all", "unique_counts", "unique_inverse"):
        found, expected = getattr(mnp, each)(x), getattr(np, each)(x)
        assert_equal(found, expected)
        assert getattr(found, "_fields", ()) == getattr(expected, "_fields", ())


def test_distinct_rows() -> None:
    x = np.random.default_rng(0).integers(0, 2, (6, 3, 2)).astype(S32)
    for axis, each in [(0, x), (-1, x), (1, x), (0, np.ones((3, 0), F32)), (0, x.astype(F32))]:
        found = mx.reference(lambda x, a=axis: mnp.unique(x, True, True, True, axis=a))(each)
        assert_equal(found, np.unique(each, True, True, True, axis=axis))


@pytest.mark.parametrize("name", SETS)
def test_sets_of_two_arrays(name: str) -> None:
    for one in ARRAYS.values():
        for other in ARRAYS.values():
            assert_equal(
                mx.reference(getattr(mnp, name))(one, other), getattr(np, name)(one, other)
            )
    whole = mx.reference(lambda x, y: mnp.intersect1d(x, y, return_indices=True))(NANS, FEW)
    assert_equal(whole, np.intersect1d(NANS, FEW, return_indices=True))
    found = mx.reference(lambda x, y: mnp.setdiff1d(x, y, assume_unique=True))(NANS, FEW)
    assert_equal(found, np.setdiff1d(NANS, FEW, assume_unique=True))


@pytest.mark.parametrize("method", ["auto", "compare_all", "sort", "binary_search"])
def test_members(method: str) -> None:
    many = np.arange(300, dtype=F32) * 2
    for element, others in [(NANS, FEW), (NANS, many), (many, NANS), (NANS, values(F32, 0))]:
        for invert in (False, True):
            found = mnp.isin(element, others, invert=invert, method=method)
            assert_equal(found, np.isin(element, others, invert=invert))


FIRST, SECOND = np.array([4, 1, 1, 2, 9], S32), np.array([2, 4, 7, 2], S32)
ALL = {"return_index": True, "return_inverse": True, "return_counts": True}
SIZED = [
    *(("unique", (FIRST,), {**ALL, "size": size}) for size in (0, 1, 4)),
    ("unique", (FIRST,), {**ALL, "size": 9, "fill_value": 7}),
    ("unique", (values(S32, 4, 3),), {"axis": 0, "size": 5}),
    ("unique", (values(F32, 0),), {"size": 2, "fill_value": 3}),
    ("unique_all", (FIRST,), {"size": 3}),
    ("isin", (FIRST, SECOND), {}),
    *((name, (FIRST, SECOND), {"size": size}) for name in SETS for size in (1, 3, 8)),
    *((name, (FIRST, SECOND), {"size": 6, "fill_value": -5}) for name in SETS),
    ("intersect1d", (FIRST, SECOND), {"size": 4, "return_indices": True}),
    ("setdiff1d", (FIRST, SECOND), {"size": 4, "assume_unique": True}),
]
TABLE = numbered(call, SIZED, jit=True)


@pytest.mark.parametrize("row", TABLE.rows)
def test_of_a_size_that_is_known(row: str) -> None:
    TABLE.check(row)


GRADIENTS = Table(
    {
        "unique": gradient("unique", F32([3, 1, 2, 3, 0]), size=5),
        "setdiff1d": gradient("setdiff1d", F32([3, 1, 2, 3]), F32([3]), size=3),
    }
)


@pytest.mark.parametrize("row", GRADIENTS.rows)
def test_gradient(row: str) -> None:
    GRADIENTS.check(row)


def test_batches_are_sets_of_their_own() -> None:
    found = mx.jit(mx.vmap(lambda x: mnp.unique(x, size=3)))(np.array([[1, 2, 1], [3, 3, 3]]))
    np.testing.assert_array_equal(found, [[1, 2, 1], [3, 3, 3]])


def test_none_of_two_has_size_zero() -> None:
    for name in SETS:
        assert getattr(mnp, name)(FIRST, SECOND, size=0).shape == (0,)


def test_errors() -> None:
    for name, args in [("unique", (FIRST,)), *((name, (FIRST, SECOND)) for name in SETS)]:
        with pytest.raises(mx.ConcretizationError, match=r"(?s)depends on values.*Pass size"):
            mx.jit(getattr(mnp, name))(*args)
    with pytest.raises(
        ValueError, match=r"(?s)unique: an empty array has no element to pad with.*called at"
    ):
        run("unique", (values(F32, 0),), {"size": 2})
    with pytest.raises(ValueError, match="isin: method 'quickly' is unknown"):
        mnp.isin(FIRST, SECOND, method="quickly")
