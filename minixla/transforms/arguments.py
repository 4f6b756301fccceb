"""What transformations share about arguments: positions, static ones, prefix trees."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jax.tree_util import tree_flatten, tree_structure

from minixla.core.errors import TransformError, explain

__all__ = ["flatten_axes", "named_after", "positions", "split_static"]

Function = TypeVar("Function", bound=Callable[..., Any])


def named_after(wrapper: Function, fun: Callable[..., Any]) -> Function:
    """`wrapper` with the name, documentation and signature of `fun`."""
    try:
        return functools.wraps(fun)(wrapper)
    except AttributeError:
        return wrapper


def positions(argnums: int | Sequence[int], count: int, subject: str) -> tuple[int, ...]:
    """Argument positions as non-negative numbers.

    Raises:
        TransformError: a position is out of range.
    """
    listed = [argnums] if isinstance(argnums, int) else list(argnums)
    found = []
    for number in map(operator.index, listed):
        if not -count <= number < count:
            raise explain(
                TransformError,
                subject,
                f"argnums names argument {number}, but {count} positional arguments were given",
                [f"argnums = {argnums}"],
                "Only positional arguments can be named; count from 0.",
            )
        found.append(number % count)
    return tuple(found)


def split_static(
    args: Sequence[Any], static_argnums: int | Sequence[int]
) -> tuple[tuple[Any, ...], Callable[[Sequence[Any]], list[Any]]]:
    """The arguments that are not static, and how to put them back among the static ones."""
    listed = [static_argnums] if isinstance(static_argnums, int) else static_argnums
    static = {number % len(args): None for number in listed if -len(args) <= number < len(args)}
    dynamic = tuple(arg for index, arg in enumerate(args) if index not in static)

    def rebuild(replaced: Sequence[Any]) -> list[Any]:
        following = iter(replaced)
        return [arg if index in static else next(following) for index, arg in enumerate(args)]

    return dynamic, rebuild


def flatten_axes(subject: str, name: str, tree: Any, axes: Any) -> list[Any]:
    """One axis for each leaf of `tree` from a prefix tree of axes, in which None is a leaf.

    Raises:
        TransformError: `axes` is no prefix of `tree`, or holds something else than int and None.
    """
    found: list[Any] = []

    def walk(axis: Any, subtree: Any) -> None:
        leaves = len(tree_flatten(subtree)[0])
        if axis is None or isinstance(axis, int):
            found.extend([axis] * leaves)
            return
        children, structure = tree_flatten(axis, is_leaf=lambda x: x is not axis)
        try:
            matching = structure.flatten_up_to(subtree)
        except (TypeError, ValueError) as error:
            raise _no_prefix(subject, name, tree, axes, str(error)) from None
        if not children and leaves:
            raise _no_prefix(subject, name, tree, axes, f"no axis for {leaves} arrays")
        for child, part in zip(children, matching, strict=True):
            if child is axis:
                raise _no_prefix(subject, name, tree, axes, f"{axis!r} is no axis")
            walk(child, part)

    walk(axes, tree)
    return found


def _no_prefix(subject: str, name: str, tree: Any, axes: Any, reason: str) -> TransformError:
    return explain(
        TransformError,
        subject,
        f"{name} does not fit the structure that it describes",
        [f"{name} = {axes!r}", f"structure: {tree_structure(tree)}", reason.splitlines()[0]],
        f"{name} is an integer, None, or a tree of these that is a prefix of the structure.",
    )


