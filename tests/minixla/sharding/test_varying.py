"""Specs that leave out axes along which devices' values differ: against JAX's types, and values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import minixla as mx
import minixla.numpy as mnp
from minixla import ops
from minixla.sharding.mesh import Mesh
from minixla.sharding.varying import varying
from tests.selection import quick_rows

AXES = ("x", "y")
JAX_MESH = jax.make_mesh((2, 2), AXES, axis_types=(AxisType.Auto,) * 2)
MESH = Mesh(jax.devices()[:4], AXES, shape=(2, 2))
MIXED = Mesh(np.array(jax.devices())[[2, 0, 3, 1]], AXES, shape=(2, 2))
X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


def _twice(m, f):
    return mx.jit(f) if m is mx else jax.jit(f)


def _cond(m, flag, *args):
    cond = mx.cond if m is mx else lax.cond
    return cond(flag, lambda a: a + 1, lambda a: a * 2, *args)


def _marked(m, x, *names):
    """JAX's loops carry one type: what differs in the end must differ from the start."""
    return x if m is mx else lax.pcast(x, names, to="varying")


def _scan(m, body, start, steps):
    return (mx.scan if m is mx else lax.scan)(body, start, steps)


def _while(m, *args):
    return (mx.while_loop if m is mx else lax.while_loop)(*args)


def _custom(m, x):
    function = (mx if m is mx else jax).custom_jvp(lambda a: m.psum(a, "x") * 2)
    function.defjvp(lambda p, t: (function(*p), t[0]))
    return function(x)


def _sharded(m, x, inner, **specs):
    if m is mx:
        return mx.shard_map(inner, mesh=MESH, axis_names={"y"}, **specs)(x)
    return jax.shard_map(inner, axis_names={"y"}, **specs)(x)


# name: a function of collectives' module, NumPy, and three arrays: cut along both axes, along x
# alone, and whole on each device; then the axes along which its results differ.
FUNCTIONS = {
    "as they are": (
        lambda m, n, a, b, c: (a, b, c, a + c[:2, :2], b * c[:2]),
        ("xy", "x", "", "xy", "x"),
    ),
    "sums": (
        lambda m, n, a, b, c: (m.psum(a, "x"), m.psum(a, "y"), m.psum(a, AXES), m.psum(b, "x")),
        ("y", "x", "", ""),
    ),
    "other reductions": (
        lambda m, n, a, b, c: (m.pmean(a, "y"), m.pmax(a, "x"), m.pmin(b, "x")),
        ("x", "y", ""),
    ),
    "exchanges": (
        lambda m, n, a, b, c: (
            m.ppermute(b, "x", [(0, 1), (1, 0)]),
            m.all_to_all(a, "y", 0, 1, tiled=True),
            m.psum_scatter(a, "x", tiled=True),
        ),
        ("x", "xy", "xy"),
    ),
    "parts of an axis": (
        lambda m, n, a, b, c: (m.all_gather(b, "x", axis_index_groups=[[0], [1]]),),
        ("x",),
    ),
    "numbers of devices": (
        lambda m, n, a, b, c: (
            m.axis_index("x"),
            m.axis_index("y") * 2 + 1,
            m.axis_index(AXES),
            m.axis_index("x") + m.axis_index("y"),
            c * m.axis_index("x"),
        ),
        ("x", "y", "xy", "xy", "x"),
    ),
    "a program within": (
        lambda m, n, a, b, c: _twice(m, lambda p, q: (m.psum(p, "y"), q * 2, m.axis_index("y")))(
            a, c
        ),
        ("x", "", "y"),
    ),
    "a custom derivative": (lambda m, n, a, b, c: (_custom(m, a),), ("y",)),
    "a branch": (
        lambda m, n, a, b, c: (_cond(m, c[0, 0] > 0, b), _cond(m, b[0, 0] > 0, _marked(m, c, "x"))),
        ("x", "x"),
    ),
    "steps": (
        lambda m, n, a, b, c: _scan(
            m, lambda s, e: (s + m.psum(e, "x"), s * e), _marked(m, n.zeros(a.shape[1:]), "y"), a
        ),
        ("y", "xy"),
    ),
    "steps with numbers": (
        lambda m, n, a, b, c: _scan(
            m, lambda s, at: (s + at, s * at), _marked(m, n.sum(b[0, :2])), np.arange(3)
        ),
        ("x", "x"),
    ),
    "steps that mix": (
        lambda m, n, a, b, c: _scan(
            m,
            lambda s, _: ((s[0] + s[1], s[0]), None),
            (_marked(m, n.ones(2), "x"), _marked(m, n.sin(b[0, :2]))),
            n.arange(3.0),
        )[0],
        ("x", "x"),
    ),
    "a loop": (
        lambda m, n, a, b, c: (_while(m, lambda s: s.sum() < 9, lambda s: s + 1, n.cos(b)),),
        ("x",),
    ),
    "a loop whose length differs": (
        lambda m, n, a, b, c: _while(
            m, lambda s: s[1] < 9, lambda s: (s[0] + 1, s[1] + 1), (_marked(m, c, "x"), b[0, 0])
        ),
        ("x", "x"),
    ),
    "nested": (
        lambda m, n, a, b, c: (
            _sharded(m, b, lambda p: m.psum(p, "y"), in_specs=P("y"), out_specs=P()),
            _sharded(m, c, lambda p: p * 2, in_specs=P("y"), out_specs=P("y")),
        ),
        ("x", ""),
        {"x"},
    ),
}
#: What is the same for all although JAX's types do not say so.
GATHERED = {
    "gathered": (
        lambda m, n, a, b, c: (m.all_gather(a, "y"), m.all_gather(a, AXES)),
        ("x", ""),
    ),
}


def _mapped(m, name, mesh, out_specs, **options):
    """Each result with a dimension more, the first, which specs cut."""
    function, _, *names = {**FUNCTIONS, **GATHERED}[name]
    if names:
        options["axis_names"] = names[0]
    collectives, numpy = (mx, mnp) if m is mx else (lax, jnp)
    cut = P("x") if names else P(*AXES)

    def mapped(*pieces):
        return tuple([numpy.asarray(x)[None] for x in function(collectives, numpy, *pieces)])

    shard_map = mx.shard_map if m is mx else jax.shard_map
    return shard_map(mapped, mesh=mesh, in_specs=(cut, P("x"), P()), out_specs=out_specs, **options)


def _is_refused(m, name, mesh, out_specs):
    mapped = _mapped(m, name, mesh, out_specs)
    try:
        mx.make_graph(mapped)(X, X, X) if m is mx else jax.eval_shape(mapped, X, X, X)
    except (ValueError, mx.ShardingError) as error:
        assert "out_specs" in str(error), error
        return True
    return False


def _specs(differing, number=None, left_out=None):
    """Specs that name the axes along which results differ, but for one axis of one result."""
    found = [[axis for axis in AXES if axis in names] for names in differing]
    if number is not None:
        found[number].remove(left_out)
    return tuple([P(tuple(names)) if names else P() for names in found])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_specs_are_refused_where_jax_refuses_them(name):
    _, differing, *names = FUNCTIONS[name]
    meshes = [MESH] if names else [MESH, MIXED]
    rows = [(number, axis) for number, axes in enumerate(differing) for axis in axes]
    for row in [(), *rows]:
        specs = _specs(differing, *row)
        assert _is_refused(jax, name, JAX_MESH, specs) is bool(row)
        for mesh in meshes:
            assert _is_refused(mx, name, mesh, specs) is bool(row)


@pytest.mark.parametrize(
    "name", [*GATHERED, *[name for name, row in FUNCTIONS.items() if len(row) == 2]]
)
def test_axes_are_those_along_which_values_differ(name):
    _, differing, *names = {**FUNCTIONS, **GATHERED}[name]
    if names:  # what is free has no values of its own
        return
    for mesh in (MESH, MIXED):
        for found, names in zip(_mapped(mx, name, mesh, P(AXES))(X, X, X), differing, strict=True):
            each = np.asarray(found).reshape(2, 2, -1)
            differ = [(each != each.take([0], at)).any() for at in range(2)]
            assert "".join([axis for axis, flag in zip(AXES, differ, strict=True) if flag]) == names


@pytest.mark.parametrize("name", GATHERED)
def test_what_all_devices_gather_is_the_same_for_all(name):
    specs = _specs(GATHERED[name][1])
    assert _is_refused(jax, name, JAX_MESH, specs)
    assert not _is_refused(mx, name, MESH, specs)


def test_an_error_names_the_result_and_the_axis():
    mapped = mx.shard_map(
        lambda x: {"loss": (x * x).sum(), "x": x}, mesh=MESH, in_specs=P("x"), out_specs=P()
    )
    with pytest.raises(mx.ShardingError) as caught:
        mapped(X)
    for phrase in ("the result['loss'] may differ between devices along axis 'x'", "out_specs"):
        assert phrase in str(caught.value)
    assert "test_varying.py" in str(caught.value)
    first = mx.shard_map(lambda x: x[0], mesh=MESH, in_specs=P("x"), out_specs=P(), check_vma=False)
    np.testing.assert_array_equal(first(X), X[0])


ROW = Mesh(jax.devices()[:4], ("x",), shape=(4,))
ALL = {"replica_groups": [[0, 1, 2, 3]], "channel_id": 1, "use_global_device_ids": True}
PAIRS = {**ALL, "replica_groups": [[0, 1], [2, 3]]}

UNEQUAL = {**ALL, "replica_groups": [[0, 1, 2], [3]]}


def total(x, **groups):
    return ops.all_reduce(x, ops.add, **groups or ALL)


def words(x):
    return ops.bitcast_convert_type(x, "u32")


def device():
    return ops.convert_element_type(ops.partition_id(), "f32")


# A function of what differs and what does not; whether its result may differ.
PROGRAMS = {
    "what differs": (lambda x, y: x, True),
    "what does not": (lambda x, y: mx.numpy.sin(y) @ y.T, False),
    "both": (lambda x, y: x + y, True),
    "constant": (lambda x, y: np.float32(2) + 0 * y, False),
    "the second of several results": (lambda x, y: ops.threefry2x32(*[words(x)] * 4)[1], True),
    "the device's number": (lambda x, y: y + device(), True),
    "sum over all": (lambda x, y: total(x) * y, False),
    "sum over some": (lambda x, y: total(x, **PAIRS), True),
    "sum over some of what does not": (lambda x, y: total(y, **PAIRS), False),
    "sum over more or fewer": (lambda x, y: total(y, **UNEQUAL), True),
    "sent to some": (lambda x, y: ops.collective_broadcast(y, [[0, 1]], channel_id=1), True),
    "gathered": (lambda x, y: ops.all_gather(x, 0, 4, **ALL), False),
    "part of a sum": (lambda x, y: ops.reduce_scatter(y, ops.add, 0, 4, **ALL), True),
    "sent": (lambda x, y: ops.collective_permute(y, [(0, 1)], channel_id=1), True),
    "exchanged": (lambda x, y: ops.all_to_all(y, 0, 1, 4, [[0, 1, 2, 3]], channel_id=1), True),
    "call of what differs": (lambda x, y: mx.jit(lambda x: x + y)(x), True),
    "call of a sum": (lambda x, y: mx.jit(total)(x), False),
    "loop": (lambda x, y: mx.fori_loop(0, 3, lambda _, v: v * y, y), False),
    "loop of what differs": (lambda x, y: mx.fori_loop(0, 3, lambda _, v: v * x, y), True),
    "loop with the device's number": (
        lambda x, y: mx.fori_loop(0, 3, lambda _, v: v + device(), y),
        True,
    ),
    "branch by what differs": (
        lambda x, y: mx.cond(x.sum() > 0, lambda y: y, lambda y: 2 * y, y),
        True,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_that_may_differ(name):
    function, expected = PROGRAMS[name]
    graph = mx.make_graph(function)(X[:, :3], X[:, :3])
    assert varying(graph, (("x",), ()), ROW) == (("x",) if expected else (),)


def test_the_first_devices_result_is_taken_where_specs_are_not_checked():
    def both(m, function):
        specs = {"in_specs": P("x", "y"), "out_specs": (P(), P("x")), "check_vma": False}
        return m.shard_map(function, mesh=MESH, **specs)

    mapped = both(mx, lambda x: (x, x > 0))
    found = mx.jit(lambda x: mapped(x * 2))(X)
    np.testing.assert_array_equal(found[0], 2 * X[:2, :2])
    np.testing.assert_array_equal(found[1], X[:, :2] > 0)
    np.testing.assert_array_equal(mx.reference(mapped)(X)[0], X[:2, :2])
    gradient = mx.grad(lambda x: (mapped(x)[0] ** 2).sum())(X)
    expected = np.zeros_like(X)
    expected[:2, :2] = 2 * X[:2, :2]
    np.testing.assert_array_equal(gradient, expected)


KINDS = ["f2", "f4", "f8", "c8", "c16", "i4", "u1", "?", "bfloat16", "float8_e4m3fn"]
KINDS += ["float8_e4m3fnuz", "float8_e5m2", "float8_e8m0fnu", "int2", "uint4"]


def _special(kind):
    """-0, 0, NaN with a payload, and others, for the first device along x; then other numbers."""
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    with np.errstate(all="ignore"):
        numbers = np.array([[-0.0, 0, np.nan, np.inf, -1, 1], [1, 1, 1, 1, 1, 1]]).astype(dtype)
    if dtype.kind == "c":
        numbers = numbers + np.array(complex(0, -0.0), dtype)
    if kind == "f4":
        numbers.view("u4")[0, 2] = 0x7FC12345
    return numbers


@pytest.mark.parametrize("kind", quick_rows(KINDS, KINDS[::3]))
def test_the_first_devices_result_is_taken_bit_by_bit(kind):
    numbers = _special(kind)
    specs = {"in_specs": P("x"), "out_specs": P(), "check_vma": False}
    first = mx.shard_map(lambda x: x, mesh=MESH, **specs)
    with jax.enable_x64(True):
        for run in (first, mx.jit(first), mx.reference(first)):
            assert np.asarray(run(numbers)).tobytes() == numbers[:1].tobytes()
        mapped = mx.pmap(lambda x: x, out_axes=None)
        assert np.asarray(mapped(numbers)).tobytes() == numbers[0].tobytes()


def test_derivatives_are_those_of_the_first_devices_result():
    specs = {"in_specs": P("x"), "out_specs": P(), "check_vma": False}
    first = mx.shard_map(lambda x: x * x * x, mesh=MESH, **specs)
    x, way = X[:, :2], X[:, 2:]
    np.testing.assert_allclose(mx.jvp(first, (x,), (way,))[1], (3 * x**2 * way)[:2], rtol=1e-6)
    mx.check_grads(first, (x,), order=2)
    batch = mx.vmap(first)(np.stack([x, -x]))
    np.testing.assert_allclose(batch, np.stack([x[:2] ** 3, -(x[:2] ** 3)]), rtol=1e-6)
