"""Writes the tables of JAX's names, from the tables that the tests hold to JAX."""

from __future__ import annotations

from pathlib import Path

from minixla.tools.names_of_jax import MODULES, NameOfJax, names_of_jax


def write(folder: Path) -> None:
    """Writes the tables, which the page includes."""
    (folder / "names_of_jax.inc").write_text(tables())


def tables() -> str:
    """A table for each module: JAX's names with ours, and the reasons for what is missing."""
    lines: list[str] = []
    for module in MODULES:
        rows = names_of_jax(module)
        found = sum(bool(row.ours) for row in rows)
        lines += [f"## {module}", "", f"{found} of {len(rows)} names.", ""]
        lines += [f"| `{module}` | here |", "|---|---|"]
        lines += [f"| `{row.name}` | {_here(row)} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def _here(row: NameOfJax) -> str:
    # A primitive's rows are as many as all others.
    return f"{{py:obj}}`mx.{row.ours} <minixla.{row.ours}>`" if row.ours else f"— {row.reason}"
