"""Process JAX's primitives under our traces."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import numpy as np

from minixla.bridge import axes, custom_rules, effects, programs
from minixla.bridge.lowered import by_lowering
from minixla.bridge.passing import PASS, bound_at, passes
from minixla.bridge.values import staged
from minixla.core.tracing import Trace, under
from minixla.engine import jax_private as private

_FLOAT0 = jax.dtypes.float0

#: `rule(ours, args, params)` returns the results of a primitive, or PASS.
Rule = Callable[[Trace, Sequence[Any], dict[str, Any]], Any]
RULES: dict[Any, Rule] = {**programs.RULES, **custom_rules.RULES, **effects.RULES, **axes.RULES}


def process_primitive(ours: Trace, primitive: Any, args: Sequence[Any], params: Any) -> Any:
    """Return the results of a primitive under one of our traces.

    A primitive without operands of this trace goes to the parent trace. Others become operations:
    by a rule if the primitive contains programs or has effects, otherwise by lowering. If the trace
    records every operation, all results belong to it, even if a rule returns an operand unchanged.
    """
    with under(ours):
        results = _processed(ours, primitive, args, params)
        if ours.forwards:
            return results
        if primitive.multiple_results:
            return [staged(ours, result) for result in results]
        return staged(ours, results)


def _processed(ours: Trace, primitive: Any, args: Sequence[Any], params: Any) -> Any:
    if private.eager_constant_folding.value and not _has_tracers(args):
        return bound_at(private.eval_trace, primitive, args, params)
    if any(type(x) in effects.REFS for x in args):
        return effects.process_refs(ours, primitive, args, params)
    rule = RULES.get(primitive)
    if rule is not None:
        results = rule(ours, args, params)
        if results is not PASS:
            return results
    if passes(ours, args):
        return bound_at(ours.parent.for_jax, primitive, args, params)
    if any(_is_float0(x) for x in args):
        return _without_values(primitive, args, params)
    return by_lowering(ours, primitive, args, params)


def _has_tracers(args: Sequence[Any]) -> bool:
    return any(isinstance(x, jax.core.Tracer) for x in args)


def _is_float0(value: Any) -> bool:
    return not isinstance(value, jax.core.Tracer) and getattr(value, "dtype", None) == _FLOAT0


def _without_values(primitive: Any, args: Sequence[Any], params: Any) -> Any:
    """Apply a primitive that only moves values to float0 zeros, the tangents of integers."""
    avals = primitive.abstract_eval(*map(jax.typeof, args), **params)[0]
    avals = avals if primitive.multiple_results else [avals]
    if any(aval.dtype != _FLOAT0 for aval in avals):
        return bound_at(private.eval_trace, primitive, args, params)
    zeros = [np.zeros(aval.shape, _FLOAT0) for aval in avals]
    return zeros if primitive.multiple_results else zeros[0]
