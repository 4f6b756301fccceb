"""What users call of a function that runs as one program: a look-up of the program, written out.

Outside of all transformations a call takes little more time than its program: what counts is each
step, and whether Python must make a tuple or a dictionary for the arguments. So it is made of text,
with the parameters and defaults of the function that it stands for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from textwrap import indent
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from minixla.core.attributes import INEXACT, spelling
from minixla.core.state import state, transforming
from minixla.core.tracebacks import hide_frames

# Underscores keep names apart from those of parameters. Look-ups for `diff(a, n=1, axis=-1)`, whose
# operand is `a`, are
#
#     if n is _default_n and axis is _default_axis:
#         _count, _key = 1, _type(a)
#         return _programs_1[_key](a)
#     if axis is _default_axis:
#         _count, _key = 2, (_type(a), n, <what tells n from equal values>)
#         return _programs_2[_key](a)
#     _count, _key = 3, (_type(a), n, <the same>, axis, <the same>)
#     return _programs_3[_key](a)
_TEXT = """
def entrance{parameters}:
    try:
        _key = None
        if {has_no_place}(not _transforming or _state.trace.keeps_programs):
            try:
{lookups}
            except _Exception:
                pass  # there is none, the key cannot be hashed, or what is wrong is said below
{flags}{places}
        if _key is not None:
            _result = _kept(_key, _count, {values})
            if _result is not _NotImplemented:
                return _result
        return _inner({passed})
    except _Exception as _error:
        _hide_frames(_error)
        raise
"""
_LOOKUP = """
_count, _key = {count}, {key}
return _programs_{count}[_key]({operands})
"""
_FLAG = """
        if _type({name}) is not _bool:
            {name} = _flag("{name}", {name})
"""
_PLACES = """
        if {has_places}:
            return _function({passed})
"""
# What the text needs besides, not asked of modules each time.
_USED = dict(type=type, bool=bool, tuple=tuple, map=map, Exception=Exception, spelling=spelling)
_USED |= dict(NotImplemented=NotImplemented, hide_frames=hide_frames)
_USED |= dict(state=state, transforming=transforming)
_STARS = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


class Role:
    """What a parameter is to programs: an operand, or an option, for whose value one is made.

    Attributes:
        name: the parameter's.
        kind: whether it is given by position, by name, or either way.
        default: its default.
        stars: `*` where it takes several values, `**` where it takes values of any names.
        is_operand: whether its values are operands.
        has_default: whether it need not be given.
    """

    def __init__(self, parameter: Parameter, operands: Sequence[str]) -> None:
        self.name, self.kind, self.default = parameter.name, parameter.kind, parameter.default
        self.stars = _STARS.get(self.kind, "")
        is_positional = self.kind <= Parameter.VAR_POSITIONAL
        self.is_operand = self.name in operands if operands else is_positional
        self.has_default = self.stars == "**" or self.default is not Parameter.empty

    def is_told(self, value: Any) -> bool:
        """Whether its part of the key tells a value of an option from all others."""
        return value is self.default or _is_told(value)

    def key(self) -> str:
        """Its part of the key that programs are found by, as text."""
        name, kind = self.name, f"_type({self.name})"
        if self.stars == "*":
            return f"_tuple(_map(_type, {name}))"
        if self.stars:
            return f"_tuple({name}.items()), _spelling(_tuple({name}.values()))"
        if self.is_operand:
            return kind
        told = kind if isinstance(self.default, bool) else _KIND.format(name=name)
        # Where others may equal the default, the key says whether it is this one.
        is_sure = not self.has_default or _is_told(self.default)
        return ", ".join([name, told, *([] if is_sure else [self.has_own()])])

    def has_own(self) -> str:
        """Whether its value is the default, as text."""
        if self.stars:
            return f"not {self.name}"
        is_constant = self.default is None or isinstance(self.default, bool)
        return f"{self.name} is {self.default if is_constant else f'_default_{self.name}'}"

    def passed(self) -> str:
        """How its value is passed on, as text."""
        is_by_name = self.kind is Parameter.KEYWORD_ONLY
        return f"{self.name}={self.name}" if is_by_name else self.stars + self.name


_KIND = "_spelling({name}) if _type({name}) is _tuple else _type({name})"


def _is_told(value: Any) -> bool:
    """Whether equal values of its type are the same; zeros of both signs are equal."""
    if isinstance(value, INEXACT):
        return type(value) is float and value != 0
    return type(value) is tuple or not isinstance(value, tuple)


class Uses(NamedTuple):
    """What a call of a function may come to.

    Attributes:
        roles: what the parameters are, those without defaults first.
        places: further parameters, of which programs know nothing.
        inner: the function without these.
        programs: its programs by keys, and by how many of the parameters these are of, where the
            others have their defaults.
        kept: `kept(key, count, *values)`, the result where none is found.
        flag: `flag(name, value)`, True or False for what is given in their place.
    """

    roles: Sequence[Role]
    places: Sequence[str]
    inner: Callable[..., Any]
    programs: Mapping[int, Mapping[Any, Callable[..., Any]]]
    kept: Callable[..., Any]
    flag: Callable[[str, Any], Any]


def entrance(
    function: Callable[..., Any], uses: Callable[[Collection[Parameter]], Uses]
) -> Callable[..., Any]:
    """What users call of a function; `uses` is made of the parameters that they see."""

    # There are hundreds of functions: each is written when it is called first.
    def write() -> Callable[..., Any]:
        declared = signature(made).parameters.values()
        known = uses(declared)
        named = {**_USED, **known._asdict(), "function": function}
        names.update({f"_{name}": value for name, value in named.items()})
        names.update({f"_programs_{count}": found for count, found in known.programs.items()})
        names.update({f"_default_{each.name}": each.default for each in declared})
        given = [each for each in declared if each.default is not Parameter.empty]
        by_name = [each for each in given if each.kind is Parameter.KEYWORD_ONLY]
        made.__defaults__ = tuple([each.default for each in given if each not in by_name])
        made.__kwdefaults__ = {each.name: each.default for each in by_name}
        made.__code__ = _code(_text(declared, known))  # last, for other threads may call it
        return made

    names: dict[str, Any] = {"_write": write, "_hide_frames": hide_frames}
    made: Any = wraps(function)(FunctionType(_unwritten.__code__, names))
    return made


def _unwritten(*args: Any, **options: Any) -> Any:
    names = globals()  # those of the function that is made
    try:
        return names["_write"]()(*args, **options)
    except Exception as error:
        names["_hide_frames"](error)
        raise


@cache
def _code(text: str) -> CodeType:
    made: dict[str, Any] = {}
    exec(compile(text, __file__, "exec"), made)
    return made["entrance"].__code__


def _text(declared: Collection[Parameter], uses: Uses) -> str:
    roles, places, empty = uses.roles, uses.places, Parameter.empty
    bare = [each.replace(default=empty, annotation=empty) for each in declared]
    by_name = {each.name: each for each in roles}
    passed = ", ".join([by_name[each.name].passed() for each in declared if each.name in by_name])
    lookups = ""
    for count in uses.programs:
        operands = [each.stars + each.name for each in roles[:count] if each.is_operand]
        parts = [each.key() for each in roles[:count]]
        key = f"({', '.join(parts)})"
        # Operands are of one type, most often, and to make a tuple takes longer.
        if len(operands) == count:
            key = f"{parts[0]} if {' is '.join(parts)} else {key}" if count > 1 else parts[0]
        lookup = _LOOKUP.format(count=count, key=key, operands=", ".join(operands))
        others = " and ".join([each.has_own() for each in roles[count:]])
        lookups += f"if {others}:{indent(lookup, '    ')}" if others else lookup.lstrip()
    flags = [_FLAG.format(name=each.name) for each in roles if isinstance(each.default, bool)]
    has_places = " or ".join([f"{name} is not None" for name in places])
    placed = ", ".join([passed, *[f"{name}={name}" for name in places]])
    return _TEXT.format(
        parameters=Signature(bare),
        has_no_place="".join([f"{name} is None and " for name in places]),
        lookups=indent(lookups, " " * 16),
        flags="".join(flags),
        places=_PLACES.format(has_places=has_places, passed=placed) if places else "",
        values=", ".join([each.name for each in roles]),
        passed=passed,
    )
