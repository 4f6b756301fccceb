"""Sharding rules in the notation `i j, j k -> i k`, as for JAX's `def_partition`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any, NoReturn

from minixla.core.errors import AttributeValueError, explain
from minixla.core.shapes import ShapeList
from minixla.core.sharding_rule import (
    BLOCKED,
    NEED_REPLICATION,
    PERMUTATION,
    REDUCTION,
    ShardingRule,
    Tensor,
)

#: The names of factors of each dimension; one of `...` stands for any number of dimensions.
Named = tuple[tuple[str, ...], ...]

_SUBJECT = "sharding rule"
_DIMENSION = re.compile(r"\(([^()]*)\)|(\.\.\.\d*)|(\w+)")
_NAME = re.compile(r"[^\W\d]\w*")
_FORM = (
    "Write the factors of each dimension between spaces, arrays between commas: `i j, j k -> i k`, "
    "with `(i j)` for a dimension of two factors, and `...` in front for those of a batch."
)
_SETS = (REDUCTION, NEED_REPLICATION, PERMUTATION, BLOCKED)


@dataclass(frozen=True, slots=True)
class ShardingNotation:
    """A sharding rule for operands of any sizes.

    Attributes:
        text: the original text.
        operands, results: for each array and dimension, the names of its factors, major to minor.
        sets: the names of the factors that are summed over, need replication, are permuted or are
            blocked, by ShardingRule's names of these sets.
        sizes: the sizes of factors that are not a whole dimension.
    """

    text: str
    operands: tuple[Named, ...]
    results: tuple[Named, ...]
    sets: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]

    @classmethod
    def parse(cls, text: str, sizes: Mapping[str, int], **sets: Any) -> "ShardingNotation":
        """Parse the notation.

        Args:
            text: `i j, j k -> i k`.
            sizes: the sizes of factors that are not a whole dimension.
            sets: `reduction`, `need_replication`, `permutation` and `blocked`: names of factors, in
                one string or several.

        Raises:
            AttributeValueError: the text is not a rule, or names a factor where it cannot be.
        """
        sides = text.split("->") if isinstance(text, str) else []
        if len(sides) != 2:
            _refuse(text, "there must be one arrow")
        operands, results = (
            tuple(_tensor(text, tensor_text) for tensor_text in s.split(",")) for s in sides
        )
        names = {n for tensor in (*operands, *results) for d in tensor for n in d}
        chosen = {kind: _names(sets.get(kind, ())) for kind in _SETS}
        kinds = [name for kind in _SETS[:3] for name in chosen[kind]]
        for name in [*kinds, *chosen[BLOCKED], *sizes]:
            if name not in names:
                _refuse(text, f"no array has the factor {name}")
            if kinds.count(name) > 1:
                _refuse(text, f"the factor {name} is in two sets")
        return cls(text, operands, results, chosen, dict(sizes))

    def rule(self, operands: ShapeList, results: ShapeList) -> ShardingRule:
        """Return the rule for shapes.

        Raises:
            AttributeValueError: the shapes do not fit it.
        """
        every = [*self.operands, *self.results]
        shapes = [*operands, *results]
        if (len(operands), len(results)) != (len(self.operands), len(self.results)):
            numbers = f"{len(operands)} operands and {len(results)} results"
            _refuse(self.text, f"the operation has {numbers}", shapes)
        dimensions = [getattr(shape, "dimensions", ()) for shape in shapes]
        pairs = zip(every, dimensions, strict=True)
        tensors = [self._spread(tensor, len(sizes), shapes) for tensor, sizes in pairs]
        found = dict(self.sizes)
        sized = [*zip(chain(*tensors), chain(*dimensions), strict=True)]
        for names, size in sized:
            if len(names) == 1:
                self._size(names[0], size, found, shapes)
        for names, size in sized:
            if len(names) > 1:
                self._check_product(names, size, found, shapes)
        order = dict.fromkeys(name for names, _ in sized for name in names)
        numbers = {name: number for number, name in enumerate(order)}
        mapped: list[Tensor] = [
            tuple(tuple(numbers[name] for name in names) for names in tensor) for tensor in tensors
        ]
        count = len(operands)
        sets: dict[str, Any] = {
            kind: frozenset(numbers[name] for name in names) for kind, names in self.sets.items()
        }
        mapped_sides = (
            tuple(mapped[:count]),
            tuple(mapped[count:]),
            tuple(found[name] for name in order),
        )
        rule = ShardingRule(*mapped_sides, **sets, is_custom=True)
        rule.check()
        return rule

    def _spread(self, tensor: Named, rank: int, shapes: ShapeList) -> Named:
        """Return the factors of each of `rank` dimensions; `...` becomes numbered factors."""
        batched = [names for names in tensor if names[0].startswith("...")]
        more = rank - len(tensor) + len(batched)
        if more < 0 or (more and not batched):
            problem = f"an array of rank {rank} has {len(tensor) - len(batched)} dimensions there"
            _refuse(self.text, problem, shapes)
        leading = [(f"{names[0]}_{index}",) for names in batched for index in range(more)]
        return (*leading, *tensor[len(batched) :])

    def _size(self, name: str, size: int, sizes: dict[str, int], shapes: ShapeList) -> None:
        known_size = sizes.setdefault(name, size)
        if known_size == size:
            return
        if not any(name in self.sets[kind] for kind in (NEED_REPLICATION, PERMUTATION)):
            _refuse(self.text, f"the factor {name} has the sizes {known_size} and {size}", shapes)
        sizes[name] = max(known_size, size)

    def _check_product(
        self, names: Sequence[str], size: int, sizes: dict[str, int], shapes: ShapeList
    ) -> None:
        unknown = [name for name in names if name not in sizes]
        rest = prod(sizes[name] for name in names if name in sizes)
        if len(unknown) == 1 and rest and size % rest == 0:
            sizes[unknown[0]] = size // rest
        elif unknown:
            advice = f"its size must be given: sizes={{{unknown[-1]!r}: ...}}"
            _refuse(self.text, f"the factor {unknown[-1]} is not a dimension; {advice}", shapes)
        elif rest != size:
            _refuse(self.text, f"({' '.join(names)}) has the size {rest}, not {size}", shapes)


def _names(stated: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(re.split(r"[\s,]+", stated.strip()) if isinstance(stated, str) else stated)


def _tensor(text: str, inside: str) -> Named:
    dimensions = []
    if _DIMENSION.sub("", inside).strip():
        _refuse(text, f"{inside.strip()!r} is not a list of factors")
    for several, batched, name in _DIMENSION.findall(inside):
        names = tuple(several.split()) if several or not (batched or name) else (batched or name,)
        if not names or any(not (batched or _NAME.fullmatch(name)) for name in names):
            _refuse(text, f"{inside.strip()!r} contains an invalid name of a factor")
        if batched and dimensions:
            _refuse(text, f"{inside.strip()!r} does not have `...` in front")
        dimensions.append(names)
    flat = [name for names in dimensions for name in names]
    if len(set(flat)) < len(flat):
        _refuse(text, f"{inside.strip()!r} has a factor twice")
    return tuple(dimensions)


def _refuse(text: Any, problem: str, shapes: ShapeList = ()) -> NoReturn:
    details = [repr(text), *([f"shapes: {', '.join(map(str, shapes))}"] if shapes else [])]
    raise explain(AttributeValueError, _SUBJECT, problem, details, _FORM)
