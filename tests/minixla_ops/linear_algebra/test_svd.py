"""Svd: its equation, derivatives against JAX, and where singular values are equal or 0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, NaNError, ShapeError
from tests.harness import (
    DerivativesTogether,
    check_batching,
    check_derivatives,
    check_rejected,
    graph_of,
)
from tests.minixla_ops.linear_algebra.test_eigen import (
    TYPES,
    adjoint,
    assert_close,
    gradients,
    normal,
    results,
)

SIZES = [(4, 4), (2, 3, 2), (2, 2, 3), (2, 1, 1, 4), (0, 3), (3, 0), (2, 0, 0), (0, 3, 2)]
MATRICES = {(sizes, dtype): normal(sizes, dtype) for sizes in SIZES for dtype in TYPES}


@pytest.mark.parametrize("full", [True, False])
def test_fact_products_of_vectors_and_values_give_the_matrix(full):
    found = results(lambda xs: [ops.svd(x, full) for x in xs], list(MATRICES.values()))
    alone = results(lambda xs: [ops.svd(x, full, False) for x in xs], list(MATRICES.values()))
    for evaluated, of_values in zip(found, alone, strict=True):
        for (sizes, dtype), (u, s, vh), values in zip(MATRICES, evaluated, of_values, strict=True):
            *batch, m, n = sizes
            k = min(m, n)
            left, right = (m, n) if full else (k, k)
            assert (u.dtype, s.dtype, vh.dtype) == (dtype, np.finfo(dtype).dtype, dtype)
            assert u.shape == (*batch, m, left)
            assert vh.shape == (*batch, right, n)
            product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
            assert_close(product, MATRICES[sizes, dtype], dtype)
            assert_close(adjoint(u) @ u, np.broadcast_to(np.eye(left), (*batch, left, left)), dtype)
            assert_close(
                vh @ adjoint(vh), np.broadcast_to(np.eye(right), (*batch, right, right)), dtype
            )
            assert np.all(np.diff(s) <= 0)
            assert_close(values, s, dtype)


def test_matrices_without_numbers_give_nan_and_their_neighbours_do_not():
    a = np.stack([np.full((3, 2), np.nan), normal((3, 2))])
    for evaluated in results(lambda a: [*ops.svd(a), ops.svd(a, vectors=False)], a):
        for leaf in evaluated:
            assert np.isnan(leaf[0]).any()
            assert np.isfinite(leaf[1]).all()


# Derivatives.


def phaseless(found):
    """Values, what vectors are whatever their phases, and the unitary factor."""
    u, s, vh = found
    k = s.shape[-1]
    left, right = u[..., :k], vh[..., :k, :]
    return s, left * left[..., :1, :].conj(), right * right[..., :1].conj(), left @ right


def projections(found):
    """The same, and the projections on what full matrices add."""
    u, s, vh = found
    left, right = u[..., s.shape[-1] :], vh[..., s.shape[-1] :, :]
    return *phaseless(found), left @ left.mT.conj(), right.mT.conj() @ right


TALL, WIDE = normal((3, 2)), normal((2, 3), np.complex128)
FUNCTIONS = {
    "square": (lambda a: ops.svd(a, False), normal((2, 3, 3)), jnp.linalg.svd),
    "tall": (
        lambda a: ops.svd(a, False),
        TALL,
        lambda a: jnp.linalg.svd(a, full_matrices=False),
    ),
    "wide-complex": (
        lambda a: phaseless(ops.svd(a, False)),
        WIDE,
        lambda a: phaseless(jnp.linalg.svd(a, full_matrices=False)),
    ),
    "square-complex": (
        lambda a: phaseless(ops.svd(a)),
        normal((3, 3), np.complex128),
        lambda a: phaseless(jnp.linalg.svd(a)),
    ),
    "values": (
        lambda a: ops.svd(a, vectors=False),
        WIDE,
        lambda a: jnp.linalg.svd(a, compute_uv=False),
    ),
}
DERIVATIVES = DerivativesTogether(
    {name: (ours, [a], of_jax, {"order": 1}) for name, (ours, a, of_jax) in FUNCTIONS.items()}
)


@pytest.mark.parametrize("row", DERIVATIVES.rows)
def test_derivatives(row):
    DERIVATIVES.check(row)


@pytest.mark.parametrize("row", ["tall", "wide-complex", "values"])
def test_second_derivatives(row):
    function, a, _ = FUNCTIONS[row]
    check_derivatives(function, [a])


@pytest.mark.parametrize("a", [TALL, WIDE, normal((2, 1, 3))], ids=["tall", "wide", "stack"])
def test_derivatives_of_full_matrices(a):
    # JAX has none.
    check_derivatives(lambda a: projections(ops.svd(a)), [a], order=1)


@pytest.mark.parametrize(
    "a", [np.eye(3), np.diag([2.0, 2, 1]), np.eye(3, 2) * 3], ids=["identity", "two", "tall"]
)
def test_derivatives_of_functions_of_equal_values_are_right(a):
    # Of the sum of values the polar factor, of that of their squares 2 a.
    for function, derivative in (
        (mnp.sum, np.eye(*a.shape)),
        (lambda s: mnp.sum(s * s), 2 * a),
    ):
        whole = lambda a: function(ops.svd(a, vectors=False))  # noqa: B023, E731
        for found in gradients(whole, a):
            np.testing.assert_allclose(found, derivative, rtol=1e-12, atol=1e-12)


def test_derivatives_of_values_that_are_0_are_0():
    a = np.diag([2.0, 0, 0])
    for found in gradients(lambda a: mnp.sum(ops.svd(a, vectors=False)), a):
        np.testing.assert_allclose(found, np.diag([1.0, 0, 0]), atol=1e-12)


def test_vectors_whose_value_is_alone_have_their_derivative_beside_equal_ones():
    a = np.diag([3.0, 1, 1])
    first = lambda a: mnp.sum(ops.svd(a)[0][:, 0] * ops.svd(a)[2][0] * np.arange(3.0))  # noqa: E731
    every = gradients(first, a)
    assert np.isfinite(every).all()
    step = 1e-6 * np.arange(9.0).reshape(3, 3)
    with jax.enable_x64(True):
        above, below = (mx.reference(first)(a + sign * step) for sign in (1, -1))
    slope = (every[-1] * step).sum()
    np.testing.assert_allclose(slope, (above - below) / 2, rtol=1e-5, atol=1e-15)


def test_vectors_of_equal_values_have_no_derivative_and_debug_nans_says_so():
    a, weights = np.eye(2), np.array([[1.0, 2], [3, 4]])
    function = lambda a: mnp.sum(ops.svd(a)[0] * weights)  # noqa: E731
    for found in gradients(function, a)[1:]:
        assert np.isnan(found).any()
    with (
        jax.enable_x64(True),
        mx.debug_nans(),
        pytest.raises(NaNError, match=r"svd(.|\n)*test_svd"),
    ):
        mx.jit(mx.grad(function))(a)


# Batches, texts, errors.


def test_batching():
    check_batching(lambda a: phaseless(ops.svd(a, False)), [normal((3, 2))])
    check_batching(lambda a: ops.svd(a, vectors=False), [normal((2, 3))])
    graph = graph_of(mx.vmap(ops.svd, in_axes=1), [normal((3, 4, 2))])
    assert [step.op.name for step in graph.instructions].count("Svd") == 1


@pytest.mark.parametrize(
    ("sizes", "full", "called", "results"),
    [
        # As JAX: Jacobi's method has no reduced form for small matrices.
        ((2, 40, 20), False, "cusolver_gesvdj_ffi", ["2x40x40", "2x20x20"]),
        ((60, 40), False, "cusolver_gesvdj_ffi", ["60x40", "40x40"]),
        ((60, 40), True, "cusolver_gesvdj_ffi", ["60x60", "40x40"]),
        ((2000, 40), False, "cusolver_gesvd_ffi", ["2000x40", "40x40"]),
        ((40, 2000), False, "cusolver_gesvd_ffi", ["2000x40", "40x40"]),
    ],
)
def test_programs_for_gpus_call_cusolver(sizes, full, called, results):
    graph = graph_of(lambda a: ops.svd(a, full), [np.zeros(sizes, np.float32)])
    text = graph.stablehlo("cuda")
    (call,) = (line for line in text.splitlines() if called in line)
    assert f"full_matrices = {str(results[0] in ('2x40x40', '60x60')).lower()}" in call
    for each in results:
        assert f"tensor<{each}xf32>" in call.rpartition("->")[2]


def test_a_stack_that_is_split_over_devices_stays_split():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    a = normal((8, 3, 2), np.float32)
    placed = jax.device_put(a, split)
    u, s, vh = mx.jit(lambda a: ops.svd(a, False))(placed)
    assert s.sharding.is_equivalent_to(split, 2)
    np.testing.assert_allclose((u * s[:, None]) @ vh, a, rtol=1e-4, atol=1e-5)
    gradient = mx.jit(mx.grad(lambda a: ops.svd(a, vectors=False).sum()))(placed)
    np.testing.assert_allclose(gradient, np.asarray(u) @ np.asarray(vh), rtol=1e-4, atol=1e-4)


def test_rejected():
    for a, phrase in (
        (np.zeros(3), "a must be a matrix"),
        (np.eye(2, dtype=np.int32), "must be one of f32, f64, c64, c128, not s32"),
    ):
        check_rejected(lambda a: ops.svd(a), [a], ShapeError, "svd: (C1)", phrase)
    check_rejected(lambda a: ops.svd(a, 2), [np.eye(2)], AttributeValueError, "full_matrices")
