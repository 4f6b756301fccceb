"""custom_jvp and stop_gradient: the rule is used in every transformation, and checked."""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import DerivativeError, LeakedTracerError, ShapeError, TransformError
from tests.harness import by_jax, compiled_together

X = np.array([0.3, -1.2, 0.7], np.float32)
FLOAT0 = jax.dtypes.float0
Point = collections.namedtuple("Point", ["x", "y"])


def same(found, expected, rtol=2e-6):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.asarray(one).dtype == np.asarray(jnp.asarray(other)).dtype
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-6)


def scaled_sine(custom_jvp: Any, numpy):
    """sin, whose rule gives ten times the derivative, so that its use shows."""

    @custom_jvp
    def function(x):
        return numpy.sin(x)

    @function.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return function(x), 10 * numpy.cos(x) * t

    return function


OURS, THEIRS = scaled_sine(mx.custom_jvp, mnp), scaled_sine(jax.custom_jvp, jnp)

SIDES = {
    "ours": (mx.jit, mx.grad, mx.jvp, mx.vjp, mx.vmap, mnp),
    "theirs": (jax.jit, jax.grad, jax.jvp, jax.vjp, jax.vmap, jnp),
}
WRAPPERS = {
    "jit": lambda s, f: s[0](f),
    "grad": lambda s, f: s[1](lambda x: f(x).sum()),
    "jvp": lambda s, f: lambda x: s[2](f, (x,), (x + 1,))[1],
    "vjp": lambda s, f: lambda x: s[3](f, x)[1](x + 1)[0],
    "vmap": lambda s, f: lambda x: s[4](f)(x),
}


def nest(side, function, names):
    for name in reversed(names):
        function = WRAPPERS[name](SIDES[side], function)
    return function


CHAINS = [
    *[(name,) for name in WRAPPERS],
    *(pair for pair in itertools.product(WRAPPERS, repeat=2) if pair != ("vmap", "vmap")),
    ("grad", "jit", "vmap"),
    ("vmap", "jit", "grad"),
    ("jit", "vmap", "jvp"),
    ("jvp", "vmap", "vjp"),
    ("grad", "grad", "grad"),
    ("vmap", "jvp", "grad"),
]


@functools.cache
def expected():
    """What JAX makes of the function by a chain, by the chain's name: all in one program."""
    functions = {"-".join(names): nest("theirs", THEIRS, names) for names in CHAINS}
    return compiled_together(functions, X, jit=jax.jit)


@pytest.mark.parametrize("name", ["-".join(names) for names in CHAINS])
def test_every_transformation_asks_the_rule(name):
    found = mx.reference(nest("ours", OURS, name.split("-")))(X)
    same(found, expected()(name), 1e-5)


ON_THE_ENGINE = ["grad", "vmap-grad", "jvp-grad", "grad-vmap"]


@functools.cache
def compiled():
    """The same of some of ours."""
    functions = {name: nest("ours", OURS, name.split("-")) for name in ON_THE_ENGINE}
    return compiled_together(functions, X)


@pytest.mark.parametrize("name", ON_THE_ENGINE)
def test_on_the_engine(name):
    same(nest("ours", OURS, name.split("-"))(X), expected()(name), 1e-5)
    same(compiled()(name), expected()(name), 1e-5)


def test_nested_batches():
    rows = np.stack([X, 2 * X])

    def transformed(f, side):
        grad, vmap = SIDES[side][1], SIDES[side][4]
        return lambda x: [vmap(vmap(f))(x), vmap(grad(lambda r: vmap(f)(r).sum()))(x)]

    expected = by_jax(transformed(THEIRS, "theirs"), rows)
    same(mx.reference(transformed(OURS, "ours"))(rows), expected, 1e-5)


# Arguments and results.


def test_trees():
    @mx.custom_jvp
    def function(point, tree):
        return {"sum": point.x + tree["a"][0], "product": Point(point.x * point.y, None)}

    @function.defjvp
    def rule(primals, tangents):
        (point, tree), (dpoint, dtree) = primals, tangents
        assert isinstance(dpoint, Point)
        assert set(dtree) == {"a", "n"}
        result = function(point, tree)
        return result, {"sum": dpoint.x + 5 * dtree["a"][0], "product": Point(dpoint.y, None)}

    tree = {"a": (X,), "n": None}
    value, tangent = mx.jvp(
        function, (Point(X, X), tree), (Point(X, 2 * X), {"a": (X,), "n": None})
    )
    same(value, {"sum": X + X, "product": Point(X * X, None)})
    same(tangent, {"sum": X + 5 * X, "product": Point(2 * X, None)})
    gradient = mx.grad(lambda p, t: function(p, t)["sum"].sum(), (0, 1))(Point(X, X), tree)
    same(gradient, (Point(X * 0 + 1, X * 0), {"a": (X * 0 + 5,), "n": None}))


def test_integers_have_float0_tangents():
    seen = []

    @mx.custom_jvp
    def function(x, n):
        return x * n, n + 1

    @function.defjvp
    def rule(primals, tangents):
        seen.append(tangents[1])
        x, n = primals
        return function(x, n), (3 * tangents[0], np.zeros(n.shape, FLOAT0))

    n = np.arange(3, dtype=np.int32)
    value, tangent = mx.jvp(function, (X, n), (X, np.zeros(3, FLOAT0)))
    same(value, (X * n, n + 1))
    same(tangent[0], 3 * X)
    assert tangent[1].dtype == FLOAT0
    assert seen[0].dtype == FLOAT0
    assert seen[0].shape == (3,)
    same(mx.vmap(mx.grad(lambda x, m: function(x, m)[0]))(X, n), np.full(3, 3, "f4"))
    assert seen[-1].shape == ()


def test_untouched_arguments_have_zero_tangents():
    seen = []

    @mx.custom_jvp
    def function(x, y):
        return x * y

    @function.defjvp
    def rule(primals, tangents):
        seen.append(tangents)
        return function(*primals), tangents[0] * 2 + tangents[1]

    same(mx.grad(lambda x: function(x, X).sum())(X), X * 0 + 2)
    assert isinstance(seen[0][1], jax.Array)
    same(seen[0][1], X * 0)


def test_symbolic_zeros():
    seen = []

    @mx.custom_jvp
    def function(x, y):
        return x * y

    def rule(primals, tangents):
        seen.append([None if t is None else "some" for t in tangents])
        return function(*primals), 2 * tangents[0] if tangents[0] is not None else None

    function.defjvp(rule, symbolic_zeros=True)
    assert mx.grad(function)(2.0, 3.0) == 2
    assert mx.grad(function, 1)(2.0, 3.0) == 0
    same(mx.vmap(mx.grad(function))(X, X), X * 0 + 2)
    assert seen == [["some", None], [None, "some"], ["some", None]]


@pytest.mark.parametrize(
    "transform", [lambda f: f, mx.reference, mx.jit], ids=["eager", "numpy", "jit"]
)
def test_the_function_and_the_rule_get_arrays(transform):
    seen = []

    @mx.custom_jvp
    def function(x):
        seen.append((x.shape, x.dtype))
        return 2.5

    function.defjvp(lambda p, t: (seen.append((p[0].shape, t[0].dtype)) or 2.5, 0.0))
    found = transform(function)(1.0)
    assert (found, found.dtype) == (2.5, np.float32)
    assert transform(mx.grad(function))(1.0) == 0
    assert set(seen) == {((), np.dtype("f4"))}


NONDIFF = [(1, (X, 3), {}), ((1,), (X, 3), {}), (-1, (X, 3), {}), ((1,), (X,), {"n": 3})]


@pytest.mark.parametrize(("nondiff", "args", "kwargs"), NONDIFF, ids=[str(n) for n in range(4)])
def test_arguments_that_are_not_differentiated(nondiff, args, kwargs):
    @functools.partial(mx.custom_jvp, nondiff_argnums=nondiff)
    def function(x, n):
        assert type(n) is int
        return x**n

    @function.defjvp
    def rule(n, primals, tangents):
        assert type(n) is int
        return function(primals[0], n), 100 * n * tangents[0]

    same(function(*args, **kwargs), X**3)
    for transform in (lambda f: f, mx.jit, mx.reference):
        found = transform(mx.grad(lambda x: function(x, *args[1:], **kwargs).sum()))(X)
        same(found, X * 0 + 300)


@pytest.mark.parametrize("names", ["n", ("n",), ["n"]], ids=str)
@pytest.mark.parametrize("numbers", [(), (1,)], ids=str)
def test_arguments_that_are_not_differentiated_by_name(numbers, names):
    @functools.partial(mx.custom_jvp, nondiff_argnums=numbers, nondiff_argnames=names)
    def function(x, n):
        return x**n

    function.defjvp(lambda n, p, t: (function(p[0], n), 100 * n * t[0]))
    assert mx.grad(lambda x: function(x, 3))(2.0) == 300
    assert mx.grad(lambda x: function(x, n=3))(2.0) == 300


def test_names_must_be_those_of_parameters():
    for name in ("m", "flag"):
        with pytest.raises(TransformError, match=f"has '{name}', which is not a positional"):
            mx.custom_jvp(lambda x, n, *, flag=True: x, nondiff_argnames=name)


def test_functions_as_arguments():
    @functools.partial(mx.custom_jvp, nondiff_argnums=(0, 2))
    def apply(f, x, g):
        return f(g(x))

    apply.defjvp(lambda f, g, p, t: (f(g(p[0])), 7 * t[0]))
    assert mx.grad(lambda x: apply(mnp.sin, x, mnp.exp))(0.3) == 7


def test_defaults_and_keywords():
    @mx.custom_jvp
    def function(x, y=2.0, *, flag=True):
        assert flag
        return x * y

    function.defjvp(lambda p, t: (function(*p), p[1] * t[0] * 100))
    assert function(3.0) == function(y=2.0, x=3.0) == 6
    assert mx.grad(lambda x: function(x, y=4.0))(3.0) == 400
    with pytest.raises(TransformError, match="keyword-only arguments are not supported"):
        function(1.0, flag=False)


def test_rules_by_argument():
    @mx.custom_jvp
    def function(x, y, z):
        return x * y * z

    function.defjvps(
        lambda t, result, x, y, z: 2 * t * y * z,
        None,
        lambda t, result, x, y, z: 3 * result * t,
    )
    same(mx.grad(function, (0, 1, 2))(2.0, 3.0, 4.0), (24.0, 0.0, 72.0))
    assert mx.jvp(function, (2.0, 3.0, 4.0), (1.0, 1.0, 1.0))[1] == 96


def test_rules_by_argument_of_trees():
    @mx.custom_jvp
    def function(x):
        return {"a": x, "b": 2 * x}

    function.defjvps(lambda t, result, x: {"a": t, "b": 5 * t})
    assert mx.jvp(function, (1.0,), (1.0,))[1] == {"a": 1, "b": 5}
    silent = mx.custom_jvp(lambda x: x)
    silent.defjvps(None)
    assert mx.grad(silent)(1.0) == 0


def test_name_and_documentation():
    @mx.custom_jvp
    def function(x):
        """Documented."""
        return x

    assert (function.__name__, function.__doc__) == ("function", "Documented.")


def test_a_partial_has_no_name():
    function = mx.custom_jvp(functools.partial(lambda k, x: x * k, 3.0))
    function.defjvp(lambda p, t: (function(*p), t[0]))
    assert mx.reference(mx.grad(mx.jit(function)))(1.0) == 1


# Closures.


def closing_over(w):
    @mx.custom_jvp
    def function(x):
        return mnp.sin(x) * w

    function.defjvp(lambda p, t: (function(*p), t[0] * w * 100))
    return function


def test_closures_over_arrays():
    for w in (3.0, np.float32(3), jnp.float32(3), np.arange(2000, dtype=np.float32)):
        expected = 100 * np.sum(w)
        found = mx.jit(lambda x, w=w: mx.grad(lambda y: closing_over(w)(y).sum())(x))(0.5)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


CLOSURES = {
    "jit": lambda: mx.jit(lambda w, x: closing_over(w)(x))(3.0, 0.5) - 3 * mnp.sin(0.5),
    "grad in jit": lambda: mx.jit(lambda w, x: mx.grad(closing_over(w))(x))(3.0, 0.5) - 300,
    "jvp in jit": lambda: (
        mx.jit(lambda w, x: mx.jvp(closing_over(w), (x,), (x,)))(3.0, 1.0)[1] - 300
    ),
    "vmap": lambda: mx.vmap(lambda w, x: closing_over(w)(x))(X, X) - mnp.sin(X) * X,
    "vmap of grad": lambda: mx.vmap(lambda w, x: mx.grad(closing_over(w))(x))(X, X) - 100 * X,
    "grad of vmap": lambda: (
        mx.grad(lambda x: mx.vmap(lambda w, y: closing_over(w)(y))(X, x).sum())(X) - 100 * X
    ),
    "jit of vmap of grad": lambda: (
        mx.jit(mx.vmap(lambda w, x: mx.grad(closing_over(w))(x)))(X, X) - 100 * X
    ),
    "vmap, argument unbatched": lambda: (
        mx.vmap(lambda w: closing_over(w)(0.5))(X) - np.sin(np.float32(0.5)) * X
    ),
    "vmap in jit, argument unbatched": lambda: (
        mx.jit(lambda ws, x: mx.vmap(lambda w: closing_over(w)(x))(ws))(X, 0.5)
        - np.sin(np.float32(0.5)) * X
    ),
    "vmap of jit": lambda: mx.vmap(lambda w, x: mx.jit(closing_over(w))(x))(X, X) - mnp.sin(X) * X,
    "two vmaps": lambda: (
        mx.vmap(lambda w: mx.vmap(lambda x: mx.grad(closing_over(w))(x))(X))(X) - 100 * X[:, None]
    ),
    "in jax.jit": lambda: jax.jit(lambda w, x: mx.grad(closing_over(w))(x))(3.0, 0.5) - 300,
    "in jax.vmap": lambda: (
        jax.vmap(lambda w, x: mx.grad(closing_over(w))(x))(jnp.asarray(X), jnp.asarray(X)) - 100 * X
    ),
}


@pytest.mark.parametrize("name", CLOSURES)
def test_closures_over_traced_values(name):
    np.testing.assert_allclose(CLOSURES[name](), 0, atol=2e-5)


DIFFERENTIATED = {
    "grad": lambda: mx.grad(lambda w: closing_over(w)(2.0))(3.0),
    "grad, also the argument": lambda: mx.grad(lambda w: closing_over(w)(w))(3.0),
    "jvp": lambda: mx.jvp(lambda w: closing_over(w)(w), (3.0,), (1.0,)),
    "grad of jit": lambda: mx.grad(lambda w: mx.jit(closing_over(w))(w))(3.0),
    "in jit": lambda: mx.jit(mx.grad(lambda w: closing_over(w)(w)))(3.0),
    "in vmap": lambda: mx.vmap(mx.grad(lambda w: closing_over(w)(w)))(X),
    "in numpy": lambda: mx.reference(mx.grad(lambda w: closing_over(w)(2.0)))(3.0),
    "rule in a nested jit": lambda: mx.jit(lambda w, x: mx.grad(mx.jit(closing_over(w)))(x))(
        3.0, 2.0
    ),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_closures_over_values_that_are_differentiated(name):
    with pytest.raises((DerivativeError, LeakedTracerError, TransformError)) as caught:
        DIFFERENTIATED[name]()
    assert "as an argument" in str(caught.value)


# Wrong rules.


def with_rule(rule, function=lambda x: x * 2.0):
    custom = mx.custom_jvp(function)
    custom.defjvp(rule)
    return custom


WRONG_RULES = [
    (lambda p, t: t[0], "returned an invalid result", "a pair (result, tangent)"),
    (lambda p, t: (p[0], t[0], 1), "returned an invalid result", "it returned tuple"),
    (lambda p, t: None, "returned an invalid result", "it returned NoneType"),
    (lambda p, t: (p[0], (t[0],)), "a tangent with the structure", "PyTreeDef((*,))"),
    (lambda p, t: ((p[0],), t[0]), "a tangent with the structure", "PyTreeDef((*,))"),
    (lambda p, t: ([p[0]] * 2, t[0]), "a tangent with the structure", "PyTreeDef([*, *])"),
    (lambda p, t: (p[0], mnp.stack([t[0]] * 2)), "tangent 0 does not match", "tangent 0: f32[2]"),
    (lambda p, t: (p[0], t[0].astype(int)), "tangent 0 does not match", "tangent 0: s32[]"),
    (lambda p, t: (p[0], t[0].astype(np.float16)), "tangent 0 does not match", "tangent 0: f16[]"),
    (lambda p, t: (p[0].astype(int), t[0]), "tangent 0 does not match", "value: s32[]"),
]


@pytest.mark.parametrize(("rule", "problem", "given"), WRONG_RULES, ids=[str(n) for n in range(10)])
@pytest.mark.parametrize("transform", [mx.grad, lambda f: lambda x: mx.jvp(f, (x,), (x,))])
def test_wrong_rules(rule, problem, given, transform):
    function = with_rule(rule)
    for call in (transform(function), mx.make_graph(transform(function))):
        with pytest.raises(TransformError) as caught:
            call(1.0)
        for phrase in ("custom_jvp: the", problem, given, "test_custom_jvp.py"):
            assert phrase in str(caught.value)


def test_a_rule_whose_result_is_another():
    function = with_rule(lambda p, t: (p[0][None], t[0][None]))
    with pytest.raises(TransformError, match="the shapes of the function's") as caught:
        mx.make_graph(mx.grad(lambda x: mx.jit(function)(x).sum()))(1.0)
    assert "rule: (f32[1],)" in str(caught.value)


def test_a_rule_that_is_not_linear():
    function = with_rule(lambda p, t: (p[0], t[0] * t[0]))
    assert mx.jvp(function, (1.0,), (3.0,))[1] == 9
    with pytest.raises(DerivativeError, match="mul: a jvp rule applies the operation to a tangent"):
        mx.grad(function)(1.0)


def test_a_rule_may_return_zero():
    for zero in (None, 0.0, np.float32(0)):
        function = with_rule(lambda p, t, zero=zero: (p[0], zero))
        assert mx.grad(function)(1.0) == 0
        assert mx.jvp(function, (1.0,), (1.0,))[1] == 0
    function = with_rule(lambda p, t: ([p[0], p[0]], [t[0], None]), lambda x: [x, x])
    assert mx.jvp(function, (1.0,), (2.0,))[1] == [2, 0]


def test_no_rule():
    @mx.custom_jvp
    def lonely(x):
        return x

    with pytest.raises(TransformError) as caught:
        lonely(1.0)
    for phrase in ("custom_jvp: 'lonely' has no derivative rule", "f.defjvp(rule)"):
        assert phrase in str(caught.value)


WRONG_CALLS = [
    ((), {}, "missing a required argument: 'x'"),
    ((1.0, 2.0), {}, "too many positional arguments"),
    ((1.0,), {"y": 1.0}, "unexpected keyword argument 'y'"),
]


@pytest.mark.parametrize(("args", "kwargs", "problem"), WRONG_CALLS, ids=str)
def test_wrong_calls(args, kwargs, problem):
    @mx.custom_jvp
    def function(x):
        return x

    function.defjvp(lambda p, t: (p[0], t[0]))
    with pytest.raises(TransformError) as caught:
        function(*args, **kwargs)
    for phrase in (problem, "the arguments do not match function(x)", "test_custom_jvp.py"):
        assert phrase in str(caught.value)


def test_arguments_that_are_no_arrays():
    with pytest.raises(ShapeError, match=r"^custom_jvp: argument x of type str is not an array"):
        OURS("text")
    with pytest.raises(mx.AttributeValueError, match="nondiff_argnums = 4"):
        mx.custom_jvp(lambda x: x, nondiff_argnums=4)
    with pytest.raises(TransformError, match="defjvps does not support nondiff_argnums"):
        mx.custom_jvp(lambda x, n: x, nondiff_argnums=1).defjvps(None)


# In a graph.


def test_the_graph_has_the_function_as_a_computation():
    graph = mx.make_graph(lambda x: OURS(OURS(x)))(X)
    assert [step.op.builder_name for step in graph.instructions] == ["custom_jvp"] * 2
    assert graph == mx.make_graph(lambda x: OURS(OURS(x)))(X)
    assert graph != mx.make_graph(lambda x: OURS(x))(X)
    other = scaled_sine(mx.custom_jvp, mnp)
    assert graph != mx.make_graph(lambda x: other(other(x)))(X), "another rule, another program"
    text = str(graph)
    assert "call(" in text
    assert "to_apply=%function" in text
    assert "func.call @function" in graph.stablehlo()


def test_graphs_with_arguments_that_are_not_differentiated():
    function = mx.custom_jvp(lambda x, n: x, nondiff_argnums=1)
    function.defjvp(lambda n, p, t: (p[0], t[0]))

    def graph(n):
        return mx.make_graph(lambda x: function(x, n))(X)

    assert graph(1) == graph(1) != graph(2)
    assert graph(1) != graph(1.0)
    assert graph(X) == graph(X)
    assert graph(X) != graph(X + 0)


def with_a_forward_rule(fun):
    function = mx.custom_jvp(fun)
    function.defjvp(lambda primals, tangents: (fun(*primals), tangents[0]))
    return function


def with_a_reverse_rule(fun):
    function = mx.custom_vjp(fun)
    function.defvjp(lambda x: (fun(x), None), lambda _, cotangent: (cotangent,))
    return function


@pytest.mark.parametrize("with_rule", [with_a_forward_rule, with_a_reverse_rule])
@pytest.mark.parametrize(
    "use",
    [
        lambda f: f(X[0]),
        lambda f: mx.grad(f)(X[0]),
        lambda f: mx.vmap(mx.grad(f))(X),
        lambda f: mx.reference(mx.vmap(f))(X),
        lambda f: mx.make_graph(mx.vmap(mx.vmap(f)))(X[None]).stablehlo(),
    ],
)
def test_functions_are_not_kept_alive(with_rule, use):
    def used():
        def sine(x):
            return mnp.sin(x)

        use(with_rule(sine))
        return weakref.ref(sine)

    alive = used()
    gc.collect()
    assert alive() is None


# stop_gradient.


def test_stop_gradient():
    same(mx.grad(lambda x: mx.stop_gradient(x) * x)(3.0), np.float32(3))
    same(mx.jvp(lambda x: mx.stop_gradient(x) * x, (3.0,), (1.0,))[1], np.float32(3))
    same(mx.vmap(mx.grad(lambda x: mx.stop_gradient(x * x)))(X), X * 0)
    assert mx.grad(lambda x: mx.grad(lambda y: mx.stop_gradient(y) ** 2 * y)(x))(3.0) == 0


def test_stop_gradient_of_trees():
    n = np.arange(3, dtype=np.int32)
    tree = {"x": X, "n": n, "word": "text", "zeros": np.zeros(2, FLOAT0), "none": None}
    found = mx.stop_gradient(tree)
    assert (found["word"], found["none"]) == ("text", None)
    assert found["zeros"] is tree["zeros"]
    same((found["x"], found["n"]), (X, n))
    assert mx.stop_gradient(2.0) == 2


def test_stop_gradient_costs_nothing():
    graph = mx.make_graph(lambda x: mx.stop_gradient(ops.tanh(x)))(X)
    assert "copy(" in str(graph)
    assert graph.stablehlo().count("stablehlo.") == 1
