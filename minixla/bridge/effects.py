"""Primitives with effects: mutable arrays, prints and callbacks."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.core

from minixla.bridge.passing import PASS, bound_at, passes
from minixla.bridge.values import operand, shape_of_aval
from minixla.core.errors import UnsupportedError, explain
from minixla.core.shapes import is_mutable
from minixla.core.state import state
from minixla.core.tracing import Trace
from minixla.engine import jax_private as private
from minixla.transforms.callbacks import IoCallback, pure_callback
from minixla.transforms.debugging import debug_callback

Parameters = dict[str, Any]


class RefTracer(jax.core.Tracer):
    """A mutable JAX array (`jax.new_ref`) under one of our traces, with its current value."""

    __slots__ = ("value",)

    def __init__(self, ours: Trace, value: Any, aval: Any) -> None:
        self._trace, self.value, self.aval, self._line_info = ours, value, aval, None


class _Closure(threading.local):
    """The mutable arrays that the function being traced closes over, with their tracers."""

    refs: tuple[tuple[Any, Any], ...] = ()


_closure = _Closure()


def run_with_refs(
    stage: Callable[..., Any],
    function: Callable[..., Any],
    leaves: Sequence[Any],
    tree: Any,
    closed: Sequence[Any] = (),
) -> Any:
    """Call a function of mutable arrays as a program that takes and returns their values.

    Args:
        stage: turns a function of arrays into a function that runs as one program.
        function: the function.
        leaves: the leaves of its arguments, including mutable arrays.
        tree: the structure of its arguments, `(args, kwargs)`.
        closed: mutable arrays that the function closes over.
    """
    leaves = [*leaves, *closed]
    refs = {place: leaf for place, leaf in enumerate(leaves) if is_mutable(leaf)}

    def of_values(*values: Any) -> Any:
        inner = {n: RefTracer(state.trace, values[n], jax.typeof(ref)) for n, ref in refs.items()}
        made = [inner.get(place, leaf) for place, leaf in enumerate(values)]
        count = len(made) - len(closed)
        args, kwargs = jax.tree.unflatten(tree, made[:count])
        before = _closure.refs
        _closure.refs = (*before, *zip(closed, made[count:], strict=True))
        try:
            return function(*args, **kwargs), [ref.value for ref in inner.values()]
        finally:
            _closure.refs = before

    values = [leaf[...] if place in refs else leaf for place, leaf in enumerate(leaves)]
    result, changed = stage(of_values)(*values)
    for ref, value in zip(refs.values(), changed, strict=True):
        ref[...] = value
    return result


#: JAX's mutable arrays, and our tracers for them.
REFS = jax.Ref, RefTracer


def process_refs(ours: Trace, primitive: Any, args: Sequence[Any], params: Parameters) -> Any:
    """Apply a primitive to mutable arrays; some may come from outside the program."""
    if any(type(x) is RefTracer for x in args) or not passes(ours, args):
        return discharged(primitive, [_in_program(ours, x) for x in args], params)
    return bound_at(ours.parent.for_jax, primitive, args, params)


def _in_program(ours: Trace, value: Any) -> Any:
    if type(value) is not jax.Ref:
        return value
    tracer_of_ref = next((tracer for ref, tracer in _closure.refs if ref is value), None)
    if tracer_of_ref is not None and tracer_of_ref._trace is ours:
        return tracer_of_ref
    problem = "the function reads or changes a mutable array (jax.new_ref) from outside"
    advice = "Pass it to mx.jit as an argument and use it there outside our loops and "
    advice += "transformations, or create it in the function."
    error = explain(UnsupportedError, ours.transformation, problem, advice=advice)
    is_new = tracer_of_ref is None and not ours.forwards
    error.ref = value if is_new else None  # type: ignore[attr-defined]  # stage_for_jax reads it
    raise error


def discharged(primitive: Any, args: Sequence[Any], params: Parameters) -> Any:
    """Apply a primitive that reads or changes mutable arrays, using JAX's discharge rule."""
    if primitive is private.freeze_p:
        return args[0].value
    if primitive is private.free_ref_p:
        return []
    avals = list(map(jax.typeof, args))
    avals_out = primitive.abstract_eval(*avals, **params)[0]
    outs = avals_out if primitive.multiple_results else [avals_out]
    flags = [type(x) is RefTracer for x in args]
    values = [x.value if flag else x for x, flag in zip(args, flags, strict=True)]
    if primitive in private.discharge_rules:
        rule = private.discharge_rules[primitive]
    elif primitive in private.partial_discharge_rules:
        rule = partial(private.partial_discharge_rules[primitive], flags)
    else:
        problem = f"JAX's primitive {primitive.name} has no rule for mutable arrays"
        advice = "Call it outside our transformations, or on the array's value (x[...])."
        raise explain(UnsupportedError, primitive.name, problem, advice=advice)
    changed, results = rule(avals, outs, *values, **params)
    for ref, value in zip(args, changed, strict=True):
        if type(ref) is RefTracer and value is not None:
            ref.value = value
    return results


def _new_ref(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
    aval = private.ref_p.abstract_eval(jax.typeof(args[0]), **params)[0]
    return RefTracer(ours, args[0], aval)


def _empty_ref(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
    aval, kind = private.empty_ref_p.abstract_eval(**params)[0], params["ty"]
    return RefTracer(ours, jax.numpy.zeros(kind.shape, kind.dtype), aval)


def _debug_callback(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    is_ordered = isinstance(params["effect"], private.OrderedDebugEffect)
    debug_callback(params["callback"], *map(operand, args), ordered=is_ordered)
    return []


def _debug_print(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    printed = partial(
        private.format_print_callback,
        params["fmt"],
        dict(params["np_printoptions"]),
        params["has_placeholders"],
        params["logging_record"],
    )
    function = private.make_flat_callback(params["in_tree"], printed, params["static_args"])
    debug_callback(function, *map(operand, args), ordered=params["ordered"])
    return []


def _pure_callback(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    wanted = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in params["result_avals"]]
    callback = params["callback"]

    def function(*values: Any) -> list[Any]:
        return list(callback(*values))

    method = params["vmap_method"]
    return list(pure_callback(function, wanted, *map(operand, args), vmap_method=method))


def _io_callback(ours: Trace, args: Sequence[Any], params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    shapes = tuple(map(shape_of_aval, params["result_avals"]))
    call = IoCallback(params["callback"], shapes, None, params["ordered"])
    return list(call(*map(operand, args)))


RULES = {
    private.io_callback_p: _io_callback,
    private.ref_p: _new_ref,
    private.empty_ref_p: _empty_ref,
    private.debug_callback_p: _debug_callback,
    private.debug_print_p: _debug_print,
    private.pure_callback_p: _pure_callback,
}
