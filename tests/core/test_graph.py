"""Graphs: structural equality and hash, side effects, pruning, hoisting of constants."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.attributes import Attribute, Float, Function, Instance, Sequence, attribute
from minixla.core.graph import Graph, hoist_constants
from minixla.core.operation import Operation
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
from minixla_ops.programs.reference_evaluation import reference_graph

VECTOR = Shape("f32", (3,))
X = np.arange(3, dtype=np.float32)


class Identity(Operation):
    """Its operand; the attributes are there to be compared."""

    operands = ("operand",)
    scale: float = attribute(Float(), default=0.0)
    tag: Any = attribute(Attribute(), default=None)

    def shape(self, operand):
        return operand

    def reference(self, operand):
        return operand


class Effect(Operation):
    """An operation that must not be dropped."""

    operands = ("operand",)
    has_side_effect = True

    def shape(self, operand):
        return operand


class Applies(Identity):
    """Holds a function."""

    function: Any = attribute(Function(), default=None)


class Runs(Operation):
    """Holds programs, one or in a tuple."""

    operands = ("operand",)
    computation: Graph = attribute(Instance(Graph))
    branches: tuple[Graph, ...] = attribute(Sequence(Instance(Graph)), default=())

    def shape(self, operand):
        return self.computation.output_shapes


def graph_of(function, *shapes):
    return trace_to_graph(function, shapes or [VECTOR])[0]


def constant_graph(value):
    return graph_of(lambda x: [ops.add(x, value)])


def f(x):
    return [ops.mul(ops.tanh(x), x)]


EQUAL = [
    (graph_of(f), graph_of(f)),
    (graph_of(f), trace_to_graph(f, [VECTOR], "another name")[0]),
    (graph_of(lambda x: [x, x]), graph_of(lambda x: [x, x])),
    (constant_graph(np.full(3, np.nan, "f4")), constant_graph(np.full(3, np.nan, "f4"))),
    (constant_graph(np.full(3, 2, "f4")), constant_graph(np.broadcast_to(np.float32(2), 3))),
    (constant_graph(X), constant_graph(jnp.asarray(X))),
    (graph_of(lambda x: ops.call(f, x)), graph_of(lambda x: ops.call(f, x))),
    (
        graph_of(lambda x: [Identity(float("nan"))(x)]),
        graph_of(lambda x: [Identity(np.float32("nan"))(x)]),
    ),
]
DIFFERENT = [
    ("operation", graph_of(lambda x: [ops.tanh(x)]), graph_of(lambda x: [ops.exp(x)])),
    ("input shape", graph_of(f), graph_of(f, Shape("f32", (4,)))),
    ("input type", graph_of(f), graph_of(f, Shape("f16", (3,)))),
    ("number of inputs", graph_of(f), graph_of(lambda x, y: f(x), VECTOR, VECTOR)),
    ("number of outputs", graph_of(lambda x: [x]), graph_of(lambda x: [x, x])),
    (
        "which input",
        graph_of(lambda x, y: [x], VECTOR, VECTOR),
        graph_of(lambda x, y: [y], VECTOR, VECTOR),
    ),
    (
        "order of operands",
        graph_of(lambda x, y: [ops.sub(x, y)], VECTOR, VECTOR),
        graph_of(lambda x, y: [ops.sub(y, x)], VECTOR, VECTOR),
    ),
    (
        "data flow",
        graph_of(lambda x: [ops.mul(ops.tanh(x), ops.tanh(x))]),
        graph_of(lambda x: (lambda y: [ops.tanh(x), ops.mul(y, y)][1:])(ops.tanh(x))),
    ),
    ("constant", constant_graph(X), constant_graph(X + 1)),
    (
        "sign of zero",
        constant_graph(np.zeros(3, "f4")),
        constant_graph(np.full(3, -0.0, "f4")),
    ),
    (
        "computation",
        graph_of(lambda x: ops.call(f, x)),
        graph_of(lambda x: ops.call(lambda y: [ops.tanh(y)], x)),
    ),
    *[
        (
            f"attributes {one!r} and {other!r}",
            graph_of(lambda x, one=one: [Identity(**one)(x)]),
            graph_of(lambda x, other=other: [Identity(**other)(x)]),
        )
        for one, other in [
            ({"scale": 1.0}, {"scale": 2.0}),
            ({"scale": 0.0}, {"scale": -0.0}),
            ({"tag": 1}, {"tag": 1.0}),
            ({"tag": 1}, {"tag": True}),
            ({"tag": (1, 0)}, {"tag": (1, False)}),
        ]
    ],
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_programs(one, other):
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other}) == 1


@pytest.mark.parametrize(
    ("one", "other"), [row[1:] for row in DIFFERENT], ids=[row[0] for row in DIFFERENT]
)
def test_different_programs(one, other):
    assert one != other
    assert other != one


@dataclasses.dataclass
class Unhashable:
    """A function that is equal to others, and has no hash."""

    number: int

    def __call__(self):
        return self.number


def test_functions_without_a_hash_are_compared_too():
    one, same, other = [
        graph_of(lambda x, number=number: [Applies(function=Unhashable(number))(x)])
        for number in (1, 1, 2)
    ]
    assert one == same != other


def test_a_graph_is_no_other_object():
    assert graph_of(f) != "graph"


def test_source_lines_do_not_count():
    first = graph_of(lambda x: [ops.tanh(x)])
    second = graph_of(lambda x: [ops.tanh(x)])
    assert first.instructions[0].source != second.instructions[0].source
    assert first == second


def doubling(depth):
    """A program whose computations each call the one before twice."""
    graph = graph_of(f)
    for _ in range(depth):
        inner = graph
        graph = graph_of(lambda x, inner=inner: ops.call(inner, *ops.call(inner, x)))
    return graph


def test_shared_computations_compare_in_linear_time():
    # 2**60 calls; only pairs of computations are compared, each once.
    assert doubling(60) == doubling(60)


def chain(depth, innermost):
    graph = innermost
    for _ in range(depth):
        graph = graph_of(lambda x, inner=graph: [Runs(inner)(x)[0]])
    return graph


def test_programs_nested_2000_deep_compare_and_print():
    one, other = (chain(2000, graph_of(f)) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != chain(2000, graph_of(lambda x: [ops.tanh(x)]))
    called = PURE
    for _ in range(2000):
        called = graph_of(lambda x, inner=called: ops.call(inner, x))
    assert called.stablehlo().count("func.func private") == 2000
    assert str(called).count("to_apply=") == 2000


def test_side_effects_are_found_5000_programs_deep():
    assert chain(5000, graph_of(lambda x: [Effect()(x)])).has_side_effect
    assert not chain(5000, graph_of(f)).has_side_effect


PURE = graph_of(f)
EFFECTFUL = graph_of(lambda x: [Effect()(x)])
SIDE_EFFECTS = [
    ("none", graph_of(f), False),
    ("own", EFFECTFUL, True),
    ("called", graph_of(lambda x: ops.call(EFFECTFUL, x)), True),
    ("called, pure", graph_of(lambda x: ops.call(PURE, x)), False),
    (
        "in a tuple",
        graph_of(lambda x: Runs(PURE, (PURE, EFFECTFUL))(x)),
        True,
    ),
]


@pytest.mark.parametrize(
    ("graph", "expected"), [row[1:] for row in SIDE_EFFECTS], ids=[row[0] for row in SIDE_EFFECTS]
)
def test_side_effects(graph, expected):
    assert graph.has_side_effect is expected
    assert any(step.has_side_effect for step in graph.instructions) is expected


@pytest.mark.parametrize(
    "graph", [each for pair in EQUAL for each in pair][:12], ids=[str(n) for n in range(12)]
)
def test_pickling_and_copying(graph):
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    assert again.name == graph.name
    assert again.stablehlo() == graph.stablehlo()
    assert copy.copy(graph) is copy.deepcopy(graph) is graph


def test_pickling_a_deep_program_and_a_large_constant():
    def deep(x):
        for _ in range(5000):
            x = ops.tanh(x)
        return [ops.add(x, x), np.broadcast_to(np.float32(3), (10_000, 10_000))]

    graph = graph_of(deep)
    pickled = pickle.dumps(graph)
    assert len(pickled) < 1_000_000
    assert pickle.loads(pickled) == graph


def names(graph):
    return [step.op.name for step in graph.instructions]


def test_pruning_drops_what_no_output_needs():
    def function(x, y):
        ops.exp(x)
        kept = ops.tanh(x)
        ops.mul(kept, y)
        return [kept]

    graph = graph_of(function, VECTOR, VECTOR)
    assert names(graph) == ["Tanh", "Exp", "Mul"] or names(graph) == ["Exp", "Tanh", "Mul"]
    pruned = graph.pruned()
    assert names(pruned) == ["Tanh"]
    assert pruned.input_shapes == graph.input_shapes
    assert pruned.pruned() is pruned is graph.pruned()


def test_pruning_keeps_side_effects_and_what_they_read_in_order():
    def function(x):
        Effect()(ops.exp(x))
        ops.call(EFFECTFUL, ops.tanh(x))
        ops.call(PURE, x)
        Effect()(x)
        return [x]

    assert names(graph_of(function).pruned()) == [
        "Exp",
        "tests.Effect",
        "Tanh",
        "Call",
        "tests.Effect",
    ]


def test_pruning_keeps_a_step_one_of_whose_results_is_needed():
    graph = graph_of(lambda x: [ops.call(lambda y: [y, ops.exp(y)], x)[1]])
    assert names(graph.pruned()) == ["Call"]


def test_a_program_without_superfluous_steps_is_its_own_pruned_form():
    graph = graph_of(f)
    assert graph.pruned() is graph


@pytest.mark.parametrize("found", [None, (), "something"])
def test_what_is_remembered_of_a_program_is_found_once(found):
    graph, asked = graph_of(f), []

    def find(*arguments):
        asked.append(arguments)
        return found

    assert [graph.remembered("key", find, graph, 2) for _ in range(3)] == [found] * 3
    assert asked == [(graph, 2)]


def test_hoisting_makes_large_and_foreign_constants_inputs():
    large, foreign = np.arange(2000, dtype=np.float32), jnp.arange(3.0)

    def function(x):
        return [ops.add(ops.mul(x, foreign), X), ops.add(large, np.float32(2))]

    graph = graph_of(function)
    hoisted, literals = hoist_constants(graph)
    assert [str(literal.shape) for literal in literals] == ["f32[3]", "f32[2000]"]
    assert [str(shape) for shape in hoisted.input_shapes] == ["f32[3]", "f32[2000]", "f32[3]"]
    assert hoisted.instructions == tuple(
        step
        for step in graph.instructions
        if step.op.name != "Constant" or step.op.literal.is_printed
    )
    expected = reference_graph(graph, [X])
    found = reference_graph(hoisted, [*(literal.array for literal in literals), X])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_hoisting_nothing_gives_the_same_program():
    graph = graph_of(lambda x: [ops.add(x, X)])
    assert hoist_constants(graph) == (graph, [])


def test_an_attribute_called_literal_is_no_constant():
    class Negated(Operation):
        """The negative of its attribute."""

        literal: Any = attribute(Attribute())

        def shape(self):
            return self.literal.shape

    from minixla.core.attributes import Literal

    graph = graph_of(lambda x: [Negated(Literal(np.arange(5000.0)))()])
    assert hoist_constants(graph) == (graph, [])


def test_texts():
    graph = mx.make_graph(lambda x: ops.tanh(x))(X)
    assert repr(graph) == "<Graph <lambda> (f32[3]) -> (f32[3]), 1 instructions>"
    assert repr(graph.instructions[0]) == "<Instruction tanh -> (f32[3],)>"
    assert repr(graph.inputs[0]) == "<Value f32[3] of input>"
    assert repr(graph.outputs[0]) == "<Value f32[3] of tanh>"
