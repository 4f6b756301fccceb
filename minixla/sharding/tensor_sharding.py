"""The sharding of an array over the devices of a mesh."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from minixla.core.errors import ShardingError, check_arguments, explain
from minixla.core.shapes import Shape
from minixla.core.stablehlo_text import symbol_text
from minixla.sharding.axes import AxisRef, Part, size_of
from minixla.sharding.mesh import Mesh

#: The largest priority; SDY has 64 bits.
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DimensionSharding:
    """The axes along which one dimension is sharded (SDY: DimensionShardingAttr).

    Attributes:
        axes: axes and parts of axes, major to minor.
        is_closed: whether propagation must not add axes.
        priority: the round in which propagation begins to use it; None is 0, the first.
    """

    axes: tuple[AxisRef, ...] = ()
    is_closed: bool = True
    priority: int | None = None

    def __str__(self) -> str:
        parts = [*map(str, self.axes), *(() if self.is_closed else ("?",))]
        priority = "" if self.priority is None else f"p{self.priority}"
        return f"{{{', '.join(parts)}}}{priority}"


@dataclass(frozen=True, init=False)
class TensorSharding:
    """The sharding of an array over a mesh (SDY: TensorShardingAttr).

    Axes in none of the lists are also replicated, and propagation may still use them.

    Attributes:
        mesh: the mesh.
        dimensions: the axes of each dimension.
        replicated: axes along which all devices hold the same values, which nothing else may use.
        unreduced: axes along which devices hold parts of a sum.
        mesh_name: the name of the mesh in programs; None if it is written out.

    Raises:
        ShardingError: axes are unknown, used twice, or not in their normal form.
    """

    mesh: Mesh
    dimensions: tuple[DimensionSharding, ...]
    replicated: tuple[AxisRef, ...]
    unreduced: tuple[AxisRef, ...]
    mesh_name: str | None

    # An explicit method, because a dataclass's would be reported as the user's line in errors.
    def __init__(
        self,
        mesh: Mesh,
        dimensions: Sequence[DimensionSharding] = (),
        replicated: Sequence[AxisRef] = (),
        unreduced: Sequence[AxisRef] = (),
        mesh_name: str | None = None,
    ) -> None:
        try:
            axes = {"replicated": tuple(replicated), "unreduced": tuple(unreduced)}
            fields = {"mesh": mesh, "dimensions": tuple(dimensions), **axes, "mesh_name": mesh_name}
            vars(self).update(fields)
            _check(self)
        except (AttributeError, TypeError):  # checked here, because propagation creates many
            are_dimensions = _are(DimensionSharding, dimensions) and all(
                _are(AxisRef, dimension.axes) for dimension in dimensions
            )
            check_arguments(
                "TensorSharding",
                mesh=(mesh, isinstance(mesh, Mesh), "a Mesh"),
                dimensions=(
                    dimensions,
                    are_dimensions,
                    "a DimensionSharding for each, of AxisRefs",
                ),
                replicated=(replicated, _are(AxisRef, replicated), "a list of AxisRefs"),
                unreduced=(unreduced, _are(AxisRef, unreduced), "a list of AxisRefs"),
            )
            raise

    @classmethod
    def open(cls, mesh: Mesh, rank: int, mesh_name: str | None = None) -> "TensorSharding":
        """Return the empty sharding: every dimension is open, without axes."""
        return cls(mesh, (DimensionSharding((), False),) * rank, mesh_name=mesh_name)

    @classmethod
    def closed(cls, mesh: Mesh, rank: int, mesh_name: str | None = None) -> "TensorSharding":
        """Return the closed sharding without axes."""
        return cls(mesh, (DimensionSharding(),) * rank, mesh_name=mesh_name)

    @classmethod
    def from_spec(cls, mesh: Any, spec: Any, rank: int) -> "TensorSharding":
        """Return the sharding of an array for a PartitionSpec.

        Args:
            mesh: a mesh, of ours or JAX's.
            spec: `jax.sharding.PartitionSpec`, or a sequence of its entries: for each dimension an
                axis, a tuple of axes, None for no axes, or `PartitionSpec.UNCONSTRAINED` for open.
            rank: the number of dimensions; those beyond the spec are closed.

        Raises:
            ShardingError: there are more entries than dimensions, or the class raises it.
        """
        mesh, entries = Mesh.of(mesh), getattr(spec, "partitions", spec)
        if isinstance(entries, str) or not isinstance(entries, Sequence):
            advice = "Pass a jax.sharding.PartitionSpec, or a sequence of its entries."
            raise explain(ShardingError, "PartitionSpec", f"{spec!r} is not a spec", (), advice)
        entries = list(entries)
        if len(entries) > rank:
            problem = f"a spec of {len(entries)} entries for an array of {rank} dimensions"
            advice = "Pass at most one entry for each dimension."
            raise explain(ShardingError, "PartitionSpec", problem, [f"spec: {spec}"], advice)
        entries += [None] * (rank - len(entries))
        unreduced = _axes(mesh, getattr(spec, "unreduced", ()))
        return cls(mesh, tuple(map(_dimension, entries)), unreduced=unreduced)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dimensions)

    @property
    def lists(self) -> list[tuple[AxisRef, ...]]:
        """The axes of each dimension, those that are replicated, and those that are unreduced."""
        return [*[dimension.axes for dimension in self.dimensions], self.replicated, self.unreduced]

    @property
    def cut_along(self) -> set[str]:
        """The names of the axes along which dimensions are sharded."""
        return {axis.name for dimension in self.dimensions for axis in dimension.axes}

    @property
    def is_closed(self) -> bool:
        """True if every dimension is closed."""
        return all(dimension.is_closed for dimension in self.dimensions)

    @property
    def is_replicated(self) -> bool:
        """True if every device holds the whole array."""
        return not self.unreduced and not any(dimension.axes for dimension in self.dimensions)

    @cached_property
    def parts(self) -> tuple[tuple[Part, ...], ...]:
        """The axes of each dimension with their sizes."""
        return tuple([tuple(map(self.mesh.part, dimension.axes)) for dimension in self.dimensions])

    def of(self, **changed: Any) -> "TensorSharding":
        """Return a copy with some attributes changed."""
        return replace(self, **changed)

    def with_parts(self, parts: Iterable[Sequence[Part]]) -> "TensorSharding":
        """Return a copy with other axes for each dimension; changed ones lose their priority."""
        dimensions = [
            old if now == was else DimensionSharding(tuple(map(self.mesh.axis, now)), old.is_closed)
            for old, was, now in zip(self.dimensions, self.parts, map(tuple, parts), strict=True)
        ]
        return replace(self, dimensions=dimensions)

    def replicated_along(self, names: Iterable[str], mesh_name: str | None) -> "TensorSharding":
        """Return a copy with more whole axes along which all devices hold the same values."""
        parts = [*map(self.mesh.part, self.replicated), *[self.mesh.whole_axes[n] for n in names]]
        return replace(self, replicated=self.mesh.listed(parts), mesh_name=mesh_name)

    def local_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of one device's piece of an array of `sizes`, including padding."""
        if self.mesh.is_maximal:
            return tuple(sizes)
        pairs = zip(sizes, self.parts, strict=True)
        return tuple([-(-size // size_of(parts)) for size, parts in pairs])

    def local_shape(self, shape: Any) -> Any:
        """Return the shape of one device's piece; only arrays of static size change."""
        if not isinstance(shape, Shape) or shape.is_dynamic:
            return shape
        return shape.with_dimensions(self.local_sizes(shape.dimensions))

    def spec(self) -> tuple[Any, ...]:
        """Return the entries of a PartitionSpec, which lacks parts of axes and priorities.

        Entries are None, a name or a tuple of names, and `...` for an open dimension without axes.
        """
        return tuple(map(_entry, self.dimensions))

    def check_rank(self, shape: Any, subject: str = "sharding") -> None:
        """Raise ShardingError if the sharding does not fit an array of a shape."""
        rank = getattr(shape, "rank", 0)
        if self.mesh.is_maximal or self.rank == rank:
            return
        problem = f"a sharding of {self.rank} dimensions for an array of {rank}"
        advice = "Pass axes, or none, for each dimension."
        raise explain(ShardingError, subject, problem, [f"{shape} with {self}"], advice)

    @property
    def attribute(self) -> str:
        """The text of the attribute: `#sdy.sharding<@mesh, [{"x"}, {?}]>`."""
        return f"#sdy.sharding{self}"

    def saying_nothing(self, shape: Any) -> "TensorSharding":
        """Return the empty sharding on the same mesh, for another shape."""
        return TensorSharding.open(self.mesh, getattr(shape, "rank", 0), self.mesh_name)

    def __str__(self) -> str:
        return self.text(self.mesh_name)

    def text(self, mesh_name: str | None) -> str:
        """Return the text with another name of the mesh, or with the mesh written out."""
        mesh = f"mesh{self.mesh}" if mesh_name is None else symbol_text(mesh_name)
        return f"<{mesh}, {self.layout_text}>"

    @property
    def shown(self) -> str:
        """The text for people, without quotes."""
        return self.layout_text.replace('"', "")

    @property
    def layout_text(self) -> str:
        """The text without the mesh: `[{"x"}, {?}], replicated={"y"}`."""
        texts = [f"[{', '.join(map(str, self.dimensions))}]"]
        for name in ("replicated", "unreduced"):
            axes = getattr(self, name)
            texts += [f"{name}={{{', '.join(map(str, axes))}}}"] if axes else []
        return ", ".join(texts)


def _dimension(entry: Any) -> DimensionSharding:
    if isinstance(entry, DimensionSharding):
        return entry
    if entry is ... or repr(entry) == "UNCONSTRAINED":  # PartitionSpec's
        return DimensionSharding((), False)
    given = () if entry is None else [entry] if isinstance(entry, (str, AxisRef)) else entry
    axes = list(map(_axis, given)) if isinstance(given, (tuple, list)) else [None]
    if None in axes:
        advice = "Pass an axis, a tuple of axes, or None for each dimension."
        raise explain(
            ShardingError, "PartitionSpec", f"{entry!r} is not an entry of a spec", (), advice
        )
    return DimensionSharding(tuple(filter(None, axes)))


def _axis(given: Any) -> AxisRef | None:
    """Return an axis from its name, (name, pre_size, size) or itself; None for others."""
    if isinstance(given, str):
        return AxisRef(given)
    return AxisRef(*given) if isinstance(given, tuple) and len(given) == 3 else None


def _entry(dimension: DimensionSharding) -> Any:
    names = tuple([axis.name for axis in dimension.axes])
    if not names:
        return None if dimension.is_closed else ...
    return names[0] if len(names) == 1 else names


def _axes(mesh: Mesh, names: Any) -> tuple[AxisRef, ...]:
    order = mesh.order
    return tuple(map(AxisRef, sorted(names or (), key=lambda name: order.get(name, -1))))


def _are(kind: type, values: Any) -> bool:
    return isinstance(values, (tuple, list)) and all(isinstance(value, kind) for value in values)


def _check(sharding: TensorSharding) -> None:
    """Check SDY's rules of a tensor sharding."""
    mesh, lists = sharding.mesh, sharding.lists
    if not mesh.axis_names and any(lists):
        problem = "a mesh without axes cannot shard dimensions"
        raise _refusal(sharding, problem, "Pass empty dimensions.")
    if mesh.is_maximal and sharding.dimensions:
        problem = (
            f"on a mesh of one device, the sharding must have no dimensions; got {sharding.rank}"
        )
        raise _refusal(sharding, problem, "Omit the dimensions.")
    for number, dimension in enumerate(sharding.dimensions):
        if dimension.priority is not None and not 0 <= dimension.priority <= _MOST:
            problem = f"dimension {number} has priority {dimension.priority}"
            raise _refusal(sharding, problem, "Priorities are 0 or more.")
        if dimension.priority is not None and dimension.is_closed and not dimension.axes:
            problem = f"dimension {number} has a priority, but is empty and closed"
            advice = "Omit the priority: there is nothing to propagate."
            raise _refusal(sharding, problem, advice)
    seen: dict[str, list[Part]] = {}
    for axes in lists:
        _check_list(sharding, axes, seen)
    for name in ("replicated", "unreduced"):
        parts = [mesh.part(axis) for axis in getattr(sharding, name)]
        if parts != mesh.sorted_parts(parts):
            order = f"The mesh has them in the order {', '.join(mesh.axis_names)}."
            raise _refusal(sharding, f"the {name} axes are not in the mesh's order", order)


def _check_list(
    sharding: TensorSharding, axes: Sequence[AxisRef], seen: dict[str, list[Part]]
) -> None:
    """Check the axes of a dimension, or of another list, given those `seen` before."""
    mesh, last = sharding.mesh, None
    for axis in axes:
        problem = _problem_of(mesh, axis)
        if problem:
            raise _refusal(sharding, *problem)
        part = mesh.part(axis)
        for other in seen.get(axis.name, ()):
            if part.overlaps(other):
                problem = f"axis {axis} is used twice, or overlaps another part of its axis"
                raise _refusal(sharding, problem, "Use each axis, or part, once.")
            if not part.can_coexist(other):
                problem = f"parts {axis} and {mesh.axis(other)} cannot be parts of one axis"
                advice = "The size of each part must divide the size of each larger part."
                raise _refusal(sharding, problem, advice)
        if last is not None and last.can_merge(part):
            problem = f"adjacent parts {mesh.axis(last)} and {axis} must be written as one"
            raise _refusal(
                sharding, problem, f"Write {mesh.axis(last.merged(part))} in their place."
            )
        seen.setdefault(axis.name, []).append(part)
        last = part


def _problem_of(mesh: Mesh, axis: AxisRef) -> tuple[str, str] | None:
    """Return why an axis or part is not valid in a mesh, and advice; None if it is valid."""
    size = mesh.shape.get(axis.name)
    if size is None:
        advice = f"The mesh has {', '.join(mesh.axis_names) or 'no axes'}."
        return f'axis "{axis.name}" is unknown', advice
    major, own = axis.pre_size, axis.size
    if own is not None and (major < 1 or own <= 1 or size % (major * own) or own == size):
        rule = f'A part (m)k of axis "{axis.name}" of size {size} has k > 1, k < {size}, and '
        return f"{axis} is not a part of its axis", f"{rule}m * k divides {size}."
    return None


def _refusal(sharding: TensorSharding, problem: str, advice: str) -> ShardingError:
    details = [f"sharding: {sharding}", f"mesh: {sharding.mesh}"]
    return explain(ShardingError, "sharding", problem, details, advice)
