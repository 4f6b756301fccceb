"""`python -m benchmarks [suite ...] [--quick] [--markdown] [--json FILE] [--compare FILE]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

import minixla
from benchmarks import ON_REQUEST, SUITES
from benchmarks.measure import (
    FULL,
    QUICK,
    Comparison,
    Effort,
    clocks,
    merged,
    other_variant,
    ratio_of,
)


def machine() -> dict[str, Any]:
    """Describe the machine and the versions."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [s for s in information.read_text().splitlines() if s.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "devices": [str(device) for device in jax.devices()],
        "python": platform.python_version(),
        "minixla": minixla.__version__,
        **{name: version(name) for name in ("jax", "jaxlib", "numpy")},
    }


_COLUMNS = ("", "minixla", "other", "ratio", "earlier", "change")
_WIDTHS = (-50, 13, 14, 8, 13, 8)


def header(about: dict[str, Any], compared: bool, is_markdown: bool = False) -> str:
    """Return the lines above the rows."""
    columns = _COLUMNS if compared else _COLUMNS[:4]
    rule = [f"\n| {' | '.join(['---'] * len(columns))} |"] if is_markdown else []
    return "".join(
        (
            f"{about['processor']}, {about['cores']} cores, load {about['load']}; "
            f"Python {about['python']}, JAX {about['jax']}, NumPy {about['numpy']}\n",
            "medians, interleaved; ratio = minixla / other, which is JAX where nothing is said\n\n",
            _row(columns, is_markdown),
            *rule,
        )
    )


def line(found: Comparison, earlier: Comparison | None = None, *, is_markdown: bool = False) -> str:
    """Return one row of the table; with an earlier run, also the earlier time and its change."""
    ours = found.medians.get("minixla")
    theirs = found.medians.get(other_variant(found.medians) or "")
    unit = found.unit
    cells = [found.name, _number(ours, unit), _number(theirs, unit), _number(found.ratio)]
    if earlier is not None and ours is not None and earlier.unit == unit:
        before = earlier.medians["minixla"]
        cells += [_number(before, unit), f"{ratio_of(ours, before) - 1:+.0%}"]
    return _row(cells, is_markdown)


def _row(cells: Sequence[str], is_markdown: bool) -> str:
    if is_markdown:
        return f"| {' | '.join(cells)} |"
    pairs = zip(cells, _WIDTHS, strict=False)
    return "".join([c.ljust(-width) if width < 0 else c.rjust(width) for c, width in pairs])


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    text = f"{value:.2f}" if 0.01 <= value < 1e6 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def read(path: Path) -> dict[str, Comparison]:
    """Return the rows of an earlier run's JSON by name."""
    rows = json.loads(path.read_text())["results"]
    fields = [{key: row[key] for key in Comparison._fields if key in row} for row in rows]
    return {row["name"]: Comparison(**row) for row in fields}


# A ratio may be worse by this much, besides noise, between machines and days.
_ALLOWED = 0.05


def is_worse(found: Comparison, earlier: Comparison | None) -> bool:
    """Return whether the ratio is worse than before, by more than noise explains."""
    if earlier is None or found.ratio is None or earlier.ratio is None:
        return False
    return found.ratio > earlier.ratio * (1 + _ALLOWED) + found.noise + earlier.noise


def _rows(suite: Callable[[Effort], Iterable[Comparison]], effort: Effort, times: int) -> Any:
    """Run a suite several times and return its rows."""
    if times == 1:
        return suite(effort)
    return map(merged, zip(*[list(suite(effort)) for _ in range(times)], strict=True))


def main(given: Sequence[str] | None = None) -> int:
    """Run the suites, print a table, write JSON.

    Returns:
        1 if ratios are worse than those of the file that is compared with, twice; else 0.
    """
    arguments = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = SUITES | ON_REQUEST
    suites = ", ".join(known)
    text = f"of {suites}; default: all but {', '.join(ON_REQUEST)}"
    arguments.add_argument("suites", nargs="*", metavar="suite", help=text)
    arguments.add_argument("--quick", action="store_true", help="a fifth of the rounds")
    text = "how often each suite is run; rows are of the middle run, their noise of all"
    arguments.add_argument("--repeat", type=int, default=1, metavar="N", help=text)
    text = "CPU time of all threads in place of time, which leaves out what other processes do"
    arguments.add_argument("--cpu", action="store_true", help=text)
    text = "print a table in Markdown, as in docs/performance.md"
    arguments.add_argument("--markdown", action="store_true", help=text)
    arguments.add_argument("--json", type=Path, help="also write the figures to this file")
    text = "print beside figures of this JSON file; exit code 1 if a ratio is worse than there by "
    text += f"more than noise and {_ALLOWED:.0%}%, also when its suite is run again"
    arguments.add_argument("--compare", type=Path, metavar="FILE", help=text)
    options = arguments.parse_args(given)
    clocks[:] = [time.process_time if options.cpu else time.perf_counter]
    unknown = [name for name in options.suites if name not in known]
    if unknown:
        arguments.error(f"unknown suite {', '.join(unknown)}; there are {suites}")
    earlier = {} if options.compare is None else read(options.compare)
    about = machine()
    if options.cpu:
        print("CPU times")
    print(header(about, bool(earlier), options.markdown))
    effort, rows, worse = QUICK if options.quick else FULL, [], []
    for name in options.suites or SUITES:
        suspects = set()
        for found in _rows(known[name], effort, options.repeat):
            before = earlier.get(found.name)
            print(line(found, before, is_markdown=options.markdown), flush=True)
            rows.append({"suite": name, **found._asdict()})
            if is_worse(found, earlier.get(found.name)):
                suspects.add(found.name)
        # Run suspects again: another process may have disturbed the first run.
        for found in known[name](effort) if suspects else ():
            if found.name in suspects and is_worse(found, earlier[found.name]):
                worse.append((found, earlier[found.name]))
    for found, before in worse:
        bound = f"was {_number(before.ratio)} +- {_number(before.noise)}"
        print(f"WORSE: {found.name}: {_number(found.ratio)} +- {_number(found.noise)}, {bound}")
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": about, "results": rows}, indent=2) + "\n")
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
