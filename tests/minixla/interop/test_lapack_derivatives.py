"""Derivatives of LAPACK routines without an operation of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
from tests.minixla.interop.test_lapack import by_reflections, imported, left_and_right, matrices
from tests.selection import diagonal


def moduli(results: Any) -> Any:
    """Sizes of elements: the phases of complex vectors are up to LAPACK."""
    return [abs(x) for x in jax.tree.leaves(results)]


def tridiagonal_solution(a: Any) -> Any:
    below, above = a[..., 0, :].at[0].set(0), a[..., 1, :].at[-1].set(0)
    return lax.linalg.tridiagonal_solve(below, a[..., 2, :] + 5, above, a + 1)


#: Functions of a matrix whose routine has no operation of its own.
ROUTINES: dict[str, Callable[..., Any]] = {
    "gtsv": tridiagonal_solution,
    "ormqr": by_reflections,
    "geev": left_and_right,
    "gehrd": lax.linalg.hessenberg,
    "geqp3": functools.partial(jax.scipy.linalg.qr, pivoting=True),
    "gees": lambda a: moduli(lax.linalg.schur(a)),
    "gees without vectors": lambda a: abs(lax.linalg.schur(a, compute_schur_vectors=False)[0]),
    "sytrd": lambda a: lax.linalg.tridiagonal(a + jnp.conj(a.T)),
    "sytrd of the upper triangle": lambda a: lax.linalg.tridiagonal(a + jnp.conj(a.T), lower=False),
}


@pytest.mark.parametrize(("kind", "name"), diagonal(("f8", "c16"), [*ROUTINES]))
def test_every_routine_has_derivatives(name, kind):
    """Forward and reverse mode agree with difference quotients."""
    with jax.enable_x64(True):
        a, change = matrices(kind, 4, 4)
        read = imported(ROUTINES[name], "stablehlo", a)

        def total(a: Any) -> Any:
            parts = [x for x in jax.tree.leaves(read(a)) if np.issubdtype(x.dtype, np.inexact)]
            weights = [np.cos(np.arange(x.size).reshape(x.shape)) for x in parts]
            pairs = zip(parts, weights, strict=True)
            return sum((mx.numpy.real(x * (w + w * w * 1j))).sum() for x, w in pairs)

        step = 1e-6
        expected = (total(a + step * change) - total(a - step * change)) / (2 * step)
        forward = mx.jvp(total, (a,), (change,))[1]
        backward = np.real(np.sum(np.asarray(mx.vjp(total, a)[1](np.float64(1))[0]) * change))
        np.testing.assert_allclose([forward, backward], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["gtsv", "gehrd", "gees"])
def test_second_derivatives_of_routines(name):
    with jax.enable_x64(True):
        a, change = matrices("f8", 4, 4)
        read = imported(
            lambda a: sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(ROUTINES[name](a))),
            "stablehlo",
            a,
        )
        gradient, step = mx.jit(mx.grad(read)), 1e-6
        expected = (gradient(a + step * change) - gradient(a - step * change)) / (2 * step)
        found = mx.jvp(gradient, (a,), (change,))[1]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        batch = mx.vmap(gradient)(np.stack([a, a + change]))
        np.testing.assert_allclose(batch[1], gradient(a + change), rtol=1e-8)
