"""The NumPy trace: lifting, declared types, checks of reference rules, programs in double."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.attributes import Attribute, Instance, Sequence, attribute
from minixla.core.element_types import ELEMENT_TYPES, element_type
from minixla.core.errors import AttributeValueError, LeakedTracerError, ShapeError
from minixla.core.graph import Graph
from minixla.core.operation import Operation
from minixla.core.shapes import TOKEN, Shape, TupleShape, TupleValue
from minixla.core.tracing import current_trace, trace_to_graph
from minixla.reference_evaluator.trace import ReferenceTrace, ReferenceTracer, wide_type, widened
from minixla_ops.programs.reference_evaluation import reference_graph

X = np.array([0.3, -1.2, 0.7], np.float32)


@pytest.fixture
def trace():
    return ReferenceTrace(current_trace())


@pytest.fixture
def wide():
    return ReferenceTrace(current_trace(), "float64")


LIFTED = [
    (1.5, "f32[]", True),
    (3, "s32[]", True),
    (True, "pred[]", False),
    (1j, "c64[]", True),
    (np.float64(1), "f32[]", False),
    (np.arange(3), "s32[3]", False),
    (np.zeros((2, 0), ml_dtypes.bfloat16), "bf16[2,0]", False),
    (jnp.float32(1), "f32[]", False),
    (jnp.asarray(1.0), "f32[]", True),
]


@pytest.mark.parametrize(("value", "shape", "weak"), LIFTED, ids=str)
def test_lifting(trace, wide, value, shape, weak):
    tracer = trace.lift(value)
    assert isinstance(tracer, ReferenceTracer)
    assert (str(tracer._shape), tracer.weak_type) == (shape, weak)
    assert tracer.data.dtype == tracer.dtype
    np.testing.assert_array_equal(tracer.data, np.asarray(value))
    assert trace.lift(tracer) is tracer
    doubled = wide.lift(value)
    assert doubled._shape is tracer._shape
    assert doubled.data.dtype == wide_type(element_type(tracer.dtype)).dtype


def test_lifting_tuples(trace):
    lifted = trace.lift(TupleValue([1.0, TupleValue([X])]))
    assert isinstance(lifted, TupleValue)
    assert isinstance(lifted.elements[1].elements[0], ReferenceTracer)


def test_what_cannot_be_lifted(trace):
    for value in ("text", None, [1.0], np.array(["a"])):
        with pytest.raises(ShapeError, match=r"^here: argument value"):
            trace.lift(value, "here")
    with pytest.raises(
        AttributeValueError,
        match=r"^here: argument value, a Python int, does not fit s32.\n  4294967296",
    ):
        trace.lift(2**32, "here")
    with pytest.raises(LeakedTracerError):
        mx.make_graph(lambda x: trace.lift(x))(X)


def test_integers_that_fit_in_64_bit_mode(trace):
    with jax.enable_x64(True):
        assert trace.lift(2**32).data.dtype == np.int64


class Lying(Operation):
    """Its reference rule gives something else than its shape rule says."""

    operands = ("operand",)
    result: tuple[str, tuple[int, ...]] = attribute(Attribute())

    def shape(self, operand):
        return operand

    def reference(self, operand):
        return np.zeros(self.result[1], self.result[0])


@pytest.mark.parametrize(
    ("result", "found"),
    [(("f8", (3,)), "float64[3]"), (("f4", (2,)), "float32[2]"), (("f4", (3, 1)), "float32[3, 1]")],
)
def test_reference_rules_are_checked(result, found):
    with pytest.raises(AssertionError) as caught:
        mx.reference(Lying(result))(X)
    assert f"the reference rule of tests.Lying returned {found}" in str(caught.value)
    assert "the shape rule f32[3]" in str(caught.value)


def test_wide_types():
    for name, declared in ELEMENT_TYPES.items():
        expected = {"float": "f64", "complex": "c128"}.get(declared.kind, name)
        assert wide_type(declared).name == expected


def test_wide_attributes():
    f32, s8 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["s8"]
    assert widened(f32) is ELEMENT_TYPES["f64"]
    assert widened((f32, (s8, "text", 3))) == (ELEMENT_TYPES["f64"], (s8, "text", 3))
    assert widened("text") == "text"


class Runs(Operation):
    """Runs its first program, and holds others."""

    operands = ("operand",)
    first: Graph = attribute(Instance(Graph))
    others: tuple[Graph, ...] = attribute(Sequence(Instance(Graph)), default=())

    def shape(self, operand):
        return self.first.output_shapes

    def reference(self, operand):
        return tuple(reference_graph(self.first, [operand]))


def program(function, *shapes):
    return trace_to_graph(function, shapes)[0]


VECTOR = Shape("f32", (3,))


def test_wide_programs():
    inner = program(lambda x: [ops.convert_element_type(x, np.float16)], VECTOR)
    graph = program(
        lambda x, n: [
            *Runs(inner, (inner,))(x),
            ops.add(x, np.float32(0.1)),
            ops.add(x, X),
            ops.iota(VECTOR, 0),
            n,
        ],
        VECTOR,
        Shape("s8"),
    )
    wide = widened(graph)
    assert widened(graph) is wide
    assert [str(shape) for shape in wide.input_shapes] == ["f64[3]", "s8[]"]
    assert [str(s) for s in wide.output_shapes] == ["f64[3]"] * 4 + ["s8[]"]
    assert [step.source for step in wide.instructions] == [
        step.source for step in graph.instructions
    ]
    third = np.full(3, 1 / 3)
    first, second, *_ = reference_graph(wide, [third, np.int8(1)])
    np.testing.assert_array_equal(first, third)
    np.testing.assert_array_equal(second, third + np.float64(np.float32(0.1)))


def test_what_reads_bits_does_so_in_its_own_types():
    bits = np.array([0x3F800001, 0x40000000], np.uint32)
    graph = program(
        lambda u: [
            ops.bitcast_convert_type(u, "f32"),
            ops.bitcast_convert_type(ops.bitcast_convert_type(u, "f32") * np.float32(1), "u32"),
        ],
        Shape("u32", (2,)),
    )
    wide = widened(graph)
    assert [str(shape) for shape in wide.output_shapes] == ["f64[2]", "u32[2]"]
    number, again = reference_graph(wide, [bits])
    assert number.dtype == np.float64
    np.testing.assert_array_equal(number, bits.view(np.float32))
    np.testing.assert_array_equal(again, bits)


def test_wide_tuples():
    shape = TupleShape([VECTOR, TOKEN, TupleShape([Shape("s8"), Shape("c64")])])
    graph = program(lambda t: [ops.get_tuple_element(t, 0), t], shape)
    assert str(widened(graph).output_shapes[1]) == "(f64[3], token[], (s8[], c128[]))"
    assert str(widened(graph).output_shapes[0]) == "f64[3]"


def test_a_repeated_constant_stays_one():
    graph = program(lambda: [np.broadcast_to(np.float32(0.1), (10_000, 10_000))])
    (found,) = reference_graph(widened(graph), [])
    assert found.dtype == np.float64
    assert found.strides == (0, 0)


def test_more_dimensions_than_numpy_has_are_refused():
    x = np.ones((1,) * 64, np.float32)
    with pytest.raises(mx.ShapeError) as caught:
        mx.reference(lambda x: ops.broadcast(x, (1,)))(x)
    message = str(caught.value)
    assert message.startswith("broadcast: NumPy supports at most 64 dimensions")
    assert "with mx.jit" in message
