"""The names of `minixla/engine/jax_private.py` in the installed JAX."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from minixla.engine import jax_private


def private_names():
    """Yield (module, name) for each name that the file imports from `jax._src`."""
    tree = ast.parse(Path(jax_private.__file__).read_text())
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jax._src"):
            yield from ((node.module, each.name) for each in node.names)


def test_every_private_name_exists():
    missing = []
    for module, name in private_names():
        try:
            getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            missing.append(f"{module}.{name}")
    assert not missing, f"this release of JAX lacks {', '.join(missing)}"


def test_names_are_sorted_and_listed_once():
    names = list(private_names())
    assert len(set(names)) == len(names) > 50
