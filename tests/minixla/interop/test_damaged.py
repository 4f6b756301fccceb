"""Damaged programs, thousands of them: each is read or refused, and no process dies but MLIR's."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import settings

import minixla as mx
from minixla.engine import readers
from tests.minixla.interop.import_programs import as_bytecode, main

ROOT = Path(__file__).parents[3]
IS_LONG = settings().max_examples > 100
COUNTS = {"text": 500, "bytecode": 100, "artifact": 100, "exported": 100}


@pytest.mark.drawn
def test_damaged_programs():
    """A process reads them all, form by form."""
    counts = [f"{form}:{1000 if IS_LONG else count}" for form, count in COUNTS.items()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.minixla.interop.fuzz_import", "0", *counts],
        capture_output=True, text=True, cwd=ROOT, timeout=4800, check=False,
    )  # fmt: skip
    for form, count in COUNTS.items():
        match = re.search(
            rf"^{form}: (\d+) read, (\d+) refused, the slowest took ([\d.]+) s$", done.stdout, re.M
        )
        assert match is not None, f"{done.stdout}\n{done.stderr[-2000:]}"
        read, refused, seconds = match.groups()
        assert int(read) >= count
        assert int(refused) > int(read) / 2
        assert float(seconds) < 30
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_process_that_reads_bytes_starts_again():
    good = as_bytecode(main("%r = stablehlo.tanh %x : tensor<2x3xf32>"))
    for seed in range(3):
        bad = bytearray(good)
        bad[20 + seed] ^= 0x55
        with pytest.raises(mx.ImportError_):
            mx.import_stablehlo(bytes(bad[:-9]))
        assert mx.import_stablehlo(good).graph.instructions[0].op.name == "Tanh"


def test_a_reader_that_dies_after_its_answer_does_not_answer_the_next_request():
    names = ("tanh", "cosine", "abs")
    texts = [main(f"%r = stablehlo.{name} %x : tensor<2x3xf32>") for name in names]
    mx.import_stablehlo(texts[0])
    process = readers._HELPER._child
    assert process is not None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    child = children.read_text()
    # Until it sleeps over the next request it may not have noted that it has answered.
    status = Path(f"/proc/{child.strip()}/status")
    while "\nState:\tS" not in status.read_text():
        time.sleep(0.001)
    os.kill(int(child), signal.SIGABRT)
    # While it dies it may take what it is not to answer.
    while process.poll() is None and children.read_text() == child:
        time.sleep(0.001)
    for text, name in zip(texts, ("Tanh", "Cos", "Abs"), strict=True):
        assert mx.import_stablehlo(text).graph.instructions[0].op.name == name
