"""Infeed, Outfeed and host transfers in programs that run: through the host, in order."""

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.shapes import Shape, TupleShape
from minixla_ops.collectives.processes import current_process

F32 = Shape("f32", (2,))
EVALUATORS = {"reference": mx.reference, "eager": lambda f: f, "jit": mx.jit, "in JAX": jax.jit}


@pytest.fixture(autouse=True)
def empty_queues():
    process = current_process()
    for queue in (process.infeed, process.outfeed, process.host):
        queue.clear()
    yield


def items(*numbers):
    return [np.full(2, number, np.float32) for number in numbers]


@pytest.mark.parametrize("way", EVALUATORS)
def test_items_are_read_and_written_in_order(way):
    def function(x):
        first = ops.infeed(F32)
        ops.outfeed(first * x)
        second = ops.infeed(F32)
        ops.outfeed([second, x])
        return first - second

    for item in items(5, 3):
        mx.transfer_to_infeed(item)
    np.testing.assert_array_equal(
        EVALUATORS[way](function)(np.float32(2) * np.ones(2, "f4")), [2, 2]
    )
    jax.effects_barrier()
    np.testing.assert_array_equal(mx.transfer_from_outfeed(), [10, 10])
    np.testing.assert_array_equal(mx.transfer_from_outfeed(), [[3, 3], [2, 2]])


@pytest.mark.parametrize("way", ["reference", "jit"])
def test_fact_two_loops_each_with_an_infeed(way):
    """Spec 127: the second loop begins with the first one's result, so there is an order."""

    def total(start, count):
        def body(index, sums):
            return index + 1, sums + ops.infeed(F32)

        return mx.while_loop(lambda c: c[0] < count, lambda c: body(*c), (0, start))[1]

    def function(x):
        return total(total(x, 2) * 10, 3)

    for item in items(1, 2, 3, 4, 5):
        mx.transfer_to_infeed(item)
    found = EVALUATORS[way](function)(np.zeros(2, np.float32))
    np.testing.assert_array_equal(found, [42, 42])


@pytest.mark.parametrize("way", ["reference", "jit"])
def test_only_the_branch_that_runs_reads(way):
    def function(flag, x):
        return mx.cond(flag, lambda x: x + ops.infeed(F32), lambda x: x, x)

    mx.transfer_to_infeed(items(7)[0])
    run = EVALUATORS[way](function)
    x = np.zeros(2, np.float32)
    np.testing.assert_array_equal(run(False, x), x)
    np.testing.assert_array_equal(run(True, x), [7, 7])


@pytest.mark.parametrize("way", ["reference", "jit"])
def test_tuples_and_tokens(way):
    def function(x):
        token = ops.create_token()
        pair, token = ops.infeed(TupleShape([F32, Shape("s32")]), token=token)
        token = ops.outfeed(x, token=token)
        ops.outfeed(ops.get_tuple_element(pair, 0), token=ops.after_all([token]))
        return ops.get_tuple_element(pair, 1)

    mx.transfer_to_infeed((items(4)[0], np.int32(9)))
    assert EVALUATORS[way](function)(np.ones(2, np.float32)) == 9
    jax.effects_barrier()
    np.testing.assert_array_equal(mx.transfer_from_outfeed(), [1, 1])
    np.testing.assert_array_equal(mx.transfer_from_outfeed(), [4, 4])


@pytest.mark.parametrize("way", ["reference", "jit"])
def test_channels_of_the_host(way):
    def function(x):
        token = ops.send_to_host(x * 2, ops.create_token(), None, 3)
        value, _ = ops.recv_to_host(token, F32, 4)
        return value + x

    current_process().host[4].append(items(8)[0])
    np.testing.assert_array_equal(EVALUATORS[way](function)(np.ones(2, np.float32)), [9, 9])
    jax.effects_barrier()
    np.testing.assert_array_equal(current_process().host[3].popleft(), [2, 2])


def test_an_empty_infeed_does_not_wait():
    with pytest.raises(mx.DeadlockError, match=r"mx\.transfer_to_infeed"):
        mx.reference(lambda: ops.infeed(F32))()
    with pytest.raises(jax.errors.JaxRuntimeError, match="it would block forever"):
        jax.block_until_ready(mx.jit(lambda: ops.infeed(F32))())
    with pytest.raises(mx.DeadlockError, match="nothing was written"):
        mx.transfer_from_outfeed()


def test_an_item_of_another_shape():
    mx.transfer_to_infeed(np.ones(3, np.float32))
    with pytest.raises(mx.ShapeError, match="the shape of the item must match"):
        mx.reference(lambda: ops.infeed(F32))()


def test_one_program_on_all_devices_meets_nobody_on_a_channel():
    with pytest.raises(mx.TransformError, match="send: JAX runs one program on all devices"):
        mx.jit(lambda x: ops.send(x, 1))(np.ones(2, np.float32))
