"""Import of HLO text, optimised or not."""

from minixla.interop.hlo.importing import import_hlo

__all__ = ["import_hlo"]
