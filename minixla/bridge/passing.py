"""Primitives that a trace passes to its parent."""

from collections.abc import Sequence
from typing import Any

import jax

from minixla.bridge.values import is_own
from minixla.core.tracing import Trace
from minixla.engine import jax_private as private

#: Result of a rule that passes a primitive to the parent trace, because no operand is this trace's.
PASS = object()


def passes(ours: Trace, args: Sequence[Any]) -> bool:
    """Return whether a trace passes operations on these operands to its parent."""
    return ours.forwards and not any(is_own(ours, argument) for argument in args)


def bound_at(trace: Any, primitive: Any, args: Sequence[Any], params: Any) -> Any:
    """Bind a primitive under `trace`, as `Primitive.bind` does under the current trace."""
    with private.jax_trace_in_force(private.eval_trace):
        return primitive.bind_with_trace(trace, args, list(map(jax.typeof, args)), params)
