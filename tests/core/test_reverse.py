"""Reverse derivatives: what follows from the rules of an operation that has a `vjp` alone."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.operation import Operation
from minixla.core.shapes import Shape

X = np.array([0.5, -1.0, 2.0], np.float32)
Y = np.array([1.5, 0.25, -2.0], np.float32)


class SineTimes(Operation):
    """sin(x) * y, x + y, and the signs of y: a class with a vjp and no other derivative."""

    operands = "x", "y"
    asked = ()

    def shape(self, x, y):
        return x, x, Shape("s32", x.dimensions)

    def reference(self, x, y):
        return np.sin(x) * y, x + y, np.sign(y).astype(np.int32)

    def stablehlo(self, emit, operands, shapes, results):
        sine = emit.same_shape("stablehlo.sine", operands[:1], shapes[0])
        product = emit.same_shape("stablehlo.multiply", [*sine, operands[1]], shapes[0])
        total = emit.same_shape("stablehlo.add", operands, shapes[0])
        sign = emit.same_shape("stablehlo.sign", operands[1:], shapes[0])
        return [
            *product,
            *total,
            *emit.operation("stablehlo.convert", sign, shapes[:1], results[2:]),
        ]

    def vjp(self, cotangents, operands, results, active):
        (of_product, of_sum, none), (x, y) = cotangents, operands
        assert none is None
        SineTimes.asked = tuple(active)
        zero = ops.sub(x, x)
        of_product = zero if of_product is None else of_product
        of_sum = zero if of_sum is None else of_sum
        return [of_product * ops.cos(x) * y + of_sum, of_product * ops.sin(x) + of_sum]


def product(x, y=Y):
    return SineTimes()(x, y)[0]


def total(x, y=Y):
    return product(x, y).sum()


slope = np.cos(X) * Y
# What is done with sin(x) * y, and what it gives.
USES = {
    "jvp": (lambda: mx.jvp(product, (X,), (X,))[1], slope * X),
    "jvp of both": (
        lambda: mx.jvp(product, (X, Y), (X, Y))[1],
        slope * X + np.sin(X) * Y,
    ),
    "jvp by y": (lambda: mx.jvp(lambda y: product(X, y), (Y,), (X,))[1], np.sin(X) * X),
    "jvp of the sum": (lambda: mx.jvp(lambda x: SineTimes()(x, Y)[1], (X,), (X,))[1], X),
    "linearize": (lambda: mx.linearize(product, X)[1](X), slope * X),
    "jacfwd": (lambda: mx.jit(mx.jacfwd(product))(X), np.diag(slope)),
    "hessian": (lambda: mx.jit(mx.hessian(total))(X), np.diag(-np.sin(X) * Y)),
    "jvp of jvp": (
        lambda: mx.jvp(lambda x: mx.jvp(product, (x,), (X,))[1], (X,), (X,))[1],
        -np.sin(X) * Y * X * X,
    ),
    "grad of jvp": (
        lambda: mx.grad(lambda x: mx.jvp(product, (x,), (X,))[1].sum())(X),
        -np.sin(X) * Y * X,
    ),
    "vmap of jvp": (
        lambda: mx.vmap(lambda x, y: mx.jvp(lambda x: product(x, y), (x,), (x,))[1])(X, Y),
        slope * X,
    ),
    "in NumPy": (lambda: mx.reference(lambda x: mx.jvp(product, (x,), (x,))[1])(X), slope * X),
    "inside JAX": (lambda: jax.jvp(product, (X,), (X,))[1], slope * X),
}


@pytest.mark.parametrize("name", USES)
def test_a_vjp_alone_gives_forward_mode_too(name):
    function, wanted = USES[name]
    np.testing.assert_allclose(function(), wanted, rtol=2e-5, atol=1e-6)


def test_a_vjp_that_is_transposed_is_told_which_operands_have_tangents():
    mx.jvp(lambda y: product(X, y), (Y,), (Y,))
    assert SineTimes.asked == (False, True)


def test_without_any_derivative_the_error_says_what_to_give():
    rules = dict.fromkeys(("shape", "reference"), lambda self, x: x)
    bare = type("Bare", (Operation,), {"operands": ("x",), **rules})
    with pytest.raises(mx.DerivativeError, match="bare: the operation has no jvp rule"):
        mx.reference(lambda x: mx.jvp(bare(), (x,), (x,)))(X)
