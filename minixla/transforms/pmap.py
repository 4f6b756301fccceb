"""pmap: a function run on several devices at once, each with its members of mapped axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jax.tree_util import tree_flatten, tree_leaves, tree_unflatten

from minixla.core.tracing import _state
from minixla.engine.devices import chosen_devices, own_share
from minixla.engine.float0 import is_float0, of_values, places, with_axis
from minixla.engine.random_keys import shapes_of_members
from minixla.transforms.arguments import (
    Arguments,
    Cache,
    checked_function,
    flatten_axes,
    in_place_of,
    split_static,
)
from minixla.transforms.mapped_call import Axes, MappedCall
from minixla.transforms.named_axes import UNNAMED, DeviceAxis, mapped_axis
from minixla.transforms.places import check_leaves, numbers_among
from minixla.transforms.staging import Staged, stage_once
from minixla.transforms.vmap import mapped_shapes, out_axis, vmap


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
        options = locals()
        return functools.partial(pmap, **{n: v for n, v in options.items() if n != "fun"})
    checked_function(fun, "pmap")
    cache: dict[Any, Staged] = Cache()

    @in_place_of(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        static = numbers_among(static_broadcasted_argnums, len(args))
        given = Arguments.besides("pmap", fun, args, kwargs, static)
        axes = in_axes
        if isinstance(axes, (list, tuple)):
            axes, _ = split_static(tuple(axes), static)
        if any(isinstance(axis, DeviceAxis) for _, axis in _state.axes):

            def on_member(*positional: Any, **named: Any) -> Any:
                return given.apply(positional, named)

            inner = vmap(on_member, axes, out_axes, axis_name, axis_size)
            return inner(*given.given, **kwargs)
        leaves = tree_leaves(whole := (given.given, kwargs))
        if any(map(is_float0, leaves)):
            check_leaves("pmap", leaves, places("argument", whole, True))
        share = None if axis_size is None else own_share(axis_size, devices)
        shapes, flat_axes, size = mapped_shapes("pmap", given, axes, share)
        chosen = chosen_devices(size, devices, backend)
        pairs = zip(shapes, flat_axes, strict=True)
        members = [x if axis is None else x.without_dimension(axis) for x, axis in pairs]
        traced = given.apply, given.tree, members, given.weak(), given.name
        with mapped_axis(UNNAMED if axis_name is None else axis_name, DeviceAxis(len(chosen))):
            values = [(number, args[number]) for number in static]
            staged = stage_once(cache, "pmap", values, *traced)
        read, donated = staged.read, _donated(args, static, donate_argnums)
        operation = MappedCall(
            staged.graph,
            chosen,
            (*[None] * len(read), *flat_axes),
            _out_axes(staged, out_axes),
            tuple([len(read) + n for n in donated]),
        )
        return with_axis(staged.results(operation(*read, *given.leaves)), size)

    return mapped


def _donated(
    args: Sequence[Any], static: Sequence[int], donate_argnums: int | Sequence[int]
) -> list[int]:
    """The numbers of the arrays of donated arguments, among those of all that are not static."""
    chosen = numbers_among(donate_argnums, len(args))
    dynamic = [number for number in range(len(args)) if number not in static]
    owners = [number for number in dynamic for _ in tree_flatten(args[number])[0]]
    return [index for index, number in enumerate(owners) if number in chosen]


def _out_axes(staged: Staged, out_axes: Any) -> Axes:
    """The axis of each result, counted from the front."""
    shapes = shapes_of_members(staged.result_tree, list(staged.graph.output_shapes))
    tree = tree_unflatten(staged.result_tree, range(len(shapes)))
    axes = flatten_axes("pmap", "out_axes", of_values(tree), out_axes)
    pairs = zip(shapes, axes, strict=True)
    return tuple(
        [out_axis("pmap", x, at, lambda x=x: f"result on each device: {x}") for x, at in pairs]
    )
