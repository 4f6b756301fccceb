"""Import and export: StableHLO, HLO, and calls of JAX functions."""

from minixla.interop.exporting import export
from minixla.interop.from_jax import from_jax
from minixla.interop.hlo import import_hlo
from minixla.interop.imported import ImportedFunction, ImportedProgram
from minixla.interop.importing import import_stablehlo

__all__ = [
    "ImportedFunction",
    "ImportedProgram",
    "export",
    "from_jax",
    "import_hlo",
    "import_stablehlo",
]
