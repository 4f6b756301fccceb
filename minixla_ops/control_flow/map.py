"""Map: apply a computation of scalars at every position of arrays."""

from collections.abc import Sequence
from typing import Any

from minixla.core import Graph, Operation, Shape, register, shape_of
from minixla.core.attributes import Instance, Integer, Integers, attribute
from minixla.core.builders import builds, operand_list
from minixla.typing import ArrayLike
from minixla_ops.helpers.shorthand import listed
from minixla_ops.programs.computations import (
    Computation,
    apply_computation,
    check_computation,
    computation_of,
)
from minixla_ops.programs.lowering import Lowered, lowered_program
from minixla_ops.programs.reference_evaluation import apply_elementwise


@register
class Map(Lowered):
    """Apply a computation of scalars at each position of arrays. XLA: Map.

        result[i, ...] = computation(operands[0][i, ...], ..., static operands)

    Args:
        operands: arrays with equal dimensions.
        computation: a Graph, or a function, from one scalar of each operand, and the static
            operands, to one scalar.
        dimensions: all dimensions of the operands in order, as XLA requires; the default.
        static_operands: values of any shape, which are passed whole to each call.

    Returns:
        An array with the operands' dimensions and the element type that the computation returns.

    Attributes:
        static_count: the number of static operands, which are the last ones.

    Checks:
        (C1) there is at least one mapped operand, and all are arrays with equal dimensions.
        (C2) `dimensions` lists all dimensions in order.
        (C3) the computation takes their scalars and the static operands, and returns one scalar.

    Raises:
        TransformError: the function reads traced values of the enclosing function.

    Example:
        >>> ops.map([np.int32([1, 2]), np.int32([10, 20])], lambda x, y: x * x + y)
        Array([11, 24], dtype=int32)
    """

    stablehlo_name = "map"
    operands = ("operands...",)
    only_arrays = False
    computation: Graph = attribute(Instance(Graph), hlo="to_apply")
    dimensions: tuple[int, ...] = attribute(Integers(0))
    static_count: int = attribute(Integer(0), default=0, stablehlo=None, hlo=None)

    def shape(self, *operands):
        count = len(operands) - self.static_count
        mapped = [operand for operand in operands[:count] if isinstance(operand, Shape)]
        if len(mapped) != count or len({shape.dimensions for shape in mapped}) != 1:
            self.refuse("C1", "the operands must be arrays with equal dimensions")
        every = tuple(range(mapped[0].rank))
        if self.dimensions != every:
            problem = "map requires all dimensions, in order"
            self.refuse_attribute("C2", problem, f"dimensions must be {list(every)}.")
        inputs = [*[Shape(shape.element_type) for shape in mapped], *operands[count:]]
        outputs = self.computation.output_shapes
        if len(outputs) != 1 or not isinstance(outputs[0], Shape) or outputs[0].rank:
            problem = "the computation must return one scalar"
            self.refuse("C3", problem, "Return one value with dimensions [].")
        check_computation(self, "C3", "the computation", self.computation, inputs, outputs)
        return outputs[0].with_dimensions(mapped[0].dimensions)

    def reference(self, *operands):
        count = len(operands) - self.static_count
        return apply_elementwise(self.computation, operands[:count], operands[count:])[0]

    def lowered(self, *operands):
        count = len(operands) - self.static_count
        return apply_computation(self.computation, operands[:count], operands[count:])[0]

    def stablehlo(self, emit, operands, shapes, results):
        # XLA supports only StableHLO's element-wise operations in a map.
        steps = [step.op for step in self.computation.instructions]
        is_known = all(step.is_elementwise and step.stablehlo_name for step in steps)
        rule = Lowered if self.static_count or not is_known else Operation
        return rule.stablehlo(self, emit, operands, shapes, results)

    def hlo(self, emit, operands, shapes, result):
        if not self.static_count:
            return super().hlo(emit, operands, shapes, result)
        # HLO's map does not have static operands.
        program = lowered_program(self, tuple(shapes))
        return emit.instruction("call", operands, result, to_apply=program)


@builds(Map)
def map(
    operands: Sequence[ArrayLike],
    computation: Computation,
    dimensions: Sequence[int] | None = None,
    static_operands: Sequence[ArrayLike] = (),
) -> Any:
    operands = operand_list(operands, "map", "operands")
    static_operands = operand_list(static_operands, "map", "static_operands")
    shapes = [shape_of(operand) for operand in operands]
    scalars = [Shape(shape.element_type) if isinstance(shape, Shape) else shape for shape in shapes]
    inputs = [*scalars, *[shape_of(operand) for operand in static_operands]]
    graph = computation_of(computation, inputs, "map")
    if dimensions is None:
        dimensions = range(shapes[0].rank if shapes and isinstance(shapes[0], Shape) else 0)
    record = Map(graph, listed(dimensions), len(static_operands))
    return record(*operands, *static_operands)
