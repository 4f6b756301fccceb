"""Sorting and places in an order: values against NumPy's, derivatives against JAX's."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import Table, assert_close, call, gradient, numbered, run, values

F32, S32, C64 = np.float32, np.int32, np.complex64
X = values(F32, 4, 6)
V = values(F32, 7)

SPECIAL = [1, np.nan, -0.0, 0.0, np.inf, -np.inf, -np.nan, 5e-324, -2, 0.0, -0.0, 1]
WHOLE = [3, -1, 0, 7, 3, -8, -1, 2, -128, 127]
NATURAL = [0, 1, 200, 0, 1, 255]
COMPLEX = [1 + 1j, 1 - 1j, complex(2, np.nan), complex(np.nan, 0), complex(np.nan, -1), -3, 1 + 1j]
MEMBERS = {
    **dict.fromkeys(
        [F32, np.float16, ml_dtypes.bfloat16, np.float64, ml_dtypes.float8_e5m2], SPECIAL
    ),
    **dict.fromkeys([C64, np.complex128], COMPLEX),
    **dict.fromkeys([np.int8, S32, np.int64], WHOLE),
    **dict.fromkeys([np.uint8, np.uint32, np.uint64, np.bool_], NATURAL),
}


def wide(x: np.ndarray) -> np.ndarray:
    """The numbers in a type of NumPy's own, whose order it knows."""
    return x if x.dtype.isbuiltin == 1 else x.astype(F32)


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: np.dtype(kind).name)
def test_every_type_has_numpys_order(kind: type) -> None:
    with jax.enable_x64(True), np.errstate(all="ignore"):
        x = np.array(MEMBERS[kind]).astype(kind)
        x = np.where(x == 255, np.iinfo(kind).max, x) if x.dtype.kind == "u" else x
        order = np.argsort(wide(x), kind="stable")

        def sorted_in_all_ways(x):
            falling = mnp.argsort(x, descending=True)
            return mnp.argsort(x), mnp.sort(x), falling, mnp.searchsorted(x[order], x, "right")

        for evaluate in (mx.reference, mx.jit):
            places, found, falling, right = map(np.asarray, evaluate(sorted_in_all_ways)(x))
            np.testing.assert_array_equal(places, order)
            assert found.tobytes() == x[order].tobytes()
            np.testing.assert_array_equal(right, np.searchsorted(wide(x)[order], wide(x), "right"))
            # Equal ones are in their order.
            np.testing.assert_array_equal(
                falling, (x.size - 1 - np.argsort(wide(x)[::-1], kind="stable"))[::-1]
            )


CALLS = [
    ("argpartition", (values(S32, 1, 6),), {"kth": 5}),
    ("argsort", (X,), {}),
    ("argsort", (X,), {"axis": 0, "descending": True}),
    ("argsort", (X,), {"axis": None, "dtype": np.int16}),
    ("argsort", (values(F32, 0, 3),), {"axis": 0}),
    ("argsort", (F32(2),), {"axis": None}),
    ("digitize", (X, F32([-2, 0, 1])), {}),
    ("digitize", (X, F32([1, 0, -2])), {"right": True}),
    ("digitize", (values(S32, 5), np.array([-2, 0, 1])), {"right": True, "method": "sort"}),
    ("digitize", (X, values(F32, 0)), {}),
    ("lexsort", ((values(S32, 8), values(S32, 8, seed=1)),), {}),
    ("lexsort", (values(S32, 3, 5),), {}),
    ("lexsort", ((X, values(F32, 4, 6, seed=2)),), {"axis": 0}),
    ("lexsort", ((F32(1),),), {}),
    ("partition", (V,), {"kth": 6}),
    ("searchsorted", (np.sort(V), V), {"method": "compare_all"}),
    ("searchsorted", (np.sort(V), V), {"side": "right", "method": "sort"}),
    ("searchsorted", (V, X), {"sorter": np.argsort(V)}),
    ("searchsorted", (np.array([1, 2, 2, 3]), F32(2.5)), {}),
    ("searchsorted", (values(F32, 0), V), {}),
    ("sort", (X,), {}),
    ("sort", (X,), {"axis": 0, "descending": True}),
    ("sort", (values(C64, 3, 4),), {"axis": None}),
    ("sort", (values(F32, 2, 0),), {}),
    ("sort_complex", (values(S32, 5),), {}),
    ("compress", (np.array([1, 0, 1, 1]), X), {"axis": 0, "size": 4, "fill_value": 7}),
    ("compress", (np.array([True, False, True]), V), {"size": 2}),
    ("extract", (X > 0, X), {"size": 24, "fill_value": -1}),
]
TABLE = numbered(call, CALLS, jit=True)


@pytest.mark.parametrize("row", TABLE.rows)
def test_call(row: str) -> None:
    TABLE.check(row)


GRADIENTS = Table(
    {
        "sort": gradient("sort", X, axis=0),
        "equal ones": gradient("sort", F32([1, 0, -0.0, 1])),
        "compress": gradient("compress", np.array([True, False, True]), V, size=2),
    }
)


@pytest.mark.parametrize("row", GRADIENTS.rows)
def test_gradient(row: str) -> None:
    GRADIENTS.check(row)


def test_all_derivatives_of_sort() -> None:
    def weighed(x):
        return (mnp.sort(x) ** 3 * np.arange(3.0, dtype=F32)).sum()

    x = F32([3, 1, 2])
    mx.check_grads(weighed, (x,), order=2)
    np.testing.assert_allclose(mx.hessian(weighed)(x), np.diag(F32([36, 0, 12])))
    np.testing.assert_allclose(
        mx.vmap(mx.grad(lambda x: mnp.sort(x)[0]))(X), np.equal(X, X.min(1)[:, None])
    )


def test_parted_elements_are_on_their_sides() -> None:
    for kth in (0, 3, -1):
        found = (
            np.asarray(mnp.partition(X, kth, axis=0))
            if kth < 3
            else np.asarray(mnp.partition(V, kth))
        )
        expected = np.sort(X, 0) if kth < 3 else np.sort(V)
        np.testing.assert_array_equal(found[kth], expected[kth])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 9])
def test_places_in_vectors_of_every_size(size: int) -> None:
    a = np.arange(size, dtype=S32)
    v = np.arange(-1, size + 1, dtype=S32)
    for side in ("left", "right"):
        found = mx.reference(mnp.searchsorted)(a, v, side)
        np.testing.assert_array_equal(found, np.searchsorted(a, v, side))


def test_methods_of_traced_arrays() -> None:
    found = mx.reference(lambda x: (x.sort(), x.argsort(axis=0), x.argpartition(5)))(X)
    expected = np.sort(X), np.argsort(X, 0).astype(S32), np.argsort(X).astype(S32)
    assert_close(found, expected)
    cut = mx.jit(lambda x: x.compress(x[:, 0] > 0, 0, size=1))(X)
    np.testing.assert_array_equal(cut, X[np.flatnonzero(X[:, 0] > 0)[:1]])
    assert_close(mx.reference(lambda x: np.sort(x, axis=0))(X), np.sort(X, 0))


ERRORS = [
    ("compress", (np.ones(8), V), {}, "compress: the condition is true beyond the axis"),
    ("compress", (X > 0, X), {}, "compress: the array has 2 dimensions"),
    ("sort", (F32(1),), {}, "sort: axis -1 is out of bounds for an array of 0 dimensions"),
    ("sort", (X,), {"kind": "heapsort"}, "sort: kind and order are not supported"),
    ("argsort", (X, 2), {}, "argsort: axis 2 is out of bounds"),
    ("partition", (V, 7), {}, "partition: kth is out of bounds"),
    ("lexsort", ((V, X),), {}, "lexsort: the keys differ in shape"),
    ("lexsort", ((),), {}, "lexsort: no array is given"),
    ("searchsorted", (X, V), {}, "searchsorted: the array has 2 dimensions"),
    ("searchsorted", (V, V), {"method": "quickly"}, "searchsorted: method 'quickly' is unknown"),
    ("digitize", (V, X), {}, "digitize: the array has 2 dimensions"),
]


@pytest.mark.parametrize(("name", "args", "options", "message"), ERRORS)
def test_errors(name: str, args: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){message}.*called at"):
        run(name, args, options)
