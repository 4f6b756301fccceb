"""Tuple and GetTupleElement: several values as one."""

import builtins
from collections.abc import Iterator, Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.attributes import Int32, attribute
from minixla.core.builders import builds
from minixla.core.graph import Graph, remembered
from minixla.core.operation import EVERY_OPERAND, Operation, register
from minixla.core.registry import fill_role
from minixla.core.shapes import AnyShape, TupleShape, TupleValue
from minixla.core.tracing import current_trace, evaluate_graph, shape_of, trace_to_graph
from minixla_ops.helpers.shorthand import operand_list


@register
class Tuple(Operation):
    """Combine values of any shapes into one tuple value; Python tuples nest. XLA: Tuple.

    In a graph, a tuple is a value like any other. Outside a graph it is a TupleValue, and in
    `reference` a Python tuple. Tangents and cotangents of tuples are always TupleValues, and the
    batch dimension of a tuple is a tuple of its elements' batch dimensions.

    Args:
        elements: the values.

    Returns:
        An XLA tuple, which is one value.

    Example:
        >>> pair = lambda x: ops.get_tuple_element(ops.tuple([x, x + x]), 0)
        >>> mx.jit(pair)(np.int32(4))
        Array(4, dtype=int32)
    """

    stablehlo_name = "tuple"
    operands = ("elements...",)
    only_arrays = False
    linear_operands = dynamic_operands = EVERY_OPERAND

    def shape(self, *elements):
        return TupleShape(elements)

    def reference(self, *elements):
        return elements

    def run(self, *elements):
        return TupleValue([current_trace().lift(element) for element in elements])

    def jvp(self, primals, tangents, results):
        return TupleValue(tangents)

    def transpose(self, cotangents, operands, linear):
        members = zip(cotangents.elements, linear, strict=True)
        return [cotangent if wanted else None for cotangent, wanted in members]

    def batch(self, operands, dimensions):
        return self(*operands), (*dimensions,)


@builds(Tuple)
def tuple(elements: Sequence[object]) -> Any:
    return Tuple()(*map(tuple_value, operand_list(elements, "tuple", "elements")))


def tuple_value(value: object) -> Any:
    """Convert a Python tuple, the results of an operation, to one tuple value."""
    return ops.tuple(value) if isinstance(value, builtins.tuple) else value


@register
class GetTupleElement(Operation):
    """Return element `index` of a tuple, either a value or a Python tuple. XLA: GetTupleElement.

    Args:
        tuple_data: an XLA tuple.
        index: the index of the element, from 0.

    Returns:
        The element.

    Checks:
        (C1) the operand is a tuple.
        (C2) it has an element with that index.

    Example:
        >>> pair = lambda x: ops.get_tuple_element(ops.tuple([x, x + x]), 1)
        >>> mx.jit(pair)(np.int32(4))
        Array(8, dtype=int32)
    """

    stablehlo_name = "get_tuple_element"
    operands = ("tuple_data",)
    only_arrays = False
    index: int = attribute(Int32())
    linear_operands = (0,)

    def shape(self, tuple_data):
        if not isinstance(tuple_data, TupleShape):
            self.refuse("C1", "the operand is not a tuple", "Make a tuple with ops.tuple.")
        count = len(tuple_data.elements)
        if not 0 <= self.index < count:
            advice = f"index must be in [0, {count})."
            self.refuse_attribute("C2", f"the tuple has no element {self.index}", advice)
        return tuple_data.elements[self.index]

    def reference(self, tuple_data):
        return tuple_data[self.index]

    def run(self, tuple_data):
        self.infer((shape_of(tuple_data),))
        return tuple_data.elements[self.index]

    def jvp(self, primals, tangents, results):
        (tangent,) = tangents
        return tangent.elements[self.index] if isinstance(tangent, TupleValue) else self(tangent)

    def transpose(self, cotangents, operands, linear):
        whole: Any = shape_of(operands[0])
        members = [None] * len(whole.elements)
        members[self.index] = cotangents
        return (TupleValue(members),)

    def batch(self, operands, dimensions):
        return self(*operands), dimensions[0][self.index]


@builds(GetTupleElement)
def get_tuple_element(tuple_data: object, index: int) -> Any:
    return GetTupleElement(index)(tuple_value(tuple_data))


def tuple_leaves(value: object) -> list[Any]:
    """Return the elements of a tuple, with nested tuples flattened; else a list of `value`."""
    shape = shape_of(value)
    if not isinstance(shape, TupleShape):
        return [value]
    members = [ops.get_tuple_element(value, index) for index in range(len(shape.elements))]
    return [leaf for member in members for leaf in tuple_leaves(member)]


def from_leaves(shape: AnyShape, leaves: Iterator[object]) -> Any:
    """Build the value of `shape` from the next elements of `leaves`."""
    if not isinstance(shape, TupleShape):
        return next(leaves)
    return ops.tuple([from_leaves(element, leaves) for element in shape.elements])


@remembered
def without_tuples(graph: Graph) -> Graph:
    """Return the program with tuples in its inputs and outputs replaced by their leaves.

    Operations that run programs use it, so that derivative and batching rules see only arrays.
    """
    given = [*graph.input_shapes, *graph.output_shapes]
    if not any(isinstance(shape, TupleShape) for shape in given):
        return graph

    def function(*leaves: object) -> list[object]:
        remaining = iter(leaves)
        operands = [from_leaves(shape, remaining) for shape in graph.input_shapes]
        outputs = evaluate_graph(graph, operands)
        return [leaf for output in outputs for leaf in tuple_leaves(output)]

    shapes = [leaf for shape in graph.input_shapes for leaf in leaf_shapes(shape)]
    return trace_to_graph(function, shapes, graph.name)[0].pruned()


def leaf_shapes(shape: AnyShape) -> list[AnyShape]:
    """Return the shapes of the arrays and tokens in a shape, in order."""
    if not isinstance(shape, TupleShape):
        return [shape]
    return [leaf for element in shape.elements for leaf in leaf_shapes(element)]


fill_role("tuple", Tuple)
