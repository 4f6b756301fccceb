"""Reduction of programs by tests that need no compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core import ELEMENT_TYPES
from minixla.core.graph import Graph
from minixla.tools.bounded_evaluation import Budget, TooManyIterations
from minixla.tools.graph_parts import every_step
from minixla.tools.program_edits import Program, instruction_count, resized, tidy
from minixla.tools.reduction import reduced
from minixla.tools.simplifications import number_cost, simpler_arrays


def _program(function: Callable[..., Any], *arguments: Any) -> Program:
    arrays = tuple(map(np.asarray, arguments))
    return Program(mx.make_graph(function)(*arrays), arrays)


def _has(*names: str) -> Callable[[Program], bool]:
    return lambda program: set(names) <= {step.op.name for step in every_step(program.graph)}


def _names(graph: Graph) -> list[str]:
    return [step.op.name for step in every_step(graph)]


def _layers(x: Any) -> Any:
    for index in range(20):
        x = mnp.sin(x) * 2 + (mnp.tanh(x) if index == 10 else mnp.cos(x))
    return x, x.sum()


def test_one_instruction_of_many_is_left() -> None:
    program = reduced(_program(_layers, np.ones((4, 6), "f4")), _has("Tanh"), 30)
    assert _names(program.graph) == ["Tanh"]
    assert program.operands[0].tolist() == [[0]]


def test_two_instructions_that_must_follow_each_other() -> None:
    def holds(program: Program) -> bool:
        steps = program.graph.instructions
        makers = {each.op.name: each.operands for each in steps}
        operands = makers.get("Cos", ())
        return any(x.instruction is not None and x.instruction.op.name == "Tanh" for x in operands)

    def function(x: Any) -> Any:
        return mnp.exp(mnp.cos(mnp.tanh(x + 1) * 1) - 3).sum() + mnp.cos(mnp.tanh(x)).sum()

    program = reduced(_program(function, np.ones(5, "f4")), holds, 30)
    assert sorted(_names(program.graph)) == ["Cos", "Tanh"]


@pytest.mark.parametrize("name", ["Tanh", "Sin", "Exp"])
def test_inner_programs_are_cut_out(name: str) -> None:
    def function(x: Any) -> Any:
        def body(carry: Any, row: Any) -> Any:
            carry = mnp.tanh(carry) + row
            return carry, mx.cond(row.sum() > 0, mnp.sin, lambda y: y * 2, carry)

        carry, rows = mx.scan(body, x[0], x)
        return mx.jit(lambda y: mnp.exp(y) + 1)(rows).sum() + carry

    program = reduced(_program(function, np.ones((3, 2), "f4")), _has(name), 30)
    assert _names(program.graph) == [name]


def test_a_loop_keeps_what_it_needs() -> None:
    def function(x: Any, y: Any) -> Any:
        def goes_on(state: Any) -> Any:
            return state[0] < 9

        def body(state: Any) -> Any:
            index, x, y = state
            return index + 1, mnp.tanh(x) * y + index, mnp.cos(y) + 1

        return mx.while_loop(goes_on, body, (0, x, y))[1:]

    def holds(program: Program) -> bool:
        Budget(20).values(*program)
        loops = [step.op for step in program.graph.instructions if step.op.name == "While"]
        return any("Tanh" in _names(loop.body) for loop in loops)

    program = reduced(_program(function, np.ones(3, "f4"), np.ones(3, "f4")), holds, 30)
    # The condition is a constant false.
    assert instruction_count(program.graph) == 2
    assert len(program.graph.instructions[-1].operands) == 1


def test_infinite_loops_raise_an_error() -> None:
    program = _program(lambda x: mx.while_loop(lambda y: y < 1, lambda y: y * 1, x), np.float32(0))
    with pytest.raises(TooManyIterations):
        Budget(100).values(*program)
    budget = Budget(100)
    count = _program(lambda x: mx.fori_loop(0, x, lambda i, y: y + i, 0), np.int32(7))
    assert next(iter(budget.values(*count).values())) == 7
    assert budget.used == 7


def test_loops_within_loops_count() -> None:
    def function(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return mx.fori_loop(0, 5, lambda i, z: z + i, y)

        return mx.fori_loop(0, x, lambda i, y: inner(y) + i, 0)

    budget = Budget(1000)
    program = _program(function, np.int32(3))
    values = budget.values(*program)
    expected = mx.reference(function)(np.int32(3))
    assert values[program.graph.outputs[0]] == expected
    assert budget.used == 18


def test_sizes_change_in_attributes_too() -> None:
    def function(x: Any) -> Any:
        y = ops.broadcast_in_dim(ops.reduce(x, np.float32(0), ops.add, (1,)), (7, 5), (0,))
        return ops.concat_in_dim([x, y], 1)

    program = resized(_program(function, np.arange(35, dtype="f4").reshape(7, 5)), {7: 2}, True)
    assert str(program.graph.input_shapes) == "(f32[2,5],)"
    assert program.operands[0].tolist() == np.arange(25, 35).reshape(2, 5).tolist()
    assert str(program.graph.output_shapes) == "(f32[2,10],)"


def test_unused_inputs_are_dropped() -> None:
    program = tidy(_program(lambda x, y: y * 2, np.float32(1), np.float32(3)))
    assert [*map(float, program.operands)] == [3]
    assert len(program.graph.inputs) == 1


@pytest.mark.parametrize("kind", ["f4", "bfloat16", "i4", "u1", "int4", "c8", "bool"])
def test_simpler_arrays_have_the_same_type(kind: str) -> None:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    array = np.array([[1, 0], [3, 1]]).astype(dtype)
    arrays = [*simpler_arrays(array)]
    assert arrays
    assert {(each.dtype, each.shape) for each in arrays} == {(dtype, (2, 2))}
    costs = [number_cost(np.full((2, 2), x).astype(dtype)) for x in (0, 1)]
    assert costs == sorted(costs)
    assert costs[1] <= number_cost(array)


@pytest.mark.parametrize("number", [2.0**127, -3e38, 5e-324, float("inf"), float("nan")])
def test_floats_of_any_size_become_simpler(number: float) -> None:
    for kind in ("f8", "bfloat16"):
        dtype = ELEMENT_TYPES["bf16"].dtype if kind == "bfloat16" else np.dtype(kind)
        with np.errstate(all="ignore"):
            array = np.array([number, 1]).astype(dtype)
            assert {each.dtype for each in simpler_arrays(array)} == {dtype}


def test_time_is_limited() -> None:
    program = _program(_layers, np.ones((4, 6), "f4"))
    assert reduced(program, lambda _: True, 0).graph == program.graph
