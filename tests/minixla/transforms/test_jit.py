"""jit: arguments of all kinds, static ones, caching, methods, nesting, in both frameworks' ways."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import inspect
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.graph import Graph
from minixla.core.shapes import Shape

X = np.arange(3, dtype=np.float32)
Point = collections.namedtuple("Point", ["x", "y"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """Weights, and something that is no array."""

    weights: object
    bias: object
    name: str = dataclasses.field(metadata={"static": True}, default="layer")


@jax.tree_util.register_pytree_node_class
class Pair:
    """A pytree of its own."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def tree_flatten(self):
        return (self.first, self.second), "pair"

    @classmethod
    def tree_unflatten(cls, aux, children):
        assert aux == "pair"
        return cls(*children)


class Counter:
    """A function that counts how often it is traced."""

    def __init__(self, fun):
        self.fun = fun
        self.traces = 0

    def __call__(self, *args, **kwargs):
        self.traces += 1
        return self.fun(*args, **kwargs)


def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6)


def arrays(tree):
    """What a function gives of NumPy's arrays, as JAX's arrays."""
    return jax.tree.map(jnp.asarray, tree)


# A jitted function is called outside, and inside our own traces, where it becomes a Call.
WAYS = {
    "outside": lambda f: f,
    "inside": lambda f: lambda *a, **k: mx.vjp(lambda: f(*a, **k))[0],
    "in numpy": lambda f: lambda *a, **k: jax.tree.map(jnp.asarray, mx.reference(f)(*a, **k)),
    "inside jit": lambda f: mx.jit(lambda *a, **k: f(*a, **k)),
}

TREES = {
    "arrays": ((X, X + 1), lambda x, y: x * y),
    "list": (([X, X + 1],), lambda pair: [pair[1], pair[0] + pair[1]]),
    "dict": (({"b": X, "a": 2.0},), lambda d: {"sum": d["a"] + d["b"], "b": d["b"]}),
    "namedtuple": ((Point(X, 1.0),), lambda p: Point(p.y, p.x * p.y)),
    "dataclass": (
        (Layer(X, np.float32(1)),),
        lambda layer: Layer(layer.bias, layer.weights, layer.name),
    ),
    "own pytree": ((Pair(X, 1.0),), lambda pair: Pair(pair.second, pair.first)),
    "None": ((X, None), lambda x, nothing: (x, nothing)),
    "nothing": ((), lambda: ()),
    "empty containers": (([], {}, X), lambda a, b, x: (a, b, x)),
    "ordered dict": (
        (collections.OrderedDict(z=X, a=X),),
        lambda d: collections.OrderedDict(z=d["a"] + 1, a=d["z"]),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TREES)
def test_trees(name, way):
    arguments, function = TREES[name]
    if way == "inside jit" and name == "nothing":
        arguments, function = (X,), lambda x: mx.jit(lambda: ())()
    expected = TREES[name][1](*TREES[name][0])
    same(WAYS[way](mx.jit(function))(*arguments), arrays(expected))


def by_all_means(a, b=2.0, *rest, c=3.0, **named):
    return a * b + c + sum(rest) + named.get("d", 0)


CALLS = [
    ((X,), {}),
    ((X, 4.0), {}),
    ((X,), {"b": 4.0}),
    ((X, 4.0, 5.0, 6.0), {}),
    ((X,), {"c": X}),
    ((X, 1.0, X), {"c": 1.0, "d": X}),
    ((), {"a": X, "b": X}),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("args", "kwargs"), CALLS, ids=str)
def test_keywords_and_defaults(args, kwargs, way):
    found = WAYS[way](mx.jit(by_all_means))(*args, **kwargs)
    same(found, arrays(by_all_means(*args, **kwargs)))


# Static arguments.


def power(x, n, mode="times"):
    assert isinstance(n, int)
    assert mode in ("times", "plus")
    return x**n if mode == "times" else x + n


STATIC = [
    ({"static_argnums": 1}, (X, 2), {}),
    ({"static_argnums": (1,)}, (X, 2), {}),
    ({"static_argnums": (1, 2)}, (X, 2, "plus"), {}),
    ({"static_argnums": -1}, (X, 2), {}),
    ({"static_argnames": "n"}, (X, 2), {}),
    ({"static_argnames": "n"}, (X,), {"n": 2}),
    ({"static_argnames": ("n", "mode")}, (X, 2), {"mode": "plus"}),
    ({"static_argnames": ["n", "mode"]}, (X,), {"mode": "plus", "n": 3}),
    ({"static_argnums": 1, "static_argnames": "mode"}, (X, 3), {"mode": "plus"}),
    ({"static_argnums": (1, 2)}, (X,), {"n": 3, "mode": "plus"}),
]


@pytest.mark.parametrize("way", ["outside", "inside"])
@pytest.mark.parametrize(("options", "args", "kwargs"), STATIC, ids=str)
def test_static_arguments(options, args, kwargs, way):
    found = WAYS[way](mx.jit(power, **options))(*args, **kwargs)
    same(found, arrays(power(*args, **kwargs)))


def test_static_arguments_of_a_graph():
    jitted = mx.jit(power, static_argnums=1, static_argnames="mode")
    assert jitted.graph(X, 2, mode="plus").input_shapes == (Shape("f32", (3,)),)
    assert jitted.graph(X, 2) == jitted.graph(X + 1, 2) != jitted.graph(X, 3)


@pytest.mark.parametrize("way", ["outside", "inside"])
def test_static_values_of_different_kinds_are_different(way):
    counter = Counter(lambda x, flag: x + (flag is True) + 10 * (type(flag) is float))
    jitted = mx.jit(counter, static_argnums=1)
    for _ in range(2):
        found = [WAYS[way](jitted)(1.0, flag).item() for flag in (1, True, 1.0)]
        assert found == [1, 2, 11]
    assert counter.traces == 3


@pytest.mark.parametrize("way", ["outside", "inside"])
@pytest.mark.parametrize("options", [{"static_argnums": 1}, {"static_argnames": "sizes"}], ids=str)
def test_static_arguments_must_be_hashable(options, way):
    jitted = mx.jit(lambda x, sizes: x.reshape(sizes), **options)
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        WAYS[way](jitted)(X, sizes=[3]) if "static_argnames" in options else WAYS[way](jitted)(
            X, [3]
        )


# Programs that were compiled are called without Python: not where a trace is to see the call.


def test_a_call_of_numbers_alone_is_seen_where_it_must_be():
    double = mx.jit(lambda x: x * 2)
    for _ in range(2):
        assert type(double(X)).__module__.startswith("jax")
    counted = mx.make_graph(lambda x: x + double(X))(X)
    assert operations(counted) == ["Constant", "Call", "Add"]
    assert operations(mx.jit(lambda x: x + double(X)).graph(X)) == operations(counted)
    assert type(mx.reference(lambda: double(X))()) is np.ndarray
    same(mx.grad(lambda x: x * double(X)[1])(np.float32(3)), np.float32(2))
    same(mx.jit(lambda x: x * double(X)[1])(np.float32(3)), np.float32(6))
    assert type(double(X)).__module__.startswith("jax")


def test_a_call_of_numbers_alone_knows_the_axes_around_it():
    numbered = mx.jit(lambda x: x + mx.axis_index("rows"))
    for _ in range(2):
        found = mx.vmap(lambda x: x * numbered(np.float32(10)), axis_name="rows")(X)
        np.testing.assert_array_equal(found, X * [10, 11, 12])
        with pytest.raises(mx.MinixlaError, match="rows"):
            numbered(np.float32(10))


def test_a_call_inside_jax_belongs_to_jax():
    double = mx.jit(lambda x: x * 2)
    double(X)
    assert "minixla_program" in str(jax.make_jaxpr(lambda x: x + double(X))(X))
    same(jax.jit(jax.vmap(lambda x: x * double(X)[1]))(X), X * 2)


def test_an_interrupted_trace_leaves_calls_as_they_were():
    def interrupted(x):
        raise KeyboardInterrupt

    double = mx.jit(Counter(lambda x: x * 2))
    with pytest.raises(KeyboardInterrupt):
        mx.jit(lambda x: mx.vmap(interrupted, axis_name="rows")(x))(X)
    for _ in range(2):
        same(double(X), X * 2)


def test_a_copy_is_the_function_itself():
    double = mx.jit(lambda x: x * 2)
    assert copy.deepcopy({"f": double})["f"] is double


# Caching.


def inside(f, *args):
    """`f` called under one of our traces."""
    return mx.vjp(lambda: f(*args))[0]


@pytest.mark.parametrize("call", [lambda f, *a: f(*a), inside], ids=["outside", "inside"])
def test_a_function_is_traced_once_for_each_shape(call):
    counter = Counter(lambda x: ops.neg(x))
    jitted = mx.jit(counter)
    for argument, traces in [
        (X, 1),
        (X + 1, 1),
        (jnp.asarray(X), 1),
        (X[:2], 2),
        (X.astype(np.int32), 3),
        (1.0, 4),
        (np.float32(1), 5),
        (2.0, 5),
        (X, 5),
    ]:
        call(jitted, argument)
        assert counter.traces == traces, f"after {argument!r}"


def test_the_structure_counts():
    counter = Counter(lambda tree: jax.tree.leaves(tree)[0])
    jitted = mx.jit(counter)
    for tree, traces in [([X], 1), ((X,), 2), ({"a": X}, 3), ({"b": X}, 4), ([X], 4)]:
        inside(jitted, tree)
        assert counter.traces == traces


def test_the_64_bit_mode_counts():
    jitted = mx.jit(lambda x: x + np.float64(0.1))
    assert inside(jitted, np.float32(1)).dtype == np.float32
    with jax.enable_x64(True):
        assert inside(jitted, np.float32(1)).dtype == np.float64
    assert inside(jitted, np.float32(1)).dtype == np.float32


def test_what_is_read_from_outside_is_read_when_traced():
    scale = np.float32(2)
    holder = [scale]
    jitted = mx.jit(lambda x: x * holder[0])
    assert inside(jitted, 1.0) == jitted(1.0) == 2
    holder[0] = np.float32(3)
    assert inside(jitted, 1.0) == jitted(1.0) == 2


def test_a_closure_over_a_traced_value_is_traced_each_time():
    def outer(w):
        return mx.jit(lambda x: x * w)(2.0)

    assert mx.grad(outer)(3.0) == 2
    assert mx.reference(mx.grad(outer))(5.0) == 2
    np.testing.assert_array_equal(mx.vmap(outer)(X), X * 2)
    holder = []
    jitted = mx.jit(lambda x: x * holder[0])

    def differentiated(w):
        holder[:] = [w]
        return jitted(2.0)

    assert [mx.grad(differentiated)(w) for w in (3.0, 4.0)] == [2, 2]
    assert [mx.vjp(differentiated, w)[0] for w in (3.0, 4.0)] == [6, 8]


# Inside our traces: one Call.


def operations(graph):
    return [step.op.name for step in graph.instructions]


def test_a_nested_jit_is_a_call():
    nested = mx.jit(lambda x: ops.neg(ops.tanh(x)))
    graph = mx.make_graph(lambda x: nested(nested(x)))(X)
    assert operations(graph) == ["Call", "Call"]
    first, second = graph.instructions
    assert first.op.computation is second.op.computation
    assert operations(first.op.computation) == ["Tanh", "Neg"]


def test_the_derivative_of_a_nested_jit_is_two_calls():
    nested = mx.jit(lambda x: ops.tanh(x))
    graph = mx.make_graph(lambda x: mx.vjp(nested, x)[1](x))(X)
    assert operations(graph.pruned()) == ["Call", "Call"]


def test_nested_results():
    large = np.ones(2000, np.float32)
    nested = mx.jit(
        lambda x: {"input": x, "twice": [x, x], "constant": 2.0, "large": large, "none": None}
    )
    found = mx.reference(lambda x: nested(x))(X)
    assert found["none"] is None
    np.testing.assert_array_equal(found["twice"][1], X)
    assert found["constant"] == 2
    np.testing.assert_array_equal(found["large"], large)


def test_recursion():
    @functools.partial(mx.jit, static_argnums=1)
    def down(x, n):
        return x if n == 0 else down(x * n, n - 1)

    assert down(1.0, 5) == 120
    assert inside(down, 1.0, 5) == 120
    assert mx.grad(lambda x: down(x, 5))(1.0) == 120


# What is jitted.


class Model:
    scale = 3.0

    def method(self, x):
        return x * self.scale

    @functools.partial(mx.jit, static_argnums=0)
    def decorated(self, x):
        return x * self.scale

    def __call__(self, x):
        return x * self.scale


FUNCTIONS = {
    "function": lambda x: x * 3,
    "partial": functools.partial(lambda k, x: x * k, 3),
    "partial, keyword": functools.partial(lambda x, k: x * k, k=3),
    "bound method": Model().method,
    "callable object": Model(),
    "jitted": mx.jit(lambda x: x * 3),
    "vmapped": mx.vmap(lambda x: x * 3),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_anything_callable(name, way):
    np.testing.assert_array_equal(WAYS[way](mx.jit(FUNCTIONS[name]))(X), X * 3)


def test_a_decorated_method():
    np.testing.assert_array_equal(Model().decorated(X), X * 3)
    np.testing.assert_array_equal(inside(Model().decorated, X), X * 3)


def test_as_a_decorator():
    @mx.jit
    def plain(x):
        """Documented."""
        return x

    @mx.jit(static_argnums=1)
    def with_options(x, n):
        return x * n

    assert (plain.__name__, plain.__doc__) == ("plain", "Documented.")
    assert (plain.lower.__name__, plain.graph.__name__) == ("lower", "graph")
    assert list(inspect.signature(with_options).parameters) == ["x", "n"]
    assert with_options(2.0, 3) == 6
    assert plain.__wrapped__(5) == 5


# Methods.


def test_methods_of_jax():
    jitted = mx.jit(lambda x: {"y": ops.tanh(x)})
    lowered = jitted.lower(X)
    assert "stablehlo.tanh" in lowered.as_text()
    np.testing.assert_allclose(lowered.compile()(X)["y"], np.tanh(X), rtol=1e-6)
    assert jitted.eval_shape(X)["y"].shape == (3,)
    assert "minixla_program" in str(jitted.trace(X).jaxpr)
    jitted(X)
    jitted.clear_cache()


def test_methods_are_those_of_the_jitted_function_alone():
    """Once `mx.jit(mx.jit(f), in_shardings=...).lower` was that of the inner function."""
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.NamedSharding(mesh, jax.P("i"))
    inner = cast(Any, mx.jit(lambda x: x * 2))
    inner.note = "the user's"
    outer = cast(Any, mx.jit(inner, in_shardings=sharding, out_shardings=sharding))
    lowered = outer.lower(np.ones(4, np.float32))
    assert lowered.compile().input_shardings[0] == (sharding,)
    assert outer.note == "the user's"
    for transformed in (mx.vmap(inner), mx.grad(inner), mx.checkpoint(inner)):
        assert not hasattr(transformed, "lower")
        assert not hasattr(transformed, "graph")


def test_shapes_instead_of_arrays():
    jitted = mx.jit(lambda x: ops.tanh(x))
    shape = jax.ShapeDtypeStruct((2, 3), jnp.bfloat16)
    assert jitted.lower(shape).out_info.shape == (2, 3)
    assert jitted.graph(shape).output_shapes == (Shape("bf16", (2, 3)),)


def test_the_graph():
    jitted = mx.jit(lambda x, *, y: (ops.add(x, y), None))
    graph = jitted.graph(X, y=X)
    assert isinstance(graph, Graph)
    assert operations(graph) == ["Add"]
    assert graph == mx.make_graph(lambda x, y: ops.add(x, y))(X, X)


def test_donated_arguments():
    jitted = mx.jit(lambda x, y: (x + 1, y), donate_argnums=0)
    x, y = jnp.arange(3.0), jnp.arange(3.0)
    np.testing.assert_array_equal(jitted(x, y)[0], X + 1)
    assert x.is_deleted()
    assert not y.is_deleted()


def test_errors_about_donated_arrays_name_the_arguments():
    jitted = mx.jit(lambda p, q: (p, q), donate_argnums=(0, 1))
    array = jnp.ones(3)
    with pytest.raises(RuntimeError, match="same buffer twice") as caught:
        jitted({"w": array}, {"v": array})
    note = (
        "jit: argument p['w'] and argument q['v'] are the same array. Copy it, or donate it once."
    )
    assert note in caught.value.__notes__
    array.delete()
    with pytest.raises(RuntimeError, match="deleted") as caught:
        jitted({"w": array}, {"v": jnp.ones(3)})
    note = "jit: argument p['w'] is deleted. A donated array cannot be used again."
    assert note in caught.value.__notes__


def test_shardings():
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.NamedSharding(mesh, jax.P("i"))
    found = mx.jit(lambda x: x * 2, out_shardings=sharding)(np.arange(4.0, dtype=np.float32))
    assert found.sharding == sharding
    np.testing.assert_array_equal(found, [0, 2, 4, 6])


def test_integers_booleans_and_other_types_pass():
    dtypes = np.bool_, np.uint8, np.int8, jnp.bfloat16, np.float16, np.complex64, jnp.int4
    found = mx.jit(lambda *xs: xs)(*[np.ones(3, dtype) for dtype in dtypes])
    for each, dtype in zip(found, dtypes, strict=True):
        assert each.dtype == dtype


def test_exceptions_pass():
    class Boom(Exception):
        """Raised while tracing."""

    @mx.jit
    def function(x):
        if x.shape == (3,):
            raise Boom
        return x

    for call in (function, lambda x: inside(function, x)):
        with pytest.raises(Boom):
            call(X)
        assert call(np.float32(2)) == 2


def test_50_arguments_of_each_kind():
    def many(*args, **kwargs):
        return sum(args) + mnp.stack(list(kwargs.values())).sum()

    args = [np.float32(n) for n in range(50)]
    kwargs = {f"k{n}": np.float32(n) for n in range(50)}
    assert mx.jit(many)(*args, **kwargs) == 2 * sum(range(50))
