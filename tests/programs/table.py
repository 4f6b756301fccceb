"""The table of random programs: for each builder how to draw a call whose result is exact.

A row draws operands that hold numbers for which the operation gives the same bits in any order of
evaluation and any intermediate precision: integers and Booleans without bounds, floats that are
small whole numbers. `EXCLUDED` says of all other builders why they have no row.
"""

from __future__ import annotations

from tests.programs import (
    element_rows,
    fold_rows,
    index_rows,
    product_rows,
    program_rows,
    shape_rows,
)
from tests.programs.rows import TABLE, Row

__all__ = ["EXCLUDED", "INTERPRETED", "TABLE", "Row"]

# Rows enter the table where their files are imported.
assert all((element_rows, fold_rows, index_rows, product_rows, program_rows, shape_rows))

#: The rows of operations that StableHLO's interpreter evaluates.
INTERPRETED = [row for row in TABLE.values() if row.interpreted]

_REASONS = {
    "it rounds: it is in the table of inexact programs": """
        atan2 batch_norm_grad batch_norm_inference batch_norm_training cbrt cholesky cos cosh eig
        eigh erf exp expm1 fft gap_quotient geqrf householder_product log log1p logistic lu
        lu_solve lyapunov_solve qr rsqrt sin softmax sqrt svd tan tanh""",
    "it rounds and has no derivative: tests/minixla_ops/linear_algebra/test_eigen.py": "schur",
    "processes communicate, or a queue is read: tests/oracles/parallel.py": """
        all_gather all_reduce all_to_all collective_broadcast collective_permute cross_replica_sum
        infeed outfeed ragged_all_to_all recv recv_done recv_to_host recv_with_tokens
        reduce_scatter send send_done send_to_host send_with_tokens""",
    "it always raises: only the compiler makes it": """
        add_dependency all_gather_done all_gather_start all_reduce_done all_reduce_start async_done
        async_start async_update bitcast collective_permute_done collective_permute_start copy
        copy_done copy_start domain fusion rng_get_and_update_state""",
    "the interpreter aborts on dynamic sizes": "set_dimension_size dynamic_reshape",
    "its numbers are the backend's choice": "rng_normal rng_uniform",
    "MLIR approximates it: tests/minixla_ops/elementwise/test_special_functions.py": """
        acos acosh asin asinh atan atanh digamma erf_inv erfc lgamma next_after polygamma sinh
        zeta""",
    "it runs code of the user's": "custom_call register_custom_call",
}

#: Why a builder has no row.
EXCLUDED = {name: reason for reason, names in _REASONS.items() for name in names.split()}
