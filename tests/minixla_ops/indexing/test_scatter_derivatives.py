"""Derivatives of Scatter: each kind of update computation, repeated targets, targets outside."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import DerivativeError
from minixla_ops.indexing.scatter_computations import overwrite
from tests.harness import (
    DerivativesTogether,
    Together,
    check_batching,
    check_derivatives,
    graph_of,
)
from tests.oracles import random_values

Numbers = ops.ScatterDimensionNumbers

ROWS = Numbers((1,), (0,), (0,), 1)
ELEMENTS = Numbers((), (0,), (0,), 1)

# Operand sizes, updates' sizes, dimension numbers, indices: repeated ones, and ones outside.
CASES = {
    "rows": ((4, 3), (5, 3), ROWS, [[2], [0], [2], [9], [-1]]),
    "elements": ((4,), (6,), ELEMENTS, [[1], [1], [3], [1], [4], [-1]]),
    "overlapping windows": ((5,), (4, 3), Numbers((1,), (), (0,), 1), [[1], [-1], [3], [2]]),
    "windows first": ((3, 4), (3, 3), Numbers((0,), (1,), (1,), 1), [[3], [0], [3]]),
    "batching": (
        (2, 3),
        (2, 3),
        Numbers((), (1,), (1,), 2, (0,), (0,)),
        [[[1], [1], [0]], [[2], [7], [2]]],
    ),
    "no index components": ((3,), (2, 2), Numbers((1,), (), (), 1), np.zeros((2, 0))),
    "nothing inside": ((4,), (2,), ELEMENTS, [[4], [-5]]),
}


def affine(old, update):
    return old * update + old * 2


def squared(old, update):
    """Forgets the old value."""
    return update * update


def quotient(old, update):
    return ops.div(old, update * update + 1.5)


def scatter(computation, numbers, **promises):
    return lambda x, i, u: ops.scatter(x, i, u, computation, numbers, **promises)


def operands(case):
    sizes, update_sizes, numbers, indices = CASES[case]
    arrays = random_values(np.float64, sizes, 3), random_values(np.float64, update_sizes, 4)
    return arrays, np.asarray(indices, np.int32), numbers


def as_jax(numbers):
    fields = numbers._asdict()
    del fields["index_vector_dim"]
    return lax.ScatterDimensionNumbers(**fields)


IN_JAX = {
    "add": (ops.add, lax.scatter_add),
    "sub": (ops.sub, lax.scatter_sub),
    "overwrite": (overwrite, lax.scatter),
    "max": (ops.max, lax.scatter_max),
    "min": (ops.min, lax.scatter_min),
}


def known_to_jax(case, name):
    given, indices, numbers = operands(case)
    computation, in_jax = IN_JAX[name]
    # JAX skips windows that lie partly outside as a whole, and XLA:CPU takes but one of several
    # updates of a single element that no index leads to.
    is_same = case not in ("overlapping windows", "no index components")
    return (
        lambda x, u: scatter(computation, numbers)(x, indices, u),
        given,
        (lambda x, u: in_jax(x, indices, u, as_jax(numbers), mode="drop")) if is_same else None,
        {"order": 2 if case in ("rows", "overlapping windows") else 1},
    )


KNOWN_TO_JAX = DerivativesTogether(
    {(case, name): known_to_jax(case, name) for name in IN_JAX for case in CASES}
)


@pytest.mark.parametrize("row", KNOWN_TO_JAX.rows, ids="-".join)
def test_kinds_that_jax_knows(row):
    KNOWN_TO_JAX.check(row)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "computation", [ops.mul, affine, squared, quotient, lambda old, update: old]
)
def test_other_computations(case, computation):
    (x, u), indices, numbers = operands(case)

    def function(x, u):
        return scatter(computation, numbers)(x, indices, u)

    check_derivatives(function, [x, u], order=2 if case == "elements" else 1)
    # The operand alone, and the updates alone.
    check_derivatives(lambda x: function(x, u), [x], order=1)
    check_derivatives(lambda u: function(x, u), [u], order=1)


UNIQUE = {
    "rows": (ROWS, [[2], [0], [9], [-1], [3]]),
    "overlapping windows": (Numbers((1,), (), (0,), 1), [[4], [-2], [9], [1]]),
    "batching": (CASES["batching"][2], [[[1], [5], [0]], [[2], [7], [0]]]),
}


@pytest.mark.parametrize("case", UNIQUE)
@pytest.mark.parametrize("computation", [ops.add, overwrite, ops.mul, ops.max, affine, quotient])
def test_promise_of_unique_indices(case, computation):
    numbers, indices = UNIQUE[case]
    (x, u), _, _ = operands(case)
    function = scatter(computation, numbers, unique_indices=True)
    check_derivatives(lambda x, u: function(x, np.asarray(indices, np.int32), u), [x, u])


@pytest.mark.parametrize("computation", [ops.add, overwrite, ops.mul, ops.min, affine])
@pytest.mark.parametrize("unique", [True, False])
def test_promise_of_indices_in_bounds(computation, unique):
    (x, u), _, _ = operands("overlapping windows")
    indices = np.array([[0], [2]] if unique else [[0], [2], [1], [0]], np.int32)
    numbers, u = CASES["overlapping windows"][2], u[: len(indices), : 2 if unique else 3]
    function = scatter(computation, numbers, unique_indices=unique, indices_in_bounds=True)
    check_derivatives(lambda x, u: function(x, indices, u), [x, u])

    def slopes(x, i, u):
        return mx.vjp(lambda x, u: function(x, i, u), x, u)[1](x)

    assert "stablehlo.pad" not in graph_of(slopes, [x, indices, u]).stablehlo()


def coupled(a, b, c, d):
    return a * d + c, b * c - a


@pytest.mark.parametrize("unique", [True, False])
def test_operands_that_depend_on_each_other(unique):
    (x, u), indices, numbers = operands("rows")
    indices = np.asarray(UNIQUE["rows"][1] if unique else indices, np.int32)
    check_derivatives(
        lambda x, y, u, v: ops.scatter(
            [x, y], indices, [u, v], coupled, numbers, unique_indices=unique
        ),
        [x, x * x, u, u + 1],
        order=1,
    )


def test_independent_operands_are_derived_one_by_one():
    (x, u), indices, numbers = operands("rows")

    def both(a, b, c, d):
        return (a + c, d)

    def function(x, y, u, v):
        return ops.scatter([x, y], indices, [u, v], both, numbers)

    check_derivatives(function, [x, x * x, u, u + 1])

    def only_second(y):
        return function(x, y, u, u)[1]

    (slope,) = mx.vjp(only_second, x)[1](np.ones_like(x))
    np.testing.assert_array_equal(slope[:, 0], [0, 1, 0, 1])


def test_an_integer_operand_beside_a_float():
    def arg_max(old, old_place, update, place):
        is_less = ops.lt(old, update)
        return ops.select(is_less, update, old), ops.select(is_less, place, old_place)

    (x, u), indices, numbers = operands("elements")
    places = np.arange(6, dtype=np.int32)

    def function(x, u):
        return ops.scatter([x, np.full(4, -1, np.int32)], indices, [u, places], arg_max, numbers)[0]

    check_derivatives(
        function, [x, u], lambda x, u: lax.scatter_max(x, indices, u, as_jax(numbers), mode="drop")
    )


def test_of_repeated_overwrites_only_the_last_has_a_derivative():
    indices = np.array([[1], [0], [1], [1], [7]], np.int32)

    def function(x, u):
        return scatter(overwrite, ELEMENTS)(x, indices, u)

    x, u = np.zeros(3, np.float32), np.arange(5, dtype=np.float32)
    slopes = mx.reference(lambda x, u, t: mx.vjp(function, x, u)[1](t))(
        x, u, np.array([10, 20, 30], np.float32)
    )
    np.testing.assert_array_equal(slopes[0], [0, 0, 30])
    np.testing.assert_array_equal(slopes[1], [0, 10, 0, 20, 0])


@pytest.mark.parametrize("computation, least", [(ops.max, False), (ops.min, True)])
def test_equal_extremes_share_the_derivative(computation, least):
    indices = np.array([[0], [0], [1], [1], [2]], np.int32)
    x, u = np.array([5, 1, 4], np.float32), np.array([5, 5, 9, 9, 0], np.float32)
    x, u = (-x, -u) if least else (x, u)
    slopes = mx.vjp(lambda x, u: scatter(computation, ELEMENTS)(x, indices, u), x, u)[1](
        np.array([3, 2, 1], np.float32)
    )
    np.testing.assert_array_equal(slopes[0], [1, 0, 1])
    np.testing.assert_array_equal(slopes[1], [1, 1, 1, 1, 0])


def test_an_untouched_nan_does_not_spoil_the_derivative_of_a_maximum():
    x, u = np.array([np.nan, 1], np.float32), np.array([2], np.float32)

    def function(x, u):
        return scatter(ops.max, ELEMENTS)(x, np.array([[1]], np.int32), u)

    # In one program XLA may make a select of a product with a mask, which NaN would spoil.
    slopes = mx.vjp(function, x, u)[1](np.ones(2, np.float32))
    np.testing.assert_array_equal(slopes[0], [1, 0])
    np.testing.assert_array_equal(slopes[1], [1])


def test_product_with_zeros_among_repeated_factors():
    """A quotient of the whole product and the factor would be 0 / 0."""
    indices, u = np.zeros((3, 1), np.int32), np.array([0, 5, 7], np.float32)

    def function(u):
        return scatter(ops.mul, ELEMENTS)(np.array([2], np.float32), indices, u)

    slope = mx.reference(lambda u, t: mx.vjp(function, u)[1](t)[0])(u, np.ones(1, np.float32))
    np.testing.assert_array_equal(slope, [70, 0, 0])


def test_complex_derivatives():
    x, u = random_values(np.complex128, (4,), 1), random_values(np.complex128, (6,), 2)
    indices = operands("elements")[1]
    for computation in (ops.add, overwrite, ops.mul):
        function = scatter(computation, ELEMENTS)
        check_derivatives(lambda x, u, f=function: f(x, indices, u), [x, u])


COMPUTATIONS = {
    "add": ops.add,
    "overwrite": overwrite,
    "max": ops.max,
    "mul": ops.mul,
    "affine": affine,
}


def slopes(name, case):
    """The derivatives with the operand for a cotangent, and operands."""
    (x, u), indices, numbers = operands(case)
    function = scatter(COMPUTATIONS[name], numbers)
    return lambda x, i, u: mx.vjp(lambda x, u: function(x, i, u), x, u)[1](x), [x, indices, u]


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_batching_of_derivatives(name):
    check_batching(*slopes(name, "rows"), size=2)


# XLA rounds a * b + c once. The interpreter scatters into its operand, which is read again.
ON_XLA = Together(
    {
        (case, name): (
            *slopes(name, case),
            {"ulp": 4, "interpreter": False, "signed_zeros": False},
        )
        for case in ("rows", "overlapping windows")
        for name in COMPUTATIONS
    }
)


@pytest.mark.parametrize("row", ON_XLA.rows, ids="-".join)
def test_derivatives_on_xla(row):
    with jax.enable_x64(True):
        ON_XLA.check(row)


def test_a_jvp_rule_may_not_multiply_tangents_into_each_other():
    x, u = np.ones(3, np.float32), np.ones(2, np.float32)
    indices = np.array([[0], [1]], np.int32)

    @mx.custom_jvp
    def function(x, u):
        return x

    @function.defjvp
    def rule(primals, tangents):
        return primals[0], scatter(ops.mul, ELEMENTS)(tangents[0], indices, tangents[1])

    with pytest.raises(DerivativeError, match="not linear"):
        mx.vjp(function, x, u)[1](np.ones(3, np.float32))


def test_many_windows_have_no_longer_a_derivative_than_few():
    def text_of(count):
        indices = np.zeros((count, 1), np.int32)

        def gradient(x, u):
            return mx.vjp(lambda *xu: scatter(affine, ELEMENTS)(xu[0], indices, xu[1]), x, u)[1](x)

        return graph_of(gradient, [np.ones(4), np.ones(count)]).stablehlo()

    assert len(text_of(90).splitlines()) == len(text_of(9).splitlines())


def test_a_scalar_is_updated_again_and_again():
    indices, numbers = np.zeros((3, 0), np.int32), Numbers((), (), (), 1)
    check_derivatives(
        lambda x, u: scatter(affine, numbers)(x, indices, u),
        [np.asarray(1.5), np.array([0.5, -1, 2])],
    )
