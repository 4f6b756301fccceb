"""Functions that evaluators may run as one program instead of operation by operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from minixla.core.state import state
from minixla.core.tracebacks import hide_frames

Function = TypeVar("Function", bound=Callable[..., Any])


def one_program(*names: str) -> Callable[[Function], Function]:
    """Marks a function of arrays and Python numbers that evaluators may run as one program.

    Its results must depend on nothing else; what it does with tracers stays as it is. `names` are
    the parameters that are operands (arrays, numbers or None); the others are options, whose values
    a program is made for. None given: all are operands, by position.
    """

    def marked(function: Function) -> Function:
        parameters = signature(function).parameters
        positions = tuple(parameters)
        unnamed = {name for name, each in parameters.items() if each.kind is each.POSITIONAL_ONLY}

        @wraps(function)
        def called(*given: Any, **options: Any) -> Any:
            try:
                at_once, result = state.trace.at_once, NotImplemented
                if at_once is None:
                    return function(*given, **options)
                if not names:
                    result = at_once(function, given, names, options)
                else:
                    named = {**dict(zip(positions, given, strict=False)), **options}
                    # Otherwise too many are given, or one twice or by a name that it has not,
                    # which the function refuses.
                    if len(named) == len(given) + len(options) and unnamed.isdisjoint(options):
                        present = tuple([name for name in names if name in named])
                        operands = tuple([named.pop(name) for name in present])
                        result = at_once(function, operands, present, named)
                return function(*given, **options) if result is NotImplemented else result
            except Exception as error:
                hide_frames(error)
                raise

        return cast(Function, called)

    return marked
