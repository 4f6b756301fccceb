"""The pass that removes axes of size one from shardings."""

from dataclasses import replace

from minixla.sharding.program import Program
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding
from minixla.sharding.value_shardings import change_shardings, keep_axes


def remove_size_one_axes(program: Program) -> None:
    """Remove axes of size one from every sharding (SDY: sdy-remove-size-one-axes).

    Meshes and lists of manual axes keep them.
    """
    change_shardings(program, _without_ones)


def _without_ones(sharding: TensorSharding) -> TensorSharding:
    sizes = sharding.mesh.shape
    if 1 not in sizes.values():
        return sharding
    emptied = [_without_priority(dimension, sizes) for dimension in sharding.dimensions]
    return keep_axes(sharding.of(dimensions=tuple(emptied)), lambda axis: sizes[axis.name] != 1)


def _without_priority(dimension: DimensionSharding, sizes: dict[str, int]) -> DimensionSharding:
    """Return a dimension without its priority if it has no axes left."""
    is_empty = dimension.is_closed and all(sizes[axis.name] == 1 for axis in dimension.axes)
    return replace(dimension, priority=None) if is_empty else dimension
