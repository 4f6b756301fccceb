"""Send, Recv, their second halves, and their forms with tokens and with the host."""

from __future__ import annotations

import numpy as np
import pytest
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import (
    AttributeValueError,
    DeadlockError,
    DerivativeError,
    ShapeError,
    TransformError,
)
from minixla.core.operation import operation_named
from minixla.core.shapes import TOKEN, Shape, TupleShape
from tests.harness import check_rejected, graph_of
from tests.minixla_ops.host.test_infeed_outfeed import parsed
from tests.oracles.parallel import interpret_parallel

F2 = Shape("f32", (2,))
X, Y = np.array([1, 2], np.float32), np.array([10, 20], np.float32)


def run(*programs, arguments=(X, Y), **how):
    """The results of programs that run in a replica each."""
    given = [[(each,)] for each in arguments]
    return [row[0] for row in mx.simulate([[each] for each in programs], given, **how)]


def there_and_back(x):
    token = ops.send_with_tokens(x, ops.create_token(), 1)
    return ops.recv_with_tokens(token, F2, 2)[0]


def answer(x):
    received, token = ops.recv(F2, 1, ops.create_token())
    token = ops.send(x + received, 2, token)
    return received


def test_fact_a_send_meets_the_recv_of_its_channel():
    sent, received = run(lambda x: ops.send(x * 2, 7), lambda x: x + ops.recv(F2, 7))
    assert sent is None and received.tolist() == [12, 24]
    # The receiver may come first.
    received, _ = run(lambda x: ops.recv(F2, 7), lambda x: ops.send(x, 7))
    assert received.tolist() == [10, 20]


def test_with_tokens_as_stablehlos_interpreter_has_it():
    graphs = [[graph_of(there_and_back, [X])], [graph_of(answer, [Y])]]
    expected = run(there_and_back, answer)
    found = interpret_parallel(graphs, [[X], [Y]])
    for one, (other,) in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
    for (graph,) in graphs:
        parsed(graph)


def test_channels_do_not_mix_and_keep_their_order():
    def sender(x):
        for index in range(3):
            ops.send(x + index, 1)
            ops.send(x - index, 2)
        return x

    def receiver(x):
        return [ops.recv(F2, 1 + index % 2) for index in range(6)]

    _, found = run(sender, receiver)
    assert [int(each[0]) for each in found] == [1, 1, 2, 0, 3, -1]


def test_fact_a_call_is_two_instructions_with_a_context_between():
    graph = graph_of(there_and_back, [X])
    names = [step.op.name for step in graph.instructions]
    assert names == ["AfterAll", "Send", "SendDone", "Recv", "RecvDone"]
    context = TupleShape([F2, Shape("u32"), TOKEN])
    assert graph.instructions[1].shapes == graph.instructions[3].shapes == (context,)
    assert graph.instructions[2].shapes == (TOKEN,)
    assert graph.pruned() is graph and all(step.has_side_effect for step in graph.instructions[1:])


def test_fact_the_first_half_does_not_wait():
    attributes = {"channel_id": 1, "is_host_transfer": False}
    send, done, recv, received = map(operation_named, ["Send", "SendDone", "Recv", "RecvDone"])

    def program(x):
        # Both processes send before either receives; with `send` they would wait for ever.
        context = send(**attributes)(x)
        buffer = recv(output_shape=F2, **attributes)()
        value, _ = received(**attributes)(buffer)
        done(**attributes)(context)
        return value

    assert [each.tolist() for each in run(program, program)] == [[10, 20], [1, 2]]
    with pytest.raises(
        DeadlockError, match=r"2 of 2 processes[\s\S]*in send for a recv on channel 1"
    ):
        run(*[lambda x: (ops.send(x, 1), ops.recv(F2, 1))[1]] * 2)


def test_a_process_does_not_receive_its_own():
    with pytest.raises(DeadlockError, match="replica 0, partition 0 waits in send"):
        run(lambda x: (ops.send(x, 1), ops.recv(F2, 1))[1], lambda x: x)


def test_the_host():
    def program(x):
        token = ops.send_to_host(x, ops.create_token(), F2, 5)
        value, token = ops.recv_to_host(token, F2, 6)
        return ops.recv_to_host(token, F2, 6)[0] + value

    host = {6: [Y, Y * 2, X]}
    (result,) = run(program, arguments=[X], host=host)
    assert result.tolist() == [30, 60]
    assert [each.tolist() for each in host[5]] == [[1, 2]] and len(host[6]) == 1
    text = parsed(graph_of(program, [X]))
    assert "channel_handle<handle = 5, type = 2>, is_host_transfer = true" in text
    assert "channel_handle<handle = 6, type = 3>, is_host_transfer = true" in text
    with pytest.raises(DeadlockError, match="waits in recv for a value on channel 6"):
        run(program, arguments=[X])


def test_shapes_must_agree():
    with pytest.raises(ShapeError, match=r"recv_done: \(C2\)[\s\S]*float32\[2\][\s\S]*int32\[2\]"):
        run(lambda x: ops.send(x, 7), lambda x: ops.recv(Shape("s32", (2,)), 7))


def test_alone_it_would_wait_for_ever():
    for function in (lambda x: ops.send(x, 1), lambda x: ops.recv(F2, 1)):
        with pytest.raises(DeadlockError, match="no other process is running"):
            mx.reference(function)(X)


def test_derivatives():
    for program in (lambda x: (ops.send(x, 1), x.sum())[1],):
        with pytest.raises(DerivativeError, match="a transfer in the other direction"):
            mx.make_graph(mx.grad(program))(X)
        with pytest.raises(DerivativeError, match="a transfer in the other direction"):
            mx.make_graph(lambda x, p=program: mx.jvp(p, (x,), (x,)))(X)
    # What does not depend on the input may be sent, and what was received is constant.
    ours = mx.grad(lambda x: (ops.send(mx.stop_gradient(x), 1), (x * ops.recv(F2, 2)).sum())[1])
    theirs = mx.grad(lambda x: (ops.recv(F2, 1) * x).sum() + (ops.send(Y, 2) or 0))
    assert [each.tolist() for each in run(ours, theirs)] == [[10, 20], [1, 2]]


@pytest.mark.parametrize("with_token", [False, True])
def test_batches(with_token):
    def sender(x):
        token = ops.create_token() if with_token else None
        ops.send(x, 1, token)
        return x.sum()

    batch = np.arange(4, dtype=np.float32).reshape(2, 2)
    for at in (0, 1):

        def receiver(_):
            return [ops.recv(F2, 1), ops.recv(F2, 1)]

        _, found = run(mx.vmap(sender, in_axes=at), receiver, arguments=(batch, X))
        np.testing.assert_array_equal(found, np.moveaxis(batch, at, 0))
    parsed(mx.make_graph(mx.vmap(sender))(batch))
    assert run(mx.vmap(sender), arguments=[batch[:0]])[0].size == 0
    # Everybody gets the one value.
    received, _ = run(
        mx.vmap(lambda x: x + ops.recv(F2, 1)), lambda x: ops.send(x, 1), arguments=(batch, Y)
    )
    np.testing.assert_array_equal(received, batch + Y)


def test_hlo():
    text = str(graph_of(there_and_back, [X]))
    for phrase in (
        "send.3 = (f32[2], u32[], token[]) send(%arg0.1, %after-all.2), channel_id=1",
        "token[] send-done(%send.3), channel_id=1",
        "(f32[2], u32[], token[]) recv(%send-done.4), channel_id=2",
        "(f32[2], token[]) recv-done(%recv.5), channel_id=2",
    ):
        assert phrase in text
    to_host = graph_of(lambda x: ops.send_to_host(x, ops.create_token(), None, 3), [X])
    assert str(to_host).count("channel_id=3, is_host_transfer=true") == 2


def everything(x):
    """Each collective and transfer once."""
    groups, tail = [[0, 1], [2, 3]], {"channel_id": 9, "use_global_device_ids": True}
    index = np.array([0, 1], np.int32)
    results = [
        ops.all_gather(x, 0, 2, groups, **tail),
        ops.all_reduce([x, x[0]], ops.add, groups, **tail),
        ops.reduce_scatter([x, x], ops.max, 1, 2, groups),
        ops.all_to_all(x, 0, 1, 2, groups),
        ops.ragged_all_to_all(x, index, index, x, index, index, groups),
        ops.collective_permute(x, [(0, 1)], 3),
        ops.collective_broadcast(x, groups),
        (ops.replica_id(), ops.partition_id()),
    ]
    token = ops.send_with_tokens(x, ops.create_token(), 5)
    received, token = ops.recv_with_tokens(token, F2, 6)
    token = ops.send_to_host(x, token, None, 7)
    given, token = ops.recv_to_host(token, F2, 8)
    both = ops.infeed(TupleShape([F2, F2]), "config")
    ops.outfeed((received, given))
    item, token = ops.infeed(F2, token=token)
    ops.outfeed(item, token=ops.after_all([token, token]))
    return results, received, given, item, ops.get_tuple_element(both, 1)


def test_xla_reads_both_texts():
    graph = mx.make_graph(everything)(np.ones((4, 4), "f4"))
    parsed(graph)
    imported = _jax.mlir.mlir_module_to_xla_computation(graph.stablehlo(), False, False)
    texts = _hlo.hlo_module_from_text(str(graph)).to_string(), imported.as_hlo_text()
    for text in texts:
        for opcode in (" send(", " send-done(", " recv(", " recv-done(", " infeed(", " outfeed("):
            assert text.count(opcode) == 2, opcode
    for step in graph.instructions:
        assert f" {step.op.hlo_name}(" in texts[0]


def test_second_halves_are_not_built():
    for function, other in ((ops.send_done, "send"), (ops.recv_done, "recv")):
        with pytest.raises(TransformError, match=rf"it has no builder[\s\S]*Call ops\.{other}"):
            function(X)


def finished(name):
    return lambda x: operation_named(name)(channel_id=1)(x)


@pytest.mark.parametrize(
    ("function", "error", "phrases"),
    [
        (lambda x: ops.send(ops.create_token(), 1), ShapeError, ["send: (C1)", "token[]"]),
        (lambda x: ops.send(x, 1, x), ShapeError, ["send: (C1)", "token[0] f32[2]"]),
        (lambda x: ops.send(x, 0), AttributeValueError, ["channel_id", ">= 1"]),
        (lambda x: ops.recv(F2, 1, x), ShapeError, ["recv: (C1)"]),
        (lambda x: ops.recv(TupleShape([]), 1), AttributeValueError, ["recv: (C2)", "arrays"]),
        (finished("SendDone"), ShapeError, ["send_done: (C1)", "context f32[2]"]),
        (finished("RecvDone"), ShapeError, ["recv_done: (C1)", "Send or Recv"]),
        (
            lambda x: ops.send_to_host(x, ops.create_token(), Shape("f32"), 1),
            ShapeError,
            ["send: (C1) shape_with_layout", "f32[]"],
        ),
    ],
)
def test_rejected(function, error, phrases):
    check_rejected(function, [X], error, *phrases)
