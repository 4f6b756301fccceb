"""Blocks in place of the steps that run them: programs mean the same after it."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core.shapes import Shape
from minixla.core.tracing import evaluate_graph
from minixla.sharding.inlining import inline, inline_calls
from minixla.sharding.program import Block, Program, Step

X = np.linspace(-1, 1, 4, dtype=np.float32)

inner = mx.jit(lambda x: mnp.sin(x) * 2)
twice = mx.jit(lambda x: inner(x) + inner(inner(x)))

PROGRAMS = {
    "calls in calls": lambda x: twice(x) - inner(x),
    "in a loop": lambda x: mx.fori_loop(0, 3, lambda _, c: twice(c), x),
    "in branches that read outer values": lambda x: mx.cond(
        x[0] > 0, lambda: inner(x), lambda: twice(inner(x))
    ),
    "an argument that is given back": lambda x: mx.jit(lambda x, y: (y, x))(x, inner(x))[0],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_are_written_out(name: str):
    graph = mx.make_graph(PROGRAMS[name])(Shape("f32", X.shape))
    program = Program.of_graph(graph)
    assert any(step.callee is not None for step in program.walk())
    inline_calls(program)
    assert list(program.functions.values()) == [program.main]
    assert all(step.callee is None for step in program.walk())
    found = mx.reference(lambda x: evaluate_graph(program.graph(), [x]))(X)
    np.testing.assert_allclose(found[0], mx.reference(PROGRAMS[name])(X), rtol=1e-6)


def test_steps_are_where_they_were_written_out():
    graph = mx.make_graph(lambda x: mnp.cos(x))(Shape("f32", X.shape))
    body = mx.make_graph(lambda x: mnp.sin(mnp.sin(x)))(Shape("f32", X.shape))
    for instruction in body.instructions:
        instruction.source = None
    program = Program.of_graph(graph)
    (old,) = program.main.steps

    def written(step: Step) -> Block | None:
        return program.block_of(body) if step.op.name == "Cos" else None

    inline(program.main, written)
    assert [step.op.name for step in program.main.steps] == ["Sin", "Sin"]
    assert {step.block for step in program.main.steps} == {program.main}
    assert [step.source for step in program.main.steps] == [old.source] * 2
