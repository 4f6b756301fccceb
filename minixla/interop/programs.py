"""Operations of StableHLO that run programs of their own: folds, loops, branches, sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir.dialects import stablehlo

from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape
from minixla.interop.operations import Translation, pairs
from minixla.interop.step import Step
from minixla_ops.index_numbers import ScatterDimensionNumbers

__all__ = ["PROGRAMS"]


def _apply(step: Step, name: str, operands: Sequence[Value], **attributes: Any) -> Sequence[Value]:
    return step.builder.apply(REGISTRY[name], operands, attributes)


def _reduce(step: Step) -> Sequence[Value]:
    dimensions = step.integers("dimensions")
    computation = step.region(0)
    return _apply(
        step, "Reduce", step.operands, computation=computation, dimensions_to_reduce=dimensions
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
    given = {"computation": step.region(0), **_window(step, rank), **dilations}
    return _apply(step, "ReduceWindow", step.operands, **given)


def _select_and_scatter(step: Step) -> Sequence[Value]:
    given = {"select": step.region(0), "scatter": step.region(1), **_window(step, _rank(step))}
    return _apply(step, "SelectAndScatter", step.operands, **given)


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
    return _apply(
        step,
        "Scatter",
        step.operands,
        update_computation=step.region(0),
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
    return _apply(step, "Conditional", [step.operands[0], *outer], computations=branches)


#: By StableHLO's name.
PROGRAMS: dict[str, Translation] = {
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
