"""Linear operations: jvp and vjp follow from the transpose; what is not linear is refused."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import DerivativeError
from minixla.core.linear import add_cotangents, instantiate, spread, zeros_like
from minixla.core.operation import EACH_OPERAND, Operation
from minixla.core.shapes import Shape, TupleValue

X = np.array([0.5, -1.0, 2.0], np.float32)


class Blend(Operation):
    """a * x + b * y + 0 * z, with nothing said about z."""

    operands = ("x", "y", "z")
    linear_operands = (0, 1)

    def shape(self, x, y, z):
        return x

    def reference(self, x, y, z):
        return 2 * x + 3 * y

    def transpose(self, cotangents, operands, linear):
        return [
            cotangents * 2.0 if linear[0] else None,
            cotangents * 3.0 if linear[1] else None,
            None,
        ]


class Scale(Operation):
    """x * y, linear in each of both."""

    operands = ("x", "y")
    linear_operands = EACH_OPERAND

    def shape(self, x, y):
        return x

    def reference(self, x, y):
        return x * y

    def transpose(self, cotangents, operands, linear):
        assert sum(linear) == 1
        return [cotangents * operands[1], None] if linear[0] else [None, cotangents * operands[0]]


def blend(x, y, z=X):
    return Blend()(x, y, z)


CASES = {
    "first": (lambda x: blend(x, X), 2 * X),
    "second": (lambda x: blend(X, x), 3 * X),
    "both": (lambda x: blend(x, x), 5 * X),
    "product, first": (lambda x: Scale()(x, X), X * X),
    "product, second": (lambda x: Scale()(X, x), X * X),
    "product, both": (lambda x: Scale()(x, x), 2 * X * X),
}


def test_values_are_spread_over_the_marked_places():
    assert spread((True, False, True), (1, 2)) == [1, None, 2]
    assert spread((True, False, True), (1, 2), "abc") == [1, "b", 2]
    assert spread((), iter(())) == []
    with pytest.raises(ValueError, match="shorter"):
        spread((True, False, True), (1, 2), "ab")


@pytest.mark.parametrize("name", CASES)
def test_derivatives_follow_from_the_transpose(name):
    function, slope = CASES[name]
    np.testing.assert_array_equal(mx.reference(lambda x: mx.jvp(function, (x,), (x,))[1])(X), slope)
    pulled = mx.reference(lambda x: mx.vjp(function, x)[1](x)[0])(X)
    np.testing.assert_array_equal(pulled, slope)


REFUSED = {
    "jvp": lambda: mx.jvp(lambda z: blend(X, X, z), (X,), (X,)),
    "jvp of both": lambda: mx.jvp(lambda x: blend(x, X, x), (X,), (X,)),
    "vjp": lambda: mx.vjp(lambda z: blend(X, X, z), X)[1](X),
    "vjp of both": lambda: mx.vjp(lambda x: blend(x, X, x), X)[1](X),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_operand_of_which_nothing_is_said_is_refused(name):
    with pytest.raises(DerivativeError) as caught:
        mx.reference(REFUSED[name])()
    for phrase in ("blend: the operation has no derivative with respect to z", "mx.stop_gradient"):
        assert phrase in str(caught.value)


def test_zeros():
    assert zeros_like(X).tolist() == [0, 0, 0]
    assert zeros_like(Shape("s8", (2,))).dtype == np.int8
    assert instantiate(None, X).tolist() == [0, 0, 0]
    assert instantiate(X, X) is X


def test_sums_of_cotangents():
    total = mx.reference(lambda x: add_cotangents(x, ops.neg(x)))(X)
    assert total.tolist() == [0, 0, 0]
    assert add_cotangents(None, X) is add_cotangents(X, None) is X
    assert add_cotangents(None, None) is None
    pair = add_cotangents(TupleValue([X, None]), TupleValue([None, X]))
    assert pair.elements == (X, X)
