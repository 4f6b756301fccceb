"""Independent opinions on what a StableHLO program computes, and the values to ask them about."""

from minixla.tools.worker import OracleCrash, OracleError

from .compare import assert_same, flush_denormals, ulp_distance
from .interpreter import run_stablehlo
from .values import (
    ALL_TYPES,
    BOOLEANS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    all_values,
    edge_pairs,
    edge_values,
    random_values,
    tensor_type,
    type_name,
)
from .xla import run_xla, run_xla_optimized

__all__ = ["OracleCrash", "OracleError", "run_stablehlo", "run_xla", "run_xla_optimized"]
__all__ += ["assert_same", "flush_denormals", "ulp_distance"]
__all__ += ["ALL_TYPES", "BOOLEANS", "COMPLEX", "FLOATS", "INTEGERS"]
__all__ += ["all_values", "edge_pairs", "edge_values", "random_values", "tensor_type", "type_name"]
