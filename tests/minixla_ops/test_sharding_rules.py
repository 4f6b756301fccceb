"""Sharding rules of operations, against Shardy's registry of them."""

from __future__ import annotations

from typing import Any

import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.graph import Graph
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import Shape
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
