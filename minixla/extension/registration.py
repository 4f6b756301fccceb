"""`register_op`: an operation from declarations, to which kernels and rules are added."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from minixla.core import registry
from minixla.core.attributes import Field
from minixla.core.errors import AttributeValueError, explain
from minixla.core.source import notebook_cell, warn
from minixla.extension import wrappers
from minixla.extension.contexts import callable_of
from minixla.extension.definitions import Definition
from minixla.extension.grammar import ArgumentDeclaration, AttributeDeclaration
from minixla.extension.operation import CustomOperation
from minixla.extension.registered import RegisteredOperation

_NAMESPACE = "custom"
# Names that are not allowed for attributes.
_RESERVED = ("call", "cls", "registered", "self")
# Between the words of a name in CamelCase: `Conv2D|Backprop`.
_WORDS = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])"


def register_op(
    name: str,
    *,
    attrs: Sequence[str | AttributeDeclaration] = (),
    inputs: Sequence[str | ArgumentDeclaration] = (),
    outputs: Sequence[str | ArgumentDeclaration] = (),
    shape_fn: Callable[..., Any] | None = None,
    doc: str = "",
    version: int = 0,
    host_fallback: bool = False,
    replace: bool = False,
) -> RegisteredOperation:
    """Register a custom operation.

    Args:
        name: in CamelCase, with the project's name in front: `MyZeroOut`. `my.ZeroOut` is `ZeroOut`
            of the namespace `my`; the default namespace is `custom`.
        attrs: attributes, `"T: {float, int32}"`, `"preserve_index: int >= 0 = 0"`; see
            `minixla.extension.grammar`.
        inputs: `"x: float"`, `"x: T"`, `"x: N * T"`, ...
        outputs: the same.
        shape_fn: `shape_fn(context, *inputs)` returns the sizes of the output (a list for several)
            from the inputs' `PartialShape`s; not needed with a composition.
        doc: a description; lines `name: text` describe inputs, outputs and attributes.
        version: the version of the definition. Stored programs keep it; a program with a newer
            version than the registered one is rejected.
        host_fallback: whether to run the reference on the host if a platform has no kernel.
        replace: whether to replace an operation of the same name. An operation of another cell of
            a notebook is always replaced.
            cell always is.

    Returns:
        The operation, to which kernels and rules are added, and whose `wrapper` applies it.

    Raises:
        AttributeValueError: a name or declaration is invalid, or the name is taken.

    Example:
        >>> op = mx.register_op(
        ...     "example.Half",
        ...     inputs=["x: float"],
        ...     outputs=["y: float"],
        ...     shape_fn=mx.unchanged_shape,
        ... )
        >>> @op.kernel("reference")
        ... def half(ctx, x):
        ...     return x / 2
        >>> mx.reference(op.wrapper)(np.float32([1, 2]))
        array([0.5, 1. ], dtype=float32)
    """
    checked_name(name)
    definition = Definition.of(name.rpartition(".")[2], attrs, inputs, outputs)
    _refuse_reserved(definition)
    caller = sys._getframe(1)
    module = caller.f_globals.get("__name__", "__main__")
    # A notebook's cell may run again, edited or not; elsewhere a name is registered once.
    origin = module if notebook_cell(caller.f_code.co_filename) else object()
    made = registered(name, definition, shape_fn, doc, module, origin, replace)
    made.kernels.falls_back, made.version = host_fallback, version
    return made


def checked_name(name: Any) -> None:
    """Raise AttributeValueError for an invalid name of an operation."""
    space, _, plain = (name if isinstance(name, str) else "").rpartition(".")
    words = space.split(".") if space else []
    is_word = re.compile(r"\w+").fullmatch
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", plain) or not all(map(is_word, words)):
        problem = f"{name!r} is not a valid name of an operation"
        camel = "".join([word[:1].upper() + word[1:] for word in re.split(r"\W+|_+", plain)])
        advice = f"Names are CamelCase, with the project's in front: {camel or 'MyOperation'}."
        raise explain(AttributeValueError, "register_op", problem, (), advice)


def _refuse_reserved(definition: Definition) -> None:
    """Raise AttributeValueError for an attribute name that the operation's function uses."""
    wrong = next((attribute for attribute in definition.attributes if attribute in _RESERVED), None)
    if wrong is not None:
        problem = f"an attribute cannot be named {wrong!r}, which the library uses itself"
        advice = f"Choose another name, such as {wrong}_value. Reserved: {', '.join(_RESERVED)}."
        raise explain(AttributeValueError, definition.name, problem, (), advice)


def registered(
    name: str,
    definition: Definition,
    shape_function: Any,
    doc: str,
    module: str,
    origin: Hashable,
    replace: bool,
) -> RegisteredOperation:
    """Return the operation of a definition, entered under its name; see `register_op`.

    It replaces an operation of the same name and origin: a notebook's cell that runs again.
    """
    made = defined(name, definition, shape_function, doc, module)
    made.origin = origin
    earlier = getattr(registry.registered(made.name), "registered", None)
    is_again = earlier is not None and earlier.origin == origin
    enter([made], [made.name] if replace or is_again else ())
    return made


def defined(
    name: str, definition: Definition, shape_function: Any, doc: str, module: str
) -> RegisteredOperation:
    """Return the operation of a definition, before it is registered by name."""
    checked_name(name)
    if shape_function is not None:
        callable_of(shape_function, name, "the shape function")
    space, _, plain = name.rpartition(".")
    space = space or _NAMESPACE
    attributes, inputs = definition.attributes, definition.inputs
    names = wrappers.distinct_names(attributes, _is_taken)
    members: dict[str, Any] = {
        field: Field(
            attributes[attribute].kind, attributes[attribute].default, None, attribute, attribute
        )
        for attribute, field in names.items()
    }
    members |= {"__module__": module, "__doc__": wrappers.documentation(definition, doc)}
    members["builder_name"] = re.sub(_WORDS, "_", plain).lower()
    members |= {"namespace": space, "field_names": names, "input_names": tuple(inputs)}
    lists = {value.name: "..." if definition.is_list(value) else "" for value in inputs.values()}
    members["operands"] = tuple([f"{label}{dots}" for label, dots in lists.items()])
    kind: Any = type(plain, (CustomOperation,), members)
    kind.registered = made = RegisteredOperation(definition, kind, shape_function)
    return made


def enter(made: Sequence[RegisteredOperation], replaced: Collection[str]) -> None:
    """Register operations under their names, all or none.

    Raises:
        AttributeValueError: a name is taken, and not in `replaced`.
    """
    for operation in made:
        registered, plain = registry.registered(operation.name), operation.definition.name
        if registered is not None and operation.name not in replaced:
            details = [f"registered: {getattr(registered, 'registered', registered)!r}"]
            problem = f"an operation named {operation.name} is registered already"
            advice = "Choose another name, or replace it: register_op(..., replace=True)."
            raise explain(AttributeValueError, "register_op", problem, details, advice)
        if registry.registered(plain):
            says = f"{plain} is an operation of XLA's, too: yours is {operation.name}."
            warn(f"{says} Prefix the project's name.")
    for operation in made:
        registry.OTHERS.pop(operation.name, None)
        registry.register(operation.operation)


def _is_taken(name: str) -> bool:
    """Test whether Python or the operation class uses a name, so that no field can have it."""
    annotated = any(name in inspect.get_annotations(base) for base in CustomOperation.__mro__)
    return name.startswith("_") or annotated or hasattr(CustomOperation, name)
