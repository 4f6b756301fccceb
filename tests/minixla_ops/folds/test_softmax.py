"""Softmax: against the formula, JAX, and the derivatives of the formula."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, ShapeError
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)

# Shape and dimensions, among them none, several in any order, and sizes of 0.
CASES = {
    "last": ((3, 4), (1,)),
    "first": ((3, 4), (0,)),
    "several": ((2, 3, 2), (2, 0)),
    "none": ((3,), ()),
    "rank 0": ((), ()),
    "nothing to sum": ((2, 0), (1,)),
    "no rows": ((0, 2), (1,)),
}
EACH_CASE = pytest.mark.parametrize("case", CASES)


def drawn(case, dtype=np.float64):
    shape, dimensions = CASES[case]
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    return lambda x: ops.softmax(x, dimensions), x


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.complex64])
@EACH_CASE
def test_values(case, dtype):
    function, x = drawn(case, dtype)
    check_operation(function, [x], ulp=8)


@EACH_CASE
def test_derivatives(case):
    function, x = drawn(case)
    dimensions = CASES[case][1]

    def of_jax(x):
        return jax.nn.softmax(x, dimensions) if dimensions else jnp.exp(x - x)

    check_derivatives(function, [x], of_jax)


def test_derivatives_of_fourth_order():
    x = np.float64([0.3, -1])
    ours, theirs = lambda x: ops.softmax(x, [0]), jax.nn.softmax
    for _ in range(2):
        ours, theirs = mx.jacrev(mx.jacfwd(ours)), jax.jacrev(jax.jacfwd(theirs))
    with jax.enable_x64(True):
        np.testing.assert_allclose(mx.jit(ours)(x), jax.jit(theirs)(x), rtol=1e-9, atol=1e-12)


@EACH_CASE
def test_batches(case):
    function, x = drawn(case)
    check_batching(function, [x])


def test_rows_without_a_largest_number():
    inf, nan = np.inf, np.nan
    x = np.float32([[-inf, -inf], [inf, 0], [nan, 0], [-inf, 0], [6e4, -6e4]])
    wanted = np.asarray(jax.nn.softmax(x))
    assert np.isnan(wanted[:3]).all()
    np.testing.assert_array_equal(wanted[3:], [[0, 1], [1, 0]])
    for run in (mx.jit, mx.reference):
        np.testing.assert_array_equal(run(lambda x: ops.softmax(x, [1]))(x), wanted)


def test_the_derivative_reads_the_result_alone():
    graph = graph_of(mx.grad(lambda x: ops.softmax(x, [0])[0]), [np.ones(3, np.float32)])
    names = [each.op.name for each in graph.instructions]
    assert names.count("Softmax") == 1
    assert not {"Exp", "Div"} & set(names)


def test_rejected():
    x = np.ones((2, 3), np.float32)
    check_rejected(lambda x: ops.softmax(x, [1]), [x.astype(int)], ShapeError, "C1", "floating")
    check_rejected(lambda x: ops.softmax(x, [2]), [x], AttributeValueError, "C2", "dimension 2")
    repeated = [x], AttributeValueError, "must not repeat"
    check_rejected(lambda x: ops.softmax(x, [1, 1]), *repeated)
