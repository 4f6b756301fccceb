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

_SPELLED = {float, tuple}  # types of options that are more than their values and types
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
        leading = len(
            list(takewhile(lambda pair: pair[0] == pair[1], zip(positions, names, strict=False)))
        )
        limit = leading if names else sys.maxsize
        is_exact = all(
            each.kind is each.POSITIONAL_ONLY and each.default is each.empty
            for each in parameters.values()
        )
        is_flag = [isinstance(each.default, bool) for each in parameters.values()]
        flags = frozenset(itertools.compress(positions, is_flag))
        first_flag = (*is_flag, True).index(True)
        # By the operands' types, and by options.
        programs: dict[Any, Function] = {}
        # Those for one or two operands of one type and no options, by that type.
        of_one: dict[type, Any] = {}
        of_two: dict[type, Any] = {}

        def kept(program: Function, key: Any, given: tuple[Any, ...], is_plain: bool) -> None:
            if len(programs) >= _MOST_PROGRAMS:
                programs.clear()
            programs[key] = program
            kinds = {*map(type, given)}
            if is_plain and len(kinds) == 1 and len(given) <= min(limit, 2):
                (of_one if len(given) == 1 else of_two)[kinds.pop()] = program

        @wraps(function)
        def called(*given: Any, **options: Any) -> Any:
            try:
                trace, count = _state.trace, len(given)
                front, key = given, None
                if trace.keeps_programs:
                    if options or count > limit:
                        front, rest = given[:limit], (*given[limit:], *options.values())
                        types = (*map(type, rest),)
                        spelled = types if _SPELLED.isdisjoint(types) else spelling(rest)
                        key = *map(type, front), rest, spelled, *options
                    else:
                        key = (*map(type, given),)
                    try:
                        return programs[key](*front)
                    except KeyError:
                        pass
                    except Exception:
                        key = None  # it cannot be hashed, or what is wrong is said below
                if flags and (count > first_flag or not flags.isdisjoint(options)):
                    _check_flags(
                        function, flags, {**dict(zip(positions, given, strict=False)), **options}
                    )
                at_once, result = trace.at_once, NotImplemented
                if at_once is None:
                    return function(*given, **options)
                if not names:
                    result = at_once(function, given, names, options)
                    if key is not None and result is not NotImplemented:
                        kept(trace.program(function, names, options), key, given, not options)
                else:
                    named = {**dict(zip(positions, given, strict=False)), **options}
                    # Only arrays of the evaluator's say whether their type is weak.
                    arrays = tuple([x for x in known if hasattr(named.get(x), "weak_type")])
                    # Otherwise too many are given, or one twice or by a name that it has not,
                    # which the function refuses.
                    if len(named) == count + len(options) and unnamed.isdisjoint(options):
                        present = *[name for name in names if name in named], *arrays
                        operands = tuple([named.pop(name) for name in present])
                        result = at_once(function, operands, present, named)
                        is_new = result is not NotImplemented
                        is_pair = arrays and not named and present == positions[:2]
                        if is_new and key is not None and present == names[: len(front)]:
                            kept(trace.program(function, present, named), key, given, not options)
                        elif is_new and is_pair and type(given[0]) is type(given[1]):
                            of_two[type(given[0])] = trace.program(function, present, named)
                return function(*given, **options) if result is NotImplemented else result
            except Exception as error:
                hide_frames(error)
                raise

        arity = len(parameters) if is_exact and not names else 0
        return cast(Function, _quick(function, called, arity, of_one, of_two))

    return marked


def _check_flags(
    function: Callable[..., Any], flags: frozenset[str], given: dict[str, Any]
) -> None:
    """Raises ArgumentTypeError where what is given for a flag is neither true nor false."""
    for name in flags & given.keys():
        value = given[name]
        # Integers and arrays of one element count, as in NumPy; a traced one says itself what is
        # wrong when it is asked, and functions take None as they like.
        is_known = value is None or isinstance(value, (bool, int, Tracer))
        if not is_known and getattr(value, "size", 0) != 1:
            problem, advice = f"{name} is neither True nor False", "Give one of them."
            shown = [f"{name} = {value!r}"]
            raise explain(ArgumentTypeError, function.__name__, problem, shown, advice)


_NOTHING: Any = object()


def _quick(
    function: Callable[..., Any],
    called: Callable[..., Any],
    arity: int,
    of_one: dict[type, Any],
    of_two: dict[type, Any],
) -> Callable[..., Any]:
    """`called`, which first looks for a program of one or two operands and no options."""
    # A call outside of all transformations takes little more time than the program itself: what
    # counts is each step, and whether Python must make a tuple or a dictionary for the arguments.
    # Errors name no argument `_x`, but that of the function within which has the value.

    def unary(_x: Any, /) -> Any:
        kind = type(_x)
        if kind in of_one:
            if _state.trace.keeps_programs:
                try:
                    return of_one[kind](_x)
                except Exception:
                    pass  # what is wrong is said below
        elif isinstance(_x, Tracer):
            try:
                return function(_x)
            except Exception as error:
                hide_frames(error)
                raise
        return called(_x)

    def binary(x1: Any, x2: Any, /) -> Any:
        kind = type(x1)
        if kind in of_two:
            if type(x2) is kind and _state.trace.keeps_programs:
                try:
                    return of_two[kind](x1, x2)
                except Exception:
                    pass
        elif isinstance(x1, Tracer):
            try:
                return function(x1, x2)
            except Exception as error:
                hide_frames(error)
                raise
        return called(x1, x2)

    def general(
        _first: Any = _NOTHING, _second: Any = _NOTHING, /, *others: Any, **options: Any
    ) -> Any:
        if not (others or options) and _state.trace.keeps_programs:
            kind = type(_first)
            try:
                if _second is _NOTHING:
                    return of_one[kind](_first)
                if type(_second) is kind:
                    return of_two[kind](_first, _second)
            except Exception:
                pass
        if _second is not _NOTHING:
            return called(_first, _second, *others, **options)
        return called(**options) if _first is _NOTHING else called(_first, **options)

    exact = {1: unary, 2: binary}.get(arity, general)
    return wraps(called)(exact)
