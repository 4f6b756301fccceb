"""Sharding rules: the factors of the dimensions of an operation's operands and results.

`([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k}` is the rule of a matrix product. If a
tensor is sharded along a factor, all other tensors may be sharded along it, too. Source: Shardy's
`OpShardingRuleAttr` (openxla/shardy, `shardy/dialect/sdy/ir/attrs.td`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, NoReturn

from minixla.core.errors import AttributeValueError, explain
from minixla.core.shapes import AnyShape, ShapeList

#: The factors of a dimension, major to minor, and of each dimension of a tensor.
Dimension = tuple[int, ...]
Tensor = tuple[Dimension, ...]

#: The dimension index for a tensor without the factor.
ABSENT = -1
#: The kinds of factors, and an additional mark.
PASS_THROUGH = "pass_through"
REDUCTION = "reduction"
NEED_REPLICATION = "need_replication"
PERMUTATION = "permutation"
BLOCKED = "blocked"
# The sets of a rule, in the order of its text, and their names in the text.
_SETS = {name: name for name in (REDUCTION, NEED_REPLICATION, PERMUTATION)}
_SETS[BLOCKED] = "blocked_propagation"

# Factors are named i, j, ..., z, z_1, z_2, ...
_LETTERS = "ijklmnopqrstuvwxyz"
_SYMBOL = r"z_\d+|[i-z]"
_RULE = r"\s*\(([^()]*)\)\s*->\s*\(([^()]*)\)(?:\s*\{([^{}]*)\})?(.*)"
_DIMENSIONS = r"\[([^\[\]]*)\]"
_SET = r"\s*(\w+)\s*=\s*\{([^{}]*)\}"
_WRAPPED = r"\s*#sdy\.op_sharding_rule\s*<(.*)>\s*"
_FORM = "Write a rule as `([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k}`"


@dataclass(frozen=True, slots=True)
class ShardingRule:
    """The sharding rule of an operation for given operand shapes.

    A factor in none of the sets passes through: a block of the results along it depends only on
    blocks of the operands along it.

    Attributes:
        operands, results: the factors of each dimension of each tensor, major to minor.
        sizes: the sizes of the factors.
        reduction: factors over which partial results are combined.
        need_replication: factors along which the whole tensor is required.
        permutation: factors along which a block depends on the same and a neighboring block, or
            on another block. A collective permutation moves them.
        blocked: factors along which shardings are not propagated, of any kind.
        is_custom: whether a user stated it.
    """

    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    sizes: tuple[int, ...]
    reduction: frozenset[int] = frozenset()
    need_replication: frozenset[int] = frozenset()
    permutation: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    is_custom: bool = False

    def kind(self, factor: int) -> str:
        """Return the kind of a factor: pass_through, reduction, need_replication or permutation."""
        kinds = (REDUCTION, NEED_REPLICATION, PERMUTATION)
        return next((kind for kind in kinds if factor in getattr(self, kind)), PASS_THROUGH)

    def check(self, operand_ranks: Sequence[int] = (), result_ranks: Sequence[int] = ()) -> None:
        """Raise AttributeValueError if the rule is invalid.

        Args:
            operand_ranks: the required ranks of its operands; default: any.
            result_ranks: the required ranks of its results; default: any.
        """
        problem = self._problem_in(self.operands, operand_ranks, "operand")
        problem = problem or self._problem_in(self.results, result_ranks, "result")
        problem = problem or self._problem_of_factors()
        if problem:
            advice = "Each dimension needs at least one factor; each factor is in at most one set."
            raise explain(AttributeValueError, "sharding rule", problem, [str(self)], advice)

    def _problem_in(self, tensors: tuple[Tensor, ...], ranks: Sequence[int], kind: str) -> str:
        if ranks and len(ranks) != len(tensors):
            return f"it has {len(tensors)} {kind}s, but the operation {len(ranks)}"
        for index, tensor in enumerate(tensors):
            factors = [*chain.from_iterable(tensor)]
            if ranks and len(tensor) != ranks[index]:
                return f"{kind} {index} has {len(tensor)} dimensions, but rank {ranks[index]}"
            if () in tensor:
                return f"dimension {tensor.index(())} of {kind} {index} has no factor"
            if len(set(factors)) < len(factors):
                twice = next(factor for factor in factors if factors.count(factor) > 1)
                return f"{kind} {index} has the factor {factor_symbol(twice)} twice"
            unknown = [factor for factor in factors if not 0 <= factor < len(self.sizes)]
            if unknown:
                return f"the factor {factor_symbol(unknown[0])} of {kind} {index} has no size"
        return ""

    def _problem_of_factors(self) -> str:
        used = set(chain.from_iterable(chain.from_iterable(self.operands + self.results)))
        sets = (self.reduction, self.need_replication, self.permutation)
        for factor, size in enumerate(self.sizes):
            name = factor_symbol(factor)
            if factor not in used:
                return f"no tensor has the factor {name}"
            if size < 0:
                return f"the factor {name} has the size {size}"
            if sum(factor in factors for factors in sets) > 1:
                return f"the factor {name} is in two sets"
        strange = [factor for factor in chain(*sets, self.blocked) if factor not in used]
        return f"no tensor has the factor {factor_symbol(strange[0])}" if strange else ""

    def __str__(self) -> str:
        operands, results = map(_tensors_text, (self.operands, self.results))
        names = map(factor_symbol, range(len(self.sizes)))
        pairs = zip(names, self.sizes, strict=True)
        sizes = ", ".join(f"{name}={size}" for name, size in pairs)
        text = f"({operands})->({results})" + (f" {{{sizes}}}" if sizes else "")
        for name, written in _SETS.items():
            if factors := getattr(self, name):
                text += f" {written}={{{', '.join(map(factor_symbol, sorted(factors)))}}}"
        return f"{text}, custom" if self.is_custom else text

    @property
    def batch_dimensions(self) -> int:
        """The number of leading dimensions that are equal pass-through factors in all tensors."""
        count = 0
        for first, *others in zip(*self.operands, *self.results, strict=False):
            is_one = len(first) == 1 and all(other == first for other in others)
            if not is_one or self.kind(first[0]) != PASS_THROUGH or first[0] in self.blocked:
                break
            count += 1
        return count

    @property
    def attribute(self) -> str:
        """The attribute that states the rule in StableHLO."""
        return f"sdy.sharding_rule = #sdy.op_sharding_rule<{self}>"

    def hint(self, batch_dimensions: int = 0) -> str:
        """Return the text that states the rule in StableHLO; see `Emitter.operation`.

        Args:
            batch_dimensions: the number of leading dimensions along which XLA may partition a
                call of code that is registered for that.
        """
        batch = f'mhlo.frontend_attributes = {{num_batch_dims = "{batch_dimensions}"}}, '
        return f" {{{batch if batch_dimensions else ''}{self.attribute}}}"

    @classmethod
    def parse(cls, text: str) -> "ShardingRule":
        """Parse a rule as printed by `str`, or inside `#sdy.op_sharding_rule<...>`.

        Raises:
            AttributeValueError: the text is not a rule, or the rule is invalid.
        """
        wrapped = re.fullmatch(_WRAPPED, text, flags=re.DOTALL)
        match = re.fullmatch(_RULE, wrapped[1] if wrapped else text, flags=re.DOTALL)
        if match is None:
            _refuse(text, "it must list operands, results and sizes of factors")
        operands, results, sizes, rest = match.groups()
        rest, rest_of_mark, last = rest.rpartition(",")
        is_custom = bool(rest_of_mark) and last.strip() == "custom"
        rest = rest if is_custom else f"{rest}{rest_of_mark}{last}"
        pairs = re.findall(_SET, rest)
        sets = {name: frozenset(_read_set(text, inside)) for name, inside in pairs}
        expected = [name for name in _SETS.values() if name in sets]
        if re.sub(_SET, "", rest).strip() or [name for name, _ in pairs] != expected:
            _refuse(text, f"unexpected {rest.strip()!r} after the sizes")
        given_sets = {name: sets.get(written, frozenset()) for name, written in _SETS.items()}
        taken, made = (_read_tensors(text, side) for side in (operands, results))
        rule = cls(taken, made, _read_sizes(text, sizes or ""), **given_sets, is_custom=is_custom)
        rule.check()
        return rule


class RuleBuilder:
    """Collect the factors of a rule; dimensions without factors get one of size 1.

    Example:
        >>> from minixla.core.shapes import Shape
        >>> shapes = [Shape("f32", (4, 8)), Shape("f32", (8, 6))]
        >>> rule = RuleBuilder(shapes, Shape("f32", (4, 6)))
        >>> rule = rule.add([0, ABSENT], [0], 4).add([ABSENT, 1], [1], 6)
        >>> str(rule.add([1, 0], [ABSENT], 8, REDUCTION).build())
        '([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k}'
    """

    def __init__(self, operands: ShapeList, results: AnyShape | tuple[AnyShape, ...]) -> None:
        listed = results if isinstance(results, tuple) else (results,)
        self.operand_sizes = [_sizes(shape) for shape in operands]
        self.result_sizes = [_sizes(shape) for shape in listed]
        every = [*self.operand_sizes, *self.result_sizes]
        self._tensors: list[list[list[int]]] = [[[] for _ in sizes] for sizes in every]
        self._sizes: list[int] = []
        self._sets: dict[str, set[int]] = {}

    def add(
        self,
        operands: Sequence[int],
        results: Sequence[int],
        size: int,
        kind: str = PASS_THROUGH,
        blocked: bool = False,
    ) -> "RuleBuilder":
        """Add a factor; a factor of size 1 only to dimensions without other factors.

        Args:
            operands: for each operand, the dimension whose next minor part is the factor, or
                ABSENT.
            results: the same for the results.
            size: the size of the factor.
            kind: PASS_THROUGH, REDUCTION, NEED_REPLICATION or PERMUTATION.
            blocked: whether shardings are not propagated along it.

        Returns:
            This object.
        """
        pairs = zip(self._tensors, [*operands, *results], strict=True)
        places = [tensor[dimension] for tensor, dimension in pairs if dimension != ABSENT]
        if size == 1:
            places = [place for place in places if not place]
        if places:
            for place in places:
                place.append(len(self._sizes))
            for name in (kind, BLOCKED) if blocked else (kind,):
                self._sets.setdefault(name, set()).add(len(self._sizes))
            self._sizes.append(size)
        return self

    def same(
        self, dimension: int, size: int, kind: str = PASS_THROUGH, blocked: bool = False
    ) -> "RuleBuilder":
        """Add a factor for this dimension of every tensor that has it; see `add`."""
        every = self.operand_sizes, self.result_sizes
        operands, results = (
            [dimension if dimension < len(sizes) else ABSENT for sizes in part] for part in every
        )
        return self.add(operands, results, size, kind, blocked)

    def pointwise(
        self,
        sizes: Sequence[int],
        kinds: Mapping[int, str] = MappingProxyType({}),
        blocked: Collection[int] = (),
    ) -> "RuleBuilder":
        """Add a factor for each dimension.

        Args:
            sizes: the sizes of the dimensions.
            kinds: the kinds of dimensions that do not pass through.
            blocked: dimensions along which shardings are not propagated.

        Returns:
            This object.
        """
        for dimension, size in enumerate(sizes):
            self.same(dimension, size, kinds.get(dimension, PASS_THROUGH), dimension in blocked)
        return self

    def resized(self, kind: str, blocked: bool = False) -> "RuleBuilder":
        """Add a factor for each dimension of the first operand.

        Dimensions whose size differs in the first result have the given kind; others pass through.
        """
        sizes = self.operand_sizes[0]
        pairs = enumerate(zip(sizes, self.result_sizes[0], strict=True))
        other = {index: kind for index, (size, result) in pairs if size != result}
        return self.pointwise(sizes, other, other if blocked else ())

    def build(self) -> ShardingRule:
        """Return the rule."""
        for tensor in self._tensors:
            for dimension in tensor:
                if not dimension:
                    dimension.append(len(self._sizes))
                    self._sizes.append(1)
        tensors = [tuple(map(tuple, tensor)) for tensor in self._tensors]
        count = len(self.operand_sizes)
        operands, results = tuple(tensors[:count]), tuple(tensors[count:])
        sets: dict[str, Any] = {
            name: frozenset(self._sets[name]) for name in _SETS if name in self._sets
        }
        return ShardingRule(operands, results, tuple(self._sizes), **sets)


def pointwise_rule(operands: ShapeList, results: AnyShape | tuple[AnyShape, ...]) -> ShardingRule:
    """Build the rule of an element-wise operation; scalars have no factors."""
    rule = RuleBuilder(operands, results)
    return rule.pointwise(rule.result_sizes[0]).build()


def factor_symbol(factor: int) -> str:
    """Return a factor's name in text: `i` to `z`, then `z_1`, `z_2`, ..."""
    last = len(_LETTERS) - 1
    return _LETTERS[factor] if 0 <= factor <= last else f"z_{factor - last}"


def _factor(symbol: str) -> int:
    last = len(_LETTERS) - 1
    return last + int(symbol[2:]) if symbol.startswith("z_") else _LETTERS.index(symbol)


def _sizes(shape: AnyShape) -> tuple[int, ...]:
    # Tuples and tokens have no dimensions.
    return getattr(shape, "dimensions", ())


def _tensors_text(tensors: tuple[Tensor, ...]) -> str:
    def text(tensor: Tensor) -> str:
        return ", ".join("".join(map(factor_symbol, dimension)) for dimension in tensor)

    return ", ".join(f"[{text(tensor)}]" for tensor in tensors)


def _read_symbols(text: str, inside: str) -> Dimension:
    if re.sub(_SYMBOL, "", inside).strip() or not inside.strip():
        _refuse(text, f"{inside.strip()!r} is not a list of factors")
    return tuple(map(_factor, re.findall(_SYMBOL, inside)))


def _read_tensors(text: str, tensors: str) -> tuple[Tensor, ...]:
    between, listed = re.sub(_DIMENSIONS, "", tensors), re.findall(_DIMENSIONS, tensors)
    if between.strip(", \t\n"):
        _refuse(text, f"unexpected {between.strip()!r} between operands or results")
    parts = [dimension.split(",") if dimension.strip() else [] for dimension in listed]
    return tuple(tuple(_read_symbols(text, part) for part in dimension) for dimension in parts)


def _read_set(text: str, inside: str) -> Collection[int]:
    factors = [*chain.from_iterable(_read_symbols(text, symbol) for symbol in inside.split(","))]
    if factors != sorted(set(factors)):
        _refuse(text, f"the factors {{{inside}}} must be in order")
    return factors


def _read_sizes(text: str, inside: str) -> tuple[int, ...]:
    pairs = [pair.split("=") for pair in inside.split(",") if pair.strip()]
    for index, pair in enumerate(pairs):
        if len(pair) != 2 or not pair[1].strip().isdecimal():
            _refuse(text, f"{'='.join(pair).strip()!r} is not the size of a factor")
        if pair[0].strip() != factor_symbol(index):
            expected = factor_symbol(index)
            _refuse(text, f"expected the size of {expected}, not of {pair[0].strip()!r}")
    return tuple(int(size) for _, size in pairs)


def _refuse(text: str, problem: str) -> NoReturn:
    advice = f"{_FORM}, as printed by str(rule)."
    raise explain(AttributeValueError, "sharding rule", problem, [text], advice)
