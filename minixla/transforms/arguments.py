"""What transformations share about arguments: positions, static ones, prefix trees."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from jax.tree_util import tree_flatten, tree_structure, tree_unflatten

from minixla.core.errors import MinixlaError, TransformError, explain
from minixla.core.tracebacks import hiding_frames
from minixla.core.tracing import Trace, Tracer, check_value, leaked, weak_type_of
from minixla.engine.float0 import flatten
from minixla.transforms.places import (
    argument_places,
    chosen_places,
    leaf_shapes,
    lifted_leaves,
    numbers_among,
    parameters_of,
    places,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # the standard library has it from 3.13 on

#: The attribute that names the others that are methods.
METHODS = "__jitted_methods__"
Function = TypeVar("Function", bound=Callable[..., Any])

#: The error for arguments that do not fit; takes what `explain` takes, without the class.
misfit = functools.partial(explain, TransformError)


class Cache(dict[Any, Any]):
    """What a function keeps of its calls; where the function is unpickled it begins anew."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Cache, ()


def named_after(wrapper: Function, fun: Callable[..., Any]) -> Function:
    """`wrapper` with the name, documentation and signature of `fun`."""
    functools.update_wrapper(wrapper, fun)
    for name in wrapper.__dict__.pop(METHODS, ()):  # they are of the jitted function alone
        del wrapper.__dict__[name]
    return wrapper


def in_place_of(fun: Callable[..., Any]) -> Callable[[Function], Function]:
    """A decorator: the function that a transformation gives for `fun`, with its name."""
    return lambda wrapper: named_after(hiding_frames(wrapper), fun)


def checked_function(fun: Any, subject: str) -> Any:
    """`fun`, which must be callable.

    Raises:
        TransformError: it is not.
    """
    if not callable(fun):
        raise misfit(
            subject,
            f"it was given {type(fun).__name__} instead of a function",
            [repr(fun)[:200]],
            f"Give the function itself, not its result: mx.{subject}(f), not mx.{subject}(f(x)).",
        )
    return fun


def is_single(argnums: Any) -> TypeIs[int | str]:
    """Whether `argnums` is one number rather than a sequence."""
    return not isinstance(argnums, Iterable)


def positions(argnums: int | Sequence[int], count: int, subject: str) -> tuple[int, ...]:
    """Argument positions as non-negative numbers.

    Raises:
        TransformError: a position is out of range, or named twice.
    """
    found: list[int] = []
    for number in map(operator.index, [argnums] if is_single(argnums) else argnums):
        problem = advice = ""
        if not -count <= number < count:
            problem = f"argument {number}, but {count} positional arguments were given"
            advice = "Only positional arguments can be named; count from 0."
        elif number % count in found:
            problem, advice = f"argument {number % count} twice", "Name each argument once."
        if problem:
            given = [f"argnums = {argnums}"]
            raise misfit(subject, f"argnums names {problem}", given, advice)
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
        leaving(value, parent, subject, lambda i=index: places("the result", out, True)[i])
        for index, value in enumerate(values)
    ]


def split_static(
    args: Sequence[Any], static_argnums: int | Sequence[int]
) -> tuple[tuple[Any, ...], Callable[[Sequence[Any]], list[Any]]]:
    """The arguments that are not static, and how to put them back among the static ones."""
    static = numbers_among(static_argnums, len(args))
    dynamic = tuple(arg for index, arg in enumerate(args) if index not in static)

    def rebuild(replaced: Sequence[Any]) -> list[Any]:
        following = iter(replaced)
        return [arg if index in static else next(following) for index, arg in enumerate(args)]

    return dynamic, rebuild


class Arguments:
    """The arguments of a call, of which some are taken apart into leaves.

    Args:
        subject: the transformation, for messages.
        fun: the function that is called.
        args: its arguments by position.
        kwargs: those by name that are taken apart; None where that is not asked for.
        numbers: the positions of those that are taken apart; default: all.
        fixed: those by name that the function gets as they are.

    Attributes:
        given: the positional arguments that are taken apart.
        leaves: the values in what is taken apart.
        tree: the structure of `given`, or of the pair of `given` and `kwargs`.
    """

    __slots__ = (
        *("_args", "_fixed", "_fun", "_is_single", "_kwargs", "_numbers", "_subject"),
        *("given", "leaves", "tree"),
    )

    def __init__(
        self,
        subject: str,
        fun: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        numbers: Sequence[int] | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        self._subject, self._fun, self._args = subject, fun, args
        self._kwargs, self._numbers, self._fixed = kwargs, numbers, fixed or {}
        self._is_single = False
        self.given = tuple(args if numbers is None else [args[number] for number in numbers])
        self.leaves, self.tree = flatten(self.given if kwargs is None else (self.given, kwargs))

    @classmethod
    def besides(
        cls,
        subject: str,
        fun: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        static: int | Sequence[int],
    ) -> Arguments:
        """All but the static ones, which are named by position."""
        skipped = numbers_among(static, len(args))
        numbers = [n for n in range(len(args)) if n not in skipped] if skipped else None
        return cls(subject, fun, args, kwargs, numbers)

    @classmethod
    def chosen(
        cls,
        subject: str,
        fun: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        argnums: int | Sequence[int],
    ) -> Arguments:
        """Those that are named by position; the function gets the others as they are."""
        found = cls(subject, fun, args, None, positions(argnums, len(args), subject), kwargs)
        found._is_single = is_single(argnums)
        return found

    @property
    def name(self) -> str:
        """The function's."""
        return getattr(self._fun, "__name__", "main")

    def where(self) -> list[str]:
        """The places of the leaves, for messages."""
        numbers = range(len(self._args)) if self._numbers is None else self._numbers
        found = chosen_places(self._fun, self._args, numbers)
        return found + argument_places(self._fun, (), self._kwargs)

    def shapes(self) -> list[Any]:
        """The shapes of the leaves, which must be arrays."""
        return leaf_shapes(self._subject, self.leaves, self.where)

    def lifted(self) -> list[Any]:
        """The leaves as values of the current trace."""
        return lifted_leaves(self._subject, self.leaves, self.where)

    def weak(self) -> list[bool]:
        """For each leaf whether it is weakly typed."""
        return list(map(weak_type_of, self.leaves))

    def alike(self, leaves: Sequence[Any]) -> Any:
        """Others in the structure of `given`, or of the only one that was chosen."""
        found = tree_unflatten(self.tree, leaves)
        return found[0] if self._is_single else found

    def apply(
        self, positional: Sequence[Any], named: Mapping[str, Any] = MappingProxyType({})
    ) -> Any:
        """What the function gives for others in place of what was taken apart."""
        if self._numbers is not None:
            whole = list(self._args)
            for number, value in zip(self._numbers, positional, strict=True):
                whole[number] = value
            positional = whole
        return self._fun(*positional, **named, **self._fixed)

    def call(self, *leaves: Any) -> Any:
        """What the function gives for other leaves."""
        found = tree_unflatten(self.tree, leaves)
        return self.apply(found) if self._kwargs is None else self.apply(*found)


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
        self._parameters = [each.name for each in parameters_of(fun)] if self._is_any else []

    def numbers(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The positions of the static ones among positional arguments."""
        if not self._is_any:
            return ()
        named = [self._parameters.index(n) for n in self._argnames if n in self._parameters]
        return numbers_among({*numbers_among(self._argnums, len(args)), *named}, len(args))

    def split_names(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The static ones among arguments by name, and the others."""
        if not self._is_any:
            return {}, kwargs
        numbers = numbers_among(self._argnums, len(self._parameters))
        names = {*self._argnames, *[self._parameters[n] for n in numbers]}
        static = {name: value for name, value in kwargs.items() if name in names}
        return static, {n: v for n, v in kwargs.items() if n not in static}


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, (int, str)) else tuple(value)


def flatten_axes(subject: str, name: str, tree: Any, axes: Any) -> list[Any]:
    """One axis for each leaf of `tree` from a prefix tree of axes, in which None is a leaf.

    Raises:
        TransformError: `axes` is no prefix of `tree`, or holds something else than int and None.
    """
    if axes is None or type(axes) is int:
        return [axes] * tree_structure(tree).num_leaves

    def problem(axis: Any) -> str:
        return "" if axis is None or isinstance(axis, int) else f"{axis!r} is no axis"

    return flatten_prefix(subject, name, tree, axes, "an integer", problem=problem)


def flatten_prefix(
    subject: str,
    name: str,
    tree: Any,
    prefix: Any,
    what: str,
    is_leaf: Callable[[Any], bool] = lambda x: x is None,
    problem: Callable[[Any], str] = lambda x: "",
) -> list[Any]:
    """One leaf of a prefix tree for each leaf of `tree`.

    Args:
        subject: the transformation, for messages.
        name: what the user calls the prefix tree.
        tree: the whole one.
        prefix: the prefix tree.
        what: what its leaves are, or None.
        is_leaf: what else than arrays is a leaf of it.
        problem: what is wrong with a leaf of it.

    Raises:
        TransformError: it is no prefix of `tree`, or has a wrong leaf.
    """
    listed, structure = tree_flatten(prefix, is_leaf=is_leaf)
    parts, reason = [], next(filter(None, map(problem, listed)), "")
    try:
        parts = [] if reason else structure.flatten_up_to(tree)
    except (TypeError, ValueError) as error:
        reason = str(error)
    if reason:
        given = tree_structure(tree)
        shown = [f"{name} = {prefix!r}", f"structure: {given}", reason.splitlines()[0]]
        advice = f"{name} is {what}, None, or a tree of these that is a prefix of the structure."
        raise misfit(subject, f"{name} does not fit the structure that it describes", shown, advice)
    counts = [tree_structure(part).num_leaves for part in parts]
    return [leaf for leaf, n in zip(listed, counts, strict=True) for _ in range(n)]
