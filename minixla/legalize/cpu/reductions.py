"""Reductions: windows computed with slices, and NaN in maxima and minima."""

import math
from collections.abc import Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.element_types import BF16, F16, F32
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.tracing import closed_graph, evaluate_graph
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.elementwise.families import FLOATS
from minixla_ops.folds.fold import Fold, Reduce, halves
from minixla_ops.folds.reduce_window import ReduceWindow
from minixla_ops.helpers.shorthand import array_shape, as_results, full_like
from minixla_ops.programs.computations import computation_of, monoid_of

#: Limits for windows computed with slices; each element of a window increases compile time.
_MOST_WINDOW_ELEMENTS, _LEAST_OPERAND_SIZE = 32, 4096


def _is_slow(operation: Any, operands: Operands, target: Target) -> bool:
    # A partitioner would transfer the elements that each slice reads beyond a device's part.
    is_small = math.prod(operation.window_dimensions) <= _MOST_WINDOW_ELEMENTS
    is_on_one = target.device_count == 1 and monoid_of(operation.computation) is not None
    return is_on_one and is_small and operands[0].shape.size >= _LEAST_OPERAND_SIZE


@legalize(ReduceWindow, "cpu", when=_is_slow)
def windows_by_slices(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU evaluates windows element by element; one slice for each element is faster."""
    return as_results(operation.folded(*halves(operands)))


#: XLA:CPU uses its library for reductions of at least this many elements.
_LEAST_SIZE = 4096
#: XLA:CPU converts shorter rows of f16 element by element.
_LEAST_ROW_OF_F16 = 64
_TYPES = [kind for kind in FLOATS if kind.bits >= 16]


def _drops_nan(operation: Any, operands: Operands, target: Target) -> bool:
    shape = operands[0].shape
    is_extreme = monoid_of(operation.computation) in ("max", "min")
    if not is_extreme or shape.is_dynamic or shape.size < _LEAST_SIZE:
        return False
    # XLA turns windows that do not overlap into a Reduce.
    return type(operation) is Reduce or not operation.window.overlaps


@legalize((Reduce, ReduceWindow), "cpu", element_types=_TYPES, when=_drops_nan)
def extremes_with_nan(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU drops NaN in max and min reductions of 4,096 elements or more.

    Along rows, pairs of the element and a NaN flag are reduced: XLA:CPU compiles these to loops
    that are faster than two reductions. Other dimensions use two reductions.
    """
    operand, initial = operands
    if type(operation) is Reduce and _is_along_rows(operation, array_shape(operand)):
        return _fold_pairs(operation, operand, initial, target)
    extreme = operation(operand, initial)
    if type(operation) is Reduce and array_shape(operand).element_type is not BF16:
        # The loops of bf16 are not faster on merged dimensions.
        is_nan = _any_nan_merged(operation, operand, initial, target)
    else:
        is_nan = _any_nan(operation, operand, initial)
    return ops.select(is_nan, full_like(extreme, math.nan), extreme)


def _any_of() -> Graph:
    return computation_of(ops.or_, [Shape("pred")] * 2, "")


def _any_nan(operation: Fold, operand: Any, initial: Any) -> Any:
    flags = ops.ne(operand, operand), ops.ne(initial, initial)
    return operation(*flags, computation=_any_of())


def _any_nan_merged(operation: Reduce, operand: Any, initial: Any, target: Target) -> Any:
    x, reduced = _merged(operation, operand, target)
    flags = ops.ne(x, x), ops.ne(initial, initial)
    has_nan = operation(*flags, computation=_any_of(), dimensions_to_reduce=reduced)
    return ops.reshape(has_nan, _kept_sizes(operation, array_shape(operand)))


def _is_along_rows(operation: Reduce, operand: Shape) -> bool:
    """Return whether XLA:CPU reduces pairs faster than first the elements and then the flags."""
    dimensions = operation.dimensions_to_reduce
    count = math.prod([operand.dimensions[at] for at in dimensions])
    is_short = operand.element_type is F16 and count < _LEAST_ROW_OF_F16
    return operand.rank - 1 in dimensions and not is_short


def _merged(operation: Reduce, operand: Any, target: Target) -> tuple[Any, Sequence[int]]:
    """Merge adjacent dimensions that are all reduced or all kept; return those to reduce.

    This makes the loops of XLA:CPU faster. With a partitioner it would move data.
    """
    if target.device_count > 1:
        return operand, operation.dimensions_to_reduce
    sizes: list[int] = []
    reduced: list[int] = []
    before = None
    for at, size in enumerate(array_shape(operand).dimensions):
        is_reduced = at in operation.dimensions_to_reduce
        if is_reduced == before:
            sizes[-1] *= size
            continue
        if is_reduced:
            reduced.append(len(sizes))
        sizes.append(size)
        before = is_reduced
    return ops.reshape(operand, sizes), reduced


def _fold_pairs(operation: Reduce, operand: Any, initial: Any, target: Target) -> Any:
    """Reduce elements and NaN flags in one pass, in f32 for shorter types."""
    shape = array_shape(operand)
    kind = shape.element_type
    wide = F32 if kind.bits < 32 else kind

    def joined(best: Any, has_nan: Any, other: Any, others_nan: Any) -> list[Any]:
        extreme = evaluate_graph(operation.computation, [best, other])
        return [*extreme, ops.or_(has_nan, others_nan)]

    pairs = closed_graph(joined, [Shape(wide), Shape("pred")] * 2, operation.builder_name)
    x, reduced = _merged(operation, ops.convert_element_type(operand, wide), target)
    start = ops.convert_element_type(initial, wide)
    fold_pairs = operation.replace(computation=pairs, dimensions_to_reduce=reduced)
    best, has_nan = fold_pairs(x, ops.ne(x, x), start, ops.ne(start, start))
    best = ops.convert_element_type(best, kind)
    best = ops.select(has_nan, full_like(best, math.nan), best)
    return ops.reshape(best, _kept_sizes(operation, shape))


def _kept_sizes(operation: Reduce, operand: Shape) -> list[int]:
    reduced = operation.dimensions_to_reduce
    return [size for at, size in enumerate(operand.dimensions) if at not in reduced]
