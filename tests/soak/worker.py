"""Run cases of one search, and write a line of JSON before and after each.

python -m tests.soak.worker NAME SEED START [COUNT]     # from the project's root
"""

from __future__ import annotations

import json
import sys
import traceback
from itertools import islice
from typing import Any

from tests.soak.searches import cases


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def main(name: str, seed: int, start: int, count: int | None = None) -> None:
    """Run cases from number `start` on, `count` of them or all."""
    stop = None if count is None else start + count
    for number, case in enumerate(islice(cases(name, seed), start, stop), start):
        _say(begins=number)
        try:
            found = case.run()
        except Exception:
            found = traceback.format_exc()
        shown = ""
        if found is not None:
            _say(found=found, number=number)
            try:
                shown = str(case.shrunk())
            except Exception:
                shown = traceback.format_exc()
        _say(ends=number, found=found, shrunk=shown)
    _say(exhausted=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
