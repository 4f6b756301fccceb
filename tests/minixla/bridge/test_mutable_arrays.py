"""Mutable arrays of JAX as arguments of jit and inside transformations, or the error."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops


def written(library):
    ref = jax.new_ref(jnp.zeros(3))
    library.jit(lambda r, x: r.__setitem__(0, x))(ref, 2.0)
    return ref[...]


def read_and_written(library):
    ref = jax.new_ref(jnp.zeros(3))

    @library.jit
    def function(refs, x):
        refs["r"][1] += x
        return refs["r"][...] * 2

    return function({"r": ref}, 2.0), function({"r": ref}, 3.0), ref[...]


def two_of_them(library):
    refs = jax.new_ref(jnp.zeros(3)), jax.new_ref(jnp.arange(3))

    @library.jit
    def function(first, second):
        first[...] += second[...]
        second[...] = second[...] + 1

    function(*refs)
    return [ref[...] for ref in refs]


def in_a_nested_jit(library):
    @library.jit
    def function(x):
        ref = jax.new_ref(x)
        library.jit(lambda r: r.__setitem__(..., r[...] * 2))(ref)
        return jax.freeze(ref)

    return function(jnp.arange(3.0))


def in_a_loop(library):
    @library.jit
    def function(ref, xs):
        def body(total, x):
            ref[...] += x
            return total, ref[...]

        return lax.scan(body, 0, xs)[1]

    ref = jax.new_ref(0.0)
    return function(ref, jnp.arange(4.0)), ref[...]


def of_a_derivative(library):
    @library.jit
    def function(ref, x):
        slope = library.grad(jnp.sin)(x)
        ref[...] = slope
        return slope

    ref = jax.new_ref(0.0)
    return function(ref, 0.5), ref[...]


def closed_over(library):
    total, count = jax.new_ref(jnp.zeros(3)), jax.new_ref(0)

    @library.jit
    def function(x):
        total[1] += x
        count[...] += 1
        return total[...] * count[...]

    return function(2.0), function(3.0), total[...], count[...]


def closed_over_in_a_loop(library):
    ref = jax.new_ref(0.0)

    @library.jit
    def function(other, xs):
        def body(total, x):
            ref[...] += x * other[...]
            return total, ref[...]

        return lax.scan(body, 0, xs)[1]

    return function(jax.new_ref(2.0), jnp.arange(4.0)), ref[...]


def read_by_a_derivative(library):
    ref = jax.new_ref(3.0)
    slope = library.jit(library.grad(lambda x: ref[...] * x**2))
    first = slope(2.0)
    ref[...] = 5.0
    return first, slope(2.0), library.grad(lambda x: ref[...] * x**2)(2.0)


@pytest.mark.parametrize(
    "function",
    [
        *(written, read_and_written, two_of_them, in_a_nested_jit, in_a_loop, of_a_derivative),
        *(closed_over, closed_over_in_a_loop, read_by_a_derivative),
    ],
)
def test_what_jax_does(function):
    pairs = zip(jax.tree.leaves(function(mx)), jax.tree.leaves(function(jax)), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_array_equal(ours, theirs)


def test_empty_and_freed_arrays():
    def function(x):
        ref = jax.empty_ref(jax.typeof(x))
        ref[...] = x * 2
        found = ref[...] + 1
        jax.free_ref(ref)
        return found

    x = np.arange(3, dtype=np.float32)  # JAX does not run it on the CPU
    np.testing.assert_array_equal(mx.jit(function)(x), 2 * x + 1)
    np.testing.assert_array_equal(mx.grad(lambda x: function(x).sum())(x), [2, 2, 2])


REF = jax.new_ref(jnp.zeros(3))


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda: mx.make_graph(lambda x: REF[0] + x)(1.0), mx.UnsupportedError, "as an argument"),
        (
            lambda: mx.jit(lambda x: mx.scan(lambda c, _: (c + REF[0], c), x, None, 2))(1.0),
            mx.UnsupportedError,
            "as an argument",
        ),
        (
            lambda: mx.grad(lambda x: REF.__setitem__(0, x) or x)(1.0),
            mx.UnsupportedError,
            "as an argument",
        ),
        (lambda: mx.vmap(lambda r: r[...])(REF), mx.ShapeError, "Only mx.jit"),
        (lambda: ops.neg(REF), mx.ShapeError, "mutable array"),
    ],
    ids=["read in make_graph", "read in scan", "written in grad", "mapped", "an operand"],
)
def test_errors(function, error, words):
    with pytest.raises(error, match=words):
        function()
