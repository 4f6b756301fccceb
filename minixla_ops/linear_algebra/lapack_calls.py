"""Calls of LAPACK and BLAS in programs for the CPU, of cuSOLVER for GPUs: XLA has slow loops."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from minixla.core import ElementType, Shape
from minixla.core.sharding_rule import ABSENT, PASS_THROUGH, RuleBuilder, ShardingRule

#: What the names of routines begin with, by element type.
LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def lapack_layout(rank: int, batch: int) -> tuple[int, ...]:
    """The layout of a row-major stack of column-major arrays, fastest dimension first."""
    return (*range(batch, batch + rank), *reversed(range(batch)))


def stack_rule(rule: RuleBuilder, batch: int, kind: str = PASS_THROUGH) -> ShardingRule:
    """The rule of stacks along the first `batch` dimensions, which all of the arrays share.

    Each other dimension is a factor of this kind, and of one array.
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
    """Says, to Shardy and GSPMD, that a stack may be split over devices and matrices may not."""
    rule = stack_rule(RuleBuilder(shapes, tuple(results)), batch)
    return replace(rule, is_custom=True).hint(batch)


def lapack_target(routine: str, kind: ElementType, options: Mapping[str, str]) -> tuple[str, str]:
    """The target and attributes of a call; `routine` is without the letter of the element type."""
    given = [f"{name} = {ord(letter)} : ui8" for name, letter in options.items()]
    return f"lapack_{LETTERS[kind.name]}{routine}_ffi", ", ".join(given)


def matrix_call(
    emit: Any,
    target: str,
    config: str,
    operands: Sequence[str],
    shapes: Any,
    results: Any,
    over: int = 0,
) -> Sequence[str]:
    """Writes a call of code for stacks of column-major matrices, with its attributes.

    LAPACK writes its first result over the operand of index `over`, where they have one shape.
    """
    # In other memory the code would copy the operand there; XLA does so where it is read later.
    is_in_place = target.startswith("lapack_") and results[0] is shapes[over]
    batch = shapes[0].rank - 2
    layouts = [
        [lapack_layout(shape.rank - batch, batch) for shape in each] for each in (shapes, results)
    ]
    return emit.custom_call(
        target,
        operands,
        shapes,
        results,
        f"{{{config}}}",
        layouts,
        hints=sharding_hints(batch, shapes, results),
        aliases={over: 0} if is_in_place else None,
    )
