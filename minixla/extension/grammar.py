"""The grammar of declarations: attributes, inputs and outputs, as strings and as objects.

attributes  name: kind [>= minimum] [= default]
kinds       string bytes int float bool type shape tensor numbertype realnumbertype
            quantizedtype {'apple', 'orange'} {int32, numbertype} list(kind)
inputs      name: type          name: attribute of kind type or list(type)
and outputs name: number * type, where number is an attribute of kind int
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from minixla.core.attributes import REQUIRED
from minixla.core.errors import MinixlaError
from minixla.extension import attribute_types
from minixla.extension.attribute_types import Kind, ListKind, TypeKind
from minixla.extension.text_format import Reader
from minixla.extension.types import ALIASES, SETS, TYPES, DeclaredType, type_name, type_named

_PLAIN: dict[str, Callable[[], Kind]] = {
    "string": attribute_types.StringKind,
    "bytes": attribute_types.BytesKind,
    "int": attribute_types.IntegerKind,
    "float": attribute_types.FloatKind,
    "bool": attribute_types.BooleanKind,
    "type": TypeKind,
    "shape": attribute_types.ShapeKind,
    "tensor": attribute_types.TensorKind,
}
_KINDS = ", ".join([*_PLAIN, *SETS, "{'a', 'b'}", "{float, int32}", "list(...)"])
_SET_ADVICE = "Write types, {float, int32, numbertype}, or strings, {'apple', 'orange'}."


@dataclass(frozen=True)
class AttributeDeclaration:
    """One attribute; prints as it is declared.

    Args:
        name: its name.
        kind: the kind of its values.
        default: the default value in canonical form; REQUIRED: a value must be given.
    """

    name: str
    kind: Kind
    default: Any = REQUIRED

    @classmethod
    def read(
        cls, text: str, subject: str = "attribute", *, any_name: bool = False
    ) -> AttributeDeclaration:
        """Parse the declaration in `text`; `any_name` allows every Python identifier as its name.

        Raises:
            AttributeValueError: it is invalid, or the default contradicts it.
        """
        reader = Reader(subject, text)
        advice = "Write an attribute as `name: kind`, such as `preserve_index: int >= 0 = 0`."
        meaning = "a letter, then letters, digits, underscores"
        name = _name(reader, None if any_name else r"[A-Za-z]\w*", meaning, advice)
        kind = _kind(reader)
        default = REQUIRED
        if reader.takes("="):
            example = f"Write a default of kind {kind} as in protocol buffers or Python."
            at = reader.skip()
            value = reader.value(example)
            try:
                default = kind.canonical(kind.interpreted(value))
            except MinixlaError:
                raise
            except (TypeError, ValueError, OverflowError) as error:
                problem = f"the default of {name} breaks its own declaration: {error}"
                reader.refuse(problem, f"{name} must be {kind.description}.", at)
        if not reader.is_at_end:
            reader.refuse("the declaration goes on where it should end", advice)
        return cls(name, kind, default)

    def __str__(self) -> str:
        default = "" if self.default is REQUIRED else f" = {self.kind.written(self.default)}"
        return f"{self.name}: {self.kind}{default}"


@dataclass(frozen=True)
class ArgumentDeclaration:
    """One input or output; prints as it is declared.

    Args:
        name: its name.
        type: its element type, or the attribute that holds it.
        number: the attribute that holds the number of arrays; None: one, or as many as the list of
            types has.
    """

    name: str
    type: DeclaredType | str
    number: str | None = None
    is_reference: bool = False

    @classmethod
    def read(
        cls,
        text: str,
        attributes: Iterable[str] = (),
        subject: str = "argument",
        *,
        any_name: bool = False,
    ) -> ArgumentDeclaration:
        """Parse the declaration in `text`, given the attributes' names.

        `any_name` allows every Python identifier as its name.

        Raises:
            AttributeValueError: it is invalid.
        """
        reader, names = Reader(subject, text), list(attributes)
        advice = "Write an input or output as `name: type`, `name: T` or `name: N * T`."
        meaning = "a lower-case letter, then lower-case letters, digits, underscores"
        name = _name(reader, None if any_name else r"[a-z][a-z0-9_]*", meaning, advice)
        at, word = reader.skip(), reader.name(advice)
        is_reference = word == "Ref"
        if is_reference:
            reader.expect("(", advice)
            at, word = reader.skip(), reader.name(advice)
        number = None
        if reader.takes("*"):
            number, at = word, reader.skip()
            word = reader.name("Write `N * T` with a type, or an attribute of kind type.")
            if number not in names:
                problem = f"{number}, the number of arrays, is not a declared attribute"
                reader.refuse(problem, f"Declare it: `{number}: int`, or `{number}: int >= 0`.")
        kind = word if word in names else type_named(word)
        if kind is None:
            meant = difflib.get_close_matches(word, [*TYPES, *names], 3)
            others = f"; similar: {', '.join(meant)}" if meant else ""
            hint = f"Declare an attribute `{word}: type`, or name a type ({', '.join(TYPES)})."
            reader.refuse(f"{word} is neither a type nor an attribute{others}", hint, at)
        if is_reference:
            reader.expect(")", advice)
        if not reader.is_at_end:
            reader.refuse("the declaration goes on where it should end", advice)
        return cls(name, kind, number, is_reference)

    def __str__(self) -> str:
        kind = self.type if isinstance(self.type, str) else type_name(self.type)
        written = f"{f'{self.number} * ' if self.number else ''}{kind}"
        return f"{self.name}: {f'Ref({written})' if self.is_reference else written}"


def _name(reader: Reader, pattern: str | None, meaning: str, advice: str) -> str:
    """Read a name that matches a pattern, and the colon after it, if they are present."""
    name = reader.name(advice)
    if pattern and not re.fullmatch(pattern, name, re.ASCII):
        reader.refuse(f"{name!r} is not a valid name: a name is {meaning}", advice, 0)
    reader.expect(":", advice)
    return name


def _kind(reader: Reader, is_member: bool = False) -> Kind:
    at = reader.skip()
    kind = _set(reader) if reader.takes("{") else _named_kind(reader, is_member)
    if is_member or not reader.takes(">="):
        return kind
    minimum = reader.number("Write `int >= 2`, or `list(int) >= 3`.")
    if not isinstance(minimum, int):
        reader.refuse(f"the minimum {minimum} is not an integer", "Write `int >= 2`.", at)
    if isinstance(kind, ListKind):
        if minimum < 0:
            reader.refuse("a list cannot have negative length", "Write `list(int) >= 0`.", at)
        return ListKind(kind.member, minimum)
    if not isinstance(kind, attribute_types.IntegerKind):
        reader.refuse(f"{kind} has no minimum", "Only int and lists have one: `int >= 2`.", at)
    return attribute_types.IntegerKind(minimum)


def _named_kind(reader: Reader, is_member: bool) -> Kind:
    at, word = reader.skip(), reader.name(f"Write a kind: {_KINDS}.")
    word = ALIASES.get(word, word) if word in ALIASES and ALIASES[word] in SETS else word
    if word == "list":
        if is_member:
            advice = "Lists hold string, int, float, bool, type, shape or tensor."
            reader.refuse("lists of lists are not supported", advice, at)
        reader.expect("(", "Write `list(int)`.")
        member = _kind(reader, is_member=True)
        reader.expect(")", "Write `list(int)`.")
        return ListKind(member)
    if word in _PLAIN:
        return _PLAIN[word]()
    if word in SETS:
        return TypeKind(word, SETS[word])
    if word == "func":
        problem = "attributes of kind func are not supported"
        advice = "A Python function is not a constant: give a kernel the operations that "
        reader.refuse(problem, advice + "it runs, or make an operation for each function.", at)
    types = f", or the types that it may be in braces: {{{word}}}" if type_named(word) else ""
    meant = difflib.get_close_matches(word, [*_PLAIN, *SETS, "list"], 2)
    similar = f"; similar: {', '.join(meant)}" if meant else ""
    reader.refuse(f"{word!r} is not a kind{similar}", f"Write a kind: {_KINDS}{types}.", at)


def _set(reader: Reader) -> Kind:
    """Read a set in braces: strings, or types and sets of types."""
    strings: list[Any] = []
    types: dict[DeclaredType, None] = {}
    words: list[str] = []
    start = reader.position - 1
    while not reader.takes("}"):
        at = reader.skip()
        if reader.text[at : at + 1] in ("'", '"'):
            strings.append(reader.quoted(_SET_ADVICE))
        else:
            word = reader.name(_SET_ADVICE)
            kind = type_named(word)
            members = SETS.get(ALIASES.get(word, word)) or ((kind,) if kind else ())
            if not members or word.startswith("DT_"):
                small = f" ({type_name(kind)})" if kind else ""
                reader.refuse(f"{word!r} is not a type here{small}", _SET_ADVICE, at)
            types.update(dict.fromkeys(members))
            words.append(ALIASES.get(word, word) if kind is None else type_name(kind))
        if not reader.takes(",") and not reader.text.startswith("}", reader.skip()):
            reader.refuse("'}' or ',' is missing", _SET_ADVICE)
    if bool(strings) == bool(types):
        problem = "the set is empty" if not strings else "the set mixes strings and types"
        reader.refuse(problem, _SET_ADVICE, start)
    if strings:
        return attribute_types.EnumerationKind(*strings)
    return TypeKind(f"{{{', '.join(words)}}}", types)
