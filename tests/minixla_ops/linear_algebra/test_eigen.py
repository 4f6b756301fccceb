"""Eigh, Eig and Schur: equations, derivatives against JAX and where eigenvalues are equal."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax import lax

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import (
    AttributeValueError,
    DerivativeError,
    NaNError,
    ShapeError,
    TransformError,
)
from minixla.legalize.cuda.cusolver import complex_vectors
from tests.harness import (
    DerivativesTogether,
    check_batching,
    check_derivatives,
    check_rejected,
    graph_of,
)

generator = np.random.default_rng(0)
TYPES = [np.float64, np.float32, np.complex128, np.complex64]
SIZES = [(4, 4), (2, 3, 3), (2, 1, 2, 2), (1, 1), (0, 0), (2, 0, 0), (0, 3, 3)]


def normal(sizes, dtype=np.float64):
    values = generator.standard_normal(sizes)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(sizes)
    return values.astype(dtype)


def adjoint(a):
    return a.swapaxes(-1, -2).conj()


def hermitian(a, lower=True):
    """The matrices that one triangle stands for."""
    strict = np.tril(a, -1) if lower else np.triu(a, 1)
    return strict + adjoint(strict) + a.real * np.eye(a.shape[-1])


def results(function, *operands):
    """Of the compiled function, and of the reference."""
    with jax.enable_x64(True):
        return [jax.tree.map(np.asarray, f(function)(*operands)) for f in (mx.jit, mx.reference)]


def assert_close(one, other, dtype):
    bound = 200 * np.finfo(dtype).eps
    np.testing.assert_allclose(one, other, rtol=bound, atol=bound)


MATRICES = {(sizes, dtype): normal(sizes, dtype) for sizes in SIZES for dtype in TYPES}


@pytest.mark.parametrize("lower", [True, False])
def test_fact_vectors_are_multiplied_by_eigenvalues(lower):
    found = results(lambda xs: [ops.eigh(x, lower) for x in xs], list(MATRICES.values()))
    alone = results(lambda xs: [ops.eigh(x, lower, False) for x in xs], list(MATRICES.values()))
    for evaluated, of_values in zip(found, alone, strict=True):
        for (sizes, dtype), (w, v), values in zip(MATRICES, evaluated, of_values, strict=True):
            a = hermitian(MATRICES[sizes, dtype], lower)
            assert (w.dtype, v.dtype) == (np.finfo(dtype).dtype, dtype)
            assert (w.shape, v.shape) == (sizes[:-1], sizes)
            assert_close(a @ v, v * w[..., None, :], dtype)
            assert_close(adjoint(v) @ v, np.broadcast_to(np.eye(sizes[-1]), sizes), dtype)
            assert np.all(np.diff(w) >= 0)
            assert_close(values, w, dtype)


def test_fact_right_vectors_are_multiplied_by_eigenvalues():
    found = results(lambda xs: [ops.eig(x) for x in xs], list(MATRICES.values()))
    alone = results(lambda xs: [ops.eig(x, False) for x in xs], list(MATRICES.values()))
    for evaluated, of_values in zip(found, alone, strict=True):
        for (sizes, dtype), (w, v), values in zip(MATRICES, evaluated, of_values, strict=True):
            wide = np.result_type(dtype, np.complex64)
            assert (w.dtype, v.dtype, w.shape, v.shape) == (wide, wide, sizes[:-1], sizes)
            assert_close(MATRICES[sizes, dtype] @ v, v * w[..., None, :], dtype)
            assert_close(np.linalg.norm(v, axis=-2), np.ones(sizes[:-1]), dtype)
            assert_close(np.sort_complex(values), np.sort_complex(w), dtype)


def test_fact_schur_vectors_make_matrices_triangular():
    found = results(lambda xs: [ops.schur(x) for x in xs], list(MATRICES.values()))
    alone = results(lambda xs: [ops.schur(x, False) for x in xs], list(MATRICES.values()))
    for evaluated, forms in zip(found, alone, strict=True):
        for (sizes, dtype), (t, z), form in zip(MATRICES, evaluated, forms, strict=True):
            assert t.dtype == z.dtype == dtype
            assert_close(z @ t @ adjoint(z), MATRICES[sizes, dtype], dtype)
            assert_close(adjoint(z) @ z, np.broadcast_to(np.eye(sizes[-1]), sizes), dtype)
            np.testing.assert_array_equal(np.tril(t, -1 if dtype in TYPES[2:] else -2), 0)
            assert_close(form, t, dtype)


def test_schur_forms_are_those_of_scipy():
    a = normal((5, 5))
    for evaluated in results(ops.schur, a):
        for one, other in zip(evaluated, scipy.linalg.schur(a), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_matrices_without_numbers_give_nan_and_their_neighbours_do_not():
    a = np.stack([np.full((3, 3), np.nan), hermitian(normal((3, 3)))])
    functions = [ops.eigh, ops.eig, ops.schur, lambda a: ops.eigh(a, True, False)]
    for evaluated in results(lambda a: [f(a) for f in functions], a):
        for leaf in jax.tree.leaves(evaluated):
            assert np.isnan(leaf[0]).any()
            assert np.isfinite(leaf[1]).all()


# Derivatives.


def of_triangle(lower):
    def whole(a):
        strict = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
        return strict + strict.mT.conj() + jnp.real(a) * jnp.eye(a.shape[-1])

    return lambda a: lax.linalg.eigh(whole(a), lower=lower, symmetrize_input=False)[::-1]


def phaseless(found):
    """Eigenvalues, and what vectors are whatever their phases."""
    values, vectors = found
    return values, vectors * vectors[..., :1, :].conj()


def eig_of_jax(a, vectors=True):
    return lax.linalg.eig(
        a,
        compute_left_eigenvectors=False,
        compute_right_eigenvectors=vectors,
        enable_eigvec_derivs=True,
    )


REAL, COMPLEX = normal((2, 3, 3)), normal((2, 3, 3), np.complex128)
FUNCTIONS = {
    "eigh": (ops.eigh, REAL, of_triangle(True)),
    "eigh-upper": (lambda a: ops.eigh(a, False), REAL, of_triangle(False)),
    "eigh-complex": (
        lambda a: phaseless(ops.eigh(a)),
        COMPLEX,
        lambda a: phaseless(of_triangle(True)(a)),
    ),
    "eigvalsh": (lambda a: ops.eigh(a, True, False), REAL, lambda a: of_triangle(True)(a)[0]),
    "eigvalsh-complex": (
        lambda a: ops.eigh(a, False, False),
        COMPLEX,
        lambda a: of_triangle(False)(a)[0],
    ),
    "eig": (ops.eig, REAL, eig_of_jax),
    "eig-complex": (ops.eig, COMPLEX, eig_of_jax),
    "eigvals": (lambda a: ops.eig(a, False), REAL, lambda a: eig_of_jax(a, False)),
}
DERIVATIVES = DerivativesTogether(
    {name: (ours, [a], of_jax, {"order": 1}) for name, (ours, a, of_jax) in FUNCTIONS.items()}
)


@pytest.mark.parametrize("row", DERIVATIVES.rows)
def test_derivatives(row):
    DERIVATIVES.check(row)


@pytest.mark.parametrize("row", ["eigh", "eigh-complex", "eigvalsh", "eig", "eigvals"])
def test_second_derivatives(row):
    function, a, _ = FUNCTIONS[row]
    check_derivatives(function, [a[0]])


def gradients(function, a):
    with jax.enable_x64(True):
        forward = mx.jit(mx.jacfwd(function))(a)
        return [forward, *[np.asarray(f(mx.grad(function))(a)) for f in (mx.jit, mx.reference)]]


#: Exactly equal eigenvalues, whatever the rounding errors.
REPEATED = [
    np.eye(3),
    np.diag([1.0, 2, 2]),
    np.zeros((3, 3)),
    np.kron(np.eye(2), [[2.0, 1], [1, 2]]),
]


@pytest.mark.parametrize("a", REPEATED, ids=range(4))
def test_derivatives_of_functions_of_equal_eigenvalues_are_right(a):
    # Of sum f(w): f'(a), whatever is equal.
    for function, derivative in ((mnp.exp, scipy.linalg.expm), (lambda w: w * w, lambda a: 2 * a)):
        whole = lambda a: mnp.sum(function(ops.eigh((a + a.T) / 2, True, False)))  # noqa: B023, E731
        for found in gradients(whole, a):
            np.testing.assert_allclose(found, derivative(a), rtol=1e-12, atol=1e-12)
        general = lambda a: mnp.real(mnp.sum(function(ops.eig(a, False))))  # noqa: B023, E731
        for found in gradients(general, a):
            np.testing.assert_allclose(found, derivative(a).T, rtol=1e-12, atol=1e-12)


def test_a_vector_whose_eigenvalue_is_alone_has_its_derivative_beside_equal_ones():
    # JAX's reverse derivative is NaN.
    a = np.diag([1.0, 1, 4])
    first = lambda a: ops.eigh((a + a.T) / 2)[1][0, 2] * ops.eigh((a + a.T) / 2)[1][2, 2]  # noqa: E731
    step, (_, *found) = 1e-6, gradients(first, a)
    change = np.zeros((3, 3))
    change[0, 2] = change[2, 0] = step
    with jax.enable_x64(True):
        above, below = (mx.reference(first)(a + sign * change) for sign in (1, -1))
    for each in found:
        assert np.isfinite(each).all()
        slope = (each * change).sum() / step
        np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-6)


def test_vectors_of_equal_eigenvalues_have_no_derivative_and_debug_nans_says_so():
    a = np.eye(2)
    root = lambda a: mnp.sum(ops.eigh(a)[1] * np.array([[1.0, 2], [3, 4]]))  # noqa: E731
    for found in gradients(root, a)[1:]:
        assert np.isnan(found).any()
    with jax.enable_x64(True), mx.debug_nans():
        for derivative in (mx.grad(root), mx.jit(mx.grad(root))):
            with pytest.raises(NaNError, match=r"eigh(.|\n)*test_eigen\.py"):
                derivative(a)
    # A change that does not mix them leaves them.
    with jax.enable_x64(True):
        _, tangent = mx.jit(lambda a: mx.jvp(ops.eigh, (a,), (np.diag([1.0, 2]),)))(a)
    np.testing.assert_array_equal(tangent[1], 0)
    np.testing.assert_array_equal(tangent[0], [1, 2])


def test_vectors_that_are_multiplied_by_0_count_as_not_used():
    """The one case in which a derivative at equal eigenvalues is neither right nor NaN."""
    weights = np.arange(9.0).reshape(3, 3)

    def function(a):
        values, vectors = ops.eigh(a)
        scaled = vectors * mnp.broadcast_to(values, (3, 3))
        return mnp.sum(scaled @ vectors.T * weights)

    for found in gradients(function, np.zeros((3, 3)))[1:]:
        np.testing.assert_array_equal(found, np.diag(np.diag(weights)))


def test_a_schur_form_has_no_derivative():
    with pytest.raises(DerivativeError, match=r"schur: the operation has no (.|\n)*eigh or eig"):
        mx.jvp(ops.schur, (np.eye(2),), (np.eye(2),))


# Batches, texts, errors.


def test_batching():
    a = normal((3, 3)) + 3 * np.eye(3)
    check_batching(lambda a: phaseless(ops.eigh(a)), [a])
    check_batching(lambda a: ops.eigh(a, False, False), [a])
    check_batching(ops.schur, [a])
    check_batching(ops.eig, [a])
    wide = graph_of(mx.vmap(ops.eigh, in_axes=1), [normal((3, 4, 3))])
    assert [step.op.name for step in wide.instructions].count("Eigh") == 1


def test_programs_call_lapack_and_cusolver():
    with jax.enable_x64(True):
        text = mx.jit(lambda a: [ops.eigh(a), ops.eigh(a, True, False)]).lower(np.eye(2)).as_text()
    assert text.count("lapack_dsyevd_ffi") == 2
    assert text.count("mode = 86") == text.count("mode = 78") == 1  # V and N
    graph = graph_of(ops.eigh, [np.eye(2)])
    assert "minixla.Eigh" in graph.stablehlo()
    assert "minixla.Eigh" in str(graph)


@pytest.mark.parametrize(("function", "platform"), [(ops.eig, "tpu"), (ops.schur, "cuda")])
def test_platforms_that_lack_them_are_named(function, platform):
    with pytest.raises(TransformError, match=rf"XLA has no code for .* on {platform}"):
        mx.export(function, np.eye(2, dtype=np.float32), platforms=[platform])


@pytest.mark.parametrize(
    ("dtype", "own", "of_values"),
    [(np.float32, "f32", "complex<f32>"), (np.complex128, "complex<f64>", "complex<f64>")],
)
def test_programs_for_gpus_call_cusolver(dtype, own, of_values):
    a = np.zeros((2, 3, 3), dtype)
    for vectors in (True, False):
        graph = graph_of(partial(ops.eig, vectors=vectors), [a])
        text = graph.stablehlo("cuda")
        (call,) = (line for line in text.splitlines() if "cusolver_geev_ffi" in line)
        assert f"left = false, right = {str(vectors).lower()}" in call
        made = [f"2x3x3x{own}", f"2x3x{of_values}", f"2x3x3x{own}", f"2x3x3x{own}", "2xi32"]
        assert ", ".join(f"tensor<{each}>" for each in made) in call.rpartition("->")[2]


@pytest.mark.parametrize("first", [1, -1])
@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_pairs_of_conjugate_vectors_of_cusolver_are_unpacked(n, first):
    values, vectors = (x.astype(np.complex128) for x in np.linalg.eig(normal((4, n, n))))
    if first < 0:  # which of two comes first is not said
        values, vectors = values.conj(), vectors.conj()
    # cuSOLVER's: of each pair the real parts, and then the imaginary ones, of the first.
    packed = vectors.real.copy()
    for stack, column in zip(*np.nonzero(np.sign(values.imag) == first), strict=True):
        packed[stack, :, column + 1] = vectors[stack, :, column].imag
    with jax.enable_x64(True):
        found = mx.jit(complex_vectors)(values, packed)
    np.testing.assert_array_equal(found, vectors)


@pytest.mark.parametrize("function", [ops.eigh, ops.eig, ops.schur])
def test_rejected(function):
    name = function.__name__
    for a, phrase in (
        (np.zeros((2, 3)), "must be a square matrix"),
        (np.zeros(3), "f64[3]"),
        (np.eye(2, dtype=np.int32), "must be one of f32, f64, c64, c128, not s32"),
        (np.eye(2, dtype=np.float16), "c128, not f16"),
    ):
        check_rejected(lambda a: function(a), [a], ShapeError, f"{name}: (C1)", phrase)
    check_rejected(lambda a: function(a, vectors=2), [np.eye(2)], AttributeValueError, "vectors")
