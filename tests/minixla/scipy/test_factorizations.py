"""LU factors in SciPy's form: against SciPy and JAX, derivatives, batches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest
import scipy.linalg

import minixla as mx
import minixla.numpy as mnp
from minixla.scipy import factorizations
from tests.harness import by_jax
from tests.minixla.numpy.tables import assert_close, values
from tests.minixla.numpy.test_systems import regular

C64 = np.complex64
A, B = regular(3, 3, dtype=C64), values(C64, 3, 2)
TALL = values(np.float32, 4, 2)


@pytest.mark.parametrize("a", [A, TALL, TALL.T, values(np.float32, 0, 0)], ids=str)
def test_factors_are_scipys(a: np.ndarray) -> None:
    for one, other in (
        (factorizations.lu(a), scipy.linalg.lu(a)),
        (factorizations.lu(a, permute_l=True), scipy.linalg.lu(a, permute_l=True)),
        (factorizations.lu_factor(a), jax.scipy.linalg.lu_factor(a)),
    ):
        assert len(one) == len(other)
        for found, expected in zip(one, other, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("trans", [0, 1, 2])
def test_solutions_are_jaxs_with_derivatives(trans: int) -> None:
    def loss(np_: Any, linalg: Any) -> Any:
        def function(a: Any, b: Any) -> Any:
            x = linalg.lu_solve(linalg.lu_factor(a), b, trans)
            return np_.sum(np_.real(np_.sin(x) * (1 + 2j)))

        return function

    with jax.enable_x64(True):
        a, b = A.astype(np.complex128), B.astype(np.complex128)
        theirs = jax.value_and_grad(loss(jnp, jax.scipy.linalg), (0, 1))
        ours = mx.jit(mx.value_and_grad(loss(mnp, factorizations), (0, 1)))
        for one, other in zip(
            jax.tree.leaves(ours(a, b)), jax.tree.leaves(by_jax(theirs, a, b)), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_batches() -> None:
    a, b = regular(2, 3, 3), values(np.float32, 2, 3)
    factors = factorizations.lu_factor(a)
    found = factorizations.lu_solve(factors, b)
    assert_close(found, by_jax(jax.scipy.linalg.lu_solve, tuple(map(np.asarray, factors)), b), 64)
    assert_close(mx.vmap(factorizations.lu_solve)(factors, b), np.asarray(found), 64)
    one = factorizations.lu_solve([each[0] for each in factors], np.stack([b[0]] * 4, -1))
    assert_close(one[:, 3], np.asarray(found)[0], 64)


def test_errors() -> None:
    factors = factorizations.lu_factor(A)
    with pytest.raises(np.linalg.LinAlgError, match="lu_solve: lu is not a square matrix"):
        factorizations.lu_solve(factorizations.lu_factor(TALL), B)
    with pytest.raises(ValueError, match="lu_solve: b and lu must have the same number of rows"):
        factorizations.lu_solve(factors, B[:2])
    for wrong in (3, (A,)):
        with pytest.raises(ValueError, match=r"(?s)lu_solve: lu_and_piv is not a pair.*called at"):
            factorizations.lu_solve(wrong, B)
    with pytest.raises(ValueError, match="lu_solve: trans 3 is unknown"):
        factorizations.lu_solve(factors, B, 3)
    with pytest.raises(np.linalg.LinAlgError, match="lu_factor: a is not a matrix"):
        factorizations.lu_factor(B[0])
