"""The searches of `make soak`, by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Protocol

#: Modules of this package.
NAMES = ("lifetimes", "random_programs", "legalize", "numbers", "readers", "shardy")


class Case(Protocol):
    """One case of a search."""

    def run(self) -> str | None:
        """What disagrees; None where nothing does."""
        ...

    def shrunk(self) -> str:
        """A smaller case that disagrees in the same way, as text."""
        ...


def cases(name: str, seed: int) -> Iterator[Case]:
    """The cases of a search, the same for the same seed."""
    return importlib.import_module(f"tests.soak.{name}").cases(seed)
