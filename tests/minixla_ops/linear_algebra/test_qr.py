"""Qr, and the reflections that it is made of: equations, derivatives against JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import ShapeError
from minixla_ops.linear_algebra.qr import Geqrf, HouseholderProduct
from tests.harness import check_batching, check_derivatives, check_rejected
from tests.minixla_ops.linear_algebra.test_eigen import (
    TYPES,
    adjoint,
    assert_close,
    normal,
    results,
)

SIZES = [(4, 4), (5, 3), (3, 5), (2, 3, 4, 2), (1, 1), (0, 0), (3, 0), (0, 3), (2, 3, 0), (0, 3, 2)]
MATRICES = {(sizes, dtype): normal(sizes, dtype) for sizes in SIZES for dtype in TYPES}


@pytest.mark.parametrize("full", [True, False])
def test_fact_products_of_the_factors_are_the_matrix(full):
    found = results(lambda xs: [ops.qr(x, full) for x in xs], list(MATRICES.values()))
    for evaluated in found:
        for ((sizes, dtype), a), (q, r) in zip(MATRICES.items(), evaluated, strict=True):
            *batch, m, n = sizes
            k = m if full else min(m, n)
            assert q.dtype == r.dtype == dtype
            assert (q.shape, r.shape) == ((*batch, m, k), (*batch, k, n))
            assert_close(q @ r, a, dtype)
            assert_close(adjoint(q) @ q, np.broadcast_to(np.eye(k), (*batch, k, k)), dtype)
            np.testing.assert_array_equal(np.tril(r, -1), 0)
    for one, other, (_, dtype) in zip(*found, MATRICES, strict=True):  # signs, too
        for left, right in zip(one, other, strict=True):
            assert_close(left, right, dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(
    ("sizes", "full"), [((3, 3), True), ((4, 2), False), ((4, 2), True), ((2, 4), True)]
)
def test_derivatives(sizes, full, dtype):
    order = 2 if full and sizes == (3, 2) and dtype == np.float64 else 1
    check_derivatives(
        lambda a: ops.qr(a, full),
        [normal(sizes, dtype)],
        lambda a: lax.linalg.qr(a, full_matrices=full),
        order=order,
    )


def packed(a):
    """The factors by reflections."""
    h, taus = ops.geqrf(a)
    return ops.householder_product(h, taus), ops.select(h == h, h, h), taus


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_reflections_are_lapacks_and_their_compositions(dtype):
    a = normal((2, 4, 3), dtype)
    for h, taus in results(ops.geqrf, a):
        raw, factors = np.linalg.qr(a, "raw")
        assert_close(h, np.swapaxes(raw, -1, -2), dtype)
        assert_close(taus, factors, dtype)
        (compiled, _) = results(ops.householder_product, h, taus)
        assert_close(compiled, np.linalg.qr(a)[0], dtype)
        for one, other in zip(results(Geqrf().lowered, a)[0], (h, taus), strict=True):
            assert_close(one, other, dtype)
        composed = results(HouseholderProduct().lowered, h, taus)[0]
        assert_close(composed, compiled, dtype)
        fewer = results(ops.householder_product, h, taus[..., :2])
        assert_close(*fewer, dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_derivatives_of_reflections(dtype):
    check_derivatives(packed, [normal((3, 2), dtype)], order=1)


def test_batching():
    check_batching(lambda a: ops.qr(a, False), [normal((3, 2))])
    check_batching(ops.householder_product, [normal((3, 2)), normal((2,))])


def test_rejected():
    a, taus = np.ones((3, 2)), np.ones(2)
    for function in (ops.qr, ops.geqrf):
        check_rejected(lambda a, f=function: f(a), [taus], ShapeError, "(C1) a must be a matrix")
    product = lambda a, taus: ops.householder_product(a, taus)  # noqa: E731
    check_rejected(
        product, [a.T, taus], ShapeError, "(C1) a must have at least as many rows as columns"
    )
    check_rejected(
        product, [a, np.ones((1, 2))], ShapeError, "(C2) a and taus must have equal types"
    )
    check_rejected(
        product, [a, taus.astype(np.float32)], ShapeError, "(C2) a and taus must have equal"
    )
    check_rejected(
        product, [a, np.ones(3)], ShapeError, "(C2) taus must not have more elements than"
    )


def test_programs_of_jax_keep_their_derivatives():
    with jax.enable_x64(True):
        a = normal((4, 3))
        loss = lambda a: jnp.sum(jnp.sin(jnp.linalg.qr(a)[1]))  # noqa: E731
        read = mx.import_stablehlo(jax.jit(loss).lower(a).as_text())
        np.testing.assert_allclose(mx.grad(read)(a), jax.grad(loss)(a), rtol=1e-9, atol=1e-12)
