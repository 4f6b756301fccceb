"""docs/jax_functions.md, from the rows that the tests run.

`python -m tests.minixla.interop.jax_page` prints it.
"""

from __future__ import annotations

from tests.minixla.interop.jax_rows import GROUPS, Row

_HEAD = """# JAX functions that go through from_jax

For each of these functions the tests compare `mx.from_jax(function)` with the function itself: its
value under `mx.jit` and in NumPy (`mx.reference`), both derivatives (`mx.jvp` and `mx.vjp`, again
in both evaluators), and `mx.vmap`. Where nothing else is said, the derivatives are those that our
rules give for the function's StableHLO program (`derivatives="program"`), and agree with JAX's.

*in JAX*: the derivative is the one that JAX makes (`derivatives="jax"`, the default of
`mx.from_jax`), since the program alone does not tell it. *none*: there is no derivative to compare.

Printed by `python -m tests.minixla.interop.jax_page`; a test fails when this page is out of date.
Functions are named as in `import jax.numpy as jnp`, `from jax import lax, nn, random`,
`from jax.numpy import linalg` and `from jax.scipy import special`.
"""
_TITLES = {
    "elementwise": "Elementwise functions",
    "reductions": "Reductions, sorting and statistics",
    "movement": "Movement and indexing",
    "products": "Products, convolutions and linear algebra",
    "control": "Control flow and lax",
    "networks": "Neural networks",
    "functions": "Special functions",
    "random": "Random numbers",
}


def _cells(row: Row) -> tuple[str, str]:
    """What is compared of the derivatives, and why something is not."""
    derivatives = "none" if row.zero else "in JAX" if row.differs else "both modes"
    notes = [row.zero, "" if row.zero else row.differs]
    if row.tolerance > Row._field_defaults["tolerance"]:
        notes.append(f"within {row.tolerance:g} of the greatest")
    return derivatives, "; ".join(filter(None, notes))


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for group, rows in GROUPS.items():
        lines = [f"## {_TITLES[group]}", "", "| function | derivatives | why |", "|---|---|---|"]
        for row in rows:
            derivatives, note = _cells(row)
            lines.append(f"| `{row.name}` | {derivatives} | {note} |")
        parts.append("\n".join(lines) + "\n")
    count = sum(map(len, GROUPS.values()))
    return "\n".join([*parts, f"{count} functions."]) + "\n"


if __name__ == "__main__":
    print(page(), end="")
