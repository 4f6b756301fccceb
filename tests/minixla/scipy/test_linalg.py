"""mx.scipy.linalg against SciPy and JAX: values, batches, derivatives, names, errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import minixla as mx
import minixla.numpy as mnp
from minixla.scipy import linalg
from tests.harness import QUICKLY, check_derivatives, compiled_rows, together
from tests.minixla.numpy.tables import assert_close, split, values

THEIRS: Any = jax.scipy.linalg
F64, C128 = np.float64, np.complex128
A, B, V = values(F64, 4, 4), values(F64, 4, 2), values(F64, 4)
POSITIVE = A @ A.T + np.eye(4)
COMPLEX = values(C128, 4, 4)
TALL = values(F64, 5, 3)
STACK = values(F64, 2, 3, 3) + 3 * np.eye(3)

# Functions of which signs or phases are up to nobody.
ROWS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("block_diag", (A, B, V, F64(2)), {}),
    ("block_diag", (V.astype(np.float32), COMPLEX), {}),
    ("cho_solve", ((np.linalg.cholesky(POSITIVE), True), B), {}),
    ("cho_solve", ((COMPLEX + 4 * np.eye(4), False), V), {}),
    ("cholesky", (POSITIVE,), {}),
    ("cholesky", (POSITIVE,), {"lower": True}),
    ("circulant", (V,), {}),
    ("companion", (V,), {}),
    ("convolution_matrix", (V, 3), {}),
    ("det", (STACK,), {}),
    ("dft", (4,), {}),
    ("eigh", (POSITIVE,), {"eigvals_only": True}),
    ("eigh_tridiagonal", (V, V[:3]), {"eigvals_only": True}),
    (
        "eigh_tridiagonal",
        (V, V[:3]),
        {"eigvals_only": True, "select": "i", "select_range": (1, 2)},
    ),
    ("expm", (A,), {}),
    ("expm_frechet", (A, POSITIVE), {}),
    ("fiedler", (V,), {}),
    ("fiedler_companion", (V,), {}),
    ("hadamard", (4,), {}),
    ("hankel", (V, V), {}),
    ("helmert", (4,), {}),
    ("hessenberg", (A,), {"calc_q": True}),
    ("hilbert", (4,), {}),
    ("inv", (STACK,), {}),
    ("invhilbert", (4,), {}),
    ("invpascal", (4,), {}),
    ("leslie", (V, V[:3]), {}),
    ("lu", (A,), {}),
    ("lu_factor", (A,), {}),
    ("lu_solve", (tuple(map(np.asarray, scipy.linalg.lu_factor(A))), B), {}),
    ("polar", (COMPLEX,), {}),
    ("polar", (TALL,), {}),
    ("polar", (TALL.T,), {"side": "left"}),
    ("qr", (TALL,), {}),
    ("qr", (TALL,), {"pivoting": True}),
    ("qr_multiply", (TALL, values(F64, 2, 5)), {}),
    ("rsf2csf", scipy.linalg.schur(A), {}),
    ("schur", (A,), {}),
    ("schur", (A,), {"output": "complex"}),
    ("solve", (STACK, STACK[..., :2]), {}),
    ("solve", (POSITIVE, V), {"assume_a": "pos"}),
    ("solve_sylvester", (A, POSITIVE, A), {}),
    ("solve_triangular", (STACK, STACK[..., :2]), {}),
    ("solve_triangular", (COMPLEX, V), {"trans": "C", "lower": True}),
    ("solve_triangular", (A, B), {"trans": 1, "unit_diagonal": True}),
    ("sqrtm", (POSITIVE,), {}),
    ("svd", (TALL,), {"compute_uv": False}),
    ("toeplitz", (COMPLEX[0],), {}),
    ("toeplitz", (V, B[:, 0]), {}),
    ("toeplitz", (B.T, V), {}),
]
KEYS = [f"{name}-{at}" for at, (name, *_) in enumerate(ROWS)]


def of_arrays(module: Any, at: int) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A row's function of its arrays, and these."""
    name, args, options = ROWS[at]
    arrays, rebuild = split(args)
    return lambda *xs: getattr(module, name)(*rebuild(xs), **options), arrays


def is_own(key: str) -> bool:
    return getattr(linalg, key.rpartition("-")[0]).__class__ is FunctionType


@cache
def compiled() -> tuple[dict[Any, Any], Callable[[Any], Any]]:
    """What JAX gives for all rows, and we for those that are our own, in one program each."""
    theirs = {key: of_arrays(THEIRS, at) for at, key in enumerate(KEYS)}
    ours = {key: of_arrays(linalg, at) for at, key in enumerate(KEYS) if is_own(key)}
    functions, arguments = ({key: row[at] for key, row in theirs.items()} for at in (0, 1))
    jit = partial(jax.jit, compiler_options=QUICKLY)
    return together(jit, functions, arguments, known=True), compiled_rows(ours, known=True)


@pytest.mark.parametrize("key", KEYS)
def test_values_are_those_of_jax_and_scipy(key: str) -> None:
    at = KEYS.index(key)
    name, args, options = ROWS[at]
    with jax.enable_x64(True):
        expected, found = compiled()
        if is_own(key):
            assert_close(found(key), expected[key], 1e5)
        function, arrays = of_arrays(linalg, at)
        evaluated = mx.reference(function)(*arrays)
    assert_close(evaluated, expected[key], 1e5)
    if "select" not in options and getattr(args[0], "ndim", 2) < 3 and name not in OTHER_IN_SCIPY:
        numbers = getattr(scipy.linalg, name)(*args, **options)
        for one, other in zip(jax.tree.leaves(evaluated), jax.tree.leaves(numbers), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


#: Of other signatures or results there.
OTHER_IN_SCIPY = {"hadamard", "eigh_tridiagonal", "cho_solve", "toeplitz"}


def test_pascal_is_in_f32_as_in_jax() -> None:
    for kind in ("symmetric", "lower", "upper"):
        found = mx.reference(lambda kind=kind: linalg.pascal(4, kind))()
        np.testing.assert_allclose(found, scipy.linalg.pascal(4, kind), rtol=1e-5)


def test_functions_of_functions() -> None:
    def sine(module: Any, numpy: Any) -> Any:
        return lambda a: module.funm(a, numpy.sin)

    with jax.enable_x64(True):
        found = mx.jit(sine(linalg, jnp))(A)
    np.testing.assert_allclose(found, scipy.linalg.funm(A, np.sin), rtol=1e-9, atol=1e-9)


def test_fact_vectors_and_factors_solve_their_equations() -> None:
    def everything(a: Any, b: Any, d: Any) -> Any:
        return (
            linalg.eigh(a, b),
            linalg.eigh(a, b, eigvals_only=True, eigvals=(1, 2)),
            linalg.eigh_tridiagonal(d, d[1:]),
            linalg.svd(a, full_matrices=False),
            linalg.cho_solve(linalg.cho_factor(b), a),
        )

    b = POSITIVE + 1j * np.diag([1.0, 2, 3], 1) - 1j * np.diag([1.0, 2, 3], -1)
    b = b @ b.conj().T
    a = COMPLEX + COMPLEX.conj().T
    with jax.enable_x64(True):
        for evaluate in (mx.jit, mx.reference):
            found = jax.tree.map(np.asarray, evaluate(everything)(a, b, V))
            (w, v), some, (u, z), (left, s, right), x = found
            np.testing.assert_allclose(a @ v, b @ v * w, atol=1e-9)
            np.testing.assert_allclose(v.conj().T @ b @ v, np.eye(4), atol=1e-9)
            np.testing.assert_allclose(some, scipy.linalg.eigh(a, b)[0][1:3], rtol=1e-9)
            t = np.diag(V) + np.diag(V[1:], 1) + np.diag(V[1:], -1)
            np.testing.assert_allclose(t @ z, z * u, atol=1e-12)
            np.testing.assert_allclose((left * s) @ right, a, atol=1e-12)
            np.testing.assert_allclose(b @ x, a, atol=1e-9)


# Batches and derivatives of our own functions.

OWN = [
    ("cho_solve", lambda a, b: linalg.cho_solve((a, True), b)),
    ("cholesky", lambda a, b: linalg.cholesky(a @ a.mT + mnp.identity(3))),
    ("eigh", lambda a, b: linalg.eigh(a @ a.mT, eigvals_only=True)),
    ("eigh_tridiagonal", lambda a, b: linalg.eigh_tridiagonal(a[0], b[:2, 0], eigvals_only=True)),
    ("polar", lambda a, b: linalg.polar(a)),
    ("polar-tall", lambda a, b: linalg.polar(b)),
    ("polar-wide", lambda a, b: linalg.polar(b.T, "left")),
    ("solve", lambda a, b: linalg.solve(a, b)),
    ("solve_triangular", lambda a, b: linalg.solve_triangular(a, b, "T")),
    ("toeplitz", lambda a, b: linalg.toeplitz(a[0], b[:, 0])),
    ("block_diag", lambda a, b: linalg.block_diag(a, b)),
]


@pytest.mark.parametrize(("name", "function"), OWN, ids=[name for name, _ in OWN])
def test_derivatives_and_batches(name: str, function: Any) -> None:
    operands = [STACK[0], STACK[1, :, :2]]
    check_derivatives(function, operands, order=2 if name in ("polar", "eigh") else 1)
    stacked = [np.stack([each, 1.1 * each], 1) for each in operands]
    with jax.enable_x64(True):
        batched = mx.reference(mx.vmap(function, in_axes=1))(*stacked)
        for at, member in enumerate((1, 1.1)):
            one = mx.reference(function)(*[member * each for each in operands])
            assert_close(jax.tree.map(lambda x, at=at: x[at], batched), one, 1e3)


def test_polar_factors_have_derivatives_at_equal_singular_values() -> None:
    # Of an orthogonal matrix a: u' = (a' - a a'^T a) / 2.
    q, change = np.linalg.qr(A)[0], values(F64, 4, 4, seed=1)
    with jax.enable_x64(True):
        push = mx.jit(lambda a, t: mx.jvp(linalg.polar, (a,), (t,))[1])
        moved, _ = push(q, change)
        pull = mx.jit(mx.grad(lambda a: mnp.sum(linalg.polar(a)[0] * change)))
        pulled, near = pull(q), [pull(q + sign * 1e-5 * change) for sign in (1, -1)]
        second = mx.jit(lambda a, t: mx.jvp(pull, (a,), (t,))[1])(q, change)
    expected = (change - q @ change.T @ q) / 2
    np.testing.assert_allclose(moved, expected, atol=1e-12)
    np.testing.assert_allclose(pulled, expected, atol=1e-12)  # it is its own transpose
    np.testing.assert_allclose(second, (near[0] - near[1]) / 2e-5, atol=1e-7)


# Names and errors.


def test_every_name_of_jax_is_there_with_its_parameters() -> None:
    names = [name for name in vars(THEIRS) if not name.startswith("_")]
    assert sorted(linalg.__all__) == sorted(names)
    for name in names:
        ours, theirs = (
            inspect.signature(getattr(module, name)).parameters.values()
            for module in (linalg, THEIRS)
        )
        shown = [[(each.name, each.kind, each.default) for each in x] for x in (ours, theirs)]
        assert shown[0] == shown[1], name
        assert getattr(linalg, name).__doc__


BAD: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (
        lambda a: linalg.solve_triangular(a, a[:2]),
        ValueError,
        "solve_triangular: a is not a square matrix, or b",
    ),
    (
        lambda a: linalg.solve_triangular(a, a, 3),
        ValueError,
        "solve_triangular: trans 3 is unknown",
    ),
    (
        lambda a: linalg.cho_solve((a[0], True), a),
        ValueError,
        "cho_solve: a is not a square matrix, or b",
    ),
    (lambda a: linalg.cho_solve(a, a), ValueError, "cho_solve: c_and_lower is not a pair"),
    (lambda a: linalg.cholesky(a[:2]), np.linalg.LinAlgError, "cholesky: a is not a square matrix"),
    (lambda a: linalg.eigh(a, type=2), ValueError, "eigh: type 2 is unknown"),
    (lambda a: linalg.eigh_tridiagonal(a[0], a[0]), ValueError, "d and e do not fit"),
    (lambda a: linalg.eigh_tridiagonal(a[0], a[0, 1:], select="v"), ValueError, "select 'v'"),
    (lambda a: linalg.eigh_tridiagonal(a[0], a[0, 1:], select="i"), ValueError, "requires a range"),
    (lambda a: linalg.schur(a, "triangular"), ValueError, "schur: output 'triangular' is unknown"),
    (lambda a: linalg.polar(a, "up"), ValueError, "polar: side 'up' is unknown"),
    (lambda a: linalg.polar(a[0]), np.linalg.LinAlgError, "polar: a is not a matrix"),
    (lambda a: linalg.solve(a, a, assume_a="x"), ValueError, "solve: assume_a 'x' is unknown"),
]


@pytest.mark.parametrize(("function", "error", "phrase"), BAD, ids=range(len(BAD)))
def test_refused(function: Any, error: Any, phrase: str) -> None:
    with pytest.raises(error, match=phrase) as caught:
        function(np.eye(3, dtype=np.float32))
    assert "test_linalg.py" in str(caught.value)
