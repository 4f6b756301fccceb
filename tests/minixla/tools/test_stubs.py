"""The stubs: what editors and type checkers see is what there is."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from pathlib import Path

import jax.numpy
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.tools.stubs import MODULES, path_of, stub_text


@pytest.mark.parametrize("name", MODULES)
def test_a_stub_is_what_the_functions_give(name):
    module = importlib.import_module(name)
    assert path_of(module).read_text() == stub_text(module), "run python -m minixla.tools.stubs"


@pytest.mark.parametrize("name", MODULES)
def test_a_stub_has_all_public_names(name):
    module, known = importlib.import_module(name), {}
    source = path_of(module).read_text()
    exec(compile(source, path_of(module), "exec"), {"__name__": name}, known)
    assert {*module.__all__} <= {*known, *known["__annotations__"]}


#: Results that JAX's stub gives another type, and why ours does not.
OTHERWISE = {
    "gradient": "one array or a list of them, which nobody tells apart before use",
    "result_type": "JAX's name of numpy.dtype",
}


def _results(*paths: Path) -> dict[str, str]:
    """Return the result types of functions that have only one in source files or stubs."""
    found = defaultdict(set)
    for path in paths:
        for each in ast.parse(path.read_text()).body:
            if isinstance(each, ast.FunctionDef) and each.returns is not None:
                found[each.name].add(ast.unparse(each.returns).replace("builtins.", ""))
    return {name: types.pop() for name, types in found.items() if len(types) == 1}


def test_results_are_of_the_types_that_jax_says():
    ours = _results(*Path(mnp.__file__ or "").parent.glob("*.py"))
    theirs = _results(Path(jax.numpy.__file__).with_suffix(".pyi"))
    # JAX's names of its own classes are not ours.
    both = [name for name in mnp.__all__ if name in ours and theirs.get(name, "_")[0] != "_"]
    assert len(both) > 150
    assert {name for name in both if ours[name] != theirs[name]} == {*OTHERWISE}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: mnp.linspace(0, 1, 3),
        lambda x: mnp.where(x > 0, x, 0),
        lambda x: mnp.unique(x, size=2),
        lambda x: mnp.average(x),
        lambda x: mnp.polyfit(x, x, 1),
        lambda x: mx.nn.logsumexp(x),
        lambda x: mx.nn.dot_product_attention(*[mnp.ones((1, 2, 1, 4))] * 3),
    ],
)
def test_without_flags_there_is_one_array(call):
    assert isinstance(call(np.float32([0, 1, 2])), jax.Array)


def test_derived_builders_have_the_signature_of_their_class():
    signature = inspect.signature(ops.reduce_precision)
    assert list(signature.parameters) == ["operand", "exponent_bits", "mantissa_bits"]
    assert signature.parameters["mantissa_bits"].annotation == "int"
    assert inspect.signature(ops.tanh).parameters["result_accuracy"].default is None
    assert "XLA: Tanh" in (inspect.getdoc(ops.tanh) or "")
    assert ops.tanh.__name__ == "tanh"
