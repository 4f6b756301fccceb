"""What JAX is told of a program's meshes: without it XLA runs everything on one device."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from minixla.core.errors import ShardingError, explain
from minixla.core.graph import Graph

# Whether what JAX traces is compiled for devices that are not here.
_elsewhere = ContextVar("elsewhere", default=False)


@lru_cache(maxsize=256)
def jax_mesh(mesh: Any) -> jax.sharding.Mesh:
    """JAX's mesh of one of ours, on its own devices or the first of JAX's.

    Raises:
        ShardingError: JAX has fewer devices.
    """
    grid = mesh.devices
    if grid is None:
        devices = jax.devices()
        if len(devices) < mesh.size:
            problem = f"a mesh of {mesh.size} devices, of which there are {len(devices)}"
            advice = "Make a smaller mesh, or more devices on a CPU before JAX starts: "
            advice += f'jax.config.update("jax_num_cpu_devices", {mesh.size}).'
            raise explain(ShardingError, "Mesh", problem, [f"mesh: {mesh}"], advice)
        grid = np.array(devices)[mesh.numbers]
    types = (AxisType.Auto,) * grid.ndim
    return jax.sharding.Mesh(grid, mesh.axis_names, axis_types=types)


@lru_cache(maxsize=256)
def abstract_mesh(mesh: Any) -> jax.sharding.AbstractMesh:
    """JAX's mesh of one of ours without its devices: all that a compiler needs."""
    types = (AxisType.Auto,) * len(mesh.axis_sizes)
    return jax.sharding.AbstractMesh(mesh.axis_sizes, mesh.axis_names, types)


def is_here(mesh: Any) -> bool:
    """Whether JAX has the devices of a mesh."""
    return mesh.devices is not None or mesh.size <= len(jax.devices())


@contextmanager
def elsewhere() -> Iterator[None]:
    """Programs that JAX lowers inside of it are compiled for devices that need not be here."""
    token = _elsewhere.set(True)
    try:
        yield
    finally:
        _elsewhere.reset(token)


@lru_cache(maxsize=256)
def _assignment(mesh: Any) -> jax.sharding.Mesh:
    """A mesh of JAX's whose devices have the numbers by which a program calls them."""
    found = jax_mesh(mesh)
    if mesh.device_ids is None:
        return found
    order = np.argsort(mesh.numbers, axis=None)
    return jax.sharding.Mesh(
        found.devices.reshape(-1)[order], ("devices",), axis_types=(AxisType.Auto,)
    )


def told(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """Values in a program that JAX traces, of which it learns on which devices `graph` runs."""
    meshes = [mesh for mesh in graph.meshes if mesh.size > 1]
    if not meshes or not values or jax.sharding.get_abstract_mesh().manual_axes:
        return list(values)
    orders = {mesh.devices is not None and tuple(mesh.devices.flat) for mesh in meshes} - {False}
    if len(orders) > 1:
        problem = "meshes of one program have different devices, or the same in another order"
        shown = [", ".join([str(device.id) for device in each]) for each in orders if each]
        advice = "Make them of one list of devices."
        raise explain(ShardingError, graph.name, problem, shown, advice)
    first = values[0]
    spec = PartitionSpec(*[PartitionSpec.UNCONSTRAINED] * jax.numpy.ndim(first))
    is_abstract = _elsewhere.get() and not is_here(meshes[0])
    mesh = abstract_mesh(meshes[0]) if is_abstract else _assignment(meshes[0])
    sharding = NamedSharding(mesh, spec)
    return [jax.lax.with_sharding_constraint(first, sharding), *values[1:]]
