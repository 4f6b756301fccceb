"""Computations: tracing them once, and recognising what they are."""

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.errors import ShapeError, TransformError
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
from minixla_ops.programs.computations import (
    apply_computation,
    computation_of,
    identity_of,
    is_identity,
    monoid_of,
    padding_element,
    short_form,
)
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import graph_of
from tests.oracles.compare import assert_same

F32 = Shape("f32")


def traced(function, kind="f32"):
    return computation_of(function, (Shape(kind), Shape(kind)), "test")


def test_builders_are_traced_once():
    assert traced(ops.add) is traced(ops.add)
    assert traced(ops.add) is not traced(ops.add, "f64")
    assert traced(ops.add).instructions[0].source is None


def test_functions_of_users_are_traced_each_time():
    scale = 1.0

    def scaled(x, y):
        return x + scale * y

    first = traced(scaled)
    scale = 2.0
    assert traced(scaled) != first


def test_graphs_are_taken_as_they_are():
    graph = traced(ops.mul)
    assert computation_of(graph, (), "test") is graph


def test_what_is_no_computation_is_rejected():
    with pytest.raises(ShapeError, match="reduce: the computation is of type str"):
        computation_of("add", (F32, F32), "reduce")


def test_computations_are_closed():
    def outer(x):
        return ops.reduce(x, 0.0, lambda a, b: a + b * ops.reduce(x, 0.0, ops.add, [0]), [0])

    with pytest.raises(TransformError, match="reduce: its computation reads a traced value"):
        mx.make_graph(outer)(np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("function", "kind", "monoid"),
    [
        (ops.add, "f32", "add"),
        (ops.mul, "s8", "mul"),
        (ops.max, "bf16", "max"),
        (ops.min, "u4", "min"),
        (ops.and_, "s32", "and"),
        (ops.or_, "u8", "or"),
        (ops.xor, "pred", "xor"),
        (ops.add, "pred", "or"),
        (ops.mul, "pred", "and"),
        (ops.max, "pred", "or"),
        (ops.min, "pred", "and"),
        (lambda x, y: y + x, "f32", "add"),
        (lambda x, y: (x * 2, x + y)[1], "f32", "add"),
        (ops.sub, "f32", None),
        (lambda x, y: x + x, "f32", None),
        (lambda x, y: x + y + y, "f32", None),
        (lambda x, y: x, "f32", None),
        (ops.max, "c64", None),
    ],
)
def test_monoids_are_recognised(function, kind, monoid):
    assert monoid_of(traced(function, kind)) == monoid


def test_a_computation_of_two_results_is_no_monoid():
    graph, _ = trace_to_graph(lambda x, y: [x + y, x + y], [F32, F32])
    assert monoid_of(graph) is None


def test_short_form_names_the_operation():
    assert short_form(traced(ops.max)) == "stablehlo.maximum"
    assert short_form(traced(lambda x, y: y + x)) is None  # the text keeps the order of operands
    assert short_form(traced(ops.sub)) is None


MONOIDS = {"add": ops.add, "mul": ops.mul, "max": ops.max, "min": ops.min}


@pytest.mark.parametrize("name", [*ELEMENT_TYPES])
def test_identities(name):
    kind = ELEMENT_TYPES[name]
    values = [1, 0] if kind.kind == "pred" else [1, 2, 3] if kind.bits > 2 else [1, 0]
    elements = np.array(values).astype(kind.dtype)
    functions = dict(MONOIDS)
    if kind.is_integer or kind.kind == "pred":
        functions |= {"and": ops.and_, "or": ops.or_, "xor": ops.xor}
    for function in functions.values():
        monoid = monoid_of(traced(function, name))
        if monoid is not None and not (name == "f8e8m0fnu" and monoid == "add"):  # it has no zero
            neutral = np.broadcast_to(identity_of(monoid, kind.dtype), elements.shape)
            assert neutral.dtype == kind.dtype
            (result,) = reference_graph(
                graph_of(function, [neutral, elements]), [neutral, elements]
            )
            assert np.array_equal(result, elements), (monoid, name)


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_padding_leaves_zeros_of_both_signs_as_they_are(name):
    kind = ELEMENT_TYPES[name]
    zeros = np.array([0.0, -0.0 if kind.is_float or kind.is_complex else 0]).astype(kind.dtype)
    for function in (ops.add, ops.mul, ops.max, ops.min):
        padding = padding_element(traced(function, name), kind)
        if padding is None:  # of f8e8m0fnu, which has no zero, or a maximum of complex numbers
            assert (name == "f8e8m0fnu" and function is ops.add) or kind.is_complex
            continue
        operands = [zeros, np.broadcast_to(padding, zeros.shape)]
        (result,) = reference_graph(graph_of(function, operands), operands)
        assert_same(result, zeros)


def test_extremes_are_infinite_where_there_are_infinities():
    assert identity_of("max", np.dtype(np.float32)) == -np.inf
    assert identity_of("min", np.dtype(ml_dtypes.bfloat16)) == np.inf
    assert identity_of("max", np.dtype(ml_dtypes.float8_e4m3fn)) == -448
    assert identity_of("max", np.dtype(np.int8)) == -128


def test_identities_are_known_while_a_program_is_traced():
    known = []

    def function(x, y):
        known.append(is_identity("add", ops.constant(np.float32(0))))
        known.append(is_identity("add", np.float32(0)))
        known.append(is_identity("max", ops.constant(np.float32(0))))
        known.append(is_identity("add", y))
        return [x]

    trace_to_graph(function, [F32, F32])
    assert known == [True, True, False, False]


def test_computations_apply_to_whole_values():
    graph, _ = trace_to_graph(lambda x, y: [x * y + 1.0, ops.constant(np.float32(7))], [F32, F32])
    shape = Shape("f32", (2, 3))
    whole, _ = trace_to_graph(lambda x, y: apply_computation(graph, [x, y]), [shape, shape])
    x, y = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    product, seven = reference_graph(whole, [x, y])
    assert np.array_equal(product, x * y + 1)
    assert np.array_equal(seven, np.full((2, 3), 7, np.float32))
