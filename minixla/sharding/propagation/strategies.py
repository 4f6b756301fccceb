"""One step of propagation: derive the shardings of a step's tensors from each other.

Both strategies find, for each factor of the step's rule, the axes on which its tensors agree.
`basic` takes the axes that every tensor with the factor can take; `aggressive` lets each tensor
take as many as it can. Source: Shardy's `basic_factor_propagation.cc` and
`aggressive_factor_propagation.cc`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from minixla.sharding.axes import Part, size_of
from minixla.sharding.mesh import Mesh
from minixla.sharding.propagation.factors import Factor, Parts, Tensor

#: Returns how much of an axis a factor may take: all, a prefix, or None.
Limit = Callable[[Part, int], Part | None]
#: The directions of shardings along a factor: operands to results, back, or both (bits).
NONE, FORWARD, BACKWARD, BOTH = 0, 1, 2, 3


@dataclass
class Projection:
    """The tensors of a step, split by factors.

    Attributes:
        operands, results: its tensors.
        sizes: the size of each factor.
        is_elementwise: whether the step is an element-wise operation.
        mesh: the mesh of their shardings.
        only_whole: whether parts of axes are not propagated.
    """

    operands: Sequence[Tensor]
    results: Sequence[Tensor]
    sizes: Sequence[int]
    is_elementwise: bool
    mesh: Mesh
    only_whole: bool = False

    def __post_init__(self) -> None:
        self.tensors = [*self.operands, *self.results]

    def truncated(self, parts: Parts, limit: Limit) -> Parts:
        """Return the first of the axes, up to the first that is not taken whole."""
        size = 1
        for number, part in enumerate(parts):
            taken = limit(part, size)
            if taken is None or (self.only_whole and taken != self.mesh.whole_axes[taken.name]):
                return parts[:number]
            if taken != part:
                return (*parts[:number], taken)
            size *= part.size
        return parts

    def common_major(self, factor: int, direction: int) -> Parts:
        """Return the axes along a factor on which all tensors agree, as far as any tensor has them.

        Only tensors at the start of the direction contribute axes; the others may conflict.
        """
        givers = self.tensors
        if direction == FORWARD:
            givers = [*self.operands, *self.results]
        elif direction == BACKWARD:
            givers = [*self.results, *self.operands]
        elif direction == NONE:
            return ()
        count = (len(givers), len(self.operands), len(self.results))[direction % 3]
        found: Parts = ()
        may_grow = True
        for number, tensor in enumerate(givers):
            split = tensor.factors.get(factor)
            if split is None:
                continue
            may_grow = may_grow and (direction == BOTH or number < count)
            common = shared_prefix(found, split.parts)
            if common == found and may_grow:
                found = split.parts
            elif common != split.parts:
                found, may_grow = common, common == found and may_grow
        return found


def shared_prefix(first: Parts, second: Parts) -> Parts:
    """Return the longest common prefix of two lists of axes."""
    if not first or not second:
        return ()
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if one == other:
            continue
        for short, long, rest in ((one, other, first), (other, one, second)):
            if short.is_prefix_of(long):
                return rest[: number + 1]
        return first[:number]
    return min(first, second, key=len)


def without(part: Part, others: Iterable[Part]) -> Part | None:
    """Return the beginning of an axis that overlaps none of the others."""
    for other in others:
        if not part.can_coexist(other):
            return None
        if part.overlaps(other):
            before = part.before(other)
            if before is None:
                return None
            part = before
    return part


def _fits_in(factor: Factor, fixed: Parts, whole: int) -> Limit:
    """Return the limit of axes that a factor may take, regardless of other factors."""

    def limit(part: Part, size: int) -> Part | None:
        kept = without(part, fixed)
        if kept is None:
            return None
        if any(part.contains(kept) for part in factor.parts):
            return kept
        held = next((part for part in factor.parts if part.is_prefix_of(kept)), None)
        if factor.is_closed or factor.overflow:
            return held
        if not factor.is_minor:
            common = math.gcd(kept.size, whole // size) if whole % size == 0 else 1
            if common == 1:
                return held
            kept = Part(kept.name, kept.start, kept.start * common)
        return kept

    return limit


def _free_of_others(tensor: Tensor, factor: int) -> Limit:
    """Return the limit by which other factors of a tensor restrict an axis."""
    others = [
        part
        for other, split in tensor.factors.items()
        if other != factor
        for part in (*split.parts, *split.overflow)
    ]
    return lambda part, _: without(part, others)


def _update(tensor: Tensor, factor: int, parts: Parts) -> None:
    """Give a factor axes that extend its own."""
    split = tensor.factors.get(factor)
    if split is not None and shared_prefix(split.parts, parts) == split.parts:
        split.parts = parts


def basic(step: Projection, directions: Sequence[int]) -> None:
    """Give every tensor the axes that all tensors can take.

    Args:
        step: the tensors, which are changed.
        directions: the direction along each factor.
    """
    for factor, size in enumerate(step.sizes):
        parts = step.common_major(factor, directions[factor])
        for tensor in step.tensors:
            if parts:
                parts = step.truncated(parts, _both(tensor, factor, size))
        for tensor in step.tensors if parts else ():
            _update(tensor, factor, parts)


def _both(tensor: Tensor, factor: int, size: int) -> Limit:
    split, free = tensor.factors.get(factor), _free_of_others(tensor, factor)
    if split is None:
        return free
    fits = _fits_in(split, tensor.fixed, size)

    def limit(part: Part, before: int) -> Part | None:
        kept = fits(part, before)
        return None if kept is None else free(kept, before)

    return limit


def aggressive(step: Projection, directions: Sequence[int]) -> None:
    """Give each tensor the axes that it can take.

    If two factors compete for an axis of a tensor, the one that comes from the larger tensor gets
    it. See `basic` for arguments.
    """
    wanted = [step.common_major(factor, direction) for factor, direction in enumerate(directions)]
    if not any(wanted):
        return
    order = _order(step, wanted)
    numbers = range(len(step.tensors))
    if step.is_elementwise:
        # Results come first, and operands exchange only axes that results took.
        numbers = [*numbers[len(step.operands) :], *numbers[: len(step.operands)]]
    for number in numbers:
        tensor = step.tensors[number]
        if step.is_elementwise and number == 0:
            stated = step.results[0].factors  # a stated rule may have other factors besides
            wanted = [
                shared_prefix(parts, stated[factor].parts) if factor in stated else parts
                for factor, parts in enumerate(wanted)
            ]
        grown: dict[int, Parts] = {}
        for factor, split in tensor.factors.items():
            limit = _fits_in(split, tensor.fixed, step.sizes[factor])
            parts = step.truncated(wanted[factor], limit)
            if parts != split.parts and shared_prefix(split.parts, parts) == split.parts:
                grown[factor] = parts
        for factor in order:
            if factor in grown:
                parts = step.truncated(grown[factor], _free_of_others(tensor, factor))
                _update(tensor, factor, parts)


def _order(step: Projection, wanted: Sequence[Parts]) -> list[int]:
    """Return the factors in the order in which they get axes."""
    keys = []
    for factor, parts in enumerate(wanted):
        sources = [
            (-tensor.size, number)
            for number, tensor in enumerate(step.tensors)
            if factor in tensor.factors
            and shared_prefix(tensor.factors[factor].parts, parts) == parts
        ]
        if parts and sources:
            size, number = min(sources)
            strength = size_of(parts) if step.is_elementwise else 1
            keys.append((size, -strength, number, factor))
    return [factor for *_, factor in sorted(keys)]
