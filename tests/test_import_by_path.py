"""Namespaces can be imported by path, as in JAX."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from types import ModuleType

import jax
import numpy as np
import pytest
from jax import flatten_util

import minixla as mx


def _namespaces(module, path):
    """Return the public modules in our namespace `module`, at every depth."""
    for name in dir(module):
        value = getattr(module, name)
        if isinstance(value, ModuleType) and not name.startswith("_"):
            yield f"{path}.{name}", value
            if value.__name__ == f"{path}.{name}":
                yield from _namespaces(value, value.__name__)


NAMESPACES = dict(_namespaces(mx, "minixla"))


@pytest.mark.parametrize("path", NAMESPACES)
def test_a_namespace_is_the_module_of_its_path(path):
    assert importlib.import_module(path) is NAMESPACES[path]


def test_every_namespace_of_jax_that_we_have_is_among_them():
    shared = {name for name in mx.__all__ if isinstance(getattr(jax, name, None), ModuleType)}
    shared -= {"export"}  # our function
    assert shared and {f"minixla.{name}" for name in shared} <= {*NAMESPACES}
    more = "flatten_util numpy.linalg numpy.fft nn.initializers scipy.special scipy.linalg ops"
    assert {f"minixla.{name}" for name in more.split()} <= {*NAMESPACES}


PROGRAM = """
import sys
import {path}
from {path} import {name}
import {path} as module
assert module.{name} is {name} and sys.modules["{path}"] is module
import minixla
assert minixla.{short} is module
"""
# A name of each, imported first thing in a separate process.
FIRST = {
    "tree_util": "tree_map",
    "ops": "add",
    "debug": "callback",
    "flatten_util": "ravel_pytree",
    "test_util": "compute_gradient",
    "numpy.linalg": "norm",
    "scipy.special": "erf",
    "nn.initializers": "normal",
    "sharding": "Mesh",
}


def test_each_can_be_imported_first():
    text = "".join(
        PROGRAM.format(path=f"minixla.{short}", short=short, name=name)
        for short, name in FIRST.items()
    )
    subprocess.run([sys.executable, "-c", text], check=True)


def test_to_import_the_package_loads_nothing_else():
    text = "import sys, minixla; assert not {'jax', 'numpy', 'minixla.tree_util'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", text], check=True)


def test_functions_are_pickled_by_path():
    from minixla.flatten_util import ravel_pytree
    from minixla.tree_util import tree_map

    for function in (ravel_pytree, tree_map, mx.debug.callback, mx.ops.add):
        assert pickle.loads(pickle.dumps(function)) is function


def test_a_tree_as_a_vector():
    tree = {"a": np.float32([[1, 2], [3, 4]]), "b": (5, np.int32([6]))}

    def doubled(tree):
        vector, unravel = mx.flatten_util.ravel_pytree(tree)
        return vector, unravel(2 * vector)

    for run in (doubled, mx.jit(doubled), mx.reference(doubled)):
        vector, twice = run(tree)
        np.testing.assert_array_equal(vector, np.float32([1, 2, 3, 4, 5, 6]))
        assert twice["b"][1].dtype == np.int32 and twice["a"].shape == (2, 2)
        np.testing.assert_array_equal(twice["a"], 2 * tree["a"])
    expected, _ = flatten_util.ravel_pytree(tree)
    assert doubled(tree)[0].dtype == expected.dtype
    vector, unravel = mx.flatten_util.ravel_pytree(())
    assert vector.shape == (0,) and unravel(vector) == ()
