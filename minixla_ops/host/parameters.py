"""Parameter: an input of the program being traced, by its index."""

from typing import Any

from minixla.core import AnyShape, Operation, register
from minixla.core.attributes import Integer, ShapeAttribute, attribute
from minixla.core.errors import AttributeValueError, ShapeError, TransformError, explain
from minixla.core.tracing import GraphTrace, GraphTracer, current_trace


@register
class Parameter(Operation):
    """Return an input of a program. XLA: Parameter.

    A graph stores its inputs separately from its instructions and never contains this operation.
    Therefore, it has no evaluation rules, and text has it as an argument.

    Checks:
        (C1) the input with that index has that shape.
        (C2) the input exists, or it is the next one of a program that may get more inputs.
    """

    stablehlo_name = "func.func argument"
    parameter_number: int = attribute(Integer(minimum=0))
    output_shape: AnyShape = attribute(ShapeAttribute())
    missing_rules = {
        "reference": "the caller passes its value",
        "jvp": "the caller passes its tangent",
        "transpose": "its cotangent is the result",
        "batch": "the caller decides which inputs are batched",
    }

    def shape(self):
        return self.output_shape


def parameter(parameter_number: int, shape: AnyShape, name: str = "") -> Any:
    """Return an input of the program being traced. XLA: Parameter.

    A function's arguments are its inputs. This returns them by index, as computations written for
    XLA's builder do. In a function that `make_graph` traces, the next index adds an input.

        square = mx.make_graph(lambda: ops.mul(x := ops.parameter(0, Shape("f32", (4,)), "x"), x))()

    Args:
        parameter_number: the index of the input, from 0.
        shape: its shape.
        name: a name for readers; inputs of graphs are identified by index.

    Returns:
        A traced value.

    Raises:
        ShapeError: the input has another shape (C1).
        AttributeValueError: the input does not exist (C2).
        TransformError: no program is being traced, or another transformation is active.

    Example:
        >>> f32 = mx.Shape("f32", (4,))
        >>> mx.make_graph(lambda: ops.neg(ops.parameter(0, f32, "x")))()
        <Graph <lambda> (f32[4]) -> (f32[4]), 1 instructions>
    """
    operation, trace = Parameter(parameter_number, shape), current_trace()
    number = operation.parameter_number
    if type(trace) is not GraphTrace:
        problem = (
            f"no program is being traced: the current transformation is {trace.transformation}"
        )
        details = [f"parameter {number} {name}: {shape}".replace(" :", ":")]
        where = "mx.make_graph, mx.jit, or an operation that takes a computation"
        advice = f"Call it in a function passed to {where}; elsewhere, use the function's argument."
        raise explain(TransformError, "parameter", problem, details, advice)
    shapes = [value.shape for value in trace.inputs]
    listed = [f"parameter {number}: {shape}", f"inputs ({', '.join(map(str, shapes))})"]
    if number == len(shapes) and trace.open_inputs:
        return trace.add_input(shape)
    if number >= len(shapes):
        problem = f"(C2) input {number} does not exist"
        advice = "only under mx.make_graph, the next index adds an input."
        advice = f"The function's arguments are the inputs; {advice}"
        raise explain(AttributeValueError, "parameter", problem, listed, advice)
    if shapes[number] is not shape:
        problem = f"(C1) input {number} has shape {shapes[number]}, not {shape}"
        raise explain(ShapeError, "parameter", problem, listed, "Pass its shape.")
    return GraphTracer(trace, trace.inputs[number])
