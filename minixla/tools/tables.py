"""Tables as text and as HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

_NUMERIC = set("0123456789.+-e")


def plain_number(value: Any) -> Any:
    """The value as JSON holds it: infinities and NaN as strings."""
    is_odd = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_odd else value


def shown_number(value: float | None) -> str:
    """Three digits; whole numbers as they are; nothing for None."""
    if value is None:
        return ""
    if abs(value) < 1e6 and value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}"


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns one beside the other; those of numbers to the right, empty ones left out."""
    kept = [index for index, _ in enumerate(header) if any(row[index] for row in rows)]
    lines = [[row[index] for index in kept] for row in [header, *rows]]
    columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [_is_numeric(column[1:]) for column in columns]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def _is_numeric(cells: Sequence[str]) -> bool:
    return all(set(cell.replace(",", "")) <= _NUMERIC or cell in ("inf", "nan") for cell in cells)


def html_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[bool] = ()
) -> str:
    """The table in HTML; rows that are `marked` stand out."""
    flags = list(marked) or [False] * len(rows)
    lines = [f"<tr>{''.join(f'<th>{html.escape(cell)}</th>' for cell in header)}</tr>"]
    for row, flag in zip(rows, flags, strict=True):
        style = ' style="font-weight:bold;color:#b00020"' if flag else ""
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        lines.append(f"<tr{style}>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"


def html_page(title: str, tables: Sequence[str], notes: Sequence[str] = ()) -> str:
    """A title, tables, and notes in fixed width below them."""
    below = [f"<pre>{html.escape(note)}</pre>" for note in notes]
    return f"<div><b>{html.escape(title)}</b>{''.join([*tables, *below])}</div>"
