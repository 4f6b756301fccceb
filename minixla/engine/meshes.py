"""What JAX is told of a program's meshes: without it XLA runs everything on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from minixla.core.errors import ShardingError, explain
from minixla.core.graph import Graph
from minixla.engine.jax_private import trace_state_clean
from minixla.sharding.mesh import Mesh
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.typing import PyTree


@lru_cache(maxsize=256)
def jax_mesh(mesh: Mesh) -> jax.sharding.Mesh:
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


def is_here(mesh: Mesh) -> bool:
    """Whether JAX has the devices of a mesh."""
    return mesh.devices is not None or mesh.size <= len(jax.devices())


def check_devices(graph: Graph) -> None:
    """Raises ShardingError where JAX has fewer devices than a program needs."""
    for mesh in graph.meshes:
        if mesh.size > 1:
            jax_mesh(mesh)


@lru_cache(maxsize=256)
def abstract_mesh(mesh: Mesh) -> jax.sharding.AbstractMesh:
    """JAX's mesh of one of ours, without devices: programs for it run elsewhere."""
    types = (AxisType.Auto,) * len(mesh.axis_names)
    return jax.sharding.AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=types)


@lru_cache(maxsize=256)
def _assignment(mesh: Mesh) -> Any:
    """A mesh of JAX's whose devices have the numbers by which a program calls them.

    Where there are too few it has none.
    """
    if not is_here(mesh):
        return abstract_mesh(mesh)
    device_mesh = jax_mesh(mesh)
    if mesh.device_ids is None:
        return device_mesh
    order = np.argsort(mesh.numbers, axis=None)
    return jax.sharding.Mesh(
        device_mesh.devices.reshape(-1)[order], ("devices",), axis_types=(AxisType.Auto,)
    )


def told(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """Values in a program that JAX traces, of which it learns on which devices `graph` runs.

    Raises:
        ShardingError: its meshes have different devices, or others than JAX maps over.
    """
    meshes = [mesh for mesh in graph.meshes if mesh.size > 1 or mesh.devices is not None]
    if not meshes or not values:
        return list(values)
    around = jax.sharding.get_abstract_mesh()
    _check_devices(graph, meshes, around)
    if around.manual_axes or (around.axis_types and AxisType.Auto not in around.axis_types):
        return list(values)  # JAX knows: it is mapping, or each array's type names the mesh
    first = values[0]
    spec = PartitionSpec(*[PartitionSpec.UNCONSTRAINED] * jax.numpy.ndim(first))
    sharding = NamedSharding(_assignment(meshes[0]), spec)
    return [jax.lax.with_sharding_constraint(first, sharding), *values[1:]]


def _check_devices(graph: Graph, meshes: Sequence[Mesh], around: Any) -> None:
    """A program has one list of devices; in a function that JAX maps over a mesh, that mesh's."""
    lists = {tuple(mesh.devices.flat) for mesh in meshes if mesh.devices is not None}
    if around.manual_axes and any(mesh.shape != dict(around.shape) for mesh in meshes):
        problem = f"a function that JAX maps over the mesh {dict(around.shape)} uses another mesh"
        advice = "Inside map by vmap, or over other axes of the same mesh."
    elif len(lists) > 1 or len({mesh.size for mesh in meshes}) > 1:
        problem = "meshes of one program have different devices, or the same in another order"
        advice = "Make them of one list of devices."
    else:
        return
    details = [f"mesh: {mesh}" for mesh in meshes]
    details += [f"devices: {', '.join(map(str, items))}" for items in lists]
    raise explain(ShardingError, graph.name, problem, details, advice)


def is_outermost() -> bool:
    """Whether JAX is not tracing."""
    return trace_state_clean()


def spec_of(sharding: TensorSharding) -> PartitionSpec:
    """How an argument lies that a program takes by a TensorSharding: along whole axes."""
    entries = [tuple([a.name for a in d.axes if a.size is None]) for d in sharding.dimensions]
    return PartitionSpec(*entries)


class OnMesh:
    """A function, jitted for arguments that lie over the devices of a mesh in one way.

    Those that are bound to other places are moved; the memory of `donated` ones is used again.
    """

    def __init__(
        self,
        function: Callable[..., PyTree],
        mesh: Mesh,
        specs: Sequence[PartitionSpec],
        donated: Sequence[int] = (),
    ) -> None:
        self._shardings = tuple([NamedSharding(jax_mesh(mesh), spec) for spec in specs])
        placed = {"in_shardings": self._shardings, "donate_argnums": tuple(donated)}
        # So there is one program, wherever the arguments are at first.
        self._placed = jax.jit(function, **placed)
        self._within = jax.jit(function)

    def __call__(self, *arguments: PyTree) -> PyTree:
        """The function's results."""
        if not is_outermost():
            return self._within(*arguments)
        try:
            return self._placed(*arguments)
        except ValueError:
            pairs = zip(arguments, self._shardings, strict=True)
            moved = [jax.device_put(x, at) if _is_astray(x, at) else x for x, at in pairs]
            if all(x is y for x, y in zip(moved, arguments, strict=True)):
                raise
        return self._placed(*moved)


def _is_astray(value: Any, sharding: NamedSharding) -> bool:
    """Whether JAX refuses an argument instead of moving it."""
    if isinstance(value, np.ndarray):
        return jax.process_count() > 1
    return isinstance(value, jax.Array) and value.committed and value.sharding != sharding
