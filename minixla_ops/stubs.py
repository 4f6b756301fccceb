"""The stub of this package: what editors and type checkers see of its builders.

`python -m minixla_ops.stubs` writes it. Builders are derived from classes when these are loaded, so
that the source does not show their signatures.
"""

import builtins
import collections.abc
import inspect
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import minixla_ops

PATH = Path(minixla_ops.__file__).with_suffix(".pyi")


class _Text(str):
    """A text that signatures show as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def stub_text() -> str:
    """The stub: classes from where they are, the signature and first line of each builder."""
    imports = {"Any": "typing"}
    functions = []
    for name in minixla_ops.__all__:
        value = getattr(minixla_ops, name)
        if isinstance(value, type):
            imports[name] = value.__module__
        else:
            functions.append(_function_text(name, value, imports))
    public = set(minixla_ops.__all__)
    lines = [
        f"from {module} import {name}{f' as {name}' if name in public else ''}"
        for name, module in imports.items()
    ]
    made = "# Made by `python -m minixla_ops.stubs`."
    return "\n".join(
        [made, "", "import builtins", *sorted(lines), "", "__all__: list[str]", "", *functions]
    )


def _function_text(name: str, function: Callable[..., Any], imports: dict[str, str]) -> str:
    signature = inspect.signature(function)

    def shown(annotation: Any) -> _Text:
        annotation = Any if annotation is signature.empty else annotation
        is_text = isinstance(annotation, str)
        text = annotation if is_text else inspect.formatannotation(annotation)
        return _Text(_with_names(text, function, imports))

    parameters = []
    for each in signature.parameters.values():
        default = each.default if each.default is each.empty else _Text("...")
        parameters.append(each.replace(annotation=shown(each.annotation), default=default))
    result = shown(signature.return_annotation)
    signature = signature.replace(parameters=parameters, return_annotation=result)
    first = (inspect.getdoc(function) or "").splitlines()[0]
    return f'def {name}{signature}:\n    """{first}"""\n'


def _with_names(annotation: str, function: Callable[..., Any], imports: dict[str, str]) -> str:
    """An annotation whose names the stub knows; adds the modules of types."""
    own = sys.modules[function.__globals__["__name__"]]
    places = [function.__globals__, vars(own), vars(collections.abc), vars(typing)]

    def known(match: re.Match[str]) -> str:
        module, _, name = match[0].rpartition(".")
        if hasattr(builtins, name):
            return f"builtins.{name}" if name in minixla_ops.__all__ else name
        home = sys.modules.get(module) or own.__dict__.get(module)
        homes = [vars(home)] if home else places
        value = next(place[name] for place in homes if name in place)
        # An alias has the module of what it stands for.
        is_own = isinstance(value, type) or getattr(value, "__module__", "") == "typing"
        imports.setdefault(name, value.__module__ if is_own else (home or own).__name__)
        return name

    return re.sub(r"[A-Za-z_][\w.]*\b", known, annotation)


if __name__ == "__main__":
    PATH.write_text(stub_text())
