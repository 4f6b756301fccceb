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
    own = vars(sys.modules[function.__globals__["__name__"]])
    names = {**vars(collections.abc), **vars(typing), **own}
    signature = inspect.signature(function, eval_str=True, locals=names)

    def known(match: re.Match[str]) -> str:
        module, _, name = match[0].rpartition(".")
        if module or name in typing.__all__:  # these have no module in `formatannotation`
            imports[name] = module or "typing"
        is_hidden = name in minixla_ops.__all__ and hasattr(builtins, name)
        return f"builtins.{name}" if is_hidden else name

    def shown(annotation: Any) -> _Text:
        given = Any if annotation is signature.empty else annotation
        return _Text(re.sub(r"[A-Za-z_][\w.]*\b", known, inspect.formatannotation(given)))

    parameters = []
    for each in signature.parameters.values():
        default = each.default if each.default is each.empty else _Text("...")
        parameters.append(each.replace(annotation=shown(each.annotation), default=default))
    result = shown(signature.return_annotation)
    signature = signature.replace(parameters=parameters, return_annotation=result)
    first = (inspect.getdoc(function) or "").splitlines()[0]
    return f'def {name}{signature}:\n    """{first}"""\n'


if __name__ == "__main__":
    PATH.write_text(stub_text())
