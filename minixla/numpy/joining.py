"""Functions that join arrays, split them, and repeat their elements."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program, weak_type_of
from minixla.numpy import operands
from minixla.numpy.element_functions import placeable
from minixla.numpy.operands import along, axis_of, keep_weak, lifted, operand_shape, resized
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike


@documented(PARAMETERS)
def concatenate(
    arrays: Array | np.ndarray | Sequence[ArrayLike],
    axis: int | None = 0,
    dtype: DTypeLike | None = None,
) -> Array:
    """Join arrays along an axis; None joins their elements in row-major order.

    Args:
        arrays: a sequence of arrays with equal sizes except along the axis.
        axis: the axis.
        dtype: the element type of the result; default: the common one.

    Returns:
        An array, longer along the axis; a vector if `axis` is None.

    Example:
        >>> np.concatenate([np.array([1, 2]), np.array([3.5])])
        Array([1. , 2. , 3.5], dtype=float32)
    """
    return _joined(*operands.members(arrays, "concatenate"), axis=axis, dtype=dtype)


@one_program()
def _joined(*members: Any, axis: int | None, dtype: Any) -> Any:
    if axis is None:
        members, axis = tuple([mnp.ravel(member) for member in members]), 0
    shapes = [operand_shape(member, "concatenate") for member in members]
    if any(shape.rank != shapes[0].rank or not shape.rank for shape in shapes):
        problem = "the arrays have different ranks, or are scalars"
        details = [f"array {i}: {shape}" for i, shape in enumerate(shapes)]
        advice = "They must have equally many dimensions, at least one; stack makes a new axis."
        raise operands.shape_error("concatenate", problem, advice, *details)
    place = axis_of(axis, shapes[0].rank, "concatenate")
    converted = [lifted(member) for member in operands.convert_all("concatenate", members, dtype)]
    result = converted[0] if len(converted) == 1 else ops.concat_in_dim(converted, place)
    return operands.marked(result, dtype is None and all(map(weak_type_of, members)))


@documented(PARAMETERS)
def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Array:
    """Join arrays along an axis; see `concatenate`.

    Args:
        arrays: a sequence of arrays, or an array of them along its first axis.
        axis: the axis; None joins their elements in row-major order.

    Returns:
        An array, longer along the axis; a vector if `axis` is None.

    Example:
        >>> np.concat([np.ones((1, 2)), np.zeros((1, 2))])
        Array([[1., 1.],
               [0., 0.]], dtype=float32)
    """
    return concatenate(arrays, axis)


@documented(PARAMETERS)
def stack(
    arrays: Array | np.ndarray | Sequence[ArrayLike],
    axis: int = 0,
    out: None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Join arrays of one shape along a new axis.

    Args:
        arrays: a sequence of arrays, or an array of them along its first axis.
        axis: the position of the new axis in the result.
        dtype: the element type of the result; default: the common one.

    Example:
        >>> np.stack([np.array([1, 2]), np.array([3, 4])], axis=1)
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    operands.refuse_out("stack", out)
    return _stacked(*operands.members(arrays, "stack"), axis=axis, dtype=dtype)


@one_program()
def _stacked(*members: Any, axis: int, dtype: Any) -> Any:
    shapes = [operand_shape(member, "stack") for member in members]
    if any(shape.dimensions != shapes[0].dimensions for shape in shapes):
        problem, advice = "the arrays must have equal shapes", "Broadcast or reshape them first."
        details = [f"array {i}: {shape}" for i, shape in enumerate(shapes)]
        raise operands.shape_error("stack", problem, advice, *details)
    place = axis_of(axis, shapes[0].rank + 1, "stack")
    return concatenate([mnp.expand_dims(member, place) for member in members], place, dtype)


@documented(PARAMETERS)
@one_program("x")
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Split an array along an axis, and remove the axis.

    Args:
        axis: the axis.

    Returns:
        A tuple of arrays of one dimension less.

    Example:
        >>> np.unstack(np.array([[1, 2], [3, 4]]))
        (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    sizes = operand_shape(x, "unstack").dimensions
    place = axis_of(axis, len(sizes), "unstack")
    x, rest = lifted(x), resized(sizes, place)
    cuts = [ops.slice_in_dim(x, i, i + 1, place) for i in range(sizes[place])]
    return tuple([keep_weak(ops.reshape(cut, rest), x) for cut in cuts])


_JOINED = """
Args:
    tup: a sequence of arrays, or an array of them along its first axis.
    dtype: the element type of the result; default: the common one.

Returns:
    An array.

Raises:
    ShapeError: the other sizes differ.
    AttributeValueError: the sequence of arrays is empty.
"""


def _stack_along(name: str, axis: int, least: Any, tup: Any, dtype: Any) -> Array:
    members = [least(member) for member in operands.members(tup, name)]
    return concatenate(members, min(axis, members[0].ndim - 1), dtype)


@documented(_JOINED)
def vstack(tup: Array | np.ndarray | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the first axis; vectors are rows.

    Example:
        >>> np.vstack([np.array([1, 2]), np.array([3, 4])])
        Array([[1, 2],
               [3, 4]], dtype=int32)
    """
    return _stack_along("vstack", 0, mnp.atleast_2d, tup, dtype)


@documented(_JOINED)
def hstack(tup: Array | np.ndarray | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the second axis, or vectors along their axis.

    Example:
        >>> np.hstack([np.array([1, 2]), np.array([3, 4])])
        Array([1, 2, 3, 4], dtype=int32)
    """
    return _stack_along("hstack", 1, mnp.atleast_1d, tup, dtype)


@documented(_JOINED)
def dstack(tup: Array | np.ndarray | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the third axis.

    Example:
        >>> np.dstack([np.array([1, 2]), np.array([3, 4])])
        Array([[[1, 3],
                [2, 4]]], dtype=int32)
    """
    return _stack_along("dstack", 2, mnp.atleast_3d, tup, dtype)


@documented(_JOINED)
def column_stack(tup: Array | np.ndarray | Sequence[ArrayLike]) -> Array:
    """Join arrays along the second axis; vectors are columns.

    Example:
        >>> np.column_stack([np.array([1, 2]), np.array([3, 4])])
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    columns = [
        member if operand_shape(member, "column_stack").rank > 1 else mnp.reshape(member, (-1, 1))
        for member in operands.members(tup, "column_stack")
    ]
    return concatenate(columns, 1)


_SPLIT = """
Args:
    indices_or_sections: the number of sections, or the indices of their starts in ascending order.
    axis: the axis.

Returns:
    A list of arrays, the sections.

Raises:
    AttributeValueError: the number of sections does not divide the size, or an axis is out of
        range.
"""


def _split(subject: str, ary: Any, indices_or_sections: Any, axis: int, equal: bool) -> list[Any]:
    sizes = operand_shape(ary, subject).dimensions
    place = axis_of(axis, len(sizes), subject)
    ary, size = lifted(ary), sizes[place]
    if isinstance(indices_or_sections, (list, tuple)) or np.ndim(indices_or_sections):
        inner = [
            operands.static_int(section, subject, "an index") for section in indices_or_sections
        ]
        bounds = [0, *(slice(bound).indices(size)[1] for bound in inner), size]
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


@documented(PARAMETERS, _SPLIT)
def split(
    ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int], axis: int = 0
) -> list[Array]:
    """Split an array along an axis: into equal sections, or before each of the given indices.

    Example:
        >>> np.split(np.arange(6), 3)
        [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32), Array([4, 5], dtype=int32)]
        >>> np.split(np.arange(6), [1, 4])
        [Array([0], dtype=int32), Array([1, 2, 3], dtype=int32), Array([4, 5], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, equal=True)


@documented(PARAMETERS, _SPLIT)
@one_program("ary")
def array_split(
    ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int], axis: int = 0
) -> list[Array]:
    """Split like `split`; if the sections cannot be equal, the first ones are longer by one.

    Example:
        >>> np.array_split(np.arange(5), 3)
        [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32), Array([4], dtype=int32)]
    """
    return _split("array_split", ary, indices_or_sections, axis, equal=False)


@documented(PARAMETERS, _SPLIT)
def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[Array]:
    """Split an array along axis 0.

    Example:
        >>> np.vsplit(np.arange(4).reshape(2, 2), 2)
        [Array([[0, 1]], dtype=int32), Array([[2, 3]], dtype=int32)]
    """
    return _split("vsplit", ary, indices_or_sections, 0, equal=True)


@documented(PARAMETERS, _SPLIT)
def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[Array]:
    """Split an array along axis 2.

    Example:
        >>> [each.shape for each in np.dsplit(np.zeros((2, 2, 4)), 2)]
        [(2, 2, 2), (2, 2, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2, equal=True)


@documented(PARAMETERS, _SPLIT)
def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[Array]:
    """Split an array along axis 1, or a vector along its axis.

    Example:
        >>> np.hsplit(np.arange(4), 2)
        [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    axis = min(1, operand_shape(ary, "hsplit").rank - 1)
    return _split("hsplit", ary, indices_or_sections, axis, equal=True)


@documented(PARAMETERS)
@placeable("out_sharding")
def repeat(
    a: ArrayLike,
    repeats: ArrayLike | Sequence[int],
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Repeat each element along an axis.

    Args:
        repeats: a count, or one for each index of the axis.
        axis: the axis; None for the elements in row-major order.
        total_repeat_length: the size of the result along the axis, required if `repeats` is traced.
            More elements are cut off; the last element is repeated if there are fewer.

    Returns:
        An array like `a` except for the size of the axis; a vector if `axis` is None.

    Raises:
        ConcretizationError: `repeats` is traced and `total_repeat_length` is missing.
        ShapeError: `repeats` does not have one count, or one for each index.

    Example:
        >>> np.repeat(np.array([1, 2]), np.array([2, 1]))
        Array([1, 1, 2], dtype=int32)
    """
    a, sizes, place = along(a, axis, "repeat")
    size = sizes[place]
    if total_repeat_length is not None:
        ends = mnp.cumsum(mnp.broadcast_to(mnp.asarray(repeats), (size,)))
        at = ops.iota(operand_shape(ends, "repeat").with_dimensions((total_repeat_length,)), 0)
        last = max(size - 1, 0)
        return mnp.take(a, mnp.minimum(mnp.searchsorted(ends, at, "right"), last), place)
    advice = "Pass total_repeat_length, the size of the result along the axis."
    counts = operands.concrete(repeats, "repeat", advice)
    if counts.shape not in ((), (1,), (size,)):
        problem, advice = (
            "repeats must have one count, or one for each index",
            "Pass an integer or a vector.",
        )
        details = f"{counts.size} counts, the axis has size {size}"
        raise operands.shape_error("repeat", problem, advice, details)
    if counts.dtype.kind not in "biu" or (counts < 0).any():
        problem, advice = "a count is negative or not an integer", "Pass integers >= 0."
        raise operands.type_error("repeat", problem, advice, repeats=repeats)
    if counts.size != 1:
        return mnp.take(a, np.repeat(np.arange(size, dtype=np.int32), counts), place)
    count = int(counts.item())
    kept = [at for at in range(len(sizes) + 1) if at != place + 1]
    repeated = ops.broadcast_in_dim(lifted(a), resized(sizes, place, size, count), kept)
    return keep_weak(mnp.reshape(repeated, resized(sizes, place, size * count)), a)


_KNOWN = "Pass indices that are known when the function is traced."


def _changed(change: Callable[..., np.ndarray], size: int, index: Any, *values: Any) -> np.ndarray:
    """Apply np.delete or np.insert at an index to the numbers below `size`."""
    try:
        return change(np.arange(size, dtype=np.int32), index, *values)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        is_beyond = isinstance(error, IndexError)
        refusal = operands.index_error if is_beyond else operands.type_error
        details = f"the axis has size {size}", str(error)
        problem = "an index does not fit the axis"
        advice = "Indices are integers; negative ones count from the end."
        raise refusal(change.__name__, problem, advice, *details, obj=index) from None


@documented(PARAMETERS)
@one_program("arr", "values")
def insert(
    arr: ArrayLike,
    obj: ArrayLike | Sequence[int] | slice,
    values: ArrayLike,
    axis: int | None = None,
) -> Array:
    """Insert values before some indices of an axis.

    Args:
        obj: an index, a slice, or an array of indices; known while tracing.
        values: an array that broadcasts to the inserted elements.
        axis: the axis; None for the elements in row-major order.

    Returns:
        An array like `arr` except for the size of the axis; a vector if `axis` is None.

    Raises:
        IndexError: an index is out of bounds.

    Example:
        >>> np.insert(np.array([1, 2, 3]), 1, 9)
        Array([1, 9, 2, 3], dtype=int32)
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
