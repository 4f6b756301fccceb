"""Operations of StableHLO that run programs of their own: folds, loops, branches, sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir.dialects import stablehlo

from minixla.core.graph import Graph, Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import AnyShape, Shape
from minixla.interop.building import Builder
from minixla.interop.operations import Translation, pairs
from minixla.interop.step import Step
from minixla.interop.values import plain
from minixla_ops.indexing.index_numbers import ScatterDimensionNumbers


def _apply(step: Step, name: str, operands: Sequence[Value], **attributes: Any) -> Sequence[Value]:
    return step.builder.apply(REGISTRY[name], operands, attributes)


def _reduce(step: Step) -> Sequence[Value]:
    dimensions = step.integers("dimensions")
    computation = step.region(0)
    operands = step.promoted(step.operands, computation.input_shapes)
    return _apply(
        step, "Reduce", operands, computation=computation, dimensions_to_reduce=dimensions
    )


def _window(step: Step, rank: int) -> dict[str, Any]:
    ones = (1,) * rank
    return {
        "window_dimensions": step.integers("window_dimensions", ones),
        "window_strides": step.integers("window_strides", ones),
        "padding": pairs(step, "padding", rank),
    }


def _rank(step: Step) -> int:
    shape = step.operands[0].shape
    assert isinstance(shape, Shape), "MLIR's verifier checks that it is an array"
    return shape.rank


def _reduce_window(step: Step) -> Sequence[Value]:
    rank = _rank(step)
    dilations = {
        name: step.integers(name, (1,) * rank) for name in ("base_dilations", "window_dilations")
    }
    computation = step.region(0)
    operands = step.promoted(step.operands, computation.input_shapes)
    given = {"computation": computation, **_window(step, rank), **dilations}
    return _apply(step, "ReduceWindow", operands, **given)


def _select_and_scatter(step: Step) -> Sequence[Value]:
    select, scatter = step.region(0), step.region(1)
    wide = scatter.input_shapes[0]
    operands = step.promoted(step.operands, [wide] * 3)
    given = {"select": _of_wider(select, wide), "scatter": scatter, **_window(step, _rank(step))}
    return _apply(step, "SelectAndScatter", operands, **given)


def _of_wider(computation: Graph, wide: AnyShape) -> Graph:
    """The computation on values of its own types that were converted to a wider one."""
    if all(shape is wide for shape in computation.input_shapes):
        return computation
    builder = Builder()
    kinds = [shape.element_type for shape in computation.input_shapes if isinstance(shape, Shape)]
    builder.inputs = [Value(wide, None, index) for index in range(len(kinds))]
    given = [
        builder.bind("ConvertElementType", value, new_element_type=kind)
        for value, kind in zip(builder.inputs, kinds, strict=True)
    ]
    return builder.graph(builder.inline(computation, given), computation.name)


def scatter_numbers(step: Step) -> ScatterDimensionNumbers:
    """The dimension numbers of a scatter."""
    numbers = stablehlo.ScatterDimensionNumbers(step.raw("scatter_dimension_numbers"))
    return ScatterDimensionNumbers(
        tuple(numbers.update_window_dims),
        tuple(numbers.inserted_window_dims),
        tuple(numbers.scattered_dims_to_operand_dims),
        numbers.index_vector_dim,
        tuple(numbers.input_batching_dims),
        tuple(numbers.scatter_indices_batching_dims),
    )


def _scatter(step: Step) -> Sequence[Value]:
    computation = step.region(0)
    kinds, count = computation.input_shapes, len(computation.input_shapes) // 2
    indices = step.operands[count].shape
    return _apply(
        step,
        "Scatter",
        step.promoted(step.operands, [*kinds[:count], indices, *kinds[count:]]),
        update_computation=computation,
        dimension_numbers=scatter_numbers(step),
        indices_are_sorted=bool(step.get("indices_are_sorted", False)),
        unique_indices=bool(step.get("unique_indices", False)),
    )


def _sort(step: Step) -> Sequence[Value]:
    rank = _rank(step)
    dimension = step.get("dimension", -1)
    return _apply(
        step,
        "Sort",
        step.operands,
        comparator=step.region(0),
        dimension=dimension + rank if dimension < 0 else dimension,
        is_stable=bool(step.get("is_stable", False)),
    )


def _map(step: Step) -> Sequence[Value]:
    ((body,), outer) = step.regions()
    return _apply(
        step,
        "Map",
        [*step.operands, *outer],
        computation=body.graph(body.outputs),
        dimensions=step.integers("dimensions"),
        static_count=len(outer),
    )


def _while(step: Step) -> Sequence[Value]:
    (condition, body), outer = step.regions()
    # What the regions read from outside goes round unchanged.
    results = _apply(
        step,
        "While",
        [*step.operands, *outer],
        condition=condition.graph(condition.outputs),
        body=body.graph([*body.outputs, *body.captured]),
    )
    return results[: len(step.operands)]


def _conditional(step: Step) -> Sequence[Value]:
    bodies, outer = step.regions()
    branches = tuple([body.graph(body.outputs) for body in bodies])
    return _apply(step, "Conditional", [step.operands[0], *outer], branches=branches)


def _scan(step: Step) -> Sequence[Value]:
    sizes = plain(step.raw("operandSegmentSizes"))
    count, dimension = sizes[0], step.get("dimension")
    first = step.operands[0].shape if count else None
    if not isinstance(first, Shape):
        step.reject("it has no inputs", "Its inputs say how many steps there are.")
    return _apply(
        step,
        "Scan",
        step.operands,
        to_apply=step.region(0),
        carries=len(step.operands) - count,
        length=first.dimensions[dimension],
        scan_dimension=dimension,
        is_reverse=bool(step.get("is_reverse", False)),
    )


#: By StableHLO's name.
PROGRAMS: dict[str, Translation] = {
    "chlo.scan": _scan,
    "stablehlo.case": _conditional,
    "stablehlo.if": _conditional,
    "stablehlo.map": _map,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.scatter": _scatter,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.sort": _sort,
    "stablehlo.while": _while,
}
