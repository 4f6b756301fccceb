"""Traces and `bind`: the processing of an operation by the current trace.

Each thread has one current trace. `bind` passes it the operation. The trace treats values that are
not its own tracers as constants, and binds its computations under its parent.
"""

import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeGuard

import jax.core
import numpy as np

from minixla.core import hooks
from minixla.core.attributes import Literal
from minixla.core.errors import MinixlaError, TransformError, explain
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.hooks import bridge as bridge
from minixla.core.nesting import FRAMES_OF_TRACING, enter_level, leave_level
from minixla.core.operation import Operation
from minixla.core.registry import role
from minixla.core.shapes import AnyShape, TupleValue, shape_of_data, snapshot
from minixla.core.source import Source, find_source, within_scope
from minixla.core.state import state as _state
from minixla.core.tracer import Tracer, check_value, host_array, leaked, not_a_value, unknown_value
from minixla.core.tracer import shape_of as shape_of
from minixla.core.tracer import weak_type_of as weak_type_of
from minixla.core.value_types import Array, ArrayLike, Results
from minixla.core.whole_programs import one_program as one_program
from minixla.core.whole_programs import with_flags as with_flags

if TYPE_CHECKING:  # jax.extend imports Pallas
    from jax.extend.linear_util import WrappedFun


class Trace(jax.core.Trace):
    """Process operations while it is current. Subclasses define `process`.

    It is also a JAX trace. While it is current, `minixla.bridge` converts the primitives that JAX's
    functions bind to operations.
    """

    #: The name of the trace in error messages.
    transformation: ClassVar[str] = "a transformation"
    #: True if functions of arrays run as one compiled function; see `whole_programs`.
    #: `compiled_functions(function, names, known, numbers)` returns the compiled versions.
    compiles: ClassVar[bool] = False
    compiled_functions: ClassVar[Callable[..., Callable[..., object]] | None] = None
    #: True if operations without own operands are forwarded to its parent.
    forwards: ClassVar[bool] = False
    #: True if it evaluates immediately, as only the outermost trace does, under a JAX trace.
    evaluates: ClassVar[bool] = False
    __slots__ = ("alive", "parent")

    def __init__(self, parent: "Trace | None") -> None:
        super().__init__()
        self.requires_low = False  # JAX passes primitives with custom rules without lowering
        self.parent: Any = parent  # the trace under which this one computes
        self.alive = True  # until the function being traced has returned

    @property
    def for_jax(self) -> jax.core.Trace:
        """The JAX trace that is current while this trace is."""
        return self

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        """Return the result (or tuple of results) of applying `operation` to `operands`."""
        raise NotImplementedError(f"{type(self).__name__} has no process")

    def outside(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        """Return the parent's results; none of the operands is the trace's own."""
        if operation.run is None:
            return self.parent.process(operation, operands)
        with under(self.parent):  # the function that it runs is not transformed, either
            return self.parent.process(operation, operands)

    def function_of(self, operation: Operation, operands: tuple[Any, ...]) -> tuple[Array, ...]:
        """Apply the function of an operation and ignore the user's derivative rule for it."""
        assert operation.stage_operands is not None
        staged, operands = operation.stage_operands(operands)
        with under(self):
            return tuple(evaluate_graph(staged.computations[0], operands))

    def lift(self, value: ArrayLike, subject: str = "trace") -> Array:
        """Lift `value` to an array for derivative rules; `subject` is for errors."""
        return value if isinstance(value, Tracer) else self.parent.lift(value, subject)

    def weakly(self, value: ArrayLike) -> Array:
        """Return `value` as a weakly typed one; the argument is unchanged."""
        if not isinstance(value, Tracer):
            return self.parent.weakly(value)
        return value if value.weak_type else value._weak_copy()

    # Methods by which the trace enters programs of operations; see `derived.entered_graph`. The
    # defaults are for traces that do not wrap values.

    #: Prefix of the names of entered programs.
    prefix: ClassVar[str] = "entered"
    #: Equal for equivalent traces; None: programs are entered again each time.
    memo_key: object = None

    def again(self, parent: "Trace") -> "Trace":
        """Return the same trace under another parent: for a program's body."""
        rule = "define the method again(parent)"
        raise NotImplementedError(f"{type(self).__name__} does not enter programs: {rule}")

    def taken_apart(self, value: ArrayLike) -> tuple[list[Any], Any]:
        """Return the parent's values that a value consists of, and the trace's knowledge."""
        return ([value.value], value.known) if self.is_own(value) else ([value], None)

    def output_apart(self, value: ArrayLike) -> tuple[list[Any], Any]:
        """Return `taken_apart` for an output of a program that the trace entered."""
        return self.taken_apart(value)

    def put_together(self, values: Sequence[Array], known: object) -> Array:
        """Rebuild the value from the parts of `taken_apart`."""
        return values[0]

    def absent(self, shape: AnyShape) -> Array:
        """Return a value of `shape` that needs no value of the parent trace."""
        raise NotImplementedError(f"{type(self).__name__} has no absent values")

    def shapes_of(self, shape: AnyShape, known: object) -> list[AnyShape]:
        """Return the shapes of the parent's values that a value of `shape` consists of."""
        return [shape]

    def joined(self, known: object, other: object) -> object:
        """Join the knowledge about a value that is one of two, such as results of branches."""
        return known if known == other else None

    def as_known(self, value: ArrayLike, known: object) -> list[Array]:
        """Return the number of parent values that `known` requires, for any value or constant."""
        return self.taken_apart(value)[0]

    def parts_as_known(self, value: ArrayLike, known: object) -> list[Array]:
        """Return `as_known`, checked: a missing value would be taken from the next operand."""
        parts, wanted = self.as_known(value, known), len(self.shapes_of(shape_of(value), known))
        if len(parts) == wanted:
            return parts
        problem = f"as_known returned {len(parts)} values, but shapes_of {wanted}"
        advice = "Define as_known(value, known) to return as many values as shapes_of for all."
        raise explain(TransformError, type(self).__name__, problem, advice=advice)

    # The methods that JAX calls on its current trace.

    def is_valid(self) -> bool:
        """Return whether values of the trace may be used."""
        return self.alive

    def stage_value(self, value: object) -> object:
        """Return a constant as the functions under this trace see it."""
        return bridge().staged(self, value)

    def cur_qdd(self, value: object) -> object:
        """Return the type of a mutable value."""
        return jax.typeof(value)

    def process_primitive(self, primitive: object, args: object, params: object, /) -> object:
        """Return the results of a JAX primitive."""
        return bridge().process_primitive(self, primitive, args, params)

    def process_custom_jvp_call(self, *arguments: object, **options: object) -> object:
        """Return the results of a `jax.custom_jvp` function."""
        return bridge().process_custom_jvp_call(self, *arguments, **options)

    def process_custom_vjp_call(self, *arguments: object, **options: object) -> object:
        """Return the results of a `jax.custom_vjp` function."""
        return bridge().process_custom_vjp_call(self, *arguments, **options)

    def process_shard_map(self, *arguments: object, **options: object) -> object:
        """Return the results of a `jax.shard_map` function."""
        return bridge().process_shard_map(self, *arguments, **options)

    def process_call(
        self, primitive: object, fun: "WrappedFun", args: Sequence[object], params: object, /
    ) -> object:
        """Call a function under this trace."""
        with under(self):
            return fun.call_wrapped(*args)

    def is_own(self, value: object) -> TypeGuard[Tracer]:
        """Return whether a value is a tracer of this trace."""
        return isinstance(value, Tracer) and value._trace is self

    def reaches(self, tracer: Tracer) -> bool:
        """Return whether a tracer belongs to this trace or to an enclosing active one."""
        trace: Trace = self
        while not trace.evaluates:
            if trace.owns(tracer):
                return trace.alive
            trace = trace.parent
        return trace.reaches(tracer)

    def owns(self, tracer: Tracer) -> bool:
        """Return whether a tracer belongs to this trace, or to a trace that it represents."""
        return tracer._trace is self


def default_trace() -> Trace:
    """Return the evaluator outside all transformations, loaded on first use."""
    return hooks.engine().ENGINE


def current_trace() -> Trace:
    """Return the current trace of this thread.

    Returns:
        A Trace.

    Example:
        >>> mx.core.current_trace() is mx.core.current_trace()
        True
    """
    return _state.trace


def bind(operation: Operation, *operands: ArrayLike) -> Any:  # noqa: ANN401  # one result or several
    """Apply `operation` under the current trace: `operation(*operands)`.

    Args:
        operation: an operation with its attributes, such as `operation_named("Neg")()`.
        operands: its operands, in order.

    Returns:
        The result, or the tuple of results if the operation has several.

    Example:
        >>> mx.bind(mx.core.operation_named("Neg")(), np.float32(2))
        Array(-2., dtype=float32)
    """
    return operation(*operands)


class under:
    """Make a trace current inside a `with` block, as a level of `frames` framework frames."""

    __slots__ = ("_frames", "_level", "_previous", "_trace")

    def __init__(self, trace: Trace, frames: int = 1) -> None:
        self._trace, self._frames = trace, frames

    def __enter__(self) -> None:
        self._previous = _state.trace
        self._level = enter_level(self._frames)
        _state.trace = self._trace

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        _state.trace = self._previous
        leave_level(self._level, error)


def nested() -> under:
    """Return one level of nested functions, for a `with` block."""
    return under(_state.trace, FRAMES_OF_TRACING)


class tracing(under):
    """Make a trace current inside a `with` block; it ends with the block."""

    # Pause Python's cyclic garbage collector meanwhile: the objects that tracing creates are alive
    # until its end, and repeated scans would take most of the time.
    __slots__ = ("_collect",)

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace, FRAMES_OF_TRACING)

    def __enter__(self) -> None:
        self._collect = gc.isenabled()
        if self._collect:
            _state.collects = True
            gc.disable()
        super().__enter__()

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        self._trace.alive = False
        if self._collect:
            gc.enable()
            _state.collects = False
        super().__exit__(kind, error, where)


class GraphTracer(Tracer):
    """A value that a graph under construction will compute."""

    __slots__ = ("_value",)

    def __init__(self, trace: "GraphTrace", value: Value) -> None:
        self._trace = trace
        self._value = value
        self._shape = value.shape
        self._weak = False

    def _weak_copy(self) -> "GraphTracer":
        copied = GraphTracer(self._trace, self._value)
        copied._mark_weak()
        return copied

    def _concrete(self, wanted: str) -> NoReturn:
        made, origin = self._value.instruction, "it is an input of the traced function"
        if made is not None:
            origin = f"it was computed by {made.op.builder_name} at {made.source}"
        where = f"but only the shape {self._shape} is known"
        advice = "Or mark the argument static (static_argnums), or move this line outside the "
        advice += "staged function: inside jit, values are not known yet."
        raise unknown_value("trace", wanted, where, [origin], advice)


class GraphTrace(Trace):
    """Record operations as instructions of a graph."""

    transformation = "jit or make_graph"
    __slots__ = "_constants", "captured", "captured_inputs", "inputs", "instructions", "open_inputs"

    def __init__(self, parent: Trace, open_inputs: bool = False) -> None:
        super().__init__(parent)
        self.inputs: list[Value] = []
        #: True if the function may declare additional inputs.
        self.open_inputs = open_inputs
        self.instructions: list[Instruction] = []
        #: Tracers of enclosing traces that the program reads, and the inputs for them.
        self.captured: list[Tracer] = []
        self.captured_inputs: list[Value] = []
        # Constants by id, and repeated values by content.
        self._constants: dict[object, Any] = {}

    def add_input(self, shape: AnyShape) -> GraphTracer:
        """Return a tracer for an additional input of the program."""
        value = Value(shape, None, len(self.inputs))
        self.inputs.append(value)
        return GraphTracer(self, value)

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        if operation.stage_operands is not None:
            operation, operands = operation.stage_operands(operands)
            tracers = [operand for operand in operands if isinstance(operand, Tracer)]
            if any(not self.reaches(x) and _state.trace.reaches(x) for x in tracers):
                # The function reads a value of the trace that forwarded the call.
                return _state.trace.process(operation, operands)
        values: list[Value] = []
        shapes: list[AnyShape] = []
        for operand in operands:  # faster than list comprehensions, which are calls
            if type(operand) is GraphTracer and operand._trace is self:
                value = operand._value
            else:
                value = self.capture(operand, operation.builder_name)
            values.append(value)
            shapes.append(value.shape)
        result_shapes = operation.infer(tuple(shapes))
        source = _state.source or within_scope(find_source(2), _state.scope)
        instruction = Instruction(operation, tuple(values), result_shapes, source)
        self.instructions.append(instruction)
        if instruction.single:
            return GraphTracer(self, instruction.results[0])
        return tuple([GraphTracer(self, value) for value in instruction.results])

    def lift(self, value: ArrayLike, subject: str = "trace") -> Array:
        if isinstance(value, Tracer):
            return value
        tracer = GraphTracer(self, self.capture(value, subject))
        if weak_type_of(value):
            tracer._mark_weak()
        return tracer

    def weakly(self, value: ArrayLike) -> Array:
        return super().weakly(self.lift(value))

    def capture(self, operand: ArrayLike | TupleValue, subject: str = "trace") -> Value:
        """Return the graph value for an outside value, with its current contents."""
        # Tracers of enclosing traces become additional inputs, all other values constants.
        if isinstance(operand, np.ndarray):
            operand = snapshot(operand)
        constant = self._constants.get(id(operand))
        if constant is not None:
            return constant[0]
        if isinstance(operand, Tracer):
            if operand._trace is self:
                return operand._value
            if not self.parent.reaches(operand):
                raise leaked(operand, subject)
            literal = operand._value.literal if type(operand) is GraphTracer else None
            if literal is not None:
                value = self._record_constant(literal)
            else:
                value = Value(operand._shape, None, len(self.captured))
                self.captured.append(operand)
                self.captured_inputs.append(value)
        elif isinstance(operand, TupleValue):
            members = [self.lift(element, subject) for element in operand.elements]
            made: Any = self.process(role("tuple")(), tuple(members))
            value = made._value
        else:
            value = self._constant(operand, subject)
        # Keep the operand alive, so that its id stays unique.
        self._constants[id(operand)] = value, operand
        return value

    def _constant(self, operand: ArrayLike, subject: str) -> Value:
        shape = shape_of_data(operand)
        if shape is None:
            raise not_a_value(operand, subject)
        if isinstance(operand, (bool, int, float, complex, np.generic, np.ndarray)):
            operand = host_array(operand, shape, subject)
        literal = Literal(operand, shape)
        if not (literal.is_splat and isinstance(literal.data, np.ndarray)):
            return self._record_constant(literal)
        scalar = literal.scalar
        key = (shape, scalar.tobytes())
        value = self._constants.get(key)
        if value is None:
            # Copy the memory: a view may show an array that changes later.
            value = self._constants[key] = self._record_constant(Literal.splat(scalar, shape))
        return value

    def _record_constant(self, literal: Literal) -> Value:
        # Programs have many constants: this takes half the time of `process`.
        source = _state.source or find_source(4)
        made = Instruction(role("constant")(literal), (), literal.shape, source)
        self.instructions.append(made)
        return made.results[0]

    def graph(
        self,
        outputs: Sequence[Any],
        name: str = "main",
        where: Callable[[], Sequence[str]] = tuple,
    ) -> Graph:
        """Return the recorded program, captured inputs first; `where()` is the paths of outputs."""
        try:
            for output in outputs:
                check_value(output, name, "a result")
        except MinixlaError:
            for output, place in zip(outputs, where(), strict=False):
                check_value(output, name, place)
            raise
        values = [self.capture(output, name) for output in outputs]
        return Graph([*self.captured_inputs, *self.inputs], self.instructions, values, name)


def running_source() -> Source | None:
    """Return the line at which operations are bound, with the open scopes."""
    return _state.source or within_scope(find_source(2), _state.scope)


def trace_to_graph(
    function: Callable[..., Sequence[object]], shapes: Sequence[AnyShape], name: str = "main"
) -> tuple[Graph, list[Tracer]]:
    """Trace a function; return the graph, and the captured tracers that are its first inputs."""
    trace = GraphTrace(_state.trace)
    arguments = [trace.add_input(shape) for shape in shapes]
    with tracing(trace):
        graph = trace.graph(function(*arguments), name)
    return graph, trace.captured


def closed_graph(
    function: Callable[..., object], shapes: Sequence[AnyShape], subject: str, name: str = "main"
) -> Graph:
    """Trace a computation (a reducer, a loop body), which must not capture tracers."""

    def flat(*arguments: Array) -> Sequence[object]:
        result = function(*arguments)
        return result if isinstance(result, (tuple, list)) else (result,)

    graph, captured = trace_to_graph(flat, shapes, name)
    if captured:
        problem = "its computation reads a traced value of the enclosing function"
        details = [f"captured: {tracer!r}" for tracer in captured]
        advice = "XLA's computations are closed; pass the value as an operand."
        raise explain(TransformError, subject, problem, details, advice)
    return graph


def evaluate_graph(
    graph: Graph,
    operands: Sequence[object],
    where: Callable[[Source | None], Source | None] | None = None,
) -> list[Any]:
    """Bind a graph's instructions under the current trace, at their source lines.

    Args:
        graph: the graph.
        operands: the values of its inputs.
        where: returns the line for an instruction from the line in the graph.
    """
    values = dict(zip(map(id, graph.inputs), operands, strict=True))
    state, process, previous = _state, _state.trace.process, _state.source
    try:
        for step in graph.instructions:
            state.source = step.source if where is None else where(step.source)
            outcome = process(step.op, tuple([values[id(value)] for value in step.operands]))
            if step.single:
                values[id(step.results[0])] = outcome
            else:
                values.update(zip(map(id, step.results), outcome, strict=True))
    finally:
        state.source = previous
    return [values[id(value)] for value in graph.outputs]
