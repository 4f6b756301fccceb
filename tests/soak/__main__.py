"""The driver of `make soak`: runs the searches in worker processes, which may crash.

python -m tests.soak [--minutes M] [--only NAME ...] [--folder build/soak]

It writes what disagrees into FOLDER/found, a file for each case, and continues where the last run
stopped. The exit code is 1 if this run found something.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.soak.searches import NAMES

ROOT = Path(__file__).resolve().parents[2]
#: The number of workers, and the seconds after which a worker's search gives way to the next.
WORKERS, TURN = 2, 120
#: A case that takes more seconds is killed, and is a finding.
LONGEST = 600
#: The number of cases after which a search continues with the next seed.
CASES_OF_A_SEED = 2000


class Progress:
    """The progress of each search, stored in a file."""

    def __init__(self, folder: Path) -> None:
        self._file, self._lock = folder / "state.json", threading.Lock()
        self._found = folder / "found"
        self._found.mkdir(parents=True, exist_ok=True)
        self.searches: dict[str, dict[str, int]] = {}
        if self._file.exists():
            self.searches = json.loads(self._file.read_text())
        self.ran, self.findings = 0, 0

    def at(self, name: str) -> tuple[int, int]:
        """Return the seed and the number of the next case of a search."""
        own = self.searches.setdefault(name, {"seed": 0, "next": 0, "ran": 0})
        return own["seed"], own["next"]

    def ended(self, name: str, number: int) -> None:
        """Record that a case was run."""
        with self._lock:
            own = self.searches[name]
            own["next"], own["ran"] = number + 1, own["ran"] + 1
            self.ran += 1
            if own["next"] >= CASES_OF_A_SEED:
                self._next_seed(name)
            self._save()

    def exhausted(self, name: str) -> None:
        """Record that the seed has no more cases."""
        with self._lock:
            self._next_seed(name)
            self._save()

    def _next_seed(self, name: str) -> None:
        self.searches[name].update(seed=self.searches[name]["seed"] + 1, next=0)

    def _save(self) -> None:
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps(self.searches, indent=1))
        written.replace(self._file)

    def finding(self, name: str, seed: int, number: int, found: str, shrunk: str = "") -> None:
        """Write a finding to a file."""
        with self._lock:
            again = f"python -m tests.soak.worker {name} {seed} {number} 1"
            text = f"{found}\n\n{shrunk}\n\nRun it again: {again}\n"
            (self._found / f"{name}-{seed}-{number}.txt").write_text(text)
            self.findings += 1
            print(f"{name} {seed} {number}: {found.strip().splitlines()[-1][:160]}", flush=True)


def lines_of(process: subprocess.Popen[str]) -> queue.Queue[str | None]:
    """Return a queue of the lines that a process writes, and None at its end."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def take_turn(name: str, progress: Progress, seconds: float) -> None:
    """Run cases of a search for some seconds, in one process."""
    seed, start = progress.at(name)
    command = [sys.executable, "-m", "tests.soak.worker", name, str(seed), str(start)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    lines, end = lines_of(process), time.monotonic() + seconds
    running: int | None = None  # the case that runs
    pending: dict[str, Any] = {}  # its finding, until it is shrunk
    try:
        while True:
            try:
                line = lines.get(timeout=LONGEST)
            except queue.Empty:
                if running is not None:
                    found = pending.get("found", f"no end within {LONGEST} s")
                    progress.finding(name, seed, running, found)
                    progress.ended(name, running)
                return
            if line is None:
                _died(name, seed, running, pending, progress, process)
                return
            said = json.loads(line)
            if "begins" in said:
                running, pending = said["begins"], {}
                if time.monotonic() > end:
                    return
            elif "ends" in said:
                if said["found"] is not None:
                    progress.finding(name, seed, said["ends"], said["found"], said["shrunk"])
                progress.ended(name, said["ends"])
                running = None
                if progress.at(name)[0] != seed:
                    return
            elif "found" in said:
                pending = said
            elif "exhausted" in said:
                progress.exhausted(name)
                return
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _died(
    name: str, seed: int, running: int | None, pending: Any, progress: Progress, process: Any
) -> None:
    process.wait()
    said = "".join(process.stderr.readlines()[-20:])
    how = f"the process ends with {process.returncode}"
    if running is None:  # before its first case: the search itself is broken
        progress.finding(name, seed, -1, f"{how} before a case\n{said}")
        progress.exhausted(name)
        return
    found = pending.get("found", f"{said}\n{how}")
    progress.finding(name, seed, running, found, "" if not pending else f"shrinking: {how}")
    progress.ended(name, running)


def turns(names: list[str]) -> Iterator[str]:
    """Yield the searches in turn, without end."""
    while True:
        yield from names


def main() -> int:
    """Run the searches and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", nargs="*", choices=NAMES, default=list(NAMES))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "soak")
    options = parser.parse_args()
    progress, end = Progress(options.folder), time.monotonic() + 60 * options.minutes
    waiting, lock = turns(options.only), threading.Lock()
    busy: set[str] = set()

    def work() -> None:
        while (left := end - time.monotonic()) > 1:
            with lock:
                name = next(
                    each for each in waiting if each not in busy or len(options.only) < WORKERS
                )
                busy.add(name)
            try:
                take_turn(name, progress, min(TURN, left))
            finally:
                busy.discard(name)

    count = min(WORKERS, len(options.only))
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = ", ".join(f"{name} {own['ran']}" for name, own in sorted(progress.searches.items()))
    print(f"{progress.ran} cases in this run, {progress.findings} findings; in all runs: {rows}")
    return 1 if progress.findings else 0


if __name__ == "__main__":
    sys.exit(main())
