"""Docstrings of what `minixla` itself, and its smaller packages, offer."""

import jax
import numpy as np
import pytest

import minixla as mx
from minixla import extension
from tests import docstrings

pytestmark = pytest.mark.usefixtures("standing_evaluators")

_NAMES = {"np": np, "mx": mx, "jax": jax, "__name__": "__main__"}
# They compile C++, which takes seconds: docs/custom_operations.md has examples, which are run.
_COMPILE = {"build_op_library", "load_op_library"}


def _own(space):
    """Functions of ours by name. Those of `jax` that a namespace has as they are are JAX's."""
    found = docstrings.functions_of(space).items()
    return {name: each for name, each in found if each.__module__.startswith("minixla")}


_SPACES = [mx, mx.sharding, mx.core, mx.debug, mx.test_util]
_FUNCTIONS = {
    each: f"{space.__name__}.{name}" for space in _SPACES for name, each in _own(space).items()
}


@pytest.mark.parametrize("function", _FUNCTIONS, ids=_FUNCTIONS.get)
def test_parts(function):
    has_example = function.__name__ not in _COMPILE
    lacking = docstrings.lacking_of(function, needs_source=False, needs_example=has_example)
    assert not list(lacking)
    assert not docstrings.failures_of(function, _NAMES)


def test_names_of_jax_are_jaxs():
    others = {
        name: each
        for name, each in docstrings.functions_of(mx).items()
        if not each.__module__.startswith("minixla")
    }
    assert all(each is getattr(jax, name) for name, each in others.items())


def test_extension_offers_no_more():
    assert _own(extension).items() <= _own(mx).items()
