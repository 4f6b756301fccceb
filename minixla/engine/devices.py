"""Programs on several devices, a piece of each mapped array on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec

from minixla.core.errors import TransformError, explain
from minixla.core.graph import Graph
from minixla.engine.program import run_graph

__all__ = ["chosen_devices", "run_mapped"]

_AXIS = "devices"


def chosen_devices(
    size: int, devices: Sequence[Any] | None, backend: str | None
) -> tuple[Any, ...]:
    """The devices that `size` pieces run on.

    Raises:
        TransformError: there are too few.
    """
    found = list(devices) if devices is not None else jax.devices(backend)
    if len(found) >= size:
        return tuple(found[:size])
    raise explain(
        TransformError,
        "pmap",
        f"the mapped axis has {size} members, but there are {len(found)} devices",
        [f"devices: {', '.join(map(str, found))}"],
        "Map a shorter axis, or use vmap. On a CPU, devices can be made before JAX starts: "
        f'jax.config.update("jax_num_cpu_devices", {size}), or '
        f"XLA_FLAGS=--xla_force_host_platform_device_count={size}.",
    )


def run_mapped(
    graph: Graph,
    operands: Sequence[Any],
    in_axes: Sequence[int | None],
    out_axes: Sequence[int | None],
    devices: tuple[Any, ...],
    donated: tuple[int, ...] = (),
) -> list[Any]:
    """The results of a program run on every device for its pieces of the operands.

    Args:
        graph: takes and gives the pieces, without the mapped axes.
        operands: JAX arrays or tracers.
        in_axes: the mapped axis of each operand; None gives the whole to every device.
        out_axes: where the devices are in each result; None takes that of the first device.
        devices: one for each member of the axes.
        donated: the numbers of operands whose memory may be used again.
    """
    key = ("mapped", tuple(in_axes), tuple(out_axes), devices, donated)
    found = graph.memo.get(key)
    if found is None:
        mapped = _mapped(graph, in_axes, out_axes, devices)
        found = graph.memo[key] = jax.jit(mapped, donate_argnums=donated)
    return list(found(*operands))


def _mapped(
    graph: Graph,
    in_axes: Sequence[int | None],
    out_axes: Sequence[int | None],
    devices: tuple[Any, ...],
) -> Callable[..., Any]:
    def on_each(*pieces: Any) -> list[Any]:
        members = [
            piece if axis is None else jax.numpy.squeeze(piece, axis)
            for piece, axis in zip(pieces, in_axes, strict=True)
        ]
        results = run_graph(graph, members)
        return [
            result if axis is None else jax.numpy.expand_dims(result, axis)
            for result, axis in zip(results, out_axes, strict=True)
        ]

    mesh = Mesh(np.array(devices), (_AXIS,), axis_types=(AxisType.Auto,))
    return jax.shard_map(
        on_each,
        mesh=mesh,
        in_specs=tuple(map(_spec, in_axes)),
        out_specs=list(map(_spec, out_axes)),
        check_vma=False,
    )


def _spec(axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, _AXIS)
