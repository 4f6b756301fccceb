"""Docstrings of what networks are made of: no part is missing, and examples are true."""

import numpy as np
import pytest

import minixla as mx
from tests import docstrings

_FUNCTIONS = docstrings.functions_of(mx.nn)
# JAX's own, as it is; and a function of mx.numpy, whose docstring is tested there.
_OF_OTHERS = {"get_scaled_dot_general_config", "tanh"}


@pytest.mark.parametrize("name", sorted(_FUNCTIONS.keys() - _OF_OTHERS))
def test_parts(name):
    assert not list(docstrings.lacking_of(_FUNCTIONS[name]))
    assert not docstrings.failures_of(_FUNCTIONS[name], {"np": np, "mx": mx})
