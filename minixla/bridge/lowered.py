"""Process primitives as the program that JAX lowers them to, or with JAX's own rules.

JAX lowers a primitive once for each combination of parameters and operand types. Our rules
differentiate and batch the imported program. A primitive stays one operation, `PrimitiveCall`, if
its program calls compiled code, or if JAX does not differentiate it like its program.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax

from minixla.bridge.operations import direct
from minixla.bridge.platforms import PORTABLE
from minixla.bridge.primitive_calls import LoweredCall, PrimitiveCall, Unlowered
from minixla.bridge.values import (
    is_key,
    numbers_of,
    operand,
    results,
    shape_of_aval,
)
from minixla.core.errors import (
    ImportError_,
    MinixlaError,
    UnsupportedError,
    explain,
)
from minixla.core.graph import Graph
from minixla.core.state import state
from minixla.core.tracing import (
    Trace,
    Tracer,
    evaluate_graph,
    running_source,
    trace_to_graph,
)
from minixla.engine import jax_private as private
from minixla.interop.module import Module
from minixla.interop.symbolic import with_static_sizes
from minixla_ops.host.custom_call import CustomCall
from minixla_ops.programs.call import call

#: Programs with at most this many instructions are inlined; longer ones are called.
_SMALL = 8
#: The maximum number of cached primitives, each with its parameters and operand types.
_MOST = 8192
_LOOPS = ("While", "Scan", "Conditional", "Select")
#: Primitives that stay one operation, whatever their program is. The transpose of a gather drops
#: windows outside the operand, whereas the program moves them to the nearest position inside. The
#: derivative of x ** n has a product for each factor of the program; JAX computes n * x ** (n - 1).
_WHOLE = (
    *("custom_linear_solve", "custom_vmap_call", "remat_opt", "gather"),
    *("integer_pow", "igamma", "igammac", "lgamma"),
)
#: Phrases in JAX's errors for primitives without a lowering for this or any platform.
_UNLOWERED = ("translation rule", "Only interpret mode is supported")


def imported(function: Any, avals: Sequence[Any], name: str, platform: str) -> Graph:
    """Import the program that JAX lowers a function of arrays to."""
    with private.jax_trace_in_force(private.eval_trace):
        staged = jax.jit(function, keep_unused=True).trace(*map(_struct, avals))
    return _read(staged.lower(lowering_platforms=(platform,)), name)


def _struct(aval: Any) -> Any:
    weak = bool(getattr(aval, "weak_type", False))
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=weak)


def _read(lowered: Any, name: str) -> Graph:
    module = Module(with_static_sizes(lowered.compiler_ir("stablehlo")))
    module.is_traced = True
    graph = module.translated()["main"]
    graph.name = name
    return graph


class Primitive:
    """A JAX primitive with its parameters, for operands of given types."""

    def __init__(self, primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> None:
        self.primitive, self.in_avals, self.params = primitive, tuple(avals), params
        with private.jax_trace_in_force(private.eval_trace):
            avals_out = primitive.abstract_eval(*avals, **params)[0]
        self.out_avals = list(avals_out) if primitive.multiple_results else [avals_out]
        tables = private.platform_specific_lowerings.values()
        #: True if JAX lowers it to the same program on every platform.
        self.is_portable = not any(primitive in table for table in tables)

    def listed(self, output: Any) -> list[Any]:
        """Return the results as a list."""
        return list(output) if self.primitive.multiple_results else [output]

    def program_here(self, *preferred: str) -> tuple[str, Graph]:
        """Return the first platform for which JAX has a program, and the program."""
        *others, last = dict.fromkeys([*preferred, "cpu", jax.default_backend()])
        for platform in others:
            try:
                return platform, self.program(platform)
            except (NotImplementedError, ValueError):  # no lowering rule for this platform
                continue
        return last, self.program(last)

    def program(self, platform: str) -> Graph:
        """Return the program to which JAX lowers the primitive, with keys replaced by words."""
        avals, name = list(map(numbers_of, self.in_avals)), self.primitive.name
        try:
            return imported(self._of_numbers, avals, name, platform)
        except ImportError_:  # the program calls Python functions
            if not _is_foreign(self.primitive):
                raise
        return self._implementation()

    def _implementation(self) -> Graph:
        """Trace the Python function by which another library implements the primitive."""

        def function(*values: Any) -> list[Any]:
            arguments = results(state.trace, values, self.in_avals)
            return list(map(operand, self.listed(self.primitive.impl(*arguments, **self.params))))

        shapes = list(map(shape_of_aval, self.in_avals))
        graph, captured = trace_to_graph(function, shapes, self.primitive.name)
        assert not captured, "the parameters of a primitive must not contain traced values"
        return graph

    def _of_numbers(self, *values: Any) -> list[Any]:
        pairs = zip(values, self.in_avals, strict=True)
        keys = [jax.random.wrap_key_data(v, dtype=a.dtype) if is_key(a) else v for v, a in pairs]
        if self.params.get("mode") not in (None, jax.lax.GatherScatterMode.CLIP):
            keys[1] = _whole_windows(self.primitive, *keys, **self.params)
        results = self.listed(self.primitive.bind(*keys, **self.params))
        return [jax.random.key_data(x) if is_key(jax.typeof(x)) else x for x in results]


def _whole_windows(
    primitive: Any, array: Any, indices: Any, *updates: Any, dimension_numbers: Any, **_: Any
) -> Any:
    """Return a scatter's indices, moved out of bounds if their window lies partly outside.

    XLA drops these windows; StableHLO and our operations drop only the elements outside.
    """
    if not primitive.name.startswith("scatter"):
        return indices
    numbers, out = dimension_numbers, []
    left_out = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = iter([updates[0].shape[d] for d in numbers.update_window_dims])
    window = [1 if d in left_out else next(sizes) for d in range(array.ndim)]
    named = numbers.scatter_dims_to_operand_dims
    for k, d in enumerate(named):
        component = indices[..., k]
        out.append((component < 0) | (component > array.shape[d] - window[d]))
    if not out or all(window[d] == 1 for d in named):
        return indices
    far = jax.numpy.asarray(jax.numpy.iinfo(indices.dtype).max // 2, indices.dtype)
    return jax.numpy.where(jax.numpy.stack(out).any(0)[..., None], far, indices)


class _Lowered:
    """A primitive for given operand types: its imported program, or one operation."""

    def __init__(self, primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> None:
        of = Primitive(primitive, avals, params)
        self.avals = of.out_avals
        self.is_plain = not any(is_key(a) or getattr(a, "weak_type", False) for a in self.avals)
        self.operation: Any = None
        self.returns_inputs = False  # inputs may be weakly typed although the results are not
        operation = direct(primitive, avals, params, self.avals)
        if operation is not None:
            self.graph = operation
            self.returns_inputs = any(output in operation.inputs for output in operation.outputs)
            return
        try:
            platform, self.graph = of.program_here(PORTABLE)
        except MinixlaError as error:
            problem = f"the program of JAX's primitive {primitive.name} cannot be imported"
            advice = "Call the function outside our transformations, or through mx.pure_callback."
            said = str(error).splitlines()[0]
            raise explain(UnsupportedError, primitive.name, problem, [said], advice) from error
        except (NotImplementedError, ValueError) as error:  # no lowering rule, or it raises
            if not any(words in str(error) for words in _UNLOWERED):
                raise
            self.operation = Unlowered(of=of)
            return
        has_rule = (
            primitive in private.primitive_jvps or primitive in private.primitive_linearizations
        )
        if primitive.name in _WHOLE or _is_foreign(primitive) or not _is_ours(self.graph, has_rule):
            graph = self.graph if of.is_portable else of.program_here()[1]
            self.operation = PrimitiveCall(computation=graph, of=of)
        elif platform != PORTABLE:
            self.operation = LoweredCall(computation=self.graph, of=of)

    def __call__(self, ours: Trace, args: Sequence[Any]) -> list[Any]:
        operands = [x if isinstance(x, Tracer) else operand(x) for x in args]
        if self.operation is not None:
            found = self.operation(*operands)
        elif len(self.graph.instructions) <= _SMALL:
            found = written_out(self.graph, operands)
        else:
            found = call(self.graph, *operands)
        is_plain = self.is_plain and not self.returns_inputs
        return list(found) if is_plain else results(ours, found, self.avals)


def written_out(graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """Inline a program under the current trace; its instructions name the line that runs."""
    source = running_source()
    return evaluate_graph(graph, operands, lambda _: source)


def _is_foreign(primitive: Any) -> bool:
    """Return whether a library other than JAX has defined a rule of a primitive."""
    derivatives = private.primitive_jvps, private.primitive_linearizations
    tables = private.fancy_primitive_batchers, *derivatives
    rules = [table.get(primitive) for table in tables]
    return not all(_module_of(rule).startswith("jax") for rule in rules if rule is not None)


def _module_of(rule: Any) -> str:
    while isinstance(rule, partial):
        rule = rule.func
    names = getattr(getattr(rule, "__code__", None), "co_freevars", ())
    if "batcher" in names:  # JAX wraps batching rules
        return _module_of(rule.__closure__[names.index("batcher")].cell_contents)
    return getattr(rule, "__module__", None) or "jax"


def _is_ours(graph: Graph, has_rule: bool) -> bool:
    """Return whether our derivative of a program agrees with JAX's derivative of the primitive."""
    for step in graph.instructions:
        if isinstance(step.op, CustomCall) or (has_rule and step.op.name in _LOOPS):
            return False
        if not all(_is_ours(computation, has_rule) for computation in step.op.computations):
            return False
    return True


_KNOWN: dict[Any, _Lowered] = {}


def by_lowering(ours: Trace, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return the results of a primitive under one of our traces."""
    values = tuple(params.values())
    key = (primitive, *map(_kind_of, args), *values, private.trace_context())
    try:
        lowered = _KNOWN.get(key)
    except TypeError:  # unhashable parameters are not cached
        lowered, key = None, None
    if lowered is None:
        lowered = _Lowered(primitive, tuple(map(jax.typeof, args)), params)
        if key is not None:
            if len(_KNOWN) >= _MOST:
                _KNOWN.clear()
            _KNOWN[key] = lowered
    results = lowered(ours, args)
    return results if primitive.multiple_results else results[0]


def _kind_of(value: Any) -> Any:
    """Return the type of an operand, on which a program depends, as part of a cache key."""
    if isinstance(value, Tracer):
        return value._shape, value.weak_type
    return jax.typeof(value)
