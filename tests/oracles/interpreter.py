"""StableHLO's own interpreter; see `minixla.tools.interpreter` for what it cannot be asked."""

from minixla.tools.interpreter import run_stablehlo

__all__ = ["run_stablehlo"]
