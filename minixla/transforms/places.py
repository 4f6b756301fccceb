"""Where in the user's pytrees a leaf stands (`params['w'][0]`): asked once something is wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.tree_util import keystr, tree_unflatten

from minixla.core.errors import MinixlaError
from minixla.core.shapes import AnyShape
from minixla.core.tracing import _state, check_value, shape_of
from minixla.engine.float0 import of_values
from minixla.engine.random_keys import leaf_paths

#: Gives the place of each leaf, in their order.
Places = Callable[[], Sequence[str]]


def places(name: str, tree: Any) -> list[str]:
    """The places of the leaves of a pytree that the user calls `name`."""
    return [name + keystr(path) for path in leaf_paths(of_values(tree))]


def structure_places(name: str, structure: Any) -> list[str]:
    """The places of the leaves of pytrees of a structure."""
    return places(name, tree_unflatten(structure, range(structure.num_leaves)))


def parameter_names(fun: Callable[..., Any], count: int) -> list[str]:
    """What a function calls the first `count` of its positional arguments."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [each.name for each in parameters if each.kind <= each.POSITIONAL_OR_KEYWORD]
    rest = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), "argument")
    first = len(names)
    return [*names, *(f"{rest}[{i - first}]" for i in range(first, count))][:count]


def chosen_places(
    fun: Callable[..., Any], args: Sequence[Any], numbers: Sequence[int]
) -> list[str]:
    """The places of the leaves of some positional arguments, in the order of their numbers."""
    names = parameter_names(fun, len(args))
    return [each for n in numbers for each in places(f"argument {names[n]}", args[n])]


def argument_places(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    static: int | Sequence[int] = (),
) -> list[str]:
    """The places of the leaves of `(args, kwargs)`, without the static positional arguments."""
    count = len(args)
    listed = (static,) if isinstance(static, int) else static
    skipped = {number % count for number in listed if -count <= number < count}
    found = chosen_places(fun, args, [n for n in range(count) if n not in skipped])
    for name in sorted(kwargs or ()):
        found += places(f"argument {name}", kwargs[name])  # type: ignore[index]  # it has names
    return found


def check_leaves(subject: str, leaves: Sequence[Any], where: Sequence[str]) -> None:
    """Checks leaves that were refused somewhere; of its own arrays JAX knows better.

    Raises:
        ShapeError: one is no array; the message names its place.
        IntegerRangeError: one is a Python int that is too large.
    """
    for leaf, place in zip(leaves, where, strict=True):
        if not hasattr(leaf, "aval"):
            check_value(leaf, subject, place)


def leaf_shapes(subject: str, leaves: Sequence[Any], where: Places) -> list[AnyShape]:
    """The shapes of the leaves of a pytree.

    Raises:
        ShapeError: one is no array; the message names its place.
        IntegerRangeError: one is a Python int that is too large.
    """
    try:
        shapes = [shape_of(leaf, subject) for leaf in leaves]
        if int in map(type, leaves):
            for leaf in leaves:
                check_value(leaf, subject)
        return shapes
    except MinixlaError:
        for leaf, place in zip(leaves, where(), strict=True):
            check_value(leaf, subject, place)
        raise


def lifted_leaves(subject: str, leaves: Sequence[Any], where: Places) -> list[Any]:
    """The leaves of a pytree as values of the current trace.

    Raises:
        ShapeError: one is no array; the message names its place.
        IntegerRangeError: one is a Python int that is too large.
    """
    lift = _state.trace.lift
    try:
        return [lift(leaf, subject) for leaf in leaves]
    except MinixlaError:
        for leaf, place in zip(leaves, where(), strict=True):
            check_value(leaf, subject, place)
        raise


def difference(name: str, one: str, first: Any, other: str, second: Any) -> list[str]:
    """Lines of a message that show where two structures differ.

    Args:
        name: what the user calls what has the structures.
        one: what has the first structure, for instance `it takes`.
        first: a structure.
        other: what has the second one.
        second: another structure.
    """
    here, there = structure_places(name, first), structure_places(name, second)
    lost = [f"{one} {each}, {other} none" for each in here if each not in there]
    added = [f"{other} {each}, {one} none" for each in there if each not in here]
    return [*lost[:3], *added[:3]]
