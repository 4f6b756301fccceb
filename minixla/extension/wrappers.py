"""The function of an operation that users call, created from its declarations."""

from __future__ import annotations

import inspect
import keyword
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minixla.core.attributes import REQUIRED
from minixla.core.builders import operand_list
from minixla.core.element_types import F32
from minixla.core.errors import AttributeValueError, MinixlaError, ShapeError, explain
from minixla.core.shapes import Shape
from minixla.core.tracing import shape_of
from minixla.extension.attribute_types import ListKind
from minixla.extension.definitions import Definition
from minixla.extension.grammar import ArgumentDeclaration, AttributeDeclaration
from minixla.extension.types import STRING, type_name

if TYPE_CHECKING:
    from minixla.extension.operation import CustomOperation


def _listed(value: Any, subject: str, name: str) -> Sequence[Any]:
    """Return the arrays of a list. An array is not a list of its rows: they would be operands."""
    if hasattr(value, "dtype") or isinstance(value, Mapping):
        problem = f"{name} must be a list of arrays; got {type(value).__name__}"
        advice = "Pass [x] for one array, or list(x) for the rows of an array."
        raise explain(ShapeError, subject, problem, [f"{name} = {value!r}"[:200]], advice)
    return operand_list(value, subject, name)


def distinct_names(
    names: Iterable[str], is_taken: Callable[[str], bool] = keyword.iskeyword
) -> dict[str, str]:
    """Return a unique Python name for each declared name: the name itself if it is free.

    Args:
        names: the declared names.
        is_taken: returns whether a name cannot be used; default: whether it is a Python keyword.
    """
    declared = list(names)
    chosen = {name: name for name in declared if not is_taken(name)}
    for each in declared:
        if each not in chosen:
            name = each.lstrip("_") or "attribute"
            while is_taken(name) or name in chosen.values():
                name += "_"
            chosen[each] = name
    return {name: chosen[name] for name in declared}


def python_name(name: str) -> str:
    """Return the name of a function or class; Python keywords get an underscore."""
    return f"{name}_" if keyword.iskeyword(name) else name


def given_attributes(definition: Definition) -> list[AttributeDeclaration]:
    """Return the attributes that are parameters, those without a default first."""
    attributes = definition.attributes.values()
    settable = [attribute for attribute in attributes if attribute.name not in definition.inferred]
    return sorted(settable, key=lambda attribute: attribute.default is not REQUIRED)


def parameter_names(definition: Definition) -> dict[str, str]:
    """Return the parameter names of the inputs, and of the attributes that are parameters."""
    return distinct_names(
        [*definition.inputs, *[attribute.name for attribute in given_attributes(definition)]]
    )


class Wrapper:
    """The handling of arguments in the function of an operation."""

    def __init__(self, kind: type[CustomOperation], definition: Definition) -> None:
        self.kind, self.definition = kind, definition
        outputs = [*definition.outputs.values()]
        self.has_lists = any(map(definition.is_list, definition.inputs.values()))
        self.gives_list = len(outputs) == 1 and definition.is_list(outputs[0])
        several = list(distinct_names(definition.outputs).values())
        name = python_name(definition.name)
        self.result: Any = namedtuple(name, several) if len(several) > 1 else None
        self.given = given_attributes(definition)
        #: Turns the results of an operation on operands of some shapes into a pytree.
        self.rebuild: Callable[[CustomOperation, Sequence[Any], Any], Any] | None = None

    def __call__(self, inputs: Sequence[Any], values: Sequence[Any]) -> Any:
        """Return the operation's results."""
        subject, definition = self.kind.builder_name, self.definition
        arguments, fields = definition.inputs.values(), self.kind.field_names
        named = {fields[attribute.name]: v for attribute, v in zip(self.given, values, strict=True)}
        if self.has_lists:
            inputs = [
                _listed(value, subject, argument.name) if definition.is_list(argument) else value
                for argument, value in zip(arguments, inputs, strict=True)
            ]
        if definition.inferred:
            for name, value in self.inferred(inputs).items():
                named[fields[name]] = value
        if self.has_lists:
            inputs = [
                one
                for argument, value in zip(arguments, inputs, strict=True)
                for one in (value if definition.is_list(argument) else (value,))
            ]
        find, rebuild = self.kind.registered.found_types, None
        if find is not None:
            attributes = definition.attributes
            missing = {
                field: () if isinstance(attributes[name].kind, ListKind) else F32
                for name, field in fields.items()
                if field not in named
            }
            asked, shapes = self.kind(**named, **missing), tuple(map(shape_of, inputs))
            types = find(asked, shapes)
            named |= {fields[name]: kind for name, kind in types.items()}
            rebuild = self.rebuild and partial(self.rebuild, asked, shapes)
        if len(named) == len(fields):  # faster than by names
            operation = self.kind(*[named[field] for field in fields.values()])
        else:
            operation = self.kind(**named)
        results = operation.on_strings(inputs) if operation.has_strings else operation(*inputs)
        if self.result is not None:
            return self.result(*operation.nested_outputs(results))
        if rebuild is not None:
            return rebuild(results)
        return list(results) if self.gives_list else results

    def inferred(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Return the attributes that follow from the inputs, which are values or Shapes."""
        definition, inferred_values = self.definition, dict[str, Any]()
        origin: dict[str, ArgumentDeclaration] = {}

        def infer(name: str, value: Any, argument: ArgumentDeclaration) -> None:
            if name in inferred_values and inferred_values[name] != value:
                origins = [(origin[name], inferred_values[name]), (argument, value)]
                details = [
                    f"{origin_argument.name} says {name} = {v!r}, by {origin_argument}"
                    for origin_argument, v in origins
                ]
                problem = f"inputs do not agree about {name}"
                raise explain(
                    ShapeError, self.kind.builder_name, problem, details, self._advice(name)
                )
            inferred_values[name], origin[name] = value, argument

        for argument, value in zip(definition.inputs.values(), inputs, strict=True):
            is_list, attribute = definition.is_list(argument), argument.type
            if argument.number is not None:
                self._check(argument.number, len(value), argument)
                infer(argument.number, len(value), argument)
            if not isinstance(attribute, str):
                continue
            members = value if is_list else (value,)
            types = tuple([self._type_of(member, argument) for member in members])
            if isinstance(definition.attributes[attribute].kind, ListKind):
                self._check(attribute, types, argument)
                infer(attribute, types, argument)
                continue
            for index, each in enumerate(types):
                if each != types[0]:
                    problem = f"the arrays of {argument.name} are not all of one type"
                    details = [f"{argument.name}[{i}] is {kind}" for i, kind in enumerate(types)]
                    subject, advice = self.kind.builder_name, self._advice(attribute)
                    raise explain(ShapeError, subject, problem, details[: index + 1], advice)
            if types:
                self._check(attribute, types[0], argument)
                infer(attribute, types[0], argument)
        for name in definition.inferred:
            default = definition.attributes[name].default
            if name not in inferred_values and default is not REQUIRED:
                inferred_values[name] = default
        return inferred_values

    def _type_of(self, value: Any, argument: ArgumentDeclaration) -> Any:
        if isinstance(value, (str, bytes)) or getattr(value, "dtype", np.dtype(int)).kind in "OSU":
            return STRING
        if not isinstance(value, Shape):
            value = shape_of(value, self.kind.builder_name)
        return value.element_type

    def _advice(self, name: str) -> str:
        return f"It is declared as `{self.definition.attributes[name]}`."

    def _check(self, name: str, value: Any, argument: ArgumentDeclaration) -> None:
        """Reject a type or number that the attribute which follows from it cannot have."""
        try:
            self.definition.attributes[name].kind.canonical(value)
        except MinixlaError:
            raise
        except (TypeError, ValueError) as error:
            details = [*map(type_name, value)] if isinstance(value, tuple) else value
            details = details if isinstance(details, (int, list)) else type_name(details)
            problem = f"{argument.name} gives {name} a value that it cannot have"
            lines = [f"{argument}: {name} = {details}", f"{name} {error}"]
            advice = self._advice(name)
            kind = AttributeValueError if isinstance(value, int) else ShapeError
            raise explain(kind, self.kind.builder_name, problem, lines, advice) from None

    def function(self, module: str) -> Callable[..., Any]:
        """Return the function of the inputs, then of attributes that inputs do not determine."""
        python_names = parameter_names(self.definition)
        inputs = [python_names[value] for value in self.definition.inputs]
        names = [python_names[attribute.name] for attribute in self.given]
        call = next(name for name in ("_call", "_call_") if name not in python_names.values())
        space: dict[str, Any] = {call: self, "__name__": module}
        defaults = [
            attribute.default for attribute in self.given if attribute.default is not REQUIRED
        ]
        required = len(names) - len(defaults)
        parameters = [*names[:required], *[f"{name}=None" for name in names[required:]]]
        name = python_name(self.kind.builder_name)
        source = (
            f"def {name}({', '.join([*inputs, *parameters])}):\n"
            f"    return {call}(({''.join(f'{x}, ' for x in inputs)}), "
            f"({''.join(f'{x}, ' for x in names)}))\n"
        )
        exec(compile(source, __file__, "exec"), space)
        function = space[name]
        function.__defaults__ = tuple(defaults) or None
        function.__doc__ = inspect.getdoc(self.kind)
        function.__qualname__ = name
        return function


def documentation(definition: Definition, text: str) -> str:
    """Return the docstring of an operation: the author's text, and the declarations."""
    summary, entries = _entries(definition, text)
    parameters, results = parameter_names(definition), distinct_names(definition.outputs)
    lines = [summary or f"The operation {definition.name}.", ""]

    def listed(title: str, names: Mapping[str, str], rows: list[tuple[str, str]]) -> None:
        if rows:
            lines.append(f"{title}:")
            for name, says in rows:
                more = f" {entries[name]}" if name in entries else ""
                lines.append(f"    {names[name]}: {says}.{more}")
            lines.append("")

    settable = given_attributes(definition)
    arguments = [(value.name, _kind_of(definition, value)) for value in definition.inputs.values()]
    for attribute in settable:
        says = attribute.kind.description
        if attribute.default is not REQUIRED:
            says += f"; default: {attribute.kind.written(attribute.default)}"
        arguments.append((attribute.name, says))
    listed("Args", parameters, arguments)
    outputs = definition.outputs.values()
    listed(
        "Returns", results, [(output.name, _result_of(definition, output)) for output in outputs]
    )
    return "\n".join(lines).rstrip() + "\n"


def _entries(definition: Definition, text: str) -> tuple[str, dict[str, str]]:
    """Split a text into the part before entries `name: text`, and these entries.

    Raises:
        AttributeValueError: an entry names nothing that is declared.
    """
    names_declared = {*definition.attributes, *definition.inputs, *definition.outputs}
    before: list[str] = []
    entries: dict[str, str] = {}
    last = ""
    for line in inspect.cleandoc(text).splitlines():
        name, colon, rest = line.partition(":")
        if colon and name.isidentifier() and (rest[:1] in ("", " ")):
            if name not in names_declared:
                problem = f"the documentation describes {name}, which is not declared"
                declared = ", ".join(sorted(names_declared))
                advice = f"Declared are {declared}. Indent lines that continue an entry."
                raise explain(AttributeValueError, definition.name, problem, [line], advice)
            last, entries[name] = name, rest.strip()
        elif last and line.strip():
            entries[last] += f" {line.strip()}"
        elif not last:
            before.append(line)
    return "\n".join(before).strip(), entries


def _kind_of(definition: Definition, argument: ArgumentDeclaration) -> str:
    many = "a list of arrays" if definition.is_list(argument) else "an array"
    if not isinstance(argument.type, str):
        return f"{many} of {type_name(argument.type)}"
    kind = definition.attributes[argument.type].kind
    if isinstance(kind, ListKind):
        return f"{many}, their types {kind.member.description.removeprefix('a type')}".rstrip(", ")
    allowed = getattr(kind, "allowed", None)
    return f"{many} of {'any type' if allowed is None else kind.description}"


def _result_of(definition: Definition, argument: ArgumentDeclaration) -> str:
    many = "a list of arrays" if definition.is_list(argument) else "an array"
    if not isinstance(argument.type, str):
        return f"{many} of {type_name(argument.type)}"
    like = [value.name for value in definition.inputs.values() if value.type == argument.type]
    return f"{many} of the type of `{like[0]}`" if like else f"{many} of type `{argument.type}`"
