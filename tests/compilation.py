"""How XLA compiles the programs of the tests."""

from collections.abc import Mapping
from typing import Any

#: What compiles a program in two thirds of the time, by the same generators of code: LLVM barely
#: optimises it, in one module and not one for each thread. Results may be rounded otherwise.
LIGHTLY = {
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_backend_optimization_level": 0,
}
#: What compiles a small program in half the time or less, without the generators of fusions, too.
QUICKLY = {"xla_cpu_use_fusion_emitters": False} | LIGHTLY
#: What users get: for results that are rounded worse in a program compiled quickly.
OPTIMIZED = {
    "xla_cpu_use_fusion_emitters": True,
    "xla_backend_optimization_level": 3,
}


def flags_of(options: Mapping[str, Any], before: str) -> str:
    """The variable XLA_FLAGS for some options, after others."""
    return " ".join([before, *[f"--{name}={value}".lower() for name, value in options.items()]])
