"""The long tail of JAX's public functions as ours, by tables of their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from inspect import Parameter, Signature, cleandoc, signature
from textwrap import dedent, indent
from traceback import extract_tb
from types import MethodType
from typing import Any

from minixla.core.docstrings import parameter_names
from minixla.core.errors import (
    ArgumentTypeError,
    AxisError,
    ConcretizationError,
    IndexingError,
    IntegerRangeError,
    MinixlaError,
    UnsupportedError,
    explain,
)
from minixla.core.shapes import shape_of_data
from minixla.core.source import find_source, is_user_file, warnings_at_users_line
from minixla.core.state import ThreadState, state
from minixla.core.tracebacks import hide_frames
from minixla.core.tracing import Tracer, shape_of

#: What stands for JAX's errors; others are a function's own `refusal`.
_KINDS = {OverflowError: IntegerRangeError, NotImplementedError: UnsupportedError}
_REFUSALS = TypeError, ValueError, IndexError, AttributeError, *_KINDS
_AXIS = re.compile(r"axis -?\d+ is out of bounds")
# What annotations of JAX's call arguments that are traced.
_ARRAY = re.compile(r"Array")
_NUMBERS = {bool, int, float, complex}


def functions_of(module: str, names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Functions of a module of JAX's as ours, by name.

    Each works outside and inside of `mx.jit`, `mx.grad`, `mx.vmap`, `mx.reference` and of JAX's
    transformations. Its signature is JAX's. JAX is loaded when one is called or asked what it is.

    Args:
        module: the public module of JAX's, `jax.scipy.special`; ours has the same name in
            `minixla`.
        names: the functions.
    """
    return {name: JaxFunction(module, name) for name in names}


class JaxFunction:
    """A function of JAX's as one of ours.

    Where nothing of ours is being traced JAX runs it, as one program if it can be one. Else it is
    staged by `from_jax`. Numbers of Python's are traced where JAX's annotations call them arrays,
    so that no program is made for each value, unless the function needs to know them.
    """

    def __init__(self, module: str, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = module.replace("jax", "minixla", 1)
        self._module = module
        #: Our error for JAX's: NumPy's of the same are sometimes TypeErrors, sometimes ValueErrors.
        self.refusal: type[MinixlaError] = ArgumentTypeError
        #: Parameters that are arrays, whatever JAX's annotations say.
        self.traced: Sequence[str] = ()
        #: What it is staged for, if not for any: a `platform` of `from_jax`.
        self.platform: str | None = None
        #: What makes of the docstring and the names of parameters the whole one.
        self.complete_docstring: Callable[..., str] = lambda text, names: text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What JAX's function gives; its errors say what it was given, and where."""
        try:
            with warnings_at_users_line():
                if state.trace is not ThreadState.trace:
                    return self._traced(*args, **kwargs)
                result = NotImplemented if self._compiled is None else self._compiled(args, kwargs)
                return self._by_jax(*args, **kwargs) if result is NotImplemented else result
        except Exception as error:
            ours = self._explained(error, args, kwargs)
            hide_frames(error)
            if ours is not None:
                raise ours from None
            raise

    def _explained(self, error: Exception, args: Any, kwargs: Any) -> Exception | None:
        """Our error for one with which JAX refuses an argument; None for others."""
        frames = extract_tb(error.__traceback__)
        # Those of functions that are arguments stay as they are.
        if type(error) not in _REFUSALS or any(is_user_file(each.filename) for each in frames):
            return None
        said = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        kind = _KINDS.get(type(error), self.refusal)
        if "out of bounds" in said:
            kind = AxisError if _AXIS.search(said) else IndexingError
        labels = [*self.__signature__.parameters, *["given"] * len(args)]
        given = [f"{name} {_shown(each)}" for name, each in zip(labels, args, strict=False)]
        given += [f"{name} {_shown(value)}" for name, value in kwargs.items()]
        public = f"{self._module}.{self.__name__}"
        advice = f"It was raised by {public}: see its docstring for what it takes."
        return explain(kind, self.__name__, said, given, advice)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # Python's `help` takes it for a function.
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__

    @cached_property
    def __wrapped__(self) -> Callable[..., Any]:
        return getattr(import_module(self._module), self.__name__)

    @cached_property
    def __signature__(self) -> Signature:
        return signature(self.__wrapped__)

    @cached_property
    def _arrays(self) -> list[Parameter]:
        """The parameters that are arrays."""
        parameters = self.__signature__.parameters.values()
        return [x for x in parameters if x.name in self.traced or _ARRAY.search(str(x.annotation))]

    @cached_property
    def _compiled(self) -> Callable[..., Any] | None:
        """Its compiled functions; None where JAX's function does better."""
        from minixla.engine.compiled_functions import CompiledFunctions  # which loads JAX

        function, parameters = self.__wrapped__, self.__signature__.parameters.values()
        named = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        is_plain = all(
            each.kind in named
            and each.annotation is not Parameter.empty
            and "Callable" not in str(each.annotation)
            for each in parameters
        )
        if hasattr(function, "lower") or not is_plain:  # jitted already, or takes functions
            return None
        names = [each.name for each in self._arrays]
        return CompiledFunctions(function, names or [""], (), numbers=True, by_jax=True)

    @cached_property
    def _staged(self) -> Callable[..., Any]:
        from minixla.interop.from_jax import from_jax  # which loads JAX

        return from_jax(self.__wrapped__, platform=self.platform)

    def _by_jax(self, *args: Any, **kwargs: Any) -> Any:
        """What JAX's function gives; its errors note what it was given."""
        try:
            return self.__wrapped__(*args, **kwargs)
        except Exception as error:
            given = [_shown(each) for each in args]
            given += [f"{name}={_shown(value)}" for name, value in kwargs.items()]
            source = find_source(1)
            error.add_note(
                f"mx.{self.__module__.partition('.')[2]}.{self.__name__}: raised by "
                f"{self._module}.{self.__name__}"
                + (f", called at {source}" if source else "")
                + f".\n  It was given: {', '.join(given) or 'nothing'}."
            )
            raise

    def _traced(self, *args: Any, **kwargs: Any) -> Any:
        # Both load JAX.
        import jax.numpy as jnp

        from minixla.interop.function_arguments import call_with_functions, is_function

        if any(map(is_function, [*args, *kwargs.values()])):
            return call_with_functions(self.__wrapped__, state.trace, args, kwargs)
        names = {each.name for each in self._arrays}
        among = zip(args, self.__signature__.parameters, strict=False)
        flags = [type(value) in _NUMBERS and name in names for value, name in among]
        flags += [False] * (len(args) - len(flags))
        arrays = [jnp.asarray(x) if flag else x for x, flag in zip(args, flags, strict=True)]
        by_name = {
            name: jnp.asarray(value) if type(value) in _NUMBERS and name in names else value
            for name, value in kwargs.items()
        }
        try:
            return self._staged(*arrays, **by_name)
        except (ConcretizationError, ValueError) as error:
            # Numbers that must be known, be it as static arguments of what JAX has jitted.
            if not isinstance(error, ConcretizationError) and "static arg" not in str(error):
                raise
            return self._staged(*args, **kwargs)


def _shown(value: Any) -> str:
    """An argument in messages."""
    shape = shape_of(value) if isinstance(value, Tracer) else shape_of_data(value)
    is_plain = shape is None or isinstance(value, (bool, int, float, complex))
    return repr(value)[:100] if is_plain else str(shape)


#: Headings of JAX's docstrings. What follows others than these is for its own pages.
_HEADING = re.compile(r"^(\w[\w ]*):\n(?=\n? )", re.MULTILINE)
_KEPT = ("Args", "Returns", "Raises", "Example", "Examples")
_OUTSIDE = re.compile(r"^(?=\S)", re.MULTILINE)
_WRAPS = re.compile(r"^(LAX-backend|JAX)[\w -]* of :(func|meth|obj):.*\n?(?:\n|$)", re.MULTILINE)


def _text(function: JaxFunction) -> str:
    """JAX's docstring, with its sections as ours are and the examples last."""
    theirs = cleandoc(function.__wrapped__.__doc__ or "")
    head, *pieces = _HEADING.split(theirs)
    summary, _, rest = head.strip().partition("\n\n")
    summary = " ".join(summary.split()).rstrip(".") + "."
    own = f"Traced by JAX: `{function._module}.{function.__name__}` through `mx.from_jax`."
    text = "\n\n".join(filter(None, (summary, _WRAPS.sub("", rest).strip(), own)))
    found = dict(zip(pieces[::2], pieces[1::2], strict=True))
    for name in _KEPT:
        if name in found:
            text += f"\n\n{name.removesuffix('s') if name == 'Examples' else name}:\n"
            body = _OUTSIDE.split(found[name])[0]
            text += indent(dedent(body).strip("\n"), "    ").rstrip()
    return function.complete_docstring(text, parameter_names(function.__wrapped__))


# Of each function; that of the class is for readers of this file.
JaxFunction.__doc__ = property(_text)  # type: ignore[assignment]  # Python reads it so
