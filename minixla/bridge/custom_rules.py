"""Convert functions with jax.custom_jvp or custom_vjp rules to our custom calls."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core

import minixla_ops as ops
from minixla.bridge.passing import PASS, passes
from minixla.bridge.primitive_calls import or_none, zero_of
from minixla.bridge.values import is_own, operand, results
from minixla.core.batching import BatchTrace
from minixla.core.tracing import Trace, under
from minixla.engine import jax_private as private
from minixla.transforms.custom_calls import CustomJvpCall, CustomVjpCall
from minixla.transforms.custom_calls import _InnerBatchTrace as InnerBatchTrace


def process_custom_jvp_call(
    ours: Trace, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], *, symbolic_zeros: bool
) -> Any:
    """Return the results of a `jax.custom_jvp` function under one of our traces."""
    function = _JvpFunction(fun, jvp, symbolic_zeros)
    call = private.eval_trace.process_custom_jvp_call, (primitive, fun, jvp)
    return _custom(ours, CustomJvpCall(function), args, *call, symbolic_zeros=symbolic_zeros)


def process_custom_vjp_call(
    ours: Trace,
    primitive: Any,
    fun: Any,
    fwd: Any,
    bwd: Any,
    args: Sequence[Any],
    *,
    out_trees: Any,
    symbolic_zeros: bool,
) -> Any:
    """Return the results of a `jax.custom_vjp` function under one of our traces."""
    function = _VjpFunction(fun, fwd, bwd, out_trees, symbolic_zeros)
    call = private.eval_trace.process_custom_vjp_call, (primitive, fun, fwd, bwd)
    options = {"out_trees": out_trees, "symbolic_zeros": symbolic_zeros}
    return _custom(ours, CustomVjpCall(function), args, *call, **options)


def _custom(
    ours: Trace, operation: Any, args: Any, method: Any, functions: Any, **options: Any
) -> Any:
    has_own = any(is_own(ours, argument) for argument in args)
    with under(ours):
        if isinstance(ours, BatchTrace) and not has_own:
            # The function and its rules may read values of the batch.
            values = [ours.own(x) for x in args] if isinstance(ours, InnerBatchTrace) else args
            return list(_batch_within(ours, operation, values))
        is_constant = private.eager_constant_folding.value and not any(
            isinstance(x, jax.core.Tracer) for x in args
        )
        if (ours.forwards and not has_own) or is_constant:
            below = private.eval_trace if is_constant else ours.parent.for_jax
            with private.jax_trace_in_force(below):
                outputs = getattr(below, method.__name__)(*functions, args, **options)
                return [x if isinstance(x, jax.core.Tracer) else operand(x) for x in outputs]
        outputs = operation(*map(operand, args))
        operation.function.is_done = True
        return list(outputs)


def _batch_within(ours: Any, operation: Any, args: Sequence[Any]) -> list[Any]:
    """Batch an operation whose function may read values of the batch."""
    with under(ours.parent):
        values = list(map(operand, args))
        outputs, at = operation.batch_within(ours, values, (None,) * len(values))
    return [ours.put_together([x], d) for x, d in zip(outputs, at, strict=True)]


def _reset(*functions: Any) -> None:
    """Allow JAX functions that run only once to run again."""
    for function in functions:
        for store in function.stores:
            if store:
                store.reset()


def _zero(value: Any, is_symbolic: bool) -> Any:
    """Return a zero tangent or cotangent in the form that JAX's rules take."""
    is_aval = isinstance(value, jax.core.ShapedArray)
    aval = (value if is_aval else jax.typeof(value)).to_tangent_aval()
    if is_symbolic:
        return jax.custom_derivatives.SymbolicZero(aval)
    return private.instantiate_zeros(private.Zero(aval))


def _fitting(value: Any, aval: Any) -> Any:
    """Convert a cotangent to the dtype of its primal; JAX accepts other float types."""
    value = or_none(value)
    if value is None or value.dtype == aval.dtype or jax.dtypes.float0 == aval.dtype:
        return value
    if not jax.numpy.issubdtype(aval.dtype, jax.numpy.inexact):
        return value
    return ops.convert_element_type(value, jax.numpy.dtype(aval.dtype).name)


class _JvpFunction:
    """A JAX function with a jvp rule, in the form that CustomJvpCall takes."""

    name = "custom_jvp"

    def __init__(self, fun: Any, rule: Any, is_symbolic: bool) -> None:
        self.fun, self.rule, self.is_symbolic, self.is_done = fun, rule, is_symbolic, False

    def __call__(self, *operands: Any) -> list[Any]:
        _reset(self.fun, *(() if self.is_done else (self.rule,)))
        return list(map(operand, self.fun.call_wrapped(*operands)))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Return the results and their tangents."""
        _reset(self.rule, *(() if self.is_done else (self.fun,)))
        pairs = zip(primals, tangents, strict=True)
        instantiated = [_zero(p, self.is_symbolic) if t is None else t for p, t in pairs]
        outputs = self.rule.call_wrapped(*primals, *instantiated)
        half = len(outputs) // 2
        return list(map(operand, outputs[:half])), list(map(or_none, outputs[half:]))


class _VjpFunction:
    """A JAX function with forward and backward rules, in the form that CustomVjpCall takes."""

    name = "custom_vjp"

    def __init__(self, fun: Any, fwd: Any, bwd: Any, out_trees: Any, is_symbolic: bool) -> None:
        self.fun, self.fwd, self.bwd, self.out_trees = fun, fwd, bwd, out_trees
        self.is_symbolic, self.is_done = is_symbolic, False

    def __call__(self, *operands: Any) -> list[Any]:
        _reset(self.fun, *(() if self.is_done else (self.fwd,)))
        return list(map(operand, self.fun.call_wrapped(*operands)))

    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> Any:
        """Return the results, and the residuals for the backward rule."""
        _reset(self.fwd, *(() if self.is_done else (self.fun,)))
        pairs = zip(operands, active, strict=True)
        found = self.fwd.call_wrapped(*[x for pair in pairs for x in (pair[0], bool(pair[1]))])
        _, tree, forwarded = self.out_trees()
        count = tree.num_leaves - sum(index is not None for index in forwarded)
        rest, outputs = iter(found[:count]), found[count:]
        residuals = [next(rest) if f is None else operands[f] for f in forwarded]
        avals = list(map(jax.typeof, outputs)), list(map(jax.typeof, operands))
        return list(map(operand, outputs)), (residuals, _Static(avals))

    def backward(self, residuals: Any, cotangents: Sequence[Any], shapes: Any) -> list[Any]:
        """Return the cotangents of the operands."""
        residuals, (of_results, of_operands) = residuals[0], residuals[1].value
        pairs = zip(cotangents, of_results, strict=True)
        instantiated = [_zero(a, self.is_symbolic) if c is None else c for c, a in pairs]
        cotangents_out = self.bwd.call_wrapped(*residuals, *instantiated)
        return list(map(_fitting, cotangents_out, of_operands))


class _HijaxFunction:
    """A hijax primitive, in the form that CustomVjpCall or CustomJvpCall takes."""

    def __init__(self, prim: Any) -> None:
        self.prim, self.name, self.is_done = prim, type(prim).__name__, False

    def _tree(self, values: Sequence[Any]) -> Any:
        return jax.tree.unflatten(self.prim.in_tree, values)

    def _leaves(self, tree: Any) -> list[Any]:
        return list(map(operand, self.prim.out_tree.flatten_up_to(tree)))

    def __call__(self, *operands: Any) -> list[Any]:
        return self._leaves(self.prim.expand(*self._tree(operands)))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Return the results and their tangents."""
        pairs = zip(primals, tangents, strict=True)
        instantiated = [zero_of(p) if t is None else t for p, t in pairs]
        outputs, moving = self.prim.jvp(self._tree(primals), self._tree(instantiated))
        moved = list(map(or_none, self.prim.out_tree.flatten_up_to(moving)))
        return self._leaves(outputs), moved

    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> Any:
        """Return the results, and the residuals for the backward rule."""
        outputs = self.prim.vjp_fwd(self._tree(list(active)), *self._tree(operands))
        return self._leaves(outputs[0]), outputs[1]

    def backward(self, residuals: Any, cotangents: Sequence[Any], shapes: Any) -> list[Any]:
        """Return the cotangents of the operands."""
        prim = self.prim
        pairs = zip(cotangents, prim.out_avals_flat, strict=True)
        instantiated = [private.Zero(a.to_ct_aval()) if c is None else c for c, a in pairs]
        outs = jax.tree.unflatten(prim.out_tree, instantiated)
        if type(prim).vjp_bwd is not private.VJPHiPrimitive.vjp_bwd:
            sums = [private.ValAccum(a.to_ct_aval()) for a in prim.in_avals_flat]
            prim.vjp_bwd(residuals, outs, *self._tree(sums))
            return [or_none(accumulator.freeze()) for accumulator in sums]
        gradients = prim.in_tree.flatten_up_to(prim.vjp_bwd_retval(residuals, outs))
        return list(map(_fitting, gradients, prim.in_avals_flat))


class HijaxCall(CustomVjpCall):
    """A call of a hijax primitive that has rules for both modes."""

    builder_name, hlo_name = "hijax", "call"

    def forward(self, primals, tangents):
        function = self.function
        kind = type(function.prim) if isinstance(function, _HijaxFunction) else None
        if kind in (None, private.CustomVJPTraced) or kind.jvp is private.VJPHiPrimitive.jvp:
            return super().forward(primals, tangents)
        return CustomJvpCall.forward(self, primals, tangents)  # type: ignore[arg-type]  # it uses the attributes that both share


def _hijax(ours: Trace, args: Sequence[Any], params: dict[str, Any]) -> Any:
    prim = params["_prim"]
    kind, base = type(prim), private.VJPHiPrimitive
    has_reverse = kind.vjp_fwd is not base.vjp_fwd or kind.jvp is base.jvp
    operation: Callable[..., Any] = HijaxCall if has_reverse else CustomJvpCall
    function = _HijaxFunction(prim)
    if passes(ours, args):
        if not isinstance(ours, BatchTrace):
            return PASS
        found = _batch_within(ours, operation(function), args)
    else:
        found = operation(function)(*map(operand, args))
    return results(ours, found, prim.out_avals_flat)


@jax.tree_util.register_static
class _Static:
    """A value known while tracing, stored in a pytree of residuals."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


RULES = {private.call_hi_primitive_p: _hijax}
