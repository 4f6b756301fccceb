"""Programs in and out: StableHLO, and JAX's functions as ours."""

from minixla.interop.exporting import export
from minixla.interop.from_jax import from_jax
from minixla.interop.importing import ImportedFunction, ImportedProgram, import_stablehlo

__all__ = ["ImportedFunction", "ImportedProgram", "export", "from_jax", "import_stablehlo"]
