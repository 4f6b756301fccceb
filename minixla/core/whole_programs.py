"""Functions of arrays that an evaluator runs as one program, which is kept for later calls."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import Parameter, signature
from typing import Any, cast

from minixla.core.argument_kinds import is_flag
from minixla.core.attributes import spelling
from minixla.core.entrances import Role, Uses, entrance
from minixla.core.errors import ArgumentTypeError, explain
from minixla.core.state import state
from minixla.core.tracebacks import Function, hide_frames
from minixla.core.tracer import Tracer

_MOST_PROGRAMS = 256  # of a function; options may be ever new


def one_program(
    *names: str, known: Sequence[str] = (), numbers: bool = False
) -> Callable[[Function], Function]:
    """Marks a function of arrays and Python numbers that evaluators may run as one program."""
    # Its results must depend on nothing else; what it does with tracers stays as it is. `names` are
    # the parameters that are operands (arrays, numbers or None); a program is made for values of
    # the others, options. None given: all are operands but those by name alone. Of the `known`
    # parameters arrays of the evaluator's are operands, and all else options. `numbers`: whether
    # there are programs of Python numbers alone, too.

    def marked(function: Any) -> Any:
        places: Sequence[str] = getattr(function, "places", ())  # where results are to be
        inner = function.__wrapped__ if places else function

        def uses(parameters: Iterable[Parameter]) -> Uses:
            roles = [Role(each, names) for each in parameters if each.name not in places]
            roles.sort(key=lambda each: each.has_default)
            programs = _Programs(inner, roles, known, numbers)
            return Uses(roles, places, inner, programs.of, programs.kept, programs.flag)

        return entrance(function, uses)

    return marked


class _Programs:
    """The programs of a function, `of` so many parameters by keys, and how they are made."""

    def __init__(
        self, function: Any, roles: Sequence[Role], known: Sequence[str], numbers: bool
    ) -> None:
        self.function, self.roles, self.known, self.numbers = function, roles, known, numbers
        needed = [each.has_default for each in roles].count(False)
        counts = sorted({needed, min(needed + 1, len(roles)), len(roles)} - {0})
        self.of: dict[int, dict[Any, Callable[..., Any]]] = {count: {} for count in counts}
        # Operands are given by name, but for those that must not be, or that stand before several.
        has_several = any(each.stars == "*" for each in roles)
        named = [each for each in roles if each.kind is not Parameter.POSITIONAL_ONLY]
        self.by_name = {each.name for each in named if not has_several}

    def kept(self, key: Any, count: int, *values: Any) -> Any:
        """The result of the program for the first so many values, which is kept by their key."""
        programs, operands, names, options, is_told = self.of[count], [], [], {}, True
        for role, value in zip(self.roles[:count], values, strict=False):
            if role.stars:
                operands.extend(value) if role.is_operand else options.update(value)
            elif role.is_operand or (role.name in self.known and hasattr(value, "weak_type")):
                operands.append(value)
                if role.name in self.by_name:
                    names.append(role.name)
                is_told = is_told and role.is_operand
            else:
                options[role.name] = value
                is_told = is_told and role.is_told(value)
        if not is_told:
            given = *names, *map(type, operands), *options.items()
            key = spelling, *given, spelling((*options.values(),))
            try:
                return programs[key](*operands)
            except Exception:
                pass  # there is none, or what is wrong is said below
        if not (trace := state.trace).keeps_programs:
            return NotImplemented
        by_name = tuple(names)
        result = trace.at_once(self.function, tuple(operands), by_name, options, self.numbers)
        if result is not NotImplemented:
            if len(programs) >= _MOST_PROGRAMS:
                programs.clear()
            with suppress(TypeError):  # an array that is a flag cannot be hashed
                programs[key] = trace.program(self.function, by_name, options)
        return result

    def flag(self, name: str, value: Any) -> Any:
        """True or False for what is given in their place."""
        return plain_flags(self.function.__name__, (name,), {name: value}).get(name, value)


def with_flags(function: Function) -> Function:
    """Checks the flags, those whose default is True or False, of a function of several programs."""
    declared = signature(function).parameters.values()
    flags = {each.name for each in declared if isinstance(each.default, bool)}
    positions = [each.name for each in declared if each.kind is each.POSITIONAL_OR_KEYWORD]

    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            given = {**dict(zip(positions, args, strict=False)), **kwargs}
            plain_flags(function.__name__, flags, given)
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return cast(Function, wraps(function)(checked))


def plain_flags(subject: str, flags: Collection[str], given: Mapping[str, Any]) -> dict[str, bool]:
    """The flags that are given as an array or number of NumPy's, as Python's True or False.

    Raises:
        ArgumentTypeError: what is given for a flag is neither true nor false.
    """
    found = {}
    for name in given.keys() & flags:
        value = given[name]
        if not is_flag(value):
            problem, advice = f"{name} is neither True nor False", "Give one of them."
            shown = [f"{name} = {value!r}"]
            raise explain(ArgumentTypeError, subject, problem, shown, advice)
        if value is not None and not isinstance(value, (bool, int, Tracer)):
            found[name] = bool(value)
    return found
