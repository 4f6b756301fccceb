"""pmap around, inside and between other transformations, against jax.vmap."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla.numpy as mnp
from tests.harness import QUICKLY, compiled_together
from tests.minixla.transforms.collective_programs import (
    PERMUTATION,
    Mapped,
    Members,
    W,
    Y,
    assert_same,
    both,
)


def member_of(m, numpy, grad):
    """A function of one member with a collective in the middle."""

    def member(x):
        total = m.psum(numpy.tanh(x @ W), "i")
        return (total * x).sum() + m.axis_index("i")

    return member, lambda x: grad(member)(x)


OURS, OUR_GRADIENT = member_of(mx, mnp, mx.grad)
THEIRS, THEIR_GRADIENT = member_of(lax, jnp, jax.grad)
P, V = mx.pmap(OURS, axis_name="i"), jax.vmap(THEIRS, axis_name="i")

# Each takes a mapped function and the framework's transformations, and gives a function of Y.
NESTED = {
    "jit": lambda f, m: m.jit(f),
    "jit(grad)": lambda f, m: m.jit(m.grad(lambda y: (f(y) ** 2).sum())),
    "grad(jit)": lambda f, m: m.grad(lambda y: (m.jit(f)(y) ** 2).sum()),
    "jvp(grad)": lambda f, m: (
        lambda y: m.jvp(m.grad(lambda y: (f(y) ** 2).sum()), (y,), (y * y,))[1]
    ),
    "grad(grad)": lambda f, m: m.grad(lambda y: (m.grad(lambda y: (f(y) ** 2).sum())(y) * Y).sum()),
    "vmap": lambda f, m: lambda y: m.vmap(f, in_axes=2)(np.stack([Y, 2 * Y], 2)),
    "vmap(grad)": lambda f, m: lambda y: m.vmap(m.grad(lambda y: f(y).sum()))(np.stack([Y, 2 * Y])),
    "grad(checkpoint)": lambda f, m: m.grad(lambda y: (m.checkpoint(f)(y) ** 2).sum()),
    "f(f)": lambda f, m: lambda y: f(y + f(y)[:, None, None]),
    "fori_loop": lambda f, m: (
        lambda y: _loops(m).fori_loop(0, 3, lambda _, v: v * 0.5 + f(v)[:, None, None] / 9, y)
    ),
    "grad(fori_loop)": lambda f, m: m.grad(
        lambda y: _loops(m).fori_loop(0, 3, lambda _, v: v * f(v)[:, None, None] / 9, y).sum()
    ),
    "scan": lambda f, m: (
        lambda y: _loops(m).scan(lambda c, s: (c + s, f(c * s)), y, np.float32([1, 2]))[1]
    ),
    "grad(scan)": lambda f, m: m.grad(
        lambda y: (_loops(m).scan(lambda c, s: (c * s, f(c * s)), y, y[:3, 0, 0])[1] ** 2).sum()
    ),
    "while_loop": lambda f, m: (
        lambda y: _loops(m).while_loop(
            lambda v: v[0] < 2, lambda v: (v[0] + 1, v[1] + f(v[1])[:, None, None] / 9), (0, y)
        )[1]
    ),
    "cond": lambda f, m: lambda y: _loops(m).cond(y.sum() > 0, f, lambda y: y[:, 0, 0], y),
    "grad(cond)": lambda f, m: m.grad(
        lambda y: (_loops(m).cond(y[0, 0, 0] < 9, f, lambda y: y[:, 0, 0], y) ** 2).sum()
    ),
    "vmap(scan)": lambda f, m: (
        lambda y: m.vmap(
            lambda s: _loops(m).scan(lambda c, _: (c * s, f(c)), y, None, length=2)[1]
        )(y[:2, 0, 0])
    ),
}


#: Those that are compiled as a whole: part by part takes seconds.
LARGE = ("jvp(grad)", "grad(grad)", "vmap(grad)", *list(NESTED)[list(NESTED).index("fori_loop") :])


@functools.cache
def nested_in_jax():
    """What JAX says, by name."""
    return compiled_together({name: nest(V, jax) for name, nest in NESTED.items()}, Y, jit=jax.jit)


@functools.cache
def large():
    """The large ones of ours, by name."""
    return compiled_together({name: NESTED[name](P, mx) for name in LARGE}, Y)


@pytest.mark.parametrize("name", NESTED)
def test_around_pmap(name):
    ours = NESTED[name](P, mx)
    for found in (large()(name) if name in LARGE else ours(Y), mx.reference(ours)(Y)):
        np.testing.assert_allclose(found, nested_in_jax()(name), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ["jit", "grad(jit)", "vmap", "f(f)"])
def test_pmap_inside_jax(name):
    found = NESTED[name](P, jax)(Y)
    np.testing.assert_allclose(found, nested_in_jax()(name), rtol=2e-4, atol=2e-4)


# What stands inside a mapped function, as a function of the framework's modules and a member.
INNER = {
    "jit": lambda m, c, n, x: m.jit(lambda x: c.psum(n.tanh(x), "i"))(x),
    "vmap": lambda m, c, n, x: m.vmap(lambda row: c.psum(row, "i") * row)(x),
    "vmap with a name": lambda m, c, n, x: m.vmap(
        lambda row: c.psum(row, ("i", "j")) + c.axis_index(("j", "i")), axis_name="j"
    )(x),
    "scan": lambda m, c, n, x: _loops(m).scan(
        lambda carry, row: (carry * 0.5 + c.psum(row, "i"), carry * row), x[0], x
    )[1],
    "while_loop": lambda m, c, n, x: _loops(m).while_loop(
        lambda v: v[0] < 3, lambda v: (v[0] + 1, c.pmean(n.sin(v[1]), "i")), (0, x)
    )[1],
    "cond": lambda m, c, n, x: _loops(m).cond(
        c.psum(1, "i") > 2, lambda x: c.psum(x, "i"), lambda x: x, x
    ),
    "checkpoint": lambda m, c, n, x: m.checkpoint(lambda x: c.psum(n.sin(x), "i") ** 2)(x),
    "reduce in a loop": lambda m, c, n, x: sum(c.ppermute(x * k, "i", PERMUTATION) for k in (1, 2)),
}


def _loops(module):
    return mx if module is mx else lax


def inner(name):
    """The member in ours and in JAX."""
    return (lambda x: INNER[name](mx, mx, mnp, x)), (lambda x: INNER[name](jax, lax, jnp, x))


# JAX has no reverse derivative of a while_loop.
INSIDE_PMAP = Members({name: inner(name) for name in INNER}, without_derivative=["while_loop"])


@pytest.mark.parametrize("name", INNER)
def test_inside_pmap(name):
    INSIDE_PMAP.check(name)


def test_derivative_of_a_loop_with_collectives():
    def gradient(transformation):
        mapped = transformation(inner("while_loop")[0], axis_name="i")
        return mx.grad(lambda y: (mapped(y) ** 2).sum())

    expected = mx.reference(gradient(mx.vmap))(Y)
    assert_same(mx.jit(gradient(mx.pmap), compiler_options=QUICKLY)(Y), expected)
    assert_same(mx.reference(gradient(mx.pmap))(Y), expected)


def test_a_jitted_function_under_axes_of_both_kinds():
    """One function, one axis name, one size: a program for devices is none for a batch."""
    shared = mx.jit(lambda x: mx.psum(x, "i"))
    expected = np.stack([Y.sum(0)] * 4)
    for _ in range(2):
        assert_same(mx.pmap(lambda x: shared(x), "i")(Y), expected)
        assert_same(mx.vmap(lambda x: shared(x), axis_name="i")(Y), expected)


def test_pmap_inside_pmap_stays_on_the_device():
    def member(m, c, numpy, inner):
        def row(x):
            return c.psum(x, "i") + c.psum(numpy.sin(x), "j") + c.axis_index(("i", "j"))

        return lambda x: inner(row, axis_name="j", in_axes=1, out_axes=1)(x)

    # Eight members inside each of four: more than there are devices.
    wide = np.moveaxis(Y, 1, 2)
    pair = member(mx, mx, mnp, mx.pmap), member(jax, lax, jnp, jax.vmap)
    Members({"inner": pair}, wide).check("inner")


def test_axes_of_vmap_around_pmap():
    """Inside, collectives are over devices, over the batch, or over both."""

    def member(c):
        return lambda x: c.psum(x, "batch") * c.axis_index("batch") + c.psum(x, ("i", "batch"))

    batch = np.stack([Y, np.cos(Y), Y * Y])
    ours = mx.vmap(mx.pmap(member(mx), "i"), axis_name="batch")
    theirs = jax.vmap(jax.vmap(member(lax), axis_name="i"), axis_name="batch")
    Mapped({"both": (ours, theirs)}, batch).check("both")


BATCHED = ["psum", "all_gather", "all_to_all, tiled", "axis_index"]


@functools.cache
def batches():
    """Batches by JAX, and ours of batches around and inside of pmap, by name."""
    batch = np.stack([Y, 2 * Y, -Y])
    ours, theirs = ({name: both(name)[at] for name in BATCHED} for at in (0, 1))
    nested = {name: jax.vmap(jax.vmap(f, axis_name="i")) for name, f in theirs.items()}
    batched = {name: mx.vmap(f) for name, f in ours.items()}

    def around(fun, **_):
        return mx.vmap(mx.pmap(fun, "i"))

    def inside(fun, **_):
        return mx.pmap(fun, "i", in_axes=1, out_axes=1)

    return (
        compiled_together(nested, batch, jit=jax.jit),
        compiled_together(ours, batch, jit=around),
        compiled_together(batched, batch, jit=inside),
    )


@pytest.mark.parametrize("name", BATCHED)
def test_batches_around_and_inside(name):
    expected, around, inside = batches()
    assert_same(around(name), expected(name))
    assert_same(inside(name), expected(name))
