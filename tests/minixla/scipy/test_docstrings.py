"""Docstrings of SciPy's functions: no part is missing, and examples are true."""

import numpy as np
import pytest

import minixla as mx
from tests import docstrings
from tests.selection import examples_of

_FUNCTIONS = {
    f"{module}.{name}": each
    for module in ("special", "linalg")
    for name, each in docstrings.functions_of(getattr(mx.scipy, module)).items()
}


@pytest.mark.parametrize("name", sorted(_FUNCTIONS))
def test_parts(name):
    assert not list(docstrings.lacking_of(_FUNCTIONS[name]))


@pytest.mark.parametrize("name", examples_of(sorted(_FUNCTIONS)))
def test_examples(name):
    assert not docstrings.failures_of(_FUNCTIONS[name], {"np": np, "mx": mx})
