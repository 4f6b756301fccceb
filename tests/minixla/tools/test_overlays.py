"""Overlays: costs, layouts, NaN and errors of nodes, beside what others say of them."""

from __future__ import annotations

import math
import sys

import ml_dtypes
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.evaluators import EVALUATORS, Evaluator
from minixla.tools.explorer import shown_parts
from minixla.tools.graph_parts import every_step, inlined
from minixla.tools.oracle_values import Opinions
from minixla.tools.overlays import (
    Overlay,
    cost_overlays,
    error_overlays,
    finding_overlays,
    nan_overlay,
)
from minixla.tools.program_files import opened
from minixla_ops.programs.reference_evaluation import reference_graph

generator = np.random.default_rng(0)


def parts_of(fun, *args):
    return opened(mx.make_graph(fun)(*args))


def labelled(parts, values):
    """The values of an overlay by the labels of nodes, in order."""
    nodes = [node for part in parts for node in part.nodes()]
    return [(node.label, values[node.id]) for node in nodes if node.id in values]


def test_costs_are_those_of_the_report():
    x, w = np.ones((4, 8), "f4"), np.ones((8, 3), "f4")

    def layer(x, w):
        return mnp.tanh(x @ w).sum()

    flops, moved = cost_overlays(parts_of(layer, x, w))
    report = mx.cost(layer, x, w)
    assert labelled(parts_of(layer, x, w), flops.values)[:2] == [("dot_general", 192), ("tanh", 12)]
    own = {name: value for name, value in flops.values.items() if "." not in name}
    assert sum(map(float, own.values())) == report.total.flops + report.total.transcendentals
    own = {name: value for name, value in moved.values.items() if "." not in name}
    assert sum(map(float, own.values())) == report.total.bytes


F8 = ml_dtypes.float8_e5m2
NAN = {
    "made": (lambda x: mnp.log(x).sum(), np.array([-1.0, 1], "f4"), ["NaN is made here", "NaN"]),
    "given": (mnp.sin, np.array([np.nan], "f4"), ["NaN"]),
    "infinity": (lambda x: 1 / x, np.array([0.0], "f4"), ["infinity is made here"]),
    "NaN of infinity": (
        lambda x: (1 / x) * 0,
        np.zeros(1, "f4"),
        ["infinity is made here", "NaN is made here"],
    ),
    "none": (mnp.sin, np.ones(3, "f4"), []),
    "no floats": (lambda x: x + 1, np.ones(3, "i4"), []),
    "size 0": (mnp.log, np.ones((0, 3), "f4"), []),
    "bf16": (mnp.log, np.array([-1], ml_dtypes.bfloat16), ["NaN is made here"]),
    "f8": (lambda x: x - x, np.array([np.inf], F8), ["NaN is made here"]),
    "complex": (lambda x: x * 1, np.array([complex(0, math.nan)], "c8"), ["NaN"]),
    "branch": (
        lambda x: mx.cond(x[0] > 0, mnp.sin, mnp.log, x),
        np.array([-1.0], "f4"),
        ["NaN is made here", "NaN is made here"],  # the conditional, and log in its branch
    ),
    "late in a loop": (
        lambda x: mx.fori_loop(0, 3, lambda _, y: mnp.sqrt(y - 1), x),
        np.array([1.5], "f4"),
        ["NaN is made here", "NaN", "NaN is made here"],  # of while, sub and sqrt the worst
    ),
    "called": (lambda x: mx.jit(mnp.log)(x), np.array([-1.0], "f4"), ["NaN is made here"] * 2),
}  # fmt: skip


@pytest.mark.parametrize("case", NAN)
def test_where_nan_and_infinities_are_made(case):
    fun, x, words = NAN[case]
    parts = parts_of(fun, x)
    overlay = nan_overlay(parts, [x])
    assert [word for _, word in labelled(parts, overlay.values)] == words
    assert all(overlay.color(word).startswith("#") for word in words)


def test_errors_are_those_of_cross_check():
    def fun(x):
        return mnp.tanh(mnp.exp(x) * 3)

    x = generator.normal(size=(3, 5)).astype("f4")
    parts = parts_of(fun, x)
    opinions = Opinions([*EVALUATORS.values()], lambda step: None)
    overlays, refusals = error_overlays(parts, [x], opinions)
    assert not refusals
    known = {row.evaluator: row.ulp for row in mx.cross_check(fun, x, gradients=False).rows}
    last = f"{len(parts[0].graph.instructions) - 1}"
    found = {each.name: each.values[last] for each in overlays}
    assert set(known) == {"reference", "interpreter", "XLA"}
    assert found["error of reference in ulp"] == known["reference"]
    assert found["error of interpreter in ulp"] == known["interpreter"]
    # It fuses otherwise where intermediate values are asked for.
    assert found["error of XLA in ulp"] == pytest.approx(known["XLA"], abs=2)


def asked(evaluator):
    return Opinions([evaluator], lambda step: None)


def test_an_evaluator_that_is_wrong_somewhere_is_red_from_there_on():
    def wrong(graph, operands):
        results = reference_graph(graph, operands)
        names = [value.instruction.op.builder_name for value in graph.outputs]
        pairs = zip(results, names, strict=True)
        return [each * 2 if name in ("exp", "mul") else each for each, name in pairs]

    x = np.array([0.5], "f4")
    parts = parts_of(lambda x: mnp.exp(mnp.sin(x)) * 2, x)
    overlays, _ = error_overlays(parts, [x], asked(Evaluator("wrong", wrong)))
    overlay = next(each for each in overlays if "wrong" in each.name)
    found = dict(labelled(parts, overlay.values))
    assert found["sin"] <= 1 < 1e6 < min(found["exp"], found["mul"])
    assert overlay.color(found["sin"]) != overlay.color(found["exp"])


def test_infinite_errors_are_numbers_that_json_has():
    def nothing(graph, operands):
        return [np.full(value.shape.dimensions, np.nan, "f4") for value in graph.outputs]

    x = np.ones(2, "f4")
    parts = parts_of(mnp.sin, x)
    overlays, _ = error_overlays(parts, [x], asked(Evaluator("nothing", nothing)))
    overlay = overlays[-1]
    assert overlay.values == {"0": sys.float_info.max}
    assert overlay.shown(sys.float_info.max) == "inf" and overlay.color(sys.float_info.max)


def test_an_evaluator_that_cannot_be_asked_is_told():
    def refuses(graph, operands):
        raise NotImplementedError("not today")

    x = np.ones(2, "f4")
    overlays, notes = error_overlays(parts_of(mnp.sin, x), [x], asked(Evaluator("shy", refuses)))
    assert [each.name for each in overlays] == ["error of reference in ulp"]
    assert notes == ["no errors of shy: not today"]


def test_layouts_are_those_that_propagation_finds():
    mesh = mx.sharding.Mesh(None, ("rows",), shape=(4,))

    def fun(x):
        return mnp.tanh(mx.sharding.constrain(x, P("rows"), mesh=mesh))

    graph = mx.make_graph(fun)(np.ones((8, 2), "f4"))
    parts, overlays, _ = shown_parts(graph)
    layout, held = overlays[2:]
    shown = dict(labelled(parts, layout.values))
    assert shown["tanh"] == shown["args[0]"] and "rows" in str(shown["tanh"])
    assert dict(labelled(parts, held.values))["tanh"] == 8 * 2 * 4 / 4
    assert layout.color(shown["tanh"]).startswith("#")
    assert "layout" in next(n for n in parts[0].nodes() if n.label == "tanh").attributes


def test_colours_of_numbers_go_from_white_to_red():
    overlay = Overlay("cost", {"0": 10.0, "1": 5.0})
    assert [overlay.color(value) for value in (0.0, 10.0)] == ["#ffffff", "#ff5050"]
    assert Overlay("none", {}).color(0.0) == "#ffffff"


def test_nested_programs_have_the_values_of_their_own_runs():
    def fun(x):
        return mx.jit(lambda y: mnp.exp(y))(x)

    x = np.ones(3, "f4")
    graph = mx.make_graph(fun)(x)
    parts = opened(graph)
    overlays, _ = error_overlays(parts, [x], asked(EVALUATORS["XLA"]))
    alone, _ = error_overlays(opened(inlined(graph)), [x], asked(EVALUATORS["XLA"]))
    assert overlays[-1].values["0.0.0"] == alone[-1].values["0"] == overlays[-1].values["0"]


def wrong_sine(graph, operands):
    """The reference, but for the sines among the outputs and what is alone behind one."""
    results = reference_graph(graph, operands)
    is_wrong = any(step.op.name == "Sin" for step in every_step(graph))
    return [each * 2 for each in results] if is_wrong else results


def lost(x):
    return (mnp.cos(x) + 1e6) - 1e6


X = np.array([0.5, 0.25], "f4")
#: Of a function: the findings by the names of their nodes, and an evaluator that is wrong.
FOUND = {
    "none": (mnp.cos, {}, {}),
    "called": (lambda x: mx.jit(lambda y: mnp.sin(y) + 1)(x), {"0.0.0": "rule"}, wrong_sine),
    "in a loop": (
        lambda x: mx.fori_loop(0, 2, lambda _, y: mx.jit(mnp.sin)(y), x),
        {"2.1.0.0.0": "rule"},
        wrong_sine,
    ),
    "digits are lost": (lost, {"3": "cancellation"}, {}),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_cross_check_found_is_at_its_nodes(case):
    fun, wanted, wrong = FOUND[case]
    given = {"wrong": wrong} if wrong else {}
    report = mx.cross_check(fun, X, gradients=False, evaluators=given)
    parts = opened(report.graph)
    (errors, kinds), elsewhere = finding_overlays(parts, report)
    labels = {node.id: node.label for part in parts for node in part.nodes()}
    assert kinds.values == wanted and not elsewhere
    assert [labels[name] for name in wanted] == [each.operation for each in report.findings]
    assert all(float(errors.values[each.node]) == each.ulp for each in report.places)
    assert all(errors.color(errors.values[name]) != "#c8e6c9" for name in wanted)
    made = parts[0].graph.outputs[0].instruction
    result = parts[0].graph.instructions.index(made)
    assert errors.values[str(result)] == max(row.ulp for row in report.rows)


def test_findings_in_derivatives_are_told():
    @mx.custom_jvp
    def double(x):
        return x * 2

    double.defjvp(lambda primals, tangents: (primals[0] * 2, lost(tangents[0])))
    report = mx.cross_check(double, X)
    overlays, elsewhere = finding_overlays(opened(report.graph), report)
    assert any(text.startswith("found in the forward derivative") for text in elsewhere)
    assert set(overlays[1].values.values()) <= {"derivative"}
