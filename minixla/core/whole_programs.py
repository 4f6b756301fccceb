"""Functions of arrays that run as one compiled function outside all transformations.

A function of `mx.numpy` consists of many operations. Called with arrays, outside all
transformations, it is compiled as a whole, and the compiled function is cached; see
`minixla/engine/compiled_functions.py`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, cast

from minixla.core.argument_kinds import is_flag
from minixla.core.errors import ArgumentTypeError, explain
from minixla.core.state import state
from minixla.core.tracebacks import Function, hide_frames
from minixla.core.tracer import Tracer


def one_program(
    *names: str, known: Sequence[str] = (), numbers: bool = False
) -> Callable[[Function], Function]:
    """Compile a function of arrays as a whole for calls outside all transformations.

    Its results must depend only on its arguments.

    Args:
        names: the parameters whose values are operands: arrays, numbers or None. Among the other
            arguments, arrays and floats are operands, and everything else is static. Default: all
            positional parameters.
        known: those among `names` whose integers are static.
        numbers: whether the function is also compiled if all operands are Python numbers.

    Returns:
        A decorator.
    """
    options = names, known, numbers

    def marked(function: Function) -> Function:
        compiled: Callable[..., object] | None = None

        def called(*args: object, **kwargs: object) -> object:
            nonlocal compiled
            try:
                if state.trace.compiles:
                    if compiled is None:
                        compiled = _compiled_functions(called, *options)
                    result = compiled(args, kwargs)
                    if result is not NotImplemented:
                        return result
                return function(*args, **kwargs)
            except Exception as error:
                hide_frames(error)
                raise

        return cast(Function, wraps(function)(called))

    return marked


def _compiled_functions(called: Any, *arguments: object) -> Callable[..., object]:  # noqa: ANN401  # it has __wrapped__
    # Messages look up the public function and its signature in the frame of a call.
    return state.trace.compiled_functions(called.__wrapped__, *arguments)


def with_flags(function: Function) -> Function:
    """Check the flags (parameters whose default is True or False) of a function."""
    declared = signature(function).parameters.values()
    flags = {parameter.name for parameter in declared if isinstance(parameter.default, bool)}
    positions = [
        parameter.name
        for parameter in declared
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]

    def checked(*args: object, **kwargs: object) -> object:
        try:
            bound = {**dict(zip(positions, args, strict=False)), **kwargs}
            plain_flags(function.__name__, flags, bound)
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return cast(Function, wraps(function)(checked))


def plain_flags(
    subject: str, flags: Collection[str], bound: Mapping[str, object]
) -> dict[str, bool]:
    """Convert flags that are NumPy arrays or scalars to Python's True or False.

    Raises:
        ArgumentTypeError: a flag is neither true nor false.
    """
    flags_found = {}
    for name in bound.keys() & flags:
        value = bound[name]
        if not is_flag(value):
            problem, advice = f"{name} must be True or False", "Pass True or False."
            details = [f"{name} = {value!r}"]
            raise explain(ArgumentTypeError, subject, problem, details, advice)
        if value is not None and not isinstance(value, (bool, int, Tracer)):
            flags_found[name] = bool(value)
    return flags_found
