"""Gradients of neighbouring slices: what the programs are, and their numbers beside JAX's."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import pairwise

import jax
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.legalize import Target, legalized
from minixla.legalize.cpu import joined_pads


def cut(slices, *bounds, at=1, by=1):
    """Slices of x from each bound to the next."""
    return lambda x: [slices(x, low, high, at, by) for low, high in pairwise(bounds)]


def ours(x, low, high, at, by):
    return ops.slice_in_dim(x, low, high, at, by)


def theirs(x, low, high, at, by):
    return lax.slice_in_dim(x, low, high, by, at)


def product(parts):
    """A number of which each part has another cotangent."""
    return sum([(index + 1) * (part * part).sum() for index, part in enumerate(parts)])


def over(*, at, places):
    return lambda slices: lambda x: [slices(x, *place, at, 1) for place in places]


# Sizes, slices, and how many ConcatInDim, Pad and Add their pullback has.
CASES = {
    "halves": ((16, 64), lambda s: cut(s, 0, 32, 64), (1, 0, 0)),
    "gates": ((16, 64), lambda s: cut(s, 0, 16, 32, 48, 64), (1, 0, 0)),
    "first dimension": ((16, 64), lambda s: cut(s, 0, 4, 16, at=0), (1, 0, 0)),
    "not from the start": ((16, 64), lambda s: cut(s, 8, 24, 48), (1, 1, 0)),
    "rank 3": ((4, 8, 32), lambda s: cut(s, 0, 16, 20, 32, at=2), (1, 0, 0)),
    "an empty slice": ((16, 64), lambda s: cut(s, 0, 32, 32, 64), (0, 3, 2)),
    "in reverse": ((16, 64), over(at=1, places=[(32, 64), (0, 32)]), (1, 0, 0)),
    "a gap": ((16, 64), over(at=1, places=[(0, 16), (32, 64)]), (0, 2, 1)),
    "overlapping": ((16, 64), over(at=1, places=[(0, 33), (32, 64)]), (0, 2, 1)),
    "the same twice": ((16, 64), over(at=1, places=[(0, 32), (0, 32)]), (0, 2, 1)),
    "columns": ((256, 3), lambda s: cut(s, 0, 1, 2, 3), (0, 3, 2)),
    "small": ((4, 8), lambda s: cut(s, 0, 4, 8), (0, 2, 1)),
    "strided": ((16, 64), lambda s: cut(s, 0, 32, 64, by=2), (0, 2, 1)),
    "two dimensions": (
        (32, 32),
        lambda s: lambda x: [s(s(x, 0, 16, 0, 1), 0, 16, 1, 1), s(x, 16, 32, 0, 1)],
        (1, 1, 0),
    ),
    "corners": (
        (32, 32),
        lambda s: (
            lambda x: [
                *cut(s, 0, 16, 32)(s(x, 0, 16, 0, 1)),
                *cut(s, 0, 16, 32)(s(x, 16, 32, 0, 1)),
            ]
        ),
        (3, 0, 0),
    ),
}


def counted(graph):
    found = Counter(step.op.name for step in graph.pruned().instructions)
    return tuple(found[name] for name in ("ConcatInDim", "Pad", "Add"))


def slices_of(name):
    sizes, slices, _ = CASES[name]
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    return x, slices(ours), slices(theirs)


@pytest.mark.parametrize("name", CASES)
def test_program(name):
    x, slices, _ = slices_of(name)
    graph = mx.make_graph(lambda x, cotangents: mx.vjp(slices, x)[1](cotangents)[0])
    assert counted(legalized(graph(x, slices(x)), Target("cpu"))) == CASES[name][2]


TRANSFORMS = {
    "jit": lambda m, f: m.jit(m.grad(f)),
    "eager": lambda m, f: m.grad(f),
    "batch": lambda m, f: lambda x: m.jit(m.vmap(m.grad(f)))(np.stack([x, 2 * x])),
    "twice": lambda m, f: m.jit(m.grad(lambda x: (m.grad(f)(x) ** 2).sum())),
    "pushed": lambda m, f: m.jit(lambda x: m.jvp(m.grad(f), (x,), (x,))[1]),
}


@pytest.mark.parametrize(
    ("name", "how"),
    [*[(name, "jit") for name in CASES], *[("rank 3", how) for how in TRANSFORMS if how != "jit"]],
)
def test_numbers(name, how):
    x, slices, of_jax = slices_of(name)
    found = TRANSFORMS[how](mx, lambda x: product(slices(x)))(x)
    expected = TRANSFORMS[how](jax, lambda x: product(of_jax(x)))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_signs_of_zero_infinities_and_nan_stay():
    x, cotangents = np.ones((2, 128), np.float32), np.zeros((2, 128), np.float32)
    cotangents[:, ::3], cotangents[0, 1::3], cotangents[1, 2::3] = -0.0, np.inf, np.nan
    halves, slices = [cotangents[:, :64], cotangents[:, 64:]], cut(ours, 0, 64, 128)
    (found,) = mx.jit(lambda x, given: mx.vjp(slices, x)[1](given))(x, halves)
    assert np.asarray(found).tobytes() == cotangents.tobytes()


def test_backward_step_of_a_scan():
    def final(x):
        def step(carry, row):
            first, second = mx.numpy.split(carry + row, 2)
            return mx.numpy.concatenate([first * second, mx.numpy.sin(second)]), None

        return mx.scan(step, np.ones(256, np.float32), x)[0].sum()

    text = mx.jit(mx.grad(final)).lower(np.ones((3, 256), np.float32)).as_text()
    assert "stablehlo.concatenate" in text
    assert "stablehlo.pad" not in text


@pytest.mark.parametrize("count", [32, 33, pytest.param(100, marks=pytest.mark.full)])
def test_many_parts_are_joins_of_joins(count):
    most = joined_pads._MOST_PARTS
    slices = cut(ours, *range(0, 128 * count + 1, 128), at=0)
    x = np.zeros(128 * count, np.float32)
    graph = mx.make_graph(lambda x, given: mx.vjp(slices, x)[1](given)[0])(x, slices(x))
    graph = legalized(graph, Target("cpu")).pruned()
    joins = [step for step in graph.instructions if step.op.name == "ConcatInDim"]
    assert max(len(step.operands) for step in joins) <= most
    assert sum(len(step.operands) - 1 for step in joins) == count - 1
    given = np.arange(128 * count, dtype=np.float32)
    (found,) = mx.vjp(slices, x)[1](slices(given))
    np.testing.assert_array_equal(found, given)


def test_values_of_an_enclosing_program_are_joined():
    def f(x, y):
        first, second = cut(ours, 0, 128, 256, at=0)(x)
        inner = mx.jit(lambda z: mx.grad(lambda x: product(cut(ours, 0, 128, 256, at=0)(x)))(x) + z)
        return inner(y) + reduce(ops.add, [first, second]).sum()

    x = np.arange(256, dtype=np.float32)
    expected = np.concatenate([2 * x[:128], 4 * x[128:]]) + 1 + x.sum()
    np.testing.assert_allclose(mx.jit(f)(x, np.ones_like(x)), expected, rtol=1e-6)
