"""The number of iterations that a loop's programs show, against counting them."""

from __future__ import annotations

import numpy as np
import pytest

import minixla_ops as ops
from minixla.core.graph import Graph
from minixla_ops.control_flow.loop_trips import known_trips, written_once
from tests.harness import graph_of

RELATIONS = {"lt": ops.lt, "le": ops.le, "gt": ops.gt, "ge": ops.ge, "ne": ops.ne, "eq": ops.eq}
MOST = 300


def programs(condition, body, *init) -> tuple[Graph, Graph]:
    return graph_of(condition, init).pruned(), graph_of(body, init).pruned()


def counted(relation, start, bound, step):
    """Iterations of the loop in Python integers; None where it has no end or leaves s8."""
    compare = getattr(np, {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
                           "ne": "not_equal", "eq": "equal"}[relation])  # fmt: skip
    trips = 0
    while compare(start, bound):
        start, trips = start + step, trips + 1
        if trips > MOST or not -128 <= start <= 127:
            return None
    return trips


@pytest.mark.parametrize("relation", RELATIONS)
def test_counts(relation):
    compare = RELATIONS[relation]
    for start in (-128, -3, 0, 4, 127):
        for bound in (-127, 0, 1, 4, 126):
            for step in (-127, -2, -1, 0, 1, 3):
                first, limit, one = (np.int8(each) for each in (start, bound, step))
                loops = [
                    (lambda i, c=limit: compare(i, c), lambda i, s=one: ops.add(i, s)),
                    (lambda i, c=limit: compare(i, c), lambda i, s=one: ops.add(s, i)),
                ]
                if step > -128:
                    loops.append((loops[0][0], lambda i, s=-one: ops.sub(i, s)))
                expected = counted(relation, start, bound, step)
                for condition, body in loops:
                    found = known_trips(*programs(condition, body, first), [first])
                    given = (relation, start, bound, step)
                    assert (found and found.count) == expected, given
                    assert found is None or found[1:] == (0, start, step)


def test_bound_on_the_left_and_bound_and_step_as_constants_of_the_loop():
    init = [np.uint32(7), np.int64(10), np.int64(1), np.int64(3)]

    def condition(x, n, i, s):
        return ops.gt(n, i)

    def body(x, n, i, s):
        return [x, n, ops.add(i, s), s]

    assert known_trips(*programs(condition, body, *init), init) == (3, 2, 1, 3)


START, X = np.int32(0), np.float32(2)
UNKNOWN = {
    "bound changes": (lambda i, j: ops.lt(i, j), lambda i, j: [ops.add(i, np.int32(1)), i]),
    "float counter": (
        lambda i, j: ops.lt(ops.convert_element_type(i, "f32"), X),
        lambda i, j: [ops.add(i, np.int32(1)), j],
    ),
    "step is computed": (lambda i, j: ops.lt(i, np.int32(9)), lambda i, j: [ops.add(i, i), j]),
    "counter is multiplied": (
        lambda i, j: ops.lt(i, np.int32(9)),
        lambda i, j: [ops.mul(i, np.int32(2)), j],
    ),
    "constant minus counter": (
        lambda i, j: ops.lt(i, np.int32(9)),
        lambda i, j: [ops.sub(np.int32(1), i), j],
    ),
    "two conditions": (
        lambda i, j: ops.and_(ops.lt(i, np.int32(9)), ops.lt(j, np.int32(9))),
        lambda i, j: [ops.add(i, np.int32(1)), j],
    ),
    "constant condition": (lambda i, j: np.bool_(1), lambda i, j: [ops.add(i, np.int32(1)), j]),
    "a value": (lambda i, j: ops.eq(j, j), lambda i, j: [i, j]),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_unknown(case):
    init = [START, np.int32(3)]
    assert known_trips(*programs(*UNKNOWN[case], *init), init) is None


def test_a_staged_first_value_is_unknown():
    seen = []

    def function(i):
        loop = programs(lambda i: ops.lt(i, np.int32(3)), lambda i: ops.add(i, np.int32(1)), START)
        seen.extend([known_trips(*loop, [i]), known_trips(*loop, [ops.constant(np.int32(1))])])
        return i

    graph_of(function, [START])
    assert seen == [None, (2, 0, 1, 1)]


STACK, ROW = np.zeros((4, 2), np.float32), np.ones((1, 2), np.float32)
ONE = np.int32(1)


def put(at):
    return lambda i, ys: [ops.add(i, ONE), ops.dynamic_update_slice(ys, ROW, [at(i), 0])]


def read_too(i, ys):
    row = ops.dynamic_slice(ys, [i, 0], (1, 2))
    return [ops.add(i, ONE), ops.dynamic_update_slice(ys, ops.add(row, row), [i, 0])]


def wide(i, ys):
    rows = np.ones((2, 2), np.float32)
    return [ops.add(i, ONE), ops.dynamic_update_slice(ys, rows, [i, 0])]


@pytest.mark.parametrize(
    ("body", "count", "expected"),
    [
        (put(lambda i: i), 4, True),
        (put(lambda i: i), 5, False),  # the last row is clamped, and written twice
        (put(lambda i: ops.sub(np.int32(3), i)), 4, True),
        (put(lambda i: ops.add(i, ONE)), 3, True),
        (put(lambda i: ops.sub(i, ONE)), 3, False),
        (put(lambda i: np.int32(2)), 2, False),
        (put(lambda i: ops.mul(i, i)), 2, False),
        (read_too, 4, False),
        (wide, 2, False),
    ],
)
def test_written_once(body, count, expected):
    init = [START, STACK]
    loop = programs(lambda i, ys: ops.lt(i, np.int32(count)), body, *init)
    trips = known_trips(*loop, init)
    assert trips is not None and trips.count == count
    assert written_once(loop[1], trips) == [False, expected]
