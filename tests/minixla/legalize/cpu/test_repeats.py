"""Calls of large programs that are called many times stay calls in what XLA:CPU compiles."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from benchmarks.models import random_array

np_, nn = mx.numpy, mx.nn
W = random_array(8, 8)
X = random_array(4, 8)


def block(x, w):
    """A layer of some forty instructions."""
    normed = nn.layer_norm(x, np.ones(8, np.float32), np.zeros(8, np.float32))
    return x + nn.gelu(normed @ w) @ w.T


def net(layer, depth=5):
    def loss(x, *weights):
        for w in weights or [W] * depth:
            x = layer(x, w)
        return (x**2).sum()

    return loss


def apart(function, *arguments):
    """How often each function is called that stays one."""
    text = mx.jit(function).lower(*arguments).as_text()
    marked = re.findall(r"call @(\w+)\(.*inlineable = \"false\"", text)
    return sorted([marked.count(name) for name in set(marked)])


WEIGHTS = [W, W + 1, W + 2, W + 3, W + 4]


def test_blocks_and_the_halves_of_their_derivatives_stay_functions():
    loss = net(mx.jit(block))
    assert apart(loss, X, *WEIGHTS) == [5]
    argnums = (0, *range(1, 6))
    assert apart(mx.value_and_grad(loss, argnums), X, *WEIGHTS) == [5, 5]
    assert apart(mx.vmap(loss, (0, *[None] * 5)), np.stack([X, X]), *WEIGHTS) == [5]


@pytest.mark.parametrize(
    ("transformed", "x"),
    [
        (lambda f: f, X),
        (lambda f: mx.grad(f, argnums=(0, 1, 5)), X),
        (lambda f: mx.vmap(mx.grad(f), (0, *[None] * 5)), np.stack([X, 2 * X])),
        (lambda f: mx.grad(lambda *given: mx.grad(f, 1)(*given).sum(), argnums=(0, 2)), X),
        (lambda f: lambda *given: mx.jvp(f, given, given), X),
        (lambda f: mx.grad(mx.checkpoint(f)), X),
    ],
)
def test_results_are_those_of_what_is_written_out(transformed, x):
    given = list(map(jnp.asarray, (x, *WEIGHTS)))
    found = mx.jit(transformed(net(mx.jit(block))))(*given)
    wanted = mx.jit(transformed(net(block)))(*given)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5 * np.abs(other).max())


@pytest.mark.parametrize(
    ("layer", "arguments"),
    [
        (lambda x, w: np_.tanh(x @ w), (X, *WEIGHTS)),  # small
        (block, (X, *WEIGHTS[:3])),  # few
        (lambda x, w: (block(x, w), w * 2)[0], ()),  # weights are constants
        (lambda x, w: mx.debug_print("{}", x) or block(x, w), (X, *WEIGHTS)),  # a side effect
    ],
)
def test_others_are_written_out(layer, arguments):
    assert not apart(net(mx.jit(layer)), *(arguments or (X,)))


def test_what_is_needed_in_part_is_written_out():
    both = mx.jit(lambda x, w: (block(x, w), np_.exp(x)))
    assert not apart(net(lambda x, w: both(x, w)[0]), X, *WEIGHTS)
    assert apart(net(lambda x, w: sum(both(x, w))), X, *WEIGHTS) == [5]


def test_convolutions_are_written_out():
    # XLA:CPU calls no library for those of other functions than main.
    kernel = random_array(3, 3, 4, 4)

    def convolved(x, w):
        return nn.gelu(nn.layer_norm(nn.conv(x, w), np.ones(4, np.float32), w[0, 0, 0]))

    x = random_array(2, 4, 4, 4)
    assert apart(net(mx.jit(lambda x, w: nn.conv(x, w[None, None]))), x, *[W[:4, :4]] * 5) == []
    assert apart(net(mx.jit(convolved)), x, *[kernel] * 5) == []


def test_within_loops_and_on_other_platforms():
    jitted = mx.jit(block)

    def step(x, weights):
        for index in range(4):
            x = jitted(x, weights[index])
        return x, x.sum()

    def loss(x, stacked):
        return mx.scan(step, x, stacked)[1].sum()

    stacked = np.stack([np.stack(WEIGHTS[:4])] * 2)
    assert apart(loss, X, stacked) == [4]
    np.testing.assert_allclose(mx.jit(loss)(X, stacked), mx.reference(loss)(X, stacked), rtol=1e-4)
    for platform, stays in {"cpu": True, "cuda": False, "tpu": False}.items():
        exported = mx.export(net(jitted), X, *WEIGHTS, platforms=[platform])
        text = jax.export.deserialize(bytearray(exported)).mlir_module()
        assert ("inlineable" in text) == stays
