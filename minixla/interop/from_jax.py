"""`from_jax`: compile a JAX function that is called outside our transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary, ref

import jax
import numpy as np
from jax.tree_util import tree_flatten, tree_unflatten

from minixla.core.argument_kinds import checks_kinds
from minixla.core.attributes import spelling
from minixla.core.errors import AttributeValueError, TransformError, explain
from minixla.core.state import state
from minixla.core.tracebacks import hiding_frames
from minixla.transforms import arguments
from minixla.transforms.evaluation import make_graph

_PROGRAM = (
    "mx.import_stablehlo(jax.jit(f).trace(*args).lower(lowering_platforms=('cuda',)).as_text())"
)
#: Options of earlier versions, and their replacements.
_REMOVED = {
    "derivatives": "Leave it out: derivatives follow the function's custom rules. For those of "
    "its StableHLO program, without these rules, differentiate "
    "mx.import_stablehlo(jax.jit(f).lower(*args).as_text()).",
    "platform": f"Leave it out: a program is lowered for the platform that runs it. For the "
    f"program of another platform, write {_PROGRAM}.",
    "shardings": "Leave it out: shardings are kept. To drop them, write "
    "mx.import_stablehlo(jax.jit(f).lower(*args).as_text(), shardings='drop').",
}
#: For each JAX function a reference to it, and the compiled function, which does not keep it alive.
_COMPILED: WeakKeyDictionary[Callable[..., Any], Any] = WeakKeyDictionary()


@checks_kinds
def from_jax(
    fun: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    **removed: Any,
) -> Callable[..., Any]:
    """Return a JAX function that is compiled when it is called outside transformations.

    JAX functions can be called directly: inside `mx.jit`, `mx.grad`, `mx.vmap` and the other
    transformations they need no wrapper. There the result of `from_jax` calls `fun`. Outside it
    compiles `fun`, once for all calls of `from_jax` with the same function. Arrays and floats are
    traced; other leaves of the arguments are static.

    Args:
        fun: a function of pytrees of arrays, written with `jax.numpy`, `jax.lax`, Flax, Optax ...
        static_argnums: positions of arguments that reach the function unchanged: hashable objects
            whose arrays and floats are not traced.
        static_argnames: names of arguments that reach it unchanged.
        removed: options of earlier versions, `derivatives`, `shardings` and `platform`. They
            raise an error that names the replacement.

    Returns:
        A function with attribute `graph(*args)`, which returns the Graph.

    Raises:
        AttributeValueError: an option was removed, or `fun` has no argument of a static name or
            position.
        TransformError: when called: a static argument or leaf cannot be hashed.

    Example:
        >>> total = mx.from_jax(jax.numpy.sum)
        >>> mx.jit(mx.grad(lambda x: total(x * x)))(np.float32([1, 2]))
        Array([2., 4.], dtype=float32)
    """
    arguments.checked_function(fun, "from_jax")
    for name, value in removed.items():
        if name not in _REMOVED:
            raise TypeError(f"from_jax() got an unexpected keyword argument {name!r}")
        problem, details = f"the option {name} was removed", [f"{name} = {value!r}"]
        raise explain(AttributeValueError, "from_jax", problem, details, _REMOVED[name])
    marks = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    arguments.check_marks("from_jax", fun, **marks)
    marked = arguments.StaticArguments(fun, static_argnums, static_argnames)
    compiled = _Compiled(fun)

    def taken_apart(args: Any, kwargs: Any) -> tuple[_Known, list[Any]]:
        static = dict(marked.split("from_jax", args, kwargs)[1])
        args = [_Whole(x) if at in static else x for at, x in enumerate(args)]
        kwargs = {name: _Whole(x) if name in static else x for name, x in kwargs.items()}
        leaves, tree = tree_flatten((args, kwargs))
        known = _Known(tree, [None if _is_traced(x) else _Whole(x) for x in leaves])
        known.check(fun)
        return known, [x for x in leaves if _is_traced(x)]

    @hiding_frames
    def function(*args: Any, **kwargs: Any) -> Any:
        if not state.trace.evaluates:
            return fun(*args, **kwargs)
        static, arrays = taken_apart(args, kwargs)
        return compiled(static, *arrays)

    def graph(*args: Any, **kwargs: Any) -> Any:
        static, arrays = taken_apart(args, kwargs)
        return make_graph(_applied(fun, static))(*arrays)

    wrapper: Any = arguments.named_after(function, fun)
    wrapper.graph = graph
    return wrapper


def _is_traced(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic, float, jax.ShapeDtypeStruct))


class _Whole:
    """A static argument or leaf. Values of different types are different: 1, 1.0 and True."""

    def __init__(self, value: Any) -> None:
        self.value = value
        # Slices cannot be hashed before Python 3.12.
        hashable = value.__reduce__() if isinstance(value, slice) else value
        self.key = spelling(hashable), hashable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Whole) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class _Known:
    """The structure of a call's arguments, and the static leaves; None for each traced leaf."""

    def __init__(self, tree: Any, static: list[_Whole | None]) -> None:
        self.tree, self.static = tree, static
        self.key = tree, tuple(static)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def apply(self, fun: Callable[..., Any], arrays: Sequence[Any]) -> Any:
        """Call the function with arrays in place of the traced leaves."""
        rest = iter(arrays)
        leaves = [next(rest) if leaf is None else leaf.value for leaf in self.static]
        args, kwargs = tree_unflatten(self.tree, leaves)
        args = [x.value if isinstance(x, _Whole) else x for x in args]
        return fun(*args, **{k: x.value if isinstance(x, _Whole) else x for k, x in kwargs.items()})

    def check(self, fun: Callable[..., Any]) -> None:
        """Raise an error if a static argument or leaf cannot be hashed."""
        details = []
        for whole in filter(None, self.static):
            try:
                hash(whole)
            except TypeError:
                details.append(repr(whole.value)[:200])
        if details:
            problem = f"a static argument of {_name(fun)} is not hashable"
            advice = "Pass arrays or a hashable object (a tuple, a frozen dataclass), or close "
            advice += "over the value: mx.from_jax(lambda x: f(x, value))."
            raise explain(TransformError, "from_jax", problem, details, advice)


class _Compiled:
    """The compiled form of `fun`, a function of a `_Known` and the arrays; one for each `fun`."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun

    def __call__(self, known: _Known, *arrays: Any) -> Any:
        return self._function(known, *arrays)

    @cached_property
    def _function(self) -> Callable[..., Any]:
        fun = self.fun
        try:
            cached, compiled = _COMPILED.get(fun, (None, None))
            if cached is None or cached() is not fun:  # equal functions may live longer
                cached = ref(fun)
                compiled = _compiled_of(fun, cached)
                _COMPILED[fun] = cached, compiled
            return compiled
        except TypeError:  # `fun` cannot be hashed, or cannot be weakly referenced
            return _compiled_of(fun, lambda: fun)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Compiled, (self.fun,)  # another process compiles it again


def _compiled_of(fun: Callable[..., Any], function: Callable[[], Any]) -> Callable[..., Any]:
    def call(known: _Known, *arrays: Any) -> Any:
        return known.apply(function(), arrays)

    call.__name__ = _name(fun)
    return jax.jit(call, static_argnums=0)


def _applied(fun: Callable[..., Any], known: _Known) -> Callable[..., Any]:
    """Return a function of only the arrays."""

    def call(*arrays: Any) -> Any:
        return known.apply(fun, arrays)

    call.__name__ = _name(fun)
    return call


def _name(fun: Callable[..., Any]) -> str:
    return getattr(fun, "__name__", "function")
