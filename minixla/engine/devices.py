"""The devices of all processes, and the axes that JAX maps in the current trace."""

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import jax
import numpy as np

from minixla.core.errors import TransformError, explain
from minixla.core.state import state
from minixla.engine.jax_private import get_axis_env, trace_context


def chosen_devices(
    size: int, devices: Iterable[Any] | None, backend: str | None
) -> tuple[Any, ...]:
    """Choose the devices of all processes; each process runs `size` pieces.

    They are chosen in the order of `devices`, which is the same in all processes. The default is
    all devices of a platform, ordered by process.
    """
    if devices is not None:
        return _first_of_each(size, tuple(devices), jax.process_index())
    available = sorted(jax.devices(backend), key=lambda device: device.process_index)
    return _first_of_each(size, tuple(available), jax.process_index(backend))


@lru_cache(maxsize=256)
def _first_of_each(size: int, available: tuple[Any, ...], process: int) -> tuple[Any, ...]:
    groups = groupby(available, lambda device: device.process_index)
    owned = [(owner, list(members)) for owner, members in groups]
    if len(dict(owned)) < len(owned):
        problem = "the devices of one process must be consecutive"
        details = [
            f"processes of the devices: {', '.join(str(x.process_index) for x in available)}"
        ]
        advice = "List all devices of one process, then all devices of the next."
        raise explain(TransformError, "pmap", problem, details, advice)
    counts = {process: 0, **{owner: len(members) for owner, members in owned}}
    for owner, count in counts.items():
        if count < size:
            whose = f" of process {owner}" if len(counts) > 1 else ""
            problem = f"the mapped axis has size {size}, but there are {count} devices{whose}"
            details = [f"devices: {', '.join(map(str, available))}"]
            advice = "Map a shorter axis, or use vmap. On a CPU, create devices before JAX "
            advice += f'starts: jax.config.update("jax_num_cpu_devices", {size}), or '
            advice += f"XLA_FLAGS=--xla_force_host_platform_device_count={size}."
            raise explain(TransformError, "pmap", problem, details, advice)
    return tuple([device for _, members in owned for device in members[:size]])


def bound_axes() -> dict[Hashable, int]:
    """Return the sizes of the named axes that JAX maps in the current trace, by name."""
    return dict(get_axis_env().axis_sizes)


def surroundings() -> tuple[object, ...]:
    """Return JAX's settings and meshes, on which a program may depend besides its arguments."""
    return trace_context(), jax.sharding.get_abstract_mesh(), state.mesh


def partitions_along(name: Hashable) -> tuple[tuple[int, ...], ...] | None:
    """Return the partitions along a mesh axis of JAX's trace; None for an axis of `jax.vmap`."""
    mesh = jax.sharding.get_abstract_mesh()
    if name not in mesh.axis_names:
        return None
    numbers = np.arange(mesh.size).reshape(mesh.axis_sizes)
    along = np.moveaxis(numbers, mesh.axis_names.index(name), -1)
    return tuple(map(tuple, along.reshape(-1, along.shape[-1]).tolist()))


def own_count(devices: Sequence[Any]) -> int:
    """Return how many of the devices belong to this process."""
    return [device.process_index for device in devices].count(jax.process_index())


def own_share(axis_size: int, devices: Sequence[Any] | None) -> int:
    """Return how many elements of an axis over all processes belong to this process."""
    if devices is not None and len(devices) == axis_size:
        return own_count(devices)
    return axis_size // jax.process_count()
