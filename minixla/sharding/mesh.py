"""Meshes: grids of devices with named axes."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations
from operator import index
from typing import Any, TypeVar

import numpy as np

from minixla.core import hooks
from minixla.core.errors import ShardingError, explain
from minixla.core.stablehlo_text import quoted
from minixla.sharding.axes import AxisRef, Part, merged, size_of

Item = TypeVar("Item")

#: The name in programs of a mesh that users created.
MESH_NAME = "mesh"


class Mesh:
    """Devices in a grid of named axes (SDY: MeshAttr; JAX: jax.sharding.Mesh).

    `Mesh(jax.devices(), ("data", "model"), shape=(2, 4))` has devices.
    `Mesh(None, ("data", "model"), shape=(2, 4))` has the same axes and no devices yet: programs run
    on the first of JAX's devices. Meshes with equal axes, sizes, device ids and devices are equal.

    Args:
        devices: JAX's devices, in a sequence or an array; None if only the axes are known.
        axis_names: a name for each axis, each once.
        shape: the size of each axis; default: the shape of the array of devices.
        device_ids: an id for each device in the order of the grid, a permutation of 0, 1, ...;
            default: in order. Without axes, the single device of a maximal mesh.

    Raises:
        ShardingError: the axes or devices do not form a mesh.
    """

    def __init__(
        self,
        devices: Any = None,
        axis_names: Sequence[str] = (),
        shape: Sequence[int] | None = None,
        *,
        device_ids: Iterable[int] | None = None,
    ) -> None:
        given = (axis_names,) if isinstance(axis_names, str) else axis_names
        names = _listed_as("axis_names", given, lambda name: name)
        sizes = None if shape is None else _listed_as("shape", shape, index)
        grid = None if devices is None else _grid(devices, names, sizes)
        sizes = grid.shape if grid is not None else sizes or ()
        numbers = None if device_ids is None else _listed_as("device_ids", device_ids, index)
        _check(names, sizes, numbers)
        #: The axes' names and sizes, in order.
        self.axis_names: tuple[str, ...] = names
        self.axis_sizes: tuple[int, ...] = sizes
        is_plain = names and numbers == tuple(range(len(numbers or ())))
        #: A permutation of the device ids; None if they are in order.
        self.device_ids: tuple[int, ...] | None = None if is_plain else numbers
        #: The devices in their grid, or None.
        self.devices: Any = grid

    @classmethod
    def of(cls, mesh: Any) -> "Mesh":
        """Convert one of JAX's meshes (Mesh, AbstractMesh), or return one of ours."""
        if isinstance(mesh, Mesh):
            return mesh
        names, sizes = getattr(mesh, "axis_names", None), getattr(mesh, "axis_sizes", None)
        if names is None or sizes is None:
            problem, advice = "the value is not a mesh", "Pass a minixla or jax.sharding Mesh."
            raise explain(ShardingError, "Mesh", problem, [f"given: {mesh!r}"], advice)
        return cls(_devices(mesh), names, sizes)

    @classmethod
    def maximal(cls, device_id: int) -> "Mesh":
        """Return the mesh of a single device, given its id."""
        return cls(device_ids=[device_id])

    def to_jax(self) -> Any:
        """Return JAX's mesh, with its own devices or the first of JAX's devices.

        Raises:
            ShardingError: JAX has fewer devices.
        """
        return hooks.jax_mesh(self)

    @property
    def shape(self) -> dict[str, int]:
        """The sizes of the axes by name, in order."""
        return dict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.axis_sizes)

    @property
    def is_empty(self) -> bool:
        """True if it is only a placeholder for a mesh."""
        return not self.axis_names and self.device_ids is None

    @property
    def is_maximal(self) -> bool:
        """True if it is a single device, without axes."""
        return not self.axis_names and self.device_ids is not None

    @cached_property
    def whole_axes(self) -> dict[str, Part]:
        """The axes by name, as parts."""
        return {name: Part(name, 1, size) for name, size in self.shape.items()}

    @cached_property
    def order(self) -> dict[str, int]:
        """The index of each axis by name."""
        return {name: number for number, name in enumerate(self.axis_names)}

    def part(self, axis: AxisRef) -> Part:
        """Return an axis with its size."""
        if axis.size is None:
            return self.whole_axes[axis.name]
        return Part(axis.name, axis.pre_size, axis.pre_size * axis.size)

    def axis(self, part: Part) -> AxisRef:
        """Return a part in its written form."""
        if part == self.whole_axes[part.name]:
            return AxisRef(part.name)
        return AxisRef(part.name, part.start, part.size)

    def sorted_parts(self, parts: Iterable[Part]) -> list[Part]:
        """Return parts in the order of the mesh's axes, those of one axis from major to minor."""
        return sorted(parts, key=lambda part: (self.order[part.name], part.start))

    def listed(self, parts: Iterable[Part]) -> tuple[AxisRef, ...]:
        """Return parts as a list of axes: in the mesh's order, with neighbors merged."""
        return tuple(map(self.axis, merged(self.sorted_parts(parts))))

    def piece(self, parts: Iterable[Part], at: Mapping[str, Any]) -> Any:
        """Return the index of a device's piece along parts of axes, from its places along axes."""
        number = 0
        for part in parts:
            number = number * part.size + at[part.name] // self.minor_of(part) % part.size
        return number

    def minor_of(self, part: Part) -> int:
        """Return the number of devices along the parts of an axis that are minor to one."""
        return self.shape[part.name] // part.end

    @cached_property
    def numbers(self) -> np.ndarray:
        """The device ids in their grid."""
        return np.array(self.device_ids or range(self.size)).reshape(self.axis_sizes)

    def groups(self, names: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the groups of devices along some axes; devices along the last are adjacent."""
        at = [self.order[name] for name in names]
        along = np.moveaxis(self.numbers, at, range(-len(at), 0))
        count = math.prod([self.axis_sizes[index] for index in at])
        return tuple(map(tuple, along.reshape(-1, count).tolist()))

    def groups_along(self, parts: Sequence[Part]) -> tuple[tuple[int, ...], ...]:
        """Return the groups of devices along parts of axes; those along the last are adjacent."""
        places = np.indices(self.axis_sizes).reshape(len(self.axis_sizes), -1)
        at = dict(zip(self.axis_names, places, strict=True))
        member = np.broadcast_to(self.piece(parts, at), self.numbers.size)
        for part in parts:  # along which the members of a group differ
            at[part.name] = at[part.name] - self.piece([part], at) * self.minor_of(part)
        order = np.lexsort((member, np.ravel_multi_index(tuple(at.values()), self.axis_sizes)))
        groups = self.numbers.reshape(-1)[order].reshape(-1, size_of(parts))
        return tuple(map(tuple, groups.tolist()))

    def axes_of(self, groups: Iterable[Iterable[int]]) -> tuple[str, ...] | None:
        """Return the smallest set of axes with exactly these groups, or None."""
        wanted = set(map(frozenset, groups))
        for count in range(1, len(self.axis_names) + 1):
            for names in combinations(self.axis_names, count):
                if set(map(frozenset, self.groups(names))) == wanted:
                    return names
        return None

    def places(self, names: Sequence[str]) -> np.ndarray:
        """Return the index of each device in its group, by device id; see `groups`."""
        numbers = np.zeros(self.size, np.int32)
        for group in self.groups(names):
            numbers[list(group)] = range(len(group))
        return numbers

    def __str__(self) -> str:
        axes = ", ".join([f"{quoted(name)}={size}" for name, size in self.shape.items()])
        order = "" if self.device_ids is None else f", device_ids={list(self.device_ids)}"
        return f"<[{axes}]{order}>"

    def __repr__(self) -> str:
        return f"<Mesh {str(self)[1:-1]}>"

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        devices = None if self.devices is None else tuple(self.devices.flat)
        return self.axis_names, self.axis_sizes, self.device_ids, devices

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Mesh) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        # Devices are not pickled, because they belong to this process.
        made = partial(Mesh, None, self.axis_names, self.axis_sizes, device_ids=self.device_ids)
        return made, ()


def _devices(mesh: Any) -> Any:
    """Return the devices of one of JAX's meshes; None for an abstract one."""
    try:
        return mesh.devices
    except (AttributeError, ValueError):
        return None


def _refuse(problem: str, given: Iterable[str], advice: str) -> ShardingError:
    return explain(ShardingError, "Mesh", problem, given, advice)


def _listed_as(what: str, given: Any, read: Callable[[Any], Item]) -> tuple[Item, ...]:
    """Convert each item of a sequence; raise an error if the conversion fails."""
    try:
        return tuple([read(item) for item in given])
    except TypeError:
        advice = "Pass a sequence of names and one of integers."
        raise _refuse(f"{what} cannot be {given!r}", (), advice) from None


def _grid(devices: Any, names: Sequence[str], shape: Sequence[int] | None) -> np.ndarray:
    if isinstance(devices, (str, Mapping)):
        advice = "Pass a sequence of devices, and axis_names; or None, axis_names and shape."
        raise _refuse("devices must be a sequence of devices", [f"devices: {devices!r}"], advice)
    grid = np.asarray(devices, dtype=object)
    if shape is None:
        return grid
    if math.prod(shape) != grid.size:
        problem = f"{grid.size} devices for a grid of {math.prod(shape)}"
        details = [f"axes: {_listed(names, shape)}"]
        raise _refuse(problem, details, "The product of the axes' sizes must be their number.")
    return grid.reshape(tuple(shape))


def _listed(names: Sequence[Any], sizes: Sequence[Any]) -> str:
    return ", ".join([f"{name}={size}" for name, size in zip(names, sizes, strict=False)]) or "none"


def _check(names: Sequence[str], sizes: Sequence[int], numbers: Sequence[int] | None) -> None:
    details = [f"axes: {_listed(names, sizes)}"]
    if len(names) != len(sizes):
        details = [f"names: {', '.join(map(str, names))}", f"sizes: {tuple(sizes)}"]
        raise _refuse(f"{len(names)} names for {len(sizes)} axes", details, "Name each axis.")
    for name, size in zip(names, sizes, strict=True):
        if not isinstance(name, str) or not name:
            raise _refuse(f"axis name {name!r} is not a string", details, "Name axes by strings.")
        if list(names).count(name) > 1:
            raise _refuse(f"axis {name} is repeated", details, "Each axis needs its own name.")
        if not 0 < size < 2**63:
            raise _refuse(
                f"axis {name} has size {size}", details, "Sizes are 1 or more, in 64 bits."
            )
    if numbers is None:
        return
    details.append(f"device_ids: {', '.join(map(str, numbers[:32]))}")
    if not names:
        if len(numbers) != 1 or numbers[0] < 0:
            problem = "the device ids of a mesh without axes must be one device id"
            raise _refuse(problem, details, "Pass axes, or one device id, 0 or more.")
    elif sorted(numbers) != list(range(math.prod(sizes))):
        problem = f"the device ids must be a permutation of 0 to {math.prod(sizes) - 1}"
        advice = "Each device of the grid needs its own id; omit device_ids for 0, 1, 2 ..."
        raise _refuse(problem, details, advice)
