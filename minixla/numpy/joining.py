"""Functions that join arrays, split them, and repeat their elements."""

import operator
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.tracing import one_program, weak_type_of
from minixla.numpy import operands
from minixla.numpy.element_functions import named, placeable
from minixla.numpy.operands import along, axis_of, keep_weak, lifted, listed, operand_shape, resized


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Arrays joined along an axis; None joins their elements in row-major order.

    Args:
        arrays: a sequence of arrays, of equal sizes but for the axis.
        axis: the axis.
        dtype: the result's; default: the type that they have in common.

    Raises:
        ShapeError: an array is a scalar, or sizes differ.
    """
    return _joined(*operands.members(arrays, "concatenate"), axis=axis, dtype=dtype)


@one_program()
def _joined(*members: Any, axis: int | None, dtype: Any) -> Any:
    if axis is None:
        members, axis = tuple([mnp.ravel(each) for each in members]), 0
    shapes = [operand_shape(each, "concatenate") for each in members]
    if any(shape.rank != shapes[0].rank or not shape.rank for shape in shapes):
        problem = "the arrays have different ranks, or are scalars"
        given = [f"array {i}: {shape}" for i, shape in enumerate(shapes)]
        advice = "They must have equally many dimensions, at least one; stack makes a new axis."
        raise operands.shape_error("concatenate", problem, advice, *given)
    place = axis_of(axis, shapes[0].rank, "concatenate")
    converted = [lifted(each) for each in operands.convert_all("concatenate", members, dtype)]
    result = converted[0] if len(converted) == 1 else ops.concat_in_dim(converted, place)
    return operands.marked(result, dtype is None and all(map(weak_type_of, members)))


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    """Arrays joined along an axis; see `concatenate`."""
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Arrays of one shape joined along a new axis.

    Raises:
        ShapeError: their shapes differ.
    """
    operands.refuse_out("stack", out)
    return _stacked(*operands.members(arrays, "stack"), axis=axis, dtype=dtype)


@one_program()
def _stacked(*members: Any, axis: int, dtype: Any) -> Any:
    shapes = [operand_shape(each, "stack") for each in members]
    if any(shape.dimensions != shapes[0].dimensions for shape in shapes):
        problem, advice = "the arrays have different shapes", "They must have one shape."
        given = [f"array {i}: {shape}" for i, shape in enumerate(shapes)]
        raise operands.shape_error("stack", problem, advice, *given)
    place = axis_of(axis, shapes[0].rank + 1, "stack")
    return concatenate([mnp.expand_dims(each, place) for each in members], place, dtype)


@one_program("x")
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The members of an array along an axis, which they no longer have."""
    sizes = operand_shape(x, "unstack").dimensions
    place = axis_of(axis, len(sizes), "unstack")
    x, rest = lifted(x), resized(sizes, place)
    cuts = [ops.slice_in_dim(x, i, i + 1, place) for i in range(sizes[place])]
    return tuple([keep_weak(ops.reshape(cut, rest), x) for cut in cuts])


def _stack_along(name: str, axis: int, text: str) -> Any:
    def public(tup: Any, dtype: Any = None) -> Any:
        least = (mnp.atleast_2d, mnp.atleast_1d, mnp.atleast_3d)[axis]
        members = [least(each) for each in operands.members(tup, name)]
        return concatenate(members, min(axis, members[0].ndim - 1), dtype)

    return named(public, name, f"Arrays joined along the {text}.")


vstack = _stack_along("vstack", 0, "first axis; vectors are rows")
hstack = _stack_along("hstack", 1, "second axis, vectors along their only one")
dstack = _stack_along("dstack", 2, "third axis")


def column_stack(tup: Any) -> Any:
    """Arrays joined along the second axis; vectors are columns."""
    columns = [
        each if operand_shape(each, "column_stack").rank > 1 else mnp.reshape(each, (-1, 1))
        for each in operands.members(tup, "column_stack")
    ]
    return concatenate(columns, 1)


def _split(subject: str, ary: Any, indices_or_sections: Any, axis: int, equal: bool) -> list[Any]:
    sizes = operand_shape(ary, subject).dimensions
    place = axis_of(axis, len(sizes), subject)
    ary, size = lifted(ary), sizes[place]
    if isinstance(indices_or_sections, (list, tuple)) or np.ndim(indices_or_sections):
        inner = [operands.static_int(each, subject, "an index") for each in indices_or_sections]
        bounds = [0, *(slice(each).indices(size)[1] for each in inner), size]
    else:
        sections = operands.static_int(indices_or_sections, subject, "the number of sections")
        part, longer = divmod(size, sections) if sections > 0 else (0, 1)
        if sections < 1 or (equal and longer):
            problem = f"{size} indices cannot be split into {sections} equal sections"
            advice = "The number of sections must divide the size; array_split allows a remainder."
            raise operands.value_error(subject, problem, advice)
        bounds = [i * part + min(i, longer) for i in range(sections + 1)]
    pairs = [(start, max(start, limit)) for start, limit in pairwise(bounds)]
    return _cut(ary, tuple(pairs), place)


@one_program("ary")
def _cut(ary: Any, pairs: tuple[tuple[int, int], ...], place: int) -> list[Any]:
    return [keep_weak(ops.slice_in_dim(ary, *pair, place), ary) for pair in pairs]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """An array cut along an axis: into equal sections, or before each of the given indices."""
    return _split("split", ary, indices_or_sections, axis, equal=True)


@one_program("ary")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Like `split`; where sections cannot be equal, the first ones are longer by one."""
    return _split("array_split", ary, indices_or_sections, axis, equal=False)


def _split_along(name: str, axis: int, text: str = "") -> Any:
    def public(ary: Any, indices_or_sections: Any) -> list[Any]:
        is_vector = axis == 1 and operand_shape(ary, name).rank == 1
        return _split(name, ary, indices_or_sections, 0 if is_vector else axis, equal=True)

    return named(public, name, f"`split` along axis {axis}{text}.")


vsplit, dsplit = _split_along("vsplit", 0), _split_along("dsplit", 2)
hsplit = _split_along("hsplit", 1, ", of vectors along their only one")


@one_program("A")
def tile(A: Any, reps: Any) -> Any:
    """`A` repeated as a whole, `reps` times along each axis.

    Args:
        A: an array.
        reps: a count, or one for each axis; the shorter side gets ones in front.
    """
    counts = [operands.static_int(each, "tile", "reps") for each in listed(reps)]
    own = operand_shape(A, "tile").dimensions
    rank = max(len(counts), len(own))
    counts = [1] * (rank - len(counts)) + counts
    sizes = (1,) * (rank - len(own)) + own
    # Each axis becomes (count, size), of which the first is new.
    A, pairs = mnp.reshape(A, sizes), zip(counts, sizes, strict=True)
    repeated = ops.broadcast_in_dim(A, list(chain(*pairs)), range(1, 2 * rank, 2))
    return keep_weak(mnp.reshape(repeated, list(map(operator.mul, counts, sizes))), A)


@placeable("out_sharding")
def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Any:
    """Each element of `a` repeated along an axis; default: of the elements in row-major order.

    Args:
        a: an array.
        repeats: a count, or one for each index of the axis.
        axis: the axis.
        total_repeat_length: the result's size along the axis, which must be given where `repeats`
            is a traced value; what is beyond is cut off, what is missing repeats the last element.

    Raises:
        ConcretizationError: `repeats` is traced and `total_repeat_length` is not given.
        ShapeError: there is not one count for each index.
    """
    a, sizes, place = along(a, axis, "repeat")
    size = sizes[place]
    if total_repeat_length is not None:
        ends = mnp.cumsum(mnp.broadcast_to(repeats, (size,)))
        at = ops.iota(operand_shape(ends, "repeat").with_dimensions((total_repeat_length,)), 0)
        last = max(size - 1, 0)
        return mnp.take(a, mnp.minimum(mnp.searchsorted(ends, at, "right"), last), place)
    advice = "Give total_repeat_length, the size of the result along the axis."
    counts = operands.concrete(repeats, "repeat", advice)
    if counts.shape not in ((), (1,), (size,)):
        problem, advice = "there is not one count for each index", "Give one, or one for each."
        given = f"{counts.size} counts, the axis has size {size}"
        raise operands.shape_error("repeat", problem, advice, given)
    if counts.dtype.kind not in "biu" or (counts < 0).any():
        problem, advice = "a count is negative or no integer", "Give integers >= 0."
        raise operands.type_error("repeat", problem, advice, repeats=repeats)
    if counts.size != 1:
        return mnp.take(a, np.repeat(np.arange(size, dtype=np.int32), counts), place)
    count = int(counts.item())
    kept = [at for at in range(len(sizes) + 1) if at != place + 1]
    repeated = ops.broadcast_in_dim(lifted(a), resized(sizes, place, size, count), kept)
    return keep_weak(mnp.reshape(repeated, resized(sizes, place, size * count)), a)


_KNOWN = "Give indices that are known when the function is traced."


def _changed(change: Callable[..., np.ndarray], size: int, index: Any, *values: Any) -> np.ndarray:
    """The numbers below `size` as np.delete or np.insert changes them at an index."""
    try:
        return change(np.arange(size, dtype=np.int32), index, *values)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        is_beyond = isinstance(error, IndexError)
        refusal = operands.index_error if is_beyond else operands.type_error
        given = f"the axis has size {size}", str(error)
        problem = "an index does not fit the axis"
        advice = "Indices are integers; negative ones count from the end."
        raise refusal(change.__name__, problem, advice, *given, obj=index) from None


@one_program("arr", "values")
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """`arr` with values put before some indices of an axis.

    Args:
        arr: an array.
        obj: an index, a slice, or an array of indices; known when traced.
        values: an array that broadcasts to what is put in.
        axis: the axis; default: of the elements in row-major order.

    Raises:
        IndexError: an index is out of bounds.
    """
    arr, sizes, place = along(arr, axis, "insert")
    size = sizes[place]
    obj = np.arange(*obj.indices(size)) if isinstance(obj, slice) else obj
    index = operands.concrete(obj, "insert", _KNOWN)
    values = mnp.astype(values, operands.kind_of(arr))
    values = mnp.expand_dims(values, tuple(range(len(sizes) - values.ndim)))
    if index.ndim == 0:
        values = mnp.moveaxis(values, 0, place)
    count = values.shape[place] if index.size == 1 else index.size
    values = mnp.broadcast_to(values, resized(sizes, place, count))
    new = size + np.arange(count, dtype=np.int32)
    before = index.item() if index.size == 1 else index
    order = _changed(np.insert, size, before, new)
    return mnp.take(concatenate([arr, values], place), order, place)
