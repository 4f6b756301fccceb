"""Builders are derived from classes, or are functions with the decorator `builds`."""

from __future__ import annotations

import functools
import inspect
import re

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core import REGISTRY, register
from minixla.core.builders import builds
from minixla_ops.elementwise.families import FLOATS, Unary


def test_a_builder_that_does_more():
    @register
    class Halved(Unary):
        """Half of numbers."""

        namespace = "own"
        element_types = FLOATS
        numpy = functools.partial(np.multiply, 0.5)

    @builds(Halved)
    def halved(numbers):
        return Halved()(np.asarray(numbers, np.float32))

    np.testing.assert_array_equal(mx.reference(lambda: halved([2, 3]))(), [1, 1.5])
    assert halved.__name__ == "halved"
    assert inspect.getdoc(halved).startswith("Half of numbers.\n\nArgs:")
    assert list(inspect.signature(halved).parameters) == ["numbers"]


@pytest.mark.parametrize("name", ops.__all__)
def test_the_source_of_builders(name):
    """It is a function with the name of the builder, or the class from which it is derived."""
    source = inspect.getsource(getattr(ops, name))
    assert re.search(rf"^def {name}\(|^class ", source, re.MULTILINE)


@pytest.mark.parametrize("operation", REGISTRY.values(), ids=lambda each: each.name)
def test_every_operation_is_a_class_statement(operation):
    assert f"class {operation.__name__}(" in inspect.getsource(operation)
