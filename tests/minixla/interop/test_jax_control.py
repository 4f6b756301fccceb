"""JAX's control flow and linear algebra through from_jax agree with JAX: see jax_rows."""

from tests.minixla.interop.jax_outcomes import check_row, rows_of


@rows_of("control", "products")
def test_a_function(group, row):
    check_row(group, row)
