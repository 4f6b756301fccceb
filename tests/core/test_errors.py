"""Error classes: what they are to Python, and the layout of their messages."""

from __future__ import annotations

import pickle

import pytest

import minixla as mx
from minixla import core
from minixla.core import errors
from minixla.core.errors import MinixlaError, explain
from minixla.core.source import find_source

CLASSES = [
    (errors.ShapeError, TypeError),
    (errors.ShapeError, ValueError),
    (errors.AttributeValueError, ValueError),
    (errors.ConcretizationError, TypeError),
    (errors.LeakedTracerError, ValueError),
    (errors.DerivativeError, TypeError),
    (errors.TransformError, TypeError),
    (errors.DeadlockError, RuntimeError),
    (errors.ImportError_, ValueError),
]


@pytest.mark.parametrize(("kind", "builtin"), CLASSES)
def test_each_is_ours_and_pythons(kind, builtin):
    error = explain(kind, "subject", "problem")
    assert isinstance(error, MinixlaError)
    assert isinstance(error, builtin)
    assert getattr(mx, kind.__name__) is kind
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_numbers_that_are_too_large_overflow():
    error = explain(errors.IntegerRangeError, "subject", "problem")
    assert isinstance(error, errors.AttributeValueError)
    assert isinstance(error, OverflowError)
    assert mx.IntegerRangeError is errors.IntegerRangeError


def test_every_class_is_listed_and_documented():
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    ours = [each for each in classes if issubclass(each, MinixlaError)]
    for each in ours:
        assert each.__doc__ and each.__name__ in core.__all__, each
    subclasses = {kind for kind, _ in CLASSES}
    assert subclasses <= set(MinixlaError.__subclasses__())


def test_parts_may_be_left_out():
    here = find_source()
    assert explain(errors.ShapeError, "add", "wrong", source=here).args == (
        f"add: wrong.\n  called at {here}",
    )
    full = explain(errors.ShapeError, "add", "wrong", ["a", "b"], "Do better.", here)
    assert str(full) == f"add: wrong.\n  a\n  b\n  called at {here}\n  Do better."
