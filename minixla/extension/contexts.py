"""What kernels, rules and shape functions are told of the call that they are for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minixla.core.errors import AttributeValueError, MinixlaError, explain
from minixla.core.tracing import shape_of
from minixla.reference_evaluator.trace import widened

if TYPE_CHECKING:
    from minixla.extension.operation import CustomOperation


class InvalidArgumentError(MinixlaError, ValueError):
    """A kernel, rule or shape function refuses what its operation was given."""


def callable_of(function: Any, subject: str, what: str) -> Any:
    """A kernel, rule or shape function; AttributeValueError for what cannot be called."""
    if callable(function):
        return function
    problem, details = f"{what} cannot be called", [f"given: {function!r}"[:200]]
    raise explain(AttributeValueError, subject, problem, details, "Give a function.")


class Context:
    """A call of an operation, for a kernel, a rule or a shape function.

    Attributes:
        operation: the operation with its attributes.
        platform: what the kernel runs on: `reference`, `cpu`, `cuda`, `tpu` ...; empty for what
            does not depend on it.
        inputs: the values of the inputs, a list for a list of arrays.
        outputs: those of the outputs, where a derivative is asked for.
        is_wide: whether a reference kernel gets floats in double, to measure errors against: types
            among the attributes are those of the arrays.
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
        """The value of an attribute, those that follow from the inputs (`T`, `N`) included.

        Raises:
            InvalidArgumentError: there is no such attribute.
        """
        fields = self.operation.field_names
        if name not in fields:
            problem = f"there is no attribute {name!r}"
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
        """Raises InvalidArgumentError, which names the operation, where a condition is false."""
        if not condition:
            raise self.refusal(message)

    def refusal(self, message: str) -> InvalidArgumentError:
        """The error that says why the operation cannot be applied."""
        operation = self.operation
        pairs = zip(operation.input_names, self.input_shapes, strict=False)
        details = [f"{name} {shapes}" for name, shapes in pairs]
        details += [f"{name} = {operation.attr(name)!r}" for name in operation.field_names]
        return explain(InvalidArgumentError, operation.builder_name, message.rstrip("."), details)


def _shapes(value: Any) -> Any:
    return [shape_of(element) for element in value] if isinstance(value, list) else shape_of(value)
