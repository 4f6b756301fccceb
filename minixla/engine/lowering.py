"""`jit(f).lower`: the program's own text as the module of JAX's stage, without a jaxpr."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir
from jax.tree_util import tree_flatten

from minixla.core.attributes import Literal
from minixla.core.graph import Graph, hoist_constants
from minixla.core.shared_contexts import SharedContexts
from minixla.core.tracer import abstract_value
from minixla.engine import jax_private as private
from minixla.engine.float0 import with_float0
from minixla.engine.host_calls import effect_of
from minixla.engine.jax_private import ir
from minixla.engine.program import add_functions, spans_devices, traced_for_jax
from minixla.engine.random_keys import key_ranks
from minixla.legalize.cpu.repeats import instruction_count
from minixla.typing import PyTree

_PLAIN = {bool, int, float, complex, np.ndarray}
# The most bytes of constants; for more, JAX has options.
_MOST_BYTES = 1 << 24
# Approximate length of an instruction's text, with its source line.
_INSTRUCTION_BYTES = 200
_contexts = SharedContexts(mlir.make_ir_context)


def lowered(
    staged: Any, args: Sequence[PyTree], kwargs: dict[str, PyTree]
) -> jax.stages.Lowered | None:
    """Return `jax.jit(staged).lower(*args, **kwargs)`, but faster; None if only JAX can lower it.

    Only JAX can lower it if arguments, context or program refer to devices. The same holds for
    keys, side effects, very large constants, and programs without results. `staged` comes from
    `stage_for_jax`.
    """
    leaves, tree = tree_flatten((args, kwargs))
    if not all(map(_is_plain, leaves)):
        return None
    meshes = jax.sharding.get_abstract_mesh(), private.get_concrete_mesh()
    if not (private.trace_state_clean() and all(mesh.empty for mesh in meshes)):
        return None
    try:
        inputs = tuple(map(_abstracted, leaves))
    except (OverflowError, TypeError):  # JAX has the better message
        return None
    traced = traced_for_jax(staged.traced, list(inputs), tree)
    graph, literals = hoist_constants(traced.graph)
    if not graph.outputs or effect_of(graph) is not None or spans_devices(graph):
        return None
    if graph.meshes or sum(map(_size, literals)) > _MOST_BYTES:
        return None
    made = traced.tree
    # Keys and zeros of float0 are not plain leaves.
    if key_ranks(made) or any(with_float0(made)[1]):
        return None
    outputs = list(map(abstract_value, graph.output_shapes, traced.weak))
    names = private.debug_info("jit", staged, args, kwargs)
    computation = _computation(graph, literals, inputs, outputs, names)
    args_info = private.make_args_info(tree, inputs, ())
    types = {"in_types": (tree, inputs), "out_types": (traced.tree, outputs)}
    return jax.stages.Lowered(computation, args_info, traced.tree, **types)


def _abstracted(leaf: Any) -> object:
    """Return JAX's abstract value of an argument."""
    if type(leaf) is np.ndarray:
        return _of_array(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))
    return private.shaped_abstractify(leaf)


@lru_cache(maxsize=4096)
def _of_array(sizes: tuple[int, ...], dtype: np.dtype) -> Any:
    return private.shaped_abstractify(np.broadcast_to(np.empty((), dtype), sizes))


def _is_plain(leaf: Any) -> bool:
    """Return whether an argument is not a key and does not refer to devices."""
    kind = type(leaf)
    if kind is private.ArrayImpl:
        return not leaf.committed
    if kind is jax.ShapeDtypeStruct:
        is_key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.extended)
        return leaf.sharding is None and not is_key
    is_plain = kind in _PLAIN or isinstance(leaf, (np.bool_, np.number))
    return is_plain and getattr(leaf, "dtype", None) != jax.dtypes.float0


def _size(literal: Literal) -> float:
    """Return the bytes of a constant; infinity for a device array, whose placement JAX decides."""
    return literal.data.nbytes if isinstance(literal.data, np.ndarray) else np.inf


def _computation(
    graph: Graph, literals: list[Literal], inputs: Any, outputs: Any, names: Any
) -> private.MeshComputation:
    """Return the stage as `jax._src.interpreters.pxla.lower_sharding_computation` returns it.

    The graph's first inputs are constants.
    """
    backend, devices, amount = private.get_and_check_device_assignment(
        (), private.empty_concrete_mesh
    )
    size = _INSTRUCTION_BYTES * instruction_count(graph) + sum(x.array.nbytes for x in literals)
    platforms = (getattr(backend, "_raw_platform", backend.platform),)
    context = private.ModuleContext(
        platforms=tuple(map(private.canonicalize_platform, platforms)),
        backend=backend,
        axis_context=private.ShardingContext(amount),
        keepalives=[],
        channel_iterator=count(2),
        host_callbacks=[],
        lowering_parameters=private.LoweringParameters(),
        context=_contexts.context_for(size),
    )
    name = private.wrap_name("jit", graph.name)
    with context.context, ir.Location.unknown(context.context):
        attributes = context.module.operation.attributes
        attributes["sym_name"] = ir.StringAttr.get(private.sanitize_name(name).rstrip("_"))
        attributes["mhlo.num_replicas"] = mlir.i32_attr(1)
        attributes["mhlo.num_partitions"] = mlir.i32_attr(amount)
        _hold(add_functions(context, graph, ""), literals)
    taken, made = len(inputs), len(outputs)
    options: dict[str, Any] = {"unordered_effects": [], "ordered_effects": [], "mut": None}
    options |= {"committed": False, "pgle_profiler": None, "intermediate_shardings": []}
    options |= {
        "in_shardings": (private.UNSPECIFIED,) * taken,
        "out_shardings": (private.UNSPECIFIED,) * made,
    }
    options |= {"in_layouts": (None,) * taken, "out_layouts": (None,) * made}
    options |= {"global_in_avals": list(inputs), "global_out_avals": outputs}
    return private.MeshComputation(
        name,
        context.module,
        [],
        (False,) * taken,
        platforms,
        (),
        devices,
        tuple_args=private.should_tuple_args(taken, backend.platform),
        host_callbacks=context.host_callbacks,
        keepalive=context.keepalives,
        kept_var_idx=set(range(taken)),
        backend=backend,
        num_devices=amount,
        shape_poly_state=context.shape_poly_state,
        all_args_info=private.AllArgsInfo(inputs, names),
        context_mesh=private.empty_concrete_mesh,
        **options,
    )


def _hold(function: Any, literals: list[Literal]) -> None:
    """Turn a function's first arguments into constants."""
    if not literals:
        return
    (block,) = function.regions[0].blocks
    with ir.InsertionPoint.at_block_begin(block):
        constants = [mlir.ir_constant(literal.array) for literal in literals]
    for constant in constants:
        block.arguments[0].replace_all_uses_with(constant)
        block.erase_argument(0)
    attributes, inputs = function.attributes, [argument.type for argument in block.arguments]
    whole = ir.FunctionType.get(inputs, function.type.results)
    attributes["function_type"] = ir.TypeAttr.get(whole)
    if "arg_attrs" in attributes:
        described = list(attributes["arg_attrs"])[len(literals) :]
        attributes["arg_attrs"] = ir.ArrayAttr.get(described)
