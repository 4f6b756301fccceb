"""The definition of an operation: its declarations, checked together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from minixla.core.attributes import REQUIRED
from minixla.core.errors import AttributeValueError, explain
from minixla.extension import attribute_types
from minixla.extension.attribute_types import Kind, ListKind, TypeKind
from minixla.extension.grammar import ArgumentDeclaration, AttributeDeclaration


@dataclass(frozen=True)
class Definition:
    """The checked declarations of an operation's inputs, outputs and attributes.

    Attributes:
        name: the operation's name.
        attributes, inputs, outputs: the declarations by name, in order.
        inferred: the attributes that follow from the inputs.
    """

    name: str
    attributes: dict[str, AttributeDeclaration]
    inputs: dict[str, ArgumentDeclaration]
    outputs: dict[str, ArgumentDeclaration]
    inferred: tuple[str, ...]

    @classmethod
    def of(
        cls,
        name: str,
        attributes: Iterable[Any],
        inputs: Iterable[Any],
        outputs: Iterable[Any],
        has_references: bool = False,
    ) -> Definition:
        """Create the definition from declarations, each a string or an object.

        With `has_references` the declarations are those that `as_dict` wrote: an input or output
        may be `Ref(...)`, and names are parameter names of Python functions.

        Raises:
            AttributeValueError: one is invalid, or they do not fit together.
        """

        def known(listed: list[Any]) -> dict[str, Any]:
            names = [argument.name for argument in listed]
            double = next((name for name in names if names.count(name) > 1), None)
            if double is not None:
                advice = "Attributes, inputs and outputs need distinct names."
                raise explain(
                    AttributeValueError, name, f"{double} is declared twice", names, advice
                )
            return dict(zip(names, listed, strict=True))

        texts = [attributes, inputs, outputs]
        for text in texts:
            if isinstance(text, str) or not isinstance(text, Iterable):
                what = "a string" if isinstance(text, str) else repr(text)[:200]
                problem, advice = f"a list of declarations is {what}", 'Write inputs=["x: float"].'
                raise explain(AttributeValueError, name, problem, (), advice)
        own = [
            _read(AttributeDeclaration, attribute, name, any_name=has_references)
            for attribute in attributes
        ]
        by_name = known(own)
        sides = [
            [
                _read(ArgumentDeclaration, each, name, attributes=by_name, any_name=has_references)
                for each in side
            ]
            for side in (inputs, outputs)
        ]
        known([*own, *sides[0]])
        for text in (*sides[0], *sides[1]):
            _check_use(name, text, by_name, has_references)
        used = {word for side in sides[0] for word in (side.number, side.type)}
        inferred = tuple([attribute_name for attribute_name in by_name if attribute_name in used])
        return cls(name, by_name, known(sides[0]), known(sides[1]), inferred)

    def is_list(self, argument: ArgumentDeclaration) -> bool:
        """Test whether an input or output is a list of arrays."""
        if argument.number is not None:
            return True
        kind = isinstance(argument.type, str) and self.attributes[argument.type].kind
        return isinstance(kind, ListKind)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Definition:
        """Create the definition from the result of `as_dict`.

        Raises:
            AttributeValueError: a declaration is invalid.
            KeyError, TypeError: the dictionary has another form.
        """
        parts = [fields.get(key, ()) for key in ("attrs", "inputs", "outputs")]
        if not all(isinstance(part, (list, tuple)) for part in parts):
            raise TypeError("its declarations are not lists")
        return cls.of(fields["name"], *parts, has_references=True)

    def as_dict(self) -> dict[str, Any]:
        """Return the definition in JSON form: its name, and its declarations as text."""
        parts = {"attrs": self.attributes, "inputs": self.inputs, "outputs": self.outputs}
        return {"name": self.name, **{key: [*map(str, d.values())] for key, d in parts.items()}}

    def __str__(self) -> str:
        parts = [("attrs", self.attributes), ("inputs", self.inputs), ("outputs", self.outputs)]
        listed = [f"{label}={[*map(str, part.values())]}" for label, part in parts]
        return f"{self.name}({', '.join(listed)})"


def _read(kind: Any, value: Any, subject: str, **context: Any) -> Any:
    if isinstance(value, str):
        return kind.read(value, subject=subject, **context)
    if not isinstance(value, kind):
        problem, advice = f"{value!r} is not a declaration", 'Write "x: float", or a declaration.'
        raise explain(AttributeValueError, subject, problem, (), advice)
    if not value.name.isidentifier():
        problem, advice = f"{value.name!r} is not a name", "Use letters, digits and underscores."
        raise explain(AttributeValueError, subject, problem, [str(value)], advice)
    return value


def _check_use(
    subject: str,
    argument: ArgumentDeclaration,
    attributes: dict[str, AttributeDeclaration],
    has_references: bool,
) -> None:
    """Reject attributes of wrong kinds in a type; give lists without a minimum one of 1."""

    def refuse(name: str, wanted: str) -> None:
        problem = f"{argument.name} uses the attribute {name}, which is of another kind"
        details = [str(argument), str(attributes[name])]
        raise explain(AttributeValueError, subject, problem, details, f"Declare it as {wanted}.")

    if argument.is_reference and not has_references:
        problem = "XLA's arrays cannot be changed, so Ref(...) is not supported"
        advice = "Remove Ref, and return the new array as an output, with the old one as an "
        advice += "input."
        raise explain(AttributeValueError, subject, problem, [str(argument)], advice)
    if argument.number is not None:
        declared = attributes[argument.number]
        if not isinstance(declared.kind, attribute_types.IntegerKind):
            refuse(declared.name, f"`{declared.name}: int`")
        if declared.kind.minimum is None:
            positive = attribute_types.IntegerKind(1)
            attributes[declared.name] = _at_least_one(subject, declared, positive)
    if not isinstance(argument.type, str):
        return
    declared = attributes[argument.type]
    of_list = isinstance(declared.kind, ListKind) and argument.number is None
    member = declared.kind.member if of_list else declared.kind  # type: ignore[union-attr]  # a list's
    if not isinstance(member, TypeKind):
        refuse(declared.name, f"`{declared.name}: type`, or as list(type) without a number")
    if of_list and declared.kind.minimum is None:
        attributes[declared.name] = _at_least_one(subject, declared, ListKind(member, 1))


def _at_least_one(subject: str, declared: AttributeDeclaration, kind: Kind) -> AttributeDeclaration:
    """Return the declaration of a list's length or types, with a minimum of 1 by default."""
    changed = AttributeDeclaration(declared.name, kind, declared.default)
    if declared.default is REQUIRED:
        return changed
    return AttributeDeclaration.read(str(changed), subject, any_name=True)
