"""MLIR contexts, which take milliseconds to create and keep all the text they have parsed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Context = TypeVar("Context")


@dataclass(eq=False, slots=True)
class SharedContexts(Generic[Context]):
    """A context for each MiB of text, and a separate one for longer text.

    Modules of one context may be used in several threads: MLIR synchronizes shared data.
    """

    make: Callable[[], Context]
    most: int = 1 << 20
    _context: Context | None = None
    _left: int = 0

    def context_for(self, size: int) -> Context:
        """Return the context for a text of about `size` bytes."""
        if size > self.most:
            return self.make()
        if self._context is None or size > self._left:
            self._context, self._left = self.make(), self.most
        self._left -= size
        return self._context
