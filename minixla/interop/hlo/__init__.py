"""Import of HLO text, optimized or not."""

from minixla.interop.hlo.importing import import_hlo

__all__ = ["import_hlo"]
