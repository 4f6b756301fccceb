"""The stubs of packages whose functions are derived from classes or created by decorators.

`python -m minixla.tools.stubs` writes them. Editors and type checkers use them, because the source
does not show the functions' signatures. `stub_types` supplies types that the source lacks.
"""

import collections.abc
import importlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import minixla.typing
from minixla.tools.stub_types import parameter_type, result_type

#: The modules that have a stub.
MODULES = ("minixla_ops",)
# Annotations with other names (such as JAX's internal ones) do not help users.
_KNOWN = ("builtins", "collections", "minixla", "minixla_ops", "numpy", "types", "typing")
_VAGUE = (inspect.Signature.empty, Any)


def path_of(module: ModuleType) -> Path:
    """Return the path of a module's stub."""
    return Path(str(module.__file__)).with_suffix(".pyi")


def stub_text(module: ModuleType) -> str:
    """Return a stub: imports of names, and signatures and first docstring lines of functions."""
    stub = _Stub(module)
    made = "# Made by `python -m minixla.tools.stubs`."
    head = [made, "", "import builtins", *stub.imports(), "", "__all__: list[str]", ""]
    return "\n".join([*head, *stub.lines]) + "\n"


class _Text(str):
    """A string that signatures show without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Stub:
    """The parts of a stub."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self._public: set[str] = set(module.__all__)
        # By the name here: the module, and the name there.
        self._imported: dict[str, tuple[str, str]] = {}
        self.lines: list[str] = []
        # Classes first, which signatures may name.
        for name in sorted(module.__all__, key=lambda name: not self._is_class(name)):
            self._add(name, getattr(module, name))

    def _is_class(self, name: str) -> bool:
        return isinstance(getattr(self.module, name), type)

    def imports(self) -> list[str]:
        """Return the imports of all names in signatures."""
        lines = []
        for name, (module, there) in self._imported.items():
            renamed = f" as {name}" if name in self._public or name != there else ""
            lines.append(f"from {module} import {there}{renamed}")
        return sorted(lines)

    def _add(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType):
            package, _, there = value.__name__.rpartition(".")
            self._imported[name] = package, there
        elif isinstance(value, type):
            self._imported[name] = value.__module__, value.__name__
        elif inspect.isroutine(value) or hasattr(value, "__wrapped__"):
            self._add_function(name, value)
        else:
            self._add_object(name, value)

    def _add_function(self, name: str, function: Callable[..., Any]) -> None:
        subject = f"{self.module.__name__}.{name}"
        whole = _signature(function)
        result = result_type(subject, _said(whole.return_annotation))
        first = (inspect.getdoc(function) or "").split("\n")[0]
        mark = "r" if "\\" in first else ""  # else it would be an escape
        typed = self._typed(subject, whole, result)
        self.lines.append(f'def {name}{typed}:\n    {mark}"""{first}"""\n')

    def _typed(self, subject: str, signature: inspect.Signature, result: str) -> inspect.Signature:
        """Return a signature with types, and with dots for defaults."""
        parameters = []
        for parameter in signature.parameters.values():
            is_optional = parameter.default is None
            said = "typing.Any" if "NoReturn" in result else _said(parameter.annotation)
            annotation = self._shown(parameter_type(subject, parameter.name, said, is_optional))
            default = parameter.default if parameter.default is parameter.empty else _Text("...")
            parameters.append(parameter.replace(annotation=annotation, default=default))
        return signature.replace(parameters=parameters, return_annotation=self._shown(result))

    def _add_object(self, name: str, value: Any) -> None:
        kind = type(value)
        if kind.__module__ == "builtins":
            text = "None" if value is None else f"builtins.{kind.__name__}"
        else:
            text = self._named(f"{kind.__module__}.{kind.__qualname__}")
        self.lines.append(f"{name}: {text}\n")

    def _shown(self, annotation: str) -> _Text:
        return _Text(re.sub(r"[A-Za-z_][\w.]*\b", lambda match: self._named(match[0]), annotation))

    def _named(self, full: str) -> str:
        """Return a name in a signature, and import it in the stub."""
        module, _, name = full.rpartition(".")
        if full in ("None", "True", "False"):
            return full
        if not module:
            module = "typing" if full in typing.__all__ else "builtins"
        if module == "builtins":
            return f"builtins.{name}" if name in self._public else name
        is_other = name in self._public and self._imported.get(name) != (module, name)
        here = f"_{name}" if is_other else name
        self._imported[here] = module, name
        return here


def _unwrapped(function: Any) -> Callable[..., Any]:
    """Return a copy of a function with its own signature, and with annotations to evaluate."""
    parts = function.__code__, function.__globals__, function.__name__, function.__defaults__
    copy = FunctionType(*parts, function.__closure__)
    copy.__annotations__ = function.__annotations__
    return copy


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature, with evaluated annotations if possible."""
    if inspect.isclass(getattr(function, "__wrapped__", None)):  # a builder of a class
        function = _unwrapped(function)
    home = getattr(inspect.unwrap(function), "__globals__", {}).get("__name__", "builtins")
    names = {**vars(collections.abc), **vars(typing), **vars(sys.modules[home])}
    try:
        return inspect.signature(function, eval_str=True, locals=names)
    except NameError:  # names that are imported only for type checkers
        return inspect.signature(function)


def _said(annotation: Any) -> str:
    """Return the type in the source, with full names; "" if it does not help users."""
    if annotation in _VAGUE or isinstance(annotation, str) or Any in typing.get_args(annotation):
        is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
        if is_union or not typing.get_args(annotation):
            return ""
    text = inspect.formatannotation(annotation)
    for name in ("ArrayLike", "Array"):  # unions, whose own names are lost
        union = getattr(minixla.typing, name)
        for written in (repr(union), inspect.formatannotation(union)):
            text = text.replace(written, f"minixla.typing.{name}")
    names = re.findall(r"[A-Za-z_][\w.]*", text)
    text = text.replace("collections.abc.", "")
    if any("." in name and name.split(".")[0] not in _KNOWN for name in names):
        return ""
    for name in set(re.findall(r"\b[A-Z]\w+\b(?<!\.)", text)) & set(collections.abc.__all__):
        text = re.sub(rf"(?<![\w.]){name}\b", f"collections.abc.{name}", text)
    return text


def main() -> None:
    """Write the stubs of all modules."""
    for name in MODULES:
        module = importlib.import_module(name)
        path_of(module).write_text(stub_text(module))


if __name__ == "__main__":
    main()
