"""Type checkers find what is wrong with calls in users' programs, and accept what is right."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "typing"
MARK = "# wrong: "
ENVIRONMENT = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory) -> dict[str, dict[int, str]]:
    """What pyright says, by file and line: of programs elsewhere, as users write them."""
    folder = tmp_path_factory.mktemp("program")
    shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
    settings = {"include": ["."], "extraPaths": [str(PROGRAMS.parents[1])]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    command += ["--project", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT)
    found: dict[str, dict[int, str]] = {}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            of_file = found.setdefault(Path(each["file"]).name, {})
            of_file[each["range"]["start"]["line"] + 1] = each["message"]
    return found


def _lines(name: str) -> list[str]:
    return (PROGRAMS / name).read_text().splitlines()


def test_nothing_is_said_of_right_calls(complaints):
    assert complaints.get("right_calls.py", {}) == {}


def test_each_wrong_call_is_found_and_nothing_else(complaints):
    lines = _lines("wrong_calls.py")
    wrong = {number for number, line in enumerate(lines, 1) if MARK in line}
    found = {*complaints.get("wrong_calls.py", {})}
    assert [lines[number - 1] for number in sorted(wrong - found)] == []
    assert [lines[number - 1] for number in sorted(found - wrong)] == []


def test_there_are_many_of_both():
    assert sum(MARK in line for line in _lines("wrong_calls.py")) >= 60
    start = _lines("right_calls.py").index("# Arrays: operators, attributes, methods, indices.")
    assert len([line for line in _lines("right_calls.py")[start:] if line[:1].isalpha()]) >= 60


@pytest.mark.full
def test_right_calls_run():
    runpy.run_path(str(PROGRAMS / "right_calls.py"))
