"""Information about a call for kernels, rules and shape functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minixla.core.errors import AttributeValueError, MinixlaError, explain
from minixla.core.tracing import shape_of
from minixla.reference_evaluator.trace import widened

if TYPE_CHECKING:
    from minixla.extension.operation import CustomOperation


class InvalidArgumentError(MinixlaError, ValueError):
    """Error of a kernel, rule or shape function that rejects its operation's arguments."""


def callable_of(function: Any, subject: str, what: str) -> Any:
    """Return a kernel, rule or shape function; raise AttributeValueError if it is not callable."""
    if callable(function):
        return function
    problem, details = f"{what} cannot be called", [f"given: {function!r}"[:200]]
    raise explain(AttributeValueError, subject, problem, details, "Pass a function.")


class Context:
    """A call of an operation, for a kernel, a rule or a shape function.

    Attributes:
        operation: the operation with its attributes.
        platform: the platform of the kernel: `reference`, `cpu`, `cuda`, `tpu` ...; empty for
            functions that do not depend on it.
        inputs: the values of the inputs, a list for a list of arrays.
        outputs: the values of the outputs, for a derivative rule.
        is_wide: whether a reference kernel gets floats in double, to measure errors. Types among
            the attributes are then those of the arrays.
    """

    __slots__ = ("inputs", "is_wide", "operation", "outputs", "platform")

    def __init__(
        self,
        operation: CustomOperation,
        platform: str = "",
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        is_wide: bool = False,
    ) -> None:
        self.operation, self.platform = operation, platform
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.is_wide = is_wide

    def attr(self, name: str) -> Any:
        """Return the value of an attribute, including those that follow from the inputs (`T`, `N`).

        Raises:
            InvalidArgumentError: the attribute does not exist.
        """
        fields = self.operation.field_names
        if name not in fields:
            problem = f"attribute {name!r} does not exist"
            advice = f"Its attributes are: {', '.join(fields) or 'none'}."
            raise explain(InvalidArgumentError, self.operation.builder_name, problem, (), advice)
        value = getattr(self.operation, fields[name])
        return widened(value) if self.is_wide else value

    @property
    def input_shapes(self) -> tuple[Any, ...]:
        """The Shapes of the inputs."""
        return tuple(map(_shapes, self.inputs))

    @property
    def output_shapes(self) -> tuple[Any, ...]:
        """The Shapes of the outputs."""
        operation = self.operation
        shapes = operation.infer(tuple(map(shape_of, operation.flat_inputs(self.inputs))))
        flat = shapes if type(shapes) is tuple else (shapes,)
        return tuple(operation.nested_outputs(flat))

    def require(self, condition: Any, message: str) -> None:
        """Raise InvalidArgumentError, which names the operation, if a condition is false."""
        if not condition:
            raise self.refusal(message)

    def refusal(self, message: str) -> InvalidArgumentError:
        """Return the error for an operation that cannot be applied."""
        operation = self.operation
        pairs = zip(operation.input_names, self.input_shapes, strict=False)
        details = [f"{name} {shapes}" for name, shapes in pairs]
        details += [f"{name} = {operation.attr(name)!r}" for name in operation.field_names]
        return explain(InvalidArgumentError, operation.builder_name, message.rstrip("."), details)


def _shapes(value: Any) -> Any:
    return [shape_of(element) for element in value] if isinstance(value, list) else shape_of(value)
