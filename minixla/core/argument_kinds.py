"""Checks of arguments of public functions against their annotations."""

import operator
import sys
import types
import typing
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from itertools import chain
from typing import Any, NamedTuple, TypeVar, cast

from minixla.core.errors import ArgumentTypeError, wrong_argument
from minixla.core.tracebacks import hide_frames
from minixla.core.tracer import Tracer

Function = TypeVar("Function", bound=Callable[..., object])


class _Kind(NamedTuple):
    """A kind of argument: its test, and its name in the singular and the plural."""

    fits: Callable[[object], bool]
    name: str
    plural: str


def checks_kinds(function: Function) -> Function:
    """Check arguments against annotations; ArgumentTypeError names the argument. A decorator.

    Numbers, flags, strings, names, choices and sequences of these are checked. Functions that
    accept other values, such as pytrees and functions, check them.
    """
    positions = function.__code__.co_varnames[: function.__code__.co_argcount]

    @wraps(function)
    def checked(*args: object, **kwargs: object) -> object:
        kinds = _kinds(function)
        for name, value in chain(zip(positions, args, strict=False), kwargs.items()):
            if name in kinds and not kinds[name].fits(value):
                is_class = function.__name__ == "__init__"
                subject = type(args[0]).__name__ if is_class else function.__name__
                error = wrong_argument(subject, name, value, kinds[name].name, ArgumentTypeError)
                hide_frames(error)
                raise error
        return function(*args, **kwargs)

    return cast(Function, checked)


def is_flag(value: object) -> bool:
    """Return whether a value is a flag; NumPy's integers and arrays of one element are, too.

    A traced flag raises its own error when it is concretized, and functions may accept None.
    """
    is_known = value is None or isinstance(value, (bool, int, Tracer))
    return is_known or getattr(value, "size", 0) == 1


def _succeeds(function: Callable[[Any], object]) -> Callable[[object], bool]:
    def fits(value: object) -> bool:
        try:
            function(value)
        except (TypeError, ValueError):
            return False
        return True

    return fits


_NAME = _Kind(_succeeds(hash), "a hashable name", "hashable names")
_KINDS = {
    bool: _Kind(is_flag, "True or False", "flags"),
    int: _Kind(_succeeds(operator.index), "an integer", "integers"),
    str: _Kind(lambda value: isinstance(value, str), "a text", "texts"),
    Hashable: _NAME,
    dict: _Kind(lambda value: isinstance(value, Mapping), "a dictionary", "dictionaries"),
    types.NoneType: _Kind(lambda value: value is None, "None", "Nones"),
}


@lru_cache(maxsize=1024)
def _kinds(function: Callable[..., object]) -> dict[str, _Kind]:
    """Return the kinds of a function's arguments, or of a TypedDict's options, if known."""
    names, kinds = vars(sys.modules[function.__module__]), {}
    for name, annotation in function.__annotations__.items():
        text = getattr(annotation, "__forward_arg__", annotation)
        try:
            found = eval(text, names) if isinstance(text, str) else text
        except NameError:  # the name is only for type checkers
            continue
        if typing.get_origin(found) is typing.Unpack:
            kinds |= _kinds(typing.get_args(found)[0])
        elif (kind := _kind(found)) is not None:
            kinds[name] = kind
    return kinds


def _kind(annotation: object) -> _Kind | None:
    """Return the kind of an annotation; None for unknown kinds."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        listed = " or ".join([f'"{part}"' for part in parts])
        return _Kind(lambda value: isinstance(value, str) and value in parts, listed, listed)
    if origin in (typing.Union, types.UnionType):
        known_kinds = [kind for part in parts if (kind := _kind(part)) is not None]
        if len(known_kinds) < len(parts):
            return None
        one, several = [kind.name for kind in known_kinds], [kind.plural for kind in known_kinds]
        fits = [kind.fits for kind in known_kinds]
        return _Kind(lambda x: any(f(x) for f in fits), " or ".join(one), " or ".join(several))
    if origin in (Sequence, Iterable, tuple):
        member = _kind(parts[0])
        count = len(parts) if origin is tuple and ... not in parts else None
        return None if member is None else _several(member, count)
    return _KINDS.get(origin or annotation)


def _several(member: _Kind, count: int | None) -> _Kind:
    """Return the kind of a sequence of `member`; with `count` elements if it is not None."""
    # A name may be a sequence, such as a string, except for lists and tuples.
    taken: tuple[type, ...] = (Collection,)
    if member is _NAME:
        taken = (list, tuple)

    def fits(value: object) -> bool:
        if isinstance(value, (str, Mapping)) or getattr(value, "ndim", 1) == 0:
            return False
        if not isinstance(value, taken):  # iterators can be read only once, so skip them
            return isinstance(value, Iterable) and member is not _NAME and count is None
        return all(map(member.fits, value)) and count in (None, len(value))

    what = "sequence" if count is None else "pair" if count == 2 else f"group of {count}"
    return _Kind(fits, f"a {what} of {member.plural}", f"{what}s of {member.plural}")
