"""The process of a thread, and what it cannot do alone."""

from __future__ import annotations

import threading

import pytest

from minixla.core.errors import DeadlockError
from minixla_ops.collectives.processes import Meeting, Process, current_process, running_on


def test_alone_unless_something_else_runs():
    process = current_process()
    assert process.id == (0, 0)
    assert (process.replica_count, process.partition_count) == (1, 1)
    other = Process(1, 2, 3, 4)
    with running_on(other):
        assert current_process() is other
        seen = []
        thread = threading.Thread(target=lambda: seen.append(current_process()))
        thread.start()
        thread.join()
        assert seen == [process]  # each thread has its own
    assert current_process() is process


def test_it_meets_itself():
    assert Process().meet(Meeting("f", 0, ((0, 0),), 5, (), lambda each: [*each, 6])) == [5, 6]


@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        (
            lambda p: p.meet(Meeting("f", 0, ((0, 0), (2, 1)), 0, (), list)),
            "f: .* partition) .2, 1.",
        ),
        (lambda p: p.start_send(4, 0, False), "send: .* a recv on channel 4"),
        (lambda p: p.start_receive(4, False), "recv: .* a send on channel 4"),
        (lambda p: p.finish_receive(7), "recv: .* a value of the host on channel 7"),
        (lambda p: p.next_infeed(), "infeed: .* an item of its infeed"),
    ],
)
def test_nobody_else_comes(call, phrase):
    with pytest.raises(DeadlockError) as caught:
        call(Process())
    message = " ".join(str(caught.value).split())
    subject, _, awaited = phrase.partition(" .* ")
    assert message.startswith(f"{subject} it would block forever")
    assert awaited.strip(".").replace(".2, 1", "(2, 1") in message
    assert "mx.simulate" in message
