"""Sharding rules: their text, what makes one valid, and how they are built."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from minixla.core.errors import AttributeValueError
from minixla.core.shapes import TOKEN, Shape
from minixla.core.sharding_rule import (
    ABSENT,
    NEED_REPLICATION,
    REDUCTION,
    RuleBuilder,
    ShardingRule,
    factor_symbol,
    pointwise_rule,
)

_MANY = ", ".join(map(factor_symbol, range(21)))
_MANY_SIZES = ", ".join(f"{factor_symbol(number)}=2" for number in range(21))
TEXTS = [
    "([], [])->([])",
    "([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k}",
    "([ij, ln])->([ik, mn]) {i=2, j=2, k=3, l=3, m=2, n=2}",
    "([i, j])->([i, j]) {i=4, j=8} need_replication={j} blocked_propagation={i, j}",
    "([i], [j])->([k]) {i=0, j=1, k=2} reduction={i} need_replication={j} permutation={k}, custom",
    f"([{_MANY}])->([{_MANY}]) {{{_MANY_SIZES}}}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_and_printed(text: str):
    rule = ShardingRule.parse(text)
    assert str(rule) == text
    assert ShardingRule.parse(f"#sdy.op_sharding_rule<{text}>") == rule
    assert pickle.loads(pickle.dumps(rule)) == rule


def test_what_a_text_says():
    rule = ShardingRule.parse(TEXTS[2])
    assert rule.operands == (((0, 1), (3, 5)),) and rule.results == (((0, 2), (4, 5)),)
    rule = ShardingRule.parse("([ i,j ])->( [i] ) {i=4,j=8} reduction={j}, custom")
    assert (rule.sizes, rule.reduction, rule.is_custom) == ((4, 8), frozenset({1}), True)
    assert [rule.kind(factor) for factor in (0, 1)] == ["pass_through", "reduction"]
    with pytest.raises(FrozenInstanceError):
        rule.sizes = ()  # type: ignore[misc]  # that is the point


@pytest.mark.parametrize(
    ("text", "problem"),
    {
        "i j -> i j": "no list of operands, results and sizes",
        "([i])->([i]) {j=4}": "the size of 'j' stands where that of i must",
        "([i])->([i]) {i=-4}": "'i=-4' is no size of a factor",
        "([i, ])->([i]) {i=4}": "'' is no list of factors",
        "([I])->([i]) {i=4}": "'I' is no list of factors",
        "([i, i])->([i]) {i=4}": "operand 0 has the factor i twice",
        "([i])->([j]) {i=4}": "the factor j of result 0 has no size",
        "([i])->([i]) {i=4, j=2}": "no tensor has the factor j",
        "([i])->([i]) {i=4} reduction={j}": "no tensor has the factor j",
        "([i, j])->([i]) {i=4, j=2} reduction={j, i}": "are not in order",
        "([i])->([i]) {i=4} reduction={i} permutation={i}": "the factor i is in two sets",
        "([i])->([i]) {i=4} permutation={i} reduction={i}": "after the sizes stands 'permutation",
        "([i])->([i]) {i=4} wrong={i}": "after the sizes stands 'wrong={i}'",
    }.items(),
)
def test_a_text_that_is_no_rule_is_refused(text: str, problem: str):
    with pytest.raises(AttributeValueError) as error:
        ShardingRule.parse(text)
    assert str(error.value).startswith("sharding rule: ")
    assert problem in str(error.value)


def test_ranks_are_checked():
    rule = ShardingRule.parse(TEXTS[1])
    rule.check([2, 2], [2])
    for ranks, problem in (
        (([2], [2]), "it has 2 operands, and the operation 1"),
        (([2, 3], [2]), "operand 1 has 2 dimensions there, and rank 3"),
        (([2, 2], [1]), "result 0 has 2 dimensions there, and rank 1"),
    ):
        with pytest.raises(AttributeValueError, match=problem):
            rule.check(*ranks)


def shapes(*sizes: tuple[int, ...]) -> list[Any]:
    return [Shape("f32", each) for each in sizes]


def test_a_builder_adds_factors_in_order():
    rule = RuleBuilder(shapes((4, 8), (8, 6)), Shape("f32", (4, 6)))
    rule.add([0, ABSENT], [0], 4).add([ABSENT, 1], [1], 6).add([1, 0], [ABSENT], 8, REDUCTION)
    assert str(rule.build()) == TEXTS[1]


def test_dimensions_without_factors_get_one_of_size_one():
    rule = RuleBuilder(shapes((4, 8)), (Shape("f32", (4, 1)), TOKEN))
    assert str(rule.add([0], [0, ABSENT], 4).build()) == "([i, j])->([i, k], []) {i=4, j=1, k=1}"


def test_a_factor_of_size_one_is_left_out_beside_others():
    rule = RuleBuilder(shapes((4,)), Shape("f32", (4,)))
    assert str(rule.add([0], [0], 4).add([0], [0], 1).build()) == "([i])->([i]) {i=4}"


def test_kinds_by_dimension():
    rule = RuleBuilder(shapes((4, 8), ()), Shape("f32", (4, 2)))
    text = "([i, j], [])->([i, j]) {i=4, j=8} need_replication={j} blocked_propagation={j}"
    assert str(rule.resized(NEED_REPLICATION, blocked=True).build()) == text
    assert str(pointwise_rule(shapes((4, 8), (4,), ()), Shape("f32", (4, 8)))) == (
        "([i, j], [i], [])->([i, j]) {i=4, j=8}"
    )


BATCHES = {
    "([i, j, k], [i, j, l])->([i, j, m]) {i=2, j=4, k=3, l=3, m=3} need_replication={k, l, m}": 2,
    "([i, j])->([i, j]) {i=2, j=4}": 2,
    "([i, j], [])->([i, j]) {i=2, j=4}": 0,
    "([i, j])->([j, i]) {i=2, j=4}": 0,
    "([ij, k])->([ij, k]) {i=2, j=2, k=4}": 0,
    "([i, j])->([i, j]) {i=2, j=4} need_replication={j}": 1,
    "([i, j])->([i, j]) {i=2, j=4} blocked_propagation={i}": 0,
}


@pytest.mark.parametrize("text", BATCHES)
def test_first_dimensions_in_common_are_a_batch(text: str):
    rule = ShardingRule.parse(text)
    assert rule.batch_dimensions == BATCHES[text]
    assert rule.hint() == f" {{sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}}"
    assert rule.hint(2).startswith(' {mhlo.frontend_attributes = {num_batch_dims = "2"}, sdy.')
