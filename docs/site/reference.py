"""Write the reference: a page for each namespace, and a page for each function and class in it."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from subjects import subjects_of

import minixla as mx
from minixla.core.operation import Operation

#: Namespaces by the name that programs use, with the line in the table of contents.
NAMESPACES = {
    "minixla": "Transformations, control flow, devices, checks, import and export, errors.",
    "minixla.numpy": "NumPy's functions, with NumPy's broadcasting and JAX's promotion.",
    "minixla.numpy.linalg": "Linear algebra.",
    "minixla.numpy.fft": "Fourier transforms.",
    "minixla.lax": "The functions of `jax.lax`.",
    "minixla.random": "Random numbers from keys.",
    "minixla.nn": "Functions for neural networks.",
    "minixla.nn.initializers": "Initial weights.",
    "minixla.ops": "XLA's operations, which neither broadcast nor convert.",
    "minixla.sharding": "Meshes, shardings, and Shardy passes.",
    "minixla.scipy.cluster.vq": "Vector quantization.",
    "minixla.scipy.fft": "Cosine transforms.",
    "minixla.scipy.integrate": "Integration.",
    "minixla.scipy.interpolate": "Interpolation.",
    "minixla.scipy.linalg": "Linear algebra.",
    "minixla.scipy.ndimage": "Images in n dimensions.",
    "minixla.scipy.optimize": "Minimization.",
    "minixla.scipy.signal": "Signal processing.",
    "minixla.scipy.sparse.linalg": "Iterative solvers.",
    "minixla.scipy.spatial.transform": "Rotations.",
    "minixla.scipy.special": "Special functions.",
    "minixla.scipy.stats": "Probability distributions.",
    "minixla.image": "Resizing of images.",
    "minixla.legalize": "Replacements for operations that a platform gets wrong.",
    "minixla.debug": "Prints, callbacks and the debugger.",
    "minixla.test_util": "Functions for tests.",
}
_LINKS = {
    "jax": "https://docs.jax.dev/en/latest/",
    "numpy": "https://numpy.org/doc/stable/reference/",
}
_SOURCES = {"jax": "JAX", "numpy": "NumPy", "ml_dtypes": "ml_dtypes"}


class Entry(NamedTuple):
    """A public name of a namespace."""

    name: str
    value: Any
    file: str  # the source file or the family of operations
    page: str  # the name of its page, or nothing


def namespace(name: str) -> Any:
    """Return a namespace by the name that programs use."""
    value: Any = mx
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def public_names(module: Any) -> list[str]:
    """Return the public names of a namespace."""
    names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
    return sorted(name for name in names if not name.startswith("_"))


def entries(name: str) -> list[Entry]:
    """Return the public names of a namespace, including those of submodules without a page."""
    found = []
    for each in public_names(namespace(name)):
        value = getattr(namespace(name), each)
        if isinstance(value, ModuleType):
            below = f"{name}.{each}"
            if name.startswith("minixla.scipy.") and below not in NAMESPACES:
                found += [e._replace(name=f"{each}.{e.name}", file=each) for e in entries(below)]
            continue
        found.append(Entry(each, value, _file(value), _page(name, each, value)))
    return found


def _page(name: str, each: str, value: Any) -> str:
    if not callable(value) or not is_ours(value) or type(value).__name__ == "ScalarType":
        return ""
    is_elsewhere = name != "minixla" and getattr(mx, each, None) is value
    return f"minixla.{each}" if is_elsewhere else f"{name}.{each}"


def _file(value: Any) -> str:
    operation = getattr(value, "__wrapped__", value)
    module = str(getattr(operation, "__module__", "") or "")
    if module == "minixla_ops" and (family := _family(value)):
        return family
    parts = module.split(".")
    return parts[1] if parts[0] == "minixla_ops" and len(parts) > 1 else parts[-1]


def _family(builder: Any) -> str:
    """Return the package of `minixla_ops` that defines the class of a derived builder."""
    try:
        path = Path(inspect.getsourcefile(builder) or "")
    except TypeError:
        return ""
    return path.parent.name if "minixla_ops" in path.parts else ""


def first_line(value: Any) -> str:
    """Return the first paragraph of a docstring, in one line."""
    text = inspect.getdoc(value) if callable(value) or isinstance(value, ModuleType) else None
    line = text.strip().split("\n\n")[0].replace("\n", " ") if text else ""
    return line.partition(" .. ")[0]  # drop a directive, which is not allowed in a table


def is_ours(value: Any) -> bool:
    """Return whether a value is defined in this project, and not in JAX or NumPy."""
    return str(getattr(value, "__module__", "")).partition(".")[0] in ("minixla", "minixla_ops")


def write(folder: Path) -> None:
    """Write the pages of the reference."""
    pages = {name: page(name) for name in NAMESPACES}
    for name in NAMESPACES:
        for title, group in _grouped(name).items():
            for entry in group:
                if entry.page == f"{name}.{entry.name}":
                    pages[entry.page] = function_page(name, title, entry)
    assert len({each.lower() for each in pages}) == len(pages), "two pages have one file name"
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:  # Sphinx reads changed pages again
            path.write_text(text)
    (folder / "reference.inc").write_text(_contents())


def _contents() -> str:
    rows = []
    for name, line in NAMESPACES.items():
        titles = ", ".join(_grouped(name))
        rows.append(f"| [{name}](generated/{name}.rst) | {line} | {titles} |")
    names = [f"generated/{name}" for name in NAMESPACES]
    tree = ["```{toctree}", ":hidden:", "", *names, "```"]
    head = ["| namespace | contents | subjects |", "|---|---|---|"]
    return "\n".join([*head, *rows, "", *tree, ""])


def _grouped(name: str) -> dict[str, list[Entry]]:
    by_name = {entry.name: entry for entry in entries(name)}
    if name == "minixla.scipy.stats":  # by distribution
        titles: dict[str, list[Entry]] = {}
        for each, entry in by_name.items():
            titles.setdefault(each.partition(".")[0] if "." in each else "Functions", []).append(
                entry
            )
        return titles
    groups = subjects_of(name, {each: entry.file for each, entry in by_name.items()})
    return {title: [by_name[each] for each in names] for title, names in groups.items()}


def _label(name: str, title: str) -> str:
    return f"{name}-{title}".lower().replace(" ", "-").replace(",", "").replace("'", "")


def page(name: str) -> str:
    """Return the page of a namespace: its documentation, and a table for each subject."""
    module = namespace(name)
    lines = [name, "=" * len(name), "", f".. py:module:: {name}", ""]
    lines += [_escaped(inspect.getdoc(module) or NAMESPACES[name]), ""]
    if name == "minixla.ops":
        lines += ["The :doc:`table of operations </operations>` lists their rules.", ""]
    for title, group in _grouped(name).items():
        lines += [f".. _{_label(name, title)}:", "", title, "-" * len(title), ""]
        lines += [".. list-table::", "   :widths: 30 70", "   :class: names", ""]
        for entry in group:
            link, text = _row(name, entry)
            lines += [f"   * - {link}", f"     - {text}"]
        lines.append("")
    return "\n".join(lines) + "\n"


def function_page(name: str, title: str, entry: Entry) -> str:
    """Return the page of a function or a class."""
    full = f"{name}.{entry.name}"
    lines = [":orphan:", "", full, "=" * len(full), "", ".. rst-class:: crumbs", ""]
    lines += [f":doc:`{name} <{name}>` › :ref:`{title} <{_label(name, title)}>`", ""]
    is_class = inspect.isclass(entry.value)
    lines += [f".. auto{'class' if is_class else 'function'}:: {full}"]
    if is_class and not issubclass(entry.value, Operation):
        lines += ["   :members:"]
    if file := source_file(entry.value):
        lines += ["", f"Source: ``{file}``"]
    return "\n".join(lines) + "\n"


def source_file(value: Any) -> str:
    """Return the path of the file that defines a function, from the root of the repository."""
    try:
        path = Path(inspect.getsourcefile(inspect.unwrap(value)) or "").resolve()
    except TypeError:
        path = Path(str(getattr(value, "__module__", "")).replace(".", "/") + ".py").resolve()
    root = Path(mx.__file__).resolve().parents[1]
    return str(path.relative_to(root)) if path.is_relative_to(root) and path.exists() else ""


def _row(name: str, entry: Entry) -> tuple[str, str]:
    """Return the cells of a name: a link to its page here or elsewhere, and a description."""
    if entry.page:
        return f":doc:`{entry.name} <{entry.page}>`", _escaped(first_line(entry.value))
    source, link = _elsewhere(name, entry)
    if isinstance(entry.value, float | int | type(None)):
        return f"``{entry.name}``", f"``{entry.value!r}``"
    text = _plain(first_line(entry.value))
    shown = f"`{entry.name} <{link}>`__" if link else f"``{entry.name}``"
    return shown, f"{source}: {text}" if text and source else text or source or "\\"


def _elsewhere(name: str, entry: Entry) -> tuple[str, str]:
    """Return who documents a name that is JAX's or NumPy's, and the address."""
    module = getattr(entry.value, "__module__", None) or type(entry.value).__module__
    package = module.partition(".")[0].replace("jaxlib", "jax")
    source = _SOURCES.get(package, "")
    if package == "numpy":
        return source, f"{_LINKS['numpy']}generated/numpy.{entry.name}.html"
    if package != "jax" and not (name == "minixla.lax" and package in ("typing", "builtins")):
        return source, ""
    if entry.name.endswith("_p"):
        return source, f"{_LINKS['jax']}jax.lax.html"
    if name == "minixla" and entry.file in ("config", "api"):
        return source, f"{_LINKS['jax']}jax.html"
    where = name.replace("minixla", "jax", 1)
    return source, f"{_LINKS['jax']}_autosummary/{where}.{entry.name}.html"


def _plain(text: str) -> str:
    text = re.sub(r":[\w:]+:`~?(?:[\w.]+\.)?", "`", text)  # roles, which are JAX's
    text = text if len(text) <= 200 else text[:200].rpartition(" ")[0] + " ..."
    return text.replace("`", "").replace("*", "\\*").replace("|", "\\|").replace("_", "\\_")


def _escaped(text: str) -> str:
    docstrings = importlib.import_module("docstrings")
    return "\n".join(docstrings.converted(text.splitlines()))
