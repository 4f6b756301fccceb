"""HLO text, optimised or not, as programs of ours."""

from minixla.interop.hlo.importing import import_hlo

__all__ = ["import_hlo"]
