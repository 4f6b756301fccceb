"""Sharding rules: which factors the dimensions of an operation's operands and results are made of.

`([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k}` is the rule of a matrix product: what is
split along a factor in one tensor may be split along it in every other. Source: Shardy's
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

#: A tensor that has no dimension of a factor.
ABSENT = -1
#: The kinds of factors, and a mark beside the kind.
PASS_THROUGH = "pass_through"
REDUCTION = "reduction"
NEED_REPLICATION = "need_replication"
PERMUTATION = "permutation"
BLOCKED = "blocked"
# The sets of a rule, in the order of its text, and their names there.
_SETS = {name: name for name in (REDUCTION, NEED_REPLICATION, PERMUTATION)}
_SETS[BLOCKED] = "blocked_propagation"

# Factors are called i, j, ..., z, z_1, z_2, ...
_LETTERS = "ijklmnopqrstuvwxyz"
_SYMBOL = r"z_\d+|[i-z]"
_RULE = r"\s*\(([^()]*)\)\s*->\s*\(([^()]*)\)(?:\s*\{([^{}]*)\})?(.*)"
_DIMENSIONS = r"\[([^\[\]]*)\]"
_SET = r"\s*(\w+)\s*=\s*\{([^{}]*)\}"
_WRAPPED = r"\s*#sdy\.op_sharding_rule\s*<(.*)>\s*"
_FORM = "A rule reads `([i, k], [k, j])->([i, j]) {i=4, j=6, k=8} reduction={k}`"


@dataclass(frozen=True, slots=True)
class ShardingRule:
    """The sharding rule of an operation for operands of some shapes.

    A factor that is in none of the sets passes through: a block of the results along it follows
    from the blocks of the operands along it.

    Attributes:
        operands, results: per tensor and dimension the factors that it is made of, major to minor.
        sizes: of each factor.
        reduction: factors over which partial results are combined.
        need_replication: factors along which the whole tensor is needed.
        permutation: factors along which a block follows from its own and a neighbouring one, or one
            elsewhere, at the price of a collective permutation.
        blocked: factors along which no sharding is propagated, whatever their kind.
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
        """The kind of a factor: `pass_through`, `reduction`, `need_replication`, `permutation`."""
        kinds = (REDUCTION, NEED_REPLICATION, PERMUTATION)
        return next((kind for kind in kinds if factor in getattr(self, kind)), PASS_THROUGH)

    def check(self, operand_ranks: Sequence[int] = (), result_ranks: Sequence[int] = ()) -> None:
        """Raises AttributeValueError where the rule breaks the rules for rules.

        Args:
            operand_ranks: the ranks that its operands must have; default: any.
            result_ranks: those of its results.
        """
        problem = self._problem_in(self.operands, operand_ranks, "operand")
        problem = problem or self._problem_in(self.results, result_ranks, "result")
        problem = problem or self._problem_of_factors()
        if problem:
            advice = "Each dimension has one factor or more, each factor is in one set at most."
            raise explain(AttributeValueError, "sharding rule", problem, [str(self)], advice)

    def _problem_in(self, tensors: tuple[Tensor, ...], ranks: Sequence[int], kind: str) -> str:
        if ranks and len(ranks) != len(tensors):
            return f"it has {len(tensors)} {kind}s, and the operation {len(ranks)}"
        for index, tensor in enumerate(tensors):
            factors = [*chain.from_iterable(tensor)]
            if ranks and len(tensor) != ranks[index]:
                return f"{kind} {index} has {len(tensor)} dimensions there, and rank {ranks[index]}"
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
        """How many first dimensions are in all tensors the same factors, which pass through."""
        count = 0
        for first, *others in zip(*self.operands, *self.results, strict=False):
            is_one = len(first) == 1 and all(other == first for other in others)
            if not is_one or self.kind(first[0]) != PASS_THROUGH or first[0] in self.blocked:
                break
            count += 1
        return count

    @property
    def attribute(self) -> str:
        """The attribute of an operation that states the rule in StableHLO."""
        return f"sdy.sharding_rule = #sdy.op_sharding_rule<{self}>"

    def hint(self, batch_dimensions: int = 0) -> str:
        """What states the rule in StableHLO: see `Emitter.operation`.

        Args:
            batch_dimensions: along how many first dimensions XLA may split a call by itself, of
                code that is registered for that.
        """
        batch = f'mhlo.frontend_attributes = {{num_batch_dims = "{batch_dimensions}"}}, '
        return f" {{{batch if batch_dimensions else ''}{self.attribute}}}"

    @classmethod
    def parse(cls, text: str) -> "ShardingRule":
        """The rule of a text as `str` gives, alone or in `#sdy.op_sharding_rule<...>`.

        Raises:
            AttributeValueError: the text is no rule, or the rule is not valid.
        """
        wrapped = re.fullmatch(_WRAPPED, text, flags=re.DOTALL)
        match = re.fullmatch(_RULE, wrapped[1] if wrapped else text, flags=re.DOTALL)
        if match is None:
            _refuse(text, "it is no list of operands, results and sizes of factors")
        operands, results, sizes, rest = match.groups()
        rest, rest_of_mark, last = rest.rpartition(",")
        is_custom = bool(rest_of_mark) and last.strip() == "custom"
        rest = rest if is_custom else f"{rest}{rest_of_mark}{last}"
        pairs = re.findall(_SET, rest)
        sets = {name: frozenset(_read_set(text, inside)) for name, inside in pairs}
        expected = [name for name in _SETS.values() if name in sets]
        if re.sub(_SET, "", rest).strip() or [name for name, _ in pairs] != expected:
            _refuse(text, f"after the sizes stands {rest.strip()!r}")
        given_sets = {name: sets.get(written, frozenset()) for name, written in _SETS.items()}
        taken, made = (_read_tensors(text, side) for side in (operands, results))
        rule = cls(taken, made, _read_sizes(text, sizes or ""), **given_sets, is_custom=is_custom)
        rule.check()
        return rule


class RuleBuilder:
    """Collects the factors of a rule; those of dimensions that get none have the size 1.

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
        """Adds a factor; one of size 1 not to dimensions that have others.

        Args:
            operands: for each operand the dimension of which the factor is the next minor part,
                or ABSENT.
            results: the same for the results.
            size: its size.
            kind: PASS_THROUGH, REDUCTION, NEED_REPLICATION or PERMUTATION.
            blocked: whether no sharding is propagated along it.

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
        """Adds a factor which is this dimension in every tensor that has it; see `add`."""
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
        """Adds a factor for each dimension.

        Args:
            sizes: of the dimensions.
            kinds: the kinds of those that do not pass through.
            blocked: those along which no sharding is propagated.

        Returns:
            This object.
        """
        for dimension, size in enumerate(sizes):
            self.same(dimension, size, kinds.get(dimension, PASS_THROUGH), dimension in blocked)
        return self

    def resized(self, kind: str, blocked: bool = False) -> "RuleBuilder":
        """Adds a factor for each dimension of the first operand, of its size.

        Those in which the first result has another size are of the kind given, the others pass
        through.
        """
        sizes = self.operand_sizes[0]
        pairs = enumerate(zip(sizes, self.result_sizes[0], strict=True))
        other = {index: kind for index, (size, result) in pairs if size != result}
        return self.pointwise(sizes, other, other if blocked else ())

    def build(self) -> ShardingRule:
        """The rule."""
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
    """The rule of an element-wise operation: scalars among others have no factors."""
    rule = RuleBuilder(operands, results)
    return rule.pointwise(rule.result_sizes[0]).build()


def factor_symbol(factor: int) -> str:
    """What the text calls a factor: `i` to `z`, then `z_1`, `z_2`, ..."""
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
        _refuse(text, f"{inside.strip()!r} is no list of factors")
    return tuple(map(_factor, re.findall(_SYMBOL, inside)))


def _read_tensors(text: str, tensors: str) -> tuple[Tensor, ...]:
    between, listed = re.sub(_DIMENSIONS, "", tensors), re.findall(_DIMENSIONS, tensors)
    if between.strip(", \t\n"):
        _refuse(text, f"between operands or results stands {between.strip()!r}")
    parts = [dimension.split(",") if dimension.strip() else [] for dimension in listed]
    return tuple(tuple(_read_symbols(text, part) for part in dimension) for dimension in parts)


def _read_set(text: str, inside: str) -> Collection[int]:
    factors = [*chain.from_iterable(_read_symbols(text, symbol) for symbol in inside.split(","))]
    if factors != sorted(set(factors)):
        _refuse(text, f"the factors {{{inside}}} are not in order")
    return factors


def _read_sizes(text: str, inside: str) -> tuple[int, ...]:
    pairs = [pair.split("=") for pair in inside.split(",") if pair.strip()]
    for index, pair in enumerate(pairs):
        if len(pair) != 2 or not pair[1].strip().isdecimal():
            _refuse(text, f"{'='.join(pair).strip()!r} is no size of a factor")
        if pair[0].strip() != factor_symbol(index):
            expected = factor_symbol(index)
            _refuse(text, f"the size of {pair[0].strip()!r} stands where that of {expected} must")
    return tuple(int(size) for _, size in pairs)


def _refuse(text: str, problem: str) -> NoReturn:
    advice = f"{_FORM}, as str(rule) gives it."
    raise explain(AttributeValueError, "sharding rule", problem, [text], advice)
