"""Operations: registry, attributes, their messages, the cache, an operation of the user's."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core import operation as operation_module
from minixla.core.attributes import (
    Attribute,
    Flag,
    Float,
    Instance,
    Integer,
    Integers,
    attribute,
)
from minixla.core.errors import (
    AttributeValueError,
    DerivativeError,
    ShapeError,
    TransformError,
)
from minixla.core.graph import Graph
from minixla.core.operation import Operation
from minixla.core.registry import REGISTRY, operation_named
from minixla.core.shapes import TOKEN, Shape, TupleShape
from minixla.core.tracing import trace_to_graph
from minixla_ops.elementwise.families import FLOATS, Unary

VECTOR = Shape("f32", (3,))
X = np.array([0.5, -1.0, 2.0], np.float32)


# A few lines make an operation.
class SquarePlusOne(Unary):
    """x**2 + 1."""

    element_types = FLOATS

    def reference(self, operand):
        return operand * operand + operand.dtype.type(1)

    def derivative(self, operand, result):
        return 2.0 * operand

    def stablehlo(self, emit, operands, shapes, results):
        square = emit.same_shape("stablehlo.multiply", operands * 2, shapes[0])
        one = emit.constant(mx.core.Literal.splat(1, shapes[0]))
        return emit.same_shape("stablehlo.add", [square[0], one], shapes[0])


def square(x):
    return SquarePlusOne()(x)


def total(x):
    return ops.reduce([square(x)], [np.float32(0)], ops.add, [0])


USES = [
    ("eager", square, X * X + 1),
    ("jit", mx.jit(square), X * X + 1),
    ("reference", mx.reference(square), X * X + 1),
    ("grad", mx.grad(total), 2 * X),
    ("jit of grad", mx.jit(mx.grad(total)), 2 * X),
    ("reference of grad", mx.reference(mx.grad(total)), 2 * X),
    ("vmap", mx.vmap(square), X * X + 1),
    ("vmap of grad", mx.vmap(mx.grad(square)), 2 * X),
    ("jvp", lambda x: mx.jvp(square, (x,), (x,))[1], 2 * X * X),
    ("grad of grad", mx.vmap(mx.grad(mx.grad(square))), np.full(3, 2, "f4")),
    ("inside jax.jit", jax.jit(square), X * X + 1),
    ("inside jax.grad", jax.grad(total), 2 * X),
    ("inside jax.vmap", jax.vmap(square), X * X + 1),
]


@pytest.mark.parametrize(
    ("function", "expected"), [row[1:] for row in USES], ids=[row[0] for row in USES]
)
def test_an_operation_of_the_users(function, expected):
    np.testing.assert_allclose(function(X), expected, rtol=1e-6)


def test_an_operation_of_the_users_prints():
    text = str(mx.make_graph(square)(X))
    assert "ROOT %square-plus-one.2 = f32[3] square-plus-one(%arg0.1)" in text
    assert "test_operation.py" in text


NAMES = [
    ("BatchNormGrad", "batch_norm_grad", "batch-norm-grad"),
    ("FFTLong", "fft_long", "fft-long"),
    ("RngUniform", "rng_uniform", "rng-uniform"),
    ("Add", "add", "add"),
    ("Op2D", "op2_d", "op2-d"),
]


@pytest.mark.parametrize(("name", "builder_name", "hlo_name"), NAMES)
def test_names_follow_from_the_class(name, builder_name, hlo_name):
    made = type(name, (Operation,), {})
    assert (made.builder_name, made.hlo_name) == (builder_name, hlo_name)
    assert made.spec_names == (made.name,) == (f"tests.{name}",)


class Window(Operation):
    """Has attributes of several kinds."""

    operands = "operand", "others..."
    sizes: tuple[int, ...] = attribute(Integers(minimum=1))
    count: int = attribute(Integer(), default=1)
    scale: float = attribute(Float(), default=0.0)
    tag: Any = attribute(Attribute(), default=None)
    inferences = 0

    def shape(self, operand, *others):
        type(self).inferences += 1
        return operand


WRONG_ATTRIBUTES = [
    ({}, "window: attribute sizes is missing.", "Pass sizes: a sequence, each element an integer."),
    ({"size": 1}, "window: unknown attribute 'size'.", "sizes, count, scale, tag."),
    ({"sizes": 1}, "attribute sizes has an invalid value", "must be a sequence, not 1"),
    ({"sizes": [0]}, "sizes = [0]", "must be >= 1, not 0"),
    ({"sizes": [1], "count": 1.5}, "count = 1.5", "count must be an integer."),
    ({"sizes": [1], "count": "x" * 5000}, "count = 'xxx", "count must be an integer."),
]


@pytest.mark.parametrize(("attributes", "problem", "advice"), WRONG_ATTRIBUTES)
def test_wrong_attributes(attributes, problem, advice):
    with pytest.raises(AttributeValueError) as caught:
        mx.make_graph(lambda x: Window(**attributes)(x))(X)
    for phrase in (problem, advice, "called at", "test_operation.py", "<lambda>"):
        assert phrase in str(caught.value)


class Two(Operation):
    """Takes two operands.

    Checks:
        (C1) lhs is
            small.
        (C2) rhs is, too.
    """

    operands = "lhs", "rhs"

    def shape(self, lhs, rhs):
        return lhs


class TwoOfAnyKind(Two):
    """Takes tuples and tokens, too."""

    only_arrays = False


WRONG_OPERANDS = [
    (Two(), [], "two: got 0 operands.", "It takes lhs, rhs."),
    (Two(), [X], "two: got 1 operands.", "operand 0: f32[3]"),
    (Two(), [X, X, X], "two: got 3 operands.", "operand 2: f32[3]"),
    (Window([1]), [], "window: got 0 operands.", "It takes operand, others..."),
    (Two(), [X, "text"], "argument operands[1] of type str is not an array", "'text'"),
    (Two(), [X, None], "argument operands[1] of type NoneType is not an array", "None"),
]


@pytest.mark.parametrize(("operation", "operands", "problem", "given"), WRONG_OPERANDS)
def test_wrong_operands(operation, operands, problem, given):
    with pytest.raises(ShapeError) as caught:
        mx.make_graph(lambda: operation(*operands))()
    for phrase in (problem, given, "called at", "test_operation.py"):
        assert phrase in str(caught.value)


@pytest.mark.parametrize("shape", [TOKEN, TupleShape([VECTOR])], ids=str)
def test_an_operand_that_is_no_array(shape):
    with pytest.raises(ShapeError) as caught:
        Two().infer((VECTOR, shape))
    for phrase in ("two: operand rhs must be an array", f"rhs {shape}", "get_tuple_element"):
        assert phrase in str(caught.value)
    assert TwoOfAnyKind().infer((shape, VECTOR)) is shape


def test_operand_labels():
    assert Two().operand_labels(2) == ["lhs", "rhs"]
    assert Window([1]).operand_labels(3) == ["operand", "others[0]", "others[1]"]
    assert Window([1]).operand_labels(1) == ["operand"]


def test_rejections_carry_their_label():
    with pytest.raises(ShapeError) as caught:
        Window((1, 2)).refuse("C7", "the sizes differ", "Make them equal.")
    assert str(caught.value).startswith("window: (C7) the sizes differ.\n  sizes (1, 2)\n")
    assert str(caught.value).endswith("\n  Make them equal.")
    with pytest.raises(AttributeValueError, match=r"two: \(C8\) too large"):
        Two().refuse_attribute("C8", "too large")


def test_rejections_without_advice_end_with_the_check():
    for operation in (Two(), TwoOfAnyKind()):  # which has its base class's
        with pytest.raises(ShapeError, match=r"\(C1\) too large[\s\S]*\n  Rule: lhs is small\.\n"):
            operation.refuse("C1", "too large")
        with pytest.raises(ShapeError, match=r"\n  Rule: rhs is, too\.\n"):
            operation.refuse("C2", "too large")


def test_inference_is_done_once():
    Window.inferences = 0
    for sizes in ((1, 2), [1, 2], np.array([1, 2]), (np.int8(1), 2)):
        window = Window(sizes)
        assert window.infer((VECTOR,)) is VECTOR
        assert window.values == {"sizes": (1, 2), "count": 1, "scale": 0.0, "tag": None}
        assert list(map(type, window.sizes)) == [int, int]
    assert Window.inferences == 1


DISTINCT = [
    ("scale", 0.0, -0.0),
    ("tag", 1, True),
    ("tag", 1, 1.0),
    ("tag", (0, 1), (False, 1)),
    ("tag", 0.0, -0.0),
]


@pytest.mark.parametrize(("name", "first", "second"), DISTINCT)
def test_equal_attributes_that_differ_are_not_mixed_up(name, first, second):
    for value in (first, second, first):
        assert repr(Window((1,), **{name: value}).values[name]) == repr(value)


class Tagged(Unary):
    """Its attribute in every element."""

    tag: float = attribute(Float())

    def shape(self, operand):
        return operand

    def reference(self, operand):
        return np.full_like(operand, self.tag)

    def stablehlo(self, emit, operands, shapes, results):
        return [emit.constant(mx.core.Literal.splat(self.tag, shapes[0]))]


def test_the_engine_does_not_mix_up_attributes_either():
    for value in (0.0, -0.0, 0.0):
        assert np.signbit(Tagged(value)(X)).all() == np.signbit(value)


def test_the_cache_of_inferences_is_bounded(monkeypatch):
    monkeypatch.setattr(operation_module, "_MOST_INFERRED", 10)
    window = Window((1,))
    for size in range(35):
        window.infer((Shape("f32", (size,)),))
    assert len(window._inferred) <= 10
    assert window.infer((VECTOR,)) is VECTOR


def test_equal_programs_keep_their_names_and_lines():
    def traced(name):
        return trace_to_graph(lambda x: [ops.neg(x)], [VECTOR], name)[0]

    one, other = traced("one"), traced("other")
    assert one == other
    call: Any = operation_named("Call")
    for graph in (one, other, one):
        operation = call(graph)
        assert operation.infer((VECTOR,)) == (VECTOR,)
        assert operation.computation is graph


class Applied(Operation):
    """Has a program before its other attributes."""

    program: Graph = attribute(Instance(Graph), hlo="to_apply")
    size: int = attribute(Integer(), stablehlo=None)
    is_sorted: bool = attribute(Flag(), default=False)


def test_a_program_gives_the_record_that_has_it():
    one, other = (trace_to_graph(lambda x: [ops.neg(x)], [VECTOR])[0] for _ in range(2))
    assert one == other
    assert Applied(one, 3) is Applied(one, 3) is Applied(size=3, program=one)
    assert Applied(one, 3) is not Applied(other, 3)
    assert Applied(other, 3).program is other
    record = weakref.ref(Applied(one, 3))
    gc.collect()
    assert record() is None, "it is kept where nothing uses it"


def test_hlo_names_programs_last_and_flags_where_they_are_set():
    graph = trace_to_graph(lambda x: [ops.neg(x)], [VECTOR])[0]
    assert [*Applied(graph, 3, True).hlo_attributes(()).items()] == [
        ("size", 3),
        ("is_sorted", True),
        ("to_apply", graph),
    ]
    assert Applied(graph, 3).hlo_attributes(())["is_sorted"] is None


def test_errors_are_not_cached():
    for _ in range(2):
        with pytest.raises(AttributeValueError):
            Window((0,))


class Bare(Operation):
    """Says only its shape."""

    operands = ("operand",)

    def shape(self, operand):
        return operand


class BareWithReference(Bare):
    """Says what it is, but not how it is differentiated."""

    def reference(self, operand):
        return operand


MISSING = [
    ("shape", lambda: Operation().shape(), TransformError),
    ("reference", lambda: mx.reference(Bare())(X), TransformError),
    ("stablehlo", lambda: mx.make_graph(Bare())(X).stablehlo(), TransformError),
    (
        "jvp",
        lambda: mx.reference(mx.grad(BareWithReference()))(1.0),
        DerivativeError,
    ),
    (
        "jvp",
        lambda: mx.reference(lambda x: mx.jvp(BareWithReference(), (x,), (x,)))(X),
        DerivativeError,
    ),
    ("transpose", lambda: Operation().transpose(None, [], []), DerivativeError),
]


@pytest.mark.parametrize(("rule", "call", "error"), MISSING)
def test_a_missing_rule_is_named(rule, call, error):
    with pytest.raises(error) as caught:
        call()
    for phrase in (f"the operation has no {rule} rule", f"the rule {rule}", "called at"):
        assert phrase in str(caught.value)


def test_no_batch_rule_is_needed():
    found = mx.reference(mx.vmap(BareWithReference()))(X)
    np.testing.assert_array_equal(found, X)


def test_linearity():
    add, mul, tanh = (REGISTRY[name]() for name in ("Add", "Mul", "Tanh"))
    assert add.is_linear_in([True, True])
    assert mul.is_linear_in([True, False])
    assert not mul.is_linear_in([True, True])
    assert not tanh.is_linear_in([True])
