"""Captured arrays, traced programs and compiled programs are freed with their function."""

import gc
import itertools
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from tests.selection import unless

X = np.ones(4, np.float32)
BATCH = np.stack([X, X])
EXPORTED = mx.export(lambda x: mnp.sin(x) + x, X)
HLO = str(mx.make_graph(lambda x: mnp.sin(x) + x)(X))


def body(array):
    """A function of ten operations that closes over an array."""

    def function(x):
        for _ in range(3):
            x = mnp.sin(x) * array + x
        return x.sum()

    return function


def step(array):
    return lambda carry, _: (carry + body(array)(carry), body(array)(carry))


def reducer(x, y):
    return x * y + x


def with_rules(array):
    function = mx.custom_vjp(body(array))
    function.defvjp(lambda x: (body(array)(x), x), lambda x, cotangent: (cotangent * x + array,))
    return function


def with_jvp(array):
    function = mx.custom_jvp(body(array))
    function.defjvp(lambda x, t: (body(array)(*x), (t[0] * x[0] + array).sum()))
    return function


def foreign(array):
    return lambda x: jnp.sin(x) * array


def watched(array):
    with mx.debug_nans(True):
        return mx.jit(body(array))(X)


MESH = mx.make_mesh((1,), ("x",))
P = mx.P
#: Entry points that trace or compile a new closure.
ENTRY_POINTS = {
    "jit": lambda a: mx.jit(body(a))(X),
    "jit.lower": lambda a: mx.jit(body(a)).lower(X).compile()(X),
    "jit.graph": lambda a: mx.jit(body(a)).graph(X).stablehlo(),
    "static argument": lambda a: mx.jit(lambda x, n: x * a * n, static_argnums=1)(X, 3),
    "nested jit": lambda a: mx.jit(lambda x: mx.jit(body(a))(x) * 2)(X),
    "grad": lambda a: mx.grad(body(a))(X),
    "jit of grad": lambda a: mx.jit(mx.grad(body(a)))(X),
    "grad of jit": lambda a: mx.grad(mx.jit(body(a)))(X),
    "vmap of jit": lambda a: mx.vmap(mx.jit(body(a)))(BATCH),
    "jvp": lambda a: mx.jvp(mx.jit(body(a)), (X,), (X,)),
    "vjp": lambda a: mx.vjp(body(a), X)[1](np.float32(1)),
    "linearize": lambda a: mx.linearize(body(a), X)[1](X),
    "hessian": lambda a: mx.jit(mx.hessian(body(a)))(X),
    "checkpoint": lambda a: mx.grad(mx.checkpoint(body(a)))(X),
    "custom_vjp": lambda a: mx.jit(mx.grad(with_rules(a)))(X),
    "custom_jvp": lambda a: mx.jit(mx.grad(with_jvp(a)))(X),
    "checkpoint of custom_jvp": lambda a: mx.checkpoint(with_jvp(a))(X),
    "cond of custom_vjp": lambda a: mx.cond(True, with_rules(a), with_rules(a), X),
    "map of custom_jvp": lambda a: mx.map(with_jvp(a), BATCH),
    "checkpoint with a policy": lambda a: mx.checkpoint(
        body(a), policy=lambda *_, **__: bool(a.size)
    )(X),
    "pure_callback": lambda a: mx.pure_callback(lambda x: np.asarray(x) + np.asarray(a), X, X),
    "debug.callback": lambda a: mx.debug.callback(lambda x: a.size, X) or a,
    "jax.jit of custom_jvp": lambda a: jax.jit(with_jvp(a))(X),
    "jax.jit of custom_vjp": lambda a: jax.jit(with_rules(a))(X),
    "jax.grad of custom_vjp": lambda a: jax.grad(with_rules(a))(X),
    "scan": lambda a: mx.scan(step(a), X, None, length=3),
    "jit of scan": lambda a: mx.jit(lambda x: mx.scan(step(a), x, None, length=3))(X),
    "grad of scan": lambda a: mx.jit(
        mx.grad(lambda x: mx.scan(step(a), x, None, length=3)[0].sum())
    )(X),
    "cond": lambda a: mx.cond(True, body(a), body(a), X),
    "while_loop": lambda a: mx.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + body(a)(c[1])), (0, X)
    ),
    "map": lambda a: mx.map(body(a), BATCH),
    "operation that runs a program": lambda a: mx.jit(
        mx.grad(lambda x: ops.map([x], lambda v: v * v, [0]).sum() + (x * a).sum())
    )(X),
    "reduce": lambda a: mx.jit(
        mx.grad(lambda x: ops.reduce([x * a], [np.float32(0)], reducer, (0,)))
    )(X),
    "composite call": lambda a: mx.jit(
        lambda x: ops.composite_call(lambda x: x * x, x * a, name="my.square")
    )(X),
    "make_graph": lambda a: str(mx.make_graph(body(a))(X)),
    "reference": lambda a: mx.reference(mx.jit(body(a)))(X),
    "simulate": lambda a: mx.simulate([[body(a)]], [[(X,)]]),
    "check_grads": lambda a: mx.check_grads(body(a), (X,), order=1),
    "cross_check": lambda a: mx.cross_check(mx.jit(body(a)), X),
    "imported program": lambda a: mx.jit(
        mx.grad(lambda x: (mx.import_stablehlo(EXPORTED)(x) * a).sum())
    )(X),
    "imported program, eager": lambda a: mx.import_stablehlo(EXPORTED)(a),
    "imported HLO": lambda a: mx.import_hlo(HLO)(a),
    "export": lambda a: mx.export(body(a), X),
    "from_jax": lambda a: foreign(a)(X),
    "grad of from_jax": lambda a: mx.grad(lambda x: foreign(a)(x).sum())(X),
    "jit of from_jax": lambda a: mx.jit(mx.grad(lambda x: foreign(a)(x).sum()))(X),
    "vmap of from_jax": lambda a: mx.vmap(foreign(a))(BATCH),
    "inside jax.jit": lambda a: jax.jit(mx.jit(body(a)))(X),
    "constants inside jax.jit": lambda a: jax.jit(lambda x: x * mnp.sin(a) + mnp.eye(4)[0])(X),
    "constants inside jax.vmap": lambda a: jax.vmap(lambda x: x * mnp.sin(a) + mnp.eye(4)[0])(
        BATCH
    ),
    "cond in vmap of vmap": lambda a: mx.vmap(
        mx.vmap(lambda x: mx.cond(x > 0, body(a), body(a), x))
    )(BATCH),
    "inside jax.grad": lambda a: jax.grad(mx.jit(body(a)))(X),
    "pmap": lambda a: mx.pmap(body(a))(X[None]),
    "shard_map": lambda a: mx.shard_map(body(a), mesh=MESH, in_specs=P(), out_specs=P())(X),
    "debug_nans": watched,
    "cost": lambda a: mx.cost(body(a), X),
    "eval_shape": lambda a: mx.eval_shape(body(a), X),
    "vectorize": lambda a: mnp.vectorize(body(a), signature="(n)->()")(BATCH),
}


def _called(function):
    """Return weak references to the array of a new closure, after a call."""
    array = jnp.asarray(np.random.default_rng(0).random(4, np.float32))
    result = function(array)
    if not isinstance(result, (str, bytes)):
        jax.block_until_ready(result)
    return weakref.ref(array)


def _live_objects(function, closures):
    for _ in range(closures):
        _called(function)
    gc.collect()
    return len(gc.get_objects())


@pytest.fixture(scope="module", autouse=True)
def small_heap():
    """Leave objects of other tests out of collections and counts, which would take most time."""
    gc.collect()
    gc.freeze()


#: Entry points that combine others.
COMBINED = {
    "nested jit",
    "grad of jit",
    "hessian",
    "custom_jvp",
    "checkpoint of custom_jvp",
    "cond of custom_vjp",
    "map of custom_jvp",
    "jax.jit of custom_vjp",
    "jax.grad of custom_vjp",
    "jit of scan",
    "operation that runs a program",
    "composite call",
    "imported program",
    "grad of from_jax",
    "jit of from_jax",
    "vmap of from_jax",
    "inside jax.grad",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=unless(name not in COMBINED)) for name in ENTRY_POINTS]
)
def test_closures_are_freed(name):
    function = ENTRY_POINTS[name]
    # Some caches are full only after a few calls.
    counts = [_live_objects(function, 2) for _ in range(4)]
    arrays = [_called(function) for _ in range(2)]
    gc.collect()
    gc.collect()  # a closure in a reference cycle is freed in two passes
    assert [each() for each in arrays] == [None, None]
    growth = [after - before for before, after in itertools.pairwise(counts)]
    assert min(growth) < 2, f"objects are left of each closure: {growth}"


@pytest.mark.full
@pytest.mark.parametrize("name", ["jit", "grad", "vmap of jit", "scan", "cond", "make_graph"])
def test_caches_are_bounded(name):
    """Closures over numbers, so that each program differs."""
    values = iter(np.linspace(1, 2, 300).tolist())

    def function(_):
        return ENTRY_POINTS[name](next(values))

    first = _live_objects(function, 100)
    assert _live_objects(function, 100) - first < 100
