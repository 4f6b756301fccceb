"""Kinds of attributes: what each takes and refuses. Literals: equality, splats, immutability."""

from __future__ import annotations

import math

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from minixla.core.attributes import (
    Attribute,
    Boolean,
    Enumeration,
    Float,
    Function,
    Instance,
    Integer,
    Integers,
    Literal,
    LiteralAttribute,
    Sequence,
    ShapeAttribute,
    Text,
    TypeAttribute,
    spelling,
)
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import ConcretizationError
from minixla.core.graph import Graph
from minixla.core.shapes import TOKEN, Shape, TupleShape

VECTOR = Shape("f32", (3,))
PAIR = TupleShape([VECTOR, TOKEN])

ACCEPTED = [
    (Attribute(), "anything", "anything"),
    (Integer(), 3, 3),
    (Integer(), np.int8(-3), -3),
    (Integer(), jnp.int32(4), 4),
    (Integer(), np.array(5), 5),
    (Integer(minimum=0), 0, 0),
    (Integer(maximum=2), 2, 2),
    (Float(), 1, 1.0),
    (Float(), np.float32(0.5), 0.5),
    (Float(), math.inf, math.inf),
    (Boolean(), True, True),
    (Boolean(), np.bool_(False), False),
    (Text(), "word", "word"),
    (Enumeration("LOWER", "UPPER"), "UPPER", "UPPER"),
    (Instance(Shape), VECTOR, VECTOR),
    (Function(), abs, abs),
    (Instance(Graph), Graph([], [], []), Graph([], [], [])),
    (Sequence(Boolean()), [True, np.bool_(False)], (True, False)),
    (Sequence(Sequence(Integer())), [[1, 2], np.array([3])], ((1, 2), (3,))),
    (Integers(), (), ()),
    (Integers(), np.array([1, 1]), (1, 1)),
    (Integers(minimum=0, unique=True), range(3), (0, 1, 2)),
    (TypeAttribute(), np.float16, ELEMENT_TYPES["f16"]),
    (TypeAttribute(), "s4", ELEMENT_TYPES["s4"]),
    (ShapeAttribute(), VECTOR, VECTOR),
    (ShapeAttribute(), PAIR, PAIR),
    (ShapeAttribute(), TOKEN, TOKEN),
    (LiteralAttribute(), [1.0, 2.0], Literal(np.array([1, 2], np.float32))),
]


@pytest.mark.parametrize(
    ("declaration", "given", "canonical"), ACCEPTED, ids=lambda each: type(each).__name__
)
def test_accepted(declaration, given, canonical):
    found = declaration.canonical(given)
    assert found == canonical
    assert type(found) is type(canonical)
    hash(found)


def test_every_nan_is_one():
    assert Float().canonical(np.float32("nan")) is Float().canonical(-math.nan)


REFUSED = [
    (Attribute(), [], TypeError, "unhashable"),
    (Integer(), True, TypeError, "not the boolean True"),
    (Integer(), np.bool_(True), TypeError, "not the boolean True"),
    (Integer(), 1.0, TypeError, "float"),
    (Integer(), "1", TypeError, "str"),
    (Integer(), None, TypeError, "NoneType"),
    (Integer(minimum=0), -1, ValueError, "must be >= 0, not -1"),
    (Integer(maximum=7), 8, ValueError, "must be <= 7, not 8"),
    (Float(), "1.5", TypeError, "must be a real number, not '1.5'"),
    (Float(), True, TypeError, "must be a real number, not True"),
    (Float(), 1j, TypeError, "complex"),
    (Float(), None, TypeError, "NoneType"),
    (Boolean(), 1, TypeError, "must be True or False, not 1"),
    (Text(), b"word", TypeError, "must be a string"),
    (
        Enumeration("LOWER", "UPPER"),
        "upper",
        ValueError,
        "must be one of LOWER, UPPER, not 'upper'",
    ),
    (Enumeration("LOWER"), ["LOWER"], ValueError, "must be one of LOWER"),
    (Function(), VECTOR, TypeError, "must be a function, not f32"),
    (Instance(Graph), VECTOR, TypeError, "must be a Graph, not f32"),
    (Sequence(Integer()), 3, TypeError, "must be a sequence, not 3"),
    (Sequence(Text()), "abc", TypeError, "must be a sequence, not 'abc'"),
    (Sequence(Integer()), [1, True], TypeError, "boolean"),
    (Integers(minimum=0), [0, -2], ValueError, "must be >= 0, not -2"),
    (Integers(unique=True), [1, 0, 1], ValueError, r"must not repeat a number: \[1, 0, 1\]"),
    (TypeAttribute(), "f33", TypeError, "not an element type"),
    (ShapeAttribute(), (2, 3), TypeError, r"must be a Shape, not \(2, 3\)"),
    (LiteralAttribute(), ["a"], TypeError, "not an element type"),
]


@pytest.mark.parametrize(
    ("declaration", "given", "error", "phrase"), REFUSED, ids=lambda each: str(each)[:30]
)
def test_refused(declaration, given, error, phrase):
    with pytest.raises(error, match=phrase):
        declaration.canonical(given)


def test_a_traced_value_is_no_attribute():
    with pytest.raises(ConcretizationError, match="a Python index was required"):
        mx.make_graph(lambda n: Integer().canonical(n))(3)


def test_equal_values_that_differ_are_told_apart():
    alike = [1, 1.0, True, np.float64(1)]
    assert len({spelling(each) for each in alike}) == len(alike)
    assert spelling((0.0, (1,))) != spelling((-0.0, (1,)))
    assert spelling((0.0, (1,))) != spelling((0.0, (True,)))
    assert spelling((0.0, (1,))) == spelling((0.0, (2,)))
    for zero in (np.float64(0), np.float32(0), complex(0), np.complex64(0)):
        assert spelling(zero) != spelling(-zero)


AMBIGUOUS = [
    (Attribute(), True),
    (Float(), True),
    (Sequence(Float()), True),
    (Integer(), False),
    (Integers(), False),
    (Instance(Graph), False),
    (LiteralAttribute(), False),
]


@pytest.mark.parametrize(("declaration", "expected"), AMBIGUOUS)
def test_which_kinds_hold_equal_values_that_differ(declaration, expected):
    assert declaration.is_ambiguous is expected


def splat(value, dtype, *sizes):
    return Literal.splat(value, Shape(dtype, sizes))


def full(value, dtype, *sizes):
    return Literal(np.full(sizes, value, dtype))


EQUAL = [
    (full(1, "f4", 2, 3), full(1, "f4", 2, 3)),
    (splat(1, "f4", 2, 3), full(1, "f4", 2, 3)),
    (splat(np.nan, "f4", 2), full(np.nan, "f4", 2)),
    (splat(-0.0, "f4"), full(-0.0, "f4")),
    (Literal(jnp.ones(3), VECTOR), full(1, "f4", 3)),
    (splat(1, ml_dtypes.int4, 2), full(1, ml_dtypes.int4, 2)),
    (full(0, "f4", 0, 2), full(1, "f4", 0, 2)),
]
DIFFERENT = [
    (full(0.0, "f4", 2), full(-0.0, "f4", 2)),
    (splat(0.0, "f4", 2), splat(-0.0, "f4", 2)),
    (splat(np.nan, "f4", 2), splat(np.float32(-np.nan), "f4", 2)),
    (full(1, "f4", 2), full(1, "i4", 2)),
    (full(1, "f4", 2), full(1, "f4", 2, 1)),
    (full(1, "f4", 2), Literal(np.array([1, 2], "f4"))),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_literals(one, other):
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_literals(one, other):
    assert one != other


def test_a_literal_is_no_array():
    assert full(1, "f4") != 1.0


def test_a_splat_takes_no_memory():
    literal = splat(3, "f4", 100_000, 100_000)
    assert literal.is_splat
    assert literal.is_printed
    assert literal.array.strides == (0, 0)
    assert literal.scalar == 3


def test_what_is_printed():
    assert full(1, "f4", 1024).is_printed
    assert not full(1, "f4", 1025).is_printed
    assert not Literal(jnp.ones(3), VECTOR).is_printed


def test_writing_to_the_array_later_does_not_change_the_literal():
    array = np.zeros(3, np.float32)
    literal = Literal(array)
    array[0] = 1
    assert literal == full(0, "f4", 3)


def test_64_bit_arrays_from_outside_become_narrow():
    assert str(Literal(np.zeros(2)).shape) == "f32[2]"
    assert str(Literal(np.zeros(2), Shape("f64", (2,))).shape) == "f64[2]"
