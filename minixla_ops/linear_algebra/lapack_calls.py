"""Layouts and sharding of calls of LAPACK, BLAS and cuSOLVER."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minixla.core import Shape
from minixla.core.sharding_rule import ABSENT, PASS_THROUGH, RuleBuilder, ShardingRule

#: First letters of routine names, by element type.
LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def lapack_layout(rank: int, batch: int) -> tuple[int, ...]:
    """Return the layout of a row-major stack of column-major arrays, fastest dimension first."""
    return (*range(batch, batch + rank), *reversed(range(batch)))


def stack_rule(rule: RuleBuilder, batch: int, kind: str = PASS_THROUGH) -> ShardingRule:
    """Build the rule of stacks along the first `batch` dimensions, shared by all arrays.

    Every other dimension is a separate factor of this kind.
    """
    count, every = len(rule.operand_sizes), [*rule.operand_sizes, *rule.result_sizes]
    for dimension, size in enumerate(every[0][:batch]):
        rule.same(dimension, size)
    for index, sizes in enumerate(every):
        for dimension in range(batch, len(sizes)):
            places = [ABSENT] * len(every)
            places[index] = dimension
            rule.add(places[:count], places[count:], sizes[dimension], kind)
    return rule.build()


def sharding_hints(batch: int, shapes: Sequence[Shape], results: Sequence[Shape]) -> str:
    """Tell Shardy and GSPMD that a stack may be sharded over devices and matrices may not."""
    rule = stack_rule(RuleBuilder(shapes, tuple(results)), batch)
    return replace(rule, is_custom=True).hint(batch)
