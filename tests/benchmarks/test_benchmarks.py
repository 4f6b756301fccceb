"""Every benchmark runs, measures both sides, and both sides compute the same."""

from __future__ import annotations

import gc
import json
import math
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import benchmarks.__main__ as command
from benchmarks import SUITES
from benchmarks.measure import (
    FULL,
    QUICK,
    Comparison,
    Effort,
    interleaved,
    merged,
    per_call,
    ratio_of,
    summary,
)
from benchmarks.models import JAX, MINIXLA, Model, models, small_mlp
from benchmarks.programs import Program, programs

TINY = Effort(0, small=True, least=1)
#: Measured alone: there is nothing in JAX to compare with.
ALONE = ("StableHLO text", "import of StableHLO", "cross_check")


@pytest.fixture(autouse=True, scope="module")
def frozen_heap() -> None:
    """Benchmarks collect garbage before they measure: what other tests left takes long to visit."""
    gc.collect()
    gc.freeze()


@pytest.mark.full
@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite: str) -> None:
    found = list(SUITES[suite](TINY))
    assert found
    assert len({each.name for each in found}) == len(found)
    for each in found:
        assert each.rounds == 1
        is_size = suite == "memory" or each.name.startswith("memory")
        assert each.unit in ("KiB" if is_size else "s", "ms", "us")
        alone = each.name.startswith(ALONE)
        other = set() if alone else {"interpreter" if suite == "interpreter" else "jax"}
        other = {"written out"} if each.name.endswith(" or not") else other
        assert set(each.medians) == {"minixla"} | other
        # A process may start faster than the one that was taken off.
        assert suite == "imports" or min(each.medians.values()) > -(suite == "memory")
        assert (each.ratio is None) == alone
        assert len(command.line(each)) < 90


@pytest.mark.parametrize("model", [*models(small=True), small_mlp()], ids=lambda x: x.name)
def test_models_are_the_same_in_both(model: Model) -> None:
    losses = [
        framework.jit(framework.value_and_grad(model.loss(framework)))(
            model.parameters, *model.batch
        )
        for framework in (MINIXLA, JAX)
    ]
    ours, theirs = map(jax.tree.leaves, losses)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        scale = float(np.abs(other).max())
        # Flax's variance, E[x^2] - E[x]^2, cancels.
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3 * scale + 1e-6)


NAMES = [program.name for program in programs()]


def same_in_both(program: Program) -> None:
    ours, theirs = (
        jax.tree.leaves(each.jit(program.of(each))(*program.arguments)) for each in (MINIXLA, JAX)
    )
    assert ours
    for one, other in zip(ours, theirs, strict=True):
        assert np.isfinite(other).all()
        assert one.dtype == other.dtype
        scale = float(np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.full
@pytest.mark.parametrize("program", programs(), ids=NAMES)
def test_programs_are_the_same_in_both(program: Program) -> None:
    same_in_both(program)


@pytest.mark.parametrize(
    "name", ["k-means", "Newton's method", "game of life", "fit of a polynomial"]
)
def test_some_programs_are_the_same_in_both(name: str) -> None:
    same_in_both(programs()[NAMES.index(name)])


def test_there_are_many_programs() -> None:
    assert len(set(NAMES)) == len(NAMES) == 31


def test_ratios_of_sizes() -> None:
    sizes = [(0, 0), (2, 2), (1, 2), (2, 0), (0, 2)]
    assert [ratio_of(*pair) for pair in sizes] == [1, 1, 0.5, math.inf, 0]


@pytest.mark.parametrize(
    ("ratios", "noises", "worse"),
    [
        ((1.0, 1.0), (0.0, 0.0), False),
        ((1.04, 1.0), (0.0, 0.0), False),
        ((1.06, 1.0), (0.0, 0.0), True),
        ((1.06, 1.0), (0.02, 0.0), False),
        ((1.06, 1.0), (0.0, 0.02), False),
        ((0.3, 0.2), (0.01, 0.01), True),
        ((0.1, 0.2), (0.0, 0.0), False),
        ((None, 1.0), (0.0, 0.0), False),
        ((2.0, None), (0.0, 0.0), False),
        ((math.inf, 1.0), (0.0, 0.0), True),
    ],
)
def test_what_is_worse(ratios: Any, noises: Any, worse: bool) -> None:
    pairs = zip(ratios, noises, strict=True)
    found, earlier = (Comparison("x", "ms", {}, ratio, 1, noise) for ratio, noise in pairs)
    assert command.is_worse(found, earlier) == worse
    assert not command.is_worse(found, None)


def test_the_command_fails_where_a_ratio_is_worse_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ratios = [1.0]

    def suite(effort: Effort) -> Any:
        ratio = ratios.pop(0)
        yield Comparison("a thing", "ms", {"minixla": ratio, "jax": 1.0}, ratio, 3, 0.01)

    monkeypatch.setitem(command.ON_REQUEST, "far", suite)
    path = tmp_path / "baseline.json"
    assert command.main(["far", "--json", str(path)]) == 0
    for ratios[:], status in (([1.0], 0), ([1.2, 1.0], 0), ([1.2, 1.2], 1)):
        assert command.main(["far", "--compare", str(path)]) == status
        assert not ratios
        assert (
            "WORSE: a thing: 1.20 +- 0.01, was 1.00 +- 0.01" in capsys.readouterr().out
        ) == bool(status)


@pytest.mark.parametrize(
    ("ratios", "noises", "expected"),
    [
        ([1.0], [0.1], (1.0, 0.1)),
        ([1.2, 1.0, 0.9], [0.0, 0.1, 0.0], (1.0, pytest.approx(0.2))),
        ([1.0, 1.1], [0.3, 0.0], (1.0, 0.3)),
        ([math.inf, 1.0, 1.0], [0.0, 0.0, 0.0], (1.0, math.inf)),
        ([None, None], [0.0, 0.0], (None, 0.0)),
    ],
)
def test_several_runs(ratios: Any, noises: Any, expected: Any) -> None:
    """The middle one stands for them, and noise reaches to the worst."""
    runs = [Comparison("x", "ms", {}, *pair) for pair in zip(ratios, [3] * 9, noises, strict=False)]
    found = merged(runs)
    assert (found.ratio, found.noise) == expected
    assert found in [each._replace(noise=found.noise) for each in runs]


def test_the_command_repeats_suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios, path = [0.9, 1.3, 1.0], tmp_path / "baseline.json"

    def suite(effort: Effort) -> Any:
        ratio = ratios.pop()
        yield Comparison("a thing", "ms", {"minixla": ratio, "jax": 1.0}, ratio, 3, 0.01)
        yield Comparison("another", "ms", {"minixla": 1.0}, None, 3)

    monkeypatch.setitem(command.ON_REQUEST, "far", suite)
    assert command.main(["far", "--repeat", "3", "--json", str(path)]) == 0
    assert not ratios
    thing, other = command.read(path).values()
    assert (thing.ratio, thing.medians["minixla"], other.ratio) == (1.0, 1.0, None)
    assert thing.noise == pytest.approx(0.3)


def test_the_baseline_is_of_rows_that_there_are() -> None:
    root = Path(command.__file__).parent
    rows = command.read(root / "baseline.json")
    assert {f"temporary memory: {name}" for name in NAMES} <= rows.keys()
    assert all(row.ratio is not None for row in rows.values())
    checked = (
        (root.parent / "Makefile").read_text().partition("BENCH_CHECKED := ")[2].split("\n")[0]
    )
    suites = {row["suite"] for row in json.loads((root / "baseline.json").read_text())["results"]}
    assert suites == {*checked.split()} <= SUITES.keys()


def test_noise() -> None:
    """It is smaller with more rounds, and nothing where all are the same."""

    def noise(times: list[float]) -> float:
        return summary("x", {"minixla": times, "jax": [1.0] * len(times)}, "ms").noise

    assert noise([1.0] * 9) == 0
    assert 0 < noise([0.9, 1.0, 1.1] * 9) < noise([0.9, 1.0, 1.1])
    assert noise([0.9, 1.0, 1.1]) == pytest.approx(2 * 1.25 * 1.48 * 0.1 / math.sqrt(3))


def test_efforts() -> None:
    assert FULL.rounds(15) == 15
    assert QUICK.rounds(15) == 3
    assert QUICK.rounds(5) == 2
    assert TINY.rounds(15) == 1
    assert [model.name for model in models()] == [
        "MLP, 100 layers",
        "CNN, 3 blocks",
        "transformer block",
    ]


def test_interleaved() -> None:
    ran: list[str] = []

    def variant(name: str, seconds: float) -> Any:
        def run(given: int) -> None:
            assert given == len(name)
            ran.append(name)
            time.sleep(seconds)

        return run

    variants = {"minixla": variant("minixla", 0.02), "jax": variant("jax", 0.01)}
    prepare = {name: partial(len, name) for name in variants}
    found = interleaved("name", variants, 3, "ms", prepare=prepare, per=2, collect=True)
    assert ran == ["minixla", "jax", "jax", "minixla"] * 2
    assert found.rounds == 3
    assert 10 <= found.medians["minixla"] < 100
    assert 5 <= found.medians["jax"] < 100
    assert found.ratio is not None
    assert found.ratio > 1


def test_per_call() -> None:
    count = 0

    def run() -> None:
        nonlocal count
        count += 1

    found = per_call("name", {"minixla": run}, rounds=2, calls=5)
    assert count == 15
    assert found.unit == "us"
    assert 0 < found.medians["minixla"] < 1000


def test_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "QUICK", TINY)
    path = tmp_path / "figures.json"
    command.main(["calls", "text", "--quick", "--json", str(path)])
    output = capsys.readouterr().out
    written = json.loads(path.read_text())
    assert set(written) == {"machine", "results"}
    assert written["machine"]["jax"] == jax.__version__
    assert {row["suite"] for row in written["results"]} == {"calls", "text"}
    for row in written["results"]:
        assert set(row) == {"suite", *Comparison._fields}
        assert row["name"] in output
        assert all(math.isfinite(value) for value in row["medians"].values())
    command.main(["text", "--quick", "--markdown"])
    columns, rule, *rows = capsys.readouterr().out.partition("\n\n")[2].splitlines()
    assert columns == "|  | minixla | other | ratio |"
    assert rule == "| --- | --- | --- | --- |"
    names = [row["name"] for row in written["results"] if row["suite"] == "text"]
    for name, row in zip(names, rows, strict=True):
        number = r"[\d.]+"
        units = rf" \| {number} us \| ({number} us)? \| ({number})? \|"
        assert re.fullmatch(r"\| " + re.escape(name) + units, row)
    command.main(["calls", "--quick", "--compare", str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split() == ["minixla", "other", "ratio", "earlier", "change"]
    calls = [line for line in lines if line.startswith("call of")]
    assert len(calls) == sum(row["suite"] == "calls" for row in written["results"]) > 0
    assert all(line.rstrip().endswith("%") for line in calls)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "more than noise and 5%, also" in " ".join(capsys.readouterr().out.split())


def test_a_change_from_nothing() -> None:
    before = Comparison("memory", "KiB", {"minixla": 0.0, "jax": 0.0}, 1.0, 1)
    after = before._replace(medians={"minixla": 2.0, "jax": 0.0})
    assert command.line(before, before).endswith(" +0%")
    assert command.line(after, before).endswith(" +inf%")


def test_unknown_suite(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["trains"])
    assert "unknown suite trains; there are tracing, " in capsys.readouterr().err
