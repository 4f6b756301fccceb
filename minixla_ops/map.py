"""Map: a computation of scalars, called for the elements at every position of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Instance, Integer, Integers
from minixla.core.derived import batched_graph
from minixla.core.graph import Graph
from minixla.core.operation import register
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import bind, evaluate_graph, shape_of
from minixla_ops.batching import align_batches, batch_size
from minixla_ops.broadcasting import broadcast_in_dim
from minixla_ops.composed import Composed
from minixla_ops.computations import check_computation, computation_of
from minixla_ops.elementwise import Elementwise
from minixla_ops.evaluation import apply_elementwise, reference_graph
from minixla_ops.nested import program
from minixla_ops.reshaping import reshape
from minixla_ops.rules import array_shape, listed, operand_list

__all__ = ["map"]


@register
class Map(Composed):
    """A computation of scalars applied to the elements at each position. XLA: Map.

        result[i, ...] = computation(operands[0][i, ...], ..., static operands)

    The last `static_count` operands are static: each call gets them whole.

    Attributes:
        computation: the Graph from a scalar of each mapped operand, and the static ones, to one
            scalar.
        dimensions: those of the operands, all of them in order, as XLA demands.
        static_count: how many operands are static.

    Checks:
        (C1) there are mapped operands, arrays of equal dimensions.
        (C2) `dimensions` are all dimensions in order.
        (C3) the computation takes their scalars and the static operands, and gives one scalar.
    """

    stablehlo_name = "map"
    operand_names = ("operands...",)
    attributes = {
        "computation": Instance(Graph),
        "dimensions": Integers(0),
        "static_count": Integer(0, default=0),
    }

    def shape(
        self,
        *operands: AnyShape,
        computation: Graph,
        dimensions: tuple[int, ...],
        static_count: int,
    ) -> Shape:
        count = len(operands) - static_count
        given = [f"operands ({', '.join(f'{each}' for each in operands)})"]
        mapped = [each for each in operands[:count] if isinstance(each, Shape)]
        sizes = {each.dimensions for each in mapped}
        if len(mapped) != count or len(sizes) != 1:
            advice = "Give one array or more, all of the same dimensions."
            self.reject("C1", "the operands are not arrays of equal dimensions", given, advice)
        rank = mapped[0].rank
        if dimensions != tuple(range(rank)):
            self.reject_attribute(
                "C2",
                "only maps over all dimensions exist",
                [*given, f"dimensions {list(dimensions)}"],
                f"dimensions must be {list(range(rank))}.",
            )
        inputs = [*[Shape(each.element_type) for each in mapped], *operands[count:]]
        outputs = computation.output_shapes
        if len(outputs) != 1 or not isinstance(outputs[0], Shape) or outputs[0].rank:
            self.reject(
                "C3",
                "the computation does not give one scalar",
                [f"it gives ({', '.join(f'{each}' for each in outputs)})"],
                "Return one value of dimensions [].",
            )
        check_computation(self, "C3", "the computation", computation, inputs, outputs)
        return outputs[0].with_dimensions(mapped[0].dimensions)  # type: ignore[union-attr]

    def reference(
        self,
        *operands: Any,
        computation: Graph,
        dimensions: tuple[int, ...],
        static_count: int,
    ) -> np.ndarray:
        if not static_count:
            return apply_elementwise(computation, operands)[0]
        count, sizes = len(operands) - static_count, operands[0].shape
        flat = [each.reshape(-1) for each in operands[:count]]
        batched = _over_elements(computation, count, operands[0].size)
        (result,) = reference_graph(batched.graph, [*flat, *operands[count:]])
        return np.broadcast_to(result, flat[0].shape).reshape(sizes)

    def composition(
        self,
        *operands: Any,
        computation: Graph,
        dimensions: tuple[int, ...],
        static_count: int,
    ) -> Any:
        count, shape = len(operands) - static_count, array_shape(operands[0])
        flat = [reshape(each, (shape.size,)) for each in operands[:count]]
        batched = _over_elements(computation, count, shape.size)
        (result,) = evaluate_graph(batched.graph, [*flat, *operands[count:]])
        if batched.dimensions[0] is None:
            return broadcast_in_dim(result, shape.dimensions, ())
        return reshape(result, shape.dimensions)

    def stablehlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        results: Sequence[AnyShape],
        /,
        **attributes: Any,
    ) -> Sequence[str]:
        computation = attributes["computation"]
        if attributes["static_count"] or not _is_written_out(computation):
            return super().stablehlo(emit, operands, shapes, results, **attributes)
        return emit.operation(
            "stablehlo.map",
            operands,
            shapes,
            results,
            [emit.region(computation)],
            dimensions=attributes["dimensions"],
        )

    def hlo(
        self,
        emit: Any,
        operands: Sequence[str],
        shapes: Sequence[AnyShape],
        result: AnyShape,
        /,
        **attributes: Any,
    ) -> str:
        computation, dimensions = attributes["computation"], attributes["dimensions"]
        if not attributes["static_count"]:
            given = {"dimensions": dimensions, "to_apply": computation}
            return emit.instruction("map", operands, result, **given)
        # HLO's map has no static operands.
        return emit.instruction(
            "call", operands, result, to_apply=self._program(shapes, attributes)
        )

    def batch(
        self, operands: Sequence[Any], dimensions: Sequence[int | None], /, **attributes: Any
    ) -> tuple[Any, int | None]:
        count = len(operands) - attributes["static_count"]
        if any(at is not None for at in dimensions[count:]):
            shapes = [
                shape if at is None else shape.without_dimension(at)  # type: ignore[union-attr]
                for shape, at in zip([shape_of(o) for o in operands], dimensions, strict=True)
            ]
            size = batch_size(operands, dimensions)
            batched = batched_graph(self._program(shapes, attributes), tuple(dimensions), size)
            (result,) = evaluate_graph(batched.graph, operands)
            return result, batched.dimensions[0]
        mapped, at = align_batches(operands[:count], dimensions[:count])
        attributes["dimensions"] = tuple(range(array_shape(mapped[0]).rank))
        return bind(self, *mapped, *operands[count:], **attributes), at

    def _program(self, shapes: Sequence[AnyShape], attributes: dict[str, Any]) -> Graph:
        """The composition as a graph."""
        return program(lambda *operands: [self.composition(*operands, **attributes)], shapes, "map")


def _is_written_out(computation: Graph) -> bool:
    """Whether each instruction is an element-wise one of StableHLO, as XLA wants in a map."""
    ops = [step.op for step in computation.instructions]
    return all(
        (isinstance(op, Elementwise) and op.stablehlo_name) or op.name == "Constant" for op in ops
    )


def _over_elements(computation: Graph, count: int, size: int) -> Any:
    """The computation with its first `count` inputs over a batch of `size`."""
    rest = len(computation.inputs) - count
    return batched_graph(computation, (0,) * count + (None,) * rest, size)


def map(
    operands: Sequence[Any],
    computation: Graph | Callable[..., Any],
    dimensions: Sequence[int] | None = None,
    static_operands: Sequence[Any] = (),
) -> Any:
    """A computation of scalars applied to the elements at each position.

    Args:
        operands: arrays of equal dimensions.
        computation: a Graph, or a function, from one scalar of each operand, and the static
            operands, to one scalar.
        dimensions: all dimensions of the operands in order; default: just these.
        static_operands: values of any shape, which each call gets whole.

    Returns:
        An array of the operands' dimensions and the element type that the computation gives.

    Raises:
        ShapeError, AttributeValueError: see Map.
        TransformError: the function reads traced values of the enclosing function.
    """
    operation = Map.instance
    operands = operand_list(operands, operation.builder_name, "operands")
    static_operands = operand_list(static_operands, operation.builder_name, "static_operands")
    shapes = [shape_of(each) for each in operands]
    scalars = [Shape(each.element_type) if isinstance(each, Shape) else each for each in shapes]
    inputs = [*scalars, *[shape_of(each) for each in static_operands]]
    if dimensions is None:
        dimensions = range(shapes[0].rank if shapes and isinstance(shapes[0], Shape) else 0)
    return bind(
        operation,
        *operands,
        *static_operands,
        computation=computation_of(computation, inputs, operation.builder_name),
        dimensions=listed(dimensions),
        static_count=len(static_operands),
    )
