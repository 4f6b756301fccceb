"""vmap: a function applied to every member of a batch at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.tree_util import tree_map, tree_unflatten

from minixla.core.batching import BatchTrace, BatchTracer
from minixla.core.errors import TransformError, explain
from minixla.core.roles import role
from minixla.core.shapes import Shape
from minixla.core.tracebacks import hiding_frames
from minixla.core.tracing import _state, shape_of, under, weak_type_of
from minixla.engine.float0 import is_float0, member_of, stand_in, with_axis
from minixla.engine.random_keys import flatten, key_ranks, shapes_of_members
from minixla.transforms.arguments import checked_function, flatten_axes, leaving, named_after
from minixla.transforms.named_axes import BatchAxis, mapped_axis
from minixla.transforms.places import Places, argument_places, leaf_shapes, places


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
) -> Callable[..., Any]:
    """A function that maps `fun` over array axes (JAX: vmap).

    Args:
        fun: a function of pytrees of arrays.
        in_axes: which axis of each array argument is mapped; an integer, None (not mapped), or a
            tuple or list with one entry for each positional argument, each a prefix tree of such.
            Keyword arguments are mapped over axis 0.
        out_axes: where the mapped axis is in the results; a prefix tree of integers and None.
        axis_name: a name of the axis for collectives.
        axis_size: its size; needed only where no argument is mapped.

    Raises:
        TransformError: the axes do not fit the arguments or results, or their sizes differ.
    """
    checked_function(fun, "vmap")

    @hiding_frames
    def mapped(*args: Any, **kwargs: Any) -> Any:
        axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        args, kwargs = tree_map(stand_in, (args, kwargs))
        leaves, tree = flatten((args, kwargs))
        flat_axes = flatten_axes("vmap", "in_axes", args, axes)
        flat_axes += [0] * (len(leaves) - len(flat_axes))
        parent = _state.trace
        pairs = zip(leaves, flat_axes, strict=True)
        # What is not mapped may be anything: a flag, a string.
        mapped_leaves = [0 if axis is None else leaf for leaf, axis in pairs]

        def where() -> Sequence[str]:
            return argument_places(fun, args, kwargs)

        shapes = leaf_shapes("vmap", mapped_leaves, where)
        shapes = shapes_of_members(tree, shapes)
        flat_axes = checked_axes("vmap", shapes, flat_axes, where)
        size = common_size("vmap", shapes, flat_axes, axis_size, where)
        trace = BatchTrace(parent, size, axis_name)
        inputs = [_input(trace, *pair) for pair in zip(leaves, flat_axes, strict=True)]
        positional, named = tree_unflatten(tree, inputs)
        try:
            with under(trace), mapped_axis(axis_name, BatchAxis(trace)):
                out = fun(*positional, **named)
        finally:
            trace.alive = False
        outputs, out_tree = flatten(out)
        wanted = flatten_axes("vmap", "out_axes", out, out_axes)
        ranks = key_ranks(out_tree) or [0] * len(outputs)
        results = [
            _unbatch(trace, *given, lambda i=index: places("the result", out)[i])
            for index, given in enumerate(zip(outputs, wanted, ranks, strict=True))
        ]
        return tree_unflatten(out_tree, results)

    return named_after(mapped, fun)


def checked_axes(
    subject: str, shapes: Sequence[Any], axes: Sequence[int | None], where: Places
) -> list[int | None]:
    """The axes of arguments, counted from the front; None for those that are not mapped."""
    found: list[int | None] = []
    for index, (shape, axis) in enumerate(zip(shapes, axes, strict=True)):
        if axis is not None and (
            not isinstance(shape, Shape) or not -shape.rank <= axis < shape.rank
        ):
            raise explain(
                TransformError,
                subject,
                f"in_axes maps axis {axis} of an argument that has no such axis",
                [f"{where()[index]} is {shape}"],
                "Give an axis of the array, or None to pass the argument on unmapped.",
            )
        found.append(None if axis is None else axis % shape.rank)
    return found


def common_size(
    subject: str,
    shapes: Sequence[Any],
    axes: Sequence[int | None],
    given: int | None,
    where: Places,
) -> int:
    """The size of the mapped axis."""
    sizes = {
        index: shape.dimensions[axis]
        for index, (shape, axis) in enumerate(zip(shapes, axes, strict=True))
        if axis is not None
    }
    found = set(sizes.values()) | ({given} if given is not None else set())
    if not found:
        raise explain(
            TransformError,
            subject,
            "no argument is mapped, so the size of the axis is unknown",
            [f"in_axes of the arrays: {list(axes)}"],
            "Map at least one argument, or give axis_size.",
        )
    if len(found) > 1:
        names = where()
        lines = [f"{names[i]}: {shapes[i]}, axis {axes[i]} of size {n}" for i, n in sizes.items()]
        raise explain(
            TransformError,
            subject,
            "the mapped axes have different sizes",
            lines + ([f"axis_size = {given}"] if given is not None else []),
            "All mapped axes must have one size.",
        )
    return found.pop()


def _input(trace: BatchTrace, leaf: Any, axis: int | None) -> Any:
    zeros = member_of(leaf, axis)
    if zeros is not None:
        return zeros
    return leaf if axis is None else BatchTracer(trace, leaf, axis)


def _unbatch(
    trace: BatchTrace, output: Any, axis: int | None, key_rank: int, where: Callable[[], str]
) -> Any:
    if is_float0(output):
        return output if axis is None else with_axis(output, trace.size, axis)
    is_mine = type(output) is BatchTracer and output._trace is trace
    if axis is None:
        if is_mine:
            raise explain(
                TransformError,
                "vmap",
                "out_axes is None for a result that differs over the batch",
                [f"{where()} is {output!r}"],
                "Give the axis at which the batch is wanted, or reduce over it.",
            )
        return leaving(output, trace.parent, "vmap", where)
    value = leaving(output.value if is_mine else output, trace.parent, "vmap", where)
    shape = shape_of(output)
    if not isinstance(shape, Shape):
        raise explain(
            TransformError,
            "vmap",
            f"{where()} is not an array",
            [f"it is {shape}"],
            "Take the members out of a tuple with get_tuple_element.",
        )
    source = output.dimension if is_mine else None
    rank = shape.rank + 1 - key_rank
    if not -rank <= axis < rank:
        raise explain(
            TransformError,
            "vmap",
            f"out_axes asks for axis {axis} of a result of rank {rank}",
            [f"{where()} is {output!r}"],
            f"Give an axis in [{-rank}, {rank}).",
        )
    batch = trace.parent.lift(role("move_batch")(value, source, axis % rank, trace.size))
    return trace.parent.weakly(batch) if weak_type_of(value) else batch
