"""Sharding rules of operations of one's own: stated in one line, or found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.shapes import parse_shape

_NUMBERS = count()


def define(
    reference: Callable[..., Any] | None, inputs: int, shape_fn: Any, outputs: int = 1
) -> Any:
    """An operation on floats with a reference."""
    op = mx.register_op(
        f"ShardingTest{next(_NUMBERS)}",
        inputs=[f"x{index}: float" for index in range(inputs)],
        outputs=[f"y{index}: float" for index in range(outputs)],
        shape_fn=shape_fn,
    )
    if reference is not None:
        op.kernel("reference", reference)
    return op


def product(reference: Any = lambda ctx, x, y: x @ y) -> Any:
    return define(reference, 2, lambda ctx, x, y: [x[0], y[1]])


def rule_of(op: Any, *shapes: str) -> Any:
    return op.operation().sharding_rule(*map(parse_shape, shapes))


def test_a_rule_is_one_line():
    op = product(None)
    op.sharding_rule("rows inner, inner columns -> rows columns", reduction="inner")
    assert str(rule_of(op, "f32[4,8]", "f32[8,6]")) == (
        "([i, j], [j, k])->([i, k]) {i=4, j=8, k=6} reduction={j}, custom"
    )
    graph = mx.make_graph(op.wrapper)(np.ones((2, 3), "f"), np.ones((3, 5), "f"))
    (step,) = graph.instructions
    shapes = [value.shape for value in step.operands]
    assert step.op.sharding_rule(*shapes).sizes == (2, 3, 5)


def test_every_set_and_sizes_can_be_given():
    op = define(None, 1, lambda ctx, x: x)
    op.sharding_rule(
        "(a b) c d e -> (a b) c d e",
        sizes={"a": 2},
        need_replication="c",
        permutation=["d"],
        blocked=("c", "e"),
    )
    assert str(rule_of(op, "f32[8,3,4,5]")) == (
        "([ij, k, l, m])->([ij, k, l, m]) {i=2, j=4, k=3, l=4, m=5} need_replication={k} "
        "permutation={l} blocked_propagation={k, m}, custom"
    )


def test_a_rule_that_is_none_is_refused_where_it_is_stated():
    op = product()
    with pytest.raises(mx.AttributeValueError, match="there must be one arrow") as error:
        op.sharding_rule("i j, j k")
    assert "test_sharding.py" in str(error.value)
    op.sharding_rule("i j -> i j")
    with pytest.raises(mx.AttributeValueError, match="the operation has 2 operands and 1 results"):
        rule_of(op, "f32[4,8]", "f32[8,6]")


def test_without_one_it_is_found_by_probing():
    rule = rule_of(product(), "f32[4000,8]", "f32[8,6]")
    text = "([i, k], [k, j])->([i, j]) {i=4000, j=6, k=8} reduction={k}, custom"
    assert str(rule) == text
    several = define(lambda ctx, x: [x.T, x.sum(0)], 1, lambda ctx, x: [[x[1], x[0]], x[1:]], 2)
    assert str(rule_of(several, "f32[4,8]")) == (
        "([j, i])->([i, k], [i]) {i=8, j=4, k=4} need_replication={j, k}, custom"
    )


def test_it_is_probed_once_for_the_same_shapes():
    calls = []

    def reference(ctx: Any, x: Any) -> Any:
        calls.append(x.shape)
        return x * 2

    op = define(reference, 1, mx.unchanged_shape)
    first = rule_of(op, "f32[4,8]")
    made = len(calls)
    assert made and rule_of(op, "f32[4,8]") is first and len(calls) == made


def test_a_composition_shows_its_rule_too():
    op = define(None, 1, None)
    op.composition(lambda ctx, x: mx.numpy.tanh(x) * 2)
    assert str(rule_of(op, "f32[4,8]")) == "([i, j])->([i, j]) {i=4, j=8}, custom"


def test_there_may_be_none():
    op = product()
    op.sharding_rule(None)
    assert rule_of(op, "f32[4,8]", "f32[8,6]") is None
    assert rule_of(product(None), "f32[4,8]", "f32[8,6]") is None
    failing = define(lambda ctx, x: 1 / 0, 1, mx.unchanged_shape)
    assert rule_of(failing, "f32[4,8]") is None


def test_check_op_checks_a_stated_rule():
    x, y = np.ones((4, 8), "f"), np.linspace(0, 1, 24, dtype="f").reshape(8, 3)
    op = product()
    report = mx.check_op(op, [(x, y)], order=0, variants=False)
    assert "sharding rule" not in {check.check for check in report.checks}
    op.sharding_rule("i j, j k -> i k", reduction="j")
    report = mx.check_op(op, [(x, y)], order=0, variants=False)
    assert {check.check: check.verdict for check in report.checks}["sharding rule"] == "ok"
    op.sharding_rule("i j, j k -> i k")
    report = mx.check_op(op, [(x, y)], order=0, variants=False)
    (check,) = [check for check in report.checks if check.check == "sharding rule"]
    assert check.verdict == "fails" and not report.ok
    assert check.note == "factor j of size 8: results for a block are not a block of the results"
    op.sharding_rule("i -> i")
    report = mx.check_op(op, [(x, y)], order=0, variants=False)
    (check,) = [check for check in report.checks if check.check == "sharding rule"]
    assert "the operation has 2 operands" in check.note


def test_shardy_is_told_a_stated_rule_where_a_program_runs():
    op = product(None)
    op.kernel("cpu", ffi="a_product_that_is_not_called")
    x, y = np.ones((4, 8), "f"), np.ones((8, 6), "f")
    # The graph's own text is for readers that may not know of Shardy.
    op.sharding_rule("i j, j k -> i k", reduction="j")
    text = mx.make_graph(op.wrapper)(x, y).stablehlo("cpu")
    assert "custom_call" in text and "sharding_rule" not in text
    text = jax.jit(lambda x, y: op.wrapper(x, y)).lower(x, y).as_text()
    rule = "([i, j], [j, k])->([i, k]) {i=4, j=8, k=6} reduction={j}, custom"
    assert f"sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>" in text
    op.sharding_rule(None)
    text = jax.jit(lambda x, y: op.wrapper(x, y)).lower(x, y).as_text()
    assert "custom_call" in text and "sharding_rule" not in text
