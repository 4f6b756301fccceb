"""Functions that rearrange the elements of one array; `joining` has those for several arrays."""

import math
from collections.abc import Sequence
from typing import Any

import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import placeable
from minixla.numpy.operands import axes_of, axis_of, keep_weak, lifted, listed, operand_shape
from minixla.numpy.shared_sections import PARAMETERS
from minixla.typing import Array, ArrayLike, DTypeLike, ShapeLike
from minixla_ops.elementwise import operators


@documented(PARAMETERS)
def ndim(a: ArrayLike) -> int:
    """Return the number of dimensions.

    Args:
        a: an array or a scalar.

    Returns:
        A Python integer.

    Example:
        >>> np.ndim(np.zeros((2, 3)))
        2
    """
    return operand_shape(a, "ndim").rank


@documented(PARAMETERS)
def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the dimension sizes.

    Args:
        a: an array or a scalar.

    Returns:
        A tuple of Python integers.

    Example:
        >>> np.shape(np.zeros((2, 3)))
        (2, 3)
    """
    return operand_shape(a, "shape").dimensions


@documented(PARAMETERS)
def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> int:
    """Return the number of elements, in total or along axes.

    Args:
        a: an array or a scalar.

    Returns:
        A Python integer.

    Example:
        >>> np.size(np.zeros((2, 3)))
        6
        >>> np.size(np.zeros((2, 3)), axis=1)
        3
    """
    sizes = operand_shape(a, "size").dimensions
    return math.prod(sizes[number] for number in axes_of(axis, len(sizes), "size"))


@documented(PARAMETERS)
def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Any = None) -> Array:
    """Convert elements to `dtype` (None: the default float type).

    Complex numbers become pred by comparison with 0, and real by dropping the imaginary part.

    Args:
        dtype: an element type; None for the default float type.

    Example:
        >>> np.astype(np.array([0.0, 1.9]), int)
        Array([0, 1], dtype=int32)
    """
    kind = operands.requested_type(float if dtype is None else dtype, "astype")
    given = operands.kind_of(x, "astype")
    if kind.kind == "pred" and given.is_complex:
        return operands.as_bool(x, "astype")
    return lifted(operators.convert(lifted(x), kind))


@documented(PARAMETERS)
def copy(a: ArrayLike, order: str | None = None) -> Array:
    """Return `a` itself, because arrays do not change.

    Example:
        >>> np.copy(np.array([1, 2]))
        Array([1, 2], dtype=int32)
    """
    operand_shape(a, "copy")
    return lifted(a)


@documented(PARAMETERS)
@placeable("out_sharding")
def reshape(
    a: ArrayLike,
    shape: ShapeLike,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """Arrange the elements of an array, in row-major order, in another shape.

    Args:
        shape: a size or a sequence of sizes; one may be -1 and follows from the others.
        order: "C", or "F" for column-major order on both sides.

    Example:
        >>> np.reshape(np.arange(6), (2, -1))
        Array([[0, 1, 2],
               [3, 4, 5]], dtype=int32)
    """
    dimensions = operand_shape(a, "reshape").dimensions
    sizes = [operands.static_int(size, "reshape", "shape") for size in listed(shape)]
    total, problem, stated = math.prod(dimensions), "", tuple(sizes)
    if -1 in sizes:
        product = math.prod(size for size in sizes if size != -1)
        if sizes.count(-1) > 1 or product == 0 or total % product:
            problem = "the size for -1 cannot be inferred"
        else:
            sizes[sizes.index(-1)] = total // product
    if not problem and (math.prod(sizes) != total or any(size < 0 for size in sizes)):
        problem = f"{total} elements do not fit this shape"
    if problem:
        advice = "The number of elements must stay; one size may be -1."
        details = f"the array has shape {dimensions}"
        raise operands.shape_error("reshape", problem, advice, details, shape=stated)
    operands.refuse_others(order, ("C", "F", "A"), "reshape", "order")
    if order == "F":
        return transpose(reshape(transpose(a), sizes[::-1]))
    return _reshaped(a, dimensions, tuple(sizes))


def _reshaped(a: Any, dimensions: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    return lifted(a) if dimensions == sizes else keep_weak(ops.reshape(lifted(a), sizes), a)


@documented(PARAMETERS)
@one_program("a")
@placeable("out_sharding")
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Flatten an array in row-major ("C") or column-major ("F") order.

    Args:
        order: "C" or "F".

    Example:
        >>> np.ravel(np.array([[1, 2], [3, 4]]), order="F")
        Array([1, 3, 2, 4], dtype=int32)
    """
    return reshape(a, (operand_shape(a, "ravel").size,), order)


@documented(PARAMETERS)
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Permute dimensions; reverse them by default.

    Args:
        axes: a permutation of the axes; None reverses them.

    Example:
        >>> np.transpose(np.zeros((2, 3, 4)), (1, 0, 2)).shape
        (3, 2, 4)
    """
    rank = operand_shape(a, "transpose").rank
    order = tuple(range(rank))[::-1] if axes is None else axes_of(axes, rank, "transpose")
    if len(order) != rank:
        problem = f"axes names {len(order)} of {rank} axes"
        raise operands.type_error("transpose", problem, "Name every axis once.", axes=axes)
    return _permuted(a, order)


def _permuted(a: Any, order: Sequence[int]) -> Any:
    is_same = list(order) == list(range(len(order)))
    return lifted(a) if is_same else keep_weak(ops.transpose(lifted(a), order), a)


@documented(PARAMETERS)
def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """Permute dimensions.

    Args:
        axes: a permutation of the axes.

    Example:
        >>> np.permute_dims(np.array([[1, 2], [3, 4]]), (1, 0))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    return transpose(a, axes)


@documented(PARAMETERS)
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Exchange the last two dimensions.

    Args:
        x: an array [..., m, n].

    Example:
        >>> np.matrix_transpose(np.array([[1, 2], [3, 4]]))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    return swapaxes(x, -2, -1)


@documented(PARAMETERS)
@one_program("a")
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Exchange two dimensions.

    Args:
        axis1: an axis.
        axis2: the other axis.

    Example:
        >>> np.swapaxes(np.zeros((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    rank = operand_shape(a, "swapaxes").rank
    pair = list({axis_of(axis, rank, "swapaxes") for axis in (axis1, axis2)})
    return moveaxis(a, pair, pair[::-1])


@documented(PARAMETERS)
@one_program("a")
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Move dimensions; the others keep their order.

    Args:
        source: an axis, or several.
        destination: their positions in the result.

    Example:
        >>> np.moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    rank = operand_shape(a, "moveaxis").rank
    sources = axes_of(listed(source), rank, "moveaxis")
    destinations = axes_of(listed(destination), rank, "moveaxis")
    if len(sources) != len(destinations):
        problem = "source and destination must be equally long"
        axes = {"source": source, "destination": destination}
        raise operands.value_error("moveaxis", problem, "Pass one for each source.", **axes)
    order = [axis for axis in range(rank) if axis not in sources]
    for target, origin in sorted(zip(destinations, sources, strict=True)):
        order.insert(target, origin)
    return _permuted(a, order)


@documented(PARAMETERS)
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Insert dimensions of size 1.

    Args:
        axis: a position in the result, or several.

    Example:
        >>> np.expand_dims(np.array([1, 2]), 0)
        Array([[1, 2]], dtype=int32)
    """
    dimensions = operand_shape(a, "expand_dims").dimensions
    added = listed(axis)
    places = axes_of(added, len(dimensions) + len(added), "expand_dims")
    rest = iter(dimensions)
    sizes = [1 if at in places else next(rest) for at in range(len(dimensions) + len(places))]
    return _reshaped(a, dimensions, tuple(sizes))


@documented(PARAMETERS)
@one_program("a")
def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Remove dimensions of size 1.

    Args:
        axis: an axis, or several; None for all of size 1.

    Example:
        >>> np.squeeze(np.array([[1, 2]]))
        Array([1, 2], dtype=int32)
    """
    dimensions = operand_shape(a, "squeeze").dimensions
    ones = [at for at, size in enumerate(dimensions) if size == 1]
    places = ones if axis is None else axes_of(axis, len(dimensions), "squeeze")
    if not {*places} <= {*ones}:
        problem = "an axis whose size is not 1 cannot be removed"
        details, advice = (
            f"the array has shape {dimensions}",
            "Index it, or reduce over it.",
        )
        raise operands.shape_error("squeeze", problem, advice, details, axis=axis)
    return _reshaped(
        a, dimensions, tuple([size for at, size in enumerate(dimensions) if at not in places])
    )


@documented(PARAMETERS)
@placeable("out_sharding")
def broadcast_to(array: ArrayLike, shape: ShapeLike, *, out_sharding: Any = None) -> Array:
    """Repeat an array to a shape by NumPy's rule.

    Args:
        array: an array or a scalar.

    Example:
        >>> np.broadcast_to(np.array([1, 2]), (2, 2))
        Array([[1, 2],
               [1, 2]], dtype=int32)
    """
    dimensions = operand_shape(array, "broadcast_to").dimensions
    sizes = operands.static_sizes(shape, "broadcast_to")
    if operators.broadcast_shapes([dimensions, sizes], "broadcast_to") != sizes:
        problem = "the array cannot be broadcast to this shape"
        details = f"the array has shape {dimensions}"
        advice = "Aligned from the right, sizes must be equal, or 1 in the array."
        raise operands.shape_error("broadcast_to", problem, advice, details, shape=sizes)
    return keep_weak(lifted(operators.broadcast_to(lifted(array), sizes)), array)


@documented(PARAMETERS)
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Broadcast arrays to their common shape.

    Args:
        *args: arrays or scalars.

    Returns:
        A list of arrays of one shape.

    Example:
        >>> np.broadcast_arrays(np.array([1, 2]), 3)
        [Array([1, 2], dtype=int32), Array([3, 3], dtype=int32)]
    """
    arrays = [lifted(argument) for argument in args]
    sizes = operators.broadcast_shapes([array.shape for array in arrays], "broadcast_arrays")
    return [lifted(operators.broadcast_to(array, sizes)) for array in arrays]


@documented(PARAMETERS)
def broadcast_shapes(*shapes: ShapeLike) -> tuple[int, ...]:
    """Return the shape that arrays of these shapes broadcast to.

    Args:
        *shapes: sizes, or sequences of sizes.

    Returns:
        A tuple of sizes.

    Example:
        >>> np.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    sizes = [operands.static_sizes(shape, "broadcast_shapes") for shape in shapes]
    return operators.broadcast_shapes(sizes, "broadcast_shapes")


_AT_LEAST = """
Args:
    *arys: arrays or scalars.

Returns:
    An array, or a list with an array for each of several arguments.
"""


def _at_least(rank: int, arys: Sequence[Any], behind: int = 0) -> Any:
    """Add dimensions up to `rank`, at most `behind` of them at the end."""
    made = []
    for ary in arys:
        dimensions = operand_shape(ary, f"atleast_{rank}d").dimensions
        missing = max(rank - len(dimensions), 0)
        after = min(missing, behind)
        made.append(reshape(ary, (1,) * (missing - after) + dimensions + (1,) * after))
    return made[0] if len(made) == 1 else made


@one_program()
@documented(PARAMETERS, _AT_LEAST)
def atleast_1d(*arys: ArrayLike) -> Any:
    """Convert scalars to vectors of one element.

    Example:
        >>> np.atleast_1d(3.0)
        Array([3.], dtype=float32, weak_type=True)
    """
    return _at_least(1, arys)


@one_program()
@documented(PARAMETERS, _AT_LEAST)
def atleast_2d(*arys: ArrayLike) -> Any:
    """Add leading dimensions of size 1 until there are two.

    Example:
        >>> np.atleast_2d(np.array([1, 2]))
        Array([[1, 2]], dtype=int32)
    """
    return _at_least(2, arys)


@one_program()
@documented(PARAMETERS, _AT_LEAST)
def atleast_3d(*arys: ArrayLike) -> Any:
    """Add dimensions of size 1 until there are three; vectors become (1, n, 1).

    Example:
        >>> np.atleast_3d(np.array([1, 2])).shape
        (1, 2, 1)
    """
    return _at_least(3, arys, behind=1)
