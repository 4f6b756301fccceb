"""Builder functions derived from operation classes."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from minixla.core.attributes import REQUIRED
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.errors import ShapeError, explain
from minixla.core.operation import Operation
from minixla.core.operation_docstrings import of_operation
from minixla.core.tracebacks import Function

Operand = TypeVar("Operand")


def operand_list(values: Iterable[Operand], subject: str, name: str) -> Sequence[Operand]:
    """Return the operands of the list argument `name` of a builder, `subject`."""
    try:
        if not isinstance(values, (str, bytes)):
            return tuple(values)
    except TypeError:
        pass
    details = [f"{name} = {values!r}"[:200]]
    advice = "Pass a list or tuple of arrays."
    raise explain(ShapeError, subject, f"{name} is not a sequence", details, advice)


def builder(cls: type[Operation], **renamed: str) -> Callable[..., Any]:
    """Build the function that applies an operation to operands, followed by attributes.

    Its name, signature, defaults and documentation are those of the class, which
    `inspect.getsource` shows. If the name of the last operand ends in `...`, it is a sequence of
    arrays. A custom builder is a function with the decorator `builds`.

    Args:
        cls: the class.
        renamed: parameter names by attribute, if they differ. `output_shape` becomes `shape`, as
            `shape` is a method of every operation.

    Returns:
        A function of operands and attributes.

    Example:
        >>> from minixla.core import builder, operation_named
        >>> negated = builder(operation_named("Neg"))
        >>> negated(np.float32(2))
        Array(-2., dtype=float32)
    """
    renamed = {"output_shape": "shape", **renamed}
    space: dict[str, Any] = {"operation": cls, "operand_list": operand_list}
    space["__name__"] = cls.__module__
    annotations: dict[str, str] = {}
    parameters, required, looked_up = [], [], []
    for operand in cls.operands:
        name = operand.removesuffix("...")
        parameters.append(name)
        if name == operand:
            required.append(name)
        else:
            required.append(f"*operand_list({name}, {cls.builder_name!r}, {name!r})")
            annotations[name] = "Sequence[Any]"
    fields = {renamed.get(name, name): field for name, field in cls.fields.items()}
    for name, field in fields.items():
        space[f"_{name}"], takes = field.default, field.kind.takes
        parameters.append(name if field.default is REQUIRED else f"{name}=_{name}")
        # Lists are not hashable.
        as_tuple = f"tuple({name}) if type({name}) is list else {name}"
        looked_up.append(as_tuple if isinstance(field.kind, SequenceOf) else name)
        is_optional = field.default is None and takes != "Any"
        annotations[name] = f"{takes} | None" if is_optional else takes
    record = f"operation({', '.join(looked_up)})"
    if all(field.default is None for field in fields.values()):
        # The most common call, without a look-up.
        is_default = " is ".join([*fields, "None"])
        record = f"(default if {is_default} else {record})" if fields else "default"
        space["default"] = cls()
    header = f"def {cls.builder_name}({', '.join(parameters)}):\n"
    exec(compile(f"{header}    return {record}({', '.join(required)})\n", __file__, "exec"), space)
    function = space[cls.builder_name]
    function.__annotations__ = annotations
    function.default = space.get("default")  # the operation if all attributes have defaults
    return derived(cls, function)


def derived(cls: type[Operation], function: Function) -> Function:
    """Name and document a builder whose source is its class."""
    named: Any = builds(cls)(function)
    # `inspect` would take both from the wrapped object, but the signature of the class differs.
    named.__signature__, named.__wrapped__ = inspect.signature(named), cls
    return named


def builds(cls: type[Operation]) -> Callable[[Function], Function]:
    """Build the decorator that gives a function the name and documentation of an operation."""

    def named(function: Function) -> Function:
        function.__name__ = function.__qualname__ = cls.builder_name
        function.__module__ = cls.__module__
        function.__doc__ = of_operation(cls)
        return function

    return named
