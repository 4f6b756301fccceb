"""What functions that are made anew of one function share: `mx.jit(mx.grad(f))` in a loop.

A transformed function remembers how it was made, and of which function. Functions made in the same
way of the same function are one to `jit`, which traces and compiles them once, as long as that
function lives.
"""

import inspect
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, NamedTuple, cast

from minixla.core.attributes import exact
from minixla.engine import stage_for_jax
from minixla.transforms.arguments import ORIGIN, Cache
from minixla.transforms.typed_functions import Function, Wrapper


class _Making(NamedTuple):
    """How a transformation made a function of another; equal for the same way."""

    key: Any
    make: Callable[[Function], Function]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Making) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class _Origin:
    """Of which function, and how, one was made; a copy of its attributes does not say so."""

    def __init__(self, made: Any, making: _Making, fun: Any) -> None:
        self.made, self.making, self.fun = weakref.ref(made), making, fun

    def __reduce__(self) -> tuple[Any, ...]:
        return object, ()  # in another process nothing is shared


def remembered_by(made: Any, fun: Any, transformation: Any, args: Any, kwargs: Any) -> None:
    """Notes on a function that `transformation(fun, *args, **kwargs)` made how it was made."""
    key = transformation, exact(args), exact(tuple(sorted(kwargs.items())))
    with suppress(TypeError):  # arguments that cannot be hashed
        hash(key)
        making = _Making(key, lambda f: transformation(f, *args, **kwargs))
        made.__dict__[ORIGIN] = _Origin(made, making, fun)


def shares(transformation: Wrapper) -> Wrapper:
    """A decorator of transformations whose functions `jit` recognizes."""

    @wraps(transformation)
    def transformed(fun: Any, *args: Any, **kwargs: Any) -> Any:
        made = transformation(fun, *args, **kwargs)
        remembered_by(made, fun, transformed, args, kwargs)
        return made

    return cast(Wrapper, transformed)


class Shared:
    """What jitted functions of one function share.

    Attributes:
        staged: the function as JAX traces it; it does not keep the function alive.
        graphs: for each choice of static arguments, the graphs in our own traces.
    """

    def __init__(self, fun: Any, found: weakref.ref[Any], makings: tuple[_Making, ...]) -> None:
        def again(*args: Any, **kwargs: Any) -> Any:
            made = found()
            assert made is not None, "a jitted function holds its function"
            for each in makings:
                made = each.make(made)
            return made(*args, **kwargs)

        # Not by functools.wraps, which makes it hold the function.
        again.__name__ = getattr(fun, "__name__", "function")
        with suppress(TypeError, ValueError):
            again.__signature__ = inspect.signature(fun)  # for JAX
        self.staged = staged = stage_for_jax(again)
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__signature__"):
            with suppress(AttributeError):
                setattr(staged, name, getattr(again if "sign" in name else fun, name))
        self.graphs: dict[Any, Cache] = {}


#: By the identity of functions, while they live.
_SHARED: dict[int, tuple[weakref.ref[Any], dict[Any, Shared]]] = {}


def shared_by(fun: Any) -> Shared | None:
    """What functions that are made like `fun`, of the same function, share; None for others."""
    origin, makings = fun, []
    while isinstance(noted := getattr(origin, "__dict__", {}).get(ORIGIN), _Origin):
        if noted.made() is not origin:
            break  # a wrapper of it, to which functools.wraps copied its attributes
        makings.append(noted.making)
        origin = noted.fun
    if type(origin).__module__.partition(".")[0] == "minixla":
        return None  # functions with rules are part of the graphs, and would live as long
    key, way = id(origin), tuple(reversed(makings))
    held = _SHARED.get(key)
    if held is None:
        try:
            found = weakref.ref(origin, lambda _: _SHARED.pop(key, None))
        except TypeError:  # a built-in function
            return None
        held = _SHARED[key] = found, {}
    if way not in held[1]:
        held[1][way] = Shared(fun, held[0], way)
    return held[1][way]
