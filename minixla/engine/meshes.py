"""What JAX is told of a program's meshes: without it XLA runs everything on one device."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax._src.sharding_impls import ShardingContext
from jax.extend.mlir import ir
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from minixla.core.errors import ShardingError, explain
from minixla.core.graph import Graph
from minixla.sharding.mesh import Mesh
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.text import parse_sharding


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
    sharding = NamedSharding(_assignment(meshes[0]), spec)
    return [jax.lax.with_sharding_constraint(first, sharding), *values[1:]]


def split(context: Any, operands: Sequence[Any], kinds: Sequence[Any], graph: Graph) -> Graph:
    """A program that JAX lowers, in which each device runs on its pieces what XLA does not split.

    Its operands are values of the module that `context` is about, of JAX's abstract values `kinds`.
    """
    axes = context.axis_context
    if not graph.has_pieces or not isinstance(axes, ShardingContext) or axes.num_devices == 1:
        return graph
    from minixla.sharding.per_shard import on_pieces  # loads propagation

    return on_pieces(graph.pruned(), list(map(_sharding_of, operands, kinds)))


def _sharding_of(value: Any, kind: Any) -> TensorSharding | None:
    """How a value lies as far as JAX knows: by its type, or by what is said where it is made."""
    typed = kind.sharding
    if any(typed.spec):
        return TensorSharding.from_spec(Mesh.of(typed.mesh), typed.spec, kind.ndim)
    if isinstance(value, ir.BlockArgument):
        attributes: Any = value.owner.owner.attributes
        listed = list(attributes["arg_attrs"]) if "arg_attrs" in attributes else []
        own: Any = listed[value.arg_number] if listed else {}
        return _read(str(own["sdy.sharding"])) if "sdy.sharding" in own else None
    if value.owner.name != "sdy.sharding_constraint":
        return None
    found = _read(str(value.owner.attributes["sharding"]))
    is_open = found is not None and found.is_replicated and not found.is_closed
    return _sharding_of(value.owner.operands[0], kind) if is_open else found


def _read(text: str) -> TensorSharding | None:
    # Programs from elsewhere may call meshes by name.
    return parse_sharding(text) if "mesh<" in text else None
