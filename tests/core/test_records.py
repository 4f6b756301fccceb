"""Records: one object for equal attributes, fields that bases give, their notation, errors."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minixla_ops as ops
from minixla.core import records
from minixla.core.attributes import (
    Attribute,
    Enumeration,
    Float,
    Function,
    Integer,
    Integers,
    attribute,
)
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.errors import AttributeValueError
from minixla.core.operation import Operation
from minixla_ops.elementwise.families import FLOATS, Unary
from tests.harness import graph_of


class Plain(Operation):
    """No attributes."""


class Pair(Attribute):
    """Two numbers, each under its own name in texts."""

    is_ambiguous = False

    def stablehlo(self, value):
        return {"first": value[0], "second": f"#second<{value[1]}>"}

    def hlo(self, value):
        return {"first": value[0] or None, "second": value[1]}


class Scaled(Operation):
    """Two attributes."""

    pair: tuple[int, int] = attribute(Pair())
    how: str = attribute(Enumeration("UP", "DOWN", mnemonic="direction"), default=None)


class Both(Plain, Scaled, Unary):
    """Attributes of a base that is not the first one."""

    count: int = attribute(Integer(), default=1)
    element_types = FLOATS
    stablehlo_name = "both"
    numpy = np.negative


def test_every_base_gives_its_fields():
    assert [*Both.fields] == ["pair", "how", "count"]
    assert Both((1, 2), count=1) is Both(pair=(1, 2))
    assert Both((1, 2)).values == {"pair": (1, 2), "how": None, "count": 1}


def test_an_attribute_may_be_written_as_several():
    graph = graph_of(lambda x: Both((0, 3), "DOWN")(x), [np.ones(2, np.float32)])
    wanted = "first = 0 : i64, second = #second<3>, how = #stablehlo<direction DOWN>, count = 1"
    assert wanted in graph.stablehlo()
    assert "both(%arg0.1), second=3, how=DOWN, count=1" in str(graph)


class Sizes(Operation):
    """Integers, which may be given as a list."""

    sizes: tuple[int, ...] = attribute(Integers())


def test_lists_are_told_apart_by_what_they_hold_now():
    given = [1]
    assert Sizes(given) is Sizes((1,)) is Sizes(sizes=[1])
    given.append(2)
    assert Sizes(given) is Sizes(np.array([1, 2])) is Sizes((1, 2))
    with pytest.raises(AttributeValueError, match="not the boolean True"):
        Sizes([True])


CALLS = {
    "builder of the class": (lambda x: ops.convert_element_type(x, "f31"), "f31"),
    "builder by hand": (lambda x: ops.dot_general(x, x, (((0,), (0,)), ((), ())), "LOW"), "LOW"),
    "record": (lambda x: Both((0, 3), "LEFT")(x), "LEFT"),
}


@pytest.mark.parametrize("call", CALLS)
def test_errors_of_attributes_show_no_frames_of_records(call, monkeypatch):
    monkeypatch.setenv("MINIXLA_TRACEBACK_FILTERING", "on")
    function, given = CALLS[call]
    with pytest.raises(AttributeValueError, match=given) as caught:
        function(np.ones(2, np.float32))
    files = [frame.filename for frame in traceback.extract_tb(caught.tb)]
    assert not [file for file in files if file == records.__file__]


def test_errors_say_that_an_attribute_may_be_left_out():
    with pytest.raises(AttributeValueError, match="must be one of UP, DOWN, or None"):
        Scaled((1, 2), "LEFT")


class Counted(Operation):
    """One integer."""

    count: int = attribute(Integer())


class Weighted(Operation):
    """Numbers, of which some are equal that differ."""

    factors: object = attribute(SequenceOf(Float()))


GIVEN = {
    "tuple": lambda: (1, 2),
    "list": lambda: [1, 2],
    "range": lambda: range(1, 3),
    "array": lambda: np.array([1, 2]),
    "iterator": lambda: iter((1, 2)),
    "dictionary": lambda: {1: "a", 2: "b"},
}


@pytest.mark.parametrize("form", GIVEN)
def test_equal_attributes_give_one_object_in_whatever_form(form):
    assert Sizes(GIVEN[form]()) is Sizes((1, 2)) is Sizes(sizes=GIVEN[form]())


def test_lists_are_looked_up(monkeypatch):
    made = Sizes([3, 4])
    monkeypatch.setattr(Sizes, "_canonical", None)  # what is looked up needs it not
    assert Sizes([3, 4]) is made


def test_an_iterator_is_not_kept():
    def sizes():
        yield 5

    generator = sizes()
    watch = weakref.ref(generator)
    assert Sizes(generator).sizes == (5,)
    assert Sizes(generator).sizes == ()  # it has ended
    del generator
    gc.collect()
    assert watch() is None


def test_a_boolean_is_no_integer_after_an_equal_one_either():
    assert Counted(1).count == 1
    with pytest.raises(AttributeValueError, match="boolean True"):
        Counted(True)


@pytest.mark.parametrize("form", [tuple, list])
def test_zeros_of_different_sign_are_told_apart(form):
    assert str(Weighted(form([0.0])).factors) == "(0.0,)"
    assert str(Weighted(form([-0.0])).factors) == "(-0.0,)"


class Calls(Operation):
    """Calls a function."""

    function: Callable[..., Any] = attribute(Function())
    count: int = attribute(Integer(), default=1)


def test_operations_with_functions_are_not_found_again():
    one = Calls(abs)
    assert one is not Calls(abs)
    assert one.values == Calls(abs, 1).values == one.replace(count=1).values
    assert not Calls._records
    assert not Calls._given
    with pytest.raises(AttributeValueError, match="attribute function has an invalid value"):
        Calls(3)
