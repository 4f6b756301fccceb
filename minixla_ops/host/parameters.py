"""Parameter: an input of the program that is being traced, by its number."""

from typing import Any

from minixla.core import AnyShape, Operation, register
from minixla.core.attributes import Integer, ShapeAttribute, attribute
from minixla.core.errors import AttributeValueError, ShapeError, TransformError, explain
from minixla.core.tracing import GraphTrace, GraphTracer, current_trace


@register
class Parameter(Operation):
    """An input of a program. XLA: Parameter.

    A graph holds its inputs apart from its instructions, so that this is never one of them: it
    has no rules of evaluation, and text has it as an argument.

    Checks:
        (C1) the input of that number has that shape.
        (C2) there is such an input, or it is the next one of a program that may get more.
    """

    stablehlo_name = "func.func argument"
    parameter_number: int = attribute(Integer(minimum=0))
    output_shape: AnyShape = attribute(ShapeAttribute())
    missing_rules = {
        "reference": "the caller gives its value",
        "jvp": "the caller gives its tangent",
        "transpose": "its cotangent is the result",
        "batch": "the caller says which inputs are batched",
    }

    def shape(self):
        return self.output_shape


def parameter(parameter_number: int, shape: AnyShape, name: str = "") -> Any:
    """An input of the program that is being traced. XLA: Parameter.

    A function's arguments are its inputs: this gives them by number, which a computation written
    for XLA's builder does. In a function that `make_graph` traces, the next number is a new input.

        square = mx.make_graph(lambda: ops.mul(x := ops.parameter(0, Shape("f32", (4,)), "x"), x))()

    Args:
        parameter_number: the input's number, from 0.
        shape: its shape.
        name: for the reader; inputs of graphs are told apart by number.

    Returns:
        A traced value.

    Raises:
        ShapeError: the input has another shape (C1).
        AttributeValueError: there is no such input (C2).
        TransformError: no program is being traced, or another transformation stands between.

    Example:
        >>> f32 = mx.Shape("f32", (4,))
        >>> mx.make_graph(lambda: ops.neg(ops.parameter(0, f32, "x")))()
        <Graph <lambda> (f32[4]) -> (f32[4]), 1 instructions>
    """
    operation, trace = Parameter(parameter_number, shape), current_trace()
    number = operation.parameter_number
    if type(trace) is not GraphTrace:
        problem = f"no program is being traced here, but {trace.transformation} is at work"
        details = [f"parameter {number} {name}: {shape}".replace(" :", ":")]
        where = "mx.make_graph, mx.jit, or an operation that takes a computation"
        advice = f"Call it in a function given to {where}; elsewhere use the function's argument."
        raise explain(TransformError, "parameter", problem, details, advice)
    shapes = [value.shape for value in trace.inputs]
    listed = [f"parameter {number}: {shape}", f"inputs ({', '.join(map(str, shapes))})"]
    if number == len(shapes) and trace.open_inputs:
        return trace.add_input(shape)
    if number >= len(shapes):
        problem = f"(C2) there is no input {number}"
        advice = "only under mx.make_graph the next number is a new one."
        advice = f"The function's arguments are the inputs; {advice}"
        raise explain(AttributeValueError, "parameter", problem, listed, advice)
    if shapes[number] is not shape:
        problem = f"(C1) input {number} is {shapes[number]}"
        raise explain(ShapeError, "parameter", problem, listed, "Give the shape that it has.")
    return GraphTracer(trace, trace.inputs[number])
