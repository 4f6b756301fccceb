"""grad, value_and_grad, vjp and jvp: arguments, results, types, auxiliary data, errors."""

from __future__ import annotations

import collections
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import DerivativeError, ShapeError, TransformError
from tests.harness import by_jax, compiled_rows, compiled_together

X = np.array([0.3, -1.2, 0.7], np.float32)
N = np.arange(3, dtype=np.int32)
FLOAT0 = jax.dtypes.float0
Point = collections.namedtuple("Point", ["x", "y"])


def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if isinstance(other, float):  # where JAX passes a Python number through
            other = jnp.asarray(other)
        assert one.dtype == np.asarray(other).dtype
        assert np.shape(one) == np.shape(other)
        if np.asarray(one).dtype != FLOAT0:
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)


def product(x, y, z=2.0):
    return (x * y * z).sum()


# Weak types.

WEAK = {
    "grad": lambda m, n, s: m.grad(n.sin)(s),
    "grad of a constant": lambda m, n, s: m.grad(lambda x: 2.0)(s),
    "value": lambda m, n, s: m.value_and_grad(lambda x: n.sin(x) * 2)(s),
    "grad of grad": lambda m, n, s: m.grad(m.grad(n.sin))(s),
    "both arguments": lambda m, n, s: m.grad(lambda x, y: x * y, (0, 1))(s, np.float32(2)),
    "vjp": lambda m, n, s: m.vjp(n.sin, s)[1](s),
    "jvp": lambda m, n, s: m.jvp(lambda x: (n.sin(x), n.ones(())), (s,), (s,))[0],
    "tangents": lambda m, n, s: m.jvp(lambda x: (n.sin(x), 1.0), (s,), (s,))[1],
    "linearize": lambda m, n, s: m.linearize(n.sin, s)[1](s),
    "jacfwd": lambda m, n, s: m.jacfwd(n.sin)(s),
    "jacrev": lambda m, n, s: m.jacrev(n.sin)(s),
    "vmap": lambda m, n, s: m.vmap(lambda x: (s * x, 1.0, True))(np.arange(2)),
    "grad in vmap": lambda m, n, s: m.grad(lambda x: m.vmap(lambda y: x * y)(n.ones(2)).sum())(s),
}


@pytest.mark.parametrize("outer", ["alone", "jit", "an array"])
@pytest.mark.parametrize("name", WEAK)
def test_derivatives_of_python_numbers_stay_weak(name, outer):
    def found(m, n):
        types = []

        def call(s):
            results = jax.tree.leaves(WEAK[name](m, n, s))
            types.extend([(x.dtype, x.weak_type) for x in results])
            return s

        def alone():
            return call(0.5 if outer == "alone" else jnp.asarray(0.5))

        # Tracing tells the types; only ours outside of jit has those of results.
        if outer == "jit":
            m.jit(call).trace(0.5)
        elif m is jax:
            jax.eval_shape(alone)
        else:
            alone()
        return types

    assert found(mx, mnp) == found(jax, jnp)


def test_a_weak_derivative_leaves_the_value_strong():
    """The gradient of x * y by x is y itself, whose type must not change with it."""

    def function(x, y):
        gradient = mx.grad(lambda x: x * y)(x)
        return gradient * np.float16(1), y * np.float16(1)

    weak, strong = mx.jit(function)(2.0, np.float32(3))
    assert (weak.dtype, strong.dtype) == (np.float16, np.float32)


# Which arguments.

ARGNUMS = [0, 1, 2, -1, -3, (0,), (1, 0), (0, 2), (-1, 0), [0, 1], np.int64(1), (np.int8(2), 0)]


@functools.cache
def expected_gradients():
    """JAX's gradients of the product by one or several arguments."""
    functions = {
        str(argnums): jax.grad(
            product, argnums if not isinstance(argnums, np.integer) else int(argnums)
        )
        for argnums in ARGNUMS
    }
    return compiled_together(functions, X, X + 1, 3.0, jit=jax.jit)


@pytest.mark.parametrize("argnums", ARGNUMS, ids=str)
def test_argnums(argnums):
    same(mx.grad(product, argnums)(X, X + 1, 3.0), expected_gradients()(str(argnums)))


WRONG_ARGNUMS = [
    (3, "argnums lists argument 3, but there are 3 positional arguments"),
    (-4, "argnums lists argument -4"),
    ((0, 5), "argnums lists argument 5"),
    ((0, 0), "argnums lists argument 0 twice"),
    ((0, -3), "argnums lists argument 0 twice"),
]


@pytest.mark.parametrize(("argnums", "problem"), WRONG_ARGNUMS, ids=str)
def test_wrong_argnums(argnums, problem):
    with pytest.raises(TransformError) as caught:
        mx.grad(product, argnums)(X, X, 1.0)
    for phrase in (f"grad: {problem}", "argnums = ", "test_gradients.py"):
        assert phrase in str(caught.value)


def test_no_number_at_all():
    with pytest.raises(TypeError):
        mx.grad(product, "x")(X, X)
    with pytest.raises(TransformError, match="Only positional arguments are supported"):
        mx.grad(product)(x=X, y=X)


def test_keywords_are_not_differentiated():
    same(mx.grad(product)(X, y=X, z=4.0), 4 * X)


# Values and types.

SCALAR_FUNCTIONS = {
    "float": (lambda x: x * x, 3.0),
    "numpy scalar": (lambda x: x * x, np.float32(3)),
    "wide numpy scalar": (lambda x: x * x, np.float64(3)),
    "bfloat16": (lambda x: x * x, jnp.bfloat16(3)),
    "float16 array": (lambda x: (x * x).sum(), np.ones(3, np.float16)),
    "unused": (lambda x: 3.0, 1.0),
    "unused array": (lambda x: 3.0, X),
    "empty": (lambda x: (x * x).sum(), np.zeros((0, 3), np.float32)),
    "constant of the trace": (lambda x: np.float32(2), X),
    "through integers": (lambda x: (x * x.astype(int)).sum() + x.astype(int).sum(), X * 3),
    "only integers": (lambda x: x.astype(int).sum().astype(float), X),
    "through comparison": (lambda x: (x * (x > 0)).sum(), X),
    "float to float": (lambda x: x.astype(jnp.bfloat16).sum().astype(np.float32), X),
    "several uses": (lambda x: (x * x + x * x * x).sum() + x[0] * x[1], X),
    "itself": (lambda x: x, 2.0),
    "complex inside": (lambda x: abs(x + 1j * x), 2.0),
}


@functools.cache
def values_and_gradients(m):
    """Those of all functions, in one program of ours or JAX's."""
    rows = {name: (m.value_and_grad(f), (x,)) for name, (f, x) in SCALAR_FUNCTIONS.items()}
    return compiled_rows(rows, m.jit)


@pytest.mark.parametrize("name", SCALAR_FUNCTIONS)
def test_value_and_gradient(name):
    function, x = SCALAR_FUNCTIONS[name]
    expected = values_and_gradients(jax)(name)
    same(mx.value_and_grad(function)(x), expected)
    with_numpy = mx.reference(mx.value_and_grad(function))(x)
    same(with_numpy, expected)
    same(values_and_gradients(mx)(name), expected)


def test_results_are_arrays_of_jax():
    for value in jax.tree.leaves(mx.value_and_grad(lambda t: t["a"] * 2.0)({"a": 1.0, "b": X})):
        assert isinstance(value, jax.Array)


def test_in_64_bits():
    with jax.enable_x64(True):
        found = mx.jit(mx.grad(lambda x: x**3))(2.0)
        assert (found.dtype, found) == (np.float64, 12)


TREES = [
    {"w": X, "b": [1.0, X]},
    Point(X, {"z": 2.0}),
    [X, None, (1.0,)],
    (),
    None,
]


def tree_loss(numpy):
    def loss(tree, c):
        leaves = map(numpy.asarray, jax.tree.leaves(tree))
        return sum((leaf * leaf).sum() * c for leaf in leaves) + c

    return loss


def tree_gradients(m, numpy):
    """The gradients by the tree, by both and by the factor."""
    return [m.grad(tree_loss(numpy), argnums) for argnums in (0, (0, 1), 1)]


@functools.cache
def expected_of_trees():
    gradients = tree_gradients(jax, jnp)
    return by_jax(lambda trees: [[each(tree, 3.0) for each in gradients] for tree in trees], TREES)


@pytest.mark.parametrize("at", range(len(TREES)), ids=lambda at: type(TREES[at]).__name__)
def test_trees(at):
    for gradient, expected in zip(tree_gradients(mx, mnp), expected_of_trees()[at], strict=True):
        same(gradient(TREES[at], 3.0), expected)


# Integers.


def test_integers_are_refused():
    for value in (2, N, True, np.uint8(1)):
        with pytest.raises(DerivativeError) as caught:
            mx.grad(lambda x: x * 1.0)(value)
        for phrase in ("has no gradient", "1.0, not 1", "allow_int=True", "test_gradients.py"):
            assert phrase in str(caught.value)


def test_integers_are_allowed():
    def loss(x, n):
        return (x * n).sum()

    ours = mx.grad(loss, (0, 1), allow_int=True)
    same(ours(X, N), jax.grad(loss, (0, 1), allow_int=True)(X, N))
    gradient = mx.grad(lambda n: n.sum() * 1.0, allow_int=True)(N)
    assert gradient.dtype == FLOAT0
    assert gradient.shape == (3,)
    assert mx.reference(ours)(X, N)[1].dtype == FLOAT0


# Complex numbers.


def test_holomorphic():
    z = np.complex64(1 + 2j)

    def gradients(m):
        return lambda z: (
            m.grad(lambda z: z * z, holomorphic=True)(z),
            m.grad(lambda z: abs(z) ** 2)(z),
        )

    same(gradients(mx)(z), by_jax(gradients(jax), z))


WRONG_TYPES = [
    (lambda: mx.grad(lambda z: z * z)(1j), "the result of type c64 has no gradient."),
    (
        lambda: mx.grad(lambda z: abs(z), holomorphic=True)(1j),
        "the result of type f32 has no gradient with holomorphic=True.",
    ),
    (
        lambda: mx.grad(lambda x: x, holomorphic=True)(1.0),
        "argument x of type f32 has no gradient with holomorphic=True.",
    ),
    (lambda: mx.grad(lambda x: 3)(1.0), "the result of type s32 has no gradient."),
    (lambda: mx.grad(lambda x: x > 0)(1.0), "the result of type pred has no gradient."),
]


@pytest.mark.parametrize(("call", "problem"), WRONG_TYPES, ids=[row[1] for row in WRONG_TYPES])
def test_wrong_types(call, problem):
    with pytest.raises(DerivativeError) as caught:
        call()
    for phrase in (problem, "test_gradients.py"):
        assert phrase in str(caught.value)


def test_derivatives_with_respect_to_tuples():
    def square(pair):
        return ops.get_tuple_element(pair, 0) ** 2

    point, direction = ops.tuple([X, N]), ops.tuple([2 * X, N])
    (found,) = mx.vjp(square, point)[1](np.ones_like(X))
    same(found.elements, (2 * X, np.zeros(3, FLOAT0)))
    results = mx.jvp(square, (point,), (direction,))
    same(results, (X * X, 4 * X * X))
    same(mx.linearize(square, point)[1](direction), results[1])
    _, pull = mx.vjp(lambda x: ops.tuple([x * x, x]), X)
    same(pull(ops.tuple([X, X])), (2 * X * X + X,))


WRONG_RESULTS = [
    (lambda x: x, "it returned f32[3]"),
    (lambda x: (x.sum(), x.sum()), "[f32[], f32[]]"),
    (lambda x: [x.sum()], "[f32[]]"),
    (lambda x: {"loss": x.sum()}, "'loss'"),
    (lambda x: None, "None"),
    (lambda x: x[None][:0], "it returned f32[0,3]"),
    (lambda x: ops.tuple([x.sum()]), "(f32[])"),
]


@pytest.mark.parametrize(
    ("function", "given"), WRONG_RESULTS, ids=[row[1] for row in WRONG_RESULTS]
)
def test_the_result_must_be_one_scalar(function, given):
    with pytest.raises(TransformError) as caught:
        mx.make_graph(mx.grad(function))(X)
    for phrase in ("grad: the function must return one scalar", given, ".sum()", "mx.vjp"):
        assert phrase in str(caught.value)


@pytest.mark.parametrize("value", ["text", object(), [X, "text"]], ids=["str", "object", "list"])
def test_what_is_no_array(value):
    for call in (
        lambda: mx.grad(lambda x: 1.0)(value),
        lambda: mx.vjp(lambda x: 1.0, value),
        lambda: mx.jvp(lambda x: 1.0, (value,), (value,)),
        lambda: mx.vjp(lambda x: value, X),
        lambda: mx.jvp(lambda x: value, (X,), (X,)),
    ):
        place = r"(argument x|the result)" + (r"\[1\]" if isinstance(value, list) else "")
        with pytest.raises(ShapeError, match=rf"^(grad|vjp|jvp): {place} of type (str|object) is"):
            call()


# Auxiliary data.


def with_aux(x):
    return (x * x).sum(), {"twice": 2 * x, "word": "text", "n": 3, "x": x, "none": None}


def test_auxiliary_data():
    (value, aux), gradient = mx.value_and_grad(with_aux, has_aux=True)(X)
    same((value, gradient), ((X * X).sum(), 2 * X))
    assert (aux["word"], aux["n"], aux["none"]) == ("text", 3, None)
    same((aux["twice"], aux["x"]), (2 * X, X))
    assert isinstance(aux["twice"], jax.Array)
    gradient, aux = mx.grad(with_aux, has_aux=True)(X)
    same((gradient, aux["twice"]), (2 * X, 2 * X))
    result, pullback, aux = mx.vjp(with_aux, X, has_aux=True)
    same((result, pullback(np.float32(1))[0], aux["x"]), ((X * X).sum(), 2 * X, X))
    result, tangent, aux = mx.jvp(with_aux, (X,), (X,), has_aux=True)
    same((result, tangent, aux["x"]), ((X * X).sum(), (2 * X * X).sum(), X))


def test_auxiliary_data_of_nested_derivatives():
    def inner(x):
        gradient, aux = mx.grad(lambda y: (y**3, 5 * y), has_aux=True)(x)
        return gradient, aux

    gradient, aux = mx.grad(inner, has_aux=True)(2.0)
    assert (gradient, aux) == (12, 10)
    assert mx.jvp(inner, (2.0,), (1.0,), has_aux=True)[1:] == (12, 10)


@pytest.mark.parametrize("result", [1.0, (1.0,), (1.0, 2.0, 3.0), None], ids=str)
def test_auxiliary_data_needs_a_pair(result):
    for call in (
        lambda: mx.grad(lambda x: result, has_aux=True)(1.0),
        lambda: mx.vjp(lambda x: result, 1.0, has_aux=True),
        lambda: mx.jvp(lambda x: result, (1.0,), (1.0,), has_aux=True),
    ):
        with pytest.raises(TransformError, match="must return a pair, since has_aux=True"):
            call()


# vjp and jvp.


def several(x, n, tree):
    return {"a": x * tree["w"], "n": n + 1, "p": Point(tree["w"].sum(), 4.0)}


TREE = {"w": X + 2}


def test_pullbacks_of_trees():
    ours, theirs = mx.vjp(several, X, N, TREE), jax.vjp(several, X, N, TREE)
    same(ours[0], theirs[0])
    cotangent = {"a": X, "n": np.zeros(3, FLOAT0), "p": Point(np.float32(2), np.float32(1))}
    same(ours[1](cotangent), theirs[1](cotangent))
    # A pullback may be called again.
    same(ours[1](cotangent), theirs[1](cotangent))


def test_tangents_of_trees():
    tangents = (X, np.zeros(3, FLOAT0), {"w": X * 2})
    same(mx.jvp(several, (X, N, TREE), tangents), jax.jvp(several, (X, N, TREE), tangents))
    found = mx.jvp(several, [X, N, TREE], list(tangents))
    same(found, jax.jvp(several, (X, N, TREE), tangents))


def test_no_arguments():
    value, pullback = mx.vjp(lambda: X)
    same((value, pullback(X)), (X, ()))
    same(mx.jvp(lambda: X, (), ()), (X, X * 0))


def test_results_without_values():
    value, pullback = mx.vjp(lambda x: None, X)
    assert value is None
    same(pullback(None), (X * 0,))


WRONG_COTANGENTS = [
    ((X,), "the cotangent must have the structure of the result", "wanted"),
    (None, "the cotangent must have the structure of the result", ""),
    (X[:2], "the cotangent of the result does not match it", "It must be f32[3]"),
    (N, "the cotangent of the result does not match it", "cotangent: s32[3]"),
    (np.zeros(3, FLOAT0), "the cotangent of the result does not match it", "float0[3]"),
    (1.0, "the cotangent of the result does not match it", "cotangent: f32[]"),
]


@pytest.mark.parametrize(
    ("cotangent", "problem", "given"), WRONG_COTANGENTS, ids=[str(n) for n in range(6)]
)
def test_wrong_cotangents(cotangent, problem, given):
    _, pullback = mx.vjp(ops.tanh, X)
    with pytest.raises(TransformError) as caught:
        pullback(cotangent)
    for phrase in (
        f"vjp: {problem}",
        given if given != "wanted" else "result",
        "test_gradients.py",
    ):
        assert phrase in str(caught.value)
    same(pullback(X)[0], X * (1 - np.tanh(X) ** 2))


def test_cotangents_of_integers_are_zero():
    _, pullback = mx.vjp(lambda x, n: n, X, N)
    for cotangent in (np.zeros(3, FLOAT0), N):
        same(pullback(cotangent)[0], X * 0)
    with pytest.raises(TransformError, match="float0, since integers have no derivative"):
        pullback(N[:2])


WRONG_TANGENTS = [
    ((X,), (X, X), "the tangents must have the structure of the primals"),
    (({"a": X},), ({"b": X},), "the tangents must have the structure of the primals"),
    ((X,), (X[:2],), "the tangent of argument xs[0] does not match it"),
    ((X,), (N,), "the tangent of argument xs[0] does not match it"),
    ((X, N), (X, N), "the tangent of argument xs[1] does not match it"),
    ((X,), (np.zeros(3, FLOAT0),), "the tangent of argument xs[0] does not match it"),
    (X, X, "primals and tangents must be tuples or lists"),
    ((X,), X, "primals and tangents must be tuples or lists"),
]


@pytest.mark.parametrize(
    ("primals", "tangents", "problem"), WRONG_TANGENTS, ids=[str(n) for n in range(8)]
)
def test_wrong_tangents(primals, tangents, problem):
    with pytest.raises(TransformError) as caught:
        mx.jvp(lambda *xs: xs[0], primals, tangents)
    for phrase in (f"jvp: {problem}", "test_gradients.py"):
        assert phrase in str(caught.value)


def test_tangents_are_arrays_of_jax():
    value, tangent = mx.jvp(lambda x: (x * 2.0, x + 1.0, 3.0), (1.0,), (1.0,))
    for each in (*value, *tangent):
        assert isinstance(each, jax.Array)


# The pullback.


def failing(how_often):
    calls = []

    @mx.custom_vjp
    def function(x):
        return x * 1.0

    def backward(_, cotangent):
        calls.append(cotangent)
        if len(calls) <= how_often:
            raise RuntimeError("in the middle of the walk")
        return (cotangent,)

    function.defvjp(lambda x: (x * 1.0, None), backward)
    return function


def test_an_exception_in_a_pullback_leaves_nothing_behind():
    function = failing(1)
    _, pullback = mx.vjp(lambda x: function(x * 2.0) + x * 3.0, X)
    with pytest.raises(RuntimeError, match="in the middle of the walk"):
        pullback(X)
    same(pullback(X)[0], X * 5)
    same(pullback(X * 0)[0], X * 0)


def test_a_pullback_inside_other_transformations():
    _, pullback = mx.vjp(lambda x: ops.sin(x) * x, X)
    rows = np.stack([X, 2 * X])

    def uses(m, pullback):
        return [
            m.vmap(pullback)(rows),
            m.jit(pullback)(X),
            m.jvp(pullback, (X,), (X,)),
            m.grad(lambda c: pullback(c)[0].sum())(X),
        ]

    expected = by_jax(lambda x: uses(jax, jax.vjp(lambda x: jnp.sin(x) * x, x)[1]), X)
    same(uses(mx, pullback), expected)


def test_a_function_is_run_once():
    runs = []

    def function(x):
        runs.append(x)
        return x * x

    mx.value_and_grad(function)(2.0)
    assert len(runs) == 1
    _, pullback = mx.vjp(function, 2.0)
    pullback(1.0)
    pullback(2.0)
    assert len(runs) == 2


def test_no_zeros_are_made():
    graph = mx.make_graph(lambda x, y: mx.vjp(lambda x: [x, ops.neg(y)], x)[1]([x, y]))(X, X)
    assert [step.op.name for step in graph.pruned().instructions] == []


def test_names_and_documentation():
    for wrapped in (mx.grad(product), mx.value_and_grad(product), mx.vmap(product)):
        assert wrapped.__name__ == "product"
        assert inspect.unwrap(wrapped) is product
