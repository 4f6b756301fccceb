"""Progress: one line where somebody watches, and nothing elsewhere."""

from __future__ import annotations

import io
import os
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.terminal import shown_progress


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


def written(monkeypatch, is_terminal, work):
    stream = Stream(is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    work()
    return stream.getvalue()


def two_steps():
    with shown_progress("work") as say:
        say("the first of two")
        say("last")


def line_after(text):
    """What a terminal shows of text that goes back to the start of the line."""
    shown: list[str] = []
    for part in text.split("\r"):
        shown[: len(part)] = part
    return "".join(shown).rstrip()


def test_a_terminal_shows_each_step_alone(monkeypatch):
    text = written(monkeypatch, True, two_steps)
    first = text.index("(0 s)")
    assert line_after(text[: first + 5]) == "work: the first of two (0 s)"
    assert line_after(text[: text.rindex("(0 s)") + 5]) == "work: last (0 s)"
    assert line_after(text) == "" and "\n" not in text


@pytest.mark.parametrize("kernel", [None, "a kernel"])
def test_a_notebook_does_and_ipython_elsewhere_does_not(monkeypatch, kernel):
    shell = SimpleNamespace(kernel=kernel)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert bool(written(monkeypatch, False, two_steps)) == (kernel is not None)


def test_files_and_pipes_get_nothing(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert written(monkeypatch, False, two_steps) == ""


def test_a_line_does_not_wrap(monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 24)))
    text = written(monkeypatch, True, two_steps)
    assert max(map(len, text.split("\r"))) == 19


def test_work_goes_on_where_the_terminal_is_gone(monkeypatch):
    class Gone(Stream):
        def write(self, text):
            raise OSError("the terminal is gone")

    monkeypatch.setattr(sys, "stderr", Gone(True))
    two_steps()


def test_a_check_shows_its_steps_by_itself(monkeypatch):
    def check():
        return mx.cross_check(mnp.sin, np.ones(2, "f4"), gradients=False)

    assert "cross_check: the function: XLA (" in written(monkeypatch, True, check)

    def silent():
        return mx.cross_check(
            mnp.sin, np.ones(2, "f4"), gradients=False, progress=lambda step: None
        )

    assert written(monkeypatch, True, silent) == ""
