"""Whole public modules of JAX's as ours."""

import sys
from importlib import import_module
from inspect import isclass, ismodule
from pathlib import Path
from types import ModuleType
from typing import Any

from minixla.core.docstrings import complete
from minixla.interop.jax_classes import class_of
from minixla.interop.jax_table import functions_of


def all_of_jax(namespace: dict[str, Any]) -> list[str]:
    """Puts into a module's namespace what JAX's module of the same name offers, and `dir` shows.

    What the namespace defines itself stays: those are functions of our own. Their docstrings are
    completed from the file `docstrings.txt` beside the module, if there is one.

    Args:
        namespace: `globals()` of a module whose name is JAX's with `minixla` in place of `jax`.

    Returns:
        The public names, for `__all__`.
    """
    own = namespace["__name__"]
    module = own.replace("minixla", "jax", 1)
    theirs = import_module(module)
    public = {name: value for name, value in vars(theirs).items() if not name.startswith("_")}
    for name, value in public.items():
        if ismodule(value):
            # Python's import finds submodules there.
            sub = sys.modules[f"{own}.{name}"] = ModuleType(f"{own}.{name}", value.__doc__)
            vars(sub)["__all__"] = all_of_jax(vars(sub))
            namespace[name] = sub
        elif namespace.get(name) is None:
            namespace[name] = (
                class_of(module, name) if isclass(value) else functions_of(module, [name])[name]
            )
    names = namespace["__all__"] = sorted(public)
    namespace["__dir__"] = lambda: names
    file = namespace.get("__file__")  # submodules have none
    if file and (texts := Path(file).with_name("docstrings.txt")).exists():
        package, origin = (each.rpartition(".")[0] for each in (own, module))
        complete(package, [sys.modules[own]], texts, f"JAX: `{origin}.{{}}`.")
    return names
