"""JAX's array functions agree with JAX inside our transformations: see function_rows."""

import pytest

from tests.minixla.bridge.function_rows import GROUPS
from tests.minixla.bridge.outcomes import check_row, rows_of


@rows_of("reductions", "movement", "networks", "random")
def test_a_function(group, row):
    check_row(group, row)


@pytest.mark.full
@rows_of("reductions", "movement", "networks", "random")
def test_every_transformation_of_a_function(group, row):
    check_row(group, row, everything=True)


def test_names_are_distinct():
    names = [row.name for group in GROUPS.values() for row in group]
    assert len({*names}) == len(names) > 200
