"""Sharding rules of custom calls for the targets of XLA and JAX that Shardy knows."""

from __future__ import annotations

from collections.abc import Callable

from minixla.core.shapes import AnyShape, ShapeList
from minixla.core.sharding_rule import ABSENT, NEED_REPLICATION, RuleBuilder, ShardingRule


def target_rule(
    target: str, operands: ShapeList, results: tuple[AnyShape, ...]
) -> ShardingRule | None:
    """Return the sharding rule of a target's call; None if it is unknown or does not apply.

    Source: Shardy's registry of sharding rules.
    """
    if target not in _FACTORS or not results:
        return None
    add, *counts = _FACTORS[target]
    own = len(operands), len(results)
    if any(wanted not in (count, None) for wanted, count in zip(counts, own, strict=True)):
        return None
    rule = RuleBuilder(operands, results)
    add(rule)
    return rule.build()


def _pointwise(rule: RuleBuilder) -> None:
    rule.pointwise(rule.result_sizes[0])


def _greatest(rule: RuleBuilder) -> None:
    rule.resized(NEED_REPLICATION, blocked=True)


def _reduced(rule: RuleBuilder) -> None:
    """Add the factors of reductions of arrays, followed by scalars, to fewer elements."""
    count = len(rule.result_sizes)
    absent, scalars = [ABSENT] * count, [ABSENT] * (len(rule.operand_sizes) - count)
    pairs = zip(rule.operand_sizes[0], rule.result_sizes[0], strict=True)
    for index, (size, kept) in enumerate(pairs):
        factors = [index] * count
        rule.add([*factors, *scalars], factors if size == kept else absent, size)
        if size != kept:
            rule.add([*absent, *scalars], factors, kept, NEED_REPLICATION, blocked=True)


def _eigen(rule: RuleBuilder) -> None:
    """Add the factors of matrices, eigenvectors in columns, and eigenvalues."""
    *others, columns = rule.operand_sizes[0]
    last = len(others)
    for index, size in enumerate(others):
        rule.add([index], [index, ABSENT if index == last - 1 else index], size)
    rule.add([last], [last, last - 1], columns)


def _reflectors(rule: RuleBuilder) -> None:
    """Add the factors of matrices, and of vectors of the factors of elementary reflectors."""
    sizes, count = rule.operand_sizes[0], len(rule.operand_sizes)
    tensors, rows = [*rule.operand_sizes, *rule.result_sizes], len(sizes) - 2

    def add(of_matrices: int, of_vectors: int, size: int) -> None:
        places = [of_matrices if len(tensor) == len(sizes) else of_vectors for tensor in tensors]
        rule.add(places[:count], places[count:], size, NEED_REPLICATION)

    for index in range(rows):
        rule.same(index, sizes[index])
    add(rows, ABSENT, sizes[rows])
    add(rows + 1, ABSENT, sizes[rows + 1])
    add(ABSENT, rows, next(tensor[-1] for tensor in tensors if len(tensor) < len(sizes)))


_POINTWISE = (
    *("CompactWyHelper", "Cholesky", "InspectSharding", "LayoutConstraint", "MoveToDevice"),
    *("InvertDiagBlocksLowerTriangular", "InvertDiagBlocksUpperTriangular", "MoveToHost"),
    *("X64Combine", "X64SplitHigh", "X64SplitLow", "annotate_device_placement", "mhlo.erf"),
    *("xla.megascale.provide_metadata", "_SPMDInternalOp_MultiPad", "_SPMDInternalOp_MultiRotate"),
    *("_SPMDInternalOp_MultiSlice", "_SPMDInternalOp_RotateRight"),
)
# Functions that add the factors, and the counts of operands and results; None: any count.
_FACTORS: dict[str, tuple[Callable[[RuleBuilder], None], int | None, int | None]] = {
    **dict.fromkeys(_POINTWISE, (_pointwise, None, None)),
    "mhlo.topk": (_greatest, 1, None),
    **dict.fromkeys(("ApproxTopK", "PartialReduce"), (_reduced, None, None)),
    "Eigh": (_eigen, 1, 2),
    **dict.fromkeys(("Qr", "QrDecompositionBlock"), (_reflectors, 1, 2)),
    "ProductOfElementaryHouseholderReflectors": (_reflectors, 2, 1),
}
