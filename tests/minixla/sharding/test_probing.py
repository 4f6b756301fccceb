"""Sharding rules against what operations do with blocks, and rules that are found so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import Shape, parse_shape
from minixla.core.sharding_rule import ShardingRule
from minixla.sharding.probing import probed_rule, wrong_factors
from minixla_ops.collectives.collective_groups import Collective
from minixla_ops.elementwise.families import Unary
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers
from tests.minixla_ops.sharding_rows import rows

# Each operation with the problems of its rules, which are Shardy's too, and why they are there.
SHIFTED = "results for a block are not a block of the results"
EXCEPTIONS = {
    # Indices are of the whole array: whoever runs it on a block takes the block's start off them.
    "scatter": {SHIFTED},
    "dynamic_update_slice": {SHIFTED},
    # Where a kernel has more elements than there are positions, its elements count as the major
    # part of the input's dimension, although they are neighbours there.
    "convolution": {"results for blocks do not add up"},
}


def steps_of(name: str) -> list[Any]:
    """The instructions that the rows of an operation show."""
    return [mx.make_graph(row.function)(*row.operands).instructions[-1] for row in rows()[name]]


@pytest.mark.parametrize("name", rows())
def test_declared_rules_hold(name: str):
    problems: set[str] = set()
    for step in steps_of(name):
        shapes = [value.shape for value in step.operands]
        rule = step.op.sharding_rule(*shapes)
        if rule is None or isinstance(step.op, Collective | REGISTRY["CustomCall"]):
            continue  # they run with other processes, or are code that is not here
        problems |= {each.partition(": ")[2] for each in wrong_factors(step.op, shapes, rule)}
    assert problems == EXCEPTIONS.get(name, set())


@pytest.mark.parametrize(
    ("function", "shapes", "rule", "problem"),
    [
        (lambda x: ops.rev(x, (0,)), ["f32[4]"], "([i])->([i]) {i=4}", "depends on other blocks"),
        (
            lambda x: ops.transpose(x, (1, 0)),
            ["f32[4,4]"],
            "([i, j])->([i, j]) {i=4, j=4}",
            "depends on other blocks",
        ),
        (
            lambda x: ops.reshape(x, (6, 4)),
            ["f32[4,6]"],
            "([i, j])->([j, i]) {i=4, j=6}",
            "depends on other blocks",
        ),
        (lambda x: ops.sort(x, ops.lt), ["f32[8]"], "([i])->([i]) {i=8}", "depends on other"),
        (
            lambda x, y: ops.dot(x, y),
            ["f32[4,8]", "f32[8,4]"],
            "([i, j], [j, k])->([i, k]) {i=4, j=8, k=4}",
            SHIFTED,
        ),
        (
            lambda x, y: ops.dot(x, y),
            ["f32[4,8]", "f32[8,4]"],
            "([i, j], [k, l])->([i, l]) {i=4, j=8, k=8, l=4} reduction={j, k}",
            None,
        ),
        (
            lambda x: ops.exp(x),
            ["f32[4]"],
            "([i])->([j]) {i=4, j=4} reduction={i}",
            "do not add up",
        ),
        (
            lambda x, y: ops.reduce(x, y, ops.max, (0,)),
            ["f32[4]", "f32[]"],
            "([i], [])->([]) {i=4} reduction={i}",
            None,
        ),
        (
            lambda x, y: ops.reduce(x, y, lambda a, b: a * 2 + b, (0,)),
            ["f32[4,3]", "f32[]"],
            "([i, j], [])->([j]) {i=4, j=3}",
            SHIFTED,
        ),
    ],
)
def test_wrong_rules_are_found(
    function: Callable[..., Any], shapes: list[str], rule: str, problem: str | None
):
    given = [parse_shape(each) for each in shapes]
    step = mx.make_graph(function)(*given).instructions[-1]
    found = wrong_factors(step.op, given, ShardingRule.parse(rule))
    assert bool(found) == (problem is not None), found
    assert all(problem in each for each in found if problem)


class Counting(Unary):
    """Each element plus its row's number: local, and no function of blocks."""

    numpy = staticmethod(lambda x: x + np.arange(len(x), dtype=x.dtype)[:, None])


def test_positions_are_noticed():
    rule = ShardingRule.parse("([i, j])->([i, j]) {i=4, j=8}")
    (problem,) = wrong_factors(Counting(), [Shape("f32", (4, 8))], rule)
    assert problem == f"factor i of size 4: {SHIFTED}"


def rule_of(function: Any, *shapes: str) -> str:
    """The rule that is found for a graph's last operation."""
    step = mx.make_graph(function)(*map(parse_shape, shapes)).instructions[-1]
    return str(probed_rule(step.op, [value.shape for value in step.operands]))


def test_rules_are_found():
    product = "([i, k], [k, j])->([i, j])"
    assert (
        rule_of(ops.dot, "f32[4,8]", "f32[8,6]") == f"{product} {{i=4, j=6, k=8}} reduction={{k}}"
    )
    large = rule_of(ops.dot, "f32[4000,8000]", "f32[8000,6000]")
    assert large == f"{product} {{i=4000, j=6000, k=8000}} reduction={{k}}"
    square = rule_of(ops.dot, "f32[64,64]", "f32[64,64]")
    assert square == f"{product} {{i=64, j=64, k=64}} reduction={{k}}"
    assert rule_of(ops.add, *["f32[4,8]"] * 2) == "([i, j], [i, j])->([i, j]) {i=4, j=8}"
    assert rule_of(ops.select, "pred[]", *["s32[4,1]"] * 2) == (
        "([], [i, j], [i, k])->([i, l]) {i=4, j=1, k=1, l=1}"
    )
    turned = rule_of(lambda x: ops.transpose(x, (1, 2, 0)), "f32[4,4,3]")
    assert turned == "([k, i, j])->([i, j, k]) {i=4, j=3, k=4}"
    ordered = rule_of(lambda x: ops.sort(x, ops.lt), "f32[4,8]")
    assert ordered == "([i, j])->([i, k]) {i=4, j=8, k=8} need_replication={j, k}"
    greatest = rule_of(lambda x: x.max(1), "f32[4,8]")
    assert greatest == "([i, j], [])->([i]) {i=4, j=8} need_replication={j}"
    numbers = GatherDimensionNumbers((1,), (0,), (0,), 1)
    taken = rule_of(lambda x, i: ops.gather(x, i, numbers, (1, 6)), "f32[10,6]", "s32[4,1]")
    assert taken == (
        "([j, k], [i, m])->([i, l]) {i=4, j=10, k=6, l=6, m=1} need_replication={j, k, l}"
    )
    pair = rule_of(lambda x, y: ops.sort([x, y], lambda a, b, c, d: a < b, 0), *["f32[4,8]"] * 2)
    assert pair.startswith("([j, i], [k, i])->([l, i], [m, i]) {i=8, ")


def test_positions_need_the_whole_array():
    found = probed_rule(Counting(), [Shape("f32", (4, 8))])
    assert str(found) == "([j, i])->([k, i]) {i=8, j=4, k=4} need_replication={j, k}"


def test_what_cannot_run_has_no_rule():
    class Failing(Operation):
        """An operation whose reference fails."""

        operands = ("x",)

        def shape(self, x):
            return x

        def reference(self, x):
            raise RuntimeError("no kernel")

    assert probed_rule(Failing(), [Shape("f32", (4,))]) is None
    assert probed_rule(Counting(), [Shape("f32", (1 << 11, 1 << 11))]) is not None
