"""Systems of equations, inverses, determinants and factors: against jax.numpy, NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.harness import by_jax
from tests.minixla.numpy.tables import call, gradient, numbered, run, values

F32, F64, S32, C64 = np.float32, np.float64, np.int32, np.complex64


def regular(*shape: int, dtype: Any = F32, seed: int = 0) -> np.ndarray:
    """Square matrices far from singular ones, whose rows LU exchanges."""
    found = values(dtype, *shape, seed=seed, low=-1, high=1) + 3 * np.eye(shape[-1])[::-1]
    return found.astype(dtype)


def positive(*shape: int, dtype: Any = F32) -> np.ndarray:
    root = regular(*shape, dtype=dtype)
    return root @ np.swapaxes(root.conj(), -1, -2)


A, B, C = regular(3, 3), values(F32, 3, 2), regular(2, 3, 3, dtype=C64)
TALL, WIDE = values(F32, 5, 3), values(F32, 3, 5, seed=1)

CALLS = [
    ("solve", (A, B), {}),
    ("solve", (A, values(F32, 3)), {}),
    ("solve", (regular(2, 3, 3), values(F32, 3)), {}),
    ("solve", (A, values(F32, 4, 3, 2)), {}),
    ("solve", (regular(2, 1, 3, 3), values(F32, 4, 3, 2)), {}),
    ("solve", (C, values(C64, 2, 3, 2)), {}),
    ("solve", (A, values(C64, 3, 2)), {}),
    ("solve", (A, values(S32, 3, 2)), {}),
    ("solve", (values(F32, 0, 0), values(F32, 0, 2)), {}),
    ("solve", (values(F32, 0, 3, 3), values(F32, 0, 3, 2)), {}),
    ("inv", (A,), {}),
    ("inv", (C,), {}),
    ("inv", (values(S32, 3, 3) + 9 * np.eye(3, dtype=S32),), {}),
    ("inv", (values(F32, 0, 0),), {}),
    ("matrix_power", (A, -3), {}),
    ("det", (regular(1, 1),), {}),
    ("det", (regular(2, 2),), {}),
    ("det", (regular(2, 4, 4),), {}),
    ("det", (C,), {}),
    ("det", (values(F32, 2, 0, 0),), {}),
    ("slogdet", (regular(2, 2),), {}),
    ("slogdet", (regular(2, 4, 4),), {}),
    ("slogdet", (C,), {}),
    ("slogdet", (regular(2, 4, 4),), {"method": "qr"}),
    ("slogdet", (np.zeros((3, 3), F32),), {}),
    ("qr", (TALL,), {}),
    ("qr", (WIDE,), {}),
    ("qr", (TALL, "complete"), {}),
    ("qr", (TALL,), {"mode": "r"}),
    ("qr", (TALL,), {"mode": "raw"}),
    ("qr", (C,), {}),
    ("cholesky", (positive(3, 3),), {}),
    ("cholesky", (positive(2, 3, 3, dtype=C64),), {"upper": True}),
    ("cholesky", (np.tril(positive(3, 3)),), {"symmetrize_input": False}),
    ("lstsq", (TALL, values(F32, 5)), {}),
    ("lstsq", (TALL, values(F32, 5, 2), 0.5), {}),
    ("lstsq", (WIDE, B), {"rcond": -1.0}),
    ("lstsq", (values(F32, 0, 3), values(F32, 0, 2)), {}),
    ("tensorinv", (values(F32, 4, 6, 8, 3),), {}),
    ("tensorinv", (values(F32, 6, 2, 3), 1), {}),
    ("tensorsolve", (values(F32, 2, 3, 6), values(F32, 2, 3)), {}),
    ("tensorsolve", (values(F32, 2, 6, 3), values(F32, 2, 3), (1,)), {}),
]
TABLE = numbered(call, [(f"linalg.{n}", *rest) for n, *rest in CALLS], jit=True, units=4096)


@pytest.mark.parametrize("row", TABLE.rows)
def test_call(row: str) -> None:
    TABLE.check(row)


# Of complex numbers a sum of squares has no gradient, as it is complex: those are below.
GRADIENTS = numbered(
    gradient,
    [
        ("linalg.solve", (A, B), {}),
        ("linalg.solve", (A, values(F32, 4, 3, 2)), {}),
        ("linalg.inv", (regular(2, 3, 3),), {}),
        ("linalg.det", (regular(2, 4, 4),), {}),
        ("linalg.slogdet", (regular(2, 4, 4),), {}),
        ("linalg.qr", (TALL,), {}),
        ("linalg.qr", (WIDE,), {"mode": "r"}),
        ("linalg.cholesky", (positive(3, 3),), {}),
        ("linalg.lstsq", (TALL, values(F32, 5, 2)), {}),
        ("linalg.tensorsolve", (values(F32, 2, 3, 6), values(F32, 2, 3)), {}),
    ],
    units=1 << 14,
)


@pytest.mark.parametrize("row", GRADIENTS.rows)
def test_gradient(row: str) -> None:
    GRADIENTS.check(row)


def real_sum(namespace: Any, results: Any) -> Any:
    """A number that depends on all parts of all results."""
    parts = [namespace.real(x * (0.5 - 2j)) for x in jax.tree.leaves(results)]
    return sum(namespace.sum(namespace.sin(each)) for each in parts)


COMPLEX: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda np_, a: np_.linalg.solve(a, a[0] * 2 + 1),
    "inv": lambda np_, a: np_.linalg.inv(a),
    "det": lambda np_, a: np_.linalg.det(a),
    "slogdet": lambda np_, a: tuple(np_.linalg.slogdet(a)),
    "qr": lambda np_, a: tuple(np_.linalg.qr(a)),
}


def test_gradients_of_complex_matrices_are_jaxs() -> None:
    with jax.enable_x64(True):
        a = regular(2, 3, 3, dtype=np.complex128)
        expected = by_jax(
            lambda a: [
                jax.grad(lambda a, f=f: real_sum(jnp, f(jnp, a)))(a) for f in COMPLEX.values()
            ],
            a,
        )
        for name, wanted in zip(COMPLEX, expected, strict=True):
            found = mx.jit(mx.grad(lambda a, n=name: real_sum(mnp, COMPLEX[n](mnp, a))))(a)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10, err_msg=name)


def test_derivatives_in_both_modes_and_twice() -> None:
    with jax.enable_x64(True):
        a, b = regular(3, 3, dtype=F64), values(F64, 3, 2)
        functions = {
            "solve": lambda a: mnp.linalg.solve(a, mnp.matmul(a, a) @ b),
            "inv": mnp.linalg.inv,
            "det": mnp.linalg.det,
            "slogdet": lambda a: mnp.linalg.slogdet(a)[1],
            "qr": lambda a: tuple(mnp.linalg.qr(a)),
            "complete": lambda a: tuple(mnp.linalg.qr(a[:, :2], "complete")),
        }
        mx.check_grads(mx.jit(lambda a: [f(a) for f in functions.values()]), (a,), order=2)


def test_results_in_double_are_numpys_to_the_last_digits() -> None:
    with jax.enable_x64(True):
        a, b = regular(2, 12, 12, dtype=F64), values(F64, 2, 12, 4)
        ours = mx.jit(
            lambda a, b: (
                mnp.linalg.solve(a, b),
                mnp.linalg.inv(a),
                mnp.linalg.det(a),
                mnp.linalg.slogdet(a),
                mnp.linalg.qr(a),
            )
        )(a, b)
        theirs = (
            np.linalg.solve(a, b),
            np.linalg.inv(a),
            np.linalg.det(a),
            np.linalg.slogdet(a),
            np.linalg.qr(a),
        )
        leaves = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
        for found, expected in leaves:
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


SINGULAR = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[0, 1], [1, 0]]], F32)


def test_singular_matrices_give_what_jaxs_do() -> None:
    def all_of(np_: Any) -> Callable[[Any], Any]:
        def function(a: Any) -> Any:
            linalg = np_.linalg
            solved = linalg.solve(a, np_.ones((3, 2, 1), a.dtype))
            return solved, linalg.inv(a), linalg.det(a), tuple(linalg.slogdet(a))

        return function

    expected = by_jax(all_of(jnp), SINGULAR)
    for found in (mx.jit(all_of(mnp))(SINGULAR), mx.reference(all_of(mnp))(SINGULAR)):
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            is_number = np.isfinite(other)
            np.testing.assert_array_equal(np.isfinite(one), is_number)
            np.testing.assert_allclose(one[is_number], other[is_number], rtol=1e-6)
    assert np.isnan(mnp.linalg.cholesky(-np.eye(2, dtype=F32))).any()


def adjugate(a: np.ndarray) -> np.ndarray:
    """By minors."""
    n = a.shape[-1]
    found = np.zeros_like(a)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(a, i, 0), j, 1)
            found[j, i] = (-1) ** (i + j) * np.linalg.det(minor)
    return found


def test_the_derivative_of_a_determinant_is_that_by_cofactors() -> None:
    with jax.enable_x64(True):
        full = regular(4, 4, dtype=F64)
        dependent = full.copy()
        dependent[3] = dependent[0] + dependent[1]
        twice = dependent.copy()
        twice[2] = dependent[0]
        stack = np.stack([full, dependent, twice, np.zeros((4, 4))])
        found = mx.jit(mx.grad(lambda a: mnp.sum(mnp.linalg.det(a))))(stack)
        for gradient_, a in zip(found, stack, strict=True):
            np.testing.assert_allclose(gradient_, adjugate(a).T, rtol=1e-9, atol=1e-9)


#: Singular matrices of which elimination comes upon the zero at each step, and of lower ranks.
WITHOUT_DETERMINANT = {
    "first of two": [[0, 1], [0, 0]],
    "zeros": [[0, 0], [0, 0]],
    "first of three": [[0, 1, 2], [0, 3, 4], [0, 5, 7]],
    "second of three": [[1, 1, 2], [1, 1, 4], [2, 2, 7]],
    "last of three": [[1, 2, 3], [2, 4, 6], [7, 8, 1]],
    "rank 1": [[1, 2, 3], [2, 4, 6], [3, 6, 9]],
    "second of four": np.diag([1, 0, 2, 3]),
    "last of four": np.diag([1, 2, 3, 0]),
    "four, nilpotent": np.eye(4, k=1),
    "four, rank 3": [[1, 2, 3, 4], [2, 4, 6, 8], [1, 0, 1, 0], [0, 1, 1, 2]],
    "four, rank 2": [[1, 2, 3, 4], [2, 4, 6, 8], [1, 0, 1, 0], [3, 6, 9, 12]],
    "four, rank 1": np.ones((4, 4)),
    "four, rank 0": np.zeros((4, 4)),
    "four, of two scales": np.diag([1e6, 1, 1, 0]),
}


@cache
def _derivatives_of_determinants() -> list[tuple[Any, list[Any]]]:
    """Return three gradients, each with its derivatives; a program of each serves all matrices."""
    gradients = mx.grad(mnp.linalg.det), mx.jacfwd(mnp.linalg.det), mx.jit(mx.grad(mnp.linalg.det))
    return [(each, [mx.jit(mx.jacfwd(each)), mx.jit(mx.jacrev(each))]) for each in gradients]


@pytest.mark.parametrize("name", WITHOUT_DETERMINANT)
def test_both_derivatives_of_a_determinant_where_it_is_zero(name: str) -> None:
    with jax.enable_x64(True):
        a = np.array(WITHOUT_DETERMINANT[name], F64)
        units = np.eye(a.size).reshape(-1, *a.shape)
        slope = np.array(adjugate(a).T)
        # The determinant is linear in each element, and so are its minors: differences are exact.
        second = np.stack([(adjugate(a + t) - adjugate(a - t)).T / 2 for t in units])
        # Beside zeros: what rounding leaves of sums of products, here and in minors.
        for gradient_, derivatives in _derivatives_of_determinants():
            np.testing.assert_allclose(gradient_(a), slope, atol=1e-12)
            for derivative in derivatives:
                found = np.reshape(derivative(a), second.shape)
                # Elements of the gradient come first; second derivatives are symmetric.
                np.testing.assert_allclose(found, second, atol=1e-12)


def test_one_factorisation_serves_a_solution_and_its_derivatives() -> None:
    graph = mx.make_graph(mx.grad(lambda a, b: mnp.sum(mnp.linalg.solve(a, b)), (0, 1)))(A, B)
    text = graph.stablehlo()
    assert text.count("LuDecomposition") == 1
    assert text.count("triangular_solve") == 4


def test_one_matrix_is_factored_once_for_a_batch_of_right_sides() -> None:
    graph = mx.make_graph(mx.vmap(mnp.linalg.solve, (None, 0)))(A, values(F32, 4, 3, 2))
    text = graph.stablehlo()
    assert "tensor<3x8xf32>" in text
    assert "tensor<4x3x3xf32>" not in text


def test_residuals_are_numpys_where_that_is_asked_for() -> None:
    dependent = TALL.copy()
    dependent[:, 2] = dependent[:, 0]
    for a in (TALL, dependent, WIDE):
        b = values(F32, len(a), 2)
        found = mnp.linalg.lstsq(a, b, numpy_resid=True)
        expected = np.linalg.lstsq(a, b)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    with pytest.raises(mx.ConcretizationError, match=r"(?s)lstsq.*Leave numpy_resid out"):
        mx.jit(lambda a: mnp.linalg.lstsq(a, a, numpy_resid=True))(TALL)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
@pytest.mark.parametrize("rank", [3, 2])
def test_least_squares_have_derivatives_at_equal_singular_values(shape, rank) -> None:
    m, n = shape
    a, b = np.zeros((m, n)), values(np.float64, m, 2)
    a[range(rank), range(rank)] = 2
    # A change among matrices of this rank.
    c, d = values(np.float64, m, rank, seed=2), values(np.float64, rank, n, seed=3)
    changed = lambda t: (a[:, :rank] + t * c) @ (np.eye(rank, n) + t * d)  # noqa: E731
    with jax.enable_x64(True):
        solution = lambda t: mnp.linalg.lstsq(changed(t), b)[:2]  # noqa: E731
        first = lambda t: mx.jvp(solution, (t,), (1.0,))[1]  # noqa: E731
        found, second = mx.jit(lambda t: mx.jvp(first, (t,), (1.0,)))(0.0)
        total = lambda t: mnp.sum(mnp.sin(solution(t)[0]))  # noqa: E731
        slopes = mx.jit(lambda t: (mx.jvp(total, (t,), (1.0,))[1], mx.grad(total)(t)))(0.0)
    step = 1e-3
    at = {k: np.linalg.lstsq(changed(k * step), b, rcond=1e-9)[0] for k in (-2, -1, 0, 1, 2)}
    slope = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)
    curvature = (16 * (at[1] + at[-1]) - (at[2] + at[-2]) - 30 * at[0]) / (12 * step**2)
    np.testing.assert_allclose(found[0], slope, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(second[0], curvature, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-12)
    assert np.isfinite(found[1]).all()


def test_results_have_names() -> None:
    q, r = factors = mnp.linalg.qr(TALL)
    assert factors.Q is q
    assert factors.R is r
    assert mx.jit(mnp.linalg.slogdet)(A).logabsdet.shape == ()


ERRORS: list[tuple[str, tuple, dict, type, str]] = [
    ("solve", (TALL, B), {}, np.linalg.LinAlgError, "a is not a square matrix"),
    ("solve", (values(F32, 3), B), {}, ValueError, "a is not a square matrix"),
    ("solve", (A, TALL), {}, ValueError, "a and b must have the same number of rows"),
    ("solve", (A, np.float32(1)), {}, ValueError, "a and b must have the same number of rows"),
    (
        "solve",
        (regular(2, 3, 3), values(F32, 2, 3)),
        {},
        ValueError,
        "a and b must have the same number of rows",
    ),
    ("inv", (TALL,), {}, np.linalg.LinAlgError, "a is not a square matrix"),
    ("det", (TALL,), {}, np.linalg.LinAlgError, "a is not a square matrix"),
    ("slogdet", (TALL,), {}, np.linalg.LinAlgError, "a is not a square matrix"),
    ("slogdet", (A,), {"method": "svd"}, ValueError, "method 'svd' is unknown"),
    ("qr", (values(F32, 3),), {}, np.linalg.LinAlgError, "a is not a matrix"),
    ("qr", (A, "full_matrices"), {}, ValueError, "mode 'full_matrices' is unknown"),
    ("cholesky", (TALL,), {}, np.linalg.LinAlgError, "a is not a square matrix"),
    (
        "lstsq",
        (values(F32, 2, 3, 3), B),
        {},
        np.linalg.LinAlgError,
        "a must be a matrix and b have as many rows",
    ),
    ("lstsq", (TALL, B), {}, np.linalg.LinAlgError, "a must be a matrix and b have as many rows"),
    ("tensorinv", (values(F32, 2, 3),), {}, ValueError, "the first 2 axes"),
    ("tensorinv", (values(F32, 2, 3), 0), {}, ValueError, "ind is not positive"),
    ("tensorsolve", (values(F32, 2, 3), B), {}, ValueError, "a must start with the axes of b,"),
    ("tensorsolve", (A, values(F32, 3), 5), {}, ValueError, "axis"),
]


@pytest.mark.parametrize(("name", "args", "options", "kind", "message"), ERRORS)
def test_errors(name: str, args: tuple, options: dict, kind: type, message: str) -> None:
    with pytest.raises(kind, match=f"(?s){message}.*called at"):
        run(f"linalg.{name}", args, options)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "qr", "solve"])
def test_narrow_floats_are_computed_in_f32(name, kind):
    given = [np.array([[2, 1], [1, 3]], kind), np.ones(2, kind)][: 2 if name == "solve" else 1]
    function = getattr(mnp.linalg, name)
    found = jax.tree.leaves(function(*given))
    wide = jax.tree.leaves(function(*[each.astype(np.float32) for each in given]))
    for narrow, exact in zip(found, wide, strict=True):
        np.testing.assert_array_equal(narrow, np.asarray(exact).astype(kind), strict=True)
