"""custom_vjp: both halves of the rule are used in every transformation, and checked."""

from __future__ import annotations

import collections
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core.errors import DerivativeError, LeakedTracerError, ShapeError, TransformError
from tests.harness import compiled_together

X = np.array([0.3, -1.2, 0.7], np.float32)
N = np.arange(3, dtype=np.int32)
FLOAT0 = jax.dtypes.float0
Point = collections.namedtuple("Point", ["x", "y"])


def same(found, expected, rtol=2e-6):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.asarray(one).dtype == np.asarray(jnp.asarray(other)).dtype
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-6)


def clipped(custom_vjp: Any, numpy):
    """x * y, whose rule clips cotangents and forgets a factor, so that its use shows."""

    @custom_vjp
    def function(x, y):
        return x * y

    def forward(x, y):
        return x * y, (x, {"y": y})

    def backward(residuals, cotangent):
        x, rest = residuals
        cotangent = numpy.clip(cotangent, -1, 1)
        return 5 * cotangent * rest["y"], cotangent * numpy.sin(x)

    function.defvjp(forward, backward)
    return function


OURS, THEIRS = clipped(mx.custom_vjp, mnp), clipped(jax.custom_vjp, jnp)

TRANSFORMATIONS = {
    "value": lambda s, f: f,
    "grad": lambda s, f: s.grad(lambda x, y: 3 * f(x, y).sum(), (0, 1)),
    "grad of one": lambda s, f: s.grad(lambda y, x: f(x, y).sum()),
    "vjp": lambda s, f: lambda x, y: s.vjp(f, x, y)[1](x * 3),
    "vmap": lambda s, f: s.vmap(f),
    "vmap, one unbatched": lambda s, f: lambda x, y: s.vmap(f, (0, None))(x, y),
    "vmap of grad": lambda s, f: s.vmap(s.grad(f, (0, 1))),
    "vmap of grad, one unbatched": lambda s, f: (
        lambda x, y: s.vmap(s.grad(f, (0, 1)), (0, None))(x, y[0])
    ),
    "grad of vmap": lambda s, f: s.grad(lambda x, y: 3 * s.vmap(f)(x, y).sum(), (0, 1)),
    "grad of vmap, one unbatched": lambda s, f: s.grad(
        lambda x, y: s.vmap(f, (0, None))(x, y[0]).sum(), (0, 1)
    ),
    "grad of vmap, other axes": lambda s, f: (
        lambda x, y: s.grad(lambda a, b: (s.vmap(f, (1, 0), 1)(a, b) ** 2).sum(), (0, 1))(
            x[:, None] * y, y[:, None] + x
        )
    ),
    "grad of two vmaps": lambda s, f: s.grad(
        lambda x, y: s.vmap(lambda a: s.vmap(lambda b: f(a, b))(y))(x).sum(), (0, 1)
    ),
    "grad of jit": lambda s, f: s.grad(lambda x, y: s.jit(f)(x, y).sum(), (0, 1)),
    "grad of vmap of jit": lambda s, f: s.grad(lambda x, y: s.vmap(s.jit(f))(x, y).sum(), (0, 1)),
    "grad of jit of vmap": lambda s, f: s.grad(lambda x, y: s.jit(s.vmap(f))(x, y).sum(), (0, 1)),
    "grad of grad": lambda s, f: s.vmap(s.grad(s.grad(f), (0, 1))),
    "jvp of grad": lambda s, f: lambda x, y: s.jvp(s.vmap(s.grad(f)), (x, y), (y, x)),
    "integer argument": lambda s, f: lambda x, y: s.grad(lambda x: f(x, N).sum())(x),
}


@functools.cache
def expected():
    """What JAX makes of the function, by name: all in one program."""
    functions = {name: transform(jax, THEIRS) for name, transform in TRANSFORMATIONS.items()}
    return compiled_together(functions, X, X + 1, jit=jax.jit)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_every_transformation_asks_the_rule(name):
    found = mx.reference(TRANSFORMATIONS[name](mx, OURS))(X, X + 1)
    same(found, expected()(name), 1e-5)


ON_THE_ENGINE = ["grad", "vmap of grad", "grad of vmap of jit", "jvp of grad"]


@functools.cache
def compiled():
    """The same of some of ours."""
    functions = {name: TRANSFORMATIONS[name](mx, OURS) for name in ON_THE_ENGINE}
    return compiled_together(functions, X, X + 1)


@pytest.mark.parametrize("name", ON_THE_ENGINE)
def test_on_the_engine(name):
    same(TRANSFORMATIONS[name](mx, OURS)(X, X + 1), expected()(name), 1e-5)
    same(compiled()(name), expected()(name), 1e-5)


# Arguments and results.


def test_trees():
    seen = []

    @mx.custom_vjp
    def function(point, tree):
        return {"a": point.x * tree["w"], "b": (point.y, None)}

    def forward(point, tree):
        return function(point, tree), {"kept": point, "n": 3, "word": "text", "none": None}

    def backward(residuals, cotangent):
        seen.append(residuals["word"])
        assert type(residuals["n"]) is int
        assert isinstance(residuals["kept"], Point)
        return Point(cotangent["a"] * 10, cotangent["b"][0]), {"w": cotangent["a"] * residuals["n"]}

    function.defvjp(forward, backward)
    arguments = (Point(X, 2 * X), {"w": X})
    for transform in (lambda f: f, mx.jit, mx.vmap):
        value, pullback = mx.vjp(transform(function), *arguments)
        same(value, {"a": X * X, "b": (2 * X, None)})
        found = pullback({"a": X, "b": (X + 1, None)})
        same(found, (Point(10 * X, X + 1), {"w": 3 * X}))
    assert seen == ["text"] * 3


ZEROS = {
    "None": lambda c: (c, None, None),
    "None in a tree": lambda c: (c, {"w": None, "n": None}, None),
    "None for a tree": lambda c: (c, {"w": None, "n": np.zeros(3, FLOAT0)}, np.zeros(3, FLOAT0)),
    "anything for integers": lambda c: (c, {"w": None, "n": c}, c),
    "a list": lambda c: [c, None, None],
    "arrays": lambda c: (c, {"w": c * 0, "n": None}, None),
}


@pytest.mark.parametrize("name", ZEROS)
def test_zero_cotangents(name):
    @mx.custom_vjp
    def function(x, tree, n):
        return x * tree["w"]

    function.defvjp(lambda *args: (function(*args), None), lambda _, c: ZEROS[name](c))
    tree = {"w": X, "n": N}
    gradient = mx.grad(lambda *a: function(*a).sum(), (0, 1, 2), allow_int=True)(X, tree, N)
    same(gradient[0], X * 0 + 1)
    same(gradient[1]["w"], X * 0)
    assert gradient[1]["n"].dtype == gradient[2].dtype == FLOAT0


def test_results_of_integers_have_float0_cotangents():
    seen = []

    @mx.custom_vjp
    def function(x):
        return x * 2.0, N

    function.defvjp(lambda x: (function(x), None), lambda _, c: (seen.append(c) or c[0],))
    same(mx.grad(lambda x: function(x)[0].sum())(X), X * 0 + 1)
    assert seen[0][1].dtype == FLOAT0
    assert seen[0][1].shape == (3,)


def test_untouched_results_have_zero_cotangents():
    seen = []

    @mx.custom_vjp
    def function(x):
        return x, 2 * x

    function.defvjp(lambda x: (function(x), None), lambda _, c: (seen.append(c) or c[0],))
    same(mx.grad(lambda x: function(x)[0].sum())(X), X * 0 + 1)
    same(seen[0][1], X * 0)
    assert isinstance(seen[0][1], jax.Array)


def test_symbolic_zeros():
    seen = []

    @mx.custom_vjp
    def function(x, y):
        return x * y, x + y

    def forward(x, y):
        seen.append((x.perturbed, y.perturbed))
        return (x.value * y.value, x.value + y.value), (x.value, y.value)

    def backward(residuals, cotangents):
        seen.append([c is not None for c in cotangents])
        _, y = residuals
        return (None if cotangents[0] is None else 7 * cotangents[0] * y), cotangents[1]

    function.defvjp(forward, backward, symbolic_zeros=True)
    assert mx.grad(lambda x: function(x, 3.0)[0])(2.0) == 21
    assert mx.grad(lambda y: function(2.0, y)[1])(3.0) == 1
    same(mx.vmap(mx.grad(lambda x, y: function(x, y)[0]))(X, X), 7 * X)
    assert seen == [
        (True, False),
        [True, False],
        (False, True),
        [False, True],
        (True, False),
        [True, False],
    ]


NONDIFF = [(1, (X, 3), {}), ((1,), (X, 3), {}), (-1, (X, 3), {}), ((1,), (X,), {"n": 3})]


@pytest.mark.parametrize(("nondiff", "args", "kwargs"), NONDIFF, ids=[str(n) for n in range(4)])
def test_arguments_that_are_not_differentiated(nondiff, args, kwargs):
    @functools.partial(mx.custom_vjp, nondiff_argnums=nondiff)
    def function(x, n):
        return x**n

    def forward(x, n):
        assert type(n) is int
        return function(x, n), x

    def backward(n, x, cotangent):
        assert type(n) is int
        return (cotangent * 100 * n,)

    function.defvjp(forward, backward)
    same(function(*args, **kwargs), X**3)
    for transform in (lambda f: f, mx.jit, mx.reference):
        found = transform(mx.grad(lambda x: function(x, *args[1:], **kwargs).sum()))(X)
        same(found, X * 0 + 300)


@pytest.mark.parametrize("names", ["n", ("n",), ["n"]], ids=str)
@pytest.mark.parametrize("numbers", [(), (1,)], ids=str)
def test_arguments_that_are_not_differentiated_by_name(numbers, names):
    @functools.partial(mx.custom_vjp, nondiff_argnums=numbers, nondiff_argnames=names)
    def function(x, n):
        return x**n

    function.defvjp(
        lambda x, n: (function(x, n), None),
        lambda n, _, cotangent: (100 * n * cotangent,),
        optimize_remat=True,
    )
    assert mx.grad(lambda x: function(x, 3))(2.0) == 300
    assert mx.grad(lambda x: function(x, n=3))(2.0) == 300


def test_names_must_be_those_of_parameters():
    for name in ("m", "flag"):
        with pytest.raises(TransformError, match=f"has '{name}', which is not a positional"):
            mx.custom_vjp(lambda x, n, *, flag=True: x, nondiff_argnames=name)


def test_several_arguments_that_are_not_differentiated():
    @functools.partial(mx.custom_vjp, nondiff_argnums=(0, 2))
    def apply(f, x, g):
        return f(g(x))

    apply.defvjp(lambda f, x, g: (f(g(x)), x), lambda f, g, x, c: (c * (f(x) + 100 * g(x)),))
    found = mx.grad(lambda x: apply(mnp.sin, x, mnp.exp))(0.5)
    np.testing.assert_allclose(found, np.sin(0.5) + 100 * np.exp(0.5), rtol=1e-6)


def test_defaults_and_keywords():
    @mx.custom_vjp
    def function(x, y=2.0):
        return x * y

    function.defvjp(lambda x, y: (x * y, (x, y)), lambda r, c: (c * 50, c * 60))
    assert function(3.0) == function(y=2.0, x=3.0) == 6
    assert mx.grad(function)(3.0) == 50
    assert mx.grad(lambda y: function(1.0, y=y))(3.0) == 60


# Closures.


def closing_over(w):
    @mx.custom_vjp
    def function(x):
        return mnp.sin(x) * w

    function.defvjp(lambda x: (function(x), x), lambda x, c: (c * w * 100,))
    return function


CLOSURES = {
    "grad": lambda: mx.grad(closing_over(3.0))(0.5) - 300,
    "grad in jit": lambda: mx.jit(lambda w, x: mx.grad(closing_over(w))(x))(3.0, 0.5) - 300,
    "vmap": lambda: mx.vmap(lambda w, x: closing_over(w)(x))(X, X) - mnp.sin(X) * X,
    "vmap of grad": lambda: mx.vmap(lambda w, x: mx.grad(closing_over(w))(x))(X, X) - 100 * X,
    "grad of vmap": lambda: (
        mx.grad(lambda x: mx.vmap(lambda w, y: closing_over(w)(y))(X, x).sum())(X) - 100 * X
    ),
    "grad of vmap of jit": lambda: (
        mx.jit(mx.grad(lambda x: mx.vmap(lambda w, y: closing_over(w)(y))(X, x).sum()))(X) - 100 * X
    ),
    "two vmaps": lambda: (
        mx.vmap(lambda w: mx.vmap(lambda x: mx.grad(closing_over(w))(x))(X))(X) - 100 * X[:, None]
    ),
    "in jax.jit": lambda: jax.jit(lambda w, x: mx.grad(closing_over(w))(x))(3.0, 0.5) - 300,
}


@pytest.mark.parametrize("name", CLOSURES)
def test_closures_over_values(name):
    np.testing.assert_allclose(CLOSURES[name](), 0, atol=2e-5)


DIFFERENTIATED = {
    "grad": lambda: mx.grad(lambda w: closing_over(w)(2.0))(3.0),
    "grad, also the argument": lambda: mx.grad(lambda w: closing_over(w)(w))(3.0),
    "grad of jit": lambda: mx.grad(lambda w: mx.jit(closing_over(w))(w))(3.0),
    "in jit": lambda: mx.jit(mx.grad(lambda w: closing_over(w)(w)))(3.0),
    "rule in a nested jit": lambda: mx.jit(lambda w, x: mx.grad(mx.jit(closing_over(w)))(x))(
        3.0, 2.0
    ),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_closures_over_values_that_are_differentiated(name):
    with pytest.raises((DerivativeError, LeakedTracerError, TransformError)) as caught:
        DIFFERENTIATED[name]()
    assert "as an argument" in str(caught.value)


# Forward mode.


FORWARD = {
    "jvp": lambda: mx.jvp(OURS, (X, X), (X, X)),
    "jvp in jit": lambda: mx.jit(lambda x: mx.jvp(OURS, (x, x), (x, x)))(X),
    "jvp of jit": lambda: mx.jvp(mx.jit(OURS), (X, X), (X, X)),
    "jvp of vmap": lambda: mx.jvp(mx.vmap(OURS), (X, X), (X, X)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_there_is_no_forward_derivative(name):
    with pytest.raises(DerivativeError) as caught:
        FORWARD[name]()
    for phrase in ("can't apply forward-mode autodiff (jvp)", "mx.custom_jvp", "called at"):
        assert phrase in str(caught.value)


def test_forward_mode_where_it_is_not_differentiated():
    value, tangent = mx.jvp(lambda x: OURS(X, X) * x, (2.0,), (1.0,))
    same((value, tangent), (X * X * 2, X * X))


# Wrong rules.


def with_rules(forward=lambda x: (x * 2.0, x), backward=lambda r, c: (c,)):
    custom = mx.custom_vjp(lambda x: x * 2.0)
    custom.defvjp(forward, backward)
    return custom


WRONG_RULES = [
    ({"forward": lambda x: x}, "returned an invalid", "a pair (result, residuals) from fwd"),
    ({"forward": lambda x: (x, x, x)}, "returned an invalid", "it returned tuple"),
    ({"backward": lambda r, c: c}, "returned an invalid", "a tuple of 1 cotangents from bwd"),
    ({"backward": lambda r, c: (c, c)}, "returned an invalid", "a tuple of 1 cotangents"),
    ({"backward": lambda r, c: None}, "returned an invalid", "it returned NoneType"),
    ({"backward": lambda r, c: ([c],)}, "a cotangent with the structure", "PyTreeDef([*])"),
    ({"backward": lambda r, c: ({"a": c},)}, "a cotangent with the structure", "{'a': *}"),
    ({"backward": lambda r, c: (mnp.stack([c, c]),)}, "cotangent 0 does not match", "f32[2]"),
    ({"backward": lambda r, c: (c.astype(int),)}, "cotangent 0 does not match", "s32[]"),
    ({"backward": lambda r, c: (c.astype(np.float16),)}, "cotangent 0 does not match", "f16[]"),
]


@pytest.mark.parametrize(
    ("rules", "problem", "given"), WRONG_RULES, ids=[str(n) for n in range(10)]
)
def test_wrong_rules(rules, problem, given):
    function = with_rules(**rules)
    gradient = mx.grad(function)
    for call, x in ((gradient, 1.0), (mx.make_graph(gradient), 1.0), (mx.vmap(gradient), X)):
        with pytest.raises(TransformError) as caught:
            call(x)
        for phrase in ("custom_vjp: the", problem, given, "test_custom_vjp.py"):
            assert phrase in str(caught.value)


def test_a_rule_whose_result_is_another():
    function = with_rules(forward=lambda x: (x[None], None))
    with pytest.raises(TransformError, match="the shapes of the function's"):
        mx.make_graph(mx.grad(lambda x: mx.jit(function)(x).sum()))(1.0)


def test_no_rule():
    @mx.custom_vjp
    def lonely(x):
        return x

    with pytest.raises(TransformError) as caught:
        lonely(1.0)
    for phrase in ("custom_vjp: 'lonely' has no derivative rule", "f.defvjp(fwd, bwd)"):
        assert phrase in str(caught.value)


def test_wrong_calls():
    function = with_rules()
    with pytest.raises(TransformError, match="missing a required argument: 'x'"):
        function()
    with pytest.raises(ShapeError, match=r"^custom_vjp: argument x of type object is not an array"):
        function(object())


def test_exceptions_in_rules_pass():
    class Boom(Exception):
        """Raised in a rule."""

    def boom(*_):
        raise Boom

    for rules in ({"forward": boom}, {"backward": boom}):
        for transform in (lambda f: f, mx.jit, mx.vmap):
            with pytest.raises(Boom):
                mx.vjp(transform(with_rules(**rules)), X)[1](X)


def test_rules_run_once():
    runs = []
    function = with_rules(
        lambda x: (runs.append("forward") or x * 2.0, None),
        lambda _, c: (runs.append("backward") or c,),
    )
    for transform in (mx.grad, mx.reference, mx.jit):
        runs.clear()
        mx.grad(function)(1.0) if transform is mx.grad else transform(mx.grad(function))(1.0)
        assert runs == ["forward", "backward"]


def test_a_rule_around_another():
    inner = mx.custom_jvp(lambda x: x * x)
    inner.defjvp(lambda primals, tangents: (inner(*primals), 7 * tangents[0]))
    outer = mx.custom_vjp(inner)
    with pytest.raises(TransformError, match="has no derivative rule"):
        outer(3.0)
    outer.defvjp(lambda x: (inner(x), None), lambda _, cotangent: (5 * cotangent,))
    assert (mx.grad(inner)(3.0), mx.grad(outer)(3.0), outer(3.0)) == (7, 5, 9)
