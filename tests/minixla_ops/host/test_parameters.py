"""Parameter: inputs of the program that is being traced, by number."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
from minixla import AttributeValueError, Shape, ShapeError, TransformError, ops
from tests.harness import check_rejected

F32 = Shape("f32")


def square():
    x = ops.parameter(0, Shape("f32", (4, 16)), "x")
    return ops.mul(x, ops.parameter(0, Shape("f32", (4, 16))))


def test_usage_seen_in_examples():
    def program():
        x = ops.parameter(0, Shape("f32", (4, 16)), "x")
        y = ops.parameter(1, F32, "y")
        return ops.add(x, y)

    graph = mx.make_graph(program)()
    assert graph.input_shapes == (Shape("f32", (4, 16)), F32)
    assert "f32[4,16] parameter(0)" in str(graph)
    assert "%arg0: tensor<4x16xf32>, %arg1: tensor<f32>" in graph.stablehlo()


def test_the_same_number_is_the_same_input():
    graph = mx.make_graph(square)()
    assert len(graph.inputs) == 1
    assert graph.instructions[0].operands == (graph.inputs[0], graph.inputs[0])


def test_arguments_are_inputs():
    @mx.jit
    def double(x):
        return ops.add(x, ops.parameter(0, Shape("f32", (3,))))

    np.testing.assert_array_equal(double(np.ones(3, "f4")), 2 * np.ones(3, "f4"))


def test_a_computation_written_for_the_builder():
    def minus(*_):
        return ops.sub(ops.parameter(0, F32, "x"), ops.parameter(1, F32, "y"))

    (result,) = mx.reference(lambda a, b: ops.call(minus, a, b))(np.float32(5), np.float32(3))
    assert result == 2


def test_checks():
    x = np.ones(3, "f4")
    check_rejected(
        lambda x: ops.parameter(0, Shape("f32", (4,))),
        [x],
        ShapeError,
        "(C1)",
        "input 0 has shape f32[3]",
    )
    check_rejected(
        lambda x: ops.parameter(1, Shape("f32", (3,))),
        [x],
        AttributeValueError,
        "(C2) input 1 does not exist",
        "inputs (f32[3])",
    )
    with pytest.raises(AttributeValueError, match=r"\(C2\) input 1 does not exist"):
        mx.make_graph(lambda: ops.parameter(1, F32))()
    with pytest.raises(AttributeValueError, match=r"must be >= 0, not -1"):
        mx.make_graph(lambda: ops.parameter(-1, F32))()


@pytest.mark.parametrize("transform", [mx.grad, mx.reference, lambda f: f], ids=["grad", "", "no"])
def test_where_no_program_is_traced(transform):
    with pytest.raises(TransformError, match="parameter: no program is being traced"):
        transform(lambda x: ops.parameter(0, F32))(np.float32(1))
