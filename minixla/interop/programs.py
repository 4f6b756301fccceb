"""Operations of StableHLO that run programs of their own: folds, loops, branches, sorts."""

from __future__ import annotations

from collections.abc import Sequence

from minixla.core.graph import Graph, Value
from minixla.core.shapes import AnyShape, Shape
from minixla.interop.building import Builder
from minixla.interop.operations import Translation
from minixla.interop.step import Step


def folding(name: str) -> Translation:
    """A fold by one computation, which may be written for wider types than the operands'."""

    def translation(step: Step) -> Sequence[Value]:
        computation = step.region(0)
        operands = step.promoted(step.operands, computation.input_shapes)
        return step.apply(name, operands, computation=computation)

    return translation


def _select_and_scatter(step: Step) -> Sequence[Value]:
    select, scatter = step.region(0), step.region(1)
    operands = step.promoted(step.operands, scatter.input_shapes)
    select = _of_wider(select, scatter.input_shapes[0])
    return step.apply("SelectAndScatter", operands, select=select, scatter=scatter)


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


def _scatter(step: Step) -> Sequence[Value]:
    computation = step.region(0)
    kinds, count = computation.input_shapes, len(computation.input_shapes) // 2
    shapes = [*kinds[:count], step.shapes[count], *kinds[count:]]
    operands = step.promoted(step.operands, shapes)
    return step.apply("Scatter", operands, update_computation=computation)


def _sort(step: Step) -> Sequence[Value]:
    dimension = step.get("dimension", -1)
    return step.apply("Sort", dimension=dimension + step.shapes[0].rank * (dimension < 0))


def _map(step: Step) -> Sequence[Value]:
    (body,), outer = step.regions()
    operands = [*step.operands, *outer]
    return step.apply("Map", operands, computation=body.graph(), static_count=len(outer))


def _while(step: Step) -> Sequence[Value]:
    (condition, body), outer = step.regions()
    # What the regions read from outside goes round unchanged.
    programs = {"condition": condition.graph(), "body": body.graph([*body.outputs, *body.captures])}
    return step.apply("While", [*step.operands, *outer], **programs)[: len(step.operands)]


def _conditional(step: Step) -> Sequence[Value]:
    bodies, outer = step.regions()
    branches = [body.graph() for body in bodies]
    return step.apply("Conditional", [step.operands[0], *outer], branches=branches)


def _scan(step: Step) -> Sequence[Value]:
    count, dimension = step.get("operandSegmentSizes")[0], step.get("dimension")
    first = step.operands[0].shape if count else None
    if not isinstance(first, Shape):
        step.reject("it has no inputs", "Its inputs say how many steps there are.")
    given = {"length": first.dimensions[dimension], "scan_dimension": dimension}
    return step.apply("Scan", carries=len(step.operands) - count, **given)


#: By StableHLO's name.
PROGRAMS: dict[str, Translation] = {
    "chlo.scan": _scan,
    "stablehlo.case": _conditional,
    "stablehlo.if": _conditional,
    "stablehlo.map": _map,
    "stablehlo.reduce": folding("Reduce"),
    "stablehlo.reduce_window": folding("ReduceWindow"),
    "stablehlo.scatter": _scatter,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.sort": _sort,
    "stablehlo.while": _while,
}
