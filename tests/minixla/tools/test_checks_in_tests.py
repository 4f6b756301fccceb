"""`pytest --minixla-check`: what it records, finds, accepts, and that it costs nothing without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
import functools

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx


@functools.partial(jax.jit, static_argnums=1, static_argnames="shift", donate_argnums=0)
def static(x, n, *, y, shift=0):
    return x**n + y + shift


class Model:
    scale = 3.0

    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, tree):
        return {"y": jnp.sin(tree["x"]) * self.scale}


def test_right():
    for _ in range(2):
        static(jnp.ones(3), 2, y=jnp.ones(3), shift=1)
        Model()({"x": np.float32([1, 2])})
    f = mx.jit(lambda x: mx.numpy.exp(x))
    assert jax.jit(lambda x: f(x) + f(x))(np.float32(1)) > 5
    assert f.lower(np.float32(1)).as_text()


def test_loses_digits():
    @mx.jit
    def cancels(x):
        return ((x + 1e8) - 1e8) * 3

    cancels(np.float32([1.5, 2]))


def test_of_its_own():
    with_effect = jax.jit(lambda x: jax.debug.print("{}", x))
    with_effect(np.float32(1))
    assert False
"""
LINE = "test_project.test_loses_digits.<locals>.cancels: cancellation sub"


def run(folder: Path, *options: str, code: str = PROJECT) -> str:
    (folder / "test_project.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def test_findings_are_listed(tmp_path):
    output = run(tmp_path, "--minixla-check")
    assert "1 failed, 2 passed" in output and "assert False" in output
    assert f"test_project.py::test_loses_digits\n    {LINE}\n" in output
    assert "called at test_project.py:" in output and output.count(": cancellation") == 1
    # A static function, a method of two equal models, a function of exp, and `cancels`.
    assert "4 programs checked, 5 calls with new signatures" in output


@pytest.mark.parametrize("processes", [(), pytest.param(("-n", "2"), marks=pytest.mark.full)])
def test_findings_fail_unless_they_are_accepted(tmp_path, processes):
    failing = run(tmp_path, "--minixla-check", "--minixla-check-fail", *processes)
    assert "2 failed, 1 passed" in failing and "minixla: evaluators differ" in failing
    (tmp_path / "accepted.txt").write_text(f"# known\n{LINE}\n")
    accepted = "--minixla-check-accepted", "accepted.txt"
    output = run(tmp_path, "--minixla-check", "--minixla-check-fail", *accepted, *processes)
    assert "1 failed, 2 passed" in output and ": cancellation" not in output


def test_without_the_option_nothing_is_imported(tmp_path):
    code = """
import sys

def test_modules():
    assert not {name.partition(".")[0] for name in sys.modules} & {"jax", "minixla", "minixla_ops"}
"""
    assert "1 passed" in run(tmp_path, "-p", "no:jaxtyping", code=code)
