"""The devices of all processes, and the axes over which JAX maps what it is tracing."""

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
    """The devices of all processes, each of which has `size` pieces to run.

    They are chosen in the order of `devices`, the same in all processes; by default from all of a
    platform, those of the first process first.
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
        problem = "the devices of one process do not stand together"
        details = [
            f"processes of the devices: {', '.join(str(x.process_index) for x in available)}"
        ]
        advice = "Give all devices of one process, then all of the next."
        raise explain(TransformError, "pmap", problem, details, advice)
    counts = {process: 0, **{owner: len(members) for owner, members in owned}}
    for owner, count in counts.items():
        if count < size:
            whose = f" of process {owner}" if len(counts) > 1 else ""
            problem = f"the mapped axis has {size} members, but there are {count} devices{whose}"
            details = [f"devices: {', '.join(map(str, available))}"]
            advice = "Map a shorter axis, or use vmap. On a CPU, devices can be made before JAX "
            advice += f'starts: jax.config.update("jax_num_cpu_devices", {size}), or '
            advice += f"XLA_FLAGS=--xla_force_host_platform_device_count={size}."
            raise explain(TransformError, "pmap", problem, details, advice)
    return tuple([device for _, members in owned for device in members[:size]])


def bound_axes() -> dict[Hashable, int]:
    """The sizes of the named axes over which JAX maps what it is tracing, by name."""
    return dict(get_axis_env().axis_sizes)


def surroundings() -> tuple[object, ...]:
    """Return what a program may depend on besides its arguments: JAX's settings and meshes."""
    return trace_context(), jax.sharding.get_abstract_mesh(), state.mesh


def partitions_along(name: Hashable) -> tuple[tuple[int, ...], ...] | None:
    """The partitions that meet over an axis of the mesh of JAX's trace; None: `jax.vmap`'s axis."""
    mesh = jax.sharding.get_abstract_mesh()
    if name not in mesh.axis_names:
        return None
    numbers = np.arange(mesh.size).reshape(mesh.axis_sizes)
    along = np.moveaxis(numbers, mesh.axis_names.index(name), -1)
    return tuple(map(tuple, along.reshape(-1, along.shape[-1]).tolist()))


def own_count(devices: Sequence[Any]) -> int:
    """How many of the devices belong to this process."""
    return [device.process_index for device in devices].count(jax.process_index())


def own_share(axis_size: int, devices: Sequence[Any] | None) -> int:
    """How many members of an axis over all processes this process has."""
    if devices is not None and len(devices) == axis_size:
        return own_count(devices)
    return axis_size // jax.process_count()
