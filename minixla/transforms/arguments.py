"""What transformations share about arguments: positions, static ones, prefix trees."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from jax.tree_util import tree_flatten, tree_structure

from minixla.core.errors import MinixlaError, TransformError, explain
from minixla.core.tracing import Trace, Tracer, check_value, leaked
from minixla.transforms.places import places

Function = TypeVar("Function", bound=Callable[..., Any])


class Cache(dict[Any, Any]):
    """What a function keeps of its calls; where the function is unpickled it begins anew."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Cache, ()


def named_after(wrapper: Function, fun: Callable[..., Any]) -> Function:
    """`wrapper` with the name, documentation and signature of `fun`."""
    functools.update_wrapper(wrapper, fun)
    return wrapper


def checked_function(fun: Any, subject: str) -> Any:
    """`fun`, which must be callable.

    Raises:
        TransformError: it is not.
    """
    if not callable(fun):
        raise explain(
            TransformError,
            subject,
            f"it was given {type(fun).__name__} instead of a function",
            [repr(fun)[:200]],
            f"Give the function itself, not its result: mx.{subject}(f), not mx.{subject}(f(x)).",
        )
    return fun


def is_single(argnums: int | Sequence[int]) -> bool:
    """Whether `argnums` is one number rather than a sequence."""
    return not isinstance(argnums, Iterable)


def positions(argnums: int | Sequence[int], count: int, subject: str) -> tuple[int, ...]:
    """Argument positions as non-negative numbers.

    Raises:
        TransformError: a position is out of range, or named twice.
    """
    found: list[int] = []
    for number in map(operator.index, [argnums] if is_single(argnums) else argnums):  # type: ignore[arg-type]
        if not -count <= number < count:
            raise explain(
                TransformError,
                subject,
                f"argnums names argument {number}, but {count} positional arguments were given",
                [f"argnums = {argnums}"],
                "Only positional arguments can be named; count from 0.",
            )
        if number % count in found:
            raise explain(
                TransformError,
                subject,
                f"argnums names argument {number % count} twice",
                [f"argnums = {argnums}"],
                "Name each argument once.",
            )
        found.append(number % count)
    return tuple(found)


def leaving(value: Any, parent: Trace, subject: str, where: Callable[[], str]) -> Any:
    """A result of a transformed function as a value of the trace that it returns to.

    Args:
        value: the result.
        parent: the trace.
        subject: the transformation, for messages.
        where: gives the place of the result in what the function returned.

    Raises:
        LeakedTracerError: it is a tracer of another transformation.
        ShapeError: it is no array.
    """
    if isinstance(value, Tracer) and not parent.reaches(value):
        raise leaked(value, subject)
    try:
        return parent.lift(value, subject)
    except MinixlaError:
        check_value(value, subject, where())
        raise


def leaving_all(values: Sequence[Any], parent: Trace, subject: str, out: Any) -> list[Any]:
    """The leaves of what a transformed function returned, by `leaving`.

    Args:
        values: the leaves.
        parent: the trace that they return to.
        subject: the transformation, for messages.
        out: what the function returned, whose places the messages name.
    """
    return [
        leaving(value, parent, subject, lambda i=index: places("the result", out)[i])
        for index, value in enumerate(values)
    ]


def split_static(
    args: Sequence[Any], static_argnums: int | Sequence[int]
) -> tuple[tuple[Any, ...], Callable[[Sequence[Any]], list[Any]]]:
    """The arguments that are not static, and how to put them back among the static ones."""
    listed: Any = [static_argnums] if is_single(static_argnums) else static_argnums
    static = {number % len(args): None for number in listed if -len(args) <= number < len(args)}
    dynamic = tuple(arg for index, arg in enumerate(args) if index not in static)

    def rebuild(replaced: Sequence[Any]) -> list[Any]:
        following = iter(replaced)
        return [arg if index in static else next(following) for index, arg in enumerate(args)]

    return dynamic, rebuild


class StaticArguments:
    """Which arguments of a function are static: named by position, by name, or by either.

    Args:
        fun: the function, whose signature says which name stands where.
        argnums: positions, one or several; None: none.
        argnames: names, one or several; None: none.
    """

    def __init__(self, fun: Callable[..., Any], argnums: Any, argnames: Any) -> None:
        self._argnums = _as_tuple(argnums)
        self._argnames = _as_tuple(argnames)
        self._is_any = bool(self._argnums or self._argnames)
        self._parameters = _parameter_names(fun) if self._is_any else ()

    def numbers(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The positions of the static ones among positional arguments."""
        if not self._is_any:
            return ()
        count = len(args)
        named = [self._parameters.index(n) for n in self._argnames if n in self._parameters]
        numbers = [n % count for n in self._argnums if -count <= n < count]
        return tuple(sorted({*numbers, *(n for n in named if n < count)}))

    def split_names(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The static ones among arguments by name, and the others."""
        if not self._is_any:
            return {}, kwargs
        count = len(self._parameters)
        by_number = {self._parameters[n] for n in self._argnums if -count <= n < count}
        names = by_number.union(self._argnames)
        static = {name: value for name, value in kwargs.items() if name in names}
        return static, {n: v for n, v in kwargs.items() if n not in static}


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, (int, str)) else tuple(value)


def _parameter_names(fun: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters; none where Python does not know them."""
    try:
        return tuple(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        return ()


def flatten_axes(subject: str, name: str, tree: Any, axes: Any) -> list[Any]:
    """One axis for each leaf of `tree` from a prefix tree of axes, in which None is a leaf.

    Raises:
        TransformError: `axes` is no prefix of `tree`, or holds something else than int and None.
    """
    listed, structure = tree_flatten(axes, is_leaf=lambda x: x is None)
    for axis in listed:
        if axis is not None and not isinstance(axis, int):
            raise _no_prefix(subject, name, tree, axes, f"{axis!r} is no axis")
    try:
        parts = structure.flatten_up_to(tree)
    except (TypeError, ValueError) as error:
        raise _no_prefix(subject, name, tree, axes, str(error)) from None
    counts = [tree_structure(part).num_leaves for part in parts]
    return [axis for axis, n in zip(listed, counts, strict=True) for _ in range(n)]


def _no_prefix(subject: str, name: str, tree: Any, axes: Any, reason: str) -> TransformError:
    return explain(
        TransformError,
        subject,
        f"{name} does not fit the structure that it describes",
        [f"{name} = {axes!r}", f"structure: {tree_structure(tree)}", reason.splitlines()[0]],
        f"{name} is an integer, None, or a tree of these that is a prefix of the structure.",
    )
