"""Sharding rules as users write them."""

from __future__ import annotations

from typing import Any

import pytest

from minixla.core.errors import AttributeValueError
from minixla.core.shapes import parse_shape
from minixla.extension.sharding_notation import ShardingNotation

# What is written, the operands' and the results' sizes, and the rule.
RULES: list[tuple[dict[str, Any], str, str, str]] = [
    ({"text": "i j, j k -> i k", "reduction": "j"}, "4,8 8,6", "4,6",
     "([i, j], [j, k])->([i, k]) {i=4, j=8, k=6} reduction={j}, custom"),
    ({"text": "... i j, j k -> ... i k"}, "2,3,4,8 8,6", "2,3,4,6",
     "([i, j, k, l], [l, m])->([i, j, k, m]) {i=2, j=3, k=4, l=8, m=6}, custom"),
    ({"text": "... i -> ... i"}, "8", "8", "([i])->([i]) {i=8}, custom"),
    ({"text": "...1 a, ...2 b -> ...1 a"}, "2,3 4,5", "2,3",
     "([i, j], [k, l])->([i, j]) {i=2, j=3, k=4, l=5}, custom"),
    ({"text": "batch (heads rest) -> batch heads rest"}, "2,8", "2,4,2",
     "([i, jk])->([i, j, k]) {i=2, j=4, k=2}, custom"),
    ({"text": "i (j k), j -> (i j) k"}, "8,6 2", "16,3",
     "([i, jk], [j])->([ij, k]) {i=8, j=2, k=3}, custom"),
    ({"text": "(i j) k -> (k i) j", "sizes": {"i": 2}}, "8,2", "4,4",
     "([ij, k])->([ki, j]) {i=2, j=4, k=2}, custom"),
    ({"text": "i j -> i j", "need_replication": ["j"], "blocked": "j"}, "8,4", "8,6",
     "([i, j])->([i, j]) {i=8, j=6} need_replication={j} blocked_propagation={j}, custom"),
    ({"text": "i, -> i, "}, "8 -", "8 -", "([i], [])->([i], []) {i=8}, custom"),
    ({"text": "->"}, "-", "-", "([])->([]), custom"),
]  # fmt: skip
# What is wrong when it is written.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"text": "i j"}, "there must be one arrow"),
    ({"text": 3}, "there must be one arrow"),
    ({"text": "i + -> i"}, "'i +' is not a list of factors"),
    ({"text": "1i -> 1i"}, "'1i' contains an invalid name of a factor"),
    ({"text": "() -> i"}, "'()' contains an invalid name of a factor"),
    ({"text": "i ... -> i"}, "'i ...' does not have `...` in front"),
    ({"text": "i i -> i"}, "'i i' has a factor twice"),
    ({"text": "i -> i", "reduction": "k"}, "no array has the factor k"),
    ({"text": "i -> i", "sizes": {"k": 2}}, "no array has the factor k"),
    ({"text": "i -> i", "reduction": "i", "permutation": "i"}, "the factor i is in two sets"),
]
# And when it is used.
MISFITS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"text": "i -> i"}, "8 8", "8", "the operation has 2 operands and 1 results"),
    ({"text": "i -> i"}, "8,3", "8", "an array of rank 2 has 1 dimensions there"),
    ({"text": "... i j -> i"}, "8", "8", "an array of rank 1 has 2 dimensions there"),
    ({"text": "i j -> i j"}, "8,4", "8,2", "the factor j has the sizes 4 and 2"),
    ({"text": "(i j) -> i"}, "8", "3", "the factor j is not a dimension"),
    ({"text": "(i j) -> i j"}, "8", "2,3", "(i j) has the size 6, not 8"),
]


def shapes(text: str) -> list[Any]:
    return [parse_shape(f"f32[{sizes.strip('-')}]") for sizes in text.split()]


def parsed(given: dict[str, Any]) -> ShardingNotation:
    return ShardingNotation.parse(**{"sizes": {}, **given})


@pytest.mark.parametrize(("given", "operands", "results", "rule"), RULES)
def test_a_notation_is_a_rule_for_shapes(
    given: dict[str, Any], operands: str, results: str, rule: str
):
    assert str(parsed(given).rule(shapes(operands), shapes(results))) == rule


@pytest.mark.parametrize(("given", "problem"), WRONG)
def test_what_is_no_rule_is_refused(given: dict[str, Any], problem: str):
    with pytest.raises(AttributeValueError) as error:
        parsed(given)
    for part in (f"sharding rule: {problem}", repr(given["text"]), "`i j, j k -> i k`"):
        assert part in str(error.value)


@pytest.mark.parametrize(("given", "operands", "results", "problem"), MISFITS)
def test_shapes_that_do_not_fit_are_refused(
    given: dict[str, Any], operands: str, results: str, problem: str
):
    with pytest.raises(AttributeValueError) as error:
        parsed(given).rule(shapes(operands), shapes(results))
    assert problem in str(error.value)
    assert f"shapes: {', '.join(map(str, shapes(operands)))}" in str(error.value)
