"""associative_scan: all prefixes of a sequence under an associative function, in log depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.tree_util import tree_flatten, tree_unflatten

from minixla.core.errors import ShapeError, explain
from minixla.core.nesting import nested
from minixla.core.shapes import Shape
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import shape_of
from minixla.transforms.arguments import checked_function
from minixla.transforms.places import lifted_leaves, places, structure_places
from minixla_ops.movement.concatenation import concat_in_dim
from minixla_ops.movement.reshaping import reshape, rev
from minixla_ops.movement.slicing import slice_in_dim
from minixla_ops.vocabulary.shorthand import array_shape


@api_boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All prefixes of `elems` combined by an associative function (JAX: lax.associative_scan).

    Works on the whole arrays in about 2 log2(N) calls of `fn` (Blelloch, Prefix sums and their
    applications, 1990), so derivatives and batches are those of what `fn` does.

    Args:
        fn: from two pytrees like `elems` to one, element by element along `axis`; associative.
        elems: a pytree of arrays of one size along `axis`.
        reverse: whether suffixes are wanted instead.
        axis: the axis of the elements.

    Raises:
        ShapeError: arrays without the axis, of different sizes, or a result of `fn` unlike them.
    """
    checked_function(fn, "associative_scan")
    leaves, tree = tree_flatten(elems)
    leaves = lifted_leaves("associative_scan", leaves, lambda: places("elems", elems))
    axes = [_axis(leaf, axis) for leaf in leaves]
    sizes = {array_shape(leaf).dimensions[at] for leaf, at in zip(leaves, axes, strict=True)}
    if len(sizes) > 1:
        raise explain(
            ShapeError,
            "associative_scan",
            "the arrays differ in size along the axis",
            [_described(tree, leaves)],
            "All arrays must have one size along the axis.",
        )
    if not sizes:
        return elems

    def combine(first: list[Any], second: list[Any]) -> list[Any]:
        with nested():
            combined = fn(tree_unflatten(tree, first), tree_unflatten(tree, second))
        found, given = tree_flatten(combined)
        if given != tree or [shape_of(x) for x in found] != [shape_of(x) for x in first]:
            raise explain(
                ShapeError,
                "associative_scan",
                "fn returns something else than it takes",
                [
                    f"it takes {_described(tree, first)}",
                    f"it returns {_described(given, found)}",
                ],
                "It combines arrays element by element and keeps their structure and shapes.",
            )
        return found

    if reverse:
        leaves = [rev(leaf, [at]) for leaf, at in zip(leaves, axes, strict=True)]
    found = _prefixes(combine, leaves, axes, sizes.pop())
    if reverse:
        found = [rev(leaf, [at]) for leaf, at in zip(found, axes, strict=True)]
    return tree_unflatten(tree, found)


def _described(structure: Any, leaves: Sequence[Any]) -> str:
    """The shapes of arrays, each with its place in the elements."""
    named = zip(structure_places("elems", structure), leaves, strict=True)
    return ", ".join([f"{place} {shape_of(leaf)}" for place, leaf in named])


def _axis(leaf: Any, axis: int) -> int:
    shape = shape_of(leaf)
    if isinstance(shape, Shape) and -shape.rank <= axis < shape.rank:
        return axis % shape.rank
    raise explain(
        ShapeError,
        "associative_scan",
        f"an array has no axis {axis}",
        [f"array {shape}"],
        "Give an axis that all arrays have.",
    )


Combine = Callable[[list[Any], list[Any]], list[Any]]


def _prefixes(combine: Combine, leaves: list[Any], axes: list[int], size: int) -> list[Any]:
    if size < 2:
        return leaves

    def part(values: list[Any], start: int, stop: int, stride: int = 1) -> list[Any]:
        pairs = zip(values, axes, strict=True)
        return [slice_in_dim(x, start, stop, at, stride) for x, at in pairs]

    # Prefixes of pairs are those that end at odd places; those at even ones need one more element.
    pairs = combine(part(leaves, 0, size - 1, 2), part(leaves, 1, size, 2))
    half = size // 2
    odd = _prefixes(combine, pairs, axes, half)
    before = part(odd, 0, half - 1) if size % 2 == 0 else odd
    rest = part(leaves, 2, size, 2)
    even = combine(before, rest) if size > 2 else []
    first = part(leaves, 0, 1)
    if even:
        joined = zip(first, even, axes, strict=True)
        first = [concat_in_dim([a, b], at) for a, b, at in joined]
    return [_interleaved(a, b, at) for a, b, at in zip(first, odd, axes, strict=True)]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """The elements of two arrays in turn; the first may have one more."""
    shape, other = array_shape(even), array_shape(odd)
    both = other.dimensions[axis]
    rest = slice_in_dim(even, both, shape.dimensions[axis], axis)
    even = slice_in_dim(even, 0, both, axis)
    sizes = (*other.dimensions[: axis + 1], 1, *other.dimensions[axis + 1 :])
    merged = (*other.dimensions[:axis], 2 * both, *other.dimensions[axis + 1 :])
    pairs = concat_in_dim([reshape(even, sizes), reshape(odd, sizes)], axis + 1)
    return concat_in_dim([reshape(pairs, merged), rest], axis)
