"""Running graphs on hardware: the only place that touches JAX's internals."""

from minixla.engine import foreign as _foreign
from minixla.engine import jax_rules as _jax_rules
from minixla.engine.eager import ENGINE, EngineTrace
from minixla.engine.host_calls import raise_interrupt
from minixla.engine.program import check_memory, run_graph, stage_for_jax

__all__ = ["ENGINE", "EngineTrace", "check_memory", "raise_interrupt", "run_graph", "stage_for_jax"]

_foreign.register()
_jax_rules.register()
