"""Parsing of array indices: known boxes, and indices that hold values."""

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import minixla.numpy as mnp
from minixla.core.errors import ConcretizationError, IndexingError, ShapeError, explain
from minixla.core.shapes import Shape
from minixla.numpy.operands import concrete, from_members, operand_shape

WHOLE = (None, None, None)


def rejected(problem: str, index: Any, sizes: Sequence[int], advice: str) -> IndexingError:
    """Return the error for an index that does not fit an array of `sizes`."""
    return explain(IndexingError, "indexing", problem, _given(index, sizes), advice)


def _given(index: Any, sizes: Sequence[int]) -> list[str]:
    members = index if isinstance(index, tuple) else (index,)
    texts = ["..." if member is Ellipsis else repr(member) for member in members]
    return [f"the array has shape {tuple(sizes)}", f"index [{', '.join(texts)}"[:205] + "]"]


def static_key(index: Any) -> tuple[Any, ...] | None:
    """Return a known index in hashable form; None if it holds a value or an array."""
    members = index if type(index) is tuple else (index,)
    found: list[Any] = []
    for member in members:
        kind = type(member)
        if kind is int or member is None or member is Ellipsis:
            found.append(member)
        elif kind is slice:
            found.append(_bounds(member))
        elif isinstance(member, np.integer):
            found.append(int(member))
        else:
            return None
    return tuple(found)


def _bounds(member: slice) -> tuple[int | None, int | None, int | None]:
    return _bound(member.start), _bound(member.stop), _bound(member.step)


def _bound(value: Any) -> int | None:
    if value is None or type(value) is int:
        return value
    try:
        return operator.index(value)
    except (TypeError, ConcretizationError):
        problem = "a bound of a slice is not an integer that is known when the function is traced"
        advice = "The result's shape depends on it: use mx.ops.dynamic_slice for a box of fixed "
        advice += "size at a traced position, or mx.numpy.where with mx.numpy.arange as a mask."
        details = [f"given {value!r}"]
        raise explain(ConcretizationError, "indexing", problem, details, advice) from None


class Box(NamedTuple):
    """The elements that a known index selects: a box with strides, reversed axes and a shape."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...]
    reversed: tuple[int, ...]
    sizes: tuple[int, ...]
    is_clamped: bool  # whether an integer was out of bounds


@lru_cache(maxsize=8192)
def box_of(sizes: tuple[int, ...], key: tuple[Any, ...]) -> Box:
    """Return the box that a `static_key` selects from an array of `sizes`."""
    members = _expanded(key, sizes)
    boxes: list[tuple[int, ...]] = []
    reversed_axes, result, clamped = [], [], False
    for member in members:
        if member is None:
            result.append(1)
            continue
        size = sizes[len(boxes)]
        if isinstance(member, int):
            if size == 0:
                raise _nothing_to_take(key, sizes)
            wanted = member + size if member < 0 else member
            at = min(max(wanted, 0), size - 1)
            clamped |= at != wanted
            boxes.append((at, at + 1, 1))
            continue
        if member[2] == 0:
            raise rejected("the step of a slice is 0", key, sizes, "Pass another step.")
        positions = range(size)[slice(*member)]
        if positions.step < 0:
            reversed_axes.append(len(boxes))
            positions = positions[::-1]
        ends = (positions[0], positions[-1] + 1) if positions else (0, 0)
        boxes.append((*ends, positions.step))
        result.append(len(positions))
    starts, limits, strides = zip(*boxes, strict=True) if boxes else ((), (), ())
    return Box(starts, limits, strides, tuple(reversed_axes), tuple(result), clamped)


def _nothing_to_take(index: Any, sizes: Sequence[int]) -> IndexingError:
    problem = "an axis of size 0 has no element to take"
    return rejected(problem, index, sizes, "Check for size 0 first.")


def _expanded(members: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Expand the ellipsis, and missing members at the end, into whole slices."""
    consumed = sum(member is not None and member is not Ellipsis for member in members)
    missing = len(sizes) - consumed
    if missing < 0:
        problem = f"there are {consumed} indices for {len(sizes)} dimensions"
        raise rejected(problem, tuple(members), sizes, "Pass at most one index for each dimension.")
    places = [at for at, member in enumerate(members) if member is Ellipsis]
    if len(places) > 1:
        raise rejected("there are two ellipses", tuple(members), sizes, "One is allowed.")
    at = places[0] if places else len(members)
    return [*members[:at], *[WHOLE] * missing, *members[at + 1 :]]


# Indices that hold values.


class Parsed(NamedTuple):
    """An index that holds values."""

    sizes: tuple[int, ...]  # The operand's shape after True and False add axes of size 1.
    layout: Sequence[int | None]  # The operand's axes in order, and None for each new one.
    values: dict[int, Any]  # By axis, the integer or the array of integers that indexes it.
    slices: dict[int, tuple[Any, Any, Any]]  # By axis, (start, stop, step) if it is not whole.
    is_contiguous: bool  # True if no slice, None or ... is between integers and arrays.


def parse_index(index: Any, sizes: Sequence[int]) -> Parsed:
    """Assign the members of an index to axes; masks become arrays of indices."""
    members = [_as_array(member) for member in (index if isinstance(index, tuple) else (index,))]
    shapes = [_index_shape(member, index, sizes) for member in members]
    plain: list[Any] = []
    for member, shape in zip(members, shapes, strict=True):
        is_axis = member is not None and member is not Ellipsis
        plain.extend([0] * _consumed(shape) if is_axis else [member])
    # These slices replace the ellipsis; `_expanded` checks the counts.
    missing = sum(member == WHOLE for member in _expanded(plain, sizes))
    if not any(member is Ellipsis for member in members):
        members, shapes = [*members, Ellipsis], [*shapes, None]
    rest, kept, layout, values, slices = list(sizes), [], [], {}, {}
    for member, shape in zip(members, shapes, strict=True):
        if member is None:
            layout.append(None)
            continue
        count = missing if member is Ellipsis else _consumed(shape)
        taken, rest = rest[:count], rest[count:]
        if shape is not None:
            is_mask = shape.element_type.kind == "pred"
            arrays = _places(member, taken, index, sizes) if is_mask else [member]
            taken = taken or [1]  # True and False
            for axis, (value, size) in enumerate(zip(arrays, taken, strict=True), len(kept)):
                if size == 0 and operand_shape(value, "indexing").size:
                    raise _nothing_to_take(index, sizes)
                values[axis] = int(value) if isinstance(value, np.integer) else value
        elif member is not Ellipsis:
            slices[len(kept)] = _bounds(member)
        layout += range(len(kept), len(kept) + len(taken))
        kept += taken
    places = [at for at, shape in enumerate(shapes) if shape is not None]
    is_contiguous = not places or places == list(range(places[0], places[-1] + 1))
    return Parsed(tuple(kept), layout, values, slices, is_contiguous)


def _places(mask: Any, taken: Sequence[int], index: Any, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the indices at which a mask is true: an array for each of its axes."""
    advice = "The number of selected elements must be known: use mx.numpy.where(mask, x, y) or "
    values = concrete(mask, "indexing", f"{advice}x * mask instead of x[mask].")
    if values.ndim == 0:
        return [np.zeros(int(values), np.int32)]
    if values.shape != tuple(taken):
        problem = f"a mask of shape {values.shape} does not fit axes of sizes {tuple(taken)}"
        advice = "A mask must have the shape of the axes that it selects from."
        raise rejected(problem, index, sizes, advice)
    return list(np.nonzero(values))


def _consumed(shape: Shape | None) -> int:
    """Return the number of axes that a slice (None) or a value of a shape consumes."""
    return shape.rank if shape is not None and shape.element_type.kind == "pred" else 1


def _as_array(member: Any) -> Any:
    """Convert a list to an array; an empty list becomes an array of integers."""
    if not isinstance(member, (list, tuple)):
        return member
    made = from_members(member, None)
    return made if made.size else made.astype(np.int32)


def _index_shape(member: Any, index: Any, sizes: Sequence[int]) -> Shape | None:
    """Return the shape of a member that holds values; None for others."""
    if member is None or member is Ellipsis or isinstance(member, slice):
        return None
    try:
        shape = operand_shape(member, "indexing")
    except ShapeError:
        shape = None
    if shape is None or shape.element_type.kind not in ("signed", "unsigned", "pred"):
        problem = f"{type(member).__name__ if shape is None else shape} is not an index"
        advice = "Indices are integers, slices, None, ..., and arrays of integers or booleans."
        raise rejected(problem, index, sizes, advice)
    return shape


def unwrapped(index: Any, sizes: Sequence[int], beyond: int) -> Any:
    """Replace negative integers in an index by `beyond`, so that they do not count from the end."""

    def member(value: Any) -> Any:
        value = _as_array(value)
        shape = _index_shape(value, index, sizes)
        if shape is None or shape.element_type.kind != "signed":
            return value
        return mnp.where(mnp.less(value, 0), np.int32(beyond), value)

    return tuple(map(member, index)) if isinstance(index, tuple) else member(index)
