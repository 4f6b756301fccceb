"""MLIR's contexts, for tests that parse modules themselves."""

from minixla.tools.mlir import make_context

__all__ = ["make_context"]
