"""Shardings of a step's tensors, split by the factors of its rule, and joined again.

A sharding rule states the factors of each dimension of each tensor, major to minor. Axes of a
dimension are assigned to its factors in that order; an axis may be split between two of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from minixla.core.sharding_rule import ShardingRule
from minixla.sharding.axes import Part, merged, size_of
from minixla.sharding.mesh import Mesh
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding

Parts = tuple[Part, ...]


@dataclass(slots=True)
class Factor:
    """The sharding of one factor of one tensor.

    Attributes:
        parts: the axes, major to minor.
        is_closed: whether the dimension that contains it takes no more axes.
        is_minor: whether it is the minor-most of its dimension, which may be padded.
        overflow: axes of the dimension that none of its factors can take. They stay in place, and
            no axes may come between.
    """

    parts: Parts
    is_closed: bool
    is_minor: bool
    overflow: Parts = ()


class Tensor:
    """One tensor of a step, with the sharding of each of its factors.

    Attributes:
        dimensions: the factors of each dimension.
        factors: the sharding of each of them.
        fixed: axes that must not shard the tensor (replicated or unreduced).
        size: the number of its elements, without factors that it lacks.
    """

    __slots__ = ("dimensions", "factors", "fixed", "sharding", "size", "sizes")

    def __init__(
        self,
        dimensions: Sequence[Sequence[int]],
        sharding: TensorSharding | None,
        sizes: Sequence[int],
    ) -> None:
        self.dimensions, self.sharding, self.sizes = dimensions, sharding, sizes
        self.factors: dict[int, Factor] = {}
        self.fixed: Parts = ()
        for number, factors in enumerate(dimensions):
            if sharding is None:
                parts, is_closed = (), False
            else:
                parts, is_closed = sharding.parts[number], sharding.dimensions[number].is_closed
            self._split(factors, parts, is_closed)
        if sharding is not None:
            axes = (*sharding.replicated, *sharding.unreduced)
            self.fixed = tuple(map(sharding.mesh.part, axes))
        self.size = math.prod([sizes[factor] for factor in self.factors])

    def _split(self, factors: Sequence[int], parts: Sequence[Part], is_closed: bool) -> None:
        """Assign the axes of a dimension to its factors; the last factor takes the rest.

        This ends at an axis if a factor that is not full cannot take more of it. The remaining axes
        are the overflow of that factor and block the next one. Later factors are then missing.
        """
        left = list(reversed(parts))
        overflow: Parts = ()
        for factor in factors:
            is_minor = factor == factors[-1]
            self.factors[factor] = split = Factor((), is_closed, is_minor, overflow)
            if overflow:
                return
            split.parts = tuple(left[::-1] if is_minor else _taken(left, self.sizes[factor]))
            if left and not is_minor and size_of(split.parts) != self.sizes[factor]:
                split.overflow = overflow = tuple(reversed(left))

    def put(self, axes: Sequence[Parts]) -> None:
        """Shard it along some axes of each factor."""
        for factors in self.dimensions:
            for factor in factors:
                is_minor = factor == factors[-1]
                self.factors[factor] = Factor(axes[factor], True, is_minor)

    def parts(self) -> tuple[Parts, ...]:
        """Return the axes of each dimension."""
        dimensions = []
        for factors in self.dimensions:
            parts: list[Part] = []
            for factor in factors:
                split = self.factors[factor]
                parts += (*split.parts, *split.overflow)
                if size_of(split.parts) != self.sizes[factor]:
                    break  # axes of the next factor would replace those that this one lacks
            dimensions.append(tuple(merged(parts)))
        return tuple(dimensions)

    def sharding_of(self, mesh: Mesh, mesh_name: str | None) -> TensorSharding | None:
        """Return the sharding of the whole tensor."""
        found = self.parts()
        sharding = self.sharding
        if sharding is None:
            if not any(found):
                return None
            return TensorSharding.open(mesh, len(found), mesh_name).with_parts(found)
        if sharding.parts == found:
            return sharding
        pairs = zip(found, sharding.dimensions, strict=True)
        dimensions = [
            DimensionSharding(tuple(map(mesh.axis, parts)), old.is_closed) for parts, old in pairs
        ]
        if sharding.mesh.is_empty:
            return TensorSharding(mesh, dimensions, mesh_name=mesh_name)
        return sharding.of(dimensions=dimensions)


def tensors_of(rule: ShardingRule, shardings: Sequence[TensorSharding | None]) -> list[Tensor]:
    """Return the tensors of a step with a rule, operands first."""
    pairs = zip((*rule.operands, *rule.results), shardings, strict=True)
    return [Tensor(dimensions, sharding, rule.sizes) for dimensions, sharding in pairs]


def joined(
    dimensions: Sequence[Sequence[int]], axes: Sequence[Parts], sizes: Sequence[int]
) -> tuple[Parts, ...]:
    """Return the axes of each dimension of a tensor that is sharded along axes of factors."""
    tensor = Tensor(dimensions, None, sizes)
    tensor.put(axes)
    return tensor.parts()


def _taken(left: list[Part], size: int) -> list[Part]:
    """Take as much from `left`, whose last axis is the most major, as a factor can hold.

    Axes of size one always fit.
    """
    taken: list[Part] = []
    while left:
        part = left[-1]
        common = math.gcd(part.size, size)
        if common == 1 and part.size > 1:
            break
        left.pop()
        middle = part.start * common
        taken.append(Part(part.name, part.start, middle))
        size //= common
        if middle < part.end:
            left.append(Part(part.name, middle, part.end))
            break
    return taken
