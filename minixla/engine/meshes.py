"""Pass a program's meshes to JAX; otherwise XLA runs the program on one device."""

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
    """Convert a mesh to a JAX mesh, on its own devices or the first devices of JAX.

    Raises:
        ShardingError: JAX has fewer devices.
    """
    grid = mesh.devices
    if grid is None:
        devices = jax.devices()
        if len(devices) < mesh.size:
            problem = f"a mesh needs {mesh.size} devices, but there are {len(devices)}"
            advice = "Make a smaller mesh, or create more CPU devices before JAX starts: "
            advice += f'jax.config.update("jax_num_cpu_devices", {mesh.size}).'
            raise explain(ShardingError, "Mesh", problem, [f"mesh: {mesh}"], advice)
        grid = np.array(devices)[mesh.numbers]
    types = (AxisType.Auto,) * grid.ndim
    return jax.sharding.Mesh(grid, mesh.axis_names, axis_types=types)


def is_here(mesh: Mesh) -> bool:
    """Return whether JAX has the devices of a mesh."""
    return mesh.devices is not None or mesh.size <= len(jax.devices())


def check_devices(graph: Graph) -> None:
    """Raise ShardingError if JAX has fewer devices than a program needs."""
    for mesh in graph.meshes:
        if mesh.size > 1:
            jax_mesh(mesh)


@lru_cache(maxsize=256)
def abstract_mesh(mesh: Mesh) -> jax.sharding.AbstractMesh:
    """Convert a mesh to a JAX mesh without devices, for programs that run elsewhere."""
    types = (AxisType.Auto,) * len(mesh.axis_names)
    return jax.sharding.AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=types)


@lru_cache(maxsize=256)
def _assignment(mesh: Mesh) -> Any:
    """Return a JAX mesh whose devices are in the order of a program's device numbers.

    If JAX has too few devices, it is an abstract mesh.
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
    """Return a program's values under JAX's trace, so that JAX knows the devices of `graph`.

    Raises:
        ShardingError: its meshes differ in their devices, or from the mesh that JAX maps over.
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
    """Check that the meshes have one list of devices: that of JAX's mesh, if JAX maps over one."""
    lists = {tuple(mesh.devices.flat) for mesh in meshes if mesh.devices is not None}
    if around.manual_axes and any(mesh.shape != dict(around.shape) for mesh in meshes):
        problem = f"a function that JAX maps over the mesh {dict(around.shape)} uses another mesh"
        advice = "Use vmap inside, or map over other axes of the same mesh."
    elif len(lists) > 1 or len({mesh.size for mesh in meshes}) > 1:
        problem = "the meshes of a program must have the same devices in the same order"
        advice = "Create them from one list of devices."
    else:
        return
    details = [f"mesh: {mesh}" for mesh in meshes]
    details += [f"devices: {', '.join(map(str, items))}" for items in lists]
    raise explain(ShardingError, graph.name, problem, details, advice)


def is_outermost() -> bool:
    """Return whether JAX is not tracing."""
    return trace_state_clean()


def spec_of(sharding: TensorSharding) -> PartitionSpec:
    """Return the PartitionSpec of an argument with a TensorSharding over whole axes."""
    entries = [tuple([a.name for a in d.axes if a.size is None]) for d in sharding.dimensions]
    return PartitionSpec(*entries)


class OnMesh:
    """A function jitted for arguments with given shardings over a mesh.

    Arguments committed to other devices are moved; the memory of `donated` arguments is reused.
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
        # One program, wherever the arguments are initially.
        self._placed = jax.jit(function, **placed)
        self._within = jax.jit(function)

    def __call__(self, *arguments: PyTree) -> PyTree:
        """Call the function."""
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
    """Return whether JAX rejects an argument instead of moving it."""
    if isinstance(value, np.ndarray):
        return jax.process_count() > 1
    return isinstance(value, jax.Array) and value.committed and value.sharding != sharding
