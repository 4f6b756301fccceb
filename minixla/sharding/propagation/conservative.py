"""Sharding rules of conservative propagation, which passes no axes where elements would move."""

from dataclasses import replace
from itertools import count

from minixla.core.sharding_rule import ShardingRule, Tensor
from minixla_ops.movement.reshaping import Rev
from minixla_ops.movement.slicing import ConcatInDim
from minixla_ops.products.convolution import ConvGeneralDilated


def conservative(rule: ShardingRule, op: object) -> ShardingRule:
    """Return the rule of an operation without factors that need communication between neighbors.

    Dimensions along which arrays are joined, or windows of a convolution move, then have separate
    factors. Along dimensions that are sliced, padded or reduced in windows, nothing is propagated.
    """
    if isinstance(op, Rev):
        return rule
    if not isinstance(op, (ConcatInDim, ConvGeneralDilated)):
        return replace(rule, blocked=rule.blocked | rule.permutation)
    moved = rule.permutation | rule.need_replication
    kept = [factor for factor in range(len(rule.sizes)) if factor not in moved]
    numbers = {old: new for new, old in enumerate(kept)}
    fresh = count(len(kept))

    def own(tensor: Tensor) -> Tensor:
        # Removed factors have size 1, and are separate in each tensor.
        return tuple([tuple(map(renumbered, factors)) for factors in tensor])

    def renumbered(factor: int) -> int:
        return numbers[factor] if factor in numbers else next(fresh)

    operands, results = (tuple(map(own, tensors)) for tensors in (rule.operands, rule.results))
    sizes = [rule.sizes[factor] for factor in kept]
    sizes += [1] * (next(fresh) - len(sizes))
    reduction = frozenset(numbers[factor] for factor in rule.reduction if factor in numbers)
    return ShardingRule(operands, results, tuple(sizes), reduction)
