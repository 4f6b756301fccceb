"""What functions of mx.nn, mx.random and mx.scipy say of arguments that are no arrays."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.scipy.linalg
import jax.scipy.special
import numpy as np
import pytest

import minixla as mx
from minixla.interop.jax_table import JaxFunction
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
            notes = "".join(getattr(caught.value, "__notes__", []))
            assert f"raised by jax.{module}" in notes, f"{what}: {caught.value!r}"


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
