"""The searches of `make soak`, by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Protocol

#: Modules of this package.
NAMES = ("lifetimes", "random_programs", "jax_code", "legalize", "numbers", "readers", "shardy")


class Case(Protocol):
    """One case of a search."""

    def run(self) -> str | None:
        """Return a description of the disagreement, or None."""
        ...

    def shrunk(self) -> str:
        """Return the text of a smaller case that disagrees in the same way."""
        ...


def cases(name: str, seed: int) -> Iterator[Case]:
    """Yield the cases of a search, the same for the same seed."""
    return importlib.import_module(f"tests.soak.{name}").cases(seed)
