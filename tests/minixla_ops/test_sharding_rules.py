"""Sharding rules of operations, against Shardy's registry of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.graph import Graph
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import Shape
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers
from tests.minixla_ops import sharding_rows
from tests.minixla_ops.sharding_rows import TEXTS, WITHOUT_RULE, Row, program
from tests.oracles.sharding_rules import shardy_rules

ROWS = sharding_rows.rows()
# What is written as programs of other operations that XLA runs better.
_EXPANDED = "Fft", "ReduceWindow", "Scatter", "SelectAndScatter"


def own_rule(graph: Graph) -> str:
    """The text of the rule of a graph's last instruction, "" for none."""
    step = graph.instructions[-1]
    return str(step.op.sharding_rule(*[value.shape for value in step.operands]) or "")


def shardys_rule(name: str, text: str) -> str:
    """Shardy's for the last operation of that name in a program, or for a custom call."""
    names = f"stablehlo.{name}", f"sdy.{name}", "stablehlo.custom_call"
    return [rule for each, rule in shardy_rules(text) if each in names][-1]


@pytest.fixture(name="_plain_text")
def fixture_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every operation written as the one that it is."""
    for name in _EXPANDED:
        monkeypatch.setattr(REGISTRY[name], "stablehlo", Operation.stablehlo)
    monkeypatch.setattr(REGISTRY["CustomCall"], "_refuse_callback", lambda self: None)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.usefixtures("_plain_text")
def test_a_rule_is_that_of_shardys_registry(name: str):
    for row in ROWS[name]:
        graph = mx.make_graph(row.function)(*row.operands)
        assert own_rule(graph) == shardys_rule(name, graph.stablehlo()), row.shapes


@pytest.mark.parametrize("name", TEXTS)
def test_a_rule_of_what_is_read_is_that_of_shardys_registry(name: str):
    text = program(TEXTS[name])
    assert own_rule(mx.import_stablehlo(text).graph) == shardys_rule(name, text)


def test_every_entry_of_the_registry_is_in_the_table():
    shown = {*ROWS, *TEXTS}.difference(WITHOUT_RULE)
    assert shown == sharding_rows.REGISTRY
    assert len(shown) == 103


def test_what_the_registry_has_no_rule_for_has_none():
    graphs: list[Any] = [mx.make_graph(row.function)(*row.operands) for row in _without_rule()]
    graphs += [
        mx.make_graph(ROWS[target][0].function)(Shape("f32", (4, 8))) for target in WITHOUT_RULE
    ]
    assert [own_rule(graph) for graph in graphs] == [""] * len(graphs)


def _without_rule() -> list[Row]:
    """Operations that the registry knows to have none, or does not know."""
    pair = ("f32[4,8]",) * 2
    return [
        Row(lambda: ops.iota(Shape("s32", (4,)), 0), ()),
        Row(lambda: ops.constant(2.0), ()),
        Row(lambda x, y: ops.tuple([x, y]), pair),
        Row(lambda x, y: ops.optimization_barrier((x, y)), pair),
        Row(lambda x: ops.while_(lambda c: c.sum() < 1, lambda c: c + 1, x), pair[:1]),
    ]


def _sizes(random: np.random.Generator, product: int) -> tuple[int, ...]:
    """A factorisation of a number, with some ones."""
    sizes = []
    while product > 1:
        divisors = [each for each in range(2, product + 1) if product % each == 0]
        sizes.append(int(random.choice(divisors)))
        product //= sizes[-1]
        sizes += [1] * int(random.random() < 0.15)
    return tuple(sizes)


def _reshape(random: np.random.Generator) -> Row:
    product = int(random.choice([24, 36, 60, 72, 120, 180, 210, 360, 720, 840, 2520]))
    before, after = _sizes(random, product), _sizes(random, product)
    return Row(lambda x: ops.reshape(x, after), (f"f32[{','.join(map(str, before))}]",))


def _convolution(random: np.random.Generator) -> Row:
    size, kernel, stride, dilation, gap = map(int, random.integers(1, (13, 6, 4, 3, 3)))
    size = max(size, (kernel - 1) * gap + 1)
    groups, batches = ((1, 1), (2, 1), (1, 2))[random.integers(3)]
    window = {"window_strides": (stride,), "padding": (tuple(map(int, random.integers(0, 3, 2))),)}
    window |= {"lhs_dilation": (dilation,), "rhs_dilation": (gap,)}
    window |= {"feature_group_count": groups, "batch_group_count": batches}
    features, outputs = map(int, random.integers(1, 4, 2))
    return sharding_rows.convolution(
        f"{2 * batches},{size},{features * groups}",
        f"{kernel},{features},{outputs * groups * batches}",
        **window,
    )


def _dot_general(random: np.random.Generator) -> Row:
    sizes = [int(each) for each in random.integers(1, 5, 6)]
    roles = [int(each) for each in random.integers(0, 4, 6)]  # batch, contracting, lhs, rhs
    lhs, rhs = (
        [i for i in random.permutation(6) if roles[i] in kinds] for kinds in ((0, 1, 2), (0, 1, 3))
    )
    both = [[i for i in range(6) if roles[i] == kind] for kind in (1, 0)]
    numbers = tuple(tuple([x.index(i) for i in part] for x in (lhs, rhs)) for part in both)
    shapes = tuple(f"f32[{','.join(str(sizes[i]) for i in x)}]" for x in (lhs, rhs))
    return Row(lambda x, y: ops.dot_general(x, y, numbers), shapes)


def _reduce_window(random: np.random.Generator) -> Row:
    columns = random.integers(1, (9, 4, 3, 3, 3), (2, 5)).tolist()
    sizes, window, strides, base, gaps = zip(*columns, strict=True)
    padding = tuple(map(tuple, random.integers(0, 2, (2, 2)).tolist()))
    given = window, strides, padding, base, gaps
    shape = f"f32[{','.join(map(str, sizes))}]"
    return Row(lambda x, y: ops.reduce_window(x, y, ops.max, *given), (shape, "f32[]"))


def _gather(random: np.random.Generator) -> Row:
    """With all kinds of dimensions, each in random places."""
    operand = [int(each) for each in random.integers(1, 6, 4)]
    roles = random.integers(0, 3, 4).tolist()  # in windows, collapsed, of a batch
    windows, collapsed, batching = ([i for i in range(4) if roles[i] == kind] for kind in range(3))
    mapped = [int(i) for i in random.permutation([*windows, *collapsed])][: random.integers(5)]
    slices = [int(random.integers(1, operand[i] + 1)) if i in windows else 1 for i in range(4)]
    outer = [*[operand[i] for i in batching], *random.integers(1, 4, random.integers(3)).tolist()]
    order = [int(i) for i in random.permutation(len(outer))]
    indices, places = [outer[i] for i in order], [order.index(i) for i in range(len(batching))]
    at = int(random.integers(len(indices) + 1))
    places = [place + (place >= at) for place in places]
    offsets = sorted(random.permutation(len(indices) + len(windows))[: len(windows)].tolist())
    numbers = GatherDimensionNumbers(offsets, collapsed, mapped, at, batching, places)
    indices.insert(at, len(mapped))
    shapes = tuple(",".join(map(str, each)) for each in (operand, indices))
    function = lambda x, i: ops.gather(x, i, numbers, slices)  # noqa: E731
    return Row(function, (f"f32[{shapes[0]}]", f"s32[{shapes[1]}]"))


_RANDOM = {
    "reshape": _reshape,
    "convolution": _convolution,
    "dot_general": _dot_general,
    "reduce_window": _reduce_window,
    "gather": _gather,
}


@pytest.mark.full
@pytest.mark.parametrize("name", _RANDOM)
@pytest.mark.usefixtures("_plain_text")
def test_rules_of_random_operations_are_shardys(name: str):
    random = np.random.default_rng(0)
    for number in range(400):
        row = _RANDOM[name](random)
        graph = mx.make_graph(row.function)(*row.operands)
        shown = f"{number}: {row.shapes} {graph.instructions[-1].op}"
        assert own_rule(graph) == shardys_rule(name, graph.stablehlo()), shown
