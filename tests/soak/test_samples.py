"""The first cases of each search of `make soak`, and the driver."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from tests.soak import __main__ as driver
from tests.soak.searches import cases

ROOT = Path(__file__).resolve().parents[2]
#: The number of cases of each search. Random programs and JAX code have separate tests.
COUNTS = {"lifetimes": 12, "legalize": 60, "numbers": 40, "readers": 150, "shardy": 40}


@pytest.mark.full
@pytest.mark.parametrize("name", COUNTS)
def test_the_first_cases_find_nothing(name: str) -> None:
    command = [sys.executable, "-m", "tests.soak.worker", name, "0", "0", str(COUNTS[name])]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"case {lines[-1:]} ends the process\n{run.stderr[-2000:]}"
    ends = [line for line in lines if "ends" in line]
    assert len(ends) == COUNTS[name]
    found = [line for line in ends if line["found"] is not None]
    assert not found, "\n\n".join(f"{line['found']}\n{line['shrunk']}" for line in found[:3])


class FakeWorker:
    """The script of a worker that reports a finding, crashes, and continues."""

    SCRIPT = """
import json, os, sys
start = int(sys.argv[3])
for number in range(start, 5):
    print(json.dumps({"begins": number}), flush=True)
    if number == 2:
        os.abort()
    found = "differs" if number == 1 else None
    if found:
        print(json.dumps({"found": found, "number": number}), flush=True)
    print(json.dumps({"ends": number, "found": found, "shrunk": "small"}), flush=True)
print(json.dumps({"exhausted": True}), flush=True)
"""


def use_fake_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = folder / "worker.py"
    script.write_text(FakeWorker.SCRIPT)
    original = subprocess.Popen

    def started(command: list[str], **options):
        return original([command[0], str(script), *command[3:]], **options)

    monkeypatch.setattr(driver.subprocess, "Popen", started)


def test_the_driver_writes_findings_and_continues(tmp_path: Path, monkeypatch) -> None:
    use_fake_worker(tmp_path, monkeypatch)
    progress = driver.Progress(tmp_path)
    driver.take_turn("numbers", progress, 60)
    assert progress.at("numbers") == (0, 3), "it continues after the case that crashed"
    found = {each.name: each.read_text() for each in (tmp_path / "found").iterdir()}
    assert found.keys() == {"numbers-0-1.txt", "numbers-0-2.txt"}
    assert "differs" in found["numbers-0-1.txt"] and "small" in found["numbers-0-1.txt"]
    assert "the process ends with -6" in found["numbers-0-2.txt"]
    again = driver.Progress(tmp_path)  # another run
    assert again.at("numbers") == (0, 3)
    driver.take_turn("numbers", again, 60)
    assert again.at("numbers") == (1, 0), "the next seed"


def test_a_seed_ends_after_its_cases(tmp_path: Path, monkeypatch) -> None:
    use_fake_worker(tmp_path, monkeypatch)
    monkeypatch.setattr(driver, "CASES_OF_A_SEED", 2)
    progress = driver.Progress(tmp_path)
    driver.take_turn("numbers", progress, 60)
    assert progress.at("numbers") == (1, 0)
    assert progress.ran == 2


@pytest.mark.parametrize("name", ["readers", "shardy"])
def test_seeds_share_no_case(name: str) -> None:
    first, second = ({str(each) for each in islice(cases(name, seed), 40)} for seed in (0, 1))
    assert first and not first & second
