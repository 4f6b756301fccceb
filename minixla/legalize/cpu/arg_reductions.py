"""Reductions that return the index of a min or max: argmin and argmax."""

from collections.abc import Callable
from functools import cache
from typing import Any

import minixla_ops as ops
from minixla.core.graph import Graph, Value
from minixla.core.shapes import Shape
from minixla.legalize.registry import Operands, Target, legalize
from minixla_ops.folds import arg_reducers
from minixla_ops.folds.fold import Reduce
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.computations import computation_of

#: Longer rows than this take two passes: `python -m benchmarks arrays`, argmax over rows.
_LONGEST_UNROLLED_ROW = 31
#: The maximum number of instructions behind an operand that are searched for random bits.
_MOST_SEARCHED = 64


def _in_order(is_before: Callable[..., Any]) -> Callable[..., Any]:
    """Return the reducer of `jax.numpy.argmax`, which relies on the order of the elements."""

    def reducer(x: Any, index: Any, y: Any, other: Any) -> list[Any]:
        is_first = ops.or_(is_before(x, y), ops.ne(x, x))
        is_index = ops.or_(is_first, ops.and_(ops.eq(x, y), ops.lt(index, other)))
        return [ops.select(is_first, x, y), ops.select(is_index, index, other)]

    return reducer


#: The reducers of `minixla.numpy` and of JAX, by the computation of the elements.
_REDUCERS = {
    ops.max: (arg_reducers.first_greatest, _in_order(ops.gt)),
    ops.min: (arg_reducers.first_least, _in_order(ops.lt)),
}


@cache
def _computations(extreme: Callable[..., Any], kinds: tuple[Shape, ...]) -> list[Graph]:
    return [computation_of(reducer, kinds, "") for reducer in _REDUCERS[extreme]]


def _extreme(operation: Any, x: Shape, indices: Shape) -> tuple[Any, list[Graph]]:
    """Return `ops.max` or `ops.min`, and the reducers, for argmax or argmin; else None."""
    kinds = (Shape(x.element_type), Shape(indices.element_type)) * 2
    for extreme in _REDUCERS:
        computations = _computations(extreme, kinds)
        if operation.computation in computations:
            return extreme, computations
    return None, []


def _row(operation: Any, operands: Operands) -> int:
    """Return the number of elements that argmin or argmax reduces; 0 for other operations."""
    if len(operands) != 4 or len(operation.dimensions_to_reduce) != 1:
        return 0
    (dimension,), (x, indices, _, start) = operation.dimensions_to_reduce, operands
    iota = indices.instruction
    is_iota = iota is not None and iota.op.name == "Iota" and iota.op.iota_dimension == dimension
    if not is_iota or start.literal is None or start.literal.scalar != 0 or x.shape.is_dynamic:
        return 0
    is_known = _extreme(operation, x.shape, indices.shape)[0] is not None
    return x.shape.dimensions[dimension] if is_known else 0


def _is_long_or_random(operation: Any, operands: Operands, target: Target) -> bool:
    row = _row(operation, operands)
    return row > _LONGEST_UNROLLED_ROW or (row > 0 and _is_random(operands[0]))


def _is_short(operation: Any, operands: Operands, target: Target) -> bool:
    row = _row(operation, operands)
    if not 0 < row <= _LONGEST_UNROLLED_ROW:
        return False
    _, (ours, _) = _extreme(operation, operands[0].shape, operands[1].shape)
    return operation.computation == ours


def _is_random(operand: Value) -> bool:
    """Test whether a value is computed from random bits."""
    pending, seen = [operand], set[int]()
    while pending and len(seen) < _MOST_SEARCHED:
        step = pending.pop().instruction
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        if step.op.name == "Threefry2x32" or any(map(_draws, step.op.computations)):
            return True
        pending += step.operands
    return False


def _draws(graph: Graph) -> bool:
    return any(step.op.name == "Threefry2x32" for step in graph.instructions)


@legalize(Reduce, "cpu", when=_is_long_or_random)
def index_in_two_passes(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU reduces pairs one by one, and computes random operands within that loop.

    Two vectorized reductions take 0.2 to 0.4 of the time, for random operands 0.15 to 0.25.
    """
    x, indices, *_ = operands
    (dimension,) = operation.dimensions_to_reduce
    extreme, _ = _extreme(operation, array_shape(x), array_shape(indices))
    return tuple(arg_reducers.in_two_passes(x, indices, extreme, dimension))


@legalize(Reduce, "cpu", when=_is_short)
def index_in_order(operation: Any, operands: Operands, target: Target) -> Any:
    """XLA:CPU unrolls short rows, and folds their elements in order.

    So the reducer need not compare the indices of two NaN. For rows of 20 computed elements it
    takes 0.12 of the time.
    """
    _, (_, in_order) = _extreme(operation, *map(array_shape, operands[:2]))
    return operation.replace(computation=in_order)(*operands)
