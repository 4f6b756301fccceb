"""Batches of operations that have no rule of their own."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
from minixla.core import Operation, register
from minixla_ops.helpers.shorthand import written


@register
class Mixed(Operation):
    """first + second, and first; it has no batching rule."""

    namespace = "batch_dimensions"
    operands = "first", "second"
    linear_operands = 0, 1

    def shape(self, first, second):
        return first, first

    def reference(self, first, second):
        return first + second, first

    def stablehlo(self, emit, operands, shapes, results):
        total = written(emit, f'"stablehlo.add"({", ".join(operands)})', shapes, results[0])
        return [*total, operands[0]]

    def transpose(self, cotangents, operands, linear):
        total, own = cotangents
        both = own if total is None else total if own is None else total + own
        return both, total


def mixed(first, second):
    return Mixed()(first, second)


@pytest.mark.parametrize("size", [0, 3, 16, 17, 1000])
@pytest.mark.parametrize("in_axes", [(0, 0), (None, 1), (1, None)])
def test_members_one_by_one_are_right_and_do_not_unroll(size, in_axes):
    member = np.arange(3, dtype=np.float32)
    whole = np.arange(3 * size, dtype=np.float32).reshape(size, 3)
    given = [member if at is None else np.moveaxis(whole, 0, at) for at in in_axes]
    batched = mx.vmap(mixed, in_axes=in_axes)
    both = np.broadcast_arrays(*[member if at is None else whole for at in in_axes])
    for found in (mx.jit(batched)(*given), mx.reference(batched)(*given)):
        np.testing.assert_array_equal(found[0], both[0] + both[1])
        np.testing.assert_array_equal(found[1], both[0])
    steps = mx.make_graph(batched)(*given).instructions
    assert len(steps) < (12 if size > 16 else 150)


def test_a_loop_over_members_is_differentiated_and_batched():
    x = np.random.default_rng(0).normal(size=(2, 20, 3)).astype(np.float32)

    def loss(x):
        total, own = mx.vmap(mixed, in_axes=(0, None))(x, x[0])
        return (total * own).sum()

    def same(x):
        return ((x + x[0]) * x).sum()

    np.testing.assert_allclose(mx.jit(mx.grad(loss))(x[0]), mx.grad(same)(x[0]), rtol=1e-5)
    found = mx.jit(mx.vmap(mx.grad(loss)))(x)
    np.testing.assert_allclose(found, mx.vmap(mx.grad(same))(x), rtol=1e-5)
    mx.check_grads(loss, (x[0, :17],), order=2)
