"""Reports: tables as text, and as HTML in notebooks."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from html import escape
from typing import Any, NamedTuple

_NUMERIC = set("0123456789.+-e,")


def plain(value: Any) -> Any:
    """The value as JSON holds it: infinities and NaN as strings, complex numbers as pairs."""
    if hasattr(value, "_asdict"):  # a NamedTuple
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
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

    def text(self) -> str:
        """Columns one beside the other; those of numbers to the right, empty ones left out."""
        columns = [each for each in zip(self.header, *self.rows, strict=True) if any(each[1:])]
        lines = zip(*map(_aligned, columns), strict=True)
        return "\n".join("  ".join(line).rstrip() for line in lines)

    def html(self) -> str:
        """The table in HTML."""
        style = ' style="font-weight:bold;color:#b00020"'
        lines = [_html_line("", "th", self.header)]
        for number, row in enumerate(self.rows):
            lines.append(_html_line(style if number in self.marked else "", "td", row))
        return f"<table>{''.join(lines)}</table>"


def _aligned(column: Sequence[str]) -> list[str]:
    are_numbers = all(set(cell) <= _NUMERIC or cell in ("inf", "nan") for cell in column[1:])
    align = str.rjust if are_numbers else str.ljust
    width = max(map(len, column))
    return [align(cell, width) for cell in column]


def _html_line(style: str, kind: str, cells: Sequence[str]) -> str:
    inside = "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells)
    return f"<tr{style}>{inside}</tr>"


class Report:
    """What is shown as text or HTML: a title, tables, and notes below them."""

    def _shown(self) -> tuple[str, list[Table], list[str]]:
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON holds it: infinities and NaN as strings."""
        return plain(vars(self))

    def __str__(self) -> str:
        title, tables, notes = self._shown()
        return "\n".join([title, "\n\n".join(table.text() for table in tables), *notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        title, tables, notes = self._shown()
        below = [f"<pre>{escape(note)}</pre>" for note in notes]
        parts = "".join([*[table.html() for table in tables], *below])
        return f"<div><b>{escape(title)}</b>{parts}</div>"
