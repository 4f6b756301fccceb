"""Functions of arrays that an evaluator runs as one program, which is kept for later calls."""

import inspect
import itertools
import sys
from collections.abc import Callable
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
        # Those for one operand and options that are no more than their values and types.
        of_options: dict[tuple[Any, ...], Any] = {}

        def kept(
            program: Function, key: Any, given: tuple[Any, ...], options: dict[str, Any]
        ) -> None:
            if len(programs) >= _MOST_PROGRAMS:
                programs.clear()
                of_options.clear()
            programs[key] = program
            kinds, is_one = (*map(type, given),), len(given) == 1
            is_followed = not options and (limit, len(given)) == (1, 2)  # by an option
            values = options.values() if is_one else given[1:]
            types = (*map(type, values),)
            if not options and len(given) <= min(limit, 2) and len({*kinds}) == 1:
                (of_one if is_one else of_two)[kinds[0]] = program
            elif (is_one or is_followed) and _PLAIN.issuperset(types):
                of_options[kinds[0], *options, *values, *types] = program

        # Errors name no argument `_given`, but that of the function within which has the value.
        def called(_given: tuple[Any, ...], _options: dict[str, Any]) -> Any:
            trace, count = _state.trace, len(_given)
            front, key = _given, None
            if trace.keeps_programs:
                if _options or count > limit:
                    front, rest = _given[:limit], (*_given[limit:], *_options.values())
                    types = (*map(type, rest),)
                    spelled = types if _PLAIN.issuperset(types) else spelling(rest)
                    key = *map(type, front), rest, spelled, *_options
                else:
                    key = (*map(type, _given),)
                try:
                    return programs[key](*front)
                except KeyError:
                    pass
                except Exception:
                    key = None  # it cannot be hashed, or what is wrong is said below
            if flags and (count > first_flag or not flags.isdisjoint(_options)):
                given = {**dict(zip(positions, _given, strict=False)), **_options}
                check_flags(function.__name__, flags, given)
            at_once, result = trace.at_once, NotImplemented
            if at_once is None or not places.isdisjoint(_options):
                return function(*_given, **_options)
            if not names:
                result = at_once(function, _given, names, _options)
                if key is not None and result is not NotImplemented:
                    kept(trace.program(function, names, _options), key, _given, _options)
            else:
                named = {**dict(zip(positions, _given, strict=False)), **_options}
                # Only arrays of the evaluator's say whether their type is weak.
                arrays = tuple([x for x in known if hasattr(named.get(x), "weak_type")])
                # Otherwise too many are given, or one twice or by a name that it has not,
                # which the function refuses.
                if len(named) == count + len(_options) and unnamed.isdisjoint(_options):
                    present = *[name for name in names if name in named], *arrays
                    operands = tuple([named.pop(name) for name in present])
                    result = at_once(function, operands, present, named)
                    is_new = result is not NotImplemented
                    is_pair = arrays and not named and present == positions[:2]
                    if is_new and key is not None and present == names[: len(front)]:
                        kept(trace.program(function, present, named), key, _given, _options)
                    elif is_new and is_pair and type(_given[0]) is type(_given[1]):
                        of_two[type(_given[0])] = trace.program(function, present, named)
            return function(*_given, **_options) if result is NotImplemented else result

        arity = len(parameters) if is_exact and not names else 0
        return cast(Function, _quick(function, called, arity, of_one, of_two, of_options))

    return marked


def check_flags(subject: str, flags: frozenset[str], given: dict[str, Any]) -> None:
    """Raises ArgumentTypeError where what is given for a flag is neither true nor false."""
    for name in flags & given.keys():
        value = given[name]
        # Integers and arrays of one element count, as in NumPy; a traced one says itself what is
        # wrong when it is asked, and functions take None as they like.
        is_known = value is None or isinstance(value, (bool, int, Tracer))
        if not is_known and getattr(value, "size", 0) != 1:
            problem, advice = f"{name} is neither True nor False", "Give one of them."
            shown = [f"{name} = {value!r}"]
            raise explain(ArgumentTypeError, subject, problem, shown, advice)


_NOTHING: Any = object()


def _quick(
    function: Callable[..., Any],
    called: Callable[[tuple[Any, ...], dict[str, Any]], Any],
    arity: int,
    of_one: dict[type, Any],
    of_two: dict[type, Any],
    of_options: dict[tuple[Any, ...], Any],
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
        _first: Any = _NOTHING, _second: Any = _NOTHING, /, *others: Any, **options: Any
    ) -> Any:
        if not others and _state.trace.keeps_programs:
            kind = type(_first)
            try:
                if options:
                    values = options.values()
                    if _second is _NOTHING:
                        return of_options[kind, *options, *values, *map(type, values)](_first)
                elif _second is _NOTHING:
                    return of_one[kind](_first)
                elif type(_second) is kind:
                    return of_two[kind](_first, _second)
                else:
                    return of_options[kind, _second, type(_second)](_first)
            except Exception:
                pass
        try:
            if _second is not _NOTHING:
                return called((_first, _second, *others), options)
            return called(() if _first is _NOTHING else (_first,), options)
        except Exception as error:
            hide_frames(error)
            raise

    exact = {1: unary, 2: binary}.get(arity, general)
    return wraps(function)(exact)
