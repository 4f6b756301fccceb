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
}
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _functions(module: str) -> Iterator[tuple[str, Any]]:
    ours = MODULES[module][0]
    for name in ours.__all__:
        function = getattr(ours, name)
        # What is JAX's very object says what JAX says.
        is_of_jax = str(getattr(function, "__module__", "")).startswith("jax")
        if callable(function) and not isinstance(function, type) and not is_of_jax:
            yield name, function


def _needed(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [
        each.name for each in parameters if each.default is each.empty and each.kind in _BY_PLACE
    ]


CASES = [
    (module, name, parameter)
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
        assert isinstance(caught.value, mx.MinixlaError), f"{what}: {caught.value!r}"
        assert isinstance(caught.value, (TypeError, ValueError))
        assert "test_bad_input.py" in str(caught.value)


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
    """It may be accepted; an error that rejects it names the line."""
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
    """An error that is not one of ours."""
    try:
        function(*args, **options)
    except Exception as error:
        is_ours = isinstance(error, mx.MinixlaError) and __file__[-20:] in str(error)
        return None if is_ours else error
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
            for same in (np.True_, np.array(True), np.array([True])):
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
    "cost, platform": (lambda bad: mx.cost(mx.numpy.tanh, X, platform=bad), "is not a platform"),
    "cross_check, against": (
        lambda bad: mx.cross_check(mx.numpy.tanh, X, against=bad),
        "expected a function",
    ),
    "cross_check, evaluators": (
        lambda bad: mx.cross_check(mx.numpy.tanh, X, evaluators=bad),
        "evaluators is a dictionary of functions",
    ),
    "explore, overlays": (
        lambda bad: mx.explore(mx.numpy.tanh, X, overlays=bad, path="x.json"),
        "overlays is a list of some of |overlay <object object at .*> is unknown",
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
        "function is a text or None",
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
        "name must be a string",
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


def _along(collective: Any, **options: Any) -> Any:
    return mx.vmap(lambda x: collective(x, **options), axis_name="i")(SQUARE)


def _total(x: Any, y: Any, *, scale: float = 1.0) -> Any:
    return (x * y * scale).sum()


# What annotations say of arguments is checked: calls, and what the error says.
KINDS = {
    "all_gather, axis": (
        lambda bad: _along(mx.all_gather, axis_name="i", axis=bad),
        "axis is an integer",
    ),
    "all_to_all, tiled": (
        lambda bad: _along(mx.all_to_all, axis_name="i", split_axis=0, concat_axis=0, tiled=bad),
        "tiled is True or False",
    ),
    "checkpoint, static_argnums": (
        lambda bad: mx.checkpoint(_total, static_argnums=bad),
        "static_argnums is an integer or a sequence of integers",
    ),
    "custom_jvp, nondiff_argnames": (
        lambda bad: mx.custom_jvp(_total, nondiff_argnames=bad),
        "custom_jvp: nondiff_argnames has(.*\n)*.* is a text or a sequence of texts",
    ),
    "custom_vjp, bwd": (
        lambda bad: mx.custom_vjp(_total).defvjp(lambda x, y: (x, y), bad),
        "expected a function",
    ),
    "debug_nans, enabled": (lambda bad: mx.debug_nans(bad), "enabled is True or False"),
    "from_jax, static_argnames": (
        lambda bad: mx.from_jax(_total, static_argnames=bad),
        "static_argnames is a text or a sequence of texts or None",
    ),
    "from_jax, static_argnums": (
        lambda bad: mx.from_jax(_total, static_argnums=bad),
        "static_argnums is an integer or a sequence of integers or None",
    ),
    "grad, argnums": (
        lambda bad: mx.grad(_total, bad),
        "argnums is an integer or a sequence of integers",
    ),
    "grad, has_aux": (lambda bad: mx.grad(_total, has_aux=bad), "has_aux is True or False"),
    "jit, compiler_options": (
        lambda bad: mx.jit(_total, compiler_options=bad)(X, X),
        "compiler_options is a dictionary or None|No such compile option: 'x'",
    ),
    "jit, device": (lambda bad: mx.jit(_total, device=bad), r"device is one of jax.devices\(\)"),
    "jit, donate_argnums": (
        lambda bad: mx.jit(_total, donate_argnums=bad),
        "donate_argnums is an integer or a sequence of integers or None",
    ),
    "jit, static_argnames": (
        lambda bad: mx.jit(_total, static_argnames=bad),
        "static_argnames is a text or a sequence of texts or None",
    ),
    "jit, static_argnums": (
        lambda bad: mx.jit(_total, static_argnums=bad),
        "static_argnums is an integer or a sequence of integers or None",
    ),
    "make_graph, static_argnums": (
        lambda bad: mx.make_graph(_total, bad),
        "static_argnums is an integer or a sequence of integers",
    ),
    "pmap, axis_size": (lambda bad: mx.pmap(_total, axis_size=bad), "axis_size is an integer or"),
    "pmap, devices": (lambda bad: mx.pmap(_total, devices=bad), "devices is a list of devices"),
    "ppermute, perm": (
        lambda bad: _along(mx.ppermute, axis_name="i", perm=bad),
        "perm is a sequence of pairs of integers",
    ),
    "psum, axis_index_groups": (
        lambda bad: _along(mx.psum, axis_name="i", axis_index_groups=bad),
        "axis_index_groups is a sequence of sequences of integers or None|must divide the axis",
    ),
    "psum, axis_name": (
        lambda bad: _along(mx.psum, axis_name=bad),
        "axis_name is a hashable name or a sequence of hashable names|is not bound",
    ),
    "reference, precision": (
        lambda bad: mx.reference(_total, bad),
        'precision is "float64" or None',
    ),
    "scan, length": (
        lambda bad: mx.scan(lambda c, x: (c, x), 0, X, bad),
        "length is an integer or None",
    ),
    "shard_map, axis_names": (
        lambda bad: mx.shard_map(_total, in_specs=None, out_specs=None, axis_names=bad),
        "axis_names is a sequence of texts",
    ),
    "switch, branches": (
        lambda bad: mx.switch(0, bad, X),
        "branches is a sequence of functions|expected a function",
    ),
}
# What is of none of these kinds.
OF_NO_KIND = {"object": object(), "objects": [object()], "array": np.ones((3, 2), np.float32)}
OF_NO_KIND |= {"unhashable": [[1]], "dictionary": {"x": 1}, "fraction": 2.5, "NaN": np.nan}


@pytest.mark.parametrize("what", OF_NO_KIND)
@pytest.mark.parametrize("name", KINDS)
def test_of_another_kind_than_annotations_say(name: str, what: str) -> None:
    call, message = KINDS[name]
    with pytest.raises(mx.MinixlaError, match=message) as caught:
        call(OF_NO_KIND[what])
    assert isinstance(caught.value, (TypeError, ValueError))
    assert "test_bad_input.py" in str(caught.value)


# Positions and names of arguments that the function does not take.
MARKS = {
    "checkpoint": (lambda **marks: mx.checkpoint(_total, **marks), ["static_argnums"]),
    "custom_jvp": (lambda **marks: mx.custom_jvp(_total, **marks), ["nondiff_argnums"]),
    "from_jax": (
        lambda **marks: mx.from_jax(_total, **marks),
        ["static_argnums", "static_argnames"],
    ),
    "jit": (
        lambda **marks: mx.jit(_total, **marks),
        ["static_argnums", "static_argnames", "donate_argnums", "donate_argnames"],
    ),
    "make_graph": (lambda **marks: mx.make_graph(_total, **marks), ["static_argnums"]),
    "pmap": (
        lambda **marks: mx.pmap(_total, **marks),
        ["static_broadcasted_argnums", "donate_argnums"],
    ),
}
_PAIRS = [(name, mark) for name, (_, marks) in MARKS.items() for mark in marks]


@pytest.mark.parametrize(("name", "mark"), _PAIRS)
def test_arguments_that_the_function_does_not_take(name: str, mark: str) -> None:
    call, is_name = MARKS[name][0], mark.endswith("names")
    rule = "of parameters of _total: x, y, scale" if is_name else "of _total, which takes 2"
    for bad in ("z", ("x", "z")) if is_name else (2, -3, 10**30, (0, 5)):
        with pytest.raises(mx.AttributeValueError, match=f"^{name}: {mark} has(.*\n)*.*{rule}"):
            call(**{mark: bad})
    for good in ("x", ("y", "scale")) if is_name else (1, -2, np.int64(0), (0, 1)):
        call(**{mark: good})


@pytest.mark.parametrize(("call", "message"), TOOLS.values(), ids=TOOLS)
def test_a_tool_refuses_an_argument_of_another_kind(call: Any, message: str) -> None:
    for bad in (-5, 2.5, object(), [object()]):
        with pytest.raises(mx.MinixlaError, match=message):
            call(bad)


def test_names_of_overlays_are_listed(tmp_path: Path) -> None:
    with pytest.raises(mx.AttributeValueError, match="overlays is a list of some of"):
        mx.explore(mx.numpy.tanh, X, overlays="nan", path=tmp_path / "x.json")


@pytest.mark.parametrize("bad", ["text", object(), 10**30], ids=["text", "object", "large"])
def test_what_is_exported_takes_arrays(bad: Any) -> None:
    with pytest.raises(mx.MinixlaError, match=r"^export: (.*\n)*.*test_bad_input.py"):
        mx.export(mx.numpy.tanh, bad)
