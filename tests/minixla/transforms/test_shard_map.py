"""shard_map on meshes of four CPU devices, against JAX's: values, derivatives, batches, loops."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import minixla as mx
import minixla.numpy as mnp
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.mesh import Mesh
from minixla.transforms.layouts import mesh_in_force
from tests.harness import calls_of, compiled_rows
from tests.minixla.transforms.collective_programs import assert_same

MESH = Mesh(jax.devices()[:4], ("x", "y"), shape=(2, 2))
JAX_MESH = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
#: The devices in another order: the first of JAX's is not the first of the grid.
ORDER = (2, 0, 3, 1)
Z = np.random.default_rng(0).normal(size=(8, 12)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(12, 4)).astype(np.float32)
BOTH, FIRST = P("x", "y"), P("x")

# name: a function of the collectives' module, NumPy and pieces; arguments, in_specs, out_specs.
PROGRAMS = {
    "no collective": (lambda m, n, x: n.sin(x) * x, (Z,), (BOTH,), BOTH),
    "psum, one axis": (lambda m, n, x: m.psum(n.sin(x), "y"), (Z,), (BOTH,), FIRST),
    "psum, both axes": (lambda m, n, x: m.psum(n.sin(x), ("x", "y")), (Z,), (BOTH,), P()),
    "psum of a scalar": (lambda m, n, x: m.psum((x**2).sum(), ("y", "x")), (Z,), (BOTH,), P()),
    "pmean": (lambda m, n, x: m.pmean(x * x, ("x", "y")) * x, (Z,), (BOTH,), BOTH),
    "ppermute": (lambda m, n, x: m.ppermute(n.cos(x), "x", [(0, 1)]), (Z,), (BOTH,), BOTH),
    "ppermute, both axes": (
        lambda m, n, x: m.ppermute(n.cos(x), ("x", "y"), [(0, 3), (3, 1), (1, 0)]),
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "all_gather": (
        lambda m, n, x: m.all_gather(n.sin(x), "y", axis=1, tiled=True) * 2,
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "all_gather, both axes": (
        lambda m, n, x: m.all_gather(n.sin(x), ("x", "y"))[1:, :, :2].sum(0),
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "psum_scatter": (
        lambda m, n, x: m.psum_scatter(x * x, "x", scatter_dimension=1, tiled=True),
        (Z,),
        (BOTH,),
        P("x", "y"),
    ),
    "psum_scatter, both axes": (
        lambda m, n, x: m.psum_scatter(x * x, ("y", "x"), tiled=True),
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "all_to_all": (
        lambda m, n, x: m.all_to_all(n.sin(x), "y", 0, 1, tiled=True),
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "all_to_all, both axes": (
        lambda m, n, x: m.all_to_all(n.sin(x), ("x", "y"), 0, 1, tiled=True),
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "axis_index": (
        lambda m, n, x: x * (m.axis_index("x") + 10 * m.axis_index("y")),
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "axis_index, both axes": (
        lambda m, n, x: x * m.axis_index(("y", "x")),
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "one dimension over both axes": (
        lambda m, n, x: n.sin(x) * m.axis_index(("y", "x")),
        (Z,),
        (P(("y", "x")),),
        P(("y", "x")),
    ),
    "another dimension": (lambda m, n, x: n.sin(x).T, (Z,), (P(None, "x"),), P("x")),
    "what all devices get": (
        lambda m, n, x, w: m.psum(n.tanh(x @ w), "x") @ w.T,
        (Z, W),
        (FIRST, P()),
        P(),
    ),
    "a product cut along its sum": (
        lambda m, n, x, w: m.psum(x @ w, "y"),
        (Z, W),
        (BOTH, P("y")),
        FIRST,
    ),
    "scalars": (lambda m, n, x, s: (x * s, s * s), (Z, np.float32(3)), (BOTH, P()), (BOTH, P())),
    "no elements": (
        lambda m, n, x: m.psum(n.sin(x), "y"),
        (np.zeros((4, 0), np.float32),),
        (BOTH,),
        FIRST,
    ),
    "trees": (
        lambda m, n, t, x: {"a": t["a"] * x, "b": (m.psum(t["b"], "x"), x + 1)},
        ({"a": Z, "b": Z[:4] * 2}, Z),
        (BOTH, BOTH),
        {"a": BOTH, "b": (P(None, "y"), BOTH)},
    ),
    "some axes alone": (
        lambda m, n, x: m.psum(n.sin(x), "x") @ n.cos(x).T,
        (Z,),
        (FIRST,),
        P(None, "x"),
        {"axis_names": {"x"}},
    ),
    "some axes alone, and none of the result's": (
        lambda m, n, x: m.psum(n.sin(x) * m.axis_index("y"), "y") ** 2,
        (Z,),
        (P("y"),),
        P(),
        {"axis_names": {"y"}},
    ),
    "all_gather along some axes alone": (
        lambda m, n, x: m.all_gather(n.sin(x), "x", axis=1, tiled=True),
        (Z,),
        (FIRST,),
        FIRST,
        {"axis_names": {"x"}},
    ),
    "a loop inside": (
        lambda m, n, x: m.fori_loop(0, 3, lambda _, v: v * 0.5 + m.psum(n.sin(v), "y"), x),
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "a branch inside": (
        lambda m, n, x: m.cond(x.shape[0] > 3, lambda v: m.psum(v * v, "x"), lambda v: v, x),
        (Z,),
        (BOTH,),
        BOTH,
    ),
    "jit inside": (
        lambda m, n, x: _jit(m)(lambda v: m.pmean(n.sin(v), "x") * v)(x),
        (Z,),
        (BOTH,),
        BOTH,
    ),
}
#: Loops of JAX's that hold collectives of varying values have no type there.
UNCHECKED = ("a loop inside", "a branch inside")


def _jit(m):
    return mx.jit if m is mx else jax.jit


def both(name):
    """The program of whole arrays in ours and in JAX."""
    fun, _, given, wanted, *options = PROGRAMS[name]
    specs = {"in_specs": given, "out_specs": wanted, **(options[0] if options else {})}
    theirs = functools.partial(fun, lax, jnp)
    check = {"check_vma": name not in UNCHECKED}
    return (
        mx.shard_map(functools.partial(fun, mx, mnp), mesh=MESH, **specs),
        jax.shard_map(theirs, mesh=JAX_MESH, **specs, **check),
    )


def weighted(tree):
    """A number that depends on every element."""
    leaves = jax.tree.leaves(tree)
    return sum((x * np.cos(np.arange(x.size).reshape(x.shape)).astype("f")).sum() for x in leaves)


def everything(m, fun):
    """A function: value, derivatives to second order, and those of a batch."""

    def found(*arguments):
        def loss(*arguments):
            return weighted(fun(*arguments))

        gradient = m.grad(loss, tuple(range(len(arguments))))
        second = m.jvp(gradient, arguments, arguments)
        batch = jax.tree.map(lambda x: x[..., None] * np.float32([1, 2]), arguments)
        axes = {"in_axes": -1, "out_axes": -1}
        batched = m.vmap(fun, **axes)(*batch), m.vmap(gradient, **axes)(*batch)
        return fun(*arguments), second, batched

    return found


@functools.cache
def compiled(m):
    """By name what a framework's programs give, all in one program."""
    rows = {name: (everything(m, both(name)[m is jax]), row[1]) for name, row in PROGRAMS.items()}
    return compiled_rows(rows, jax.jit if m is jax else mx.jit)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_derivatives_and_batches(name):
    ours, arguments = both(name)[0], PROGRAMS[name][1]
    expected = compiled(jax)(name)
    close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-4)
    jax.tree.map(close, compiled(mx)(name), expected)
    jax.tree.map(close, mx.reference(everything(mx, ours))(*arguments), expected)


MASK, COUNTS = Z > 0, np.arange(96, dtype=np.int32).reshape(8, 12) - 40
#: Of the collectives' module: collectives of numbers and truth values that have no derivative.
DISCRETE = {
    "psum": lambda m, x: m.psum(x, "y"),
    "psum, both axes": lambda m, x: m.psum(x, ("x", "y")),
    "pmax": lambda m, x: m.pmax(x, "x"),
    "pmin, both axes": lambda m, x: m.pmin(x, ("y", "x")),
    "ppermute": lambda m, x: m.ppermute(x, "y", [(1, 0)]),
    "all_gather": lambda m, x: m.all_gather(x, "x"),
    "all_to_all": lambda m, x: m.all_to_all(x, "y", 1, 0, tiled=True),
    "axis_index": lambda m, x: m.axis_index("y") + m.axis_index(("y", "x")),
    "axis_size": lambda m, x: np.int32(m.axis_size(("x", "y"))) + (x > 0),
}


@pytest.mark.parametrize("x", [COUNTS, MASK], ids=["s32", "pred"])
def test_integers_and_truth_values(x):
    names = [name for name in DISCRETE if x is COUNTS or name[:4] not in ("pmax", "pmin")]

    def found(m):
        module = mx if m is mx else lax
        return lambda x: {name: mnp_or(m).atleast_1d(DISCRETE[name](module, x)) for name in names}

    specs = {"in_specs": BOTH, "out_specs": P(("x", "y"))}
    expected = jax.jit(jax.shard_map(found(jax), mesh=JAX_MESH, **specs))(x)
    ours = mx.shard_map(found(mx), mesh=MESH, **specs)
    for result in (ours(x), mx.reference(ours)(x)):
        jax.tree.map(np.testing.assert_array_equal, result, expected)
        assert jax.tree.map(lambda y: y.dtype, result) == jax.tree.map(lambda y: y.dtype, expected)


def mnp_or(m):
    return mnp if m is mx else jnp


SUM = both("psum, one axis")
# Of the control flow's module and a shard_map from f32[8,12] to f32[8,6], which `widened` widens.
AROUND = {
    "fori_loop": lambda m, f, x: m.fori_loop(0, 3, lambda _, v: v * 0.5 + wide(m, f(v)), x),
    "scan": lambda m, f, x: m.scan(lambda c, s: (wide(m, f(c)) * s, f(c)), x, x[:3, :1]),
    "while_loop": lambda m, f, x: m.while_loop(
        lambda v: v[0] < 2, lambda v: (v[0] + 1, wide(m, f(v[1]))), (0, x)
    )[1],
    "cond": lambda m, f, x: m.cond(x.sum() > 0, lambda v: wide(m, f(v)), lambda v: v * v, x),
}


def wide(m, x):
    return mnp_or(m if m is mx else jax).concatenate([x, x * x], 1)


def around(m, name):
    """Value and, but for JAX's while_loop, the gradient of a loop or branch around a shard_map."""
    module, mapped = (mx, SUM[0]) if m is mx else (lax, SUM[1])

    def found(x):
        def loss(x):
            return weighted(AROUND[name](module, mapped, x))

        value = AROUND[name](module, mapped, x)
        return (value,) if name == "while_loop" else (value, m.grad(loss)(x))

    return found


@functools.cache
def compiled_around(m):
    rows = {name: (around(m, name), [Z]) for name in AROUND}
    return compiled_rows(rows, jax.jit if m is jax else mx.jit)


@pytest.mark.parametrize("name", AROUND)
def test_inside_loops_and_branches(name):
    expected = compiled_around(jax)(name)
    close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-4)
    jax.tree.map(close, compiled_around(mx)(name), expected)
    jax.tree.map(close, mx.reference(around(mx, name))(Z), expected)


def test_one_inside_another_along_other_axes():
    def inner(x, y):
        return mx.psum(mnp.sin(x * y), "y")

    def outer(x):
        specs = {"in_specs": (P(None, "y"), P()), "out_specs": P()}
        mapped = mx.shard_map(inner, mesh=MESH, axis_names={"y"}, **specs)
        return mx.psum(mapped(x, x[:, :6] + mx.axis_index("x")), "x")

    specs = {"in_specs": FIRST, "out_specs": P(), "axis_names": {"x"}}
    ours = mx.shard_map(outer, mesh=MESH, **specs)

    def theirs(x):  # JAX has no reverse derivative of one inside another
        rows = x.reshape(2, 4, 12)
        factors = rows[:, :, :6] + jnp.arange(2).reshape(2, 1, 1)
        return jnp.sin(rows.reshape(2, 4, 2, 6) * factors[:, :, None]).sum((0, 2))

    def derivatives(m, f):
        return lambda x: (f(x), m.grad(lambda x: weighted(f(x)))(x))

    expected = jax.jit(derivatives(jax, theirs))(Z)
    for found in (mx.jit(derivatives(mx, ours))(Z), mx.reference(derivatives(mx, ours))(Z)):
        jax.tree.map(
            lambda *x: np.testing.assert_allclose(*x, rtol=1e-4, atol=1e-4), found, expected
        )


@pytest.mark.parametrize("has_devices", [True, False])
def test_devices_in_another_order(has_devices):
    """The piece of each place of the grid, and its number, are those of the device there."""
    devices = np.array(jax.devices())[list(ORDER)].reshape(2, 2)
    ours = Mesh(devices, ("x", "y"))
    if not has_devices:
        ours = Mesh(None, ("x", "y"), shape=(2, 2), device_ids=ORDER)
    theirs = jax.sharding.Mesh(devices, ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def program(m):
        return lambda x: (m.ppermute(x, "y", [(0, 1)]) + m.axis_index("x"), m.psum(x, "y"))

    specs = {"in_specs": BOTH, "out_specs": (BOTH, FIRST)}
    expected = jax.shard_map(program(lax), mesh=theirs, **specs)(Z)
    mapped = mx.shard_map(program(mx), mesh=ours, **specs)
    for found in (mapped(Z), mx.jit(mapped)(Z), mx.reference(mapped)(Z)):
        jax.tree.map(assert_same, found, expected)

    def places(array):
        return {shard.device.id: shard.index for shard in array.addressable_shards}

    assert places(mapped(Z)[0]) == places(expected[0])


def test_values_from_outside():
    """Traced values that the function reads go to all devices; each has its derivative."""

    def loss(m, transform, mesh):
        module = mx if m is mx else lax

        def program(w, x):
            mapped = transform(
                lambda x: module.psum((x @ w) ** 2, "x"), mesh=mesh, in_specs=FIRST, out_specs=P()
            )
            return mapped(x).sum()

        return lambda w, x: (m.grad(program, (0, 1))(w, x), m.vmap(program, (0, None))(w[None], x))

    expected = jax.jit(loss(jax, jax.shard_map, JAX_MESH))(W, Z)
    ours = loss(mx, mx.shard_map, MESH)
    for found in (ours(W, Z), mx.jit(ours)(W, Z), mx.reference(ours)(W, Z)):
        jax.tree.map(lambda *x: np.testing.assert_allclose(*x, rtol=2e-5), found, expected)


def test_a_call_outside_of_programs_is_one_cached_program():
    traced = []

    @mx.shard_map(mesh=MESH, in_specs=BOTH, out_specs=FIRST)
    def mapped(x):
        """The sum along a row."""
        traced.append(x.shape)
        return mx.psum(x, "y")

    assert mapped.__name__ == "mapped"
    assert mapped.__doc__ == "The sum along a row."
    first = mapped(Z)
    assert_same(first, Z[:, :6] + Z[:, 6:])
    assert first.sharding.spec == P("x")
    assert_same(mapped(2 * Z), 2 * first)
    mx.grad(lambda x: mapped(x).sum())(Z)
    assert traced == [(4, 6)]
    jitted = mx.jit(mapped)
    assert_same(jitted(Z), first)
    assert calls_of(lambda: mapped(Z)) == calls_of(lambda: jitted(Z))
    with_methods: Any = mapped
    assert_same(with_methods.lower(Z).compile()(Z), first)
    with_methods.clear_cache()
    assert_same(mapped(Z), first)


def test_arrays_on_other_devices_are_moved():
    fun = SUM[0]
    expected = np.sin(Z[:, :6]) + np.sin(Z[:, 6:])
    wrong = jax.make_mesh((2,), ("z",), devices=jax.devices()[2:], axis_types=(AxisType.Auto,))
    places = [jax.devices()[2], jax.sharding.NamedSharding(wrong, P(None, "z"))]
    for place in places:
        placed = jax.device_put(Z, place)
        assert_same(fun(placed), expected)
        gradient = mx.grad(lambda x: fun(x).sum())(placed)
        assert_same(gradient, np.cos(Z))


def test_inside_a_program_of_jax():
    ours, theirs = SUM
    found = jax.jit(jax.value_and_grad(lambda x: ours(x).sum()))(Z)
    jax.tree.map(assert_same, found, jax.jit(jax.value_and_grad(lambda x: theirs(x).sum()))(Z))


def test_a_mesh_of_one_device():
    device = jax.devices()[3]
    mapped = mx.shard_map(
        lambda x: mx.psum(x, "x") + mx.axis_index("x"),
        mesh=Mesh([device], ("x",)),
        in_specs=FIRST,
        out_specs=FIRST,
    )
    for found in (mapped(Z), mx.jit(mapped)(Z), mx.reference(mapped)(Z)):
        assert_same(found, Z)
    assert mx.jit(mapped)(Z).devices() == {device}


def test_the_mesh_in_force():
    mapped = mx.shard_map(lambda x: mx.psum(x, "x"), in_specs=FIRST, out_specs=P())
    other = Mesh(jax.devices()[:4], ("x",))
    with jax.set_mesh(JAX_MESH):
        for _ in range(2):
            assert_same(mapped(Z), Z[:4] + Z[4:])
            assert_same(mx.jit(mapped)(Z), Z[:4] + Z[4:])
            with mesh_in_force(other):
                assert_same(mapped(Z), Z.reshape(4, 2, 12).sum(0))
    with pytest.raises(mx.TransformError, match="shard_map: no mesh of devices"):
        mapped(Z)


@pytest.mark.parametrize("specs", [{"in_specs": 3}, {"out_specs": 3}, {"in_specs": ("x",)}])
def test_what_is_no_spec(specs):
    with pytest.raises(mx.TransformError, match=r"shard_map: .+ is not a spec"):
        mapped_over(**specs)(Z)


def mapped_over(in_specs=BOTH, out_specs=BOTH, f=lambda x: x, mesh=MESH, **options):
    return mx.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


def two_lists_of_devices():
    pair = Mesh(jax.devices()[:2], ("x",))
    other = mx.shard_map(lambda x: x, mesh=pair, in_specs=FIRST, out_specs=FIRST)
    return mx.jit(lambda x: other(SUM[0](x)))(Z)


def inside_jax():
    mesh = jax.make_mesh((4,), ("z",), axis_types=(AxisType.Auto,))
    return jax.shard_map(SUM[0], mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)(Z)


ERRORS = {
    "an axis that the mesh has not": (
        lambda: mapped_over(P("z"))(Z),
        ['sharding: axis "z" is unknown', "The mesh has x, y."],
    ),
    "an axis twice": (lambda: mapped_over(P("x", "x"))(Z), ['axis "x" is used twice']),
    "too many entries": (
        lambda: mapped_over(P("x", "y", None))(Z),
        ["a spec of 3 entries for an array of 2 dimensions"],
    ),
    "no equal pieces": (
        lambda: mapped_over()(Z[:7]),
        [
            "shard_map: dimension 0 of argument x, of size 7, cannot be split into 2 equal pieces",
            "argument x: f32[7,12]",
            "axes: x=2",
        ],
    ),
    "a rank that the result has not": (
        lambda: mapped_over(f=lambda x: x.sum())(Z),
        ["a spec of 2 entries for an array of 0 dimensions"],
    ),
    "an axis that is not manual": (
        lambda: mapped_over(axis_names={"x"})(Z),
        ["shard_map: a spec has axis 'y', which is not in axis_names", "axis_names: x"],
    ),
    "axis_names": (
        lambda: mapped_over(axis_names={"z"})(Z),
        ["shard_map: the mesh has no axis 'z'", '["x"=2, "y"=2]'],
    ),
    "specs that do not fit": (
        lambda: mapped_over((BOTH, BOTH))(Z),
        ["shard_map: in_specs does not match the structure that it describes"],
    ),
    "specs of results that do not fit": (
        lambda: mapped_over(out_specs=(BOTH, BOTH))(Z),
        ["shard_map: out_specs does not match the structure that it describes"],
    ),
    "an unbound axis": (
        lambda: mapped_over(f=lambda x: mx.psum(x, "z"))(Z),
        ["psum: the axis name 'z' is not bound", "bound here: 'x', 'y'"],
    ),
    "no mesh": (lambda: mapped_over(mesh=3)(Z), ["Mesh: the value is not a mesh", "given: 3"]),
    "no array": (
        lambda: mapped_over()("text"),
        ["shard_map: argument x of type str is not an array"],
    ),
    "no function": (lambda: mapped_over(f=Z), ["shard_map: expected a function, got ndarray"]),
    "two lists of devices": (
        two_lists_of_devices,
        ["the meshes of a program must have the same devices", "devices: cpu:0, cpu:1\n"],
    ),
    "inside JAX's, another mesh": (
        inside_jax,
        ["a function that JAX maps over the mesh {'z': 4} uses another mesh"],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, phrases = ERRORS[name]
    with pytest.raises((mx.TransformError, mx.ShardingError, mx.ShapeError)) as caught:
        call()
    for phrase in (*phrases, "test_shard_map.py"):
        assert phrase in str(caught.value)


def test_it_is_one_instruction_of_programs():
    graph = mx.make_graph(SUM[0])(Z)
    (step,) = graph.instructions
    assert isinstance(step.op, ManualComputation)
    text = graph.stablehlo()
    assert 'sdy.mesh @mesh = <["x"=2, "y"=2]>' in text
    assert 'manual_axes = #sdy<manual_axes{"x", "y"}>' in text
