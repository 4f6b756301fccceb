"""Docstrings of random numbers: no part is missing, and examples are true."""

import numpy as np
import pytest

import minixla as mx
from minixla.interop.jax_table import JaxFunction
from tests import docstrings

_FUNCTIONS = docstrings.functions_of(mx.random)


def _row(name):
    # The examples of what JAX computes are long to compile.
    is_jaxs = isinstance(getattr(_FUNCTIONS[name], "__wrapped__", None), JaxFunction)
    return pytest.param(name, marks=pytest.mark.full if is_jaxs else ())


@pytest.mark.parametrize("name", sorted(_FUNCTIONS))
def test_parts(name):
    assert not list(docstrings.lacking_of(_FUNCTIONS[name]))


@pytest.mark.parametrize("name", [_row(each) for each in sorted(_FUNCTIONS)])
def test_examples(name):
    assert not docstrings.failures_of(_FUNCTIONS[name], {"np": np, "mx": mx})
