"""vmap: apply a function to all elements of a batch at once."""

from collections.abc import Callable, Hashable, Sequence

from jax.tree_util import tree_map, tree_unflatten

from minixla.core.argument_kinds import checks_kinds
from minixla.core.batching import BatchTrace
from minixla.core.registry import role
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import _state, shape_of, under, weak_type_of
from minixla.engine.float0 import is_float0, member_of, places, stand_in, with_axis
from minixla.engine.random_keys import flatten, key_ranks, shapes_of_members
from minixla.transforms.arguments import Arguments, flatten_prefix, in_place_of, leaving, misfit
from minixla.transforms.named_axes import batch_axis, mapped_axis
from minixla.transforms.pytree_paths import leaf_shapes
from minixla.transforms.sharing import shares
from minixla.transforms.typed_functions import Parameters, Result
from minixla.typing import ArrayLike, PyTree


@shares
@checks_kinds
def vmap(
    fun: Callable[Parameters, Result],
    in_axes: int | Sequence[PyTree] | None = 0,
    out_axes: PyTree = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable | tuple[Hashable, ...] | None = None,
) -> Callable[Parameters, Result]:
    """Map `fun` over array axes (JAX: vmap).

    Args:
        fun: a function of pytrees of arrays.
        in_axes: the mapped axis of each array argument: an integer, None (not mapped), or a tuple
            or list with a prefix tree of these for each positional argument. Keyword arguments are
            mapped over axis 0.
        out_axes: the mapped axis of each result; a prefix tree of integers and None.
        axis_name: a name of the axis for collectives.
        axis_size: its size; required only if no argument is mapped.
        spmd_axis_name: the mesh axes along which the mapped axis is sharded in sharding constraints
            of `fun`. It has no effect: minixla's constraints leave that axis to XLA.

    Returns:
        A function of arrays that also have the mapped axes, like its results.

    Raises:
        TransformError: the axes do not match the arguments or results, or their sizes differ.

    Example:
        >>> mx.vmap(lambda row: row.sum())(np.int32([[1, 2], [3, 4]]))
        Array([3, 7], dtype=int32)
        >>> mx.vmap(lambda x, y: x * y, in_axes=(0, None))(np.int32([1, 2]), 10)
        Array([10, 20], dtype=int32)
    """

    @in_place_of(fun, "vmap")
    def mapped(*args: PyTree, **kwargs: PyTree) -> PyTree:
        arguments = Arguments("vmap", fun, *tree_map(stand_in, (args, kwargs)))
        # Unmapped arguments may be any values: a flag, a string.
        _, axes, size = mapped_shapes("vmap", arguments, in_axes, axis_size, only_mapped=True)
        trace = BatchTrace(_state.trace, size, axis_name)
        axis = None if axis_name is None else batch_axis(trace)
        triples = zip(arguments.leaves, axes, map(member_of, arguments.leaves, axes), strict=True)
        inputs = [trace.put_together([x], at) if z is None else z for x, at, z in triples]
        try:
            with under(trace), mapped_axis(axis_name, axis):
                out = arguments.call(*inputs)
                outputs, out_tree = flatten(out)
        finally:
            trace.alive = False
        wanted = flatten_prefix("vmap", "out_axes", out, out_axes)
        ranks = key_ranks(out_tree) or [0] * len(outputs)
        results = [
            _unbatch(trace, *row, lambda i=index: places("the result", out, True)[i])
            for index, row in enumerate(zip(outputs, wanted, ranks, strict=True))
        ]
        return tree_unflatten(out_tree, results)

    return mapped


def mapped_shapes(
    subject: str, arguments: Arguments, in_axes: PyTree, size: int | None, only_mapped: bool = False
) -> tuple[list[AnyShape], list[int | None], int]:
    """Return leaves' shapes (with `only_mapped`, of arrays), their mapped axes, and the size."""
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    listed = flatten_prefix(subject, "in_axes", arguments.given, axes)
    listed += [0] * (len(arguments.leaves) - len(listed))
    leaves, sizes = arguments.leaves, {}
    if only_mapped:
        leaves = [0 if axis is None else leaf for leaf, axis in zip(leaves, listed, strict=True)]
    shapes = leaf_shapes(subject, leaves, arguments.where)
    seen, axes = shapes_of_members(arguments.tree, shapes), list(listed)
    for index, (shape, axis) in enumerate(zip(seen, listed, strict=True)):
        if axis is None:
            continue
        if not isinstance(shape, Shape) or not -shape.rank <= axis < shape.rank:
            problem = f"in_axes maps axis {axis}, which the argument lacks"
            advice = "Pass an axis of the array, or None for an unmapped argument."
            raise misfit(subject, problem, [f"{arguments.where()[index]} is {shape}"], advice)
        axes[index] = axis % shape.rank
        sizes[index] = shape.dimensions[axis]
    lengths = {*sizes.values(), *([] if size is None else [size])}
    if len(lengths) == 1:
        return shapes, axes, lengths.pop()
    if not lengths:
        problem = "no argument is mapped, so the size of the axis is unknown"
        details = [f"in_axes of the arrays: {axes}"]
        raise misfit(subject, problem, details, "Map at least one argument, or pass axis_size.")
    names, problem = arguments.where(), "the mapped axes must have equal sizes"
    details = [f"{names[i]}: {seen[i]}, axis {axes[i]} of size {n}" for i, n in sizes.items()]
    details += [] if size is None else [f"axis_size = {size}"]
    raise misfit(subject, problem, details, "Map axes with equal sizes.")


def out_axis(
    subject: str,
    shape: AnyShape,
    axis: int | None,
    where: Callable[[], str],
    value: object,
    hidden: int = 0,
) -> int | None:
    """Return the mapped axis from the front; `hidden` last dimensions are not visible to users."""
    if not isinstance(shape, Shape):
        advice = "Extract elements of a tuple with get_tuple_element."
        raise misfit(subject, f"{where()} is not an array", [f"{where()} is {value!s}"], advice)
    rank = shape.rank + 1 - hidden
    if axis is None or -rank <= axis < rank:
        return None if axis is None else axis % rank
    problem = f"out_axes has axis {axis} for a result of rank {rank}"
    advice = f"Pass an axis in [{-rank}, {rank}), or None."
    raise misfit(subject, problem, [f"{where()} is {value!s}"], advice)


def _unbatch(
    trace: BatchTrace, output: ArrayLike, axis: int | None, key_rank: int, where: Callable[[], str]
) -> ArrayLike:
    if is_float0(output):
        return output if axis is None else with_axis(output, trace.size, axis)
    (value,), source = trace.taken_apart(output)
    if axis is None and source is not None:
        problem = "out_axes is None for a batched result"
        advice = "Pass the axis of the batch, or reduce over it."
        raise misfit("vmap", problem, [f"{where()} is {output!r}"], advice)
    (value,) = leaving([value], "vmap", lambda: [where()])
    if axis is None:
        return value
    at = out_axis("vmap", shape_of(output), axis, where, output, key_rank)
    batch = trace.parent.lift(role("move_batch")(value, source, at, trace.size))
    return trace.parent.weakly(batch) if weak_type_of(value) else batch
