"""Functions of arrays that an evaluator runs as one program, which is kept for later calls."""

import inspect
import itertools
import sys
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from itertools import takewhile
from typing import Any, cast

from minixla.core.attributes import spelling
from minixla.core.errors import ArgumentTypeError, explain
from minixla.core.state import state as _state
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
        positions = tuple(parameters)
        unnamed = {name for name, each in parameters.items() if each.kind is each.POSITIONAL_ONLY}
        # So many first arguments are operands, in the order of their names.
        pairs = zip(positions, names, strict=False)
        leading = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        limit = leading if names else sys.maxsize
        operands = frozenset(names)
        is_exact = all(
            each.kind is each.POSITIONAL_ONLY and each.default is each.empty
            for each in parameters.values()
        )
        is_flag = [isinstance(each.default, bool) for each in parameters.values()]
        flags = frozenset(itertools.compress(positions, is_flag))
        first_flag = (*is_flag, True).index(True)
        # What says where results are to be, of which programs know nothing.
        places: frozenset[str] = getattr(function, "places", frozenset())
        # By the operands' types, and by options.
        programs: dict[Any, Function] = {}
        # Those for one or two operands of one type and no options, by that type.
        of_one: dict[type, Any] = {}
        of_two: dict[type, Any] = {}

        def kept(
            program: Function,
            key: Any,
            front: tuple[Any, ...],
            given: tuple[Any, ...],
            options: dict[str, Any],
        ) -> None:
            if len(programs) >= _MOST_PROGRAMS:
                programs.clear()
            programs[key] = program
            kind, is_one = type(given[0]) if given else None, len(given) == 1
            values = options.values() if is_one else given[1:]
            if not options and len(front) == len(given) <= 2 and {*map(type, given)} == {kind}:
                (of_one if is_one else of_two)[cast(type, kind)] = program
            elif len(front) == 1 and (is_one or not options) and all(map(_is_plain, values)):
                # It is found by options that are no more than their values and types.
                programs[kind, *options, *values, *map(type, values)] = program

        def chosen(named: dict[str, Any]) -> tuple[str, ...]:
            # Only arrays of the evaluator's say whether their type is weak.
            return tuple(
                [
                    name
                    for name in named
                    if name in operands or (name in known and hasattr(named[name], "weak_type"))
                ]
            )

        # Errors name no argument `_given`, but that of the function within which has the value.
        def called(_given: tuple[Any, ...], _options: dict[str, Any]) -> Any:
            trace, count = _state.trace, len(_given)
            front, key = _given, None
            if trace.keeps_programs:
                if not _options and count <= limit:
                    key = (*map(type, _given),)
                else:
                    present: tuple[str, ...] = ()
                    if known:
                        named = {**dict(zip(positions, _given, strict=False)), **_options}
                        present = chosen(named)
                        front = tuple([named.pop(name) for name in present])
                        rest = (*named.values(),)
                    elif operands.isdisjoint(_options):
                        front, rest = _given[:limit], (*_given[limit:], *_options.values())
                    else:
                        taken = [_options[name] for name in _options if name in operands]
                        front = *_given[:limit], *taken
                        taken = [_options[name] for name in _options if name not in operands]
                        rest = *_given[limit:], *taken
                    types = (*map(type, rest),)
                    spelled = types if _PLAIN.issuperset(types) else spelling(rest)
                    key = count, present, *map(type, front), rest, spelled, *_options
                try:
                    return programs[key](*front)
                except KeyError:
                    pass
                except Exception:
                    key = None  # it cannot be hashed, or what is wrong is said below
            if flags and (count > first_flag or not flags.isdisjoint(_options)):
                given = {**dict(zip(positions, _given, strict=False)), **_options}
                found = plain_flags(function.__name__, flags, given)
                if found:  # without what cannot be hashed it may be a program that is kept
                    pairs = itertools.zip_longest(positions[:count], _given)
                    replaced = tuple([found.get(name, value) for name, value in pairs])
                    return called(
                        replaced, {**_options, **{x: found[x] for x in found if x in _options}}
                    )
            at_once, result = trace.at_once, NotImplemented
            if at_once is None or not places.isdisjoint(_options):
                return function(*_given, **_options)
            if not names:
                result = at_once(function, _given, names, _options)
                if key is not None and result is not NotImplemented:
                    kept(trace.program(function, names, _options), key, front, _given, _options)
            else:
                named = {**dict(zip(positions, _given, strict=False)), **_options}
                # Otherwise too many are given, or one twice or by a name that it has not,
                # which the function refuses.
                if len(named) == count + len(_options) and unnamed.isdisjoint(_options):
                    present = chosen(named)
                    given = tuple([named.pop(name) for name in present])
                    result = at_once(function, given, present, named)
                    if (
                        key is not None
                        and result is not NotImplemented
                        and len(given) == len(front)
                    ):
                        kept(trace.program(function, present, named), key, front, _given, _options)
            return function(*_given, **_options) if result is NotImplemented else result

        arity = len(parameters) if is_exact and not names else 0
        found = of_one, of_two, programs
        return cast(Function, _quick(function, called, arity, *found, limit == 1))

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
        # Integers and arrays of one element count, as in NumPy; a traced one says itself what is
        # wrong when it is asked, and functions take None as they like.
        is_known = value is None or isinstance(value, (bool, int, Tracer))
        if not is_known and getattr(value, "size", 0) != 1:
            problem, advice = f"{name} is neither True nor False", "Give one of them."
            shown = [f"{name} = {value!r}"]
            raise explain(ArgumentTypeError, subject, problem, shown, advice)
        if not is_known:
            found[name] = bool(value)
    return found


def _is_plain(value: Any) -> bool:
    # Zeros of both signs are equal, and NaN is not.
    return type(value) in _PLAIN or (type(value) is float and value != 0)


_NOTHING: Any = object()


def _quick(
    function: Callable[..., Any],
    called: Callable[[tuple[Any, ...], dict[str, Any]], Any],
    arity: int,
    of_one: dict[type, Any],
    of_two: dict[type, Any],
    programs: dict[Any, Any],
    is_followed: bool,  # its one operand, by options
) -> Callable[..., Any]:
    """`called`, which first looks for a program of one or two operands, or of one and options."""
    # A call outside of all transformations takes little more time than the program itself: what
    # counts is each step, and whether Python must make a tuple or a dictionary for the arguments.

    def unary(_x: Any, /) -> Any:
        kind = type(_x)
        try:
            if kind in of_one:
                if _state.trace.keeps_programs:
                    try:
                        return of_one[kind](_x)
                    except Exception:
                        pass  # what is wrong is said below
            elif isinstance(_x, Tracer):
                return function(_x)
            return called((_x,), {})
        except Exception as error:
            hide_frames(error)
            raise

    def binary(x1: Any, x2: Any, /) -> Any:
        kind = type(x1)
        try:
            if kind in of_two:
                if type(x2) is kind and _state.trace.keeps_programs:
                    try:
                        return of_two[kind](x1, x2)
                    except Exception:
                        pass
            elif isinstance(x1, Tracer):
                return function(x1, x2)
            return called((x1, x2), {})
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
        if _state.trace.keeps_programs:
            kind = type(_first)
            try:
                if _third is not _NOTHING:
                    if not (others or options):
                        found = programs.get((kind, type(_second), type(_third)))
                        if found is not None:
                            return found(_first, _second, _third)
                elif _second is _NOTHING:
                    if not options:
                        return of_one[kind](_first)
                    if len(options) == 1:  # as most often
                        (name,) = options
                        value = options[name]
                        key = kind, name, value, type(value)
                    else:
                        values = options.values()
                        key = kind, *options, *values, *map(type, values)
                    found = programs.get(key)
                    if found is not None:
                        return found(_first)
                elif not options:
                    if type(_second) is kind:
                        return of_two[kind](_first, _second)
                    if is_followed:
                        return programs[kind, _second, type(_second)](_first)
                    return programs[kind, type(_second)](_first, _second)
            except Exception:
                pass
        try:
            if _third is not _NOTHING:
                return called((_first, _second, _third, *others), options)
            if _second is not _NOTHING:
                return called((_first, _second), options)
            return called(() if _first is _NOTHING else (_first,), options)
        except Exception as error:
            hide_frames(error)
            raise

    exact = {1: unary, 2: binary}.get(arity, general)
    return wraps(function)(exact)
