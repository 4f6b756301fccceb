"""pmap: a function run on several devices at once, each with its members of mapped axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jax.tree_util import tree_flatten, tree_unflatten

from minixla.core.errors import TransformError, explain
from minixla.core.shapes import Shape
from minixla.core.tracebacks import hiding_frames
from minixla.core.tracing import _state, weak_type_of
from minixla.engine.devices import chosen_devices, own_share
from minixla.engine.float0 import of_values, with_axis
from minixla.engine.random_keys import flatten, shapes_of_members
from minixla.transforms.arguments import (
    Cache,
    checked_function,
    flatten_axes,
    is_single,
    named_after,
    split_static,
)
from minixla.transforms.mapped_call import Axes, MappedCall
from minixla.transforms.named_axes import UNNAMED, DeviceAxis, mapped_axis
from minixla.transforms.places import argument_places, leaf_shapes
from minixla.transforms.staging import Staged, stage_once
from minixla.transforms.vmap import checked_axes, common_size, vmap


def pmap(
    fun: Callable[..., Any] | None = None,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """A function that runs `fun` on several devices at once, compiled (JAX: pmap).

    Each device gets its member of the mapped axes, which are as long as there are devices in use.
    Inside another pmap the members of the inner axis stay on the outer one's device, as in vmap.
    The function is traced once for each combination of shapes and static arguments.

    Where JAX runs in several processes, all must make the same calls. Each gives and gets the
    members of its own devices, as many as each other's; collectives are over those of all. An
    argument that is not mapped must be the same in all processes; its derivative is that of the
    whole program.

    Args:
        fun: a function of pytrees of arrays; left out where `pmap` is a decorator with options.
        axis_name: a name of the axis for collectives.
        in_axes: which axis of each array argument is mapped; see `vmap`.
        out_axes: where the mapped axis is in the results; None for a result that is the same on
            all devices, of which the first one's is taken.
        static_broadcasted_argnums: positions of arguments that are passed on as they are.
        devices: those to use, in order; default: the first ones of the backend.
        backend: the platform whose devices are used.
        axis_size: the size of the axis, over all processes; needed only where no argument is
            mapped.
        donate_argnums: positions of arguments whose memory may be used again.

    Raises:
        TransformError: fewer devices than members; axes that do not fit.
    """
    if fun is None:
        return functools.partial(
            pmap,
            axis_name=axis_name,
            in_axes=in_axes,
            out_axes=out_axes,
            static_broadcasted_argnums=static_broadcasted_argnums,
            devices=devices,
            backend=backend,
            axis_size=axis_size,
            donate_argnums=donate_argnums,
        )
    checked_function(fun, "pmap")
    name = getattr(fun, "__name__", "pmap")
    cache: dict[Any, Staged] = Cache()

    @hiding_frames
    def mapped(*args: Any, **kwargs: Any) -> Any:
        static = _positions(static_broadcasted_argnums, len(args))
        dynamic, rebuild = split_static(args, static)
        axes = in_axes
        if isinstance(axes, (list, tuple)):
            axes, _ = split_static(tuple(axes), static)

        def on_member(*positional: Any, **named: Any) -> Any:
            return fun(*rebuild(positional), **named)

        if any(isinstance(axis, DeviceAxis) for _, axis in _state.axes):
            return vmap(on_member, axes, out_axes, axis_name, axis_size)(*dynamic, **kwargs)
        leaves, tree = flatten((dynamic, kwargs))
        flat_axes = flatten_axes("pmap", "in_axes", dynamic, axes)
        flat_axes += [0] * (len(leaves) - len(flat_axes))

        def where() -> Sequence[str]:
            return argument_places(fun, args, kwargs, static)

        shapes = leaf_shapes("pmap", leaves, where)
        seen = shapes_of_members(tree, shapes)
        flat_axes = checked_axes("pmap", seen, flat_axes, where)
        share = None if axis_size is None else own_share(axis_size, devices)
        size = common_size("pmap", seen, flat_axes, share, where)
        chosen = chosen_devices(size, devices, backend)
        members = [
            shape if axis is None else shape.without_dimension(axis)  # type: ignore[union-attr]
            for shape, axis in zip(shapes, flat_axes, strict=True)
        ]
        weak = [weak_type_of(leaf) for leaf in leaves]

        def rebuilt(positional: Sequence[Any], named: dict[str, Any]) -> Any:
            return on_member(*positional, **named)

        with mapped_axis(UNNAMED if axis_name is None else axis_name, DeviceAxis(len(chosen))):
            values = [(number, args[number]) for number in static]
            staged = stage_once(cache, "pmap", rebuilt, tree, members, weak, values, name)
        first = len(staged.read)
        operation = MappedCall(
            staged.graph,
            chosen,
            (*[None] * first, *flat_axes),
            _out_axes(staged, out_axes),
            tuple([first + n for n in _donated(args, static, donate_argnums)]),
        )
        results = operation(*staged.read, *leaves)
        return with_axis(staged.results(results), size)

    return named_after(mapped, fun)


def _positions(argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    """Those of `count` arguments that are named, from the front."""
    listed: Any = [argnums] if is_single(argnums) else argnums
    return tuple(sorted({number % count for number in listed if -count <= number < count}))


def _donated(
    args: Sequence[Any], static: Sequence[int], donate_argnums: int | Sequence[int]
) -> list[int]:
    """The numbers of the arrays of donated arguments, among those of all that are not static."""
    chosen = _positions(donate_argnums, len(args))
    dynamic = [number for number in range(len(args)) if number not in static]
    owners = [number for number in dynamic for _ in tree_flatten(args[number])[0]]
    return [index for index, number in enumerate(owners) if number in chosen]


def _out_axes(staged: Staged, out_axes: Any) -> Axes:
    """The axis of each result, counted from the front."""
    shapes = shapes_of_members(staged.result_tree, list(staged.graph.output_shapes))
    tree = tree_unflatten(staged.result_tree, range(len(shapes)))
    found = []
    axes = flatten_axes("pmap", "out_axes", of_values(tree), out_axes)
    for shape, axis in zip(shapes, axes, strict=True):
        if not isinstance(shape, Shape):
            raise explain(
                TransformError,
                "pmap",
                "a result is not an array",
                [f"result on each device: {shape}"],
                "Take the members out of a tuple with get_tuple_element.",
            )
        rank = shape.rank + 1
        if axis is not None and not -rank <= axis < rank:
            raise explain(
                TransformError,
                "pmap",
                f"out_axes asks for axis {axis} of a result of rank {rank}",
                [f"result on each device: {shape}"],
                f"Give an axis in [{-rank}, {rank}), or None.",
            )
        found.append(None if axis is None else axis % rank)
    return tuple(found)
