"""Eigenvalues and singular values, ranks, pseudo-inverses and norms against NumPy and JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core.errors import AttributeValueError
from tests.harness import check_derivatives
from tests.minixla.numpy.tables import Table, call, gradient, numbered, run, values

F32, C64 = np.float32, np.complex64
RANDOM = {kind: values(kind, 2, 3, 3) for kind in (F32, C64)}
HERMITIAN = {kind: x + x.swapaxes(-1, -2).conj() for kind, x in RANDOM.items()}
TALL, WIDE = values(F32, 4, 3), values(C64, 2, 2, 3)
#: Of rank 1, and of rank 2.
SINGULAR = np.stack([np.outer([1.0, 2, 3], [1, 0, 2]), np.diag([2.0, 0, 1])]).astype(F32)
EMPTY = np.zeros((2, 0, 3), F32)

# Functions whose results have no sign or phase that is up to the backend.
CALLS = [
    ("linalg.eigvalsh", (HERMITIAN[F32],), {}),
    ("linalg.eigvalsh", (RANDOM[C64],), {}),
    ("linalg.eigvalsh", (RANDOM[C64],), {"UPLO": "U", "symmetrize_input": False}),
    ("linalg.eigvalsh", (np.arange(9).reshape(3, 3),), {}),
    ("linalg.eigvals", (np.triu(RANDOM[F32]),), {}),
    ("linalg.svdvals", (TALL,), {}),
    ("linalg.svdvals", (WIDE,), {}),
    ("linalg.svd", (WIDE,), {"compute_uv": False}),
    ("linalg.svd", (HERMITIAN[C64],), {"compute_uv": False, "hermitian": True}),
    ("linalg.pinv", (TALL,), {}),
    ("linalg.pinv", (WIDE,), {}),
    ("linalg.pinv", (SINGULAR,), {}),
    ("linalg.pinv", (HERMITIAN[C64],), {"hermitian": True}),
    ("linalg.pinv", (TALL, np.float32(0.5)), {}),
    ("linalg.pinv", (WIDE,), {"rcond": 0.9}),
    ("linalg.matrix_rank", (TALL,), {}),
    ("linalg.matrix_rank", (SINGULAR,), {}),
    ("linalg.matrix_rank", (SINGULAR, np.array([1.0, 3], F32)), {}),
    ("linalg.matrix_rank", (HERMITIAN[F32],), {"hermitian": True, "tol": 1e-3}),
    ("linalg.matrix_rank", (np.array([0.0, 2], F32),), {}),
    ("linalg.cond", (RANDOM[F32],), {}),
    ("linalg.cond", (TALL,), {"p": -2}),
    ("linalg.cond", (RANDOM[C64],), {"p": 1}),
    ("linalg.cond", (RANDOM[F32],), {"p": "fro"}),
    ("linalg.norm", (RANDOM[C64],), {"ord": 2, "axis": (2, 0)}),
    ("linalg.norm", (RANDOM[F32],), {"ord": -2, "axis": (0, 2), "keepdims": True}),
    ("linalg.norm", (TALL,), {"ord": "nuc"}),
    ("linalg.norm", (EMPTY,), {"ord": 2, "axis": (1, 2)}),
    *[("linalg.norm", (np.zeros((0, 3), F32), p), {}) for p in (1, np.inf, 2, "nuc")],
    ("linalg.norm", (np.zeros((3, 0), F32), 1), {"keepdims": True}),
    ("linalg.vector_norm", (np.zeros(0, F32),), {"ord": np.inf}),
    ("linalg.matrix_norm", (WIDE,), {"ord": "nuc"}),
]
TABLE = numbered(call, CALLS, units=256, jit=True)


@pytest.mark.parametrize("row", TABLE.rows)
def test_call(row: str) -> None:
    TABLE.check(row)


GRADIENTS = [
    ("linalg.eigvalsh", (HERMITIAN[F32],), {}),
    ("linalg.eigvalsh", (RANDOM[C64],), {}),
    ("linalg.svdvals", (WIDE,), {}),
    ("linalg.pinv", (TALL,), {}),
    ("linalg.cond", (RANDOM[F32],), {}),
    ("linalg.norm", (TALL,), {"ord": "nuc"}),
    ("linalg.norm", (WIDE,), {"ord": 2, "axis": (1, 2)}),
]
SLOPES = numbered(gradient, GRADIENTS, units=2048)


@pytest.mark.parametrize("row", SLOPES.rows)
def test_gradient(row: str) -> None:
    SLOPES.check(row)


FACTORS = [
    ("eigh", (RANDOM[C64],), {}),
    ("eigh", (RANDOM[F32], "U", False), {}),
    ("eig", (RANDOM[F32],), {}),
    ("eig", (RANDOM[C64],), {}),
    ("svd", (TALL,), {}),
    ("svd", (WIDE, False), {}),
    ("svd", (HERMITIAN[C64],), {"hermitian": True}),
]


@pytest.mark.parametrize(("name", "args", "options"), FACTORS)
def test_results_are_named_as_in_jax(name: str, args: Any, options: Any) -> None:
    found = getattr(mnp.linalg, name)(*args, **options)
    expected = getattr(jnp.linalg, name)(*args, **options)
    assert type(found).__name__ == type(expected).__name__
    assert found._fields == expected._fields
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
    for one, other in zip(found, run(f"linalg.{name}", args, options), strict=True):
        # But for signs and phases.
        np.testing.assert_allclose(abs(one), abs(other), rtol=1e-3, atol=1e-4)


def test_fact_factors_of_hermitian_matrices_give_them() -> None:
    a = np.diag([2.0, 0, -3]).astype(F32)
    u, s, vh = run("linalg.svd", (a,), {"hermitian": True})
    np.testing.assert_array_equal(s, [3, 2, 0])
    # NumPy's vh has a row of zeros, for the sign of 0.
    np.testing.assert_allclose(vh @ vh.T, np.eye(3), atol=1e-6)
    np.testing.assert_allclose((u * s) @ vh, a, atol=1e-6)


def test_numpys_functions_of_traced_values_are_ours() -> None:
    a = np.float32([[2, 1], [1, 3]])
    functions = (np.linalg.eigvalsh, np.linalg.pinv, np.linalg.cond, lambda x: np.linalg.svd(x)[1])
    found = mx.jit(lambda x: [f(x) for f in functions])(a)
    for one, function in zip(found, functions, strict=True):
        np.testing.assert_allclose(one, function(a), rtol=1e-5)


def test_narrow_floats_are_computed_in_f32() -> None:
    a = np.eye(2, dtype=ml_dtypes.bfloat16) * 3
    assert run("linalg.eigh", (a,), {}).eigenvectors.dtype == a.dtype
    assert run("linalg.svdvals", (a,), {}).tolist() == [3, 3]
    assert run("linalg.pinv", (a,), {}).dtype == a.dtype


@pytest.mark.parametrize("a", [SINGULAR[0], np.outer([1.0, 2, 3], [1, 2])])
def test_pseudo_inverses_of_matrices_of_less_than_full_rank_have_derivatives(a: Any) -> None:
    """Along changes that keep the rank."""
    a, eye = a.astype(np.float64), np.eye(a.shape[1])
    left, right = values(np.float64, 3, 3), values(np.float64, a.shape[1], a.shape[1], seed=1)

    def kept(t: Any) -> Any:
        return mnp.linalg.pinv((np.eye(3) + t * left) @ a @ (eye + t * right))

    check_derivatives(kept, [np.array(0.1)], order=1)


PINVS: list[Any] = [mnp.linalg.pinv, jnp.linalg.pinv]


def test_pseudo_inverses_have_second_derivatives() -> None:
    check_derivatives(mnp.linalg.pinv, [values(np.float64, 3, 2)])
    a = values(np.complex128, 2, 3)
    check_derivatives(mnp.linalg.pinv, [a], jnp.linalg.pinv, order=1)
    of_hermitian = [lambda a, pinv=pinv: pinv(a, hermitian=True) for pinv in PINVS]
    check_derivatives(of_hermitian[0], [a[:, :2] + 2 * np.eye(2)], of_hermitian[1], order=1)


@pytest.mark.parametrize("value", [1.0, 0.0])
def test_derivatives_of_norms_of_equal_singular_values(value: float) -> None:
    a = value * np.eye(2)
    with jax.enable_x64(True):
        found = mx.jit(mx.grad(lambda a: mnp.linalg.norm(a, "nuc")))(a)
    np.testing.assert_allclose(found, np.sign(a), atol=1e-15)


def test_special_matrices() -> None:
    singular, bad = np.ones((2, 2), F32), np.full((2, 2), np.nan, F32)
    assert run("linalg.cond", (np.zeros((2, 2), F32),), {}) == np.inf
    assert run("linalg.cond", (singular,), {"p": 2}) > 1e6
    for name in ("cond", "pinv", "eigvalsh", "svdvals"):
        assert np.isnan(run(f"linalg.{name}", (bad,), {})).all()
    assert run("linalg.pinv", (EMPTY,), {}).shape == (2, 3, 0)
    assert run("linalg.matrix_rank", (EMPTY,), {}).tolist() == [0, 0]
    assert run("linalg.eigh", (np.zeros((0, 0), F32),), {}).eigenvectors.shape == (0, 0)


@pytest.mark.parametrize("sizes", [(0, 3), (0, 0), (0, 2, 2)])
def test_derivatives_of_nothing(sizes: tuple[int, ...]) -> None:
    names = ["pinv", "svdvals"] + ["eigvalsh", "eigvals"] * (sizes[-1] == sizes[-2])

    def total(x: Any) -> Any:
        found = [getattr(mnp.linalg, name)(x) for name in names]
        return sum(mnp.real(each).sum() for each in (*found, *mnp.linalg.svd(x)))

    for evaluate in (mx.jit, mx.reference):
        assert evaluate(mx.grad(total))(np.zeros(sizes, F32)).shape == sizes


A = np.eye(2, dtype=F32)
BAD = [
    ("eigh", (np.zeros((2, 3)),), {}, np.linalg.LinAlgError, "a is not a square matrix"),
    ("eigh", (A, "l"), {}, ValueError, "UPLO 'l' is unknown"),
    ("eigvals", (np.zeros(3),), {}, np.linalg.LinAlgError, "a is not a square matrix"),
    ("svd", (np.zeros(3),), {}, np.linalg.LinAlgError, "a is not a matrix"),
    (
        "svd",
        (A,),
        {"subset_by_index": (0, 1)},
        AttributeValueError,
        "subset_by_index selects a part",
    ),
    ("svd", (A,), {"subset_by_index": 3}, AttributeValueError, "subset_by_index selects a part"),
    ("pinv", (np.zeros(3),), {}, np.linalg.LinAlgError, "a is not a matrix"),
    ("pinv", (A, 0.1), {"rcond": 0.1}, ValueError, "both rtol and rcond are given"),
    ("matrix_rank", (A, 0.1), {"tol": 0.1}, ValueError, "both rtol and tol are given"),
    ("cond", (np.zeros((0, 2)),), {}, np.linalg.LinAlgError, "x is empty"),
    ("norm", (A, 3), {}, ValueError, "ord=3 is not a norm of matrices"),
]


@pytest.mark.parametrize(("name", "args", "options", "error", "phrase"), BAD)
def test_refused(name: str, args: Any, options: Any, error: Any, phrase: str) -> None:
    with pytest.raises(error, match=phrase) as caught:
        getattr(mnp.linalg, name)(*args, **options)
    assert "test_spectra.py" in str(caught.value)


def test_partial_svd_that_is_whole() -> None:
    row = call("linalg.svd", TALL, subset_by_index=(0, 3), compute_uv=False, full_matrices=False)
    Table({"whole": row._replace(units=256)}).check("whole")
