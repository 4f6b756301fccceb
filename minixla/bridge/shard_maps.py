"""jax.shard_map inside our transformations."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any

import jax
import jax.extend.core
import numpy as np
from jax.sharding import PartitionSpec

from minixla.bridge.jaxprs import WITH_RULES, evaluate
from minixla.bridge.primitive_calls import or_none, zero_of
from minixla.bridge.values import operand, results
from minixla.core.state import state
from minixla.core.tracing import Trace, under
from minixla.engine import jax_private as private
from minixla.transforms.custom_calls import CustomJvpCall, CustomVjpCall
from minixla.transforms.shard_map import shard_map

_FLOAT0 = jax.dtypes.float0


def process_shard_map(
    ours: Trace,
    primitive: Any,
    fun: Any,
    args: Sequence[Any],
    *,
    mesh: Any,
    in_specs: Any,
    check_vma: bool,
    newly_manual_axes: Any,
    debug_info: Any,
) -> Any:
    """Process a call of a `jax.shard_map` function as `mx.shard_map` of its jaxpr."""
    manual_mesh = private.as_manual_mesh(mesh, newly_manual_axes)
    pairs = zip(in_specs, map(jax.typeof, args), strict=True)
    avals = [private.shard_aval(mesh, newly_manual_axes, check_vma, s, a) for s, a in pairs]
    with contextlib.ExitStack() as stack:
        stack.enter_context(under(ours))
        stack.enter_context(private.extend_axis_env(mesh, newly_manual_axes))
        stack.enter_context(private.use_abstract_mesh(manual_mesh))
        stack.enter_context(private.check_vma(check_vma))
        closed, data = private.trace_to_jaxpr(
            fun,
            private.FlatTree.flatten((avals, {})),
            debug_info,
            fun_returns_flat_tree=True,
            requires_low=False,  # custom rules stay
        )
        outs, specs = data.unpack_aux()
        closed, constants = private.separate_consts(closed)
    out_specs = tuple([PartitionSpec(*spec.partitions) for spec in specs])
    whole = [PartitionSpec()] * len(constants)
    given = (*whole, *[PartitionSpec(*spec.partitions) for spec in in_specs])

    # Graphs cannot contain float0 zeros, the tangents of integers.
    kept = [aval.dtype != _FLOAT0 for aval in closed.in_avals]
    # JAX's derivatives apply custom rules; rules of tangents have been applied already.
    has_rules = all(kept) and _has_rules(closed.jaxpr)

    def one(*members: Any) -> tuple[Any, ...]:
        left = iter(members)
        every = [
            next(left) if flag else np.zeros(aval.shape, _FLOAT0)
            for flag, aval in zip(kept, closed.in_avals, strict=True)
        ]
        arguments = results(state.trace, every, closed.in_avals)
        return tuple(map(operand, evaluate(closed, *arguments, ignores_rules=has_rules)))

    own_specs = tuple(compress(given, kept))
    specs = {"mesh": mesh, "in_specs": own_specs, "out_specs": out_specs}
    specs["axis_names"] = newly_manual_axes
    operands = list(map(operand, compress((*constants, *args), kept)))
    with under(ours):
        # JAX has already checked whether results vary.
        mapped: Any = shard_map(one, **specs, check_vma=False)
        if has_rules:
            function = jax.extend.core.jaxpr_as_fun(closed)
            theirs = jax.shard_map(lambda *x: tuple(function(*x)), **specs, check_vma=check_vma)
            mapped = _MappedCall(_MappedFunction(mapped, theirs))
        return outs.update(results(ours, mapped(*operands), closed.out_avals))


def _has_rules(jaxpr: Any) -> bool:
    """Return whether a jaxpr calls a function with custom derivative rules."""
    for eqn in jaxpr.eqns:
        if eqn.primitive in (*WITH_RULES, private.call_hi_primitive_p) or any(
            map(_has_rules, _jaxprs_in(eqn.params))
        ):
            return True
    return False


def _jaxprs_in(params: dict[str, Any]) -> Iterator[Any]:
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else [value]:
            if hasattr(item, "jaxpr"):
                yield item.jaxpr
            elif hasattr(item, "eqns"):
                yield item


class _MappedFunction:
    """A function mapped over devices by both libraries, with JAX's derivatives.

    Custom rules read the types of one device's values, which state the mesh axes along which the
    values vary. Our tracers do not have these types, so JAX applies the rules.
    """

    name = "shard_map"

    def __init__(self, ours: Callable[..., Any], theirs: Callable[..., Any]) -> None:
        self.ours, self.theirs = ours, theirs

    def __call__(self, *operands: Any) -> Sequence[Any]:
        return self.ours(*operands)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Return the results and their tangents."""
        pairs = zip(primals, tangents, strict=True)
        instantiated = [private.instantiate_zeros(zero_of(p)) if t is None else t for p, t in pairs]
        outputs, moved = jax.jvp(self.theirs, tuple(primals), tuple(instantiated))
        return list(map(operand, outputs)), list(map(or_none, moved))

    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> Any:
        """Return the results and the pullback."""
        outputs, pull = jax.vjp(self.theirs, *operands)
        return list(map(operand, outputs)), (pull, list(map(jax.typeof, outputs)))

    def backward(self, residuals: Any, cotangents: Sequence[Any], shapes: Any) -> list[Any]:
        """Return the cotangents of the operands."""
        pull, avals = residuals
        pairs = zip(cotangents, avals, strict=True)
        instantiated = [
            private.instantiate_zeros(private.Zero(a.to_ct_aval()))
            if c is None
            else _laid_out_as(a, c)
            for c, a in pairs
        ]
        return list(map(or_none, pull(tuple(instantiated))))


def _laid_out_as(aval: Any, value: Any) -> Any:
    """Give a value the sharding of a type, which JAX requires over a mesh in explicit mode."""
    is_explicit = any(aval.sharding.spec.partitions) and aval.sharding != jax.typeof(value).sharding
    return jax.reshard(value, aval.sharding) if is_explicit else value


class _MappedCall(CustomVjpCall):
    """A call of a function mapped over devices, with JAX's derivatives."""

    builder_name, hlo_name = "shard_map", "call"
    forward = CustomJvpCall.forward  # type: ignore[assignment]  # it uses the attributes that both share
