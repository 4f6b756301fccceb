"""Which results of a program may differ between the devices that run it."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
from minixla import ops
from minixla.sharding.differing import differing

X = np.ones((4, 3), np.float32)
ALL = {"replica_groups": [[0, 1, 2, 3]], "channel_id": 1, "use_global_device_ids": True}
PAIRS = {**ALL, "replica_groups": [[0, 1], [2, 3]]}


def total(x, **groups):
    return ops.all_reduce(x, ops.add, **groups or ALL)


def device():
    return ops.convert_element_type(ops.partition_id(), "f32")


# A function of what differs and what does not; whether its result may differ.
PROGRAMS = {
    "what differs": (lambda x, y: x, True),
    "what does not": (lambda x, y: mx.numpy.sin(y) @ y.T, False),
    "both": (lambda x, y: x + y, True),
    "constant": (lambda x, y: np.float32(2) + 0 * y, False),
    "the device's number": (lambda x, y: y + device(), True),
    "sum over all": (lambda x, y: total(x) * y, False),
    "sum over some": (lambda x, y: total(y, **PAIRS), True),
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
    assert differing(mx.make_graph(function)(X, X), (True, False)) == (expected,)
