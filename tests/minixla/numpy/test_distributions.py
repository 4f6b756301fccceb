"""Quantiles and histograms: values against NumPy's in double, programs and derivatives JAX's."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.numpy.distributions import _OFFSETS
from tests.minixla.numpy.tables import Table, call, gradient, numbered, run, values

F32, S32 = np.float32, np.int32
X = values(F32, 3, 4, 5)
NANS = np.where((X > 2) | (np.arange(3) == 1)[:, None, None], np.nan, X).astype(F32)
WEIGHTS = values(F32, 3, 4, 5, seed=1, low=0)
Q = np.array([0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])


def assert_near(found: object, expected: np.ndarray) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("method", _OFFSETS)
def test_every_method_is_numpys(method: str) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of rows that are all NaN
        for axis, keepdims, q in [
            (None, False, 0.3),
            (1, True, 0.5),
            ((2, 0), True, Q),
            (0, False, Q),
        ]:
            options = {"axis": axis, "keepdims": keepdims, "method": method}
            for name, x in [("quantile", X), ("quantile", NANS), ("nanquantile", NANS)]:
                found = mx.reference(lambda x, n=name, q=q, o=options: getattr(mnp, n)(x, q, **o))(
                    x
                )
                assert_near(found, getattr(np, name)(x.astype(np.float64), q, **options))


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_weights(name: str) -> None:
    options: dict = {"method": "inverted_cdf"}
    of_outer = WEIGHTS[:, 0].T
    cases = [
        (None, WEIGHTS, WEIGHTS),
        ((2, 0), of_outer, of_outer.T[:, None]),
        (1, WEIGHTS[0, :, 0], WEIGHTS[0, :, 0][:, None]),
    ]
    for axis, weights, spread in cases:
        function = functools.partial(getattr(mnp, name), q=Q, axis=axis, **options)
        found = mx.reference(lambda x, w, f=function: f(x, weights=w))(X, weights)
        whole = np.broadcast_to(spread, X.shape)
        assert_near(found, getattr(np, name)(X, Q, axis=axis, weights=whole, **options))
    assert np.isnan(getattr(mnp, name)(X[0, 0], 0.5, weights=-WEIGHTS[0, 0], **options))


CALLS = [
    ("median", (X,), {}),
    ("median", (values(S32, 3, 4),), {"axis": 1, "keepdims": True}),
    ("median", (values(np.float16, 6),), {}),
    ("nanmedian", (NANS,), {"axis": (0, 2)}),
    ("percentile", (X, F32([20, 50])), {"axis": -1}),
    ("nanpercentile", (NANS, F32(30)), {"axis": 1, "keepdims": True}),
    ("quantile", (X, 0.3), {"axis": 0, "method": "midpoint"}),
    ("quantile", (X, 0.3), {"weights": None, "method": "higher"}),
    ("histogram", (X,), {}),
    ("histogram", (NANS,), {"bins": F32([-1, 0, 0.5, 2])}),
    ("histogram", (X,), {"bins": 4, "range": (-1, 1), "density": True}),
    ("histogram", (values(S32, 9),), {"weights": values(F32, 9)}),
    ("histogram", (F32([2, 2]),), {"bins": 2}),
    ("histogram_bin_edges", (X,), {"bins": 5}),
    ("histogramdd", (X[0],), {"bins": 2}),
    (
        "histogramdd",
        (X[0, :, :2],),
        {"bins": [3, F32([-1, 0, 0.5, 2])], "weights": WEIGHTS[0, :, 0]},
    ),
    ("histogramdd", (X[0, :, :2],), {"bins": 3, "range": [(-1, 1), None], "density": True}),
    ("histogram2d", (X[0, 0], X[1, 0]), {"bins": 3}),
    ("histogram2d", (X[0, 0], X[1, 0]), {"bins": F32([-3, 0, 1, 2, 4])}),
    ("histogram2d", (X[0, 0], X[1, 0]), {"bins": [2, 3], "density": True}),
]
# Where an element is on an edge by rounding, members of a batch may differ.
TABLE = numbered(call, CALLS, jit=True, batch=False)


@pytest.mark.parametrize("row", TABLE.rows)
def test_call(row: str) -> None:
    TABLE.check(row)


GRADIENTS = Table(
    {
        "median": gradient("median", X, axis=1),
        "equal ones": gradient("median", F32([3, 1, 2, 2])),
        "nanmedian": gradient("nanmedian", F32([3, np.nan, 2, 5])),
        "quantile": gradient("quantile", X[0], F32(0.3), axis=0),
        "weights": gradient("histogram", X[0, 0], weights=WEIGHTS[0, 0]),
    }
)


@pytest.mark.parametrize("row", GRADIENTS.rows)
def test_gradient(row: str) -> None:
    GRADIENTS.check(row)


def test_derivatives_and_batches() -> None:
    x = X[:, :, 0]
    mx.check_grads(lambda x: mnp.quantile(x, Q, axis=1), (x,))
    batched = mx.vmap(mnp.median, in_axes=1)(x)
    np.testing.assert_allclose(batched, np.median(x, 0), rtol=1e-6)
    counts, _ = mx.jit(mx.vmap(lambda x: mnp.histogram(x, 3, (-3, 3))))(x)
    np.testing.assert_array_equal(counts, [np.histogram(each, 3, (-3, 3))[0] for each in x])


def test_infinite_neighbours_that_do_not_count() -> None:
    assert mnp.quantile(F32([1, np.inf]), 0.0) == 1
    assert mnp.median(F32([-np.inf, 2, np.inf])) == 2


def test_places_are_computed_in_double() -> None:
    x = np.arange(1 << 20, dtype=F32)
    np.testing.assert_allclose(
        mx.jit(lambda x: mnp.quantile(x, 0.9))(x), 0.9 * (x.size - 1), rtol=1e-7
    )


def test_a_histogram_of_nothing() -> None:
    for found, expected in zip(mnp.histogram(values(F32, 0)), np.histogram([]), strict=True):
        np.testing.assert_allclose(found, expected)


ERRORS = [
    ("quantile", (X, 1.5), {}, "quantile: q is out of range"),
    ("percentile", (X, -1), {}, "percentile: q is out of range"),
    ("quantile", (X, 0.5), {"method": "best"}, "quantile: method 'best' is unknown"),
    ("median", (X,), {"overwrite_input": True}, "median: arrays do not change in place"),
    ("median", (values(F32, 0),), {}, "median: the array is empty"),
    ("quantile", (X, 0.5), {"weights": X}, "quantile: weights require another method"),
    (
        "quantile",
        (X, 0.5, 0),
        {"weights": X[0], "method": "inverted_cdf"},
        "the weights do not fit",
    ),
    ("median", (values(np.complex64, 3),), {}, "median: it is not defined for complex numbers"),
    ("histogram", (X,), {"bins": "auto"}, "histogram: bins must be a number or edges"),
    ("histogram", (X,), {"weights": X[0]}, "histogram: the weights do not fit"),
    (
        "histogramdd",
        (X[0],),
        {"bins": [2]},
        "histogramdd: bins, range or weights do not match the points",
    ),
]


@pytest.mark.parametrize(("name", "args", "options", "message"), ERRORS)
def test_errors(name: str, args: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){message}.*called at"):
        run(name, args, options)
