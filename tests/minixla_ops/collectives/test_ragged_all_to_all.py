"""RaggedAllToAll."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, IndexingError, ShapeError
from tests.harness import check_rejected, graph_of
from tests.minixla_ops.processes import (
    check_process_batches,
    check_processes,
    check_system,
    simulated,
)
from tests.oracles.values import DTYPES

generator = np.random.default_rng(0)


def indices(*values):
    return np.array(values, np.int32)


def floats(*values):
    return np.array(values, np.float32)


#: The page's example: input, input_offsets, send_sizes, output, output_offsets, recv_sizes.
FACT = [
    (
        floats(1, 2, 2),
        indices(0, 1),
        indices(1, 2),
        floats(0, 0, 0, 0),
        indices(0, 0),
        indices(1, 1),
    ),
    (
        floats(3, 4, 0),
        indices(0, 1),
        indices(1, 1),
        floats(0, 0, 0, 0),
        indices(1, 2),
        indices(2, 1),
    ),
]


def random_case(members, updates, rest=(), dtype=np.float32, index=np.int32):
    """Rows at random places, apart from each other; outputs hold other values before."""
    shape = (members, members, updates) if updates else (members, members)
    sizes = generator.integers(0, 3, shape)  # [sender, receiver, update]
    flat = sizes.reshape(members, -1)
    starts = (np.cumsum(flat, 1) - flat).reshape(shape)
    # In the receiver's output senders follow each other, a row apart.
    spread = np.moveaxis(sizes, 1, 0).reshape(members, -1) + 1
    places = np.moveaxis(
        (np.cumsum(spread, 1) - spread).reshape(np.moveaxis(sizes, 1, 0).shape), 0, 1
    )
    rows, length = 2 * flat.shape[1], 3 * flat.shape[1]

    def some(count):
        return generator.integers(0, 2, (count, *rest)).astype(dtype)

    return [
        (
            some(rows),
            *(each[i].astype(index) for each in (starts, sizes)),
            some(length),
            places[i].astype(index),
            sizes[:, i].astype(index),
        )
        for i in range(members)
    ]


def test_fact_ragged_all_to_all():
    found = check_processes(ops.ragged_all_to_all, FACT, interpreter=False)
    assert [each[0].tolist() for each in found] == [[1, 3, 0, 0], [2, 2, 4, 0]]


def test_fact_elements_of_a_ragged_tensor():
    # data [8,3], offsets {0,1,4}, sizes {1,3,4}: elements of 1, 3 and 4 rows.
    data = np.array([list(row) for row in ("abc", "def", "ghi", "jkl", "mno", "pqr", "stu", "vwx")])
    data = np.array([[ord(letter) for letter in row] for row in data], np.int32)
    offsets, sizes = indices(0, 1, 4), indices(1, 3, 4)
    empty, zero = np.zeros((4, 3), np.int32), indices(0, 0, 0)
    receive = [indices(n, 0, 0) for n in (1, 3, 4)]
    given = [(data, offsets, sizes, empty, zero, receive[0])]
    given += [(data, zero, zero, empty, zero, each) for each in receive[1:]]
    found = simulated(ops.ragged_all_to_all, given)
    texts = ["".join(map(chr, each[0].ravel())).rstrip("\0") for each in found]
    assert texts == ["abc", "defghijkl", "mnopqrstuvwx"]


@pytest.mark.parametrize("updates", [0, 1, 2])
@pytest.mark.parametrize(("members", "rest"), [(2, ()), (4, (2,)), (1, (1, 2))])
def test_random_updates(members, updates, rest):
    # StableHLO has no such operation: XLA runs the program of others that it is.
    given = random_case(members, updates, rest)
    check_processes(ops.ragged_all_to_all, given, interpreter=False)


def test_groups_and_partitions():
    pairs = random_case(2, 0)
    given = [pairs[0], pairs[0], pairs[1], pairs[1]]
    groups = [[0, 2], [3, 1]]
    swapped = random_case(2, 0)
    given[3], given[1] = swapped
    found = check_processes(
        lambda *xs: ops.ragged_all_to_all(*xs, groups), given, interpreter=False
    )
    alone = simulated(ops.ragged_all_to_all, pairs)
    np.testing.assert_array_equal(found[2][0], alone[1][0])
    found = simulated(lambda *xs: ops.ragged_all_to_all(*xs, channel_id=1), pairs, 2)
    np.testing.assert_array_equal(found[1][0], alone[1][0])


def test_element_types():
    names = [n for n in DTYPES if not n.startswith("f6")]
    _, starts, sizes, _, places, counts = map(list, zip(*random_case(2, 0), strict=True))
    data = [[generator.integers(0, 2, 4).astype(DTYPES[n]) for n in names] for _ in range(2)]
    output = [[generator.integers(0, 2, 6).astype(DTYPES[n]) for n in names] for _ in range(2)]

    def function(starts, sizes, places, counts, *xs):
        half = len(xs) // 2
        return [
            ops.ragged_all_to_all(x, starts, sizes, out, places, counts)
            for x, out in zip(xs[:half], xs[half:], strict=True)
        ]

    given = [(starts[i], sizes[i], places[i], counts[i], *data[i], *output[i]) for i in range(2)]
    check_processes(function, given, interpreter=False)
    check_processes(ops.ragged_all_to_all, random_case(2, 0, index=np.uint8), interpreter=False)


def test_nothing_to_send_and_nowhere_to_write():
    none = indices(0, 0)
    for sizes in ((0, 3), (2, 0)):
        given = [(np.ones(sizes[0], "f4"), none, none, np.ones(sizes[1], "f4"), none, none)] * 2
        found = simulated(ops.ragged_all_to_all, given)
        assert found[0][0].tolist() == [1.0] * sizes[1]


def test_derivatives():
    case = [
        tuple(x.astype(float) if x.dtype == np.float32 else x for x in row)
        for row in random_case(2, 2, (2,))
    ]

    def function(x, out):
        given = [ops.constant(np.stack([row[at] for row in case])) for at in (1, 2, 4, 5)]
        own = ops.replica_id()
        starts, sizes, places, counts = (mx.numpy.take(each, own, axis=0) for each in given)
        return ops.sin(ops.ragged_all_to_all(ops.sin(x), starts, sizes, out * out, places, counts))

    data = [tuple(generator.standard_normal(x.shape) for x in (row[0], row[3])) for row in case]
    check_system(function, data, order=2)


@pytest.mark.parametrize(
    "axes", [(0, None, None, 2, None, None), (1, None, None, None, None, None)]
)
def test_batches(axes):
    given = []
    for row in random_case(2, 0, (3,)):
        row = list(row)
        for at in (0, 3):
            if axes[at] is not None:
                row[at] = np.stack([row[at], row[at] + 1], axes[at])
        given.append(tuple(row))
    check_process_batches(ops.ragged_all_to_all, given, axes)


def test_batches_of_offsets():
    given = [tuple(np.stack([x, x]) for x in row) for row in FACT]
    check_process_batches(ops.ragged_all_to_all, given, (0,) * 6)


def test_text():
    graph = graph_of(lambda *xs: ops.ragged_all_to_all(*xs, [[0, 1]], 2), FACT[0])
    # In the order in which JAX's own program has them in HLO: both arrays come first.
    names = ", ".join(f"%arg{i}.{i + 1}" for i in (0, 3, 1, 2, 4, 5))
    assert f"ragged-all-to-all({names}), channel_id=2, replica_groups={{{{0,1}}}}" in str(graph)
    assert graph.stablehlo().count("stablehlo.all_to_all") == 4


def changed(**changes):
    names = ["input", "input_offsets", "send_sizes", "output", "output_offsets", "recv_sizes"]
    return [changes.get(name, value) for name, value in zip(names, FACT[0], strict=True)]


@pytest.mark.parametrize(
    ("operands", "phrases"),
    [
        (changed(output=indices(0)), ["(C1) input and output must have equal rows", "s32[1]"]),
        (changed(output=np.ones((4, 2), "f4")), ["(C1)", "output f32[4,2]"]),
        (
            changed(send_sizes=indices(1, 2, 3)),
            ["(C2) offsets and sizes must be integers", "s32[3]"],
        ),
        (changed(recv_sizes=floats(1, 1)), ["(C2)", "f32[2]", "[members, updates]"]),
    ],
)
def test_rejected(operands, phrases):
    check_rejected(
        lambda *xs: ops.ragged_all_to_all(*xs),
        operands,
        ShapeError,
        "ragged_all_to_all: ",
        *phrases,
    )


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        ({"input_offsets": indices(0, 2)}, r"rows 2:4 are outside the input of 3 rows"),
        ({"output_offsets": indices(4, 0)}, r"\(0, 0\) writes rows 4:5 of an output of 4"),
        ({"output_offsets": indices(0, -1)}, r"\(0, 0\) writes rows -1:1 of an output"),
        (
            {"output_offsets": indices(1, 0)},
            r"\(1, 0\) writes rows that another update has",
        ),
        ({"recv_sizes": indices(1, 2)}, r"recv_sizes has 2 rows, but \(1, 0\) sends 1"),
    ],
)
def test_undefined_results_are_errors(changes, phrase):
    given = [[tuple(changed(**changes))], [FACT[1]]]
    with pytest.raises(IndexingError, match=rf"ragged_all_to_all: {phrase}[\s\S]*called at"):
        mx.simulate(lambda *xs: ops.ragged_all_to_all(*xs), given)


def test_rejected_groups():
    with pytest.raises(AttributeValueError, match=r"\(G2\) a group has 1 members"):
        ops.ragged_all_to_all(*FACT[0], [[0]])
    with pytest.raises(
        AttributeValueError, match=r"\(G2\) offsets are for 2 members, but the group has 1"
    ):
        mx.reference(ops.ragged_all_to_all)(*FACT[0])
