"""Elementwise JAX functions through from_jax agree with JAX: see jax_rows."""

from tests.minixla.interop.jax_outcomes import check_row, rows_of


@rows_of("elementwise", "functions")
def test_an_elementwise_function(group, row):
    check_row(group, row)
