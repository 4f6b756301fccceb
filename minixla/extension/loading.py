"""load_op_library: operations that a shared library describes, and those of installed packages."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from minixla.core.errors import AttributeValueError, explain
from minixla.extension.libraries import loaded
from minixla.extension.partial_shapes import PartialShape
from minixla.extension.registration import RegisteredOperation, register_op
from minixla.extension.types import type_name

_SUBJECT = "load_op_library"
#: What the header minixla/op_library.h calls its version, and the version of XLA's interface.
_VERSION, _FFI = 1, 0
#: Ends each record of a question for shapes.
_RECORD = "\x1e"
_HEADER = 'Include "minixla/op_library.h" and declare operations by MINIXLA_OP(...).'


def load_op_library(path: Any) -> ModuleType:
    """Registers the operations that a shared library describes.

        library = mx.load_op_library(mx.build_op_library(["zero_out.cc"]))
        library.my_zero_out(x)

    The library is made with the header `minixla/op_library.h`: it says what its operations take
    and give, their shapes, and for which platforms and types it has kernels. Derivatives and
    other rules are added in Python.

    Args:
        path: of the library, or what `build_op_library` gave.

    Returns:
        A module with a function for each operation (`my_zero_out`), and the operations themselves
        (`MyZeroOut`, see `register_op`). The same library is the same module.

    Raises:
        AttributeValueError: there is no such file, it describes nothing, it was made for another
            version of the header or of XLA's interface, or an operation of that name exists.

    Source: TensorFlow's `load_op_library`.
    """
    found = Path(path).resolve()
    return _module(str(found), found.stat().st_mtime_ns if found.is_file() else 0)


@cache
def _module(path: str, _changed: int) -> ModuleType:
    code = loaded(_SUBJECT, path)
    described: Any = getattr(code, "minixla_op_library", None)
    if described is None:
        raise explain(AttributeValueError, _SUBJECT, f"{path} describes no operation", (), _HEADER)
    described.restype = ctypes.c_char_p
    content = json.loads(described())
    if content["version"] != _VERSION or content["ffi"][0] != _FFI:
        problem = f"{path} was made for another version"
        ffi = ".".join(map(str, content["ffi"]))
        given = [f"header {content['version']}, XLA's interface {ffi}"]
        given += [f"here: header {_VERSION}, XLA's interface {_FFI}"]
        advice = "Build it again: mx.build_op_library([...])."
        raise explain(AttributeValueError, _SUBJECT, problem, given, advice)
    module = ModuleType(Path(path).stem, f"The operations of {path}.")
    module.__file__ = path
    for each in content["operations"]:
        made = _registered(code, path, each)
        setattr(module, made.definition.name, made)
        setattr(module, made.operation.builder_name, made.wrapper)
    return module


def _registered(code: Any, path: str, content: dict[str, Any]) -> RegisteredOperation:
    """The operation that a library describes."""
    name = content["name"]
    shape = _shape_function(code, name) if content["has_shape"] else None
    if shape is None:
        problem, advice = f"{name} has no shape function", "Add .ShapeFn(minixla::UnchangedShape)."
        raise explain(AttributeValueError, _SUBJECT, problem, [path], advice)
    parts = {each: content[each] for each in ("attrs", "inputs", "outputs", "doc")}
    made = register_op(name, shape_fn=shape, **parts)
    for kernel in content["kernels"]:
        made.kernel(
            kernel["platform"],
            ffi=kernel["symbol"],
            library=path,
            priority=kernel["priority"],
            where=kernel["where"],
        )
    return made


def _shape_function(code: Any, name: str) -> Callable[..., Any]:
    """A shape function that asks the library."""
    ask = code.minixla_op_shapes
    ask.restype, ask.argtypes = ctypes.c_char_p, [ctypes.c_char_p] * 2

    def shape(context: Any, *inputs: Any) -> Any:
        operation = context.operation
        flat = operation.flat_inputs(inputs)
        records = [f"o {len(operation.result_types)}", *[f"i {_sizes(each)}" for each in flat]]
        records += [f"a {each} {_text(context.attr(each))}" for each in operation.field_names]
        answer = ask(name.encode(), "".join(f"{x}{_RECORD}" for x in records).encode()).decode()
        if answer.startswith("!"):
            raise ValueError(answer[1:])
        found = [_read(each) for each in answer.splitlines()]
        nested = operation.nested_outputs(found)
        return nested[0] if len(nested) == 1 else nested

    return shape


def _sizes(shape: PartialShape) -> str:
    if shape.dimensions is None:
        return "?"
    return f"[{','.join('?' if each is None else str(each) for each in shape.dimensions)}]"


def _read(text: str) -> PartialShape:
    if text == "?":
        return PartialShape(None)
    sizes = text.strip("[]").split(",") if text != "[]" else []
    return PartialShape([None if each == "?" else int(each) for each in sizes])


def _text(value: Any) -> str:
    """An attribute's value as `InferenceContext::attr` has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return type_name(value) if hasattr(value, "name") else str(value)


def installed_ops() -> dict[str, ModuleType]:
    """The modules of installed packages that register operations, loaded, by name.

    A package names its module as an entry point of the group `minixla.ops`:

        [project.entry-points."minixla.ops"]
        zero_out = "minixla_zero_out"

    Returns:
        A dictionary from the entry points' names to what they load.
    """
    return {each.name: each.load() for each in entry_points(group="minixla.ops")}
