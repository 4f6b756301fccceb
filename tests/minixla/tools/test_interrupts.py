"""Ctrl-C: everything ends within two seconds, with no thread and no process left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECONDS = 2.0

# Each case runs in one process: the interrupt comes from a thread, as from a terminal.
_SCRIPT = """
import json, os, signal, threading, time
import numpy as np
import minixla as mx
import minixla_ops as ops
from minixla.engine.shardy import shardy_pass

X = np.float32(1)
TEXT = "module { func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> } }"

def endless(x):
    state = mx.while_loop(lambda s: s[0] >= 0, lambda s: ((s[0] + 1) % 7, s[1] + 1), (0, x))
    return state[1]

def spin(*_):
    while True:
        pass

def wait_for_other(x):
    return endless(x) if x == 1 else ops.cross_replica_sum(x)

def reads(x):
    while True:
        mx.import_stablehlo(TEXT)

def catches(x):
    for _ in range(20):
        try:
            spin()
        except BaseException:
            pass

def shown(x, function=mx.debug_callback, **options):
    function(spin, x, **options)
    return x + 1

TWO = [[(X,)], [(2 * X,)]]
CASES = {
    "simulate": lambda: mx.simulate(endless, TWO),
    "simulate, processes that wait": lambda: mx.simulate(wait_for_other, TWO),
    "simulate, Python": lambda: mx.simulate(spin, TWO),
    "simulate, a program that catches all": lambda: mx.simulate(catches, TWO),
    "simulate, a derivative": lambda: mx.simulate(mx.grad(endless), TWO),
    "reference": lambda: mx.reference(endless)(X),
    "reference, a derivative": lambda: mx.reference(mx.jvp)(endless, (X,), (X,)),
    "cross_check": lambda: mx.cross_check(endless, X),
    "tracing": lambda: mx.make_graph(spin)(X),
    "check_grads": lambda: mx.check_grads(lambda x: spin(), (X,)),
    "the importer's reader": lambda: reads(X),
    "Shardy's process": lambda: [shardy_pass(TEXT, "sdy-import-pipeline") for _ in iter(int, 1)],
    "a callback": lambda: np.asarray(mx.jit(shown)(X)),
    "an ordered callback": lambda: np.asarray(mx.jit(lambda x: shown(x, ordered=True))(X)),
    "a callback outside of jit": lambda: mx.cond(X > 0, shown, lambda x: x, X),
    "a callback under pmap": lambda: np.asarray(mx.pmap(shown)(X[None])),
    "the interpreter's process": lambda: [mx.cross_check(mx.numpy.sin, X) for _ in iter(int, 1)],
}

def outcome(case):
    sent = []
    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(0.25, send)
    timer.start()
    try:
        CASES[case]()
        ended = "returned"
    except KeyboardInterrupt as interrupt:
        ended = "; ".join(["KeyboardInterrupt", *getattr(interrupt, "__notes__", [])])
    except Exception as error:
        ended = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - sent[0]
    timer.join()
    threads = [thread.name for thread in threading.enumerate()]
    return ended.replace("\\n(Frames", "(Frames"), seconds, threads

for case in CASES:
    ended, seconds, threads = outcome(case)
    # What was interrupted leaves nothing behind that the next one meets.
    again = [
        float(mx.simulate(ops.cross_replica_sum, TWO)[0][0]),
        float(mx.reference(lambda x: x + 1)(X)),
        float(mx.jit(mx.grad(lambda x: x * x))(X)),
        mx.import_stablehlo(TEXT).graph.name,
    ]
    print(json.dumps([case, ended, seconds, threads, again]), flush=True)
"""


def test_every_entry_point_raises_keyboard_interrupt_and_leaves_no_thread():
    script = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT], stdout=subprocess.PIPE, text=True, env=_environment()
    )
    try:
        lines = script.communicate(timeout=120)[0].splitlines()
    finally:
        script.kill()
    found = [json.loads(line) for line in lines]
    assert len(found) == _SCRIPT.count('    "'), "the process went on after each interrupt"
    for case, ended, seconds, threads, again in found:
        assert ended == "KeyboardInterrupt", case
        assert seconds < SECONDS, case
        assert threads == ["MainThread"], case
        assert again == [3.0, 2.0, 2.0, "main"], case
    assert script.returncode == 0


_PROGRAM = """
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %last = stablehlo.while(%value = %x) : tensor<f32>
    cond {
      %bound = stablehlo.constant dense<-2.0> : tensor<f32>
      %more = stablehlo.compare GT, %value, %bound : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %next = stablehlo.cosine %value : tensor<f32>
      stablehlo.return %next : tensor<f32>
    }
  return %last : tensor<f32>
}
"""


@pytest.mark.parametrize(
    "words",
    [
        "run --backend xla",
        *[
            pytest.param(words, marks=pytest.mark.full)
            for words in (
                "run --backend reference",
                "run --backend interpreter",
                "check",
                "grad",
                "vmap",
            )
        ],
    ],
)
def test_the_command_line_ends_with_status_130_and_leaves_no_process(words, tmp_path):
    path = tmp_path / "endless.mlir"
    path.write_text(_PROGRAM)
    name, *options = words.split()
    command = subprocess.Popen(
        [sys.executable, "-m", "minixla", name, str(path), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    try:
        until = time.monotonic() + 60
        # By then the program runs: reading and compiling it takes less.
        while _processor_seconds(command.pid) < 3 and time.monotonic() < until:
            time.sleep(0.05)
        children = _descendants(command.pid)
        command.send_signal(signal.SIGINT)
        since = time.monotonic()
        printed = command.communicate(timeout=20)
    finally:
        command.kill()
    assert command.returncode == 130
    assert time.monotonic() - since < SECONDS
    assert printed == ("", "")
    assert not [child for child in children if _is_running(child)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"}


def _status(process: int) -> list[str]:
    """The fields of a process's status after its name; none where there is no such process."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _descendants(process: int) -> list[int]:
    parents = {
        int(entry.name): int(status[1])
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and (status := _status(int(entry.name)))
    }
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def _processor_seconds(process: int) -> float:
    """What a process and its children have computed."""
    statuses = map(_status, [process, *_descendants(process)])
    ticks = sum(int(status[11]) + int(status[12]) for status in statuses if status)
    return ticks / os.sysconf("SC_CLK_TCK")


def _is_running(process: int) -> bool:
    status = _status(process)
    return bool(status) and status[0] != "Z"
