"""The examples run, each in a process of its own, and print what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The example's output, run in `folder`; fails where it fails or warns."""
    path = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(ROOT / "examples" / name), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def numbers(text: str, before: str) -> list[float]:
    """The numbers that follow a word."""
    return [float(each) for each in re.findall(before + r"\s+(-?[\d.]+)", text)]


def test_mlp(tmp_path: Path) -> None:
    losses = numbers(run("mlp.py", folder=tmp_path).stdout, "loss")
    assert len(losses) == 5
    assert losses[0] > 0.1
    assert losses[-1] < 1e-3


def test_plain_numpy(tmp_path: Path) -> None:
    output = run("plain_numpy.py", folder=tmp_path).stdout
    by_numpy, by_xla = numbers(output, "energy by (?:NumPy|XLA)")
    assert abs(by_numpy - by_xla) < 1e-4
    by_grad, by_difference = numbers(output, "force by (?:mx.grad|difference)")
    assert abs(by_grad - by_difference) < 1e-4 * abs(by_grad)
    found = re.search(r"energies of a batch  \[(.*)\]", output)
    assert found is not None
    assert len(set(found[1].split())) == 4


def test_train_digits(tmp_path: Path) -> None:
    done = run("train_digits.py", "--epochs", "3", "--seed", "1", folder=tmp_path)
    assert numbers(done.stdout, "test accuracy")[0] > 90
    assert "1437 digits to learn from, 360 held out" in done.stdout
    assert "66/66" in done.stderr
    assert "loss=" in done.stderr
    assert "accuracy=" in done.stderr
    assert len(done.stderr) < 5000, "the progress bar floods a log"
    assert (tmp_path / "out" / "train_digits.png").stat().st_size > 10_000
    rows = re.findall(
        r"^(loss|gradient of \w+)\s+(\S+)\s+(\S+)\s+(\S+)$", done.stdout, re.MULTILINE
    )
    assert len(rows) == 11
    for name, ulp, ours, theirs in rows:
        assert float(ulp) < 64, name
        # Both round to f32 on the way; ours must not lose more.
        assert float(ours) < 4 * float(theirs) + 5e-7, name
