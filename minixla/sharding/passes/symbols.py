"""Free names for functions and meshes."""

from collections.abc import Iterable
from itertools import count


class Symbols:
    """The names of a module. Numbers continue from one name to the next, as in MLIR."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._numbers = count()

    def free(self, stem: str) -> str:
        """Return a free name, `stem` or with a number, and reserve it."""
        name = stem
        while name in self._taken:
            name = f"{stem}_{next(self._numbers)}"
        self._taken.add(name)
        return name
