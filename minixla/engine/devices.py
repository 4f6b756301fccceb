"""Programs on several devices, a piece of each mapped array on each."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import jax
import numpy as np
from jax._src.core import get_axis_env
from jax.core import Tracer as JaxTracer
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph
from minixla.core.state import state
from minixla.engine.foreign_code import raise_ours
from minixla.engine.program import run_graph

_AXIS = "devices"
Axes = Sequence[int | None]


def chosen_devices(size: int, devices: Any, backend: str | None) -> tuple[Any, ...]:
    """The devices of all processes, each of which has `size` pieces to run.

    They are chosen in the order of `devices`, the same in all processes; by default from all of a
    platform, those of the first process first.
    """
    if devices is not None:
        return _first_of_each(size, tuple(devices), jax.process_index())
    found = sorted(jax.devices(backend), key=lambda each: each.process_index)
    return _first_of_each(size, tuple(found), jax.process_index(backend))


@lru_cache(maxsize=256)
def _first_of_each(size: int, found: tuple[Any, ...], process: int) -> tuple[Any, ...]:
    groups = groupby(found, lambda device: device.process_index)
    owned = [(owner, list(each)) for owner, each in groups]
    if len(dict(owned)) < len(owned):
        problem = "the devices of one process do not stand together"
        shown = [f"processes of the devices: {', '.join(str(x.process_index) for x in found)}"]
        advice = "Give all devices of one process, then all of the next."
        raise explain(TransformError, "pmap", problem, shown, advice)
    counts = {process: 0, **{owner: len(each) for owner, each in owned}}
    for owner, count in counts.items():
        if count < size:
            whose = f" of process {owner}" if len(counts) > 1 else ""
            problem = f"the mapped axis has {size} members, but there are {count} devices{whose}"
            shown = [f"devices: {', '.join(map(str, found))}"]
            advice = "Map a shorter axis, or use vmap. On a CPU, devices can be made before JAX "
            advice += f'starts: jax.config.update("jax_num_cpu_devices", {size}), or '
            advice += f"XLA_FLAGS=--xla_force_host_platform_device_count={size}."
            raise explain(TransformError, "pmap", problem, shown, advice)
    return tuple([device for _, each in owned for device in each[:size]])


def bound_axes() -> dict[Any, int]:
    """The sizes of the named axes over which JAX maps what it is tracing, by name."""
    return dict(get_axis_env().axis_sizes)


def surroundings() -> tuple[Any, ...]:
    """What a function's program may depend on besides its arguments: axes in JAX, meshes."""
    return get_axis_env().axis_sizes, jax.sharding.get_abstract_mesh(), state.mesh


def partitions_along(name: Any) -> tuple[tuple[int, ...], ...] | None:
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


def run_mapped(
    graph: Graph,  # takes and gives the pieces, without the mapped axes
    operands: Sequence[Any],  # JAX arrays or tracers
    in_axes: Axes,  # the mapped axis of each operand; None gives the whole to every device
    out_axes: Axes,  # where the devices are in each result; None takes that of the first device
    devices: tuple[Any, ...],  # one for each member of the axes
    donated: tuple[int, ...] = (),  # the operands whose memory may be used again
) -> list[Any]:
    """The results of a program run on every device for its pieces of the operands.

    Where some of the devices are other processes', all must make the same call, each with the
    pieces of its own devices.
    """
    is_traced = any(isinstance(operand, JaxTracer) for operand in operands)
    mesh, given, wanted = _mesh(devices), tuple(map(_spec, in_axes)), list(map(_spec, out_axes))
    shardings = tuple([NamedSharding(mesh, spec) for spec in given])
    key = ("mapped", given, *wanted, devices, donated, is_traced)

    def on_each(*pieces: Any) -> list[Any]:
        pairs = zip(pieces, in_axes, strict=True)
        members = [x if at is None else jax.numpy.squeeze(x, at) for x, at in pairs]
        pairs = zip(run_graph(graph, members), out_axes, strict=True)
        return [x if at is None else jax.numpy.expand_dims(x, at) for x, at in pairs]

    def compiled() -> Callable[..., Any]:
        specs = {"in_specs": given, "out_specs": wanted}
        mapped = jax.shard_map(on_each, mesh=mesh, **specs, check_vma=False)
        # With them there is one program, wherever the operands are at first; they would bind an
        # enclosing program to its first operands' places.
        places: Any = {} if is_traced else {"in_shardings": shardings}
        return jax.jit(mapped, donate_argnums=donated, **places)

    found = graph.remembered(key, compiled)
    try:
        own = own_count(devices)
        if own == len(devices):
            return list(found(*map(_placed, operands, shardings)))
        if not is_traced:
            # This process's members; other processes run the same with theirs.
            from jax.experimental import multihost_utils  # slow to load, and rarely needed

            operands = list(operands)
            wide = multihost_utils.host_local_array_to_global_array(operands, mesh, list(given))
            return multihost_utils.global_array_to_host_local_array(found(*wide), mesh, wanted)
    except RuntimeError as error:
        raise_ours(error, "pmap")
        raise
    problem = "devices of other processes cannot take part in a program that JAX traces"
    shown = [f"{len(devices)} devices, {own} of this process"]
    advice = "Call it outside of jit and of JAX's transformations: what is mapped is compiled "
    advice += "already, and mx.grad, mx.jvp and mx.vmap go around it."
    raise explain(TransformError, "pmap", problem, shown, advice)


def _placed(operand: Any, wanted: NamedSharding) -> Any:
    """An operand; moved there where it is bound to other devices."""
    if isinstance(operand, JaxTracer) or not operand.committed or operand.sharding == wanted:
        return operand
    return jax.device_put(operand, wanted)


@lru_cache(maxsize=256)
def _mesh(devices: tuple[Any, ...]) -> Mesh:
    return Mesh(np.array(devices), (_AXIS,), axis_types=(AxisType.Auto,))


def _spec(axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, _AXIS)
