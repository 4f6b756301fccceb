"""Collectives over named axes: psum and its family, in functions that we or JAX map."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.tree_util import tree_map

import minixla_ops as ops
from minixla.core.batching import BatchTrace, BatchTracer
from minixla.core.shapes import DeclaredArray, Shape
from minixla.core.tracing import _state, shape_of
from minixla.engine.devices import bound_axes, partitions_along
from minixla.transforms.arguments import misfit
from minixla.transforms.axis_operations import (
    AxisAllGather,
    AxisAllToAll,
    AxisExtreme,
    AxisOperation,
    AxisPermute,
    AxisReduceScatter,
    AxisSum,
    Groups,
)

#: The name of a mapped axis that nobody can name.
UNNAMED = object()


class Axis:
    """What a transformation that maps an axis does for collectives over it.

    Args:
        name: the axis's.
        size: how many members it has.
    """

    def __init__(self, name: Any, size: int) -> None:
        self.size = size
        self._index: Any = None
        #: The attributes that tell of the axis.
        self.described = {"axis_name": name, "partitions": (), "is_checked": False}

    def index(self) -> Any:
        """The number of the member, an s32 scalar."""
        if self._index is None:
            self._index = self._made_index()
        return self._index

    def _made_index(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _made_index")

    def apply(
        self, operation: type[AxisOperation], operand: Any, groups: Groups = (), **own: Any
    ) -> Any:
        """An operation of `axis_operations` on the members' values."""
        size = len(groups[0]) if groups else self.size
        given = operation(**self.described, size=size, groups=groups, **own)
        return self._applied(given, operand)

    def _applied(self, operation: AxisOperation, operand: Any) -> Any:
        # Whoever maps the axis turns it into what it does there.
        return operation(operand, self.index())


class BatchAxis(Axis):
    """An axis of vmap."""

    def __init__(self, trace: BatchTrace) -> None:
        super().__init__(trace.name, trace.size)
        self.trace = trace

    def _made_index(self) -> Any:
        numbers = np.arange(self.size, dtype=np.int32).view(DeclaredArray)
        return BatchTracer(self.trace, self.trace.parent.lift(numbers), 0)


class JaxAxis(Axis):
    """An axis that JAX maps: of jax.shard_map, jax.pmap or jax.vmap."""

    def __init__(self, name: Any, size: int) -> None:
        super().__init__(name, size)
        is_checked = bool(jax.typeof(self.index()).mat.varying)
        self.described.update(partitions=partitions_along(name) or (), is_checked=is_checked)

    def _made_index(self) -> Any:
        return jax.lax.axis_index(self.described["axis_name"])


class DeviceAxis(Axis):
    """An axis whose members are the partitions of one program."""

    def __init__(self, size: int) -> None:
        super().__init__(None, size)
        self.described["partitions"] = (tuple(range(size)),)
        self._channels = itertools.count(1)

    def index(self) -> Any:
        """See Axis; another in each program."""
        return ops.convert_element_type(ops.partition_id(), "s32")

    def _applied(self, operation: AxisOperation, operand: Any) -> Any:
        return operation.between_partitions(operand, next(self._channels))


@contextmanager
def mapped_axis(name: Any, axis: Axis) -> Any:
    """The axis is known by its name to what is traced inside; without a name nothing changes."""
    previous = _state.axes
    if name is not None:
        _state.axes = (*previous, (name, axis))
    try:
        yield
    finally:
        _state.axes = previous


def _axes(subject: str, axis_name: Any) -> list[Axis]:
    """The axes of one name or of a tuple of names."""
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    found = []
    for name in names:
        known: list[Axis] = [axis for each, axis in _state.axes if each == name]
        bound = {} if known else bound_axes()
        if name in bound:
            known = [JaxAxis(name, bound[name])]
        if not known:
            own = [each for each, _ in _state.axes if each is not UNNAMED]
            listed = ", ".join(map(repr, [*own, *bound]))
            shown = [f"axis_name = {axis_name!r}", f"bound here: {listed or 'none'}"]
            advice = f"Map the function over it: mx.vmap(f, axis_name={name!r}), or jax.shard_map."
            raise misfit(subject, f"the axis name {name!r} is not bound", shown, advice)
        found.append(known[-1])
    return found


def _one_axis(subject: str, axis_name: Any) -> Axis:
    axes = _axes(subject, axis_name)
    if len(axes) != 1:
        problem = f"it works on one axis, not on {len(axes)}"
        shown = [f"axis_name = {axis_name!r}"]
        raise misfit(subject, problem, shown, "Call it once for each axis.")
    return axes[0]


def _groups(subject: str, axis: Axis, given: Sequence[Sequence[int]] | None) -> Groups:
    if given is None:
        return ()
    groups = tuple([tuple(map(int, group)) for group in given])
    members = sorted([number for group in groups for number in group])
    if members != list(range(axis.size)) or len({len(group) for group in groups}) != 1:
        problem = "axis_index_groups do not divide the axis into groups of one size"
        shown = [f"axis_index_groups = {given}", f"the axis has {axis.size} members"]
        raise misfit(subject, problem, shown, "Name each member once, in groups of equal size.")
    return groups


def _dimension(subject: str, what: str, axis: int, rank: int) -> int:
    if -rank <= axis < rank:
        return axis % rank
    problem = f"{what} = {axis} is no dimension of an array of rank {rank}"
    raise misfit(subject, problem, advice=f"Give one in [{-rank}, {rank}).")


def _rearranged(
    subject: str,
    operation: type[AxisOperation],
    x: Any,
    axis_name: Any,
    axis_index_groups: Sequence[Sequence[int]] | None,
    tiled: bool,
    **dimensions: tuple[str, int],
) -> Any:
    """An operation on each array; `dimensions` are attributes with what the user calls them."""
    mapped = _one_axis(subject, axis_name)
    groups = _groups(subject, mapped, axis_index_groups)

    def of_leaf(leaf: Any) -> Any:
        shape = shape_of(leaf, subject)
        assert isinstance(shape, Shape), "a leaf of arrays is an array"
        rank = shape.rank + (operation is AxisAllGather and not tiled)  # there one is new
        own = {each: _dimension(subject, *at, rank) for each, at in dimensions.items()}
        return mapped.apply(operation, leaf, groups, tiled=tiled, **own)

    return tree_map(of_leaf, x)


def _reduced(
    subject: str,
    operation: type[AxisOperation],
    x: Any,
    axis_name: Any,
    axis_index_groups: Sequence[Sequence[int]] | None,
    **attributes: Any,
) -> Any:
    axes = _axes(subject, axis_name)
    if axis_index_groups is not None:
        axes = [_one_axis(subject, axis_name)]

    def reduce(leaf: Any) -> Any:
        for axis in axes:
            groups = _groups(subject, axis, axis_index_groups)
            leaf = axis.apply(operation, leaf, groups, **attributes)
        return leaf

    return tree_map(reduce, x)


def psum(
    x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """The sum of `x` over a mapped axis, for every member (JAX: lax.psum).

    Args:
        x: a pytree of arrays; booleans are counted. A Python number gives the number times the
            size, with no array.
        axis_name: the name of the axis, or a tuple of names.
        axis_index_groups: the members of each group within which to sum; default: all.

    Raises:
        TransformError: no axis of that name is mapped here; groups that do not divide it.
    """
    axes = _axes("psum", axis_name)
    if isinstance(x, (int, float, complex)) and not isinstance(x, bool):
        count = 1
        for axis in axes:
            groups = _groups("psum", axis, axis_index_groups)
            count *= len(groups[0]) if groups else axis.size
        return x * count
    return _reduced("psum", AxisSum, tree_map(_counted, x), axis_name, axis_index_groups)


def _counted(leaf: Any) -> Any:
    """Booleans as s32 numbers, which can be added."""
    shape = shape_of(leaf, "psum")
    if isinstance(shape, Shape) and shape.element_type.kind == "pred":
        return ops.convert_element_type(_state.trace.lift(leaf, "psum"), "s32")
    return leaf


def pmean(
    x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """The mean of `x` over a mapped axis (JAX: lax.pmean); see `psum`."""
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    return tree_map(lambda leaf: leaf / count, total)


def pmax(
    x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """The maximum of `x` over a mapped axis (JAX: lax.pmax); see `psum`."""
    return _reduced("pmax", AxisExtreme, x, axis_name, axis_index_groups, kind="max")


def pmin(
    x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """The minimum of `x` over a mapped axis (JAX: lax.pmin); see `psum`."""
    return _reduced("pmin", AxisExtreme, x, axis_name, axis_index_groups, kind="min")


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Values sent between members of a mapped axis (JAX: lax.ppermute).

    Args:
        x: a pytree of arrays.
        axis_name: the name of the axis.
        perm: pairs of source and target; members that are no target get zeros.

    Raises:
        TransformError: two pairs with one source or target, or a number outside the axis.
    """
    axis = _one_axis("ppermute", axis_name)
    pairs = tuple([(int(source), int(target)) for source, target in perm])
    for what, numbers in (("source", [s for s, _ in pairs]), ("target", [t for _, t in pairs])):
        if len(set(numbers)) != len(numbers) or not all(0 <= n < axis.size for n in numbers):
            problem = f"a {what} is named twice, or is no member of the axis"
            shown = [f"perm = {pairs}", f"the axis has {axis.size} members"]
            advice = "Each member sends once and receives once at most."
            raise misfit("ppermute", problem, shown, advice)
    return tree_map(lambda leaf: axis.apply(AxisPermute, leaf, pairs=pairs), x)


def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """The values of all members of a mapped axis (JAX: lax.all_gather).

    Args:
        x: a pytree of arrays.
        axis_name: the name of the axis.
        axis_index_groups: see `psum`.
        axis: the dimension along which the values come.
        tiled: whether they are joined along a dimension that is there, instead of a new one.
    """
    at = "axis", axis
    return _rearranged("all_gather", AxisAllGather, x, axis_name, axis_index_groups, tiled, axis=at)


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """The sum over a mapped axis, of which each member gets its part (JAX: lax.psum_scatter).

    Args:
        x: a pytree of arrays.
        axis_name: the name of the axis.
        scatter_dimension: the dimension that is cut, one part for each member.
        axis_index_groups: see `psum`.
        tiled: whether a part keeps the dimension; else its size must be that of the axis.
    """
    at, groups = ("scatter_dimension", scatter_dimension), axis_index_groups
    return _rearranged("psum_scatter", AxisReduceScatter, x, axis_name, groups, tiled, axis=at)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Part j of member i becomes part i of member j (JAX: lax.all_to_all).

    Args:
        x: a pytree of arrays.
        axis_name: the name of the axis.
        split_axis: the dimension that is cut.
        concat_axis: the dimension along which the parts are joined.
        axis_index_groups: see `psum`.
        tiled: whether both dimensions stay; else the first goes and the second is new.
    """
    ends = {"split_axis": ("split_axis", split_axis), "concat_axis": ("concat_axis", concat_axis)}
    return _rearranged("all_to_all", AxisAllToAll, x, axis_name, axis_index_groups, tiled, **ends)


def axis_index(axis_name: Any) -> Any:
    """The member's number along a mapped axis, an s32 scalar (JAX: lax.axis_index).

    Args:
        axis_name: a name, or a tuple of names, of which the last counts fastest.
    """
    index: Any = None
    for axis in _axes("axis_index", axis_name):
        index = axis.index() if index is None else index * axis.size + axis.index()
    return index


def axis_size(axis_name: Any) -> int:
    """The number of members of a mapped axis (JAX: lax.axis_size)."""
    return psum(1, axis_name)
