"""Progress: one line where somebody watches long work, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.interop import progress
from minixla.interop.progress import shown_progress


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, is_terminal=True):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


def watch(monkeypatch, stream):
    """Makes the stream standard error, which pytest would set back after a fixture."""
    found = SimpleNamespace(stderr=stream, modules=sys.modules)
    monkeypatch.setattr(progress, "sys", found)
    return stream


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as a terminal of 60 columns, on which lines appear at once."""
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.001)
    monkeypatch.setenv("COLUMNS", "60")
    return watch(monkeypatch, Stream())


def wait_for(stream, text):
    """Waits until the text stands in the stream."""
    end = time.monotonic() + 20
    while text not in stream.getvalue():
        assert time.monotonic() < end, f"{text!r} is not in {stream.getvalue()!r}"
        time.sleep(0.002)


def two_steps(stream, total=None):
    with shown_progress("work", total) as say:
        say("the first")
        wait_for(stream, "the first")
        say("last")
        wait_for(stream, "last")


def line_after(text):
    """What a terminal shows of text that goes back to the start of the line."""
    shown: list[str] = []
    for part in text.split("\r"):
        shown[: len(part)] = part
    return "".join(shown).rstrip()


@pytest.mark.parametrize(
    ("total", "first", "last"),
    [
        (None, "work [00:00], the first", "work [00:00], last"),
        (2, "work |" + " " * 20 + "| 0/2 [00:00], the first", "| 1/2 [00:00], last"),
    ],
)
def test_a_terminal_shows_each_step_alone(terminal, total, first, last):
    two_steps(terminal, total)
    lines = terminal.getvalue().split("\r")
    assert first in lines
    assert any(line.rstrip().endswith(last) for line in lines)
    assert line_after(terminal.getvalue()) == ""
    assert "\n" not in terminal.getvalue()


def test_short_work_shows_nothing_and_starts_nothing_that_stays(monkeypatch):
    stream = watch(monkeypatch, Stream())
    with shown_progress("work") as say:
        say("a step")
    assert stream.getvalue() == ""
    assert "minixla progress" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("kernel", [None, "a kernel"])
def test_a_notebook_does_and_ipython_elsewhere_does_not(monkeypatch, terminal, kernel):
    terminal.is_terminal = False
    shell = SimpleNamespace(kernel=kernel)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with shown_progress("work") as say:
        say("a step")
        if kernel:
            wait_for(terminal, "a step")
        time.sleep(0.02)
    assert bool(terminal.getvalue()) == (kernel is not None)


def test_files_and_pipes_get_nothing(monkeypatch, terminal):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    terminal.is_terminal = False
    with shown_progress("work") as say:
        say("a step")
        time.sleep(0.02)
    assert terminal.getvalue() == ""


def test_nothing_is_shown_without_tqdm(monkeypatch, terminal):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with shown_progress("work") as say:
        say("a step")
        time.sleep(0.02)
    assert terminal.getvalue() == ""


def test_a_line_does_not_wrap(monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "20")
    with shown_progress("work") as say:
        say("a step with a long name")
        wait_for(terminal, ", a st")
    assert max(map(len, terminal.getvalue().split("\r"))) == 19


def test_work_goes_on_where_the_terminal_is_gone(monkeypatch, terminal):
    written = threading.Event()

    class Gone(Stream):
        def write(self, text):
            written.set()
            raise OSError("the terminal is gone")

    watch(monkeypatch, Gone())
    with shown_progress("work") as say:
        say("a step")
        assert written.wait(20)


def test_work_within_work_is_a_part_of_it(terminal):
    with shown_progress("outer") as say:
        with shown_progress("inner") as inner:
            inner("what nobody sees")
        say("what is seen")
        wait_for(terminal, "what is seen")
    assert "inner" not in terminal.getvalue()
    with pytest.raises(KeyError), shown_progress("outer"):
        raise KeyError
    two_steps(terminal)


PROGRAM = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
HLO = """
HloModule m
ENTRY e { ROOT x = f32[2] parameter(0) }
"""


@pytest.mark.parametrize(
    ("work", "title"),
    [
        (lambda x: mx.cross_check(mnp.sin, x, gradients=False), "cross_check"),
        (lambda x: mx.check_grads(mnp.sin, (x,)), "check_grads"),
        (lambda x: mx.check_op(mx.ops.sin, [(x,)], order=0), "check_op"),
        (lambda x: mx.import_stablehlo(PROGRAM), "import_stablehlo"),
        (lambda x: mx.import_hlo(HLO), "import_hlo"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_long_work_says_its_steps(monkeypatch, work, title):
    shown: dict[str, tuple[int | None, list[str]]] = {}

    class Line:
        def __init__(self, name, total):
            self.steps: list[str] = []
            shown[name] = total, self.steps

        def end(self):
            pass

    monkeypatch.setattr(progress, "_Line", Line)
    watch(monkeypatch, Stream())
    work(np.ones(2, "f4"))
    total, steps = shown[title]
    assert [*shown] == [title]
    assert steps
    assert total is None or total == len(steps)


def test_a_function_of_the_caller_takes_the_place_of_the_line(terminal):
    steps: list[str] = []
    mx.cross_check(mnp.sin, np.ones(2, "f4"), gradients=False, progress=steps.append)
    assert "the function: XLA" in steps
    assert "cross_check" not in terminal.getvalue()
