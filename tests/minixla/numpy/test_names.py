"""What `minixla.numpy` and `minixla.nn` offer."""

import ast
import importlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla.nn as nn
import minixla.numpy as mnp

OWN_LAYERS = [
    "avg_pool",
    "batch_norm",
    "batch_norm_inference",
    "conv",
    "cross_entropy",
    "layer_norm",
    "max_pool",
]
IMPORTED = [
    importlib.import_module(node.module)
    for node in ast.parse(Path(mnp.__file__).read_text()).body
    if isinstance(node, ast.ImportFrom) and node.module and node.names[0].name == "*"
]


def test_names_are_of_numpy_or_jax() -> None:
    found = [n for n in mnp.__all__ if not hasattr(np, n) and not hasattr(jnp, n)]
    assert sorted(found) == ["cummax", "cummin"]


def test_dir_shows_the_names_and_nothing_else() -> None:
    assert dir(mnp) == sorted(mnp.__all__)
    assert {"add", "sum", "linalg", "float32", "bool", "pi", "newaxis", "dtype"} <= set(dir(mnp))
    assert dir(nn) == sorted(nn.__all__)
    assert sorted(name for name in nn.__all__ if not hasattr(jax.nn, name)) == OWN_LAYERS
    for package in (mnp, nn):
        assert not {"np", "ops", "Any", "explain", "lifted", "annotations"} & set(vars(package))


@pytest.mark.parametrize("module", IMPORTED, ids=lambda module: module.__name__)
def test_no_module_holds_something_else_under_a_public_name(module) -> None:
    # What it imports would hide the public one from type checkers.
    found = {name: value for name, value in vars(module).items() if name in mnp.__all__}
    assert found
    assert [name for name, value in found.items() if value is not getattr(mnp, name)] == []
