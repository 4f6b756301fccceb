"""Docstrings of what `minixla` itself, and its smaller packages, offer."""

import jax
import numpy as np
import pytest

import minixla as mx
from minixla import extension
from tests import docstrings
from tests.selection import examples_of

pytestmark = pytest.mark.usefixtures("standing_evaluators")

_NAMES = {"np": np, "mx": mx, "jax": jax, "__name__": "__main__"}
# They compile C++, which takes seconds: docs/custom_operations.md has examples, which are run.
_COMPILE = {"build_op_library", "load_op_library"}


def _own(space):
    """Functions of ours by name."""
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


@pytest.mark.parametrize("name", examples_of(_FUNCTIONS.values()))
def test_examples(name):
    function = next(each for each, full in _FUNCTIONS.items() if full == name)
    assert not docstrings.failures_of(function, _NAMES)


def test_names_of_jax_are_jaxs():
    values = {name: getattr(mx, name) for name in mx.__all__}
    others = {
        name: value
        for name, value in values.items()
        if str(getattr(value, "__module__", "")).startswith("jax")
    }
    assert len(others) > 60
    assert all(value is getattr(jax, name) for name, value in others.items())


def test_extension_offers_no_more():
    assert _own(extension).items() <= _own(mx).items()
