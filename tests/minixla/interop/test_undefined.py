"""Functions outside of their domain: NaN, and so are their derivatives in both modes."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
from tests.harness import compiled_rows, through_stablehlo

# Functions of two numbers: points outside of the domain, and one inside.
FUNCTIONS = {
    "igamma": (lax.igamma, [(-1, 2), (2, -1), (-0.5, 0.5), (-1, -1)], (2, 1.5)),
    "igammac": (lax.igammac, [(-1, 2), (2, -1), (-0.5, 0.5), (-1, -1)], (2, 1.5)),
    "betainc": (
        lambda a, x: lax.betainc(a, jnp.full_like(a, 2), x),
        [(-1, 0.5), (2, -1), (2, 1.5)],
        (2, 0.5),
    ),
}
STEP = 1e-2


def all_of(name):
    """Values and derivatives by each operand, forwards and in reverse."""
    function = through_stablehlo(FUNCTIONS[name][0])

    def found(a, x):
        ones, nothing = np.ones_like(a), np.zeros_like(a)
        moved = [
            mx.jvp(function, (a, x), tangents)[1] for tangents in ((ones, nothing), (nothing, ones))
        ]
        value, pull = mx.vjp(function, a, x)
        return [value, *moved, *pull(ones)]

    return found


def operands(name):
    _, outside, inside = FUNCTIONS[name]
    a, x = np.array([*outside, inside], np.float32).T
    return [np.ascontiguousarray(a), np.ascontiguousarray(x)]


@functools.cache
def compiled():
    return compiled_rows({name: (all_of(name), operands(name)) for name in FUNCTIONS})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_outside_of_the_domain_are_nan_in_both_modes(name):
    function, _, (a, x) = FUNCTIONS[name]
    slopes = [
        (function(*map(np.float32, above)) - function(*map(np.float32, below))) / (2 * STEP)
        for above, below in (
            ((a + STEP, x), (a - STEP, x)),
            ((a, x + STEP), (a, x - STEP)),
        )
    ]
    for found in (mx.reference(all_of(name))(*operands(name)), compiled()(name)):
        value, *derivatives = map(np.asarray, found)
        assert np.isnan(value[:-1]).all() and np.isfinite(value[-1])
        assert np.isnan(derivatives)[:, :-1].all()
        np.testing.assert_allclose([each[-1] for each in derivatives], slopes * 2, rtol=1e-3)


def masked_sum(x):
    """The sum of the positive ones, others being NaN for a while."""
    marked = lax.select(x > 0, x * x, jnp.full_like(x, jnp.nan))
    return jnp.sum(lax.select(marked == marked, marked, jnp.zeros_like(x)))


def test_what_nobody_uses_has_derivative_zero():
    function = through_stablehlo(masked_sum)
    x = np.float32([1, -2, 3])
    for evaluate in (mx.reference, mx.jit):
        np.testing.assert_array_equal(evaluate(mx.grad(function))(x), [2, 0, 6])
        np.testing.assert_array_equal(evaluate(mx.jacfwd(function))(x), [2, 0, 6])
        np.testing.assert_array_equal(evaluate(mx.hessian(function))(x), np.diag([2, 0, 2]))


PROGRAM = """
func.func @main(%p: tensor<3xi1>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
  %all = stablehlo.broadcast_in_dim %nan, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %0 = stablehlo.select %p, %all, %x : tensor<3xi1>, tensor<3xf32>
  %1 = stablehlo.select %p, %x, %all : tensor<3xi1>, tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}"""


def test_values_text_and_batches_are_those_of_a_select():
    function = mx.import_stablehlo(PROGRAM)
    flags, x = np.array([True, False, True]), np.float32([1, 2, 0])
    nan = np.nan
    again = mx.import_stablehlo(mx.make_graph(function)(flags, x).stablehlo())
    for each in (function, again):
        for evaluate in (mx.reference, mx.jit):
            first, second = evaluate(each)(flags, x)
            np.testing.assert_array_equal(first, [nan, 2, nan])
            np.testing.assert_array_equal(second, [1, nan, 0])
            first, second = evaluate(mx.vmap(each))(np.stack([flags, ~flags]), np.stack([x, x]))
            np.testing.assert_array_equal(first, [[nan, 2, nan], [1, nan, 0]])
            np.testing.assert_array_equal(second, [[1, nan, 0], [nan, 2, nan]])
