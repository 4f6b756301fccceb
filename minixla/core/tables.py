"""Tables for terminals, notebooks and JSON, and the base class of reports that print as one."""

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
    """The value as JSON holds it: infinities and NaN as strings, complex numbers as pairs."""
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
    """Three digits; whole numbers as they are; nothing for None."""
    if value is None:
        return ""
    if abs(value) < 1e6 and value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}"


class Table(NamedTuple):
    """Rows of cells below their header; marked ones, by number, stand out in HTML."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: Collection[int] = ()

    def text(self, width: int | None = None) -> str:
        """Columns one beside the other; those of numbers to the right, empty ones left out.

        Args:
            width: of the lines. Words of wide columns go to more lines, and the last columns below
                the others, beside the first one; default: as wide as they are.
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
        """The table in HTML."""
        text = ""
        for number, row in enumerate([self.header, *self.rows], -1):
            style = ' style="font-weight:bold;color:#b00020"' if number in self.marked else ""
            kind = "th" if number < 0 else "td"
            cells = "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row)
            text += f"<tr{style}>{cells}</tr>"
        return f"<table>{text}</table>"


# Columns of text are not made narrower than this, but for words that are shorter.
_LEAST = 12
_GAP = 2


def _is_numeric(column: Sequence[str]) -> bool:
    return all(set(cell) <= _NUMERIC or cell in ("inf", "nan") for cell in column[1:])


def _least_width(column: Sequence[str]) -> int:
    """How narrow a column can be: numbers and short words are not broken."""
    if _is_numeric(column):
        return max(map(len, column))
    words = [word for cell in column for word in cell.split()]
    return max([min(len(word), _LEAST) for word in words] + [len(column[0])])


def _blocks(least: Sequence[int], width: int) -> list[Sequence[int]]:
    """The columns, by number, that stand beside each other; the first begins all blocks."""
    blocks: list[list[int]] = [[]]
    for number, size in enumerate(least):
        taken = sum([least[block] + _GAP for block in blocks[-1]])
        if len(blocks[-1]) > (len(blocks) > 1) and taken + size > width:
            blocks.append([0])
        blocks[-1].append(number)
    return [*blocks]


def _narrow(widths: list[int], least: Sequence[int], block: Sequence[int], width: int) -> None:
    """Takes from the widest columns until those of a block fit."""
    excess = sum([widths[index] + _GAP for index in block]) - _GAP - width
    while excess > 0:
        able = [index for index in block if widths[index] > least[index]]
        if not able:
            return
        widths[max(able, key=widths.__getitem__)] -= 1
        excess -= 1


def _lines(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """The lines of a table, cells broken where they are wider than their column."""
    aligned = [str.rjust if _is_numeric(column) else str.ljust for column in columns]
    lines = []
    for cells in zip(*columns, strict=True):
        parts = [_broken(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for line in zip_longest(*parts, fillvalue=""):
            placed = zip(aligned, line, widths, strict=True)
            lines.append((" " * _GAP).join([align(text, n) for align, text, n in placed]).rstrip())
    return lines


def _broken(cell: str, width: int) -> list[str]:
    """A cell in lines; what stands before its first word, its depth, begins all of them."""
    if len(cell) <= width:
        return [cell]
    indent = cell[: len(cell) - len(cell.lstrip())][: width // 2]
    return textwrap.wrap(cell.strip(), width, initial_indent=indent, subsequent_indent=indent)


def terminal_width() -> int | None:
    """Return the maximum width of printed tables; None if standard output is not a terminal."""
    is_terminal = getattr(sys.stdout, "isatty", lambda: False)()
    return shutil.get_terminal_size().columns if is_terminal else None


class Report(ABC):
    """What is shown as text or HTML: a title, tables, and notes below them."""

    @abstractmethod
    def _shown(self) -> tuple[str, list[Table], list[str]]: ...

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it: infinities and NaN as strings."""
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


#: The kinds of programs of a check: a function, and its derivatives along directions.
