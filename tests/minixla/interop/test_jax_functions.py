"""JAX functions of whole arrays through from_jax agree with JAX: see jax_rows."""

from pathlib import Path

from tests.minixla.interop.jax_outcomes import check_row, rows_of
from tests.minixla.interop.jax_page import page
from tests.minixla.interop.jax_rows import GROUPS


@rows_of("reductions", "movement", "networks", "random")
def test_a_function(group, row):
    check_row(group, row)


def test_the_table_is_long_enough():
    rows = [row for group in GROUPS.values() for row in group]
    assert len({row.name for row in rows}) == len(rows)
    assert len([row for row in rows if not (row.zero or row.differs)]) >= 120


def test_the_page_is_up_to_date():
    path = Path(__file__).parents[3] / "docs" / "jax_functions.md"
    command = "python -m tests.minixla.interop.jax_page > docs/jax_functions.md"
    assert path.read_text() == page(), f"run {command}"
