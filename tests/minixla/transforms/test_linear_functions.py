"""The functions that vjp and linearize return are pytrees in every transformation."""

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp

X = np.arange(1, 4, dtype=np.float32)
BATCH = np.stack([X, X + 1])


def function(x):
    return mnp.sin(x).sum() * x


def of(maker, x):
    return {"vjp": mx.vjp, "linearize": mx.linearize}[maker](function, x)[1]


def first(result):
    return result[0] if isinstance(result, tuple) else result


#: Functions of a maker of linear functions; each returns the linear function's value at X.
WAYS = {
    "returned by jit": lambda make: mx.jit(make)(X)(X),
    "argument of jit": lambda make: mx.jit(lambda f, t: f(t))(make(X), X),
    "through jit": lambda make: mx.jit(lambda f: f)(make(X))(X),
    "result of vmap": lambda make: jax.tree.map(
        lambda leaf: leaf[0], mx.vmap(lambda f, t: f(t))(mx.vmap(make)(BATCH), np.stack([X, X]))
    ),
    "not mapped by vmap": lambda make: jax.tree.map(
        lambda leaf: leaf[0], mx.vmap(lambda f, t: f(t), in_axes=(None, 0))(make(X), X[None])
    ),
    "carry of scan": lambda make: mx.scan(lambda _, x: (make(x), None), make(X), X[None])[0](X),
    "output of scan": lambda make: jax.tree.map(
        lambda leaf: leaf[0], mx.scan(lambda c, x: (c, make(x)), 0, X[None])[1]
    )(X),
    "result of cond": lambda make: mx.cond(True, make, lambda x: make(x + 1), X)(X),
    "state of while_loop": lambda make: mx.while_loop(
        lambda state: state[0] < 2, lambda state: (state[0] + 1, state[1]), (0, make(X))
    )[1](X),
    "result of checkpoint": lambda make: mx.checkpoint(make)(X)(X),
    "result of vjp": lambda make: mx.vjp(make, X)[0](X),
    "result of jvp": lambda make: mx.jvp(make, (X,), (X,))[0](X),
    "aux of grad": lambda make: mx.grad(lambda x: (x.sum(), make(x)), has_aux=True)(X)[1](X),
    "argument of jax.jit": lambda make: jax.jit(lambda f, t: f(t))(make(X), X),
    "flattened": lambda make: jax.tree.unflatten(*jax.tree.flatten(make(X))[::-1])(X),
    "evaluated by the reference": lambda make: mx.reference(lambda x: make(x)(x))(X),
}
MAKERS = {
    "vjp": lambda x: of("vjp", x),
    "linearize": lambda x: of("linearize", x),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("way", WAYS)
def test_it_crosses(way, maker):
    expected = first(of(maker, X)(X))
    found = first(WAYS[way](MAKERS[maker]))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_derivatives_through_it():
    def through(x):
        return mx.jit(MAKERS["vjp"])(x)(X)[0].sum()

    expected = mx.grad(lambda x: of("vjp", x)(X)[0].sum())(X)
    np.testing.assert_allclose(mx.grad(through)(X), expected, rtol=1e-6)


def test_integers_have_float0():
    zeros = np.zeros((), jax.dtypes.float0)
    pullback = mx.jit(lambda x: mx.vjp(lambda x, n: {"a": x * n, "n": n}, x, 3)[1])(X)
    of_x, of_n = pullback({"a": X, "n": zeros})
    np.testing.assert_array_equal(of_x, 3 * X)
    assert of_n.dtype == jax.dtypes.float0 and of_n.shape == ()


def test_structures_are_equal_for_equal_programs():
    structures = [jax.tree.structure(of("vjp", x)) for x in (X, X + 1)]
    assert structures[0] == structures[1]
    assert jax.tree.structure(mx.vjp(mnp.cos, X)[1]) != structures[0]


def test_it_is_traced_once_as_an_argument():
    traced = []

    @mx.jit
    def apply(f, tangent):
        traced.append(f)
        return f(tangent)

    for shift in range(3):
        apply(of("linearize", X + shift), X)
    assert len(traced) == 1


def test_residuals_of_a_rule():
    rule = mx.custom_vjp(function)
    rule.defvjp(lambda x: mx.vjp(function, x), lambda pullback, cotangent: pullback(cotangent))
    expected = mx.grad(lambda x: function(x).sum())(X)
    gradient = mx.grad(lambda x: rule(x).sum())
    np.testing.assert_allclose(mx.jit(gradient)(X), expected, rtol=1e-6)
    np.testing.assert_allclose(mx.vmap(gradient)(BATCH)[0], expected, rtol=1e-6)


def test_wrong_cotangents_are_refused_after_a_crossing():
    pullback = mx.jit(MAKERS["vjp"])(X)
    with pytest.raises(mx.TransformError, match="does not match it"):
        pullback(X[:2])
    with pytest.raises(mx.TransformError, match="the structure"):
        pullback((X, X))


@jax.tree_util.register_pytree_node_class
class Strict:
    """A container that accepts only arrays of one dimension, or batches of them."""

    def __init__(self, values):
        assert values.ndim in (1, 2)
        self.values = values

    def tree_flatten(self):
        return (self.values,), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


STRICT = Strict(X)


def total(s):
    return (s.values**2).sum()


def doubled(s):
    return Strict(s.values * 2)


rule_of_doubled = mx.custom_vjp(doubled)
rule_of_doubled.defvjp(lambda s: (doubled(s), None), lambda _, s: (Strict(s.values * 2),))
jvp_of_doubled = mx.custom_jvp(doubled)
jvp_of_doubled.defjvp(lambda p, t: (doubled(*p), doubled(*t)))

#: Transformations of functions of these containers.
CONTAINERS = {
    "jit": lambda: mx.jit(doubled)(STRICT),
    "jit with shardings": lambda: mx.jit(doubled, out_shardings=None)(STRICT),
    "grad": lambda: mx.grad(total)(STRICT),
    "jvp": lambda: mx.jvp(total, (STRICT,), (STRICT,)),
    "jvp of a container": lambda: mx.jvp(doubled, (STRICT,), (STRICT,)),
    "vjp": lambda: mx.vjp(doubled, STRICT)[1](STRICT),
    "vjp through jit": lambda: mx.jit(lambda s: mx.vjp(doubled, s)[1])(STRICT)(STRICT),
    "linearize": lambda: mx.linearize(doubled, STRICT)[1](STRICT),
    "vmap": lambda: mx.vmap(doubled)(Strict(BATCH)),
    "vmap to axis 1": lambda: mx.vmap(doubled, out_axes=1)(Strict(BATCH)),
    "scan": lambda: mx.scan(lambda c, _: (doubled(c), None), STRICT, None, length=2),
    "cond": lambda: mx.cond(True, doubled, lambda s: s, STRICT),
    "while_loop": lambda: mx.while_loop(lambda s: s.values[0] < 9, doubled, STRICT),
    "checkpoint": lambda: mx.grad(lambda s: total(mx.checkpoint(doubled)(s)))(STRICT),
    "custom_vjp": lambda: mx.grad(lambda s: total(rule_of_doubled(s)))(STRICT),
    "custom_jvp": lambda: mx.jvp(jvp_of_doubled, (STRICT,), (STRICT,)),
    "pmap": lambda: mx.pmap(doubled)(Strict(X[None])),
    "eval_shape": lambda: mx.eval_shape(doubled, STRICT),
    "make_graph": lambda: mx.make_graph(doubled)(STRICT),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_hold_arrays(name):
    CONTAINERS[name]()
