"""Run graphs on hardware; the only package that uses JAX's internals."""

import jax

from minixla.core.jax_version import unsupported

try:
    from minixla.engine import jax_private as _jax_private  # noqa: F401 - all names exist
except ImportError as error:
    raise unsupported(f"version {jax.__version__} lacks a name: {error}") from error

from minixla.engine import jax_rules as _jax_rules  # noqa: F401 - tells JAX the rules of programs
from minixla.engine import program_keys as _program_keys  # noqa: F401 - keys of JAX's caches
from minixla.engine.eager import ENGINE, EngineTrace
from minixla.engine.foreign import DIFFERENTIATED
from minixla.engine.foreign_code import KernelError, raise_ours
from minixla.engine.jax_private import eval_context
from minixla.engine.jitted import jitted
from minixla.engine.lowering import lowered
from minixla.engine.program import forget_traces, run_graph, stage_for_jax

__all__ = ["DIFFERENTIATED", "ENGINE", "EngineTrace", "KernelError", "eval_context"]
__all__ += ["forget_traces", "jitted", "lowered", "raise_ours", "run_graph", "stage_for_jax"]
