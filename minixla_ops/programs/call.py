"""Call: run a program inside another program."""

from collections.abc import Callable
from typing import Any, ClassVar

from minixla.core import Graph, shape_of
from minixla.core.attributes import Instance, attribute
from minixla.core.derived import batched_graph, entered_graph, vjp_graphs
from minixla.core.element_types import canonical_element_type
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.registry import fill_role
from minixla.core.shapes import AnyShape, Shape
from minixla.core.symbolic_zeros import call_vjp_graphs
from minixla_ops.helpers.tuple_operations import without_tuples
from minixla_ops.programs.computations import computation_of
from minixla_ops.programs.reference_evaluation import reference_graph
from minixla_ops.programs.runs_programs import CallsProgram, RunsPrograms, as_given, leaves_of

_KEPT = ' {mhlo.frontend_attributes = {inlineable = "false"}}'


@register
class Call(RunsPrograms, CallsProgram):
    """Run a computation on its operands and return its results. XLA: Call.

    A call whose computation has side effects is never dropped.

    Attributes:
        computation: the Graph.

    Checks:
        (C1) there is one operand for each input of the computation.
        (C2) each operand has the shape of its input.
    """

    operands = ("operands...",)
    dynamic_operands = EVERY_OPERAND
    computation: Graph = attribute(Instance(Graph), hlo="to_apply")
    #: True if XLA must keep the call.
    is_kept: ClassVar[bool] = False

    def shape(self, *operands):
        wanted = self.computation.input_shapes
        if len(wanted) != len(operands):
            problem = f"the call has {len(operands)} operands, the computation {len(wanted)} inputs"
            advice = f"Pass one operand for each input: {', '.join(map(str, wanted)) or 'none'}."
            self.refuse("C1", problem, advice)
        for index, (operand, shape) in enumerate(zip(operands, wanted, strict=True)):
            if operand is not shape:
                problem = f"operand {index} has shape {operand}, the computation's input {shape}"
                self.refuse("C2", problem, _advice(operand, shape))
        return self.computation.output_shapes

    def reference(self, *operands):
        return tuple(reference_graph(self.computation, operands))

    def stablehlo(self, emit, operands, shapes, results):
        if emit.calls_host and self.computation.is_inlined:
            return emit.expand(self.computation, operands)
        return super().stablehlo(emit, operands, shapes, results)

    def write(self, emit, operands, shapes, results):
        """Write the call."""
        names = [emit.name() for _ in results]
        target = f"{', '.join(names)} = " if names else ""
        types = ", ".join(shape.stablehlo for shape in shapes)
        outcome = ", ".join(shape.stablehlo for shape in results)
        symbol = emit.function(self.computation)
        is_kept = self.is_kept or id(self.computation) in emit.apart
        called = f"{symbol}({', '.join(operands)}){_KEPT if is_kept else ''}"
        emit.line(f"{target}func.call {called} : ({types}) -> ({outcome})")
        return names

    def entered(self, trace, known):
        made = entered_graph(self.computation, trace, known)
        return self.of_derived(made.graph), known, made.known

    def linearize(self, operands, active):
        return call_vjp_graphs(vjp_graphs(self.computation, tuple(active)), operands)

    def batch_of(self, size, operands, dimensions):
        batched = batched_graph(self.computation, tuple(dimensions), size)
        return self.of_derived(batched.graph)(*operands), batched.known

    def of_derived(self, computation: Graph) -> Operation:
        """Return a call of a program that is derived from the computation."""
        return self.replace(computation=computation)


class KeptCall(Call):
    """A Call that XLA neither inlines nor fuses with what reads its results."""

    is_kept = True


def _advice(shape: AnyShape, wanted: AnyShape) -> str:
    """Return the advice for an operand whose shape differs from the input's."""
    if isinstance(shape, Shape) and isinstance(wanted, Shape):
        narrow = canonical_element_type(wanted.element_type)
        if narrow is not wanted.element_type and shape.element_type is narrow:
            return (
                "JAX converts 64-bit values to 32 bits while its 64-bit mode is off: call "
                'jax.config.update("jax_enable_x64", True), or use `with jax.enable_x64(True):`.'
            )
    return "Convert or reshape the operand."


def call(computation: Graph | Callable[..., object], *operands: object) -> tuple[Any, ...]:
    """Call a computation and return its results as a tuple. XLA: Call.

    Args:
        computation: a Graph, or a function of the operands, which is traced.
        operands: values with the shapes of its inputs, including tuples and tokens.

    Returns:
        A tuple of the computation's results.

    Raises:
        ShapeError: the operands do not match the inputs (C1, C2).
        TransformError: the function reads traced values of the enclosing function.

    Example:
        >>> ops.call(lambda x, y: (x + y, x - y), np.int32(3), np.int32(2))
        (Array(5, dtype=int32), Array(1, dtype=int32))
    """
    if not isinstance(computation, Graph):
        shapes = [shape_of(operand, "call") for operand in operands]
        computation = computation_of(computation, shapes, "call")
    flat, operation = without_tuples(computation), Call(computation)
    if flat is computation:
        return operation(*operands)
    operation.infer(tuple(map(shape_of, operands)))
    return tuple(as_given(computation.output_shapes, Call(flat)(*leaves_of(operands))))


def without_user_rule(operation: Operation) -> Call | None:
    """Return the call that evaluates an operation with a user's rule, else None."""
    if not isinstance(operation, CallsProgram) or not operation.has_user_rule:
        return None
    return next((Call(program.evaluated()) for program in operation.computations), None)


fill_role("call", call)
fill_role("without_user_rule", without_user_rule)
