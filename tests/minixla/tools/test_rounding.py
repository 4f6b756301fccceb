"""What rounding explains: units in the last place, the spread of a program, comparisons."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.operation import REGISTRY
from minixla.tools.comparison import absolute_error, compared, relative_error, ulp_size
from minixla.tools.graph_parts import alone_at, composition_of, inlined, showing
from minixla.tools.rounding import Measured, in_double
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.minixla.tools.planting import random_arrays
from tests.oracles.values import FLOATS, all_values

random = random_arrays()

NARROW = [row for row in FLOATS if row[1].itemsize <= 2 and row[0] != "f8E8M0FNU"]


@pytest.mark.parametrize(("name", "dtype"), NARROW)
def test_a_unit_in_the_last_place_is_the_way_to_the_next_number(name, dtype):
    with np.errstate(all="ignore"):
        numbers = np.unique(np.abs(all_values(dtype).astype("f8")))
    numbers = numbers[np.isfinite(numbers)]
    np.testing.assert_array_equal(ulp_size(numbers[:-1], dtype), np.diff(numbers))
    np.testing.assert_array_equal(ulp_size(-numbers[:-1], dtype), np.diff(numbers))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_unit_in_the_last_place_of_wide_types(dtype):
    numbers = np.abs(random(100, dtype=dtype)) * np.logspace(-30, 30, 100).astype(dtype)
    above = np.nextafter(numbers, np.array(np.inf, dtype)).astype("f8")
    np.testing.assert_array_equal(ulp_size(numbers.astype("f8"), dtype), above - numbers)
    assert ulp_size(np.array(3 + 4j), f"c{2 * np.dtype(dtype).itemsize}") == np.spacing(
        np.array(5, dtype)
    )


# (a value, the truth in double, the error)
ERRORS = {
    "equal": (1.0, 1.0, 0),
    "apart": (1.0, 1.5, 0.5),
    "both NaN": (np.nan, np.nan, 0),
    "NaN alone": (np.nan, 1.0, np.inf),
    "NaN missed": (1.0, np.nan, np.inf),
    "the same infinity": (np.inf, np.inf, 0),
    "overflow": (np.inf, 1e39, 0),
    "the other infinity": (-np.inf, np.inf, np.inf),
    "no overflow": (3e38, 1e39, np.inf),
    "complex": (3 + 4j, 0j, 5),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    value, truth, error = ERRORS[name]
    kind = "c8" if isinstance(value, complex) else "f4"
    found = absolute_error(np.array(value, kind), np.array(truth))
    np.testing.assert_allclose(found, error, rtol=1e-7)


def test_comparisons():
    truth = np.array([1.0, 100.0, 0.0])
    found = compared(np.array([1.0, 101.0, 0.0], "f4"), truth, np.array([0.1, 0.1, 0.1]))
    assert (found.error, found.relative, found.worst) == (1, 0.01, (1,))
    assert found.excess == pytest.approx(10)
    whole = compared(np.array([[1, 5]]), np.array([[1, 2]]))
    assert (whole.ulp, whole.excess, whole.worst) == (3, np.inf, (0, 1))
    assert compared(np.array([True]), np.array([True])).excess == 0
    assert compared(np.zeros(2, "f4"), np.zeros(3), np.ones(3)).excess == np.inf
    assert relative_error(np.array([1.0]), np.array([0.0])) == np.inf


def measured(function, *operands):
    graph = inlined(mx.make_graph(function)(*operands)).pruned()
    found = Measured(graph, list(operands))
    return found, graph.outputs[0]


MOVES = {
    "maximum": lambda x: mnp.maximum(x, 0),
    "equality of a maximum": lambda x: mnp.where(x == x.max(), x, 0),
    "order": lambda x: x[::-1],
    "negation": lambda x: -abs(x),
}


@pytest.mark.parametrize("wide", [False, True], ids=["f32", "f64"])
@pytest.mark.parametrize("name", MOVES)
def test_what_does_not_round_is_not_disturbed(name, wide):
    with jax.enable_x64(wide):
        found, output = measured(MOVES[name], random(7, dtype="f8" if wide else "f4"))
        assert not found.spread[output].any()


SPREADS = {
    "a function": (lambda x: mnp.exp(x), 1, 8),
    "a difference": (lambda x: (mnp.exp(x) + 1e4) - 1e4, 50, 1e5),
    "a sum": (lambda x: x.sum(), 1, 1e3),
}


@pytest.mark.parametrize("wide", [False, True], ids=["f32", "f64"])
@pytest.mark.parametrize("name", SPREADS)
def test_the_spread_is_what_rounding_does(name, wide):
    function, least, most = SPREADS[name]
    dtype = "f8" if wide else "f4"
    with jax.enable_x64(wide):
        found, output = measured(function, np.linspace(0.1, 0.9, 40).astype(dtype))
    ulp = ulp_size(found.truth[output], dtype)
    largest = float((found.spread[output] / ulp).max())
    assert least / 8 <= largest <= most, largest


@pytest.mark.parametrize("dtype", ["f4", "f2", ml_dtypes.bfloat16])
def test_the_reference_is_within_its_bound(dtype):
    def program(x):
        return mx.nn.softmax(mnp.tanh(x) @ mnp.sin(x))

    found, output = measured(program, random(6, 6).astype(dtype))
    result = found.reference[output]
    comparison = found.compared(output, result)
    assert 0 < comparison.excess < 1


def test_programs_in_double():
    graph = mx.make_graph(lambda x: mx.fori_loop(0, 3, lambda i, y: mnp.sin(y), x))(random(3))
    x = np.array([0.1, 0.2, 0.3], "f4")
    (result,) = in_double(graph, [x])
    assert result.dtype == np.float64
    wide = x.astype("f8")
    np.testing.assert_array_equal(result, np.sin(np.sin(np.sin(wide))))


def test_calls_are_unfolded():
    def nested(x, depth):
        return mx.jit(lambda y: nested(y, depth - 1) + 1)(x) if depth else mnp.sin(x)

    graph = mx.make_graph(lambda x: nested(x, 40))(random(2))
    flat = inlined(graph)
    assert [step.op.name for step in flat.instructions if step.op.computations] == []
    assert flat.output_shapes == graph.output_shapes
    x = random(2)
    np.testing.assert_array_equal(reference_graph(flat, [x]), reference_graph(graph, [x]))


def test_a_program_that_is_called_twice_is_unfolded_twice():
    twice = mx.jit(lambda x, y: (x * 2 + y, x))
    graph = mx.make_graph(lambda x: twice(*twice(*twice(x, x + 1))))(random(2))
    called = [each for step in graph.instructions for each in step.op.computations]
    assert len(called) == 3 and all(each is called[0] for each in called)
    x = random(2)
    np.testing.assert_array_equal(reference_graph(inlined(graph), [x]), reference_graph(graph, [x]))


def test_fusions_are_unfolded():
    inner = mx.make_graph(lambda x: mnp.sin(x) * 2)(random(2))
    fusion = REGISTRY["Fusion"]
    graph = mx.make_graph(fusion(computation=inner, kind="kLoop"))(random(2))
    assert [step.op.name for step in inlined(graph).instructions] == [
        step.op.name for step in inner.instructions
    ]


def test_an_instruction_alone():
    graph = mx.make_graph(lambda x: x.sum(axis=0) * 2)(random(3, 2))
    step = next(each for each in graph.instructions if each.op.name == "Reduce")
    x = random(3, 2)
    program = alone_at(step, [x, np.float32(0)])
    assert program is not None
    single, inputs = program
    assert inputs == [x] and single.input_shapes == (mx.Shape("f32", (3, 2)),)
    assert [each.op.name for each in single.instructions] == ["Constant", "Reduce"]
    np.testing.assert_allclose(reference_graph(single, [x])[0], x.sum(axis=0), rtol=1e-6)


def test_what_a_composed_operation_stands_for():
    graph = mx.make_graph(lambda x: ops.top_k(x, 2))(random(5))
    composition = composition_of(graph.instructions[0])
    x = random(5)
    for one, other in zip(
        reference_graph(composition, [x]), reference_graph(graph, [x]), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert len(showing(graph, graph.outputs[:1]).outputs) == 1
