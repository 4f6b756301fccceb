"""AllGather and AllToAll, and ReplicaId and PartitionID beside them."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError
from minixla.core.shapes import Shape
from tests.harness import check_rejected, graph_of
from tests.minixla_ops.processes import (
    check_process_batches,
    check_processes,
    check_system,
    simulated,
)
from tests.oracles.values import DTYPES

generator = np.random.default_rng(0)
TWO = [[2, 0], [1, 3]]


def rows(*sizes, count=4, dtype=np.float32):
    return [(generator.integers(-4, 5, sizes).astype(dtype),) for _ in range(count)]


def f64(*sizes, count=4):
    return [(generator.standard_normal(sizes),) for _ in range(count)]


def test_fact_all_gather():
    given = [(np.array([1.0, 2.5], "f4"),), (np.array([3.0, 5.25], "f4"),)]
    found = check_processes(lambda x: ops.all_gather(x, 0, 2), given)
    assert [each[0].tolist() for each in found] == [[1.0, 2.5, 3.0, 5.25]] * 2


def test_all_gather_joins_in_the_order_of_the_group():
    given = rows(2, 3)
    found = check_processes(lambda x: ops.all_gather(x, 1, 2, TWO), given)
    np.testing.assert_array_equal(found[0][0], np.concatenate([given[2][0], given[0][0]], 1))


def test_fact_all_to_all():
    # 4 cores, f32[4,16], split 1, concat 0: parts f32[4,4], results f32[16,4].
    given = rows(4, 16)
    found = check_processes(lambda x: ops.all_to_all(x, 1, 0, 4), given)
    parts = [[part[0][:, 4 * i : 4 * i + 4] for part in given] for i in range(4)]
    for one, other in zip(found, parts, strict=True):
        np.testing.assert_array_equal(one[0], np.concatenate(other, 0))
    found = check_processes(lambda x: ops.all_to_all(x, 1, 0, 2), rows(2, 4, count=2))
    assert [each[0].shape for each in found] == [(4, 2)] * 2


def test_fact_all_to_all_in_groups():
    # {{1,2,3},{4,5,0}}: each joins what came in the order of its group.
    groups = [[1, 2, 3], [4, 5, 0]]
    given = rows(3, count=6)
    found = simulated(lambda x: ops.all_to_all(x, 0, 0, 3, groups), given)
    for group in groups:
        for place, member in enumerate(group):
            expected = [given[other][0][place] for other in group]
            np.testing.assert_array_equal(found[member][0], expected)


def test_fact_global_device_ids():
    groups = [[0, 1, 4, 5], [2, 3, 6, 7]]
    given = rows(1, count=8)
    found = simulated(
        lambda x: ops.all_gather(x, 0, 4, groups, 1, use_global_device_ids=True), given, 4
    )
    expected = np.concatenate([given[index][0] for index in groups[1]])
    np.testing.assert_array_equal(found[6][0], expected)


@pytest.mark.parametrize("partitions", [1, 2])
def test_two_processes_in_every_mode(partitions):
    replicas = [[0]] if partitions == 2 else [[0, 1]]

    def function(x):
        return (
            ops.all_gather(x, 0, 2, replicas, 1),
            ops.all_gather(x, 0, 2, [[1, 0]], 2, use_global_device_ids=True),
            ops.all_to_all(x, 0, 1, partitions, [list(range(partitions))], channel_id=3),
            ops.replica_id(),
            ops.partition_id(),
        )

    check_processes(function, rows(2, 2, count=2), partitions=partitions)


def test_with_a_channel_alone_all_gather_goes_through_partitions_slowest():
    given = rows(1)
    found = simulated(lambda x: ops.all_gather(x, 0, 4, [[1, 0]], 1), given, 2)
    # Of replica 1 and 0 first the partitions 0, as StableHLO's specification says.
    expected = [given[index][0][0] for index in (2, 0, 3, 1)]
    np.testing.assert_array_equal(found[0][0], expected)


def test_with_a_channel_all_to_all_is_between_partitions():
    given = rows(2)
    found = simulated(lambda x: ops.all_to_all(x, 0, 0, 2, channel_id=1), given, 2)
    np.testing.assert_array_equal(found[3][0], [given[2][0][1], given[3][0][1]])


def test_fact_ids():
    found = simulated(lambda: (ops.replica_id(), ops.partition_id()), [()] * 6, 3)
    assert [tuple(map(int, each)) for each in found] == [divmod(i, 3) for i in range(6)]
    assert all(each.dtype == np.uint32 for pair in found for each in pair)
    assert [int(x) for x in mx.jit(lambda: (ops.replica_id(), ops.partition_id()))()] == [0, 0]
    assert mx.grad(lambda x: x * ops.replica_id())(2.0) == 0
    assert int(mx.vmap(lambda x: x + ops.partition_id())(np.ones(2, "u4"))[0]) == 1


@pytest.mark.parametrize("name", [n for n in DTYPES if not n.startswith("f6")])
def test_element_types(name):
    # XLA:CPU has no 6-bit floats.
    dtype = DTYPES[name]
    given = [(generator.integers(0, 2, (2, 4)).astype(dtype),) for _ in range(4)]
    groups = [[0, 1, 2, 3]]
    check_processes(
        lambda x: (ops.all_gather(x, 0, 4, groups), ops.all_to_all(x, 1, 0, 4, groups)), given
    )


@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (2, 2)])
def test_sizes_at_the_edges(sizes):
    given = rows(*sizes, count=2)

    def function(x):
        return ops.all_gather(x, 1, 2, [[0, 1]], 1), ops.all_to_all(x, 0, 0, 1, [[0], [1]])

    check_processes(function, given)


DERIVATIVES = {
    "gather": lambda x: ops.sin(ops.all_gather(ops.sin(x), 0, 2, TWO)),
    "gather all": lambda x: ops.sin(ops.all_gather(ops.sin(x), 1, 4)),
    "all to all": lambda x: ops.sin(ops.all_to_all(ops.sin(x), 0, 1, 2, TWO)),
    "all to all, one dimension": lambda x: ops.sin(ops.all_to_all(ops.sin(x), 1, 1, 4)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    check_system(DERIVATIVES[name], f64(2, 4), order=2 if name == "gather" else 1)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_batches(at):
    given = [(generator.standard_normal((2, 2, 2)),) for _ in range(2)]
    for dimension in (0, 1):
        check_process_batches(lambda x, d=dimension: ops.all_gather(x, d, 2), given, (at,))
        check_process_batches(lambda x, d=dimension: ops.all_to_all(x, d, 1 - d, 2), given, (at,))
        check_process_batches(lambda x, d=dimension: ops.all_to_all(x, d, d, 2), given, (at,))


def test_inside_shard_map_as_in_jax():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    groups = [[0, 1, 2, 3]]

    def function(x):
        gathered = ops.all_gather(x, 0, 4, groups, 1, use_global_device_ids=True)
        exchanged = ops.all_to_all(x, 1, 0, 4, groups, channel_id=1)
        return gathered[:2], exchanged, ops.partition_id()[None]

    def in_jax(x):
        gathered = lax.all_gather(x, "i", axis=0, tiled=True)
        exchanged = lax.all_to_all(x, "i", 1, 0, tiled=True)
        return gathered[:2], exchanged, lax.axis_index("i").astype("uint32")[None]

    x = generator.standard_normal((8, 4)).astype("f4")
    found, expected = (
        jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))(x)
        for f in (function, in_jax)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_process_compiles():
    x = rows(2, 2)[0][0]
    for one, other in zip(
        mx.jit(lambda x: (ops.all_gather(x, 0, 1), ops.all_to_all(x, 0, 1, 1)))(x),
        (x, x),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_text():
    x = np.ones((4, 6), "f4")
    graph = graph_of(lambda x: ops.all_to_all(x, 1, 0, 2, channel_id=5), [x])
    text = graph.stablehlo()
    # jaxlib's parser dies of an all_to_all without groups.
    assert "split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>" in text
    lines = [line.strip() for line in str(graph).splitlines() if " = " in line][1:]
    assert [line.split(", metadata")[0].split("= ")[1] for line in lines] == [
        "f32[4,6] all-to-all(%arg0.1), channel_id=5, replica_groups={}, dimensions={1}",
        "f32[4,2,3] reshape(%all-to-all.2)",
        "f32[2,4,3] transpose(%reshape.3), dimensions={1,0,2}",
        "f32[8,3] reshape(%transpose.4)",
    ]
    graph = graph_of(lambda x: ops.all_gather(x, 1, 2, [[0, 1]]), [x])
    assert "all-gather(%arg0.1), replica_groups={{0,1}}, dimensions={1}" in str(graph)
    # What a channel without global ids reaches is not known: XLA takes an empty list.
    graph = graph_of(lambda x: ops.all_gather(x, 1, 2, (), 1), [x])
    assert "replica_groups = dense<> : tensor<0x0xi64>" in graph.stablehlo()
    np.testing.assert_array_equal(mx.jit(lambda x: ops.all_gather(x, 1, 1, (), 1))(x), x)
    assert "partition-id()" in str(graph_of(lambda: ops.partition_id(), []))
    assert (
        '"stablehlo.replica_id"() : () -> (tensor<ui32>)'
        in graph_of(ops.replica_id, []).stablehlo()
    )


def test_calls_that_mean_the_same_are_of_one_operation():
    operations = [
        graph_of(lambda x, how=how: ops.all_gather(x, 0, 2, *how), [np.ones(2, "f4")])
        .instructions[0]
        .op
        for how in (
            [[[0, 1]]],
            [((0, 1),), 0, "any layout", False],
            [np.array([[0, 1]]), None, {0: 1}, None],
            [[[1, 0]]],
        )
    ]
    assert operations[0] is operations[1] is operations[2] is not operations[3]
    assert operations[0].groups["channel_id"] is None


def gather(*arguments, **how):
    return lambda x: ops.all_gather(x, *arguments, **how)


def exchange(*arguments):
    return lambda x: ops.all_to_all(x, *arguments)


@pytest.mark.parametrize(
    ("function", "phrases"),
    [
        (gather(2, 2), ["all_gather: (C1) all_gather_dimension 2 is no", "[0, 2)"]),
        (gather(0, 2, [[0], [1]]), ["(G2) a group has 1 members; it must have 2"]),
        (gather(0, 3, [[0, 1]], 1), ["(G2)", "must have 3"]),
        (gather(0, 2, [[0, 1], [1, 2]]), ["(G1)", "repeated numbers"]),
        (gather(0, 1, use_global_device_ids=True), ["(G3)", "channel_id"]),
        (gather(0, 0), ["shard_count", ">= 1"]),
        (exchange(2, 0, 2), ["all_to_all: (C1) split_dimension 2"]),
        (exchange(0, -1, 2), ["(C1) concat_dimension -1"]),
        (exchange(1, 0, 3), ["(C2) split_count 3 must divide the size of dimension 1", "f32[2,4]"]),
        (exchange(1, 0, 2, [[0, 1, 2]]), ["(G2) a group has 3 members"]),
        (lambda x: ops.partition_id(Shape("s32")), ["(C1) the shape must be u32[]"]),
    ],
)
def test_rejected(function, phrases):
    check_rejected(function, [np.ones((2, 4), "f4")], AttributeValueError, *phrases)


def test_rejected_when_it_runs():
    x = np.ones((2, 4), "f4")
    with pytest.raises(AttributeValueError, match=r"\(G2\) shard_count is 2, but the group has 1"):
        mx.reference(gather(0, 2))(x)
    with pytest.raises(AttributeValueError, match=r"\(G4\) replica_groups has process 1"):
        mx.reference(exchange(0, 0, 2, [[0, 1]]))(x)
