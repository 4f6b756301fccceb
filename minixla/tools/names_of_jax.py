"""The names of JAX's public modules, and what stands for each here, or the reason why nothing does.

The tests hold these tables to JAX, and the site's page for those who come from JAX is made of them.
"""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple


class _Tables(ConfigParser):
    """Tables whose keys are reasons, in letters of any case."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


_TABLES = _Tables(delimiters="=")
_TABLES.read_string(Path(__file__).with_suffix(".txt").read_text())
_PRIMITIVE = "a primitive of JAX's: an operation of ours is a class, `mx.ops` has its function"

#: Modules within modules, which are names once somebody has imported them.
IMPORTED_LATER = {"jax": {"extend", "flatten_util"}}

#: JAX's modules, and where their names are looked for, in this order; `""` is mx itself.
MODULES = {
    "jax": ("",),
    "jax.lax": ("", "ops", "numpy", "scipy.special"),
    "jax.numpy": ("numpy",),
    "jax.Array": ("Tracer",),
    "jax.random": ("random",),
    "jax.nn": ("nn",),
    "jax.nn.initializers": ("nn.initializers",),
    "jax.sharding": ("sharding", ""),
}


class NameOfJax(NamedTuple):
    """A public name of JAX's, and what stands for it here.

    Attributes:
        name: the name in its module.
        ours: where it is found in `mx`, such as `numpy.sin`; empty where nothing stands for it.
        reason: why nothing does.
    """

    name: str
    ours: str
    reason: str = ""


def lacking(module: str) -> dict[str, str]:
    """The names of a module of JAX's that are not ours, with the reasons."""
    return _by_name(module)


def elsewhere(module: str) -> dict[str, str]:
    """The names of a module of JAX's that are ours under other names, with these."""
    return _by_name(f"{module} elsewhere")


def _by_name(section: str) -> dict[str, str]:
    rows = _TABLES.items(section) if _TABLES.has_section(section) else ()
    return {name: each for each, names in rows for name in names.split()}


def names_of_jax(module: str) -> list[NameOfJax]:
    """Each public name of a module of JAX's, with ours or the reason why there is none.

    Args:
        module: one of those in MODULES.

    Raises:
        LookupError: a name has neither.
    """
    theirs = resolve_name(module)
    later = IMPORTED_LATER.get(module, set())
    names = sorted(name for name in dir(theirs) if not name.startswith("_"))
    return [_found(module, name) for name in names if name not in later]


def _found(module: str, name: str) -> NameOfJax:
    reason = lacking(module).get(name)
    if module == "jax.lax" and name.endswith("_p"):
        reason = _PRIMITIVE
    if reason is not None:
        return NameOfJax(name, "", reason)
    ours = elsewhere(module).get(name)
    if ours is not None:
        return NameOfJax(name, ours)
    for home in MODULES[module]:
        if name in dir(_namespace(home)):
            return NameOfJax(name, f"{home}.{name}" if home else name)
    raise LookupError(f"{module}.{name}: nothing of ours, and no reason why")


def _namespace(path: str) -> Any:
    import minixla as mx  # whose names are asked for

    value: Any = mx
    for part in path.split(".") if path else ():
        value = getattr(value, part)
    return value
