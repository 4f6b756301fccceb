"""Functions of arrays that an evaluator runs as one program, which is kept for later calls."""

import inspect
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, wraps
from itertools import takewhile
from types import FunctionType
from typing import Any, cast

from minixla.core.argument_kinds import is_flag
from minixla.core.attributes import INEXACT, spelling
from minixla.core.errors import ArgumentTypeError, explain
from minixla.core.state import state as _state
from minixla.core.state import transforming as _transforming
from minixla.core.tracebacks import Function, hide_frames
from minixla.core.tracer import Tracer

# Types of options that are no more than their values and types: others are spelled.
_PLAIN = frozenset((int, bool, str, type, type(None)))
_MOST_PROGRAMS = 256  # of a function; options may be ever new


def one_program(*names: str, known: tuple[str, ...] = ()) -> Callable[[Function], Function]:
    """Marks a function of arrays and Python numbers that evaluators may run as one program."""
    # Its results must depend on nothing else; what it does with tracers stays as it is. `names` are
    # the parameters that are operands (arrays, numbers or None); a program is made for values of
    # the others, options. None given: all are operands, by position. Of the `known` parameters
    # arrays of the evaluator's are operands, and all else options.

    def marked(function: Function) -> Function:
        parameters = inspect.signature(function).parameters
        positions, operands = tuple(parameters), frozenset(names)
        unnamed = {name for name, each in parameters.items() if each.kind is each.POSITIONAL_ONLY}
        are_flags = [isinstance(each.default, bool) for each in parameters.values()]
        flags = frozenset(itertools.compress(positions, are_flags))
        first_flag = (*are_flags, True).index(True)
        # What says where results are to be, of which programs know nothing.
        places: frozenset[str] = getattr(function, "places", frozenset())
        # By the operands' types, and by options; those of two operands of one type, by that type.
        programs: dict[Any, Function] = {}
        of_two: dict[Any, Function] = {}

        @lru_cache(_MOST_PROGRAMS)
        def divided(count: int, arrays: tuple[bool, ...], *options: str) -> Any:
            """The places, among all that is given, of operands and of options; their names.

            None where the function itself is to be called.
            """
            given = (*positions[:count], *options)
            if not places.isdisjoint(options):
                return None
            if not names:
                return count, (), (), (), options
            if len({*given}) < count + len(options) or not unnamed.isdisjoint(options):
                return None  # too many, or one twice or by a name that it has not
            taken, rest = [], []
            for place, name in enumerate(given):
                is_operand = name in operands or (name in known and arrays[place])
                (taken if is_operand else rest).append(place)
            named = [tuple([given[place] for place in each]) for each in (taken, rest)]
            first = len(taken) if taken == [*range(len(taken))] else None
            return first, taken, rest, *named

        # Errors name no argument `_given`, but that of the function within which has the value.
        def corrected(_given: tuple[Any, ...], _options: dict[str, Any]) -> Any:
            """The arguments with Python's True and False for flags; None where they have them."""
            count = len(_given)
            if count <= first_flag and flags.isdisjoint(_options):
                return None
            given = {**dict(zip(positions, _given, strict=False)), **_options}
            found = plain_flags(function.__name__, flags, given)
            if not found:
                return None
            pairs = itertools.zip_longest(positions[:count], _given)
            replaced = tuple([found.get(name, value) for name, value in pairs])
            return replaced, {**_options, **{x: found[x] for x in found if x in _options}}

        def called(_given: tuple[Any, ...], _options: dict[str, Any], _quick: Any = None) -> Any:
            """The result. `_quick`: where to keep a program of so many operands, by which key."""
            trace, count = _state.trace, len(_given)
            if not trace.keeps_programs:
                again = corrected(_given, _options) if flags else None
                return function(*_given, **_options) if again is None else called(*again)
            values = (*_given, *_options.values())
            # Only arrays of the evaluator's say whether their type is weak.
            arrays = known and tuple([hasattr(value, "weak_type") for value in values])
            way = divided(count, arrays, *_options)
            if way is None:
                again = corrected(_given, _options)
                return function(*_given, **_options) if again is None else called(*again)
            first, taken, others, present, named = way
            if first is None:
                front = [values[place] for place in taken]
                rest = tuple([values[place] for place in others])
            else:
                front, rest = values[:first], values[first:]
            types = (*map(type, rest),)
            spelled = types if _PLAIN.issuperset(types) else spelling(rest)
            key: Any = (count, arrays, *_options, *map(type, front), rest, spelled)
            try:
                return programs[key](*front)
            except KeyError:
                pass
            except Exception:
                key = None  # it cannot be hashed, or what is wrong is said below
            again = corrected(_given, _options)
            if again is not None:  # without what cannot be hashed it may be a program that is kept
                return called(*again)
            options = dict(zip(named, rest, strict=True))
            result = trace.at_once(function, front, present, options)
            if result is NotImplemented:
                return function(*_given, **_options)
            if key is not None:
                table = programs
                if _quick is not None and len(front) == _quick[2] and all(map(_is_plain, rest)):
                    table, key, _ = _quick
                if len(table) >= _MOST_PROGRAMS:
                    table.clear()
                table[key] = trace.program(function, present, options)
            return result

        declared = [*parameters.values()]
        return cast(Function, _quick(function, called, declared, operands, programs, of_two))

    return marked


def with_flags(function: Function) -> Function:
    """Checks the flags, those whose default is True or False, of a function of several programs."""
    declared = inspect.signature(function).parameters.values()
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


def _is_plain(value: Any) -> bool:
    """Whether equal values of its type are the same; zeros of both signs are equal."""
    return not isinstance(value, (tuple, *INEXACT)) or (type(value) is float and value != 0)


_NOTHING: Any = object()


def _quick(
    function: Callable[..., Any],
    called: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    operands: Collection[str],
    programs: dict[Any, Any],
    of_two: dict[Any, Any],
) -> Callable[..., Any]:
    """`called`, which first looks for a program by as little as tells it from others."""
    # A call outside of all transformations takes little more time than the program itself: what
    # counts is each step, and whether Python must make a tuple or a dictionary for the arguments.

    def unary(_x: Any, /) -> Any:
        kind = type(_x)
        try:
            if kind in programs:
                if not _transforming or _state.trace.keeps_programs:
                    try:
                        return programs[kind](_x)
                    except Exception:
                        pass  # what is wrong is said below
            elif isinstance(_x, Tracer):
                return function(_x)
            return called((_x,), {}, (programs, kind, 1))
        except Exception as error:
            hide_frames(error)
            raise

    def binary(x1: Any, x2: Any, /) -> Any:
        kind, other = type(x1), type(x2)
        try:
            if kind in of_two and other is kind:
                if not _transforming or _state.trace.keeps_programs:
                    try:
                        return of_two[kind](x1, x2)
                    except Exception:
                        pass
            elif isinstance(x1, Tracer):
                return function(x1, x2)
            elif _state.trace.keeps_programs:
                try:
                    return programs[kind, other](x1, x2)
                except Exception:
                    pass
            quick = (of_two, kind, 2) if other is kind else (programs, (kind, other), 2)
            return called((x1, x2), {}, quick)
        except Exception as error:
            hide_frames(error)
            raise

    def general(
        _first: Any = _NOTHING,
        _second: Any = _NOTHING,
        _third: Any = _NOTHING,
        /,
        *others: Any,
        **options: Any,
    ) -> Any:
        key: Any = None
        quick: Any = None
        if not others and (not _transforming or _state.trace.keeps_programs):
            kind, table, count = type(_first), programs, 1
            try:
                if _third is _NOTHING and not options:
                    if _second is _NOTHING:
                        key = kind
                        return programs[kind](_first)
                    if is_followed:
                        key = kind, _second, type(_second)
                        return programs[key](_first)
                    count = 2
                    if type(_second) is kind:
                        key, table = kind, of_two
                        return of_two[kind](_first, _second)
                    key = kind, type(_second)
                    return programs[key](_first, _second)
                if is_followed and (_third is _NOTHING or not takes_third):
                    key = kind, _second, _third, type(_second), type(_third)
                    if not options:
                        return programs[key](_first)
                    front: tuple[Any, ...] = (_first,)
                elif is_followed:
                    front, key = (_first, _third), (kind, type(_third), _second, type(_second))
                elif takes_third:
                    key = kind, type(_second), type(_third)
                    if not options:
                        count = 3
                        return programs[key](_first, _second, _third)
                    front = _first, _second, _third
                else:
                    front, key = (_first, _second), (kind, type(_second), _third, type(_third))
                for name, value in options.items():
                    if name in operands:
                        front, key = (*front, value), (*key, name, type(value))
                    else:
                        key = *key, name, value, type(value)
                count = len(front)
                return programs[key](*front)
            except KeyError:
                quick = table, key, count
            except Exception:
                pass
        try:
            if _first is not _NOTHING and _second is not _NOTHING:
                if _third is _NOTHING:
                    return called((_first, _second), options, quick)
                return called((_first, _second, _third, *others), options, quick)
            if _second is not _third:  # both are nothing, most often
                by_name = zip(names[1:3], (_second, _third), strict=True)
                options.update({name: value for name, value in by_name if value is not _NOTHING})
            return called(() if _first is _NOTHING else (_first,), options, quick)
        except Exception as error:
            hide_frames(error)
            raise

    by_position, given = inspect.Parameter.POSITIONAL_OR_KEYWORD, parameters[:3]
    taken = [not operands or each.name in operands for each in given]
    is_followed, takes_third = taken[1:2] == [False], taken[2:] != [False]
    count = sum(each.kind <= by_position and each.default is each.empty for each in parameters)
    is_exact = count == len(parameters) and all(taken)
    quick: Any = {1: unary, 2: binary}.get(count, general) if is_exact else general
    # Where its parameters have these names Python finds which of them one by name is.
    own = {each.name: each.kind for each in takewhile(lambda each: each.kind <= by_position, given)}
    code = quick.__code__
    names = *own, *code.co_varnames[len(own) :]
    if by_position in own.values():
        unnamed = [*own.values()].count(inspect.Parameter.POSITIONAL_ONLY)
        code = code.replace(co_varnames=names, co_posonlyargcount=unnamed)
    made = FunctionType(code, globals(), "", quick.__defaults__, quick.__closure__)
    return wraps(function)(made)
