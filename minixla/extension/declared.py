"""The types, lists and names in a call, from the declarations of its operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import jax

from minixla.core.errors import TransformError, explain
from minixla.core.operation import Operation
from minixla.extension.types import STRING, DeclaredType

if TYPE_CHECKING:
    from minixla.extension.definitions import Definition
    from minixla.extension.grammar import ArgumentDeclaration
    from minixla.extension.registered import RegisteredOperation


class DeclaredOperation(Operation):
    """Base class of registered operations, with the properties that follow from declarations."""

    registered: ClassVar[RegisteredOperation]
    #: The field of each attribute; an operation has some names already.
    field_names: ClassVar[dict[str, str]] = {}
    input_names: ClassVar[tuple[str, ...]] = ()

    # Properties of this call that follow from the declarations.

    @property
    def definition(self) -> Definition:
        """The declarations."""
        return self.registered.definition

    def attr(self, name: str) -> Any:
        """Return the value of an attribute."""
        return getattr(self, self.field_names[name])

    @cached_property
    def input_types(self) -> tuple[tuple[DeclaredType, ...], ...]:
        """The types of the arrays of each input."""
        return tuple(map(self._types_of, self.definition.inputs.values()))

    @cached_property
    def output_types(self) -> tuple[tuple[DeclaredType, ...], ...]:
        """The types of the arrays of each output."""
        return tuple(map(self._types_of, self.definition.outputs.values()))

    @cached_property
    def operand_types(self) -> list[DeclaredType]:
        """The type of each operand."""
        return [kind for types in self.input_types for kind in types]

    @cached_property
    def result_types(self) -> list[DeclaredType]:
        """The type of each result."""
        return [kind for types in self.output_types for kind in types]

    @cached_property
    def has_strings(self) -> bool:
        """True if an input or output is an array of strings, which programs cannot have."""
        return STRING in (*self.operand_types, *self.result_types)

    def _types_of(self, argument: ArgumentDeclaration) -> tuple[DeclaredType, ...]:
        kind = self.attr(argument.type) if isinstance(argument.type, str) else argument.type
        types = kind if isinstance(kind, tuple) else (kind,)
        return types if argument.number is None else types * self.attr(argument.number)

    def nested_inputs(self, values: Iterable[Any]) -> list[Any]:
        """Return operands in the form for kernels: arrays of a list in a list."""
        return self._nested(self.definition.inputs.values(), self.input_types, values)

    def nested_outputs(self, values: Iterable[Any]) -> list[Any]:
        """Return results in the form for kernels: arrays of a list in a list."""
        return self._nested(self.definition.outputs.values(), self.output_types, values)

    def _nested(
        self, arguments: Iterable[ArgumentDeclaration], types: Any, values: Iterable[Any]
    ) -> list[Any]:
        remaining = iter(values)
        return [
            [next(remaining) for _ in argument_types]
            if self.definition.is_list(argument)
            else next(remaining)
            for argument, argument_types in zip(arguments, types, strict=True)
        ]

    def flat_inputs(self, values: Iterable[Any]) -> list[Any]:
        """Return operands in flat form, the inverse of `nested_inputs`."""
        return [one for value in values for one in (value if isinstance(value, list) else [value])]

    def flat(
        self, values: Any, arguments: Mapping[str, ArgumentDeclaration], types: Any, what: str
    ) -> list[Any]:
        """Return a rule's result, with one value for each input or output, as a flat list."""
        names = list(arguments)
        if not isinstance(values, (list, tuple)) or len(values) != len(names):
            count = len(values) if isinstance(values, (list, tuple)) else type(values).__name__
            self._misfit(what, f"given: {count}", f"Return one value for each of {names}.")
        flat: list[Any] = []
        for argument, argument_types, part in zip(arguments.values(), types, values, strict=True):
            if not self.definition.is_list(argument):
                flat.append(part)
            elif part is None:
                flat += [None] * len(argument_types)
            elif len(leaves := _leaves(part)) == len(argument_types):
                flat += leaves
            else:
                advice = f"{argument.name} is a list of {len(argument_types)} arrays."
                self._misfit(what, f"{argument.name}: {part!r}", advice)
        return flat

    def _misfit(self, what: str, values: str, advice: str) -> NoReturn:
        problem = f"{what} returned a value of another form"
        raise explain(TransformError, self.builder_name, problem, [values], advice)

    def flat_outputs(self, values: Any, what: str) -> list[Any]:
        """Return a kernel's result as a flat list; for one output it may be the value itself."""
        outputs = self.definition.outputs
        is_bare = len(outputs) == 1 and (self.gives_tuple or not isinstance(values, (list, tuple)))
        return self.flat([values] if is_bare else values, outputs, self.output_types, what)

    @cached_property
    def gives_tuple(self) -> bool:
        """True if it has a tuple of results, not one."""
        outputs = list(self.definition.outputs.values())
        return len(outputs) != 1 or self.definition.is_list(outputs[0])

    def as_results(self, values: Sequence[Any]) -> Any:
        """Return results in the operation's form."""
        return tuple(values) if self.gives_tuple else values[0]

    @cached_property
    def output_lengths(self) -> list[int | None]:
        """For each output, its number of arrays if it is a list, else None."""
        pairs = zip(self.definition.outputs.values(), self.output_types, strict=True)
        return [
            len(argument_types) if self.definition.is_list(argument) else None
            for argument, argument_types in pairs
        ]

    def output_labels(self) -> list[str]:
        """Return a name for each result."""
        pairs = zip(self.definition.outputs.values(), self.output_types, strict=True)
        return [
            f"{argument.name}[{i}]" if self.definition.is_list(argument) else argument.name
            for argument, argument_types in pairs
            for i in range(len(argument_types))
        ]


def _leaves(part: Any) -> list[Any]:
    """Return the values for a list of arrays: the leaves of a pytree, including None."""
    return [] if hasattr(part, "dtype") else jax.tree.leaves(part, is_leaf=lambda x: x is None)
