"""`load_op_library`: operations described by a shared library, and those of packages."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from minixla.core import registry
from minixla.core.errors import AttributeValueError, explain
from minixla.extension.definitions import Definition
from minixla.extension.libraries import loaded
from minixla.extension.partial_shapes import PartialShape
from minixla.extension.registered import RegisteredOperation
from minixla.extension.registration import defined, enter
from minixla.extension.types import type_name

_SUBJECT = "load_op_library"
#: The version of the header minixla/op_library.h, and the version of XLA's interface.
_VERSION, _FFI = 1, 0
#: Ends each record of a request for shapes.
_RECORD = "\x1e"
_LOADING = Lock()
_HEADER = 'Include "minixla/op_library.h" and declare operations with MINIXLA_OP(...).'


def load_op_library(path: str | os.PathLike[str]) -> ModuleType:
    """Register the operations that a shared library describes.

        library = mx.load_op_library(mx.build_op_library(["zero_out.cc"]))
        library.my_zero_out(x)

    The library is built with the header `minixla/op_library.h`. It declares the inputs and outputs
    of its operations, their shapes, and the platforms and types of its kernels. Derivatives and
    other rules are added in Python.

    All operations are registered, or none. A library that was built again replaces its operations
    if `mx.check_compatible` accepts the change. Functions of the new module, and programs that are
    read from then on, call the new code. Functions of the old module call the old code. Rules in
    Python must be added to the new operations again.

    Args:
        path: the path of the library, or the result of `build_op_library`.

    Returns:
        A module with a function for each operation (`my_zero_out`), and the operations themselves
        (`MyZeroOut`, see `register_op`). The same library returns the same module.

    Raises:
        AttributeValueError: the file does not exist or describes nothing; it was built for another
            version of the header or of XLA's interface; it has changed since the process loaded it;
            or an operation of that name exists that it may not replace.

    Source: TensorFlow's `load_op_library`.
    """
    if not isinstance(path, (str, os.PathLike)):
        advice = "Pass the path of a shared library, or build_op_library(...)."
        raise explain(AttributeValueError, _SUBJECT, f"{path!r} is not a path", (), advice)
    resolved = str(Path(path).resolve())
    code = loaded(_SUBJECT, resolved)
    with _LOADING:
        return _module(resolved, code)


@cache
def _module(path: str, code: ctypes.CDLL) -> ModuleType:
    described: Any = getattr(code, "minixla_op_library", None)
    if described is None:
        raise explain(AttributeValueError, _SUBJECT, f"{path} describes no operation", (), _HEADER)
    described.restype = ctypes.c_char_p
    content = json.loads(described())
    if content["version"] != _VERSION or content["ffi"][0] != _FFI:
        problem = f"{path} was made for another version"
        ffi = ".".join(map(str, content["ffi"]))
        details = [f"header {content['version']}, XLA's interface {ffi}"]
        details += [f"here: header {_VERSION}, XLA's interface {_FFI}"]
        advice = "Build it again: mx.build_op_library([...])."
        raise explain(AttributeValueError, _SUBJECT, problem, details, advice)
    module = ModuleType(Path(path).stem, f"The operations of {path}.")
    module.__file__ = path
    names = [operation["name"] for operation in content["operations"]]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        problem, advice = f"{path} describes {double} twice", "Give each operation its own name."
        raise explain(AttributeValueError, _SUBJECT, problem, names, advice)
    operations = [_described(code, path, description) for description in content["operations"]]
    enter(operations, [operation.name for operation in operations if _is_new_build(operation)])
    for made in operations:
        setattr(module, made.definition.name, made)
        setattr(module, made.operation.builder_name, made.wrapper)
    return module


def _is_new_build(made: RegisteredOperation) -> bool:
    """Test whether an operation replaces one of a library.

    Raises:
        AttributeValueError: it would, but stored programs would change their meaning.
    """
    registered_at = getattr(registry.registered(made.name), "registered", None)
    if registered_at is None or not registered_at.library:
        return False
    from minixla.extension.compatibility import (
        check_compatible,  # a tool, which compares definitions
    )

    report = check_compatible(registered_at, made)
    if not report.ok:
        problem = f"an operation named {made.name} is registered already, and differs"
        details = [f"{registered_at.library}: {registered_at!r}", f"{made.library}: {made!r}"]
        details += [
            f"{change.rule}: {change.subject}: {change.meaning}" for change in report.changes
        ]
        advice = "Give the changed operation a new name, or load it in a new process."
        raise explain(AttributeValueError, _SUBJECT, problem, details, advice)
    return True


def _described(code: Any, path: str, content: dict[str, Any]) -> RegisteredOperation:
    """Return the operation that a library describes, before it is registered."""
    name = content["name"]
    shape = _shape_function(code, name) if content["has_shape"] else None
    if shape is None:
        problem, advice = f"{name} has no shape function", "Add .ShapeFn(minixla::UnchangedShape)."
        raise explain(AttributeValueError, _SUBJECT, problem, [path], advice)
    parts = [content[key] for key in ("attrs", "inputs", "outputs")]
    definition = Definition.of(name.rpartition(".")[2], *parts)
    made = defined(name, definition, shape, content["doc"], __name__)
    made.library = path
    for kernel in content["kernels"]:
        made.kernel(
            kernel["platform"],
            ffi=kernel["symbol"],
            library=path,
            priority=kernel["priority"],
            where=kernel["where"],
            inferred=kernel.get("inferred", ()),
        )
    return made


def _shape_function(code: Any, name: str) -> Callable[..., Any]:
    """Return a shape function that calls the library."""
    ask = code.minixla_op_shapes
    ask.restype, ask.argtypes = ctypes.c_char_p, [ctypes.c_char_p] * 2

    def shape(context: Any, *inputs: Any) -> Any:
        operation = context.operation
        flat = operation.flat_inputs(inputs)
        records = [f"o {len(operation.result_types)}", *[f"i {item!r}" for item in flat]]
        records += [f"a {name} {_text(context.attr(name))}" for name in operation.field_names]
        answer = ask(name.encode(), "".join(f"{x}{_RECORD}" for x in records).encode()).decode()
        if answer.startswith("!"):
            raise ValueError(answer[1:])
        nested = operation.nested_outputs(map(PartialShape, answer.splitlines()))
        return nested[0] if len(nested) == 1 else nested

    return shape


def _text(value: Any) -> str:
    """Return an attribute's value as text for `InferenceContext::attr`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return type_name(value) if hasattr(value, "name") else str(value)


def installed_ops() -> dict[str, ModuleType]:
    """Load the modules of installed packages that register operations, and return them by name.

    A package names its module as an entry point of the group `minixla.ops`:

        [project.entry-points."minixla.ops"]
        zero_out = "minixla_zero_out"

    Returns:
        A dictionary from the names of entry points to the loaded modules.

    Example:
        >>> "zero_out" in mx.installed_ops()
        False
    """
    return {point.name: point.load() for point in entry_points(group="minixla.ops")}
