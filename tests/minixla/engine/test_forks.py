"""Answers of processes that may die of requests."""

from __future__ import annotations

import os

import pytest

from minixla.engine.forks import SLOW
from minixla.engine.subprocesses import Helper

SERVE = """
import os, sys, time
from minixla.engine import forks
from minixla.engine.forks import limits, problem_of, receive, serve_in_forks

def takes_and_dies(stream):
    receive(stream)
    os.abort()

def answer(request, blocks):
    if request == "die later":
        forks.receive = takes_and_dies
    try:
        with limits(0.2, 1 << 28):
            if request == "abort":
                print("Check failed: it is odd", file=sys.stderr, flush=True)
                os.abort()
            if request == "spin":
                while True:
                    pass
            if request == "much":
                return len(bytearray(1 << 29)), []
            return [request, os.getpid(), os.getppid()], [bytes(each) for each in blocks]
    except Exception as error:
        return problem_of(error), []

serve_in_forks(answer)
"""


def test_a_request_that_kills_is_told_of_and_the_next_one_is_answered():
    helper = Helper("-c", SERVE)
    (reply, child, process), blocks = helper.ask("a", 60, b"bytes")
    assert (reply, blocks[0].tobytes()) == ("a", b"bytes")
    assert process != os.getpid()
    death, _ = helper.ask("abort", 60)
    problem = "it gives up, or needs too much memory"
    assert death == {"problem": problem, "died": True, "said": "Check failed: it is odd"}
    slow, _ = helper.ask("spin", 60)
    assert slow == {"problem": SLOW, "died": True, "said": ""}
    assert helper.ask("much", 60)[0] == {"problem": "MemoryError: "}
    (_, other, same), _ = helper.ask("b", 60)
    assert other != child
    assert same == process
    helper.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_what_a_child_takes_before_it_dies_of_the_last_request_is_asked_again():
    helper = Helper("-c", SERVE)
    (_, child, process), _ = helper.ask("die later", 60)
    (reply, other, another), blocks = helper.ask("a", 60, b"bytes")
    assert (reply, blocks[0].tobytes()) == ("a", b"bytes")
    assert other != child
    assert another != process
    helper.stop()
