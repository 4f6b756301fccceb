"""Primitives that contain programs, as our calls, loops and branches."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.core
from jax.extend.core import Primitive, primitives

import minixla.numpy as mnp
from minixla.bridge.jaxprs import as_closed, called, evaluate
from minixla.bridge.passing import PASS, passes
from minixla.bridge.platforms import by_platform, platform_index
from minixla.bridge.values import is_key, operand, result, results
from minixla.core.graph import Graph
from minixla.core.state import state
from minixla.core.tracer import abstract_value
from minixla.core.tracing import Trace
from minixla.engine import jax_private as private
from minixla.engine.jax_rules import LINEAR
from minixla.engine.program import PROGRAM
from minixla.transforms.checkpoint import (
    CheckpointCall,
    CheckpointName,
    checkpoint_name,
    checkpoint_policies,
)
from minixla.transforms.control_flow import switch, while_loop
from minixla.transforms.custom_calls import StopGradient
from minixla.transforms.layouts import constrain
from minixla.transforms.sequences import scan, step_by_step
from minixla_ops.programs.call import call

Arguments = Sequence[Any]
Parameters = dict[str, Any]
_FLOAT0 = jax.dtypes.float0


def _jit(ours: Trace, args: Arguments, params: Parameters) -> Any:
    closed = params["jaxpr"]
    avals = (*closed.in_avals, *closed.out_avals)
    if _uses_axes(closed) or any(getattr(a, "dtype", None) == _FLOAT0 for a in avals):
        return evaluate(closed, *args)
    if any(not isinstance(a, jax.core.ShapedArray) for a in avals):  # mutable arrays
        return evaluate(closed, *args)
    if passes(ours, args):
        return PASS
    outputs = called(ours, closed, list(map(_laid_out, args, params["in_shardings"])))
    return list(map(_laid_out, outputs, params["out_shardings"]))


def _uses_axes(closed: Any) -> bool:
    return any(isinstance(e, private.NamedAxisEffect) for e in closed.jaxpr.effects)


#: JAX's checkpoint policies, and our policies that make the same decisions.
_POLICIES = {
    getattr(jax.checkpoint_policies, name): getattr(checkpoint_policies, name)
    for name in (
        "everything_saveable",
        "nothing_saveable",
        "dots_saveable",
        "dots_with_no_batch_dims_saveable",
    )
    if hasattr(checkpoint_policies, name)
}


@lru_cache(maxsize=256)
def _policy(policy: Any) -> Any:
    """Convert a JAX checkpoint policy; it receives the parameters of names and dot products."""
    if policy is None:
        return checkpoint_policies.nothing_saveable
    if policy in _POLICIES:
        return _POLICIES[policy]

    def keeps(operation: Any, *shapes: Any, **attributes: Any) -> bool:
        avals = [abstract_value(shape) for shape in shapes]
        if operation.name == CheckpointName.name:
            answer = policy(primitives.name_p, *avals, name=attributes["label"])
        elif operation.name == "DotGeneral":
            numbers = attributes["dimension_numbers"]
            given = {"dimension_numbers": (tuple(numbers[:2]), tuple(numbers[2:]))}
            answer = policy(primitives.dot_general_p, *avals, **given)
        else:
            answer = policy(Primitive(operation.builder_name), *avals)
        return answer is True or isinstance(answer, private.SaveableType)

    return keeps


def _checkpoint(ours: Trace, args: Arguments, params: Parameters) -> Any:
    closed = as_closed(params["jaxpr"])
    if passes(ours, args):
        return PASS
    policy, flags = _policy(params["policy"]), params["prevent_cse"]

    def checkpointed(graph: Graph) -> CheckpointCall:
        count = len(graph.inputs)
        if isinstance(flags, bool):
            return CheckpointCall(graph, policy, (flags,) * count)
        # The graph takes the constants of the jaxpr before the operands.
        return CheckpointCall(graph, policy, (*[False] * (count - len(flags)), *flags))

    return called(ours, closed, args, checkpointed)


def _name(ours: Trace, args: Arguments, params: Parameters) -> Any:
    named = checkpoint_name(operand(args[0]), params["name"])
    return result(ours, named, jax.typeof(args[0]))


def _stop_gradient(ours: Trace, args: Arguments, params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    return result(ours, StopGradient()(operand(args[0])), jax.typeof(args[0]))


def _while(ours: Trace, args: Arguments, params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    first, second = params["cond_nconsts"], params["body_nconsts"]
    of_test, of_body = args[:first], args[first : first + second]
    avals = params["body_jaxpr"].out_avals
    # Under JAX's vmap each batch element has a flag, and the loop runs while any flag is true.
    is_batch = bool(params["cond_jaxpr"].out_avals[0].shape)

    def flags(carry: Any) -> Any:
        arguments = results(state.trace, carry, avals)
        return operand(evaluate(params["cond_jaxpr"], *of_test, *arguments)[0])

    def test(carry: Any) -> Any:
        return mnp.any(flags(carry)) if is_batch else flags(carry)

    def body(carry: Any) -> Any:
        arguments = results(state.trace, carry, avals)
        outputs = tuple(map(operand, evaluate(params["body_jaxpr"], *of_body, *arguments)))
        if not is_batch:
            return outputs
        moving = flags(carry)
        return tuple([_chosen(moving, *pair) for pair in zip(outputs, carry, strict=True)])

    found = while_loop(test, body, tuple(map(operand, args[first + second :])))
    return results(ours, found, avals)


def _chosen(flags: Any, following: Any, value: Any) -> Any:
    """Select the next value if a flag is true; flags match the leading dimensions."""
    sizes = (*flags.shape, *[1] * (len(value.shape) - len(flags.shape)))
    return mnp.where(mnp.reshape(flags, sizes), following, value)


def _scan(ours: Trace, args: Arguments, params: Parameters) -> Any:
    if "jaxpr" not in params:  # a scan with several kinds of carries
        return PASS
    if passes(ours, args):
        return PASS
    closed, constants, carries = params["jaxpr"], params["num_consts"], params["num_carry"]
    length, unroll = params["length"], params["unroll"]
    avals = closed.in_avals[constants:]
    fixed, init = args[:constants], args[constants : constants + carries]

    def body(carry: Any, x: Any) -> Any:
        arguments = results(state.trace, (*carry, *x), avals)
        outputs = list(map(operand, evaluate(closed, *fixed, *arguments)))
        return tuple(outputs[:carries]), tuple(outputs[carries:])

    start, xs = tuple(map(operand, init)), tuple(map(operand, args[constants + carries :]))
    if 0 < length <= unroll:
        carry, ys = step_by_step(body, start, xs, length, params["reverse"])
    else:
        options = {"length": length, "reverse": params["reverse"], "unroll": unroll or 1}
        carry, ys = scan(body, start, xs, **options)
    outs = closed.out_avals
    stacked = [private.unmapped_aval(length, 0, aval) for aval in outs[carries:]]
    return results(ours, (*carry, *ys), (*outs[:carries], *stacked))


def _cond(ours: Trace, args: Arguments, params: Parameters) -> Any:
    index, *rest = args
    branches, platforms = params["branches"], params.get("branches_platforms")
    if passes(ours, args):
        return PASS
    avals = branches[0].in_avals

    def branch(closed: Any, *values: Any) -> Any:
        arguments = results(state.trace, values, avals)
        return tuple(map(operand, evaluate(closed, *arguments)))

    functions = [partial(branch, jaxpr) for jaxpr in branches]
    if platforms is None:
        found = switch(operand(index), functions, *map(operand, rest))
    else:
        found = by_platform(platforms, functions, tuple(map(operand, rest)))
    return results(ours, found, branches[0].out_avals)


def _program(ours: Trace, args: Arguments, params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    held = params["graph"]
    outputs = call(held.graph, *map(operand, args))
    pairs = zip(outputs, held.weak, strict=True)
    return [ours.weakly(x) if flag else x for x, flag in pairs]


def _linear_program(ours: Trace, args: Arguments, params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    linear = params["linear"]
    return list(call(linear.tangent_graph, *map(operand, linear.read(args))))


def _placed(ours: Trace, args: Arguments, params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    return [_laid_out(x, at) for x, at in zip(args, params["devices"], strict=True)]


def _constrained(ours: Trace, args: Arguments, params: Parameters) -> Any:
    return PASS if passes(ours, args) else _laid_out(args[0], params["sharding"])


def _resharded(ours: Trace, args: Arguments, params: Parameters) -> Any:
    if passes(ours, args):
        return PASS
    sharding, mesh = params["dst_sharding"], params["concrete_mesh"] or private.get_concrete_mesh()
    on_mesh = sharding if mesh.empty else jax.sharding.NamedSharding(mesh, sharding.spec)
    return _laid_out(args[0], on_mesh)


def _laid_out(value: Any, sharding: Any) -> Any:
    """Constrain a value to a sharding over a mesh; graphs cannot represent other placements."""
    is_kept = isinstance(sharding, jax.sharding.NamedSharding) and not is_key(jax.typeof(value))
    return constrain(operand(value), sharding) if is_kept else value


RULES = {
    primitives.jit_p: _jit,
    primitives.remat_p: _checkpoint,
    primitives.name_p: _name,
    primitives.stop_gradient_p: _stop_gradient,
    primitives.while_p: _while,
    primitives.scan_p: _scan,
    primitives.cond_p: _cond,
    private.platform_index_p: platform_index,
    PROGRAM: _program,
    LINEAR: _linear_program,
    primitives.device_put_p: _placed,
    primitives.sharding_constraint_p: _constrained,
    private.reshard_p: _resharded,
}
