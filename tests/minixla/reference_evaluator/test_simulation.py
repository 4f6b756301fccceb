"""The scheduler of simulated processes: order, deadlocks, errors, threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import DeadlockError, ShapeError
from minixla.core.shapes import Shape

SCALAR = Shape("f32")


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def run(*programs, count=None):
    """Results of replicas of one partition, which take their number."""
    if count is not None:
        programs = programs * count
    given = [[(float(index),)] for index in range(len(programs))]
    return [row[0] for row in mx.simulate([[each] for each in programs], given)]


def test_one_runs_at_a_time_and_the_first_goes_on():
    seen = []

    def program(x):
        number = int(x)
        seen.append((number, "starts"))
        total = ops.cross_replica_sum(x)
        seen.append((number, "met"))
        return total

    assert [float(each) for each in run(program, count=3)] == [3, 3, 3]
    starts = [(number, "starts") for number in range(3)]
    # The last to come goes on first: the others become ready while it runs.
    assert seen == [*starts, (2, "met"), (0, "met"), (1, "met")]


def test_calls_of_other_kinds_channels_and_groups_do_not_meet():
    def program(x):
        how = dict(replica_groups=[[0, 1]], use_global_device_ids=True)
        one = ops.all_reduce(x, ops.add, channel_id=1, **how)
        two = ops.all_reduce(x, ops.mul, channel_id=2, **how)
        return one, two

    def other_order(x):
        how = dict(replica_groups=[[0, 1]], use_global_device_ids=True)
        two = ops.all_reduce(x, ops.mul, channel_id=2, **how)
        return ops.all_reduce(x, ops.add, channel_id=1, **how), two

    assert run(program, program) == [(1, 0), (1, 0)]
    with pytest.raises(DeadlockError, match=r"waits in all_reduce on channel 1 [\s\S]*channel 2"):
        run(program, other_order)


def test_who_calls_more_often_waits_for_ever():
    def program(x):
        # As a loop whose condition depends on the process.
        return ops.while_(lambda y: y < 3, lambda y: ops.cross_replica_sum(y + 1), x)

    with pytest.raises(DeadlockError) as caught:
        run(program, lambda x: x)
    message = str(caught.value)
    assert "simulate: 1 of 2 processes wait forever" in message
    assert "replica 0, partition 0 waits in all_reduce in the group (0, 0), (1, 0)" in message
    assert "for replica 1, partition 0, which has returned" in message
    assert "test_simulation.py" in message and "the same collective calls" in message


def test_a_cycle_names_everybody():
    def program(x):
        number = int(x)
        first, second = (1, 2) if number == 0 else (2, 1)
        a = ops.recv(SCALAR, first)
        ops.send(x, second)
        return a

    with pytest.raises(DeadlockError) as caught:
        run(program, program)
    message = str(caught.value)
    assert "2 of 2 processes" in message
    assert "replica 0, partition 0 waits in recv for a value on channel 1; called at" in message
    assert "replica 1, partition 0 waits in recv for a value on channel 2; called at" in message


def test_a_large_deadlock_is_short():
    with pytest.raises(DeadlockError, match=r"\.\.\. \(40 processes\)"):
        run(*[lambda x: ops.cross_replica_sum(x)] * 39, lambda x: x)


def test_what_meets_must_agree():
    def program(shape):
        return lambda x: ops.cross_replica_sum(ops.broadcast(x, shape))

    with pytest.raises(ShapeError) as caught:
        run(program((2,)), program((3,)))
    message = str(caught.value)
    assert "all_reduce: processes of one collective must have equal operands" in message
    assert "replica 0, partition 0, at " in message and "float32[2]" in message
    assert "replica 1, partition 0: ('float32[3]'" in message
    with pytest.raises(ShapeError, match="equal operands and attributes"):
        run(lambda x: ops.all_reduce(x, ops.add), lambda x: ops.all_reduce(x, ops.mul))
    # Functions written twice are the same computation.
    found = run(
        lambda x: ops.all_reduce(x, lambda a, b: a * 2 + b),
        lambda y: ops.all_reduce(y, lambda c, d: c * 2 + d),
    )
    assert found == [1, 1]


def test_the_first_error_ends_all():
    ended = []

    def waiting(x):
        try:
            return ops.cross_replica_sum(x)
        finally:
            ended.append(int(x))

    def failing(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        run(waiting, failing, failing, waiting)
    assert caught.value.__notes__ == ["raised by replica 1, partition 0 of mx.simulate"]
    assert any(entry.name == "failing" for entry in caught.traceback)
    assert ended == [0]  # the last one never began


def test_a_program_that_catches_everything_ends_too():
    def stubborn(x):
        for _ in range(3):
            try:
                ops.cross_replica_sum(x)
            except BaseException:
                continue
        return x

    with pytest.raises(DeadlockError):
        run(stubborn, lambda x: x)


def test_errors_that_are_not_exceptions():
    def leaves(x):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        run(lambda x: ops.cross_replica_sum(x), leaves)


def test_hundreds_of_processes():
    def program(x):
        for _ in range(5):
            x = ops.collective_permute(x, [(i, (i + 1) % 128) for i in range(128)])
        return ops.cross_replica_sum(x), x

    found = run(program, count=128)
    assert [float(each[1]) for each in found] == [(i - 5) % 128 for i in range(128)]
    assert float(found[0][0]) == 127 * 64


def test_simulations_inside_simulations_and_repeated():
    def program(x):
        inner = mx.simulate(ops.cross_replica_sum, [[(1.0,)], [(2.0,)]])
        return ops.cross_replica_sum(x) + float(inner[0][0])

    for _ in range(3):
        assert run(program, program) == [4, 4]


def test_values_are_not_shared():
    # What one process does to its result, another does not see.
    found = run(lambda x: ops.all_gather(ops.broadcast(x, (1,)), 0, 2), count=2)
    found[0][:] = 7
    np.testing.assert_array_equal(found[1], [0, 1])
