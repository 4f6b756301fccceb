"""JAX's control flow and products agree with JAX inside our transformations: see function_rows."""

import pytest

from tests.minixla.bridge.outcomes import check_row, rows_of


@rows_of("control", "products")
def test_a_function(group, row):
    check_row(group, row)


@pytest.mark.full
@rows_of("control", "products")
def test_every_transformation_of_a_function(group, row):
    check_row(group, row, everything=True)
