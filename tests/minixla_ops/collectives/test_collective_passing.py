"""CollectivePermute and CollectiveBroadcast."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, TransformError
from tests.harness import check_rejected, graph_of
from tests.minixla_ops.processes import (
    check_process_batches,
    check_processes,
    check_system,
    simulated,
)
from tests.oracles.parallel import interpret_parallel
from tests.oracles.values import DTYPES
from tests.oracles.verifier import verify

generator = np.random.default_rng(0)
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def rows(*sizes, count=4, dtype=np.float32):
    return [(generator.integers(1, 5, sizes).astype(dtype),) for _ in range(count)]


def values(found):
    return [np.asarray(each[0]).tolist() for each in found]


def test_fact_who_is_no_target_gets_zeros():
    given = rows(2)
    found = check_processes(lambda x: ops.collective_permute(x, [(0, 2), (3, 1)]), given)
    x = values(given)
    assert values(found) == [[0, 0], x[3], x[0], [0, 0]]
    assert values(simulated(lambda x: ops.collective_permute(x, []), given)) == [[0, 0]] * 4
    found = check_processes(lambda x: ops.collective_permute(x, RING, inplace=True), given)
    assert values(found) == [x[3], x[0], x[1], x[2]]


def test_fact_the_first_of_a_group_broadcasts_and_others_get_zeros():
    given = rows(2)
    x = values(given)
    # XLA:CPU, which lacks the operation, runs it as permutations.
    found = check_processes(lambda x: ops.collective_broadcast(x, [[2, 0], [3]]), given)
    assert values(found) == [x[2], [0, 0], x[2], x[3]]
    found = check_processes(lambda x: ops.collective_broadcast(x, [[1, 0, 2, 3]]), given)
    assert values(found) == [x[1]] * 4
    found = simulated(lambda x: ops.collective_broadcast(x), given)
    assert values(found) == [x[0]] * 4


@pytest.mark.parametrize("partitions", [1, 2])
def test_two_processes(partitions):
    channel = {1: None, 2: 1}[partitions]

    def permute(x):
        return ops.collective_permute(x, [(1, 0)], channel)

    def broadcast(x):
        return ops.collective_broadcast(x, [[1, 0]], channel)

    given = rows(2, count=2)
    x = values(given)
    assert values(check_processes(permute, given, partitions=partitions)) == [x[1], [0, 0]]
    assert values(check_processes(broadcast, given, partitions=partitions)) == [x[1]] * 2


def test_with_a_channel_it_is_between_partitions():
    given = rows(2)
    x = values(given)
    found = simulated(lambda x: ops.collective_permute(x, [(0, 1)], 1), given, 2)
    assert values(found) == [[0, 0], x[0], [0, 0], x[2]]
    found = simulated(lambda x: ops.collective_broadcast(x, [[1, 0]], 1), given, 2)
    assert values(found) == [x[1], x[1], x[3], x[3]]


@pytest.mark.parametrize("name", [n for n in DTYPES if not n.startswith("f6")])
def test_element_types(name):
    # XLA:CPU has no 6-bit floats.
    given = rows(3, dtype=DTYPES[name]) if DTYPES[name] != np.bool_ else rows(3, dtype=np.bool_)
    check_processes(
        lambda x: (
            ops.collective_permute(x, [(0, 1), (2, 3)]),
            ops.collective_broadcast(x, [[1, 2]]),
        ),
        given,
    )


def test_signs_of_zeros_and_nan_pass():
    given = [(np.array([-0.0, np.nan, -np.inf], "f4"),), (np.ones(3, "f4"),)]
    found = check_processes(lambda x: ops.collective_broadcast(x, [[0, 1]]), given)
    assert np.signbit(found[1][0][0])


def test_a_process_that_neither_sends_nor_receives_need_not_call():
    programs = [[lambda x: ops.collective_permute(x, [(0, 1)])]] * 2 + [[lambda x: x]]
    found = mx.simulate(programs, [[(1.0,)], [(2.0,)], [(3.0,)]])
    assert [float(each[0]) for each in found] == [0, 1, 3]


DERIVATIVES = {
    "permute": lambda x: ops.sin(ops.collective_permute(ops.sin(x), [(0, 2), (3, 1)])),
    "ring": lambda x: ops.sin(ops.collective_permute(ops.sin(x), RING)) * x,
    "broadcast": lambda x: ops.sin(ops.collective_broadcast(ops.sin(x), [[2, 0, 3]])) * x,
    "broadcasts": lambda x: ops.sin(ops.collective_broadcast(x, [[0], [3, 1, 2]])),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    check_system(DERIVATIVES[name], [(generator.standard_normal(2),) for _ in range(4)], order=2)


def test_a_broadcast_to_all_without_groups_is_not_transposed():
    def function(x):
        return ops.collective_broadcast(x)

    assert mx.simulate(lambda x: mx.jvp(function, (x,), (x,))[1], [[(2.0,)], [(3.0,)]]) == [
        [2],
        [2],
    ]
    with pytest.raises(TransformError, match="needs the size of the groups"):
        mx.simulate(mx.grad(function), [[(2.0,)], [(3.0,)]])


@pytest.mark.parametrize("at", [0, 1])
def test_batches(at):
    given = [(generator.standard_normal((2, 2)),) for _ in range(2)]
    check_process_batches(lambda x: ops.collective_permute(x, [(0, 1)]), given, (at,))
    check_process_batches(lambda x: ops.collective_broadcast(x, [[1, 0]]), given, (at,))


def test_inside_shard_map_as_in_jax():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    x = generator.standard_normal(8).astype("f4")

    def loss(permute, x):
        specs = {"mesh": mesh, "in_specs": spec, "out_specs": spec, "check_vma": False}
        return jax.jit(lambda x: jax.shard_map(lambda x: permute(x) ** 2, **specs)(x).sum())(x)

    def ours(x):
        return ops.collective_permute(x, RING, 1)

    def theirs(x):
        return lax.ppermute(x, "i", RING)

    np.testing.assert_array_equal(loss(ours, x), loss(theirs, x))
    slopes = [jax.grad(lambda x, f=f: loss(f, x))(x) for f in (ours, theirs)]
    np.testing.assert_array_equal(*slopes)


def test_text():
    x = np.ones(2, "f4")
    graph = graph_of(lambda x: ops.collective_permute(x, [(0, 1), (1, 0)], 3), [x])
    assert (
        "source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, channel_handle = "
        "#stablehlo.channel_handle<handle = 3, type = 1>" in graph.stablehlo()
    )
    assert "collective-permute(%arg0.1), channel_id=3, source_target_pairs={{0,1},{1,0}}" in str(
        graph
    )
    nobody = graph_of(lambda x: ops.collective_permute(x, []), [x])
    assert "dense<> : tensor<0x2xi64>" in nobody.stablehlo()
    assert interpret_parallel([[nobody]], [[x]])[0][0].tolist() == [0, 0]
    for groups, name, listed in (
        ([[0, 1], [2, 3]], "broadcast", "{{0,1},{2,3}}"),
        # StableHLO has no groups of several sizes.
        ([[0, 1], [2]], "permute", "{{0,1},{2}}"),
    ):
        graph = graph_of(lambda x, groups=groups: ops.collective_broadcast(x, groups), [x])
        verify(graph.stablehlo())
        assert f'"stablehlo.collective_{name}"(%arg0)' in graph.stablehlo()
        assert f"collective-broadcast(%arg0.1), replica_groups={listed}" in str(graph)


def test_one_process_compiles():
    x = np.ones(2, "f4")
    for function in (
        lambda x: ops.collective_permute(x, [(0, 0)]),
        lambda x: ops.collective_broadcast(x, [[0]]),
    ):
        np.testing.assert_array_equal(mx.jit(function)(x), x)
    with pytest.raises(TransformError, match="needs the size of the groups"):
        mx.jit(lambda x: ops.collective_broadcast(x))(x)


def permute(*pairs):
    return lambda x: ops.collective_permute(x, pairs)


@pytest.mark.parametrize(
    ("function", "phrases"),
    [
        (permute((0, 1, 2)), ["collective_permute: (C1) each pair must have two numbers"]),
        (permute((0, 1), (0, 2)), ["(C2) a source must not be repeated", "((0, 1), (0, 2))"]),
        (permute((0, 1), (2, 1)), ["(C2) a target must not be repeated"]),
        (permute((-1, 1)), ["source_target_pairs", ">= 0"]),
        (lambda x: ops.collective_broadcast(x, [[0, 0]]), ["collective_broadcast: (G1)"]),
    ],
)
def test_rejected(function, phrases):
    check_rejected(function, [np.ones(2, "f4")], AttributeValueError, *phrases)


def test_rejected_when_it_runs():
    with pytest.raises(AttributeValueError, match=r"\(G4\) replica_groups has process 1"):
        mx.reference(permute((0, 1)))(1.0)
