"""What functions of arrays say of arguments that are wrong."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.scipy.linalg
import jax.scipy.special
import numpy as np
import pytest

import minixla as mx
from minixla.interop.jax_table import JaxFunction
from tests.docstrings import functions_of
from tests.minixla.examples import EXAMPLES, first_call
from tests.minixla.signatures import differences

MODULES = {
    "nn": (mx.nn, jax.nn),
    "random": (mx.random, jax.random),
    "scipy.linalg": (mx.scipy.linalg, jax.scipy.linalg),
    "scipy.special": (mx.scipy.special, jax.scipy.special),
}
SQUARE = np.array([[2, 1], [1, 3]], np.float32)
NO_ARRAYS = {"text": "x", "None": None, "object": object()}

# What is taken, with the reason.
TAKEN = {
    ("random", "randint", "shape", "None"): "as in JAX: that of the bounds",
    ("nn", "scaled_dot_general", "dimension_numbers", "None"): "JAX's default",
}
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _functions(module: str) -> Iterator[tuple[str, Any]]:
    ours = MODULES[module][0]
    for name in ours.__all__:
        function = getattr(ours, name)
        # What is JAX's very object says what JAX says.
        is_of_jax = function is getattr(MODULES[module][1], name, None)
        if callable(function) and not isinstance(function, type) and not is_of_jax:
            yield name, function


def _needed(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [
        each.name for each in parameters if each.default is each.empty and each.kind in _BY_PLACE
    ]


CASES = [
    pytest.param(
        *(module, name, parameter),
        # JAX says what is wrong, in its own time.
        marks=[pytest.mark.full] if isinstance(function, JaxFunction) else [],
    )
    for module in MODULES
    for name, function in _functions(module)
    for parameter in _needed(function)
]


@pytest.mark.parametrize(("module", "name", "parameter"), CASES)
def test_what_is_no_array_is_refused(module: str, name: str, parameter: str) -> None:
    function = getattr(MODULES[module][0], name)
    needed = _needed(function)
    for what, bad in NO_ARRAYS.items():
        arguments: list[Any] = [SQUARE] * len(needed)
        if module == "random" and needed[0] == "key":
            arguments[0] = mx.random.key(0)
        arguments[needed.index(parameter)] = bad
        if (module, name, parameter, what) in TAKEN:
            continue
        with warnings.catch_warnings(), pytest.raises(Exception) as caught:
            warnings.simplefilter("ignore")
            function(*arguments)
        if isinstance(caught.value, mx.MinixlaError):
            assert isinstance(caught.value, (TypeError, ValueError))
            assert "test_bad_input.py" in str(caught.value)
        else:  # JAX's own function, and ours says of what
            assert f"raised by jax.{module}" in _notes(caught.value), f"{what}: {caught.value!r}"


def _notes(error: BaseException) -> str:
    return "".join(getattr(error, "__notes__", []))


WRONG = {
    "text": "text",
    "None": None,
    "object": object(),
    "dict": {},
    "three axes": np.ones((7, 3, 2), np.float32),
    "ragged": [[1, 2], [3]],
    "large": 99,
    "negative": -99,
    "fraction": 1.5,
    "complex": np.complex64(1j),
    "nothing": np.zeros(0, np.float32),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "objects": np.array([None, 1], object),
    "function": len,
}


# Who else says what is wrong.
OTHERS = {
    "apply_over_axes": "the function that is given",
    "from_dlpack": "the protocol, by BufferError",
    "fromfile": "NumPy's function, whose arguments these are",
    "fromfunction": "the function that is given",
    "fromiter": "NumPy's function, whose arguments these are",
}


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("path", EXAMPLES)
def test_each_argument_of_each_example(
    path: str, part: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may be taken; what refuses it says where, in our words or in JAX's, of whom."""
    monkeypatch.chdir(tmp_path)
    module, raw = EXAMPLES[path], []
    for name in [*functions_of(module)][part::8]:
        function = getattr(module, name)
        call = first_call(module, name, monkeypatch)
        if call is None or function.__module__ == "numpy" or name in OTHERS:
            continue
        args, options = call
        places = [*range(len(args)), *options]
        for place, (what, bad) in product(places, WRONG.items()):
            given = {**dict(enumerate(args)), **options, place: bad}
            positional = [given.pop(index) for index in range(len(args))]
            error = _raw(function, *positional, **given)
            raw += [f"{name}, {place} is {what}: {error!r}"] if error else []
    assert not raw, "\n".join(raw)


def _raw(function: Any, *args: Any, **options: Any) -> Exception | None:
    """An error that is neither in our words nor JAX's, of which ours says whose it is."""
    try:
        function(*args, **options)
    except Exception as error:
        is_ours = isinstance(error, mx.MinixlaError) and __file__[-20:] in str(error)
        return None if is_ours or "raised by jax." in _notes(error) else error
    return None


def _flags(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if isinstance(each.default, bool)]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", EXAMPLES)
def test_each_flag(path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NumPy's booleans and arrays of one element are flags; what refuses others says where."""
    monkeypatch.chdir(tmp_path)
    module, raw = EXAMPLES[path], []
    for name in functions_of(module):
        function = getattr(module, name)
        flags = _flags(function)
        call = first_call(module, name, monkeypatch) if flags else None
        if call is None or function.__module__ == "numpy":
            continue
        args, options = call
        for flag in [each for each in flags if each not in options]:
            for what in ("text", np.array([True, False])):
                error = _raw(function, *args, **options, **{flag: what})
                raw += [f"{name}({flag}={what!r}): {error!r}"] if error else []
            try:
                expected = jax.tree.map(np.shape, function(*args, **options, **{flag: True}))
            except Exception:
                continue
            is_jaxs = isinstance(function, JaxFunction)
            for same in (np.True_, *([] if is_jaxs else [np.array(True), np.array([True])])):
                found = jax.tree.map(np.shape, function(*args, **options, **{flag: same}))
                raw += [f"{name}({flag}={same!r}): {found}"] if found != expected else []
    assert not raw, "\n".join(raw)


# What is not as in JAX's function, with the reason.
DIFFERENT = {
    "nn.scaled_matmul": [
        "preferred_element_type is <minixla.numpy.float32>, not <class 'numpy.float32'>"
    ],  # they mean the same
    "random.lognormal": ["sigma is 1.0, not np.float32(1.0)"],  # they are equal
}


@pytest.mark.parametrize("module", MODULES)
def test_calls_mean_what_they_mean_in_jax(module: str) -> None:
    theirs = MODULES[module][1]
    found = {
        f"{module}.{name}": differences(function, getattr(theirs, name))
        for name, function in _functions(module)
        if hasattr(theirs, name)
    }
    assert {name: rows for name, rows in found.items() if rows} == {
        name: rows for name, rows in DIFFERENT.items() if name.startswith(f"{module}.")
    }


X = np.float32([1, 2])
WRITTEN = '<mesh<["x"=2]>, [{"x"}]>'
CUT = mx.sharding.parse_sharding(WRITTEN)
GRAPH = mx.make_graph(mx.numpy.tanh)(X)

# Calls with what is none of the kinds that an argument takes, and what the error says.
TOOLS = {
    "check_grads, evaluate": (
        lambda bad: mx.check_grads(mx.numpy.tanh, (X,), evaluate=bad),
        "evaluate is None, 'jit' or 'reference'",
    ),
    "check_op, progress": (
        lambda bad: mx.check_op(mx.ops.tanh, [(X,)], progress=bad),
        "progress is a function of a text",
    ),
    "cost, platform": (lambda bad: mx.cost(mx.numpy.tanh, X, platform=bad), "is no platform"),
    "cross_check, against": (
        lambda bad: mx.cross_check(mx.numpy.tanh, X, against=bad),
        "instead of a function",
    ),
    "cross_check, evaluators": (
        lambda bad: mx.cross_check(mx.numpy.tanh, X, evaluators=bad),
        "evaluators is a dictionary of functions",
    ),
    "explore, overlays": (
        lambda bad: mx.explore(mx.numpy.tanh, X, overlays=bad, path="x.json"),
        "overlays is a list of some of |no overlay is <object",
    ),
    "explore, path": (lambda bad: mx.explore(mx.numpy.tanh, X, path=bad), "path is a path, or "),
    "export, platforms": (
        lambda bad: mx.export(mx.numpy.tanh, X, platforms=bad),
        "platforms is a list of names, or None",
    ),
    "export, vjp_order": (
        lambda bad: mx.export(mx.numpy.tanh, X, vjp_order=bad),
        "vjp_order is a number from 0 on",
    ),
    "import_stablehlo, function": (
        lambda bad: mx.import_stablehlo(mx.jit(mx.numpy.tanh).lower(X).as_text(), bad),
        "the module has no function",
    ),
    "layouts, graph": (mx.sharding.layouts, r"graph is a Graph: mx.make_graph\(f\)\(x\)"),
    "parse_mesh, text": (mx.sharding.parse_mesh, "text is SDY's text"),
    "parse_sharding, meshes": (
        lambda bad: mx.sharding.parse_sharding(WRITTEN, bad),
        "meshes is a dictionary of meshes by name",
    ),
    "parse_sharding, text": (mx.sharding.parse_sharding, "text is SDY's text"),
    "register_evaluator, name": (
        lambda bad: mx.register_evaluator(bad, lambda graph, operands: []),
        "name is a text",
    ),
    "run_pass, name": (
        lambda bad: mx.sharding.run_pass(bad, GRAPH),
        "name is a pass's name",
    ),
    "TensorSharding, dimensions": (
        lambda bad: mx.sharding.TensorSharding(CUT.mesh, bad),
        "dimensions is a DimensionSharding for each",
    ),
    "TensorSharding, mesh": (mx.sharding.TensorSharding, "mesh is a Mesh"),
    "visualize_sharding, shape": (
        lambda bad: mx.sharding.visualize_sharding(bad, CUT),
        "shape is a tuple of sizes",
    ),
    "visualize_sharding, sharding": (
        lambda bad: mx.sharding.visualize_sharding((4,), bad),
        "sharding is a TensorSharding",
    ),
}


@pytest.mark.parametrize(("call", "message"), TOOLS.values(), ids=TOOLS)
def test_a_tool_refuses_an_argument_of_another_kind(call: Any, message: str) -> None:
    for bad in (-5, 2.5, object(), [object()]):
        with pytest.raises(mx.MinixlaError, match=message):
            call(bad)


def test_names_of_overlays_are_listed(tmp_path: Path) -> None:
    with pytest.raises(mx.AttributeValueError, match="overlays is a list of some of"):
        mx.explore(mx.numpy.tanh, X, overlays="nan", path=tmp_path / "x.json")
