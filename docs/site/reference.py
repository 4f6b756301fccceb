"""Writes the reference: a page for each namespace, with each of its public names."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import minixla as mx

#: Namespaces by the name that programs use, with what stands above the page's table.
NAMESPACES = {
    "minixla": "Transformations, control flow, devices, checks, programs from outside, errors.",
    "minixla.numpy": "NumPy's functions, with NumPy's broadcasting and JAX's promotion.",
    "minixla.numpy.linalg": "Linear algebra.",
    "minixla.numpy.fft": "Fourier transforms.",
    "minixla.lax": "The functions of `jax.lax`.",
    "minixla.random": "Random numbers from keys.",
    "minixla.nn": "Functions of neural networks.",
    "minixla.nn.initializers": "Initial weights.",
    "minixla.ops": "XLA's operations, which neither broadcast nor convert.",
    "minixla.sharding": "Meshes, layouts over devices, and what follows from them.",
    "minixla.scipy": "SciPy's functions.",
    "minixla.image": "Pictures.",
    "minixla.legalize": "Replacements for operations that a platform gets wrong.",
    "minixla.debug": "Looking at values while programs run.",
    "minixla.test_util": "What tests of programs need.",
}


def namespace(name: str) -> Any:
    """A namespace by the name that programs use for it."""
    value: Any = mx
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def public_names(module: Any) -> list[str]:
    """The names that a namespace offers, modules that it is made of left out."""
    names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
    return sorted(name for name in names if not name.startswith("_"))


def namespaces() -> dict[str, str]:
    """All namespaces, those that stand within each other too, with a line about each."""
    found = {}
    for name, line in NAMESPACES.items():
        found[name] = line
        if name == "minixla.scipy":
            found |= _within(name)
    return found


def _within(name: str) -> dict[str, str]:
    found = {}
    for each in public_names(namespace(name)):
        value = getattr(namespace(name), each)
        if isinstance(value, ModuleType):
            found[f"{name}.{each}"] = first_line(value)
            found |= _within(f"{name}.{each}")
    return found


def first_line(value: Any) -> str:
    """The first line of what documents a value."""
    text = inspect.getdoc(value) if callable(value) or isinstance(value, ModuleType) else None
    line = text.strip().split("\n\n")[0].replace("\n", " ") if text else ""
    return line.partition(" .. ")[0]  # drop a directive, which is not allowed in a table


def is_ours(value: Any) -> bool:
    """Whether a value's documentation is of this project, and not that of JAX or NumPy."""
    return str(getattr(value, "__module__", "")).partition(".")[0] in ("minixla", "minixla_ops")


def write(folder: Path) -> None:
    """Writes the pages of the reference."""
    for name in namespaces():
        text = page(name)
        (folder / f"{name}.rst").write_text(text)
    (folder / "reference.inc").write_text(_contents())


def _contents() -> str:
    rows = [f"| [{name}](generated/{name}.rst) | {line} |" for name, line in namespaces().items()]
    names = [f"generated/{name}" for name in namespaces()]
    tree = ["```{toctree}", ":hidden:", "", *names, "```"]
    return "\n".join(["| namespace | what it has |", "|---|---|", *rows, "", *tree, ""])


def page(name: str) -> str:
    """The page of a namespace: its documentation, a table of its names, and each of them."""
    module = namespace(name)
    own, others = [], []
    for each in public_names(module):
        value = getattr(module, each)
        if isinstance(value, ModuleType):
            continue
        elsewhere = name != "minixla" and getattr(mx, each, None) is value
        is_own = callable(value) and is_ours(value) and not elsewhere
        (own if is_own else others).append((each, value))
    lines = [name, "=" * len(name), "", f".. py:module:: {name}", ""]
    lines += [_escaped(inspect.getdoc(module) or namespaces()[name]), ""]
    if name.startswith("minixla.ops"):
        lines += ["The :doc:`table of operations </operations>` has their rules.", ""]
    lines += _table([(f":py:obj:`{each} <{name}.{each}>`", first_line(v)) for each, v in own])
    if others:
        lines += ["", "JAX's and NumPy's own, as they are, and constants:", ""]
        lines += _table([(f"``{each}``", _about(value)) for each, value in others])
    for each, value in own:
        kind = "class" if inspect.isclass(value) else "function"
        lines += ["", f".. auto{kind}:: {name}.{each}"]
        if kind == "class":
            lines += ["   :members:"]
    return "\n".join(lines) + "\n"


def _about(value: Any) -> str:
    where = getattr(value, "__module__", None) or type(value).__module__
    source = where.partition(".")[0]
    if isinstance(value, float | int | type(None)):
        return f"``{value!r}``"
    title = source if source in ("jax", "numpy", "ml_dtypes") else "minixla"
    names = {"jax": "JAX's", "numpy": "NumPy's", "ml_dtypes": "ml_dtypes'", "minixla": "ours"}
    return f"{names[title]}. {_plain(first_line(value))}"


def _plain(text: str) -> str:
    return text[:200].replace("`", "").replace("*", "\\*").replace("|", "\\|").replace("_", "\\_")


def _table(rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    lines = [".. list-table::", "   :widths: 30 70", ""]
    for name, text in rows:
        lines += [f"   * - {name}", f"     - {_escaped(text) if name[0] == ':' else text}"]
    return lines


def _escaped(text: str) -> str:
    docstrings = importlib.import_module("docstrings")
    return "\n".join(docstrings.converted(text.splitlines()))
