"""Primitives that a trace leaves to its parent."""

from collections.abc import Sequence
from typing import Any

import jax

from minixla.bridge.values import is_own
from minixla.core.tracing import Trace
from minixla.engine import jax_private as private

#: A rule returns it to leave a primitive to the parent trace, if no operand is the trace's.
PASS = object()


def passes(ours: Trace, args: Sequence[Any]) -> bool:
    """Whether a trace leaves operations on these operands to its parent."""
    return ours.forwards and not any(is_own(ours, argument) for argument in args)


def bound_at(trace: Any, primitive: Any, args: Sequence[Any], params: Any) -> Any:
    """Bind a primitive under `trace`, as `Primitive.bind` does under the current trace."""
    with private.jax_trace_in_force(private.eval_trace):
        return primitive.bind_with_trace(trace, args, list(map(jax.typeof, args)), params)
