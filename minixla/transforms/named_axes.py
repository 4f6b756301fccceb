"""Collectives over named axes: psum and related functions, in functions that we or JAX map."""

import copy
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar

import jax
import numpy as np

import minixla.numpy as mxnp
import minixla_ops as ops
from minixla.core.argument_kinds import checks_kinds
from minixla.core.batching import BatchTrace, BatchTracer
from minixla.core.docstrings import documented
from minixla.core.shapes import DeclaredArray, Shape
from minixla.core.state import held
from minixla.core.tracing import _state, shape_of
from minixla.engine.devices import bound_axes, partitions_along
from minixla.engine.jax_private import extend_axis_env_nd
from minixla.sharding.manual_computation import member_of
from minixla.sharding.mesh import Mesh
from minixla.transforms import axis_operations
from minixla.transforms.arguments import misfit
from minixla.transforms.axis_operations import AxisExtreme, AxisOperation, AxisSum, Groups
from minixla.typing import Array, ArrayLike, AxisName, PyTree
from minixla_ops.helpers.shorthand import array_shape

#: The members of each group, as users specify them; None: one group of all members.
Lists = Sequence[Sequence[int]] | None
#: A pytree of arrays.
Tree = TypeVar("Tree")
#: The name of a mapped axis without a public name.
UNNAMED = object()
_SHARED = """
Args:
    x: a pytree of arrays.
    axis_name: the name of the axis, or a tuple of names.
    axis_index_groups: groups of indices of the axis, each reduced separately; default: one group.

Returns:
    A pytree like `x`, equal for every index of a group.

Raises:
    TransformError: no axis of that name is mapped, or the groups or the sizes of `x` do not match
        the axis.
"""


class Axis:
    """A mapped axis with `size` elements; `index()` is the current element's s32 index."""

    def __init__(
        self, name: object, size: int, index: Callable[[], Array], partitions: Groups = ()
    ) -> None:
        self.size, self.index = size, index
        #: The attributes of operations that describe the axis.
        self.shared: dict[str, Any] = dict(
            axis_name=name, groups=(), partitions=partitions, is_checked=False
        )

    @property
    def key(self) -> Hashable:
        """The properties of the axis that traced programs depend on."""
        return self.size, self.shared["partitions"]

    def apply(self, operation: type[AxisOperation], operand: ArrayLike, **attributes: Any) -> Array:  # noqa: ANN401  # types differ by operation
        """Apply an operation of `axis_operations` to the members' values."""
        return self._applied(operation(**self.shared, size=self.size, **attributes), operand)

    def _applied(self, operation: AxisOperation, operand: ArrayLike) -> Array:
        # The mapping transformation replaces the operation by its implementation.
        return operation(operand, self.index())


def batch_axis(trace: BatchTrace) -> Axis:
    """Return the axis of a vmap."""

    @cache
    def index() -> Array:
        numbers = np.arange(trace.size, dtype=np.int32).view(DeclaredArray)
        return BatchTracer(trace, trace.parent.lift(numbers), 0)

    return Axis(trace.name, trace.size, index)


def _jax_axis(name: Hashable, size: int) -> Axis:
    index = jax.lax.axis_index(name)
    axis = Axis(name, size, lambda: index, partitions_along(name) or ())
    axis.shared["is_checked"] = bool(jax.typeof(index).mat.varying)
    return axis


class MeshAxis(Axis):
    """Axes of a mesh as one axis, whose members are partitions of one program.

    Its collectives take channel ids from `channels`; `free` axes of the mesh are not manual.
    """

    def __init__(
        self, mesh: Mesh, names: Sequence[str], channels: Iterator[int], free: Sequence[str] = ()
    ) -> None:
        groups, index = mesh.groups(names), partial(member_of, mesh, names, free)
        super().__init__(None, len(groups[0]), index, groups)
        self.mesh, self.names, self._channels, self._free = mesh, names, channels, free

    def joined(self, others: Sequence["MeshAxis"]) -> "MeshAxis":
        """Join this axis and others of its mesh; the last index varies fastest."""
        names = [name for axis in (self, *others) for name in axis.names]
        return MeshAxis(self.mesh, names, self._channels, self._free)

    def _applied(self, operation: AxisOperation, operand: ArrayLike) -> Array:
        return operation.between_partitions(operand, next(self._channels))


@contextmanager
def mapped_axis(name: object, axis: Axis | None) -> Iterator[None]:
    """Bind an axis to a name while tracing in a `with` block; without a name, change nothing.

    JAX's functions see the axis too, and JAX's collectives over it become ours.
    """
    if name is None:
        yield
        return
    named = [] if axis is None or name is UNNAMED else [(name, axis.size)]
    with held("axes", (*_state.axes, (name, axis))), extend_axis_env_nd(named):
        yield


def _axes(
    subject: str, axis_name: AxisName, groups: Lists = None, is_one: bool = False
) -> Sequence[Axis]:
    """Return the axes of a name or names; with `is_one` or groups, exactly one, with its groups."""
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    details, axes = [f"axis_name = {axis_name!r}"], []
    for name in names:
        matching, bound = (
            [axis for name_of_axis, axis in _state.axes if name_of_axis == name],
            bound_axes(),
        )
        if not matching and name not in bound:
            own = [name_of_axis for name_of_axis, _ in _state.axes if name_of_axis is not UNNAMED]
            listed = ", ".join(map(repr, [*own, *bound]))
            details.append(f"bound here: {listed or 'none'}")
            advice = f"Map the function over it: mx.vmap(f, axis_name={name!r}), or jax.shard_map."
            raise misfit(subject, f"the axis name {name!r} is not bound", details, advice)
        axes.append(matching[-1] if matching else _jax_axis(name, bound[name]))
    along = [axis for axis in axes if isinstance(axis, MeshAxis)]
    if len(along) == len(set(names)) > 1 and len({axis.mesh for axis in along}) == 1:
        axes = [along[0].joined(along[1:])]
    if (is_one or groups is not None) and len(axes) != 1:
        problem = f"it requires one axis, not {len(axes)}"
        raise misfit(subject, problem, details, "Call it once for each axis.")
    if groups is None:
        return axes
    size, index_groups = axes[0].size, tuple([tuple(map(int, group)) for group in groups])
    members = sorted([number for group in index_groups for number in group])
    if members != list(range(size)) or len({len(group) for group in index_groups}) != 1:
        problem = "axis_index_groups must divide the axis into groups of equal size"
        details = [f"axis_index_groups = {groups}", f"the axis has {size} members"]
        raise misfit(subject, problem, details, "List each index once, in groups of equal size.")
    within = copy.copy(axes[0])
    within.size, within.shared = len(index_groups[0]), {**within.shared, "groups": index_groups}
    return [within]


def _dimension(subject: str, what: str, axis: int, rank: int) -> int:
    if -rank <= axis < rank:
        return axis % rank
    problem = f"{what} = {axis} is out of range for an array of rank {rank}"
    raise misfit(subject, problem, advice=f"It must be in [{-rank}, {rank}).")


def _cut_dimension(subject: str, what: str, axis: int, shape: Shape, size: int, tiled: bool) -> int:
    """Return the index of a dimension that can be split into one part for each member."""
    at = _dimension(subject, what, axis, shape.rank)
    length = shape.dimensions[at]
    if length != size and not (tiled and size and length % size == 0):
        parts = f"a part for each of {size} members"
        problem = f"dimension {at} of size {length} cannot be split into {parts}"
        wanted = (
            "a multiple of the axis size"
            if tiled
            else "the axis size; larger parts need tiled=True"
        )
        details = [f"x {shape}", f"{what} = {at}, tiled = {tiled}"]
        raise misfit(subject, problem, details, f"Its size must be {wanted}.")
    return at


def _reduced(
    subject: str,
    operation: type[AxisOperation],
    x: PyTree,
    axis_name: AxisName,
    groups: Lists,
    **attributes: object,
) -> PyTree:
    for axis in _axes(subject, axis_name, groups):
        x = jax.tree.map(partial(axis.apply, operation, **attributes), x)
    return x


@documented(_SHARED)
@checks_kinds
def psum(x: Tree, axis_name: AxisName, *, axis_index_groups: Lists = None) -> Tree:
    """Sum `x` over a mapped axis, for every index of the axis (JAX: `jax.lax.psum`).

    Booleans are counted. A Python scalar is multiplied by the size of the axis.

    Example:
        >>> mx.vmap(lambda x: x / mx.psum(x, "i"), axis_name="i")(np.float32([1, 3]))
        Array([0.25, 0.75], dtype=float32)
    """
    if isinstance(x, (int, float, complex)) and not isinstance(x, bool):
        size = math.prod([axis.size for axis in _axes("psum", axis_name, axis_index_groups)])
        return x * size  # type: ignore[return-value]  # a scalar returns a scalar
    return _reduced("psum", AxisSum, jax.tree.map(_counted, x), axis_name, axis_index_groups)


def _counted(leaf: ArrayLike) -> ArrayLike:
    """Convert booleans to s32, which can be added."""
    shape = shape_of(leaf, "psum")
    if isinstance(shape, Shape) and shape.element_type.kind == "pred":
        return ops.convert_element_type(_state.trace.lift(leaf, "psum"), "s32")
    return leaf


@documented(_SHARED)
@checks_kinds
def pmean(x: Tree, axis_name: AxisName, *, axis_index_groups: Lists = None) -> Tree:
    """Take the mean of `x` over a mapped axis (JAX: `jax.lax.pmean`).

    Example:
        >>> mx.vmap(lambda x: x - mx.pmean(x, "i"), axis_name="i")(np.float32([1, 5, 3]))
        Array([-2.,  2.,  0.], dtype=float32)
    """
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    return jax.tree.map(lambda leaf: leaf / count, total)


@documented(_SHARED)
@checks_kinds
def pmax(x: Tree, axis_name: AxisName, *, axis_index_groups: Lists = None) -> Tree:
    """Take the maximum of `x` over a mapped axis (JAX: `jax.lax.pmax`).

    Example:
        >>> mx.vmap(lambda x: x - mx.pmax(x, "i"), axis_name="i")(np.int32([1, 5, 3]))
        Array([-4,  0, -2], dtype=int32)
    """
    return _reduced("pmax", AxisExtreme, x, axis_name, axis_index_groups, kind="max")


@documented(_SHARED)
@checks_kinds
def pmin(x: Tree, axis_name: AxisName, *, axis_index_groups: Lists = None) -> Tree:
    """Take the minimum of `x` over a mapped axis (JAX: `jax.lax.pmin`).

    Example:
        >>> mx.vmap(lambda x: x - mx.pmin(x, "i"), axis_name="i")(np.int32([1, 5, 3]))
        Array([0, 4, 2], dtype=int32)
    """
    return _reduced("pmin", AxisExtreme, x, axis_name, axis_index_groups, kind="min")


@documented(_SHARED)
@checks_kinds
def ppermute(x: Tree, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Tree:
    """Send values between the indices of a mapped axis (JAX: `jax.lax.ppermute`).

    Args:
        axis_name: the name of the axis.
        perm: pairs of source and target; indices that are not a target get zeros.

    Returns:
        A pytree like `x`.

    Raises:
        TransformError: a source or target is repeated or is out of range for the axis.

    Example:
        >>> turn = [(0, 1), (1, 2), (2, 0)]
        >>> mx.vmap(lambda x: mx.ppermute(x, "i", turn), axis_name="i")(np.int32([1, 2, 3]))
        Array([3, 1, 2], dtype=int32)
    """
    (axis,) = _axes("ppermute", axis_name, is_one=True)
    pairs = tuple([(int(source), int(target)) for source, target in perm])
    for what, numbers in (("source", [s for s, _ in pairs]), ("target", [t for _, t in pairs])):
        if len(set(numbers)) != len(numbers) or not all(0 <= n < axis.size for n in numbers):
            problem = f"a {what} is repeated or out of range for the axis"
            details = [f"perm = {pairs}", f"the axis has {axis.size} members"]
            advice = "Each index sends at most once and receives at most once."
            raise misfit("ppermute", problem, details, advice)
    return jax.tree.map(lambda leaf: axis.apply(axis_operations.AxisPermute, leaf, pairs=pairs), x)


@documented(_SHARED)
@checks_kinds
def all_gather(
    x: Tree,
    axis_name: AxisName,
    *,
    axis_index_groups: Lists = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Tree:
    """Gather the values of all indices of a mapped axis (JAX: `jax.lax.all_gather`).

    Args:
        axis_name: the name of the axis.
        axis: the dimension along which the values are gathered.
        tiled: whether to join the values along an existing dimension, not a new one.
        to: how JAX types the result over the axis: `varying`, `reduced` or `invariant`. JAX's
            function handles the last two.

    Returns:
        A pytree like `x` of arrays with the values of all indices, equal for every index.

    Example:
        >>> mx.vmap(lambda x: mx.all_gather(x, "i"), axis_name="i")(np.int32([1, 2]))
        Array([[1, 2],
               [1, 2]], dtype=int32)
    """
    if to != "varying":
        options: dict[str, Any] = dict(
            axis_index_groups=axis_index_groups, axis=axis, tiled=tiled, to=to
        )
        return jax.lax.all_gather(x, axis_name, **options)
    (mapped,) = _axes("all_gather", axis_name, axis_index_groups, True)

    def gathered(leaf: ArrayLike) -> Array:
        rank = array_shape(leaf, "all_gather").rank
        at = _dimension("all_gather", "axis", axis, rank if tiled else rank + 1)
        part = leaf if tiled else mxnp.expand_dims(leaf, at)
        return mapped.apply(axis_operations.AxisAllGather, part, axis=at)

    return jax.tree.map(gathered, x)


@documented(_SHARED)
@checks_kinds
def psum_scatter(
    x: Tree,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Lists = None,
    tiled: bool = False,
) -> Tree:
    """Sum over a mapped axis and give each index its part (JAX: `jax.lax.psum_scatter`).

    Args:
        axis_name: the name of the axis.
        scatter_dimension: the dimension that is split into one part for each index.
        tiled: whether a part keeps the dimension; if not, its size must be that of the axis.

    Returns:
        A pytree like `x`, of parts.

    Example:
        >>> parts = mx.vmap(lambda x: mx.psum_scatter(x, "i"), axis_name="i")
        >>> parts(np.int32([[1, 2], [10, 20]]))
        Array([11, 22], dtype=int32)
    """
    (mapped,) = _axes("psum_scatter", axis_name, axis_index_groups, True)

    def scattered(leaf: ArrayLike) -> Array:
        shape, wanted = array_shape(leaf, "psum_scatter"), ("scatter_dimension", scatter_dimension)
        at = _cut_dimension("psum_scatter", *wanted, shape, mapped.size, tiled)
        part = mapped.apply(axis_operations.AxisReduceScatter, leaf, axis=at)
        return part if tiled else mxnp.squeeze(part, at)

    return jax.tree.map(scattered, x)


@documented(_SHARED)
@checks_kinds
def all_to_all(
    x: Tree,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Lists = None,
    tiled: bool = False,
) -> Tree:
    """Send part j of index i of a mapped axis to part i of index j (JAX: `jax.lax.all_to_all`).

    Args:
        axis_name: the name of the axis.
        split_axis: the dimension that is split.
        concat_axis: the dimension along which the parts are joined.
        tiled: whether both dimensions stay; if not, the first is removed and the second is new.

    Returns:
        A pytree like `x` of arrays.

    Example:
        >>> swap = mx.vmap(lambda x: mx.all_to_all(x, "i", 0, 0), axis_name="i")
        >>> swap(np.int32([[1, 2], [3, 4]]))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    (mapped,) = _axes("all_to_all", axis_name, axis_index_groups, True)

    def exchanged(leaf: ArrayLike) -> Array:
        shape = array_shape(leaf, "all_to_all")
        split = _cut_dimension("all_to_all", "split_axis", split_axis, shape, mapped.size, tiled)
        concat = _dimension("all_to_all", "concat_axis", concat_axis, shape.rank)
        if not tiled:
            # The new dimension is next to the split one until the latter is removed.
            split, concat = (split + 1, concat) if concat <= split else (split, concat + 1)
            leaf = mxnp.expand_dims(leaf, concat)
        operation = axis_operations.AxisAllToAll
        whole = mapped.apply(operation, leaf, split_axis=split, concat_axis=concat)
        return whole if tiled else mxnp.squeeze(whole, split)

    return jax.tree.map(exchanged, x)


@documented(_SHARED)
@checks_kinds
def axis_index(axis_name: AxisName) -> Array:
    """Return the index along a mapped axis (JAX: `jax.lax.axis_index`).

    Args:
        axis_name: a name, or a tuple of names; the index of the last axis varies fastest.

    Returns:
        An s32 scalar.

    Raises:
        TransformError: no axis of that name is mapped.

    Example:
        >>> mx.vmap(lambda x: x * mx.axis_index("i"), axis_name="i")(np.int32([5, 6, 7]))
        Array([ 0,  6, 14], dtype=int32)
    """
    index: Any = None
    for axis in _axes("axis_index", axis_name):
        index = axis.index() if index is None else index * axis.size + axis.index()
    return index


@documented(_SHARED)
@checks_kinds
def axis_size(axis_name: AxisName) -> int:
    """Return the size of a mapped axis (JAX: `jax.lax.axis_size`).

    Args:
        axis_name: a name, or a tuple of names, whose sizes are multiplied.

    Returns:
        A Python integer.

    Raises:
        TransformError: no axis of that name is mapped.

    Example:
        >>> mx.vmap(lambda x: x * mx.axis_size("i"), axis_name="i")(np.int32([5, 6]))
        Array([10, 12], dtype=int32)
    """
    return psum(1, axis_name)
