"""Sharding rules that follow from an operation's program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.operation import Operation
from minixla.core.shapes import Shape, parse_shape
from minixla.sharding.probing import wrong_factors
from minixla_ops.products.ragged_dot import RaggedDotDimensionNumbers
from minixla_ops.programs.lowering import Lowered

_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])


class _Program(Lowered):
    """What a function of a member gives, of an array's shape."""

    operands = ("x",)

    def shape(self, x):
        return x


class Softmax(_Program):
    """Rows that sum to 1."""

    def lowered(self, x):
        scaled = mx.numpy.exp(x)
        return scaled / ops.broadcast_in_dim(scaled.sum(1), x.shape, (0,))


class Symmetric(_Program):
    """A matrix and its transpose."""

    def lowered(self, x):
        return x + ops.transpose(x, (1, 0))


class Numbered(_Program):
    """Each element plus its row's number."""

    def lowered(self, x):
        return x + ops.iota(Shape("f32", x.shape), 0)


class Greater(_Program):
    """Elements times two, from a program with a constant."""

    def lowered(self, x):
        return x * ops.constant(np.broadcast_to(np.float32(2), (4, 4)))


class Split(_Program):
    """Through a shape in which the last dimension is two."""

    def lowered(self, x):
        return ops.reshape(ops.reshape(x, (4, 2, 2)) * 2, (4, 4))


def _apply(operation: type[Operation]) -> Callable[..., Any]:
    return lambda x: operation()(x)


RULES: list[tuple[Callable[..., Any], list[str], str]] = [
    (
        lambda *xs: ops.batch_norm_training(*xs, 1e-3, 1),
        ["f32[2,3,4]", "f32[3]", "f32[3]"],
        "([i, j, k], [j], [j])->([i, j, k], [j], [j]) {i=2, j=3, k=4} need_replication={i, k}",
    ),
    (
        lambda x, y, n: ops.ragged_dot(x, y, n, _ROWS),
        ["f32[6,3]", "f32[4,3,2]", "s32[4]"],
        "([i, k], [l, k, j], [l])->([i, j]) {i=6, j=2, k=3, l=4} need_replication={i, k, l}",
    ),
    (
        _apply(Softmax),
        ["f32[4,4]"],
        "([i, j])->([i, j]) {i=4, j=4} need_replication={j}",
    ),
    (
        _apply(Symmetric),
        ["f32[4,4]"],
        "([k, l])->([i, j]) {i=4, j=4, k=4, l=4} need_replication={i, j, k, l}",
    ),
    (_apply(Numbered), ["f32[4,4]"], "([i, j])->([i, j]) {i=4, j=4} need_replication={i, j}"),
    (_apply(Greater), ["f32[4,4]"], "([i, j])->([i, j]) {i=4, j=4}"),
    (
        _apply(Split),
        ["f32[4,4]"],
        "([i, j])->([i, j]) {i=4, j=4} need_replication={j}",
    ),
]


@pytest.mark.parametrize(("function", "shapes", "rule"), RULES)
def test_rules_follow(function: Callable[..., Any], shapes: list[str], rule: str):
    step = mx.make_graph(function)(*map(parse_shape, shapes)).instructions[-1]
    given = [value.shape for value in step.operands]
    found = step.op.sharding_rule(*given)
    assert str(found) == rule
    assert wrong_factors(step.op, given, found) == []


def test_what_runs_programs_has_rules_inside_alone():
    steps = mx.make_graph(lambda x: mx.scan(lambda c, e: (c + e, c), x, np.ones((3, 2), "f")))
    (step,) = [x for x in steps(Shape("f32", (2,))).instructions if x.op.name == "Scan"]
    assert step.op.sharding_rule(*[value.shape for value in step.operands]) is None
