"""Damaged programs, thousands of them: each is read or refused, and no process dies but MLIR's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import minixla as mx
from tests.minixla.interop.import_programs import as_bytecode, main

ROOT = Path(__file__).parents[3]
IS_LONG = settings().max_examples > 100


@pytest.mark.parametrize("form", ["text", "bytecode", "artifact", "exported"])
def test_damaged_programs(form):
    count = {True: 4000, False: 1500 if form == "text" else 250}[IS_LONG]
    script = "tests.minixla.interop.fuzz_import"
    done = subprocess.run(
        [sys.executable, "-m", script, form, "0", str(count)],
        capture_output=True, text=True, cwd=ROOT, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    match = re.search(rf"{count} read, (\d+) refused, the slowest took ([\d.]+) s", done.stdout)
    assert match is not None, done.stdout
    assert int(match[1]) > count / 2
    assert float(match[2]) < 30


def test_the_process_that_reads_bytes_starts_again():
    good = as_bytecode(main("%r = stablehlo.tanh %x : tensor<2x3xf32>"))
    for seed in range(3):
        bad = bytearray(good)
        bad[20 + seed] ^= 0x55
        with pytest.raises(mx.ImportError_):
            mx.import_stablehlo(bytes(bad[:-9]))
        assert mx.import_stablehlo(good).graph.instructions[0].op.name == "Tanh"
