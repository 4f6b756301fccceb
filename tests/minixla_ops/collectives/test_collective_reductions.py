"""AllReduce, CrossReplicaSum and ReduceScatter."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, DerivativeError, ShapeError, TransformError
from tests.harness import check_rejected, graph_of
from tests.minixla_ops.processes import (
    check_process_batches,
    check_processes,
    check_system,
    simulated,
)
from tests.oracles.values import DTYPES

generator = np.random.default_rng(0)
TWO = [[0, 2], [1, 3]]


def rows(*sizes, count=4, dtype=np.float32):
    return [(generator.integers(-4, 5, sizes).astype(dtype),) for _ in range(count)]


def f64(*sizes, count=4):
    return [(generator.standard_normal(sizes),) for _ in range(count)]


def softplus(x, y):
    """log(exp x + exp y): a computation that XLA's collectives do not know."""
    return ops.log(ops.exp(x) + ops.exp(y))


def test_fact_all_reduce_adds_element_by_element():
    given = [(np.array([1.0, 2.5], "f4"),), (np.array([3.0, 5.25], "f4"),)]
    # The interpreter takes no empty list of groups.
    for groups in ([[0, 1]], ()):
        found = check_processes(
            lambda x, groups=groups: ops.all_reduce(x, ops.add, groups),
            given,
            interpreter=bool(groups),
        )
        assert [each[0].tolist() for each in found] == [[4.0, 7.75]] * 2


def test_fact_cross_replica_sum_is_all_reduce_with_add():
    given = rows(2)
    found = check_processes(lambda x: ops.cross_replica_sum(x, TWO), given)
    np.testing.assert_array_equal(found[0][0], given[0][0] + given[2][0])
    np.testing.assert_array_equal(found[3][0], given[1][0] + given[3][0])
    graph = graph_of(lambda x: ops.cross_replica_sum(x, TWO), given[0])
    assert graph == graph_of(lambda x: ops.all_reduce(x, ops.add, TWO), given[0])


def test_fact_reduce_scatter():
    given = [(np.array([1.0, 2.25], "f4"),), (np.array([3.0, 5.25], "f4"),)]
    found = check_processes(lambda x: ops.reduce_scatter(x, ops.add, 0, 2), given)
    assert [each[0].tolist() for each in found] == [[4.0], [7.5]]
    found = check_processes(lambda x: ops.reduce_scatter(x, ops.add, 1, 2), rows(2, 4, count=2))
    assert [each[0].shape for each in found] == [(2, 2)] * 2
    given = rows(2)
    found = check_processes(lambda x: ops.reduce_scatter(x, ops.add, 0, 2, TWO), given)
    totals = given[0][0] + given[2][0], given[1][0] + given[3][0]
    expected = [totals[0][:1], totals[1][:1], totals[0][1:], totals[1][1:]]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one[0], other)


def test_fact_a_tuple_is_reduced_member_by_member():
    given = [(*a, *b) for a, b in zip(rows(2), rows(4, 3), strict=True)]
    for container in (tuple, list, ops.tuple):
        found = check_processes(
            lambda x, y, c=container: ops.all_reduce(c([x, y]), ops.add, TWO), given
        )
        np.testing.assert_array_equal(found[0][0], given[0][0] + given[2][0])
        np.testing.assert_array_equal(found[1][1], given[1][1] + given[3][1])

    def scattered(x, y):
        return ops.reduce_scatter((x, y), ops.add, 0, 2, TWO)

    assert [x.shape for x in check_processes(scattered, given)[0]] == [(1,), (2, 3)]
    alone = mx.make_graph(lambda x: ops.all_reduce((x,), ops.add))(given[0][0])
    assert len(alone.outputs) == 1
    assert type(mx.simulate(lambda x: ops.all_reduce((x,), ops.add), [[(1.0,)]])[0][0]) is tuple


def test_fact_global_device_ids():
    # 2 replicas of 4 partitions.
    groups = [[0, 1, 4, 5], [2, 3, 6, 7]]

    def function(x):
        total = ops.all_reduce(x, ops.add, groups, 1, use_global_device_ids=True)
        part = ops.reduce_scatter(x, ops.add, 0, 4, groups, 2, use_global_device_ids=True)
        return total, part

    given = rows(4, count=8)
    found = check_processes(function, given, partitions=4)
    total = sum(given[index][0] for index in groups[0])
    np.testing.assert_array_equal(found[4][0], total)
    np.testing.assert_array_equal(found[4][1], total[2:3])


@pytest.mark.parametrize("channel", [None, 0, 3])
def test_without_global_ids_a_channel_adds_the_partitions(channel):
    given = rows(2, count=4)
    found = check_processes(
        lambda x: ops.all_reduce(x, ops.add, [[0, 1]], channel), given, partitions=2
    )
    members = range(4) if channel else (0, 2)
    np.testing.assert_array_equal(found[0][0], sum(given[index][0] for index in members))


def test_groups_may_differ_in_size():
    given = rows(2)
    found = check_processes(lambda x: ops.all_reduce(x, ops.add, [[0, 3, 1], [2]]), given)
    np.testing.assert_array_equal(found[2][0], given[2][0])


COMPUTATIONS = {
    "add": ops.add,
    "mul": ops.mul,
    "max": ops.max,
    "min": ops.min,
    "and": ops.and_,
    "or": ops.or_,
    "xor": ops.xor,
}
# Narrow floats are rounded differently, see tests/oracles.
TYPES = [name for name in DTYPES if not name.startswith(("f4", "f6", "f8"))]


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_element_types(name, count):
    computation, arrays = COMPUTATIONS[name], []
    for dtype in (DTYPES[each] for each in TYPES):
        is_inexact = dtype.kind in "fcV" and "int" not in dtype.name
        if is_inexact and name in ("and", "or", "xor"):
            continue
        if dtype.kind == "c" and name in ("max", "min"):
            continue  # the next test
        arrays.append([generator.integers(0, 3, 4).astype(dtype) for _ in range(count)])

    def function(*xs):
        groups = [list(range(count))]
        return [
            ops.all_reduce(x, computation, groups, channel, use_global_device_ids=True)
            for channel, x in enumerate(xs, 1)
        ]

    check_processes(function, list(zip(*arrays, strict=True)), xla=count == 4)


def test_any_computation_runs_as_gathering_and_folding():
    # Neither of these is a reduction that XLA's backends know.
    def function(x, y, z):
        return (
            ops.all_reduce(x, softplus, TWO),
            ops.reduce_scatter(x, softplus, 1, 2, TWO),
            ops.all_reduce(y, lambda a, b: a * 2 + b, [[3, 1, 0, 2]]),
            ops.all_reduce(z, ops.max, [[0, 1, 2, 3]]),
        )

    given = [
        (x, y, x.ravel() + 1j)
        for (x,), (y,) in zip(rows(2, 4), rows(3, dtype=np.int32), strict=True)
    ]
    found = check_processes(function, given, ulp=8)
    y = [each[1] for each in given]
    np.testing.assert_array_equal(found[0][2], ((y[3] * 2 + y[1]) * 2 + y[0]) * 2 + y[2])


def test_its_group_size_must_be_known():
    def function(x):
        return ops.all_reduce(x, softplus)

    with pytest.raises(TransformError, match=r"needs the size of the groups[\s\S]*equal size"):
        mx.jit(function)(np.ones(2, "f4"))
    with pytest.raises(TransformError, match="needs the size of the groups"):
        mx.simulate(mx.grad(function), [[(1.0,)], [(2.0,)]])
    assert mx.reference(function)(np.float32(1)) == 1


@pytest.mark.parametrize("shift", [1, 2])
def test_values_at_the_edges(shift):
    values = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0], "f4")
    given = [(values,), (np.roll(values, shift),)]

    def function(x):
        four = enumerate([ops.add, ops.mul, ops.max, ops.min], 1)
        return [ops.all_reduce(x, each, [[0, 1]], channel) for channel, each in four]

    # XLA's order of -0 and 0 in a maximum is its own.
    with np.errstate(all="ignore"):
        check_processes(function, given, xla=False)


@pytest.mark.parametrize("sizes", [(0,), (2, 0), (1, 2), ()])
def test_sizes_at_the_edges(sizes):
    given = rows(*sizes, count=2)
    # XLA is given arrays of rank 1 and more.
    is_plain = sizes != ()
    check_processes(lambda x: ops.all_reduce(x, ops.add, [[0, 1]]), given, xla=is_plain)


DERIVATIVES = {
    "add": lambda x: ops.sin(ops.all_reduce(ops.sin(x), ops.add, TWO)),
    "add to all": lambda x: ops.exp(ops.all_reduce(ops.sin(x), ops.add)) * x,
    "max": lambda x: ops.sin(ops.all_reduce(ops.sin(x), ops.max, TWO)),
    "min": lambda x: ops.sin(ops.all_reduce(ops.sin(x), ops.min)),
    "mul": lambda x: ops.sin(ops.all_reduce(ops.sin(x), ops.mul, TWO)),
    "softplus": lambda x: ops.sin(ops.all_reduce(ops.sin(x), softplus, TWO)),
    "two": lambda x: ops.all_reduce([ops.sin(x), ops.exp(x)], ops.add)[1] * x,
    "scatter add": lambda x: ops.sin(ops.reduce_scatter(ops.sin(x), ops.add, 0, 2, TWO)),
    "scatter max": lambda x: ops.sin(ops.reduce_scatter(ops.sin(x), ops.max, 0, 4)),
    "scatter mul": lambda x: ops.sin(ops.reduce_scatter(ops.sin(x), ops.mul, 0, 2, TWO)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    check_system(DERIVATIVES[name], f64(4), order=2 if name in ("add", "max", "softplus") else 1)


def test_derivatives_over_partitions():
    groups = [[0, 3], [2, 1]]

    def function(x):
        total = ops.all_reduce(ops.sin(x), ops.mul, groups, 1, use_global_device_ids=True)
        return ops.reduce_scatter(total * x, ops.add, 0, 4, (), 1)

    check_system(function, f64(4), partitions=2)


def test_the_derivative_of_a_maximum_is_shared_by_those_that_have_it():
    slope = mx.simulate(
        mx.grad(lambda x: ops.all_reduce(x, ops.max)), [[(1.0,)], [(2.0,)], [(2.0,)]]
    )
    # The sum of three results depends on the two that are largest, half on each.
    assert [float(each[0]) for each in slope] == [0.0, 1.5, 1.5]


def test_no_derivative_of_a_computation_that_has_none():
    def function(x):
        return ops.all_reduce(x, lambda a, b: ops.round_nearest_even(a + b), [[0, 1]])

    assert [r[0] for r in mx.simulate(mx.grad(function), [[(1.0,)], [(2.0,)]])] == [0, 0]


def test_a_jvp_rule_may_not_apply_a_maximum_to_tangents():
    @mx.custom_jvp
    def function(x):
        return x

    function.defjvp(lambda p, t: (p[0], ops.all_reduce(t[0], ops.max)))
    with pytest.raises(DerivativeError, match="only sums are linear"):
        mx.simulate(mx.grad(function), [[(1.0,)]])


@pytest.mark.parametrize("at", [0, 1, 2])
def test_batches(at):
    given = [(generator.standard_normal((2, 2, 2)), generator.standard_normal(2)) for _ in range(2)]
    check_process_batches(lambda x, y: ops.all_reduce((x, y), ops.add), given, (at, None))
    check_process_batches(lambda x, y: ops.reduce_scatter((x, y), ops.add, 0, 2), given, (at, None))
    check_process_batches(lambda x, _: ops.reduce_scatter(x, ops.add, 1, 2), given, (at, None))


def test_inside_shard_map():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    groups = [[0, 1, 2, 3]]

    def function(x):
        how = dict(channel_id=1, use_global_device_ids=True)
        return (
            ops.all_reduce(ops.sin(x), ops.add, groups, **how),
            ops.reduce_scatter(x, ops.max, 0, 4, [[2, 0, 3, 1]], **how),
            ops.all_reduce(x, softplus, groups, **how),
        )

    x = generator.standard_normal((16,)).astype("f4")
    found = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec))(x)
    rows = [[(part,) for part in np.split(x, 4)]]
    expected = zip(*mx.simulate(function, rows)[0], strict=True)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, np.concatenate(other), rtol=1e-5)


def test_text():
    def function(x):
        return ops.all_reduce(x, ops.add, [[0, 1], [2]], 3, use_global_device_ids=True)

    graph = graph_of(function, [np.ones(2, "f4")])
    assert (
        "replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>, "
        "channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, "
        "use_global_device_ids = unit" in graph.stablehlo()
    )
    assert (
        "all-reduce(%arg0.1), channel_id=3, replica_groups={{0,1},{2}}, "
        "use_global_device_ids=true, to_apply=%add" in str(graph)
    )
    graph = graph_of(lambda x: ops.reduce_scatter(x, ops.add, 0, 2), [np.ones(2, "f4")])
    assert "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>" in graph.stablehlo()
    assert "reduce-scatter(%arg0.1), replica_groups={}, dimensions={0}, to_apply=%add" in str(graph)


def reduced(*groups, computation=ops.add, **how):
    return lambda *xs: ops.all_reduce(xs, computation, *groups, **how)


def scattered(*arguments):
    return lambda x: ops.reduce_scatter(x, ops.add, *arguments)


X, N = np.ones((2, 4), "f4"), np.ones(2, "i4")


@pytest.mark.parametrize(
    ("function", "operands", "error", "phrases"),
    [
        (reduced(), [], ShapeError, ["all_reduce: (C1) at least one operand is required"]),
        (reduced(), [X, N], ShapeError, ["(C2) operands must have equal element types", "s32[2]"]),
        (reduced(computation=ops.eq), [X], ShapeError, ["(C3)", "(f32[], f32[]) -> (f32[])"]),
        (
            reduced([[0], []]),
            [X],
            AttributeValueError,
            ["(G1) replica_groups must not have empty groups", "replica_groups ((0,), ())"],
        ),
        (reduced([[0, 0]]), [X], AttributeValueError, ["(G1)", "repeated numbers"]),
        (
            reduced([[0, 10**15]]),
            [X],
            AttributeValueError,
            ["(G4) replica_groups lacks process 1 of 1000000000000001"],
        ),
        (
            reduced(use_global_device_ids=True),
            [X],
            AttributeValueError,
            ["(G3) use_global_device_ids needs a channel", "channel_id"],
        ),
        (scattered(2, 2), [X], AttributeValueError, ["reduce_scatter: (C4) scatter_dimension 2"]),
        (scattered(1, 3), [X], AttributeValueError, ["(C5) shard_count 3 must divide"]),
        (scattered(1, 2, [[0]]), [X], AttributeValueError, ["(G2) a group has 1 members", "2"]),
    ],
)
def test_rejected(function, operands, error, phrases):
    check_rejected(function, operands, error, *phrases)


@pytest.mark.parametrize(
    ("groups", "phrase"),
    [([[0]], "lacks process 1 of 2"), ([[0, 1, 2]], "has process 2, but there are")],
)
def test_rejected_when_it_runs(groups, phrase):
    with pytest.raises(AttributeValueError, match=rf"\(G4\)[\s\S]*{phrase}"):
        mx.simulate(lambda x: ops.all_reduce(x, ops.add, groups), [[(1.0,)], [(2.0,)]])
    with pytest.raises(AttributeValueError, match=r"\(G2\) shard_count is 2, but the group has 1"):
        mx.reference(lambda x: ops.reduce_scatter(x, ops.add, 0, 2))(X)


def test_one_process_compiles():
    found = mx.jit(
        lambda x: (ops.cross_replica_sum(x), ops.reduce_scatter((x, x * 2), ops.max, 0, 1))
    )(X)
    np.testing.assert_array_equal(found[1][1], 2 * X)
    assert simulated(lambda x: ops.cross_replica_sum(x), [(X,)])[0][0].shape == (2, 4)
