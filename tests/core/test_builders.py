"""Builders are what classes say; one that does more is the class's own."""

from __future__ import annotations

import functools
import inspect

import numpy as np

import minixla as mx
from minixla.core import builder, register
from minixla_ops.elementwise.families import FLOATS, Unary


def test_a_class_may_have_a_builder_of_its_own():
    class Halved(Unary):
        """Half of numbers."""

        namespace = "own"
        element_types = FLOATS
        numpy = functools.partial(np.multiply, 0.5)

        @staticmethod
        def build(numbers):
            return Halved()(np.asarray(numbers, np.float32))

    halved = builder(register(Halved))
    np.testing.assert_array_equal(mx.reference(lambda: halved([2, 3]))(), [1, 1.5])
    assert halved.__name__ == "halved"
    assert inspect.getdoc(halved).startswith("Half of numbers.\n\nArgs:")
    assert list(inspect.signature(halved).parameters) == ["numbers"]
