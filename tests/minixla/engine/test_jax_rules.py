"""Our programs inside JAX: derivatives, batching, transposition, custom rules, control flow."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import DerivativeError
from tests.harness import by_jax, compiled_together

X = np.array([0.3, -1.2, 0.7], np.float32)
W = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], np.float32)


def custom_rules(numpy, custom_jvp: Any, custom_vjp: Any):
    @custom_jvp
    def doubled_sine(x):
        return numpy.sin(x)

    # Twice the true derivative, so that the rule shows.
    doubled_sine.defjvp(lambda p, t: (doubled_sine(*p), 2 * numpy.cos(p[0]) * t[0]))

    @custom_vjp
    def tripled_tanh(x):
        return numpy.tanh(x)

    tripled_tanh.defvjp(
        lambda x: (tripled_tanh(x), x), lambda x, c: (3 * (1 - numpy.tanh(x) ** 2) * c,)
    )
    return doubled_sine, tripled_tanh


OUR_JVP, OUR_VJP = custom_rules(mnp, mx.custom_jvp, mx.custom_vjp)
JAX_JVP, JAX_VJP = custom_rules(jnp, jax.custom_jvp, jax.custom_vjp)


@mx.custom_jvp
def zero_in_one(x):
    return mnp.sin(x), mnp.cos(x)


@zero_in_one.defjvp
def _zero_in_one_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return zero_in_one(x), (mnp.cos(x) * t, mnp.zeros_like(x))


def jax_zero_in_one(x):
    return jnp.sin(x), jax.lax.stop_gradient(jnp.cos(x))


# name: (ours, JAX's), each of X.
PROGRAMS = {
    "elementwise": (lambda x: mnp.tanh(x) * x, lambda x: jnp.tanh(x) * x),
    "product": (lambda x: ops.dot(W, x), lambda x: W @ x),
    "integers too": (
        lambda x: x * mnp.floor(x).astype(int) + x,
        lambda x: x * jnp.floor(x).astype(int) + x,
    ),
    "stop_gradient": (lambda x: mx.stop_gradient(x) * x, lambda x: jax.lax.stop_gradient(x) * x),
    "custom_jvp": (lambda x: OUR_JVP(x) * x, lambda x: JAX_JVP(x) * x),
    "custom_jvp, nested": (lambda x: mx.jit(OUR_JVP)(x) * x, lambda x: jax.jit(JAX_JVP)(x) * x),
    "custom_jvp, zeros": (lambda x: sum(zero_in_one(x)), lambda x: sum(jax_zero_in_one(x))),
    "derivative inside": (
        lambda x: mx.grad(lambda y: (mnp.sin(y) * y).sum())(x),
        lambda x: jax.grad(lambda y: (jnp.sin(y) * y).sum())(x),
    ),
    "constant": (lambda x: mnp.ones(3), lambda x: jnp.ones(3)),
    "custom_vjp": (lambda x: OUR_VJP(x) * x, lambda x: JAX_VJP(x) * x),
    "custom_vjp, nested": (lambda x: mx.jit(OUR_VJP)(x) * x, lambda x: jax.jit(JAX_VJP)(x) * x),
    "custom_vjp, batched": (
        lambda x: mx.vmap(OUR_VJP)(x) * x,
        lambda x: jax.vmap(JAX_VJP)(x) * x,
    ),
}
FORWARD_ONLY = [name for name in PROGRAMS if not name.startswith("custom_vjp")]


def summed(f):
    return lambda x: f(x).sum()


def pulled(f):
    def function(x):
        out, pullback = jax.vjp(f, x)
        return pullback(jnp.cos(out))[0]

    return function


REVERSE = {
    "jit": jax.jit,
    "grad": lambda f: jax.grad(summed(f)),
    "vjp": pulled,
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, 2 * x])),
    "vmap, last": lambda f: lambda x: jax.vmap(f, 1, 1)(jnp.stack([x, 2 * x], 1)),
    "jacrev": jax.jacrev,
    "checkpoint": lambda f: jax.grad(summed(jax.checkpoint(f))),
}
FORWARD = {
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (jnp.sin(x),))[1],
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](jnp.sin(x)),
    "jacfwd": jax.jacfwd,
    "hessian": lambda f: jax.hessian(summed(f)),
}


def compare(ours, theirs, *arguments):
    compare_leaves(ours(*arguments), by_jax(theirs, *arguments))


def compare_leaves(ours, theirs):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)


@functools.cache
def results():
    """Ours and JAX's, in one program each, of each program's transformations and pairs."""
    table = REVERSE | FORWARD
    wanted = {(n, t): table[t] for n, t in REVERSE_ROWS + FORWARD_ROWS}
    for outer, inner in PAIRS:
        wanted[PAIRED, outer, inner] = lambda f, o=table[outer], i=table[inner]: o(i(f))
    ours, theirs = (
        {row: apply(wrap(PROGRAMS[row[0]][at])) for row, apply in wanted.items()}
        for at, wrap in enumerate((mx.jit, lambda f: f))
    )
    return tuple(compiled_together(each, X, jit=jax.jit) for each in (ours, theirs))


def compare_results(*row):
    compare_leaves(*(result_of(row) for result_of in results()))


# The rest of the transformations are JAX's own compositions of the first few.
FEW = ["custom_jvp, zeros", "derivative inside", "custom_vjp, nested"]


def chosen(table, first, names):
    """Rows (program, transformation): the `first` for each program, the others for a few."""
    rows = itertools.product(names, table)
    return [(n, t) for n, t in rows if t in first or n in FEW]


PAIRS = list(itertools.product(["grad", "vmap", "vjp"], ["grad", "vmap", "vjp"]))
PAIRED = "custom_vjp, nested"
REVERSE_ROWS = chosen(REVERSE, ["grad", "vmap"], PROGRAMS)
FORWARD_ROWS = chosen(FORWARD, ["jvp"], FORWARD_ONLY)


@pytest.mark.parametrize(("name", "transform"), REVERSE_ROWS, ids=str)
def test_reverse_mode_batching_and_compilation(name, transform):
    compare_results(name, transform)


@pytest.mark.parametrize(("name", "transform"), FORWARD_ROWS, ids=str)
def test_forward_mode(name, transform):
    compare_results(name, transform)


@pytest.mark.parametrize("name", PROGRAMS)
def test_outside_of_any_compilation(name):
    """JAX's eager transformations: each program of its own."""
    ours, _ = PROGRAMS[name]
    for transform in ("grad", "vmap", *(["jvp"] if name in FORWARD_ONLY else [])):
        found = (REVERSE | FORWARD)[transform](mx.jit(ours))(X)
        compare_leaves(found, results()[1]((name, transform)))


@pytest.mark.parametrize(("outer", "inner"), PAIRS, ids=str)
@pytest.mark.parametrize("name", [PAIRED])
def test_pairs_with_custom_rules(name, outer, inner):
    compare_results(name, outer, inner)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jax.jit"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(OUR_JVP, JAX_JVP), (OUR_VJP, JAX_VJP)], ids=["jvp", "vjp"]
)
def test_custom_rules_without_our_jit(ours, theirs, wrap):
    def gradients(f):
        return lambda x: (jax.grad(summed(f))(x), jax.vmap(jax.grad(f))(x))

    found = gradients(wrap(ours))
    compare(found if wrap is not jax.jit else jax.jit(found), gradients(theirs), X)


@pytest.mark.parametrize("transform", ["jvp", "jacfwd"])
def test_a_custom_vjp_has_no_forward_derivative(transform):
    ours, _ = PROGRAMS["custom_vjp"]
    with pytest.raises(DerivativeError, match="can't apply forward-mode autodiff"):
        by_jax(FORWARD[transform](mx.jit(ours)), X)


def test_stop_gradient_without_our_jit():
    compare(
        jax.grad(lambda x: (mx.stop_gradient(x) * x).sum()),
        jax.grad(lambda x: (jax.lax.stop_gradient(x) * x).sum()),
        X,
    )


def test_several_arguments_some_of_integers():
    def ours(x, n, y):
        return mnp.sin(x) * n * y, n + 1

    def theirs(x, n, y):
        return jnp.sin(x) * n * y, n + 1

    def gradients(f):
        chosen = (0, 2, (0, 2), (2,))
        return lambda *a: [jax.grad(lambda *b: f(*b)[0].sum(), each)(*a) for each in chosen]

    n = np.arange(3, dtype=np.int32)
    compare(jax.jit(gradients(mx.jit(ours))), gradients(theirs), X, n, X + 1)
    for f in (mx.jit(ours), theirs):
        _, pullback = jax.vjp(f, X, n, X)
        cotangents = pullback((jnp.ones(3), np.zeros(3, jax.dtypes.float0)))
        assert cotangents[1].dtype == jax.dtypes.float0
        tangents = (X, np.zeros(3, jax.dtypes.float0), X)
        assert jax.jvp(f, (X, n, X), tangents)[1][1].dtype == jax.dtypes.float0
    compare(
        lambda *a: jax.jvp(mx.jit(ours), a, tangents)[1][0],
        lambda *a: jax.jvp(theirs, a, tangents)[1][0],
        X,
        n,
        X,
    )


def test_grad_with_respect_to_a_large_constant():
    def loss(w):
        return mx.jit(lambda x: (x * w).sum())(np.ones(2000, np.float32))

    np.testing.assert_array_equal(jax.grad(loss)(jnp.arange(2000.0)), np.ones(2000))


def test_vmap_over_some_arguments():
    def batched(f):
        return lambda x, w: (jax.vmap(f, (0, None))(x, w[:, 0]), jax.vmap(f, (None, 1))(x[0], w))

    f, g = mx.jit(lambda x, w: ops.dot(w, x)), lambda x, w: w @ x
    compare(jax.jit(batched(f)), batched(g), np.stack([X, X * 2]), np.stack([W, W * 2], 1))


def test_scan():
    def loop(f):
        def body(carry, x):
            carry = f(carry * x)
            return carry, carry

        return lambda x: jax.lax.scan(body, x, jnp.arange(1.0, 4.0))[1]

    def transformed(f):
        return lambda x: (f(x), jax.grad(summed(f))(x), jax.jacfwd(f)(x))

    compare(jax.jit(transformed(loop(mx.jit(mnp.sin)))), transformed(loop(jnp.sin)), X)


def test_cond():
    def branch(f, g):
        return lambda x: jax.lax.cond(x.sum() > 0, f, g, x)

    ours = jax.jit(jax.grad(summed(branch(mx.jit(mnp.sin), mx.jit(mnp.exp)))))
    theirs = jax.jit(jax.grad(summed(branch(jnp.sin, jnp.exp))))
    for x in (X, -X):
        compare_leaves(ours(x), theirs(x))


def test_linear_transpose():
    def transposed(f, composed):
        batched = jax.vmap(jax.linearize(composed, X)[1])
        return lambda y, ys: (
            jax.linear_transpose(f, X)(y),
            jax.linear_transpose(batched, np.stack([X, X]))(ys),
        )

    product = mx.jit(lambda x: ops.dot(W, x))
    ours = transposed(product, mx.jit(lambda x: ops.dot(W, ops.sin(x))))
    theirs = transposed(lambda x: W @ x, lambda x: W @ jnp.sin(x))
    compare(jax.jit(ours), theirs, W[:, 0], W.T[:2, :2])
    (alone,) = jax.linear_transpose(product, X)(W[:, 0])
    np.testing.assert_allclose(alone, W[:, 0] @ W, rtol=1e-6)


def test_a_program_is_differentiated_once():
    f = mx.jit(lambda x: mnp.sin(x) * x)
    gradient = jax.jit(jax.grad(summed(f)))
    text = gradient.lower(X).as_text()
    assert text.count("stablehlo.sine") == 1
    assert text.count("stablehlo.cosine") == 1


def test_nothing_leaks():
    def gradients(x):
        found = []
        for name in ("custom_jvp", "custom_vjp", "derivative inside"):
            ours, _ = PROGRAMS[name]
            found.append(jax.grad(summed(mx.jit(ours)))(x))
            found.append(jax.vmap(jax.grad(summed(ours)))(jnp.stack([x, x])))
        return found

    with jax.checking_leaks():
        jax.jit(gradients)(X)
        for name in ("custom_vjp", "derivative inside"):
            jax.vmap(jax.grad(summed(PROGRAMS[name][0])))(np.stack([X, X]))
