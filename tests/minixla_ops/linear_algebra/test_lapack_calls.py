"""Calls of LAPACK: over which operand a result is written, and that nobody else sees it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops

ROOT = np.random.default_rng(0).standard_normal((2, 3, 4, 4))
MATRICES = ROOT @ ROOT.swapaxes(-1, -2) + 4 * np.eye(4)
linalg = mx.numpy.linalg


def solved(a, b):
    return ops.triangular_solve(a, b, left_side=True, lower=True)


# What is computed, and by routine the operand that the first result is written over.
CASES = {
    "cholesky": (linalg.cholesky, {"potrf": 0}),
    "triangular_solve": (lambda a: solved(a, a + 1), {"trsm": 1}),
    "triangular_solve, equal operands": (lambda a: solved(a, a), {"trsm": 1}),
    "lu_factor": (mx.scipy.linalg.lu_factor, {"getrf": 0}),
    "qr": (linalg.qr, {"geqrf": 0, "orgqr": 0}),
    "eigh": (linalg.eigh, {"syevd": 0}),
    "eig": (linalg.eig, {}),
    "svd": (linalg.svd, {"gesdd": 0}),
    "svd, values": (lambda a: linalg.svd(a, compute_uv=False), {"gesdd": 0}),
    "schur": (lambda a: mx.scipy.linalg.schur(a), {"gees": 0}),
}
COMPLEX = {"orgqr": "ungqr", "syevd": "heevd"}


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", CASES)
def test_results_in_the_memory_of_operands(name, dtype):
    function, expected = CASES[name]
    if dtype is np.complex64:
        expected = {COMPLEX.get(routine, routine): at for routine, at in expected.items()}
    a = MATRICES.astype(dtype)
    # The operand is a value of the program, and is read before, in the call and after it.
    program = mx.jit(lambda a: (function(2 * a), 2 * a, a))
    text = program.lower(a).as_text()
    calls = re.findall(r"@lapack_[a-z](\w+)_ffi\(.*operand_index = (\d)", text)
    assert {routine: int(at) for routine, at in calls} == expected
    found, twice, once = program(a)
    np.testing.assert_array_equal(twice, 2 * a)
    np.testing.assert_array_equal(once, a)
    np.testing.assert_array_equal(a, MATRICES.astype(dtype))
    for each, alone in zip(*map(flat, (found, mx.jit(function)(2 * a))), strict=True):
        np.testing.assert_allclose(each, alone, rtol=1e-4, atol=1e-4)


def flat(results):
    return results if isinstance(results, tuple) else (results,)


def test_a_donated_matrix_is_factored_in_its_memory():
    program = mx.jit(linalg.cholesky, donate_argnums=0)
    expected = np.linalg.cholesky(MATRICES)
    np.testing.assert_allclose(program(mx.numpy.asarray(MATRICES)), expected, rtol=1e-5)


def test_equal_operands_of_a_triangular_solve():
    a = MATRICES.astype(np.float32)
    found = mx.jit(lambda a: solved(2 * a, 2 * a))(a)
    np.testing.assert_allclose(found, np.linalg.solve(np.tril(a), a), rtol=1e-4, atol=1e-5)
