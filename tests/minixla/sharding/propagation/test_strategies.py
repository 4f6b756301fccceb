"""What one step of propagation gives each tensor, by each strategy, as Shardy has it."""

from __future__ import annotations

import random
import re

import pytest

from minixla.core.sharding_rule import ShardingRule
from minixla.engine.shardy import shardy_pass
from minixla.sharding.axes import merged
from minixla.sharding.mesh import Mesh
from minixla.sharding.propagation.factors import Tensor
from minixla.sharding.propagation.strategies import (
    BACKWARD,
    BOTH,
    FORWARD,
    NONE,
    Projection,
    aggressive,
    basic,
)
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding
from minixla.sharding.text import parse_sharding
from tests.minixla.sharding.random_programs import type_of

STRATEGIES = {"basic": basic, "aggressive": aggressive}
NAMES = "abcdefg"
MESH = Mesh(None, list(NAMES), [2, 2, 2, 2, 2, 2, 2])
WIDE = Mesh(None, ["a", "b"], [8, 2])


def _tensor(sharding, dimensions, sizes, mesh):
    found = sharding and parse_sharding(f"<@m, {sharding}>", {"m": mesh})
    return Tensor(dimensions, found, sizes)


def _step(rule, shardings, mesh=MESH, *, is_elementwise=False, only_whole=False):
    given = ShardingRule.parse(rule)
    tensors = [
        _tensor(sharding, dimensions, given.sizes, mesh)
        for sharding, dimensions in zip(shardings, given.operands + given.results, strict=True)
    ]
    count = len(given.operands)
    operands, results = tensors[:count], tensors[count:]
    return Projection(operands, results, given.sizes, is_elementwise, mesh, only_whole)


def _after(step, strategy, direction=BOTH):
    strategy(step, [direction] * len(step.sizes))
    found = [each.sharding_of(step.mesh, "m") for each in step.tensors]
    return [each and str(each).removeprefix("<@m, ").removesuffix(">") for each in found]


@pytest.mark.parametrize(
    ("axes", "common"),
    [
        (['"a", "b"', '"a", "c"'], '"a"'),
        (['"a"', "", '"a", "b", "c"', '"a", "b", "d"'], '"a", "b"'),
        (['"a", "b", "c"', '"a", "b", "d"', '"a", "b", "e"'], '"a", "b"'),
        (['"a":(1)2', '"a":(1)4'], '"a":(1)4'),
        (['"a":(1)2, "b"', '"a":(1)4'], '"a":(1)2'),
        (["", ""], ""),
    ],
)
def test_common_axes_are_those_that_nobody_contradicts(axes, common):
    mesh = WIDE if "(" in str(axes) else MESH
    rule = f"({', '.join(['[i]'] * len(axes))})->([i]) {{i=64}}"
    step = _step(rule, [f"[{{{each}}}]" for each in axes] + [None], mesh)
    found = step.common_major(0, BOTH)
    assert ", ".join(str(mesh.axis(part)) for part in found) == common


@pytest.mark.parametrize(
    ("direction", "common"), [(FORWARD, "a"), (BACKWARD, "a b"), (BOTH, "a b"), (NONE, "")]
)
def test_axes_come_from_the_tensors_that_the_direction_leaves(direction, common):
    step = _step("([i])->([i]) {i=64}", ['[{"a", ?}]', '[{"a", "b", ?}]'])
    assert " ".join(part.name for part in step.common_major(0, direction)) == common


def test_the_example_of_the_documentation():
    # Rows are tensors, columns factors: along the first a and b pass on, along the second c.
    rule = "([i, j, k], [i, j, k])->([i, j, k]) {i=64, j=64, k=64}"
    step = _step(
        rule,
        [
            '[{"a", ?}, {?}, {"f", ?}]',
            '[{"a", "b", ?}, {"c", "d", ?}, {"g", ?}]',
            '[{?}, {"c", "e", ?}, {?}]',
        ],
    )
    assert _after(step, basic) == [
        '[{"a", "b", ?}, {"c", ?}, {"f", ?}]',
        '[{"a", "b", ?}, {"c", "d", ?}, {"g", ?}]',
        '[{"a", "b", ?}, {"c", "e", ?}, {?}]',
    ]


_MATRICES = "([i, k], [j, l])->([i, j]) {i=8, j=8, k=2, l=16}"


@pytest.mark.parametrize(
    ("strategy", "rule", "given", "wanted"),
    [
        # The larger operand's dimension has the axis; with basic propagation none has.
        (basic, _MATRICES, ['[{"a"}, {}]', '[{"a"}, {}]', None], None),
        (aggressive, _MATRICES, ['[{"a"}, {}]', '[{"a"}, {}]', None], '[{?}, {"a", ?}]'),
        # Closed dimensions and replicated axes are left alone.
        (aggressive, "([i])->([i]) {i=8}", ['[{"a"}]', "[{}]"], "[{}]"),
        (
            basic,
            "([i])->([i]) {i=8}",
            ['[{"b", "a"}]', '[{?}], replicated={"a"}'],
            '[{"b", ?}], replicated={"a"}',
        ),
        # An axis that does not divide a factor which is not the last is used in part.
        (basic, "([i, j])->([ij]) {i=6, j=4}", ['[{"a"}, {"b"}]', None], '[{"a":(1)2, ?}]'),
    ],
)
def test_one_step(strategy, rule, given, wanted):
    mesh = WIDE if wanted and "(" in wanted else MESH
    assert _after(_step(rule, given, mesh), strategy)[-1] == wanted


def test_operands_of_elementwise_operations_get_nothing_that_the_result_does_not_take():
    rule, given = "([i], [i])->([i]) {i=8}", ['[{"a"}]', "[{?}]", "[{}]"]
    assert _after(_step(rule, given, is_elementwise=True), aggressive)[1] == "[{?}]"
    assert _after(_step(rule, given), aggressive)[1] == '[{"a", ?}]'


def test_of_elementwise_operations_the_more_divided_dimension_comes_first():
    rule = "([i, j], [i, j])->([i, j]) {i=8, j=8}"
    given = ['[{"a", ?}, {?}]', '[{?}, {"a", "b", ?}]', None]
    assert _after(_step(rule, given, is_elementwise=True), aggressive)[2] == '[{?}, {"a", "b", ?}]'
    assert _after(_step(rule, given), aggressive)[2] == '[{"a", ?}, {?}]'


def test_parts_of_axes_stay_where_they_are_in_careful_propagation():
    rule, given = "([i])->([i]) {i=8}", ['[{"b", "a":(1)2}]', None]
    for only_whole, wanted in ((False, '[{"b", "a":(1)2, ?}]'), (True, '[{"b", ?}]')):
        assert _after(_step(rule, given, WIDE, only_whole=only_whole), basic)[1] == wanted


# Random steps: custom calls with rules.

_MESHES = ([2, 2, 2], [4, 2, 8], [2, 3, 4], [6, 4, 2, 2], [16], [8, 2], [2, 2, 2, 2, 2])


def _random_rule(draw):
    count = draw.randint(1, 5)
    sizes = [draw.choice((1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16)) for _ in range(count)]
    tensors = []
    for _ in range(draw.randint(2, 5)):
        factors = [factor for factor in range(count) if draw.random() < 0.75]
        draw.shuffle(factors)
        dimensions: list[list[int]] = []
        for factor in factors:
            is_joined = dimensions and min(sizes[factor], sizes[dimensions[-1][-1]]) > 1
            if is_joined and draw.random() < 0.35:
                dimensions[-1].append(factor)
            else:
                dimensions.append([factor])
        tensors.append(tuple(map(tuple, dimensions)))
    if len({each for tensor in tensors for factors in tensor for each in factors}) < count:
        return _random_rule(draw)
    at = draw.randint(1, min(3, len(tensors) - 1))
    return ShardingRule(tuple(tensors[:at]), tuple(tensors[at:]), tuple(sizes))


def _random_sharding(draw, mesh, rank):
    parts = []
    for whole in mesh.whole_axes.values():
        cuts = [each for each in range(2, whole.end) if whole.end % each == 0]
        at = draw.choice(cuts) if cuts and draw.random() < 0.3 else whole.end
        pieces = [whole._replace(end=at), whole._replace(start=at)]
        parts += [piece for piece in pieces if piece.start < piece.end]
    draw.shuffle(parts)
    lists = [[] for _ in range(rank + 2)]
    for part in parts:
        if draw.random() < 0.75:
            where = draw.randrange(rank) if rank and draw.random() < 0.9 else draw.choice((-2, -1))
            lists[where].append(part)
    axes = [tuple(map(mesh.axis, merged(each))) for each in lists[:rank]]
    apart = [tuple(map(mesh.axis, merged(mesh.sorted_parts(each)))) for each in lists[rank:]]
    dimensions = [DimensionSharding(each, draw.random() < 0.3) for each in axes]
    return TensorSharding(mesh, tuple(dimensions), *apart, "m")


def _tensor_type(dimensions, sizes):
    found = []
    for factors in dimensions:
        size = 1
        for factor in factors:
            size *= sizes[factor]
        found.append(size)
    return type_of(tuple(found))


def _call(number, rule, shardings):
    """A custom call with a rule, and its arguments, as text."""
    tensors = (*rule.operands, *rule.results)
    types = [_tensor_type(dimensions, rule.sizes) for dimensions in tensors]
    count = len(rule.operands)
    names = [f"%x{number}_{index}" for index in range(count)]
    arguments = [
        f"{name}: {type_}" + (f" {{sdy.sharding = {sharding.attribute}}}" if sharding else "")
        for name, type_, sharding in zip(names, types, shardings, strict=False)
    ]
    said = [str(each) for each in shardings[count:] if each is not None]
    shown = f"sdy.sharding = #sdy.sharding_per_value<[{', '.join(said)}]>, " if said else ""
    line = (
        f"%r{number}:{len(types) - count} = stablehlo.custom_call @f({', '.join(names)}) "
        f"{{has_side_effect = true, {shown}sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}} : "
        f"({', '.join(types[:count])}) -> ({', '.join(types[count:])})"
    )
    return line, arguments


def _read(text, meshes):
    """The shardings of arguments, then of each call's results, as Shardy left them."""
    found = []
    for line in text.splitlines():
        if "func.func" in line:
            for argument in re.split(r"%arg\d+: ", line)[1:]:
                said = re.search(r"#sdy\.sharding(<.*>)\}", argument)
                found.append(said and parse_sharding(said[1], meshes))
        elif "custom_call" in line:
            said = re.search(r"per_value<\[(.*>)\]>, sdy", line)
            each = re.findall(r"<@m, \[.*?\](?:, \w+=\{[^}]*\})*>", said[1]) if said else []
            results = line.rpartition("->")[2].count("tensor")
            shardings = [parse_sharding(one, meshes) for one in each] or [None] * results
            found.append(shardings)
    return found


def _differing(seed, name, only_whole):
    draw = random.Random(seed)
    sizes = draw.choice(_MESHES)
    mesh = Mesh(None, list(NAMES[: len(sizes)]), sizes)
    steps = []
    for _ in range(40):
        rule = _random_rule(draw)
        says_results = draw.random() < 0.4
        shardings = [
            _random_sharding(draw, mesh, len(dimensions)) if is_said else None
            for tensors, chance in ((rule.operands, 0.7), (rule.results, float(says_results)))
            for dimensions in tensors
            for is_said in [draw.random() < chance]
        ]
        steps.append((rule, shardings))
    lines, arguments = zip(
        *[_call(number, *step) for number, step in enumerate(steps)], strict=True
    )
    given = ", ".join(each for some in arguments for each in some)
    body = "\n".join(lines)
    text = f"sdy.mesh @m = {mesh}\nfunc.func @main({given}) {{\n{body}\nreturn }}"
    options = f"keep-sharding-rules=true conservative-propagation={str(only_whole).lower()}"
    left = _read(shardy_pass(text, f"sdy-{name}-propagate{{{options}}}"), {"m": mesh})
    inputs = sum(map(len, arguments))
    wanted, results = iter(left[:inputs]), iter(left[inputs:])
    for rule, shardings in steps:
        tensors = [
            Tensor(dimensions, sharding, rule.sizes)
            for dimensions, sharding in zip((*rule.operands, *rule.results), shardings, strict=True)
        ]
        count = len(rule.operands)
        step = Projection(tensors[:count], tensors[count:], rule.sizes, False, mesh, only_whole)
        STRATEGIES[name](step, [BOTH] * len(rule.sizes))
        found = [each.sharding_of(mesh, "m") for each in tensors]
        shardys = [*(next(wanted) for _ in range(count)), *next(results)]
        for own, theirs in zip(found, shardys, strict=True):
            if own != theirs and (own is not None or any(each.axes for each in theirs.dimensions)):
                yield f"{rule} {[str(each) for each in shardings]}: {own}, Shardy: {theirs}"


@pytest.mark.drawn
@pytest.mark.parametrize("only_whole", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_steps_of_random_rules_are_shardys(name, only_whole, request):
    seeds = range(60 if request.config.getoption("full") else 2)
    assert [each for seed in seeds for each in _differing(seed, name, only_whole)] == []
