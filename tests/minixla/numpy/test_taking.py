"""Taking by index, finding, differences and interpolation, against jax.numpy."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import (
    Table,
    assert_close,
    call,
    check,
    gradient,
    numbered,
    run,
    values,
)

F32, S32, PRED = np.float32, np.int32, np.bool_
X = values(F32, 3, 4)
V = values(F32, 6)
INDICES = np.array([[0, 3], [2, 1], [1, 1]])
SORTED = np.sort(V)

CALLS = [
    ("argwhere", (np.array([[0, 1], [2, 0]]),), {"theirs": {"size": 2}}),
    ("bincount", (np.array([0, 2, 2, 5]),), {"theirs": {"length": 6}}),
    ("bincount", (np.array([0, 2, 2]), F32([1, 2, 3])), {"length": 2}),
    ("bincount", (np.array([1, 1]),), {"minlength": 4, "theirs": {"length": 4}}),
    ("bincount", (np.array([True, False, True]),), {"theirs": {"length": 2}}),
    ("choose", (np.array([0, 1, 0]), [V[:3], V[3:]]), {"theirs": {"mode": "clip"}}),
    ("choose", (np.array([0, 5, -1]), [V[:3], V[3:]]), {"mode": "wrap"}),
    ("choose", (np.array([0, 5, -1]), [V[:3], V[3:]]), {"mode": "clip"}),
    ("compress", (np.array([True, False, True]), X, 0), {"theirs": {"size": 2}}),
    ("cumulative_sum", (V,), {}),
    ("diff", (X,), {}),
    ("diff", (X,), {"n": 2, "axis": 0}),
    ("diff", (values(PRED, 6),), {}),
    ("diff", (V,), {"prepend": 1.0, "append": V[:2]}),
    ("ediff1d", (X,), {"to_end": V[:2], "to_begin": 1.0}),
    ("extract", (X > 0, X), {"theirs": {"size": int((X > 0).sum())}}),
    ("gradient", (V,), {}),
    ("gradient", (X,), {}),
    ("gradient", (X, 2.0), {"axis": 1}),
    ("gradient", (X, 2.0, 3.0), {}),
    ("gradient", (X, F32([0, 1, 3, 4])), {"axis": 1}),
    ("gradient", (X, F32([0, 1, 3]), F32(2)), {}),
    ("interp", (values(F32, 5, low=-4, high=4, seed=2), SORTED, V), {}),
    ("interp", (values(F32, 5, low=-9, high=9), V, V), {"period": 4.5, "units": 64}),
    (
        "interp",
        (values(F32, 5, low=-4, high=4, seed=2), SORTED, V),
        {"left": "extrapolate", "right": "extrapolate", "units": 128},
    ),
    (
        "interp",
        (values(F32, 5, low=-4, high=4, seed=2), SORTED, V),
        {"left": 7.0, "right": "extrapolate", "units": 128},
    ),
    ("interp", (values(F32, 5, low=-4, high=4, seed=2), SORTED, V), {"left": 7.0, "right": -7.0}),
    ("polyval", (V[:3], X), {}),
    ("put_along_axis", (X, INDICES, 9.0, 1), {"inplace": False}),
    (
        "ravel_multi_index",
        ((np.array([0, 1]), np.array([2, 3])), (2, 4)),
        {"theirs": {"mode": "clip"}},
    ),
    ("ravel_multi_index", ((np.array([0, 5]), np.array([-1, 3])), (2, 4)), {"mode": "clip"}),
    (
        "ravel_multi_index",
        ((np.array([0, 1]), np.array([2, 3])), (2, 4)),
        {"order": "F", "theirs": {"mode": "clip"}},
    ),
    ("searchsorted", (SORTED, V), {}),
    ("searchsorted", (np.array([1, 2, 2, 3]), np.array([[2, 0], [3, 4]])), {"side": "right"}),
    ("take", (X, INDICES), {}),
    ("take", (X, np.array([2, -1])), {"axis": 1}),
    ("take", (X, np.array([2, 9, -9])), {"axis": 0}),
    ("take", (X, np.array([2, 9, -9, -1])), {"axis": 0, "mode": "clip"}),
    ("take", (X, np.array([2, 9, -9])), {"axis": 0, "mode": "wrap"}),
    ("take", (X, np.array([9])), {"axis": 0, "fill_value": 5.0}),
    ("take", (values(S32, 3), np.array([7])), {}),
    ("take", (X, 1), {"axis": 1}),
    ("take_along_axis", (X, INDICES), {"axis": 1}),
    ("take_along_axis", (X, INDICES[:1]), {"axis": 1}),
    ("take_along_axis", (X, np.array([[0, 1, 2, 0]])), {"axis": 0}),
    ("take_along_axis", (X, np.array([[0, 9, -9, -1]])), {"axis": 0}),
    ("take_along_axis", (X, np.array([1, 5])), {"axis": None}),
    ("trapezoid", (X,), {}),
    ("trapezoid", (X, V[:4]), {}),
    ("trapezoid", (X,), {"dx": 2.0, "axis": 0}),
    ("unravel_index", (np.array([0, 5, 11]), (3, 4)), {}),
    ("unwrap", (F32([0, 2, 4, 6, 0.5, -3]),), {}),
]


TABLE = numbered(call, CALLS)


@pytest.mark.parametrize("row", TABLE.rows)
def test_call(row: str) -> None:
    TABLE.check(row)


FIRST_CALLS = {each[0]: each for each in reversed(CALLS)}
GRADIENTS = Table(
    {
        name: gradient(name, *FIRST_CALLS[name][1], **FIRST_CALLS[name][2])
        for name in ["diff", "gradient", "interp", "polyval", "trapezoid", "ediff1d"]
    }
)


@pytest.mark.parametrize("name", GRADIENTS.rows)
def test_gradient(name: str) -> None:
    GRADIENTS.check(name)


def test_gradients_of_taking() -> None:
    check(
        gradient("take", X, np.array([2, 2]), axis=1),
        gradient("take_along_axis", X, INDICES, axis=1),
    )


def test_batched_and_compiled() -> None:
    def taken(x, i):
        return mnp.take_along_axis(x, i, 1), mnp.take(x, i[0], 1)

    expected = np.take_along_axis(X, INDICES, 1), np.take(X, INDICES[0], 1)
    assert_close(mx.jit(taken)(X, INDICES), expected)
    batched = mx.reference(mx.vmap(taken, in_axes=(None, 0)))(X, np.stack([INDICES, INDICES[::-1]]))
    assert_close(batched[0][1], np.take_along_axis(X, INDICES[::-1], 1))
    assert_close(batched[1][1], np.take(X, INDICES[-1], 1))


def test_other_types() -> None:
    check(
        *(
            call(name, values(dtype, 3), np.array([0, 8]))
            for dtype in (ml_dtypes.bfloat16, PRED, np.complex64)
            for name in ("take", "take_along_axis")
        )
    )


def test_ends_of_gradients_by_three_values() -> None:
    places = [F32([0, 1, 3]), F32([0, 0.5, 2, 3])]
    for given in ((), (2.0,), tuple(places)):
        found = mx.reference(lambda x, g=given: mnp.gradient(x, *g, edge_order=2))(X)
        for one, other in zip(found, np.gradient(X, *given, edge_order=2), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_zeros_at_the_ends() -> None:
    square = np.zeros((4, 5), S32)
    square[1, 2] = square[2, 2] = 1
    for x in (np.array([0, 0, 1, 0, 2, 0], S32), np.zeros(3, S32), square):
        for trim in ("fb", "f", "B"):
            np.testing.assert_array_equal(mnp.trim_zeros(x, trim), np.trim_zeros(x, trim))
    np.testing.assert_array_equal(mnp.trim_zeros(square, axis=1), square[:, 2:3])
    with pytest.raises(jax.errors.ConcretizationTypeError, match="trim_zeros"):
        mx.jit(mnp.trim_zeros)(V)


ERRORS = [
    ("gradient", (V[:1],), ValueError, "the arguments do not fit"),
    ("diff", (V, -1), ValueError, "n is negative"),
    ("gradient", (X, 1.0, 1.0, 1.0), ValueError, "the arguments do not fit"),
    ("gradient", (X, X), ValueError, "the arguments do not fit"),
    ("take", (X, np.array([0.5])), TypeError, "indices are of type f32"),
    ("take", (X, np.array([1]), 5), ValueError, "axis 5 is out of bounds"),
    ("take", (X, np.array([1]), 0, None, "strange"), ValueError, "mode 'strange' is unknown"),
    ("nonzero", (F32(1),), TypeError, "the array is a scalar"),
    ("searchsorted", (V, V, "middle"), ValueError, "side 'middle'"),
    ("interp", (V, X, V), TypeError, "must be vectors of equal size"),
    ("take", (V, 2**70), OverflowError, "an index, a Python int, does not fit s64"),
]


@pytest.mark.parametrize(("name", "args", "kind", "message"), ERRORS)
def test_errors(name: str, args: tuple, kind: type, message: str) -> None:
    with pytest.raises(mx.MinixlaError, match=f"(?s)(?=.*{message}).*called at") as caught:
        run(name, args, {})
    assert isinstance(caught.value, kind)


def test_a_negative_number_of_indices_is_explained() -> None:
    for function in (mnp.nonzero, mnp.flatnonzero, mnp.argwhere):
        with pytest.raises(mx.AttributeValueError, match=r"(?s)size is negative.*called at"):
            function(V, size=-1)


def test_differences_of_no_elements_end_at_once() -> None:
    assert mnp.diff(V, 2**70).shape == (0,)
