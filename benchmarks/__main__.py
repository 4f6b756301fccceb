"""`python -m benchmarks [suite ...] [--quick] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import jax

from benchmarks.measure import Comparison
from benchmarks.suites import SUITES


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [s for s in information.read_text().splitlines() if s.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "devices": [str(device) for device in jax.devices()],
    }


def line(found: Comparison) -> str:
    """One row of the table."""
    ours, theirs = found.medians["minixla"], found.medians["jax"]
    return f"{found.name:<48}{ours:>11.2f}{theirs:>11.2f} {found.unit:<3}{found.ratio:>8.2f}"


def main() -> None:
    """Runs the suites, prints a table, writes JSON."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    arguments.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="suite")
    arguments.add_argument("--quick", action="store_true", help="fewer rounds, smaller chains")
    arguments.add_argument("--json", type=Path, help="also write the figures to this file")
    options = arguments.parse_args()
    about = machine()
    print(f"{about['processor']}, {about['cores']} cores; Python {about['python']}, JAX {about['jax']}")
    print(f"medians, interleaved; ratio = minixla / JAX\n\n{'':<48}{'minixla':>11}{'JAX':>11}{'ratio':>12}")
    rows = []
    for name in options.suites or SUITES:
        for found in SUITES[name](options.quick):
            print(line(found), flush=True)
            rows.append({"suite": name, **found._asdict()})
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": about, "results": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
