"""Convolutions of vectors, polynomials and covariances with weights, against NumPy's and JAX's."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import Table, call, gradient, numbered, run, values

F32, S32, C64 = np.float32, np.int32, np.complex64
LONG, SHORT, ODD = values(F32, 7), values(F32, 4, seed=1), values(F32, 3, seed=2)
COMPLEX = values(C64, 5)
X = values(F32, 3, 6)
PARTS7 = values(F32, 7, low=0.1)
COUNTS, PARTS = np.array([1, 2, 3, 1, 1, 2]), values(F32, 6, low=0.1)

SLIDING = [
    (LONG, SHORT),
    (SHORT, LONG),
    (LONG, ODD),
    (ODD, LONG),
    (COMPLEX, SHORT),
    (SHORT, COMPLEX),
]


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_sums_of_products_are_numpys(name: str) -> None:
    pairs = [*SLIDING, (COMPLEX, COMPLEX), (values(S32, 4), values(S32, 3)), (LONG, LONG[:1])]
    for mode in ("full", "same", "valid"):
        for a, v in pairs:
            found = mx.reference(lambda a, v, m=mode: getattr(mnp, name)(a, v, m))(a, v)
            np.testing.assert_allclose(found, getattr(np, name)(a, v, mode), rtol=1e-5, atol=1e-5)


CALLS = [
    *(("convolve", pair, {}) for pair in SLIDING),
    *(("correlate", pair, {"mode": "same"}) for pair in SLIDING),
    ("convolve", (values(S32, 4), values(S32, 3)), {}),
    ("convolve", (values(S32, 4), values(S32, 3)), {"preferred_element_type": np.int32}),
    ("correlate", (LONG, SHORT), {"precision": "highest"}),
    ("cov", (X,), {"fweights": COUNTS}),
    ("cov", (X,), {"aweights": PARTS, "dtype": np.float32}),
    ("cov", (X,), {"fweights": COUNTS, "aweights": PARTS, "ddof": 0}),
    ("corrcoef", (X,), {"dtype": np.float32}),
    ("poly", (LONG,), {}),
    ("poly", (values(S32, 3),), {}),
    ("poly", (values(F32, 0),), {}),
    ("polyadd", (LONG, SHORT), {}),
    ("polyadd", (values(S32, 2), SHORT), {}),
    ("polysub", (values(S32, 2), values(S32, 4)), {}),
    ("polymul", (LONG, COMPLEX), {}),
    ("polymul", (values(F32, 0), LONG), {}),
    ("polydiv", (LONG, ODD), {}),
    ("polydiv", (ODD, LONG), {}),
    ("polyder", (LONG,), {}),
    ("polyder", (values(S32, 5),), {"m": 3}),
    ("polyint", (LONG,), {}),
    ("polyint", (LONG,), {"m": 0}),
    ("polyint", (LONG,), {"m": 2, "k": 3.0}),
    ("polyint", (values(S32, 5),), {"m": 2, "k": F32([3, 4])}),
    ("polyval", (SHORT, X), {"unroll": 2}),
    ("polyfit", (LONG, values(F32, 7, seed=3), 2), {}),
    ("polyfit", (LONG, values(F32, 7, 2), 2), {"w": PARTS7}),
    ("polyfit", (LONG, values(F32, 7, 2), 2), {"full": True}),
    ("polyfit", (LONG, values(F32, 7), 2), {"cov": True}),
    ("polyfit", (LONG, values(F32, 7, 2), 1), {"cov": "unscaled", "rcond": 1e-3}),
]
TABLE = numbered(call, CALLS, jit=True, units=256)


@pytest.mark.parametrize("row", TABLE.rows)
def test_call(row: str) -> None:
    TABLE.check(row)


GRADIENTS = Table(
    {
        "convolve": gradient("convolve", LONG, SHORT),
        "correlate": gradient("correlate", SHORT, LONG, mode="same"),
        "cov": gradient("cov", X, aweights=PARTS),
        "poly": gradient("poly", SHORT),
        "polyfit": gradient("polyfit", LONG, values(F32, 7), 2, units=4096),
        "polydiv": gradient("polydiv", LONG / 3, 1 + abs(ODD), units=1024),
        "polyint": gradient("polyint", LONG, m=2),
        "polyder": gradient("polyder", LONG),
        "polymul": gradient("polymul", LONG, SHORT),
    }
)


@pytest.mark.parametrize("row", GRADIENTS.rows)
def test_gradient(row: str) -> None:
    GRADIENTS.check(row)


def test_derivatives_in_both_modes() -> None:
    mx.check_grads(lambda a, v: mnp.convolve(a, v), (LONG, SHORT), order=2)
    mx.check_grads(lambda x: mnp.cov(x), (X,))


def test_quotient_and_remainder_make_the_dividend() -> None:
    quotient, rest = mnp.polydiv(LONG, ODD)
    np.testing.assert_allclose(
        mnp.polyadd(mnp.polymul(quotient, ODD), rest), LONG, rtol=1e-3, atol=1e-3
    )
    exact = mnp.polydiv(F32([1, 0, -1]), F32([1, 1]), trim_leading_zeros=True)
    for found, expected in zip(exact, ([1, -1], []), strict=True):
        np.testing.assert_array_equal(found, expected)
    product = mnp.polymul(F32([0, 0, 1, 2]), F32([0, 3]), trim_leading_zeros=True)
    np.testing.assert_array_equal(product, [3, 6])
    assert mnp.polyder(LONG, 9).shape == (0,)


ERRORS = [
    ("convolve", (X, LONG), {}, "convolve: the array has 2 dimensions"),
    ("correlate", (LONG, LONG[:0]), {}, "correlate: the vectors must not be empty"),
    ("convolve", (LONG, LONG, "most"), {}, "convolve: mode 'most' is unknown"),
]


@pytest.mark.parametrize(("name", "args", "options", "message"), ERRORS)
def test_errors(name: str, args: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){message}.*called at"):
        run(name, args, options)


def test_leading_zeros_must_be_known() -> None:
    with pytest.raises(jax.errors.ConcretizationTypeError):
        mx.jit(lambda x: mnp.polymul(x, x, trim_leading_zeros=True))(LONG)


def in_order(zeros: np.ndarray) -> np.ndarray:
    return np.sort_complex(np.round(np.asarray(zeros), 3))


def test_zeros_of_polynomials_are_numpys() -> None:
    for p in (LONG, F32([0, 0, 1, -2, 0, 0]), C64([1j, 2, 0]), F32([2]), F32([0, 0])):
        np.testing.assert_allclose(in_order(mnp.roots(p)), in_order(np.roots(p)), atol=2e-3)
    padded = mx.jit(lambda p: mnp.roots(p, strip_zeros=False))(F32([0, 0, 1, -2, 0]))
    np.testing.assert_allclose(padded, [2, 0, np.nan, np.nan], atol=1e-5)
    assert np.isnan(mnp.roots(F32([0, 0]), strip_zeros=False)).all()
    with pytest.raises(jax.errors.ConcretizationTypeError, match="strip_zeros=False"):
        mx.jit(lambda p: mnp.roots(p))(LONG)


def test_a_polynomial_of_a_matrix_is_its_characteristic_one() -> None:
    a = values(F32, 3, 3)
    np.testing.assert_allclose(mnp.poly(a), np.poly(a), rtol=1e-4, atol=1e-4)
