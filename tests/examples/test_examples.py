"""The examples run, each in a separate process, and print what they promise."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import minixla as mx
from tests.compilation import QUICKLY, flags_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def compiled_quickly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of an example's time is XLA's; with --optimized it is compiled as by users."""
    if not request.config.getoption("optimized"):
        monkeypatch.setenv("XLA_FLAGS", flags_of(QUICKLY, os.environ["XLA_FLAGS"]))


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


def test_digits(tmp_path: Path) -> None:
    assert len((ROOT / "examples" / "digits.py").read_text().splitlines()) <= 40
    output = run("digits.py", folder=tmp_path).stdout
    losses = numbers(output, "loss")
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.05
    assert numbers(output, "read right")[-1] > 88
    assert (tmp_path / "out" / "digits.png").stat().st_size > 2_000


def test_plain_numpy(tmp_path: Path) -> None:
    output = run("plain_numpy.py", folder=tmp_path).stdout
    by_numpy, by_xla = numbers(output, "energy by (?:NumPy|XLA)")
    assert abs(by_numpy - by_xla) < 1e-4
    by_grad, by_difference = numbers(output, "force by (?:mx.grad|difference)")
    assert abs(by_grad - by_difference) < 1e-4 * abs(by_grad)
    found = re.search(r"energies of a batch  \[(.*)\]", output)
    assert found is not None
    assert len(set(found[1].split())) == 4


@pytest.mark.full
def test_train_digits(tmp_path: Path) -> None:
    done = run("train_digits.py", "--epochs", "3", "--seed", "1", folder=tmp_path)
    assert numbers(done.stdout, "test accuracy")[0] > 90
    assert "1437 digits for training, 360 held out" in done.stdout
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


@pytest.mark.full
def test_data_parallel(tmp_path: Path) -> None:
    done = run("data_parallel.py", "--steps", "12", "--seed", "1", folder=tmp_path)
    rows = re.findall(r"^ *(\d+) +([\d.]+) +([\d.]+) +(\S+)$", done.stdout, re.MULTILINE)
    assert [int(step) for step, *_ in rows][::10] == [0, 11]
    for _, four, one, difference in rows:
        assert float(difference) < 1e-5
        assert abs(float(four) - float(one)) < 1e-5 * float(one) + 1e-6  # as printed
    assert float(rows[-1][1]) < 0.8 * float(rows[0][1])
    assert "4 devices (mx.pmap)" in done.stdout
    assert len(re.findall(r"test accuracy [\d.]+%", done.stdout)) == 2
    bars = done.stderr.split(" 0/12 [")[1:]
    assert len(bars) == 2
    assert all("12/12" in bar for bar in bars)
    assert "within the tolerance" in done.stdout


def losses_that_agree(output: str) -> list[tuple[float, float]]:
    """The losses of two runs beside each other, whose differences are roundings."""
    rows = re.findall(r"^ *\d+ +([\d.]+) +([\d.]+) +(\S+)$", output, re.MULTILINE)
    assert len(rows) == 11
    for first, second, difference in rows:
        assert float(difference) < 1e-5
        assert abs(float(first) - float(second)) < 1e-5 * float(second) + 1e-6  # as printed
    assert "within the tolerance" in output
    assert "NOT within" not in output
    return [(float(first), float(second)) for first, second, _ in rows]


@pytest.mark.full
def test_sharded_mlp(tmp_path: Path) -> None:
    output = run("sharded_mlp.py", "--steps", "15", "--seed", "1", folder=tmp_path).stdout
    losses = losses_that_agree(output)
    assert losses[-1][0] < 0.3 * losses[0][0]
    assert '@mesh = <["data"=2, "model"=4]>' in output
    assert re.search(
        r"%arg0 args\[0\]\S* +f32\[2,256,64\] +\[\{\}, \{model\}, \{\}\] +f32\[2,64,64\]", output
    )
    talk = re.findall(r"^(all-\w+) +(\w+) +(\d) +(\S+) +[\d,]+ +(.*?)  ", output, re.MULTILINE)
    in_loop, sums = "dot_general, in a loop", "all-reduce"
    assert talk == [
        (sums, "model", "4", "f32[64,64]", in_loop),
        (sums, "data", "2", "f32[]", "reduce"),
        (sums, "data", "2", "f32[10,64]", "dot_general"),
        (sums, "data", "2", "f32[64,64]", in_loop),
        (sums, "model", "4", "f32[64,64]", in_loop),
        (sums, "data", "2", "f32[64,64]", in_loop),
    ]


@pytest.mark.full
@pytest.mark.skipif(
    sys.platform == "win32", reason="jaxlib's Gloo, by which CPU processes talk, is not in Windows"
)
def test_multi_process(tmp_path: Path) -> None:
    output = run("multi_process.py", "--steps", "15", "--seed", "2", folder=tmp_path).stdout
    assert "both processes found the same losses: True" in output
    losses = losses_that_agree(output)
    assert losses[-1][0] < 0.3 * losses[0][0]


@pytest.mark.full
def test_char_transformer(tmp_path: Path) -> None:
    sizes = ["--layers", "2", "--size", "32", "--context", "32", "--batch", "8", "--sample", "50"]
    done = run("char_transformer.py", "--steps", "60", *sizes, folder=tmp_path)
    by_chance, before, learnt, held_out = numbers(done.stdout, "  loss")
    assert 4 < by_chance < 6
    assert abs(before - by_chance) < 0.1
    assert learnt < by_chance - 1
    assert held_out < by_chance - 0.8
    assert "60/60" in done.stderr
    written = done.stdout.partition("\n\n")[2]
    assert written.startswith("## ")
    assert len(written) >= 50


def test_layers_computed_again_have_the_same_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    example = importlib.import_module("char_transformer")
    parameters = example.initial_parameters(seed=0, characters=11, layers=3, size=8, context=6)
    window = np.random.default_rng(0).integers(0, 11, (2, 7)).astype(np.int32)
    kept, again = (
        mx.reference(mx.value_and_grad(lambda p, flag=flag: example.loss(p, window, flag)))(
            parameters
        )
        for flag in (False, True)
    )
    assert max(np.abs(each).max() for each in jax.tree.leaves(kept[1]["layers"])) > 1e-3
    jax.tree.map(np.testing.assert_array_equal, kept, again)


@pytest.mark.full
def test_custom_operations(tmp_path: Path) -> None:
    """Each is checked by `check_op`, which raises nothing where all is well."""
    lines = run("custom_operations.py", folder=tmp_path).stdout.splitlines()
    assert re.fullmatch(
        r"medians of 5x5, 128x128: composed [\d.]+ ms, in C\+\+ [\d.]+ ms", lines[0]
    )
    names = [re.fullmatch(r"custom\.Example(\w+): \d+ checks, all well", x) for x in lines[1:]]
    assert [match[1] for match in names if match] == ["MedianPool", "Softmax", "Picked"]


def test_meta(tmp_path: Path) -> None:
    done = run("meta.py", "--steps", "12", "--features", "8", "--seed", "2", folder=tmp_path)
    rows = re.findall(r"^ +\d+ +(\S+) +(\S+) +(\S+)$", done.stdout, re.MULTILINE)
    assert len(rows) == 8
    for by_loop, implicit, by_difference in rows:
        assert abs(float(by_loop) - float(implicit)) < 1e-8
        assert abs(float(by_loop) - float(by_difference)) < 1e-6
    assert "12/12" in done.stderr
    steps = re.findall(r"^ +(\d+) +([\d.]+) +(\d+)$", done.stdout, re.MULTILINE)
    assert float(steps[-1][1]) < float(steps[0][1])
    assert len({count for *_, count in steps}) > 3, "the trip count changes at run time"


@pytest.mark.full
@pytest.mark.parametrize("name, bound", [("optax_equinox", 1e-5), ("flax_digits", 1e-4)])
def test_training_with_libraries(name: str, bound: float, tmp_path: Path) -> None:
    done = run(f"{name}.py", "--steps", "24", "--seed", "1", folder=tmp_path)
    rows = re.findall(r"^ *(\d+) +([\d.]+) +([\d.]+) +(\S+)$", done.stdout, re.MULTILINE)
    assert [int(step) for step, *_ in rows] == [0, 4, 8, 12, 16, 20, 23]
    assert max(float(difference) for *_, difference in rows) < 1e-3
    assert float(rows[-1][1]) < 0.7 * float(rows[0][1])
    (by_xla,) = numbers(done.stdout, "by XLA")
    (by_numpy,) = numbers(done.stdout, "double precision")
    assert abs(by_xla - by_numpy) < bound


def test_optax_orbit(tmp_path: Path) -> None:
    done = run("optax_orbit.py", "--steps", "120", "--seed", "2", folder=tmp_path)
    rows = re.findall(r"^ *(\d+) +([\d.]+) +([\d.]+) +(\S+) +(\S+)$", done.stdout, re.MULTILINE)
    assert len(rows) == 6
    for *_, through_the_loop, implicit in rows:
        assert abs(float(through_the_loop) - float(implicit)) < 1e-8
    assert abs(float(rows[0][3])) > 0.01
    assert abs(numbers(done.stdout, "fitted eccentricity")[0] - 0.6) < 0.02


@pytest.mark.full
def test_diffrax_fit(tmp_path: Path) -> None:
    done = run("diffrax_fit.py", "--steps", "100", "--seed", "1", folder=tmp_path)
    rows = re.findall(r"^ *(\d+) +([\d.]+) +(\S+) +(\S+)$", done.stdout, re.MULTILINE)
    assert len(rows) == 6
    for _, _, ours, theirs in rows:
        assert abs(float(ours) - float(theirs)) < 1e-6
    assert abs(float(rows[0][2])) > 0.01
    fitted = re.findall(r"fitted ([\d.]+), true ([\d.]+)", done.stdout)
    assert len(fitted) == 4
    for rate, true in fitted:
        assert abs(float(rate) / float(true) - 1) < 0.1
