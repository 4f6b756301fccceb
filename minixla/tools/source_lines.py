"""Source lines for pages: of code that this process traced, and of files in a folder.

An imported program may name files of other machines, or any file of this one. Such names are
printed. A file is opened only if it lies below the folder that the user names.
"""

import linecache
import os
import stat
from collections.abc import Mapping

from minixla.core.errors import AttributeValueError, explain
from minixla.core.source import Source

# Larger files are not source code.
_MOST_BYTES = 1 << 24


class SourceLines:
    """A finder of source lines.

    Args:
        texts: the text of files that cannot be read by their name, such as that of a program.
        folder: files below it may be read if an imported program names them; None for none.

    Raises:
        AttributeValueError: `folder` is not a folder.
    """

    def __init__(
        self, texts: Mapping[str, str], folder: str | os.PathLike[str] | None = None
    ) -> None:
        self._texts = texts
        self._folder = None if folder is None else os.path.realpath(os.fspath(folder))
        if self._folder is not None and not os.path.isdir(self._folder):
            problem, advice = f"{folder} is not a folder", "Pass the folder of the source files."
            raise explain(AttributeValueError, "source", problem, (), advice)

    def of(self, source: Source) -> list[str]:
        """Return the lines of a source's file; empty if they may not be shown."""
        if source.file in self._texts:
            return self._texts[source.file].splitlines()
        if source.is_imported:
            return self._below_folder(source.file)
        # linecache also has the cells of notebooks.
        return [line.rstrip("\n") for line in linecache.getlines(source.file)]

    def _below_folder(self, name: str) -> list[str]:
        if self._folder is None:
            return []
        try:
            # Resolve links and `..` before the comparison.
            path = os.path.realpath(os.path.join(self._folder, name))
            if os.path.commonpath([path, self._folder]) != self._folder:
                return []
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
                return []
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()
        except (OSError, ValueError):
            return []
