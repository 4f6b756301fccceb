"""Evaluate jaxprs equation by equation, and convert them to graphs."""

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.core
from jax.extend.core import ClosedJaxpr, Literal, primitives

from minixla.bridge.values import operand, results
from minixla.core.graph import Graph, hoist_constants
from minixla.core.source import Source, innermost_source, within_scope
from minixla.core.state import held, state
from minixla.core.tracing import (
    Trace,
    evaluate_graph,
    running_source,
    shape_of,
    trace_to_graph,
)
from minixla.engine import jax_private as private
from minixla_ops.programs.call import Call, call

#: Calls of functions with custom rules; each holds a jaxpr of the function.
WITH_RULES = primitives.custom_jvp_call_p, primitives.custom_vjp_call_p
#: Programs with at most this many instructions are inlined.
_SMALL = 8


def evaluate(closed: Any, *args: Any, ignores_rules: bool = False) -> list[Any]:
    """Bind the equations of a jaxpr under the current trace, each at its own source line.

    With `ignores_rules`, functions with custom rules run without them.
    """
    jaxpr, values = closed.jaxpr, {}
    values.update(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    previous, around = state.source, running_source()
    try:
        for eqn in jaxpr.eqns:
            state.source = source_of(eqn.source_info, around)
            params = eqn.primitive.get_bind_params(eqn.params)
            bind = eqn.primitive.bind
            if ignores_rules and eqn.primitive in WITH_RULES:
                bind, params = partial(evaluate, eqn.params["call_jaxpr"]), {}
            with eqn.ctx.manager:
                outputs = bind(*map(read, eqn.invars), **params)
            if not eqn.primitive.multiple_results:
                outputs = [outputs]
            values.update(zip(eqn.outvars, outputs, strict=True))
    finally:
        state.source = previous
    return list(map(read, jaxpr.outvars))


def source_of(info: Any, around: Source | None) -> Source | None:
    """Return the line of an equation of a jaxpr, with its scopes.

    Args:
        info: JAX's source information; its traceback ends where tracing of the jaxpr started.
        around: the line that runs the jaxpr.
    """
    traceback, scope = info.traceback, info.name_stack
    if traceback is None:
        return around
    if scope.stack or private.current_name_stack().stack:
        scope = private.current_name_stack() + scope
    source = innermost_source(zip(*traceback.raw_frames(), strict=True), around)
    if source is around:
        return around
    return within_scope(source, str(scope) if scope.stack else "")


@private.weakref_lru_cache
def _graph_of(
    closed: Any, shapes: tuple[Any, ...], _: Any
) -> tuple[Graph, list[Any], Source | None]:
    """Convert a jaxpr; also return the values that it reads, and the line that ran it.

    These values are constants, and tracers of enclosing functions.
    """
    around = running_source()

    def function(*values: Any) -> list[Any]:
        arguments = results(state.trace, values, closed.in_avals)
        return list(map(operand, evaluate(closed, *arguments)))

    with held("source", around):
        graph, captured = trace_to_graph(function, shapes, "jaxpr")
    graph, literals = hoist_constants(graph.pruned())
    return graph, [*(literal.data for literal in literals), *captured], around


def graph_of(closed: Any, operands: Sequence[Any]) -> tuple[Graph, list[Any], Source | None]:
    """Return the graph of a closed jaxpr, the values before its operands, and its line.

    The line is the one that ran the jaxpr when the graph was created.
    """
    # Weak references compare by identity and do not keep the axes' traces.
    axes = tuple([(name, axis and weakref.ref(axis)) for name, axis in state.axes])
    traced = _graph_of(closed, tuple(map(shape_of, operands)), axes)
    if any(isinstance(value, jax.core.Tracer) for value in traced[1]):
        _graph_of.evict_weakref(closed)  # another call may read other tracers
    return traced


def called(
    ours: Trace, closed: Any, args: Sequence[Any], how: Callable[[Graph], Call] | None = None
) -> list[Any]:
    """Return the results of a jaxpr: call its program, or inline it if it is short."""
    values = list(map(operand, args))
    graph, read, around = graph_of(closed, values)
    if how is not None:
        found = how(graph)(*read, *values)
    elif len(graph.instructions) <= _SMALL:
        found = evaluate_graph(graph, [*read, *values], _moved(around, running_source()))
    else:
        found = call(graph, *read, *values)
    return results(ours, found, closed.out_avals)


def _moved(around: Source | None, running: Source | None) -> Callable[[Any], Source | None]:
    """Return how to change the lines of a jaxpr's graph if another line runs the jaxpr."""
    if around is None or running is None:
        return lambda source: source
    user, caller = around.caller or around, running.caller or running

    def moved(source: Any) -> Source | None:
        if source is around:
            return running
        if source is not None and source.caller is user:
            return source._replace(caller=caller)
        return source

    return moved


def as_closed(jaxpr: Any) -> Any:
    """Close a jaxpr without constants; the same jaxpr returns the same object."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else private.close_jaxpr(jaxpr)
