"""Names of functions and meshes that are not taken yet."""

from collections.abc import Iterable
from itertools import count


class Symbols:
    """The names of a module. Numbers go on from one name to the next, as MLIR's do."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._numbers = count()

    def free(self, stem: str) -> str:
        """A name that is free from now on no more: `stem`, or with a number."""
        name = stem
        while name in self._taken:
            name = f"{stem}_{next(self._numbers)}"
        self._taken.add(name)
        return name
