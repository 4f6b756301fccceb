"""What is seen in a notebook and in IPython: names, signatures, errors, reports.

A notebook is executed where nbclient and a kernel are installed; the rest needs Python alone.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from pathlib import Path
from types import ModuleType

import pytest

import minixla as mx

#: Our own namespaces. JAX's modules decide themselves what they offer.
NAMESPACES = ("", "core", "debug", "lax", "nn", "numpy", "numpy.fft", "numpy.linalg", "ops")
NAMESPACES += ("random", "scipy", "scipy.linalg", "scipy.special", "sharding", "test_util")
NAMESPACES += ("typing", "legalize")


def at(path: str) -> ModuleType:
    found = mx
    for name in filter(None, path.split(".")):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("path", NAMESPACES)
def test_completion_offers_what_is_public_and_no_more(path):
    module = at(path)
    names = dir(module)
    assert names
    assert not [name for name in names if name.startswith("_")]
    assert sorted(names) == sorted(getattr(module, "__all__", names))
    for name in names:
        value = getattr(module, name)
        if inspect.ismodule(value):
            known = {f"{path}.{name}".lstrip(".")} & {*NAMESPACES}
            is_namespace = value.__name__.startswith(("jax", "minixla.scipy.")) or known
            assert is_namespace, f"{value.__name__} is a module that {module.__name__} uses"


def layer(x, w):
    """A layer."""
    return mx.numpy.tanh(x @ w)


@pytest.mark.parametrize(
    "transformed",
    [mx.jit, mx.grad, mx.value_and_grad, mx.vmap, mx.checkpoint, mx.jacrev, mx.reference],
)
def test_signatures_are_those_of_the_function(transformed):
    made = transformed(layer)
    assert list(inspect.signature(made).parameters) == ["x", "w"]
    assert made.__name__ == "layer"
    assert "A layer." in made.__doc__


CELLS = {
    "import numpy\nimport minixla as mx": "",
    "@mx.jit\ndef layer(x, w):\n    return mx.numpy.tanh(x @ w)": "",
    "print(get_ipython().object_inspect_mime('layer')['text/plain'])": r"layer\(x, w\)",
    "x, w = numpy.ones((2, 3), 'f4'), numpy.ones((3, 5), 'f4')\nlayer(x, w)": "Array",
    "layer(x, x)": (
        r"ShapeError: matmul: dot_general: .*contracting dimensions must be equal.*"
        r"called at In\[2\]:3 \(layer\)"
    ),
    "mx.jit(lambda x: x if x > 0 else -x)(1.0)": r"Write mx\.numpy\.where\(x > 0, x, -x\)",
    "mx.grad(lambda x: x)(x)": "grad: the function must return one scalar",
    "mx.cost(layer, x, w)": "<table>.*XLA",
    "mx.cross_check(layer, x, w, gradients=False)": "cross_check of layer: ok.*<table>",
    "mx.make_graph(layer)(x, w)": "HloModule layer|<svg",
}


def test_a_notebook(monkeypatch):
    needed = [
        pytest.importorskip(name, reason=f"{name}, which runs notebooks, is not installed")
        for name in ("nbclient", "nbformat", "ipykernel")
    ]
    nbclient, nbformat, _ = needed
    root = str(Path(mx.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    cells = list(map(nbformat.v4.new_code_cell, CELLS))
    notebook = nbformat.v4.new_notebook(cells=cells)
    for name in ("MINIXLA_TRACEBACK_FILTERING", "JAX_TRACEBACK_FILTERING"):
        monkeypatch.delenv(name, raising=False)
    client = nbclient.NotebookClient(
        notebook, timeout=120, allow_errors=True, kernel_name="python3"
    )
    client.execute()
    for cell, wanted in zip(notebook.cells, CELLS.values(), strict=True):
        # Without colours.
        shown = re.sub(r"\\u001b\[[\d;]*m", "", "\n".join(map(json.dumps, cell.outputs)))
        assert re.search(wanted, shown, re.DOTALL), f"{cell.source}: {shown[:2000]}"
        assert bool(wanted) == bool(cell.outputs)
        if "Traceback" in shown:
            frames = re.findall(r"File ([^ ]+)", shown)
            assert not frames, f"{cell.source} shows code of the library: {frames}"
            assert "Frames of minixla and JAX are hidden" in shown
