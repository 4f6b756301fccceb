"""Functions that arrange the elements of one array differently; `joining` has those of several."""

import math
import operator
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core.errors import ConcretizationError
from minixla.core.tracing import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import named, placeable
from minixla.numpy.operands import axes_of, axis_of, keep_weak, lifted, listed, operand_shape
from minixla_ops.elementwise import operators


def ndim(a: Any) -> int:
    """The number of dimensions."""
    return operand_shape(a, "ndim").rank


def shape(a: Any) -> tuple[int, ...]:
    """The dimension sizes."""
    return operand_shape(a, "shape").dimensions


def size(a: Any, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements, or how many there are along the axes."""
    sizes = operand_shape(a, "size").dimensions
    return math.prod(sizes[each] for each in axes_of(axis, len(sizes), "size"))


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """`x` with its elements converted to `dtype` (None: the default float type).

    Complex numbers become pred by comparing with 0, and real by dropping the imaginary part.

    Raises:
        ShapeError: `x` is no array or `dtype` no element type.
    """
    kind = operands.requested_type(float if dtype is None else dtype, "astype")
    given = operands.kind_of(x, "astype")
    if kind.kind == "pred" and given.is_complex:
        return operands.as_bool(x, "astype")
    return lifted(operators.convert(lifted(x), kind))


def copy(a: Any, order: str | None = None) -> Any:
    """`a` itself, for arrays do not change."""
    operand_shape(a, "copy")
    return lifted(a)


@placeable("out_sharding")
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """The elements of `a`, in row-major order, in an array of another shape.

    Args:
        a: an array.
        shape: a size or a sequence of them; one may be -1 and follows from the others.
        order: "C", or "F" for column-major order on both sides.
        copy: has no effect.

    Raises:
        ShapeError: the number of elements differs.
    """
    own = operand_shape(a, "reshape").dimensions
    sizes = [operands.static_int(each, "reshape", "shape") for each in listed(shape)]
    total, problem, given = math.prod(own), "", tuple(sizes)
    if -1 in sizes:
        known = math.prod(size for size in sizes if size != -1)
        if sizes.count(-1) > 1 or known == 0 or total % known:
            problem = "the size that -1 stands for cannot be found"
        else:
            sizes[sizes.index(-1)] = total // known
    if not problem and (math.prod(sizes) != total or any(size < 0 for size in sizes)):
        problem = f"{total} elements do not fit this shape"
    if problem:
        advice = "The number of elements must stay; one size may be -1."
        shown = f"the array has shape {own}"
        raise operands.shape_error("reshape", problem, advice, shown, shape=given)
    operands.refuse_others(order, ("C", "F", "A"), "reshape", "order")
    if order == "F":
        return transpose(reshape(transpose(a), sizes[::-1]))
    return _reshaped(a, own, tuple(sizes))


def _reshaped(a: Any, own: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    return lifted(a) if own == sizes else keep_weak(ops.reshape(lifted(a), sizes), a)


@one_program("a")
@placeable("out_sharding")
def ravel(a: Any, order: str = "C") -> Any:
    """The elements of `a` in row-major ("C") or column-major ("F") order, in one dimension."""
    return reshape(a, (operand_shape(a, "ravel").size,), order)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """`a` with its dimensions in the order `axes`; default: reversed.

    Raises:
        AttributeValueError: `axes` is not a permutation.
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


def permute_dims(a: Any, /, axes: Sequence[int]) -> Any:
    """`a` with its dimensions in the order `axes`."""
    return transpose(a, axes)


def matrix_transpose(x: Any, /) -> Any:
    """`x` with its last two dimensions exchanged."""
    return swapaxes(x, -2, -1)


@one_program("a")
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """`a` with two dimensions exchanged."""
    rank = operand_shape(a, "swapaxes").rank
    pair = list({axis_of(axis, rank, "swapaxes") for axis in (axis1, axis2)})
    return moveaxis(a, pair, pair[::-1])


@one_program("a")
def moveaxis(a: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """`a` with dimensions `source` moved to `destination`, the others in their order.

    Raises:
        AttributeValueError: the two differ in length, or name an axis twice.
    """
    rank = operand_shape(a, "moveaxis").rank
    sources = axes_of(listed(source), rank, "moveaxis")
    destinations = axes_of(listed(destination), rank, "moveaxis")
    if len(sources) != len(destinations):
        problem = "source and destination differ in length"
        given = {"source": source, "destination": destination}
        raise operands.value_error("moveaxis", problem, "Give one for each source.", **given)
    order = [axis for axis in range(rank) if axis not in sources]
    for target, origin in sorted(zip(destinations, sources, strict=True)):
        order.insert(target, origin)
    return _permuted(a, order)


def expand_dims(a: Any, axis: int | Sequence[int]) -> Any:
    """`a` with dimensions of size 1 at the places `axis` of the result."""
    own = operand_shape(a, "expand_dims").dimensions
    added = listed(axis)
    places = axes_of(added, len(own) + len(added), "expand_dims")
    rest = iter(own)
    sizes = [1 if at in places else next(rest) for at in range(len(own) + len(places))]
    return _reshaped(a, own, tuple(sizes))


@one_program("a")
def squeeze(a: Any, axis: int | Sequence[int] | None = None) -> Any:
    """`a` without its dimensions of size 1, or without those named.

    Raises:
        ShapeError: a named one has another size.
    """
    own = operand_shape(a, "squeeze").dimensions
    ones = [at for at, size in enumerate(own) if size == 1]
    places = ones if axis is None else axes_of(axis, len(own), "squeeze")
    if not {*places} <= {*ones}:
        problem = "an axis that is not of size 1 cannot be left out"
        given, advice = f"the array has shape {own}", "Take one index of it, or reduce over it."
        raise operands.shape_error("squeeze", problem, advice, given, axis=axis)
    return _reshaped(a, own, tuple([size for at, size in enumerate(own) if at not in places]))


@placeable("out_sharding")
def broadcast_to(array: Any, shape: Any) -> Any:
    """`array` repeated to `shape` by NumPy's rule.

    Raises:
        ShapeError: the shapes do not fit.
    """
    own = operand_shape(array, "broadcast_to").dimensions
    sizes = operands.static_sizes(shape, "broadcast_to")
    if operators.broadcast_shapes([own, sizes], "broadcast_to") != sizes:
        problem = "the array cannot be repeated to this shape"
        given = f"the array has shape {own}"
        advice = "Aligned from the right, sizes must be kept unless they are 1."
        raise operands.shape_error("broadcast_to", problem, advice, given, shape=sizes)
    return keep_weak(lifted(operators.broadcast_to(lifted(array), sizes)), array)


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays broadcast to their common shape."""
    arrays = [lifted(each) for each in args]
    sizes = operators.broadcast_shapes([each.shape for each in arrays], "broadcast_arrays")
    return [lifted(operators.broadcast_to(each, sizes)) for each in arrays]


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    Raises:
        AttributeValueError: a size is negative or no integer.
        ShapeError: there is none.
    """
    sizes = [operands.static_sizes(shape, "broadcast_shapes") for shape in shapes]
    return operators.broadcast_shapes(sizes, "broadcast_shapes")


def _at_least(rank: int, text: str, behind: int = 0) -> Any:
    """A function that adds dimensions until there are `rank`, at most so many of them behind."""
    name = f"atleast_{rank}d"

    def of_all(arys: Sequence[Any]) -> Any:
        made = []
        for each in arys:
            own = operand_shape(each, name).dimensions
            missing = max(rank - len(own), 0)
            after = min(missing, behind)
            made.append(reshape(each, (1,) * (missing - after) + own + (1,) * after))
        return made[0] if len(made) == 1 else made

    text = f"The arrays with dimensions of size 1 {text}."
    return one_program()(named(lambda *arys: of_all(arys), name, text))


atleast_1d = _at_least(1, "where they are scalars; a list where there are several")
atleast_2d = _at_least(2, "put in front until there are two")
atleast_3d = _at_least(3, "added until there are three: vectors become (1, n, 1)", behind=1)


@one_program("m")
def flip(m: Any, axis: int | Sequence[int] | None = None) -> Any:
    """`m` with the order of its elements reversed along axes; default: all."""
    axes = axes_of(axis, operand_shape(m, "flip").rank, "flip")
    return keep_weak(ops.rev(lifted(m), axes) if axes else lifted(m), m)


fliplr = one_program()(named(lambda m: flip(m, 1), "fliplr", "`m` reversed along axis 1."))
flipud = one_program()(named(lambda m: flip(m, 0), "flipud", "`m` reversed along axis 0."))


def roll(a: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Any:
    """`a` with its elements moved along axes by `shift` places; what falls off comes in again.

    Args:
        a: an array.
        shift: an integer, or one for each axis; may be a traced integer or vector of them.
        axis: axes; default: over the elements in row-major order.
    """
    return (_turned_by_arrays if hasattr(shift, "shape") else _turned)(a, shift, axis)


def _all_turned(a: Any, shift: Any, axis: Any) -> Any:
    own = operand_shape(a, "roll").dimensions
    if axis is None:
        return reshape(_all_turned(ravel(a), shift, 0), own)
    places = [axis_of(each, len(own), "roll") for each in listed(axis)]
    shifts = listed(shift)
    count = len(shifts if len(places) == 1 else places)
    if len(places) not in (1, count) or len(shifts) not in (1, count):
        problem = f"there are {len(shifts)} shifts for {len(places)} axes"
        raise operands.shape_error("roll", problem, "Give one for each, or one for all.")
    result = lifted(a)
    for at, amount in islice(zip(cycle(places), cycle(shifts)), count):
        if operand_shape(amount, "roll").element_type.is_complex:
            raise operands.shape_error("roll", f"shift {amount} is complex", "Give an integer.")
        result = _rolled(result, own[at], amount, at) if own[at] else result
    return keep_weak(result, a)


_turned, _turned_by_arrays = (one_program(*each)(_all_turned) for each in (["a"], ["a", "shift"]))


def _rolled(a: Any, size: int, amount: Any, axis: int) -> Any:
    try:
        start = -operator.index(amount) % size
    except (ConcretizationError, TypeError):
        starts = [lifted(np.int32(0))] * a.ndim
        starts[axis] = astype(size - amount % size, np.int32)
        return ops.dynamic_slice(ops.concat_in_dim([a, a], axis), starts, a.shape)
    parts = [ops.slice_in_dim(a, *bounds, axis) for bounds in ((start, size), (0, start))]
    return ops.concat_in_dim(parts, axis) if start else a
