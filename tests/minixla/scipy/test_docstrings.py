"""Docstrings of SciPy's functions, and of mx.image: no part is missing, and examples are true."""

import inspect

import numpy as np
import pytest

import minixla as mx
from minixla.interop.jax_table import JaxFunction
from tests import docstrings

_MODULES = (
    "special",
    "linalg",
    "fft",
    "integrate",
    "ndimage",
    "signal",
    "optimize",
    "stats",
    "interpolate",
)
_FUNCTIONS = {
    f"{module}.{name}": each
    for module in _MODULES
    for name, each in docstrings.functions_of(getattr(mx.scipy, module)).items()
} | docstrings.functions_of(mx.image)

_DISTRIBUTIONS = {
    f"{name}.{function}": each
    for name in dir(mx.scipy.stats)
    if inspect.ismodule(module := getattr(mx.scipy.stats, name))
    for function, each in docstrings.functions_of(module).items()
}


def _row(name):
    # The examples of what JAX computes are long to compile.
    is_jaxs = isinstance(_FUNCTIONS[name], JaxFunction)
    return pytest.param(name, marks=pytest.mark.full if is_jaxs else ())


@pytest.mark.parametrize("name", sorted(_FUNCTIONS))
def test_parts(name):
    assert not list(docstrings.lacking_of(_FUNCTIONS[name]))


def test_parts_of_distributions():
    # Their modules say what they are; they are SciPy's by their names, and JAX's by their code.
    lacking = {
        name: [*docstrings.lacking_of(each, needs_source=False, needs_example=False)]
        for name, each in _DISTRIBUTIONS.items()
    }
    # JAX describes a parameter that it has not.
    said = {"logistic.logpdf": ["no such parameter: a"]}
    assert {name: found for name, found in lacking.items() if found} == said
    assert len(lacking) > 100


@pytest.mark.parametrize("name", [_row(each) for each in sorted(_FUNCTIONS)])
def test_examples(name):
    assert not docstrings.failures_of(_FUNCTIONS[name], {"np": np, "mx": mx})
