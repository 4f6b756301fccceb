"""The first cases of each search of `make soak`, and the driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import __main__ as driver

ROOT = Path(__file__).resolve().parents[2]
#: How many cases of each search. Random programs are a test of their own.
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
    """Text of a worker's script that finds something, dies, and goes on."""

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


def test_the_driver_writes_findings_and_continues(tmp_path: Path, monkeypatch) -> None:
    script = tmp_path / "worker.py"
    script.write_text(FakeWorker.SCRIPT)
    original = subprocess.Popen

    def started(command: list[str], **options):
        return original([command[0], str(script), *command[3:]], **options)

    monkeypatch.setattr(driver.subprocess, "Popen", started)
    progress = driver.Progress(tmp_path)
    driver.take_turn("numbers", progress, 60)
    assert progress.at("numbers") == (0, 3), "it goes on after the case that died"
    found = {each.name: each.read_text() for each in (tmp_path / "found").iterdir()}
    assert found.keys() == {"numbers-0-1.txt", "numbers-0-2.txt"}
    assert "differs" in found["numbers-0-1.txt"] and "small" in found["numbers-0-1.txt"]
    assert "the process ends with -6" in found["numbers-0-2.txt"]
    again = driver.Progress(tmp_path)  # another run
    assert again.at("numbers") == (0, 3)
    driver.take_turn("numbers", again, 60)
    assert again.at("numbers") == (1, 0), "the next seed"
