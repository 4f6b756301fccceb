"""A whole graph as one JAX primitive, which is lowered to its StableHLO text."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from typing import Any, NamedTuple

import jax
from jax.core import ShapedArray
from jax.core import Tracer as JaxTracer
from jax.interpreters import mlir
from jax.sharding import AxisType

from minixla.core.errors import (
    NestingError,
    ShapeError,
    ShardingError,
    TransformError,
    UnsupportedError,
    explain,
)
from minixla.core.graph import Graph, Instruction, hoist_constants, inner_first, part_of
from minixla.core.shapes import is_mutable, shape_of_data
from minixla.core.state import state
from minixla.core.tracer import abstract_value
from minixla.core.tracing import GraphTrace, bridge, not_a_value, tracing, weak_type_of
from minixla.engine.float0 import flatten, float0_zeros, is_float0, structure_places
from minixla.engine.foreign_code import raise_ours
from minixla.engine.host_calls import SIDE_EFFECT, HostEmitter, effect_of, place_host_calls
from minixla.engine.jax_private import (
    Primitive,
    current_jax_trace,
    eval_trace,
    func,
    ir,
    weakref_cache_key_types,
    weakref_lru_cache,
)
from minixla.engine.manual_regions import split
from minixla.engine.meshes import check_devices, told
from minixla.engine.structures import PyTreeDef
from minixla.typing import Array, ArrayLike, PyTree
from minixla_ops.programs.runs_programs import CallsProgram, SpansDevices


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class HeldGraph:
    """A graph as a JAX parameter, which JAX's caches compare by identity instead of structure."""

    graph: Graph
    weak: Sequence[bool]  # whether each output is weakly typed in JAX

    def __repr__(self) -> str:
        return repr(self.graph)


# The parameters of a primitive are keys of JAX's caches, which must not keep them alive.
weakref_cache_key_types.add(HeldGraph)


def held(graph: Graph, weak: Sequence[bool] = ()) -> HeldGraph:
    """Return the unique HeldGraph of a graph; its outputs are strongly typed unless in `weak`."""
    flags = tuple(weak) or (False,) * len(graph.outputs)
    return graph.remembered(("held", flags), HeldGraph, graph, flags)


#: The primitive `minixla_program`; its parameter `graph` is a HeldGraph.
PROGRAM = Primitive("minixla_program")
PROGRAM.multiple_results = True


@PROGRAM.def_effectful_abstract_eval
def _abstract_eval(*operands: Any, graph: HeldGraph) -> tuple[list[Any], set[Any]]:
    wanted = list(map(abstract_value, graph.graph.input_shapes))
    if len(operands) != len(wanted) or not all(
        x.shape == w.shape and x.dtype == w.dtype for x, w in zip(operands, wanted, strict=True)
    ):
        problem = "the operands do not match the program"
        details = [f"operands: {', '.join(map(str, operands))}"]
        details += [f"inputs: {', '.join(map(str, graph.graph.input_shapes))}"]
        advice = "Pass one operand for each input; 64-bit types need JAX's jax_enable_x64."
        raise explain(ShapeError, graph.graph.name, problem, details, advice)
    effect = effect_of(graph.graph)
    results = list(map(abstract_value, graph.graph.output_shapes, graph.weak))
    return varying_like(operands, results), set() if effect is None else {effect}


def varying_like(operands: Sequence[Any], results: list[ShapedArray]) -> list[ShapedArray]:
    """Return abstract results with the mesh axes that are part of JAX's types.

    Inside jax.shard_map they vary over the axes of the operands. Over a mesh in explicit mode a
    result has the sharding of an operand of the same shape.
    """
    varying = next((operand for operand in operands if operand.mat.varying), None)
    if varying is not None:
        specs = [jax.sharding.PartitionSpec(*[None] * result.ndim) for result in results]
        pairs = zip(results, [varying.sharding.update(spec=spec) for spec in specs], strict=True)
        results = [aval.update(sharding=at, manual_axis_type=varying.mat) for aval, at in pairs]
    if not types_name_axes():
        return results
    sharded = {
        operand.shape: operand.sharding
        for operand in operands
        if any(operand.sharding.spec.partitions)
    }
    return [
        result.update(sharding=sharded.get(result.shape, result.sharding)) for result in results
    ]


def lower_graph(
    ctx: Any, operands: Sequence[Any], kinds: Sequence[Any], graph: Graph
) -> Sequence[Any]:
    """Add a graph's functions to the module that JAX is lowering, and call the main one.

    The operands have JAX's abstract values `kinds`.
    """
    module_context = ctx.module_context
    if not module_context.lowering_parameters.for_export:
        check_devices(graph)
    graph = split(module_context, operands, kinds, graph)
    symbols, prefixes = module_context.symbol_table, (f"minixla_{n}_" for n in count())
    prefix = next(prefix for prefix in prefixes if f"{prefix}main" not in symbols)
    main = add_functions(module_context, graph, prefix)
    main.attributes["sym_visibility"] = ir.StringAttr.get("private")
    symbol = ir.FlatSymbolRefAttr.get(ir.StringAttr(main.attributes["sym_name"]).value)
    if effect_of(graph) is not SIDE_EFFECT:
        return func.CallOp(main.type.results, symbol, list(operands)).results
    token = ctx.tokens_in.get(SIDE_EFFECT)
    called = func.CallOp(main.type.results, symbol, [token, *operands])
    after, *results = called.results
    ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({SIDE_EFFECT: after})))
    return results


# A string; if a size follows, the string is the name of an axis.
_AXIS = r'"((?:[^"\\]|\\.)*+)"(=\d)?'


def _check_axes(graph: Graph, text: str) -> None:
    """Raise ShardingError for a mesh with axis names that make XLA end the process."""
    if "mesh<[" not in text:
        return
    for match in re.finditer(_AXIS, text):
        if match[2] and not (match[1].isascii() and "\\" not in match[1]):
            problem = f"XLA does not accept the name of the mesh axis {match[0][:80]}"
            advice = "Rename the axis: letters, digits and other printable ASCII characters, "
            advice += "without quotes and backslashes. mx.reference takes any name."
            raise explain(ShardingError, graph.name, problem, advice=advice)


def add_functions(module_context: mlir.ModuleContext, graph: Graph, prefix: str) -> Any:
    """Add a graph's functions to a module, with `prefix` before their names; return the main one.

    The main one is public. If side effects are ordered, it takes and returns a token.
    """
    _check_depth(graph)
    effect = effect_of(graph)
    text = HostEmitter(module_context, prefix, effect is SIDE_EFFECT).module(graph.pruned())
    if "xf6E" in text or "<f6E" in text:
        problem = "the program has 6-bit floats, which XLA does not support"
        advice = "Evaluate it in NumPy with mx.reference, or convert to a wider type."
        raise explain(TransformError, graph.name, problem, advice=advice)
    _check_axes(graph, text)
    parsed = ir.Module.parse(text, context=module_context.context)
    functions = list(parsed.body.operations)
    for function in functions:
        # The operation moves to JAX's module, which owns it from here on.
        module_context.module.body.append(function)
        module_context.symbol_table.insert(function.operation)
        if effect is not None and effect is not SIDE_EFFECT:
            place_host_calls(module_context, function.operation)
    return functions[0]


# XLA:CPU's compiler overflows its stack at 184 nested computations, which ends the process.
_MOST_LEVELS = 160


def _check_depth(graph: Graph) -> None:
    levels = _levels(graph)
    if levels > _MOST_LEVELS:
        problem = "loops and branches are nested deeper than XLA can compile"
        details = [f"{levels} nested computations; at most {_MOST_LEVELS} are supported"]
        advice = "Evaluate it in NumPy with mx.reference, or nest less."
        raise explain(NestingError, graph.name, problem, details, advice)


@inner_first
def _levels(graph: Graph) -> int:
    """Return how deeply computations are nested in the program that XLA compiles."""
    most = 0
    for step in graph.instructions:
        if step.op.is_plain:
            continue
        for called in step.op.computations:
            # A scan, which XLA does not have, becomes a loop that calls a function.
            levels = {"call": 0 if called.is_inlined else 1, "while": 1, "conditional": 1}
            most = max(most, _levels(called) + levels.get(step.op.hlo_name, 2))
    return most


mlir.register_lowering(
    PROGRAM,
    lambda ctx, *operands, graph: lower_graph(ctx, operands, ctx.avals_in, graph.graph),
    cacheable=False,  # a program is lowered once, so a cached wrapper would only cost time
)


@PROGRAM.def_impl
def _run(*operands: Array, graph: HeldGraph) -> list[Array]:
    program = graph.graph
    with jax.disable_jit(False):  # a program has no other way to run
        try:
            return program.remembered("compiled", _compiled, program)(*operands)
        except RuntimeError as error:
            raise_ours(error, program.name)
            raise


def _compiled(graph: Graph) -> Callable[..., list[Array]]:
    """Apply `jax.jit` to a program; JAX keeps it as long as the graph that keeps this function."""
    # JAX keeps the function that it traces, so it must not refer to the attributes of the graph.
    parts = graph.inputs, graph.instructions, graph.outputs, graph.name
    again = Graph(*parts, graph.annotations) if graph.annotations else part_of(*parts)
    return jax.jit(partial(bind_program, again))


def bind_program(graph: Graph, *operands: ArrayLike, weak: Sequence[bool] = ()) -> list[Array]:
    """Bind the primitive under JAX's current trace."""
    if any(isinstance(operand, JaxTracer) for operand in operands):
        operands = varying_alike(tuple(told(graph, operands)))
    results = PROGRAM.bind(*operands, graph=held(graph, weak))
    return results if operands else told(graph, results)


def varying_alike(operands: tuple[ArrayLike, ...]) -> tuple[ArrayLike, ...]:
    """Make the operands vary over the same mesh axes inside jax.shard_map.

    A result of a collective that is equal everywhere counts as varying.
    """
    varying = [jax.typeof(operand).mat.varying for operand in operands]
    axes = frozenset().union(*varying)
    if all(axes_of_operand == axes for axes_of_operand in varying):
        return operands
    pairs = zip(
        operands, [tuple(axes - axes_of_operand) for axes_of_operand in varying], strict=True
    )
    return tuple([jax.lax.pcast(x, more, to="varying") if more else x for x, more in pairs])


def run_graph(
    graph: Graph, operands: Sequence[ArrayLike], weak: Sequence[bool] = ()
) -> list[Array]:
    """Return the results of a graph as JAX arrays, or JAX tracers while JAX is tracing.

    Results marked in `weak` are weakly typed.
    """
    if spans_devices(graph):
        return _run_in_parts(graph, operands, weak)
    graph, literals = hoist_constants(graph)
    return bind_program(graph, *(literal.data for literal in literals), *operands, weak=weak)


@inner_first
def spans_devices(graph: Graph) -> bool:
    """Return whether an instruction of the program runs on several devices."""
    return any(_is_apart(step) for step in graph.instructions if not step.op.is_plain)


def _is_apart(step: Instruction) -> bool:
    """Return whether an instruction, or one of a program that it calls, runs on several devices."""
    called = step.op.computations if isinstance(step.op, CallsProgram) else ()
    return isinstance(step.op, SpansDevices) or any(map(spans_devices, called))


def _run_in_parts(graph: Graph, operands: Sequence[ArrayLike], weak: Sequence[bool]) -> list[Any]:
    """Return the results of a program in which some instructions run on several devices.

    These instructions run in order between the programs of the other instructions.
    """
    weakly = {value for value, flag in zip(graph.outputs, weak, strict=False) if flag}
    values = dict(zip(graph.inputs, operands, strict=True))
    needed = {v for step in graph.instructions for v in step.operands} | set(graph.outputs)
    for is_apart, group in groupby(graph.pruned().instructions, _is_apart):
        steps = list(group)
        if not is_apart:
            made = [v for step in steps for v in step.results]
            inner = set(made)
            read = [v for step in steps for v in step.operands if v not in inner]
            inputs, outputs = list(dict.fromkeys(read)), [v for v in made if v in needed]
            arguments, flags = [values[v] for v in inputs], [v in weakly for v in outputs]
            program = part_of(inputs, steps, outputs, graph.name)
            values.update(zip(outputs, run_graph(program, arguments, flags), strict=True))
            continue
        for step in steps:
            arguments, flags = (
                [values[v] for v in step.operands],
                [v in weakly for v in step.results],
            )
            if isinstance(step.op, SpansDevices):
                assert step.op.run is not None, "an operation that spans devices must define run"
                outcome = step.op.run(*arguments)
                outcome = (outcome,) if step.single else outcome
            else:
                outcome = _run_in_parts(step.op.computations[0], arguments, flags)
            values.update(zip(step.results, outcome, strict=True))
    return [values[value] for value in graph.outputs]


class Traced(NamedTuple):
    """A function traced for JAX."""

    graph: Graph  # takes `read`, then the traced argument leaves.
    read: list[Any]  # values of enclosing functions.
    weak: list[bool]  # whether each output is weakly typed
    tree: PyTreeDef  # the structure of the result


def is_disabled() -> bool:
    """Return whether `jax.disable_jit` is active."""
    return jax.config.jax_disable_jit  # type: ignore[attr-defined]  # JAX has it


def types_name_axes() -> bool:
    """Return whether JAX's types have mesh axes: in explicit mode, and in jax.shard_map."""
    return any(kind is not AxisType.Auto for kind in jax.sharding.get_abstract_mesh().axis_types)


def stage_for_jax(
    function: Callable[..., PyTree], is_stepped: bool = False
) -> Callable[..., PyTree]:
    """Wrap a function for JAX: our traces see its operations, JAX sees one primitive.

    With `is_stepped`, JAX sees single operations under `jax.disable_jit`. It also does if its
    types have mesh axes, which our graphs cannot represent.
    """
    name = getattr(function, "__name__", "function")
    traced = partial(_traced, function, name)

    def staged(*args: PyTree, **kwargs: PyTree) -> PyTree:
        if is_stepped and (is_disabled() or types_name_axes()):
            return function(*args, **kwargs)
        leaves, tree = flatten((args, kwargs))
        if any(map(is_mutable, leaves)):
            return bridge().run_with_refs(stage_for_jax, function, leaves, tree)
        try:
            program = traced_for_jax(traced, leaves, tree)
        except UnsupportedError as error:
            ref = getattr(error, "ref", None)
            if ref is None:
                raise
            # The function has used a mutable array from its closure, so it is traced again.
            return bridge().run_with_refs(stage_for_jax, function, leaves, tree, [ref])
        operands = [x for x in leaves if isinstance(x, JaxTracer) and not is_float0(x)]
        outputs = run_graph(program.graph, [*program.read, *operands], program.weak)
        return jax.tree_util.tree_unflatten(program.tree, outputs)

    staged.__name__ = staged.__qualname__ = name
    marked: Any = staged
    marked.traced = traced
    # JAX's own primitives have this mark: with `jax.debug_nans` a NaN raises an error with its
    # name. The primitive is not called again to find the origin of the NaN, which `mx.debug_nans`
    # reports.
    marked._apply_primitive = True
    return staged


def traced_for_jax(traced: Any, leaves: list[Any], tree: PyTreeDef) -> Traced:
    """Trace the function of `stage_for_jax` for leaves that are JAX tracers or abstract values.

    The result is cached as long as JAX caches its own trace.
    """
    kinds = tuple([leaf.aval if isinstance(leaf, JaxTracer) else leaf for leaf in leaves])
    if all(isinstance(kind, ShapedArray) for kind in kinds):
        return _traced_once(traced, tree, kinds, state.watch)
    return traced(tuple(leaves), tree)


@weakref_lru_cache
def _traced_once(traced: Any, tree: PyTreeDef, kinds: tuple[object, ...], _: object) -> Traced:
    return traced(kinds, tree)


@weakref_lru_cache
def _hoisted_once(traced: Any, tree: PyTreeDef, kinds: tuple[object, ...], watch: object) -> Traced:
    """Trace like `_traced_once`; the program reads constants that are not printed as values."""
    program = _traced_once(traced, tree, kinds, watch)
    graph, literals = hoist_constants(program.graph)
    return program._replace(
        graph=graph, read=[*(literal.data for literal in literals), *program.read]
    )


def jit_staged(staged: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Apply `jax.jit` to a result of `stage_for_jax`, for functions that outlive JAX's traces.

    Under a JAX trace, a call of a jitted function without tracers would leave a reference to the
    trace in JAX's cache of compiled programs. Such a call binds the program itself.
    """
    run, traced = jax.jit(staged), staged.traced  # type: ignore[attr-defined]  # it has one

    def call(*operands: ArrayLike) -> PyTree:
        if current_jax_trace.value is eval_trace:
            return run(*operands)
        leaves, tree = flatten((operands, {}))
        if any(isinstance(leaf, JaxTracer) for leaf in leaves):
            return run(*operands)
        kinds = tuple(map(jax.typeof, leaves))
        program = _hoisted_once(traced, tree, kinds, state.watch)
        if program.graph.meshes:  # JAX learns the devices only from tracers
            return run(*operands)
        outputs = run_graph(program.graph, [*program.read, *leaves], program.weak)
        return jax.tree_util.tree_unflatten(program.tree, outputs)

    # Callers that have tested the current trace themselves save a Python call.
    call.__wrapped__ = run  # type: ignore[attr-defined]  # functions accept attributes
    return call


def forget_traces(staged: Any) -> None:
    """Forget the traces of a result of `stage_for_jax`, so that it is traced anew."""
    _traced_once.evict_weakref(staged.traced)


def _traced(
    function: Callable[..., PyTree], name: str, inputs: tuple[Any, ...], tree: PyTreeDef
) -> Traced:
    trace, leaves = GraphTrace(state.trace), list(inputs)
    for index, leaf in enumerate(inputs):
        if not isinstance(leaf, (JaxTracer, ShapedArray)):
            continue
        if is_float0(leaf):
            leaves[index] = float0_zeros(leaf.shape)
            continue
        shape = shape_of_data(leaf)
        if shape is None:
            raise not_a_value(leaf, name, "an argument")
        tracer = trace.add_input(shape)
        if leaf.weak_type:
            tracer._mark_weak()
        leaves[index] = tracer
    args, kwargs = jax.tree_util.tree_unflatten(tree, leaves)
    with tracing(trace):
        results, result_tree = flatten(function(*args, **kwargs))
        graph = trace.graph(results, name, lambda: structure_places("the result", result_tree))
        weak = [weak_type_of(result) for result in results]
        return Traced(graph, trace.captured, weak, result_tree)
