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
from minixla.core.errors import ShardingError, TransformError
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

    def value(x):
        return jnp.sin(x) * 2

    def slope(x):
        return jnp.cos(x) * 2

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
    with pytest.raises(TransformError, match="no mesh of devices"):
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
        ["a loop or branch cannot contain", "the jit around the loop"],
    ),
    "another structure": (
        lambda x: mx.jit(lambda x: x, out_shardings=(PARTS, PARTS))(x),
        ["out_shardings does not match the structure", "PyTreeDef(*)"],
    ),
    "by name": (
        lambda x: laid_out(x=x),
        ["in_shardings does not", "keywords: x", "by position"],
    ),
    "something else": (
        lambda x: mx.jit(lambda x: x, out_shardings=Format(Layout((0,)), PARTS))(x),
        ["out_shardings has", "jax.sharding.NamedSharding"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_refused(name):
    function, phrases = REFUSED[name]
    with pytest.raises(TransformError) as caught:
        mx.jit(function)(X)
    for phrase in [*phrases, "called at", "test_layouts.py"]:
        assert phrase in str(caught.value)


# The mesh given to jit, and constraints in functions.

GRID = mx.sharding.Mesh(jax.devices()[:4], ("a", "b"), shape=(2, 2))
W = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
Y = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)


def product(x, w):
    return mx.numpy.tanh(mx.sharding.constrain(x @ w, P("a", "b")))


step = mx.jit(product, mesh=GRID, in_shardings=(P("a"), P(None, "b")), out_shardings=P("a", "b"))


def placed(spec, mesh=GRID):
    return NamedSharding(mesh.to_jax(), spec)


def test_specs_are_about_the_mesh_of_jit():
    found = step(Y, W)
    assert found.sharding.is_equivalent_to(placed(P("a", "b")), 2)
    np.testing.assert_allclose(found, np.tanh(Y @ W), rtol=1e-5)
    text = step.graph(Y, W).stablehlo()
    assert 'sdy.mesh @mesh = <["a"=2, "b"=2]>' in text
    assert '%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}' in text
    assert '-> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>})' in text
    assert '%1 = sdy.sharding_constraint %0 <@mesh, [{"a"}, {"b"}]>' in text


# How the jitted function is used, and how the result lies.
USES = {
    "in jit": (mx.jit(lambda y: step(y, W) * 2), P("a", "b"), lambda: 2 * np.tanh(Y @ W)),
    "in a loop": (
        mx.jit(lambda y: mx.fori_loop(0, 1, lambda _, c: step(y, W) + c, np.zeros((4, 4), "f4"))),
        P("a", "b"),
        lambda: np.tanh(Y @ W),
    ),
    "in scan": (
        mx.jit(lambda y: mx.scan(lambda c, _: (step(y, W), c), np.zeros((4, 4), "f4"), None, 2)[0]),
        P("a", "b"),
        lambda: np.tanh(Y @ W),
    ),
    "in vmap": (mx.jit(lambda y: mx.vmap(step, (0, None))(y[None], W)[0]), P("a", "b"), None),
    "in grad": (
        mx.jit(mx.grad(lambda y: step(y, W).sum())),
        P("a"),
        lambda: (1 - np.tanh(Y @ W) ** 2) @ W.T,
    ),
    "in jvp": (
        mx.jit(lambda y: mx.jvp(lambda y: step(y, W), (y,), (y,))[1]),
        P("a", "b"),
        lambda: (1 - np.tanh(Y @ W) ** 2) * (Y @ W),
    ),
}


@pytest.mark.parametrize("name", USES)
def test_a_mesh_stays_with_its_function(name):
    function, spec, expected = USES[name]
    found = function(Y)
    assert found.sharding.is_equivalent_to(placed(spec), 2)
    expected = np.tanh(Y @ W) if expected is None else expected()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mx.reference(function)(Y), expected, rtol=1e-4, atol=1e-5)


def test_arguments_say_how_they_lie():
    function = mx.jit(lambda x, w: x @ w)
    y, w = jax.device_put(Y, placed(P("a"))), jax.device_put(W, placed(P(None, "b")))
    layouts = function.shardings(y, w)
    assert [str(each)[6:] for each in layouts.arguments] == [', [{"a"}, {}]>', ', [{}, {"b"}]>']
    assert [each.spec() for each in layouts.results] == [("a", "b")]
    assert function(y, w).sharding.is_equivalent_to(placed(P("a", "b")), 2)


def test_a_constraint_at_once():
    found = mx.sharding.constrain({"y": Y, "n": 3}, {"y": P("b"), "n": None}, mesh=GRID)
    assert found["n"] == 3
    assert found["y"].sharding.is_equivalent_to(placed(P("b")), 2)
    np.testing.assert_array_equal(found["y"], Y)


def test_the_mesh_of_jax_will_do():
    mesh = GRID.to_jax()
    function = mx.jit(lambda x: mx.sharding.constrain(x, P("a")) * 2)
    with jax.set_mesh(mesh):
        assert function(Y).sharding.is_equivalent_to(placed(P("a")), 2)
    given = mx.jit(lambda x: mx.sharding.constrain(x, P("b")) * 2, mesh=mesh)
    assert given(Y).sharding.is_equivalent_to(placed(P("b")), 2)
    named = mx.jit(lambda x: mx.sharding.constrain(x, NamedSharding(mesh, P("a"))) * 2)
    assert named(Y).sharding.is_equivalent_to(placed(P("a")), 2)


def test_programs_of_two_meshes_of_other_orders_are_refused():
    other = mx.sharding.Mesh(jax.devices()[3::-1], ("a", "b"), shape=(2, 2))

    def function(x):
        x = mx.sharding.constrain(x, P("a"), mesh=GRID)
        return mx.sharding.constrain(x * 2, P("a"), mesh=other)

    with pytest.raises(mx.ShardingError, match="must have the same devices in the same order"):
        mx.jit(function)(Y)


# What is wrong with a constraint or a mesh, and what the error says.
WRONG = {
    "no mesh": (lambda x: mx.sharding.constrain(x, P("a")), "no mesh of devices"),
    "unknown axis": (
        lambda x: mx.sharding.constrain(x, P("c"), mesh=GRID),
        'axis "c" is unknown',
    ),
    "too many": (
        lambda x: mx.sharding.constrain(x, P("a", None, None), mesh=GRID),
        "a spec of 3 entries for an array of 2 dimensions",
    ),
    "no sharding": (
        lambda x: mx.sharding.constrain(x, "a", mesh=GRID),
        "a layout that programs do not",
    ),
    "another structure": (
        lambda x: mx.sharding.constrain((x, x), (P("a"),) * 3, mesh=GRID),
        "does not match the structure",
    ),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("transform", [lambda f: f, mx.jit, mx.reference], ids=["", "jit", "numpy"])
def test_a_wrong_constraint_is_refused(name, transform):
    function, problem = WRONG[name]
    with pytest.raises(mx.MinixlaError) as caught:
        transform(function)(Y)
    assert problem in str(caught.value)
    assert "test_layouts.py" in str(caught.value)


@pytest.mark.parametrize("side", ["in_shardings", "out_shardings"])
@pytest.mark.parametrize(
    ("spec", "phrase"),
    [
        (P("j"), 'axis "j" is unknown. The mesh has i.'),
        (P("i", "i"), 'axis "i" is used twice'),
        (P(None, ("i", "j")), 'axis "j" is unknown'),
    ],
)
def test_specs_that_do_not_fit_the_mesh(side, spec, phrase):
    with pytest.raises(ShardingError) as caught:
        mx.jit(lambda x: x, mesh=MESH, **{side: spec})
    message = " ".join(str(caught.value).split())
    for part in phrase.split(". "):
        assert part in message
    assert "test_layouts.py" in message


def test_arguments_and_results_without_equal_pieces():
    """A call and the layouts before it refuse the same."""
    x = np.ones((6, 2), np.float32)
    for sides in ({"in_shardings": P("i")}, {"out_shardings": P("i")}):
        jitted = mx.jit(lambda x: x * 2, mesh=MESH, **sides)
        name = "argument x" if "in_shardings" in sides else "the result"
        for call in (jitted, jitted.shardings)[name == "the result" :]:
            with pytest.raises(ShardingError) as caught:
                call(x)
            message = str(caught.value)
            assert (
                f"dimension 0 of {name}, of size 6, cannot be split into 4 equal pieces" in message
            )
            assert f"{name}: f32[6,2]" in message
            assert "pad it, or use other axes" in message
            assert "test_layouts.py" in message


DEVICE = jax.devices()[2]
PUT = {
    "at once": lambda x, where: mx.device_put(x, where),
    "jit": lambda x, where: mx.jit(lambda x: mx.device_put(x, where))(x),
    "grad": lambda x, where: mx.grad(lambda y: (mx.device_put(y, where) * x).sum())(x),
    "vmap": lambda x, where: mx.vmap(lambda y: mx.device_put(y, where))(x[None])[0],
}


@pytest.mark.parametrize("way", PUT)
@pytest.mark.parametrize("where", [DEVICE, SingleDeviceSharding(DEVICE), PARTS], ids=str)
def test_arrays_are_put_where_they_are_wanted(way, where):
    found = PUT[way](X, where)
    np.testing.assert_array_equal(found, X)
    assert found.devices() == ({DEVICE} if where is not PARTS else {*MESH.devices.flat})


def test_what_is_elsewhere_moves_to_a_device():
    elsewhere = jax.device_put(X, jax.devices()[1])
    found = mx.grad(lambda x: mx.device_put(x * 2, DEVICE).sum())(elsewhere)
    np.testing.assert_array_equal(found, np.full(8, 2))


def test_trees_are_put_by_a_prefix():
    tree = {"a": X, "b": (1.0, X)}
    found = mx.jit(lambda tree: mx.device_put(tree, {"a": PARTS, "b": None}))(tree)
    assert found["a"].sharding.is_equivalent_to(PARTS, 1)
    assert found["b"][0].weak_type
    moved = mx.device_put(tree, {"a": DEVICE, "b": jax.devices()[0]})
    assert moved["a"].devices() == {DEVICE}
    np.testing.assert_array_equal(mx.reference(lambda x: mx.device_put(x, DEVICE))(X), X)
    np.testing.assert_array_equal(mx.jit(lambda x: mx.device_put(2.0) * x)(X), 2 * X)


def test_a_layout_that_is_none_is_refused():
    with pytest.raises(TransformError, match="device_put: device inside another transformation"):
        mx.jit(lambda x: mx.device_put(x, "cpu:0"))(X)


def test_only_arrays_are_put_on_devices():
    with pytest.raises(mx.ShapeError, match=r"device_put: argument x.* of type str"):
        mx.device_put("x")
    with pytest.raises(mx.ShapeError, match=r"device_put: argument .* of type object"):
        mx.device_put({"a": 1.0, "b": object()})
