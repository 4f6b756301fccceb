"""Tables for terminals, notebooks and JSON, and the base class of printed reports."""

import math
import shutil
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from html import escape
from itertools import zip_longest
from typing import Any, NamedTuple

_NUMERIC = set("0123456789.+-e,")


def plain(value: Any) -> Any:  # noqa: ANN401  # JSON
    """Convert a value to JSON types: infinities and NaN to strings, complex numbers to pairs."""
    if hasattr(value, "_asdict"):  # a NamedTuple
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    is_odd = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_odd else value


def shown_number(value: float | None) -> str:
    """Format a number with three digits; integers exactly, None as an empty string."""
    if value is None:
        return ""
    if abs(value) < 1e6 and value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}"


class Table(NamedTuple):
    """Rows of cells below their header; rows in `marked` are highlighted in HTML."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: Collection[int] = ()

    def text(self, width: int | None = None) -> str:
        """Return aligned columns; numeric columns are right-aligned, empty ones omitted.

        Args:
            width: the width of the lines. Wide columns are wrapped, and the last columns are moved
                below the others, next to the first one. Default: no limit.
        """
        columns = [
            column for column in zip(self.header, *self.rows, strict=True) if any(column[1:])
        ]
        widths = [max(map(len, column)) for column in columns]
        blocks = [range(len(columns))]
        if width is not None:
            least = [_least_width(column) for column in columns]
            blocks = _blocks(least, width)
            for block in blocks:
                _narrow(widths, least, block, width)
        return "\n\n".join(
            [
                "\n".join(_lines([columns[n] for n in block], [widths[n] for n in block]))
                for block in blocks
            ]
        )

    def html(self) -> str:
        """Return the table as HTML."""
        text = ""
        for number, row in enumerate([self.header, *self.rows], -1):
            style = ' style="font-weight:bold;color:#b00020"' if number in self.marked else ""
            kind = "th" if number < 0 else "td"
            cells = "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row)
            text += f"<tr{style}>{cells}</tr>"
        return f"<table>{text}</table>"


# The minimum width of text columns, unless all words are shorter.
_LEAST = 12
_GAP = 2


def _is_numeric(column: Sequence[str]) -> bool:
    return all(set(cell) <= _NUMERIC or cell in ("inf", "nan") for cell in column[1:])


def _least_width(column: Sequence[str]) -> int:
    """Return the minimum width of a column: numbers and short words are not broken."""
    if _is_numeric(column):
        return max(map(len, column))
    words = [word for cell in column for word in cell.split()]
    return max([min(len(word), _LEAST) for word in words] + [len(column[0])])


def _blocks(least: Sequence[int], width: int) -> list[Sequence[int]]:
    """Split columns, by index, into blocks side by side; all blocks start with the first."""
    blocks: list[list[int]] = [[]]
    for number, size in enumerate(least):
        taken = sum([least[block] + _GAP for block in blocks[-1]])
        if len(blocks[-1]) > (len(blocks) > 1) and taken + size > width:
            blocks.append([0])
        blocks[-1].append(number)
    return [*blocks]


def _narrow(widths: list[int], least: Sequence[int], block: Sequence[int], width: int) -> None:
    """Narrow the widest columns until those of a block fit."""
    excess = sum([widths[index] + _GAP for index in block]) - _GAP - width
    while excess > 0:
        able = [index for index in block if widths[index] > least[index]]
        if not able:
            return
        widths[max(able, key=widths.__getitem__)] -= 1
        excess -= 1


def _lines(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Return the lines of a table; cells wider than their column are wrapped."""
    aligned = [str.rjust if _is_numeric(column) else str.ljust for column in columns]
    lines = []
    for cells in zip(*columns, strict=True):
        parts = [_broken(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for line in zip_longest(*parts, fillvalue=""):
            placed = zip(aligned, line, widths, strict=True)
            lines.append((" " * _GAP).join([align(text, n) for align, text, n in placed]).rstrip())
    return lines


def _broken(cell: str, width: int) -> list[str]:
    """Wrap a cell; its indentation is repeated in all lines."""
    if len(cell) <= width:
        return [cell]
    indent = cell[: len(cell) - len(cell.lstrip())][: width // 2]
    return textwrap.wrap(cell.strip(), width, initial_indent=indent, subsequent_indent=indent)


def terminal_width() -> int | None:
    """Return the maximum width of printed tables; None if standard output is not a terminal."""
    is_terminal = getattr(sys.stdout, "isatty", lambda: False)()
    return shutil.get_terminal_size().columns if is_terminal else None


class Report(ABC):
    """Base class of reports in text or HTML: a title, tables, and notes below them."""

    @abstractmethod
    def _shown(self) -> tuple[str, list[Table], list[str]]: ...

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON types: infinities and NaN as strings."""
        more = {name: getattr(self, name) for name in ("ok", "verdict") if hasattr(self, name)}
        return plain(vars(self) | more)

    def __str__(self) -> str:
        title, tables, notes = self._shown()
        width = terminal_width()
        return "\n".join([title, "\n\n".join([table.text(width) for table in tables]), *notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, tables, notes = self._shown()
        below = [f"<pre>{escape(note)}</pre>" for note in notes]
        parts = "".join([*[table.html() for table in tables], *below])
        return f"<div><b>{escape(title)}</b>{parts}</div>"


#: The programs of a check: a function, and its derivatives along directions.
