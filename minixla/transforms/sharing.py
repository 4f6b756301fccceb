"""Share traces between transformed copies of one function: `mx.jit(mx.grad(f))` in a loop.

A transformed function records the transformation and the original function. `jit` treats
functions with equal records as one, and traces and compiles it once, as long as the original
function lives.
"""

import inspect
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import NamedTuple, cast

from minixla.core.attributes import exact
from minixla.engine import stage_for_jax
from minixla.transforms.arguments import ORIGIN, Cache
from minixla.transforms.typed_functions import Function, Wrapper
from minixla.typing import PyTree


class _Making(NamedTuple):
    """The record of a transformation and its options; equal records mean equal results."""

    key: Hashable
    make: Callable[[Function], Function]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Making) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class _Origin:
    """The original function and its transformations; copied attributes do not copy it."""

    def __init__(self, made: Function, making: _Making, fun: Function) -> None:
        self.made, self.making, self.fun = weakref.ref(made), making, fun

    def __reduce__(self) -> tuple[object, ...]:
        return object, ()  # other processes do not share traces


def remembered_by(
    made: Function,
    fun: Function,
    transformation: Function,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> None:
    """Record on a function that `transformation(fun, *args, **kwargs)` returned it."""
    key = transformation, exact(args), exact(tuple(sorted(kwargs.items())))
    with suppress(TypeError):  # the arguments are not hashable
        hash(key)
        making = _Making(key, lambda f: transformation(f, *args, **kwargs))
        made.__dict__[ORIGIN] = _Origin(made, making, fun)


def shares(transformation: Wrapper) -> Wrapper:
    """Decorate a transformation so that `jit` recognizes its functions."""

    @wraps(transformation)
    def transformed(fun: Function, *args: PyTree, **kwargs: PyTree) -> PyTree:
        made = transformation(fun, *args, **kwargs)
        remembered_by(made, fun, transformed, args, kwargs)
        return made

    return cast(Wrapper, transformed)


class Shared:
    """The traces that jitted copies of one function share.

    Attributes:
        staged: the function that JAX traces; it does not keep the original function alive.
        graphs: the graphs in our traces, by static arguments.
    """

    def __init__(
        self, fun: Function, origin: weakref.ref[Function], makings: tuple[_Making, ...]
    ) -> None:
        def again(*args: PyTree, **kwargs: PyTree) -> PyTree:
            made = origin()
            assert made is not None, "a jitted function keeps its function alive"
            for making in makings:
                made = making.make(made)
            return made(*args, **kwargs)

        # functools.wraps would keep the function alive.
        again.__name__ = getattr(fun, "__name__", "function")
        with suppress(TypeError, ValueError):
            again.__signature__ = inspect.signature(fun)  # for JAX
        self.staged = staged = stage_for_jax(again, is_stepped=True)
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__signature__"):
            with suppress(AttributeError):
                setattr(staged, name, getattr(again if "sign" in name else fun, name))
        self.graphs: dict[Hashable, Cache] = {}


#: Keyed by the identity of live functions.
_SHARED: dict[int, tuple[weakref.ref[Function], dict[tuple[_Making, ...], Shared]]] = {}


def shared_by(fun: Function) -> Shared | None:
    """Return the traces shared by functions with the record of `fun`; None without a record."""
    origin, makings = fun, []
    while isinstance(noted := getattr(origin, "__dict__", {}).get(ORIGIN), _Origin):
        if noted.made() is not origin:
            break  # a wrapper to which functools.wraps copied the attribute
        makings.append(noted.making)
        origin = noted.fun
    if type(origin).__module__.partition(".")[0] == "minixla":
        return None  # the graphs contain functions with rules, which would live equally long
    key, way = id(origin), tuple(reversed(makings))
    held = _SHARED.get(key)
    if held is None:
        try:
            # At the end of the process, the module's names may be gone.
            reference = weakref.ref(origin, lambda _, shared=_SHARED: shared.pop(key, None))
        except TypeError:  # a built-in function
            return None
        held = _SHARED[key] = reference, {}
    if way not in held[1]:
        held[1][way] = Shared(fun, held[0], way)
    return held[1][way]
