"""How XLA compiles the programs of the tests."""

#: Options with which it compiles a small program in half the time or less: without the code
#: generators of fusions, in one LLVM module and not one for each thread, which are barely
#: optimised. Results may be rounded otherwise.
QUICKLY = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_backend_optimization_level": 0,
}
#: What users get: for results that are rounded worse in a program compiled quickly.
OPTIMIZED = {
    "xla_cpu_use_fusion_emitters": True,
    "xla_backend_optimization_level": 3,
}


def quick_flags(before: str) -> str:
    """The variable XLA_FLAGS for these options, after others."""
    return " ".join([before, *[f"--{name}={value}".lower() for name, value in QUICKLY.items()]])
