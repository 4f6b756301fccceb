"""Processes that help: what they answer, and what is said where they do not."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minixla.engine.subprocesses import Helper, HelperDied

SERVE = """
import os, sys, time
from minixla.engine.subprocesses import receive, send, stream_to_parent
stream = stream_to_parent()
while True:
    number, request, blocks = receive(stream)
    if request == "die":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    if request == "sleep":
        time.sleep(60)
    send(stream, number, [request, os.getpid()], [bytes(each) for each in blocks])
"""


def test_requests_are_answered_by_one_process_until_it_dies():
    helper = Helper("-c", SERVE)
    large = np.arange(1 << 20, dtype=np.uint8).tobytes()
    (reply, process), blocks = helper.ask({"a": 1}, 60, b"", large)
    assert reply == {"a": 1}
    assert [block.tobytes() for block in blocks] == [b"", large]
    with pytest.raises(HelperDied, match="ended with status 3: last words") as died:
        helper.ask("die", 60)
    assert not died.value.is_slow
    (_, other), _ = helper.ask("again", 60)
    assert other != process
    with pytest.raises(HelperDied, match="did not answer in time") as slow:
        helper.ask("sleep", 0.1)
    assert slow.value.is_slow
    helper.stop()
    assert helper.ask("again", 60)[0][1] != other
    helper.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")
def test_a_helper_may_be_a_fork(tmp_path):
    # In a process without JAX's threads, as in the command line.
    (tmp_path / "serve.py").write_text(SERVE)
    program = f"""
import os
from minixla.engine.subprocesses import Helper, HelperDied, end_children
helper = Helper({str(tmp_path / "serve.py")!r})
helper.start_by_fork()
first = helper._child.pid
(reply, process), (block,) = helper.ask("a", 60, b"block")
assert (reply, process, block.tobytes()) == ("a", first, b"block")
try:
    helper.ask("die", 60)
except HelperDied as died:
    assert "ended with status 3: last words" in str(died), died
# The next one is a separate process.
assert helper.ask("b", 60)[0][1] != first
helper.stop()
helper.start_by_fork()
forked = helper._child
end_children()
assert forked.poll() == -9, forked.poll()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")
def test_a_fork_ends_with_its_parent(tmp_path):
    (tmp_path / "serve.py").write_text(SERVE)
    program = f"""
import os
from minixla.engine.subprocesses import Helper
helper = Helper({str(tmp_path / "serve.py")!r})
helper.start_by_fork()
print(helper.ask("a", 60)[0][1], flush=True)
os._exit(0)
"""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, check=True, timeout=60, capture_output=True)
    end = time.monotonic() + 10
    process = Path(f"/proc/{int(done.stdout)}/cmdline")
    while process.exists() and process.read_bytes():  # a zombie has no words
        assert time.monotonic() < end
        time.sleep(0.01)
