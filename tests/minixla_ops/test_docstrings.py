"""Docstrings of the builders of operations: no part is missing, and examples are true."""

import re

import numpy as np
import pytest

import minixla as mx
from minixla import ops
from minixla.core import operation_docstrings
from tests import docstrings
from tests.selection import examples_of

_NAMES = {"np": np, "mx": mx, "ops": ops}


@pytest.mark.parametrize("name", sorted(docstrings.functions_of(ops)))
def test_parts(name):
    function = getattr(ops, name)
    assert not list(docstrings.lacking_of(function, needs_source=False))
    assert re.search(r"\b(XLA|JAX|Source|minixla):\s", function.__doc__)


@pytest.mark.parametrize("name", examples_of(sorted(docstrings.functions_of(ops))))
def test_examples(name):
    assert not docstrings.failures_of(getattr(ops, name), _NAMES)


def test_parts_of_families():
    text = ops.digamma.__doc__
    assert "operand: an array of floats." in text
    assert "(C2) the element type is one of floats." in text
    assert "(G1) groups are not empty" in ops.all_gather.__doc__


def test_sections():
    text = """Sum.

    More.

    Args:
        x: one,
            or more.

    Checks: see Other.

    Last.
    """
    found = operation_docstrings.sections(text)
    assert found["Args"] == "    x: one,\n        or more."
    assert found["Checks"] == "    see Other."
    assert found[""] == "Sum.\n\nMore.\n\nLast."
    whole = operation_docstrings.joined({"Returns": "    y", "": "Sum.", "Args": "    x"})
    assert whole == "Sum.\n\nArgs:\n    x\n\nReturns:\n    y"
