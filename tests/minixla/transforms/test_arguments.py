"""What transformations share: positions, static arguments, prefix trees of axes."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import TransformError
from minixla.transforms.arguments import (
    Arguments,
    flatten_prefix,
    named_after,
    positions,
)

POSITIONS = [
    (0, 3, (0,)),
    (-1, 3, (2,)),
    ((2, 0), 3, (2, 0)),
    ([1, -3], 3, (1, 0)),
    ((), 3, ()),
    (range(2), 3, (0, 1)),
    (np.int64(1), 3, (1,)),
    (np.array([0, 2]), 3, (0, 2)),
]


@pytest.mark.parametrize(("argnums", "count", "expected"), POSITIONS, ids=str)
def test_positions(argnums, count, expected):
    assert positions(argnums, count, "grad") == expected


@pytest.mark.parametrize("argnums", [3, -4, (0, 3), (1, 1), (0, -3)], ids=str)
def test_wrong_positions(argnums):
    with pytest.raises(TransformError, match=r"grad: argnums lists argument"):
        positions(argnums, 3, "grad")


def test_numbers_and_sequences():
    for argnums, expected in ((1, 5.0), (np.int8(1), 5.0), ((1,), (5.0,)), ([], ())):
        assert mx.grad(lambda x, y: x * y, argnums)(5.0, 2.0) == expected


STATIC = [
    ((), ("a", "b", "c"), ("a", "b", "c")),
    (0, ("a", "b", "c"), ("b", "c")),
    ((0, 2), ("a", "b", "c"), ("b",)),
    (-1, ("a", "b", "c"), ("a", "b")),
    ((1, 7), ("a", "b"), ("a",)),
    ((0, 1), ("a", "b"), ()),
]


@pytest.mark.parametrize(("numbers", "args", "dynamic"), STATIC, ids=str)
def test_static_arguments(numbers, args, dynamic):
    given = Arguments.besides("test", lambda *every: every, args, None, numbers)
    assert given.given == dynamic
    assert given.apply(given.given) == args
    changed = given.apply([each.upper() for each in given.given])
    assert tuple([each.lower() for each in changed]) == args
    assert sum(each.isupper() for each in changed) == len(dynamic)


TREE = {"a": [1.0, 2.0], "b": (3.0, {"c": 4.0})}
AXES = [
    (0, [0, 0, 0, 0]),
    (None, [None] * 4),
    ({"a": 0, "b": 1}, [0, 0, 1, 1]),
    ({"a": [0, None], "b": 1}, [0, None, 1, 1]),
    ({"a": None, "b": (2, {"c": -1})}, [None, None, 2, -1]),
    ({"a": [1, 2], "b": (None, {"c": 3})}, [1, 2, None, 3]),
]


@pytest.mark.parametrize(("axes", "expected"), AXES, ids=str)
def test_axes(axes, expected):
    assert flatten_prefix("vmap", "in_axes", TREE, axes) == expected


WRONG = [
    {"a": 0},
    {"a": 0, "b": 0, "c": 0},
    {"a": (0, 0), "b": 0},
    {"a": [0], "b": 0},
    {"a": 0, "b": "x"},
    [0, 0],
    (),
    1.5,
]


@pytest.mark.parametrize("axes", WRONG, ids=str)
def test_wrong_axes(axes):
    with pytest.raises(TransformError) as caught:
        flatten_prefix("vmap", "in_axes", TREE, axes)
    for phrase in (
        "vmap: in_axes does not match the structure",
        f"in_axes = {axes!r}",
        "PyTreeDef",
    ):
        assert phrase in str(caught.value)


def test_deep_axes():
    tree, axes = 1.0, 2
    for _ in range(300):
        tree, axes = [tree, None], [axes, None]
    assert flatten_prefix("vmap", "in_axes", tree, axes) == [2]


NOT_FUNCTIONS = [3, None, "text", [len]]
TRANSFORMATIONS = [
    *["grad", "value_and_grad", "jvp", "vjp", "vmap", "jit"],
    *["make_graph", "reference", "custom_jvp", "custom_vjp"],
]


@pytest.mark.parametrize("value", NOT_FUNCTIONS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_what_is_no_function(name, value):
    if (name, value) == ("jit", None):
        assert callable(mx.jit(None)), "jit with options only"
        return
    with pytest.raises(TransformError) as caught:
        getattr(mx, name)(value, *[(1.0,), (1.0,)] * (name == "jvp"))
    for phrase in (f"{name}: expected a function, got {type(value).__name__}", "test_arguments.py"):
        assert phrase in str(caught.value)


def test_names():
    def function(x):
        """Documented."""

    def wrapper():
        pass

    assert named_after(wrapper, function) is wrapper
    assert (wrapper.__name__, wrapper.__doc__) == ("function", "Documented.")
    partial = functools.partial(function, 1)
    assert getattr(named_after(lambda: None, partial), "__wrapped__") is partial  # noqa: B009
