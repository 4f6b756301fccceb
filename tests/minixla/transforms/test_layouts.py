"""in_shardings and out_shardings of a jit inside other transformations: kept, or refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import minixla as mx
from minixla.core.errors import TransformError
from minixla.core.tracing import evaluate_graph
from tests.harness import by_jax

MESH = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
PARTS = NamedSharding(MESH, P("i"))
X = np.arange(8, dtype=np.float32)
ROWS = np.stack([X, 2 * X])


laid_out = mx.jit(lambda x: mx.numpy.sin(x) * 2, in_shardings=PARTS, out_shardings=PARTS)


on_device = mx.jit(lambda x: x * 2, out_shardings=SingleDeviceSharding(jax.devices()[2]))


def total(x):
    return laid_out(x).sum()


# Who calls it, the argument, and the specification of the result's layout.
CALLERS = {
    "jit": (mx.jit(lambda x: laid_out(x) + 1), X, P("i")),
    "grad": (mx.grad(total), X, P("i")),
    "grad in jit": (mx.jit(mx.grad(total)), X, P("i")),
    "jvp": (lambda x: mx.jvp(laid_out, (x,), (x,))[1], X, P("i")),
    "vmap": (mx.vmap(laid_out), ROWS, P(None, "i")),
    "vmap over the last axis, in jit": (mx.jit(mx.vmap(laid_out, 1, 1)), ROWS.T, P("i")),
    "vmap of grad": (mx.vmap(mx.grad(total)), ROWS, P(None, "i")),
    "loop": (mx.jit(lambda x: mx.fori_loop(0, 1, lambda _, c: laid_out(c), x)), X, P("i")),
    "scan": (mx.jit(lambda x: mx.scan(lambda c, _: (laid_out(c), 0), x, None, 1)[0]), X, P("i")),
    "checkpoint": (mx.jit(mx.grad(lambda x: mx.checkpoint(laid_out)(x).sum())), X, P("i")),
    "jax.jit": (jax.jit(lambda x: laid_out(x) + 1), X, P("i")),
    "jax.grad": (jax.grad(total), X, P("i")),
    "jax.vmap": (jax.vmap(laid_out), ROWS, P(None, "i")),
    "jax.grad in jit": (jax.jit(jax.grad(mx.jit(total))), X, P("i")),
}


def in_jax(name):
    """The same by JAX, without layouts."""
    value = lambda x: jnp.sin(x) * 2  # noqa: E731
    slope = lambda x: jnp.cos(x) * 2  # noqa: E731
    if name in ("jit", "jax.jit"):
        return lambda x: value(x) + 1
    if name == "jvp":
        return lambda x: slope(x) * x
    if name in ("loop", "scan"):
        return value
    return value if "vmap" in name and "grad" not in name else slope


@pytest.mark.parametrize("name", CALLERS)
def test_the_layout_stays(name):
    function, x, spec = CALLERS[name]
    found = function(x)
    assert found.sharding.is_equivalent_to(NamedSharding(MESH, spec), found.ndim)
    assert {shard.data.size for shard in found.addressable_shards} == {x.size // 4}
    np.testing.assert_allclose(found, by_jax(in_jax(name), x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in CALLERS if not name.startswith("jax")])
def test_in_numpy_it_changes_nothing(name):
    function, x, _ = CALLERS[name]
    np.testing.assert_allclose(mx.reference(function)(x), in_jax(name)(x), rtol=1e-5, atol=1e-6)


def test_alone_in_numpy():
    graph = laid_out.graph(X)
    found = mx.reference(lambda x: evaluate_graph(graph, [x])[0])(X)
    np.testing.assert_allclose(found, 2 * np.sin(X), rtol=1e-6)


def test_it_stands_in_the_graph_and_the_text():
    order = Mesh(np.array(jax.devices()[:4])[[2, 0, 3, 1]].reshape(2, 2), ("a", "b"))
    for sharding, text in [
        (PARTS, '<@mesh, [{"i"}, {}]>'),
        (NamedSharding(MESH, P(None, "i")), '<@mesh, [{}, {"i"}]>'),
        (NamedSharding(order, P(("b", "a"), None)), '<@mesh, [{"b", "a"}, {}]>'),
        (NamedSharding(AbstractMesh((2, 2), ("a", "b")), P("a")), '<@mesh, [{"a"}, {}]>'),
        (SingleDeviceSharding(jax.devices()[2]), "<mesh<[], device_ids=[2]>, []>"),
    ]:
        inner = mx.jit(lambda x: x * 2, out_shardings=sharding)
        graph = mx.make_graph(lambda x, inner=inner: inner(x) + 1)(np.ones((4, 4), np.float32))
        line = f"sdy.sharding_constraint %1 {text} : tensor<4x4xf32>"
        assert line in graph.stablehlo()
        shown = text.replace('"', "'")
        assert f'sharding="{shown}"' in str(graph)
        assert text in inner.graph(np.ones((4, 4), np.float32)).stablehlo()


def test_weakly_typed_results_stay_so():
    inner = mx.jit(lambda x: x * 2, out_shardings=NamedSharding(MESH, P()))
    assert mx.jit(lambda x: inner(x) + 1)(2.0).weak_type
    assert not mx.jit(lambda x: inner(x) + 1)(np.float32(2)).weak_type


def test_the_layout_of_a_batch_is_open_where_the_batch_is():
    graph = mx.make_graph(mx.vmap(laid_out, 1))(ROWS.T)
    assert '[{"i"}, {?}]' in graph.stablehlo()


def test_options_are_prefixes_of_the_arguments_that_are_not_static():
    inner = mx.jit(
        lambda tree, n, y: {"a": tree["w"] * n, "b": y},
        static_argnums=1,
        in_shardings=(None, PARTS),
        out_shardings={"a": PARTS, "b": None},
    )
    found = mx.jit(lambda x: inner({"w": x}, 3, x))(X)
    np.testing.assert_array_equal(found["a"], 3 * X)
    assert found["a"].sharding.is_equivalent_to(PARTS, 1)
    text = inner.graph({"w": X}, 3, X).stablehlo()
    assert text.count("sdy.sharding =") == 2


def test_a_specification_takes_the_mesh_in_force():
    inner = mx.jit(lambda x: x * 2, out_shardings=P("i"))
    with jax.set_mesh(MESH):
        found = mx.jit(lambda x: inner(x))(X)
    assert found.sharding.is_equivalent_to(PARTS, 1)
    with pytest.raises(TransformError, match="there is no mesh of devices"):
        mx.jit(lambda x: inner(x))(X)


@pytest.mark.filterwarnings("ignore:backend and device argument on jit is deprecated")
def test_device_and_backend():
    for options, device in [({"device": jax.devices()[2]}, 2), ({"backend": "cpu"}, 0)]:
        for jit in (jax.jit, mx.jit):
            inner = jit(lambda x: x * 2, **options)
            found = jit(lambda x, inner=inner: inner(x) + 1)(X)
            assert {each.id for each in found.devices()} == {device}
            np.testing.assert_array_equal(found, 2 * X + 1)


def test_donation_inside_a_program_changes_nothing_as_in_jax():
    for jit, grad in ((jax.jit, jax.grad), (mx.jit, mx.grad)):
        for options in ({"donate_argnums": 0}, {"donate_argnames": "x"}):
            inner = jit(lambda x: x * 2, **options)
            given = jnp.asarray(X)
            np.testing.assert_array_equal(jit(lambda x, f=inner: f(x) + x)(given), 3 * X)
            slope = jit(grad(lambda x, f=inner: (f(x) + x).sum()))(given)
            np.testing.assert_array_equal(slope, np.full(8, 3))
            assert not given.is_deleted()


# A function that is refused, and what the message says.
REFUSED = {
    "on one device, in a loop": (
        lambda x: mx.fori_loop(0, 2, lambda _, c: on_device(c), x),
        ["a loop or branch cannot hold", "the jit around the loop"],
    ),
    "another structure": (
        lambda x: mx.jit(lambda x: x, out_shardings=(PARTS, PARTS))(x),
        ["out_shardings does not fit the structure", "PyTreeDef(*)"],
    ),
    "by name": (
        lambda x: laid_out(x=x),
        ["in_shardings and arguments by name", "by name: x", "by position"],
    ),
    "something else": (
        lambda x: mx.jit(lambda x: x, out_shardings=Format(Layout((0,)), PARTS))(x),
        ["out_shardings holds Format", "jax.sharding.NamedSharding"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_refused(name):
    function, phrases = REFUSED[name]
    with pytest.raises(TransformError) as caught:
        mx.jit(function)(X)
    for phrase in [*phrases, "called at", "test_layouts.py"]:
        assert phrase in str(caught.value)
