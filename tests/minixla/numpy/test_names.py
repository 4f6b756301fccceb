"""What `minixla.numpy` and `minixla.nn` offer."""

import ast
import importlib
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla.nn as nn
import minixla.numpy as mnp
from minixla.core.tracing import Tracer
from minixla.numpy.indexing import IndexUpdate
from tests.minixla.signatures import differences

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
    for node in ast.walk(ast.parse(Path(mnp.__file__).read_text()))
    if isinstance(node, ast.ImportFrom) and node.module and node.names[0].name == "*"
]


MODULES = {
    "": (mnp, jnp),
    "fft.": (mnp.fft, jnp.fft),
    "linalg.": (mnp.linalg, jnp.linalg),
    "Array.": (Tracer, jax.Array),
}
# What JAX has and we have not, with the reason.
LEFT_OUT = dict.fromkeys(
    ("int1", "uint1"), "JAX's own arrays of these types fail on CPU; StableHLO does not have them"
)
# Keywords that JAX has and we have not.
KEYWORDS_LEFT_OUT = {
    ("einsum", "_dot_general"): "private",
    **{
        ("ufunc", name): "methods are found by name"
        for name in ("nargs", "reduce", "accumulate", "at", "reduceat")
    },
}
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def keywords(function: Any) -> set[str] | None:
    """The parameters of a function that can be named; None where it takes any."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    return {each.name for each in parameters if each.kind in _NAMED}


@pytest.mark.parametrize("place", MODULES)
def test_every_name_of_jax_is_here_with_its_keywords(place: str) -> None:
    ours, theirs = MODULES[place]
    names = [name for name in dir(theirs) if not name.startswith("_")]
    missing = {f"{place}{name}" for name in names if not hasattr(ours, name)}
    assert missing == {name for name in LEFT_OUT if name.rpartition(".")[0] == place[:-1]}
    lacking = set()
    for name in names:
        pair = [getattr(each, name, None) for each in (ours, theirs)]
        own, wanted = (keywords(each) if callable(each) else None for each in pair)
        if own is not None and wanted is not None:
            lacking |= {(f"{place}{name}", each) for each in wanted - own - {"self"}}
    assert lacking == {
        pair for pair in KEYWORDS_LEFT_OUT if pair[0].rpartition(".")[0] == place[:-1]
    }


# What is not as in JAX's function, with the reason.
DIFFERENT = {
    "clip": ["arr is <class 'inspect._empty'>, not None"],  # JAX has other names for it, too
}


@pytest.mark.parametrize("place", MODULES)
def test_calls_mean_what_they_mean_in_jax(place: str) -> None:
    ours, theirs = MODULES[place]
    found = {}
    for name in {*dir(ours)} & {*dir(theirs)}:
        pair = getattr(ours, name), getattr(theirs, name)
        if not name.startswith("_") and all(map(callable, pair)):
            found[f"{place}{name}"] = differences(*pair, is_method=place == "Array.")
    assert {name: rows for name, rows in found.items() if rows} == {
        name: rows for name, rows in DIFFERENT.items() if name.rpartition(".")[0] == place[:-1]
    }


def test_page_tells_what_is_left_out() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "numpy.md").read_text()
    pairs = {**LEFT_OUT, **{name: why for (_, name), why in KEYWORDS_LEFT_OUT.items()}}
    for name, why in pairs.items():
        assert any(
            f"`{name.rpartition('.')[2]}`" in line and why in line for line in page.splitlines()
        )


def test_updates_have_the_methods_of_jaxs() -> None:
    theirs = jnp.zeros(1).at[0]
    names = [name for name in dir(theirs) if not name.startswith("_")]
    assert {*names} <= {*dir(IndexUpdate)}

    def called(x: Any) -> list[Any]:
        found = []
        for name in filter(lambda name: callable(getattr(theirs, name)), names):
            parameters = signature(getattr(theirs, name)).parameters.values()
            options = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
            given = {"get": (), "apply": (mnp.exp,)}.get(name, (2.0,))
            found.append(getattr(x.at[0], name)(*given, **options))
        return found

    assert len(mx.reference(called)(np.ones(2, np.float32))) > 10


def test_names_are_of_numpy_or_jax() -> None:
    found = [n for n in mnp.__all__ if not hasattr(np, n) and not hasattr(jnp, n)]
    assert sorted(found) == ["cummax", "cummin"]


def test_dir_shows_the_names_and_nothing_else() -> None:
    assert dir(mnp) == sorted(mnp.__all__)
    for module in (mnp.fft, mnp.linalg):
        assert dir(module) == sorted(module.__all__)
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
