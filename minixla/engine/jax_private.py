"""Every private name of JAX that minixla uses, and the hook through which core reads JAX's trace.

No other file imports from `jax._src`, and no other package from `jax.interpreters`, which may also
change between releases. `Primitive`, `ir` and `func` are also in `jax.extend`, which loads Pallas.
`tests/minixla/engine/test_jax_private.py` prints the names that a release of JAX lacks.
"""

from __future__ import annotations

# ruff: noqa: F401 - other files import the names from here
from collections.abc import Callable
from typing import Any

from jax._src.ad_util import Zero as Zero
from jax._src.api_util import debug_info as debug_info
from jax._src.array import ArrayImpl as ArrayImpl
from jax._src.callback import io_callback_p as io_callback_p
from jax._src.callback import pure_callback_p as pure_callback_p
from jax._src.compiler import (
    register_xla_runtime_error_handler as register_xla_runtime_error_handler,
)
from jax._src.config import _check_vma as check_vma
from jax._src.config import disable_bwd_checks as disable_bwd_checks
from jax._src.config import eager_constant_folding as eager_constant_folding
from jax._src.config import trace_context as trace_context
from jax._src.core import NamedAxisEffect as NamedAxisEffect
from jax._src.core import Primitive as Primitive
from jax._src.core import empty_ref_p as empty_ref_p
from jax._src.core import eval_context as eval_context
from jax._src.core import eval_trace as eval_trace
from jax._src.core import extend_axis_env_nd as extend_axis_env_nd
from jax._src.core import free_ref_p as free_ref_p
from jax._src.core import freeze_p as freeze_p
from jax._src.core import get_axis_env as get_axis_env
from jax._src.core import pvary_p as pvary_p
from jax._src.core import pytype_aval_mappings as pytype_aval_mappings
from jax._src.core import ref_p as ref_p
from jax._src.core import set_current_trace as jax_trace_in_force
from jax._src.core import shaped_abstractify as shaped_abstractify
from jax._src.core import shard_aval as shard_aval
from jax._src.core import trace_ctx as trace_ctx
from jax._src.core import trace_state_clean as trace_state_clean
from jax._src.core import trace_state_strong_ref as current_jax_trace
from jax._src.core import unmapped_aval as unmapped_aval
from jax._src.debugging import OrderedDebugEffect as OrderedDebugEffect
from jax._src.debugging import _format_print_callback as format_print_callback
from jax._src.debugging import _make_flat_callback as make_flat_callback
from jax._src.debugging import debug_callback_p as debug_callback_p
from jax._src.debugging import debug_print_p as debug_print_p
from jax._src.dispatch import should_tuple_args as should_tuple_args
from jax._src.dtypes import register_canonicalize_value_handler as canonicalized_by
from jax._src.effects import Effect as Effect
from jax._src.effects import control_flow_allowed_effects as control_flow_allowed_effects
from jax._src.effects import (
    custom_derivatives_allowed_effects as custom_derivatives_allowed_effects,
)
from jax._src.effects import lowerable_effects as lowerable_effects
from jax._src.effects import ordered_effects as ordered_effects
from jax._src.effects import partial_eval_kept_effects as partial_eval_kept_effects
from jax._src.effects import remat_allowed_effects as remat_allowed_effects
from jax._src.hijax import CustomVJPTraced as CustomVJPTraced
from jax._src.hijax import VJPHiPrimitive as VJPHiPrimitive
from jax._src.hijax import call_hi_primitive_p as call_hi_primitive_p
from jax._src.interpreters.ad import JVPTracer as JVPTracer
from jax._src.interpreters.ad import UndefinedPrimal as UndefinedPrimal
from jax._src.interpreters.ad import ValAccum as ValAccum
from jax._src.interpreters.ad import fancy_transposes as fancy_transposes
from jax._src.interpreters.ad import instantiate_zeros as instantiate_zeros
from jax._src.interpreters.ad import is_undefined_primal as is_undefined_primal
from jax._src.interpreters.ad import primitive_jvps as primitive_jvps
from jax._src.interpreters.ad import primitive_linearizations as primitive_linearizations
from jax._src.interpreters.ad import primitive_transposes as primitive_transposes
from jax._src.interpreters.batching import AxisData as AxisData
from jax._src.interpreters.batching import fancy_primitive_batchers as fancy_primitive_batchers
from jax._src.interpreters.mlir import LoweringParameters as LoweringParameters
from jax._src.interpreters.mlir import ModuleContext as ModuleContext
from jax._src.interpreters.mlir import (
    _platform_specific_lowerings as platform_specific_lowerings,
)
from jax._src.interpreters.mlir import make_ir_context as make_ir_context
from jax._src.interpreters.mlir import sanitize_name as sanitize_name
from jax._src.interpreters.mlir import set_sharding as set_sharding
from jax._src.interpreters.partial_eval import SaveableType as SaveableType
from jax._src.interpreters.partial_eval import close_jaxpr as close_jaxpr
from jax._src.interpreters.partial_eval import separate_consts as separate_consts
from jax._src.interpreters.partial_eval import trace_to_jaxpr as trace_to_jaxpr
from jax._src.interpreters.pxla import AllArgsInfo as AllArgsInfo
from jax._src.interpreters.pxla import MeshComputation as MeshComputation
from jax._src.interpreters.pxla import (
    _get_and_check_device_assignment as get_and_check_device_assignment,
)
from jax._src.lax.control_flow.conditionals import platform_index_p as platform_index_p
from jax._src.lax.linalg import initialize_lapack as initialize_lapack
from jax._src.lax.parallel import psum_invariant_p as psum_invariant_p
from jax._src.lax.parallel import reduce_scatter_p as reduce_scatter_p
from jax._src.mesh import empty_concrete_mesh as empty_concrete_mesh
from jax._src.mesh import get_concrete_mesh as get_concrete_mesh
from jax._src.mesh import use_abstract_mesh as use_abstract_mesh
from jax._src.named_sharding import UNSPECIFIED as UNSPECIFIED
from jax._src.named_sharding import SdyArray as SdyArray
from jax._src.pjit import reshard_p as reshard_p
from jax._src.shard_map import _as_manual_mesh as as_manual_mesh
from jax._src.shard_map import _extend_axis_env as extend_axis_env
from jax._src.sharding_impls import SdyArrayList as SdyArrayList
from jax._src.sharding_impls import ShardingContext as ShardingContext
from jax._src.source_info_util import current_name_stack as current_name_stack
from jax._src.stages import make_args_info as make_args_info
from jax._src.state.discharge import _discharge_rules as discharge_rules
from jax._src.state.discharge import _partial_discharge_rules as partial_discharge_rules
from jax._src.tree_util import FlatTree as FlatTree
from jax._src.util import weakref_cache_key_types as weakref_cache_key_types
from jax._src.util import weakref_lru_cache as weakref_lru_cache
from jax._src.util import wrap_name as wrap_name
from jax._src.xla_bridge import canonicalize_platform as canonicalize_platform
from jaxlib.mlir import ir as ir
from jaxlib.mlir.dialects import func as func

from minixla.core.state import ThreadState
from minixla.core.tracing import Trace


def fill_hook(evaluator: Trace, evaluator_at: Callable[[Any], Trace]) -> None:
    """Make core read and set JAX's current trace, which is the current trace of both libraries.

    Args:
        evaluator: the trace that is current outside all transformations.
        evaluator_at: returns the evaluator for another JAX trace.
    """
    set_trace = trace_ctx.set_trace

    def current(_: ThreadState) -> Trace:
        trace = current_jax_trace.value
        if trace is eval_trace:
            return evaluator
        return trace if isinstance(trace, Trace) else evaluator_at(trace)

    def set_current(_: ThreadState, trace: Trace) -> None:
        set_trace(trace.for_jax)

    def scope(_: ThreadState) -> str:
        stack = current_name_stack()
        return str(stack) if stack.stack else ""

    ThreadState.trace = property(current, set_current)
    ThreadState.scope = property(scope)  # type: ignore[assignment]  # read like an attribute


def symbols_of(size: Any) -> set[str]:
    """Return the names of the symbols in a size, a number or an expression of symbolic_shape."""
    return set() if isinstance(size, int) else set(size._get_vars())


def size_at(size: Any, values: dict[str, int]) -> int:
    """Return the value of a size for values of its symbols."""
    return size if isinstance(size, int) else int(size._evaluate(values))


def constraints_hold(size: Any, values: dict[str, int]) -> bool:
    """Return whether values of symbols satisfy the constraints of the symbolic size's scope."""
    for constraint in () if isinstance(size, int) else size.scope._explicit_constraints:
        difference = size_at(constraint.diff, values)
        if difference < 0 or (constraint.cmp.name == "EQ" and difference):
            return False
    return True
