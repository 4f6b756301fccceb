"""What programs cost: against hand counts and XLA's own analysis; peak memory."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.operation import REGISTRY
from minixla.tools import costs
from minixla.tools.cost_reports import cost_report
from minixla.tools.costs import Cost, byte_count, element_count, graph_cost, peak_bytes, summed

X = np.ones((4, 8), "f4")
VECTOR = np.ones(16, "f4")


# (function, operands, flops, transcendentals, whether XLA counts as many)
CASES = {
    "elementwise": (lambda x: x * x + 1, [X], 64, 0, True),
    "functions": (lambda x: mnp.exp(x) + mnp.tanh(x), [X], 32, 64, True),
    "movement": (lambda x: ops.reshape(ops.transpose(x, (1, 0)), (32,)), [X], 0, 0, True),
    "dot": (lambda x: x @ ops.transpose(x, (1, 0)), [X], 2 * 8 * 16, 0, True),
    "batched dot": (
        lambda x: mnp.einsum("bij,bjk->bik", x, x),
        [np.ones((2, 3, 3), "f4")],
        2 * 3 * 18,
        0,
        True,
    ),
    "reduce": (lambda x: x.sum(), [X], 31, 0, True),
    "reduce rows": (lambda x: x.max(axis=1), [X], 28, 0, True),
    "comparison and select": (lambda x: mnp.where(x > 0, x, -x), [X], 96, 0, True),
    "call": (lambda x: mx.jit(lambda y: y * y)(x), [X], 32, 0, True),
    "loop": (
        lambda x: mx.fori_loop(0, 10, lambda i, y: y * y, x),
        [X],
        10 * (32 + 1 + 1),
        0,
        False,
    ),
    "branch": (lambda x: mx.cond(x[0, 0] > 0, mnp.exp, add_twice, x), [X], 1 + 64, 0, False),
    "sort": (lambda x: ops.sort([x], lambda a, b: ops.lt(a, b), 0), [VECTOR], 64, 0, False),
    "fft": (lambda x: ops.fft(x, "FFT", (16,)), [VECTOR.astype("c8")], 5 * 16 * 4, 0, False),
    "cholesky": (lambda x: ops.cholesky(x), [np.eye(6, dtype="f4")], 72, 0, False),
    "reduce_scatter": (
        lambda x: ops.reduce_scatter(x, ops.add, 0, 2, [[0, 1]]),
        [VECTOR],
        8,
        0,
        False,
    ),
    "user's operation": (lambda x: ops.top_k(x, 2), [VECTOR], 64, 0, False),
}


def add_twice(x):
    return x + x + x


@pytest.mark.parametrize("name", CASES)
def test_counts(name):
    function, operands, flops, transcendentals, is_xlas = CASES[name]
    graph = mx.make_graph(function)(*operands)
    cost = graph_cost(graph)
    assert (cost.flops, cost.transcendentals) == (flops, transcendentals)
    if is_xlas:
        theirs = cost_report(graph).xla
        assert (theirs.get("flops", 0), theirs.get("transcendentals", 0)) == (
            flops,
            transcendentals,
        )


def test_convolutions_count_what_xla_counts():
    x, w = np.ones((2, 10, 3), "f4"), np.ones((3, 3, 5), "f4")

    def convolve(x, w):
        numbers = ("NWC", "WIO", "NWC")
        return jax.lax.conv_general_dilated(x, w, (1,), "VALID", dimension_numbers=numbers)

    graph = mx.make_graph(convolve)(x, w)
    assert graph_cost(graph).flops == 2 * 9 * (2 * 8 * 5) == cost_report(graph).xla["flops"]


def test_windows_and_scatters():
    x = np.ones((1, 8, 8, 1), "f4")

    def pooled(x):
        return mx.nn.max_pool(x, (2, 2), (2, 2)).sum()

    assert graph_cost(mx.make_graph(pooled)(x)).flops == 16 * 3 + 15
    backward = graph_cost(mx.make_graph(mx.grad(pooled))(x))
    assert backward.flops >= 16 * 3 + 16
    indexed = mx.make_graph(lambda x, i: x.at[i].add(1.0))(VECTOR, np.arange(4))
    assert graph_cost(indexed).flops < 60


def test_an_unknown_number_of_iterations_is_told():
    graph = mx.make_graph(lambda x: mx.while_loop(lambda y: y.sum() < 9, lambda y: y * 2, x))(X)
    cost = graph_cost(graph)
    assert cost.is_bound is False and cost.flops == 31 + 1 + 32
    assert "number of iterations is not known" in str(cost_report(graph, with_xla=False))


def test_bytes_and_elements():
    shapes = [mx.Shape("s4", (3,)), mx.Shape("pred", (3,)), mx.Shape("c64", (2,)), mx.core.TOKEN]
    assert byte_count(shapes) == 2 + 3 + 16
    assert element_count([mx.TupleShape(shapes)]) == 8
    assert summed([Cost(1, 2, 3), Cost(1, 1, 1)]).times(2) == Cost(4, 6, 8)


def test_every_name_in_the_table_is_an_operation():
    names = set(costs._RULES) - {"StopGradient"}
    assert names <= set(REGISTRY)


# (function, most bytes at one time), for an argument of 128 bytes
PEAKS = {
    "nothing": (lambda x: x, 128),
    "one after the other": (lambda x: mnp.tanh(mnp.exp(mnp.sin(x))), 3 * 128),
    "all at once": (lambda x: mnp.exp(x) + mnp.sin(x) * mnp.cos(x), 5 * 128),
    "unused": (lambda x: (mnp.exp(x), x)[1], 128),
}


@pytest.mark.parametrize("name", PEAKS)
def test_peak_memory(name):
    function, most = PEAKS[name]
    assert peak_bytes(mx.make_graph(function)(X)) == most


def test_peak_memory_of_what_runs_inside():
    graph = mx.make_graph(lambda x: mx.fori_loop(0, 3, lambda i, y: mnp.exp(y) + mnp.sin(y), x))(X)
    body = next(each for step in graph.instructions for each in step.op.computations[1:])
    inside = peak_bytes(body) - byte_count(body.input_shapes)
    assert inside >= 3 * 128
    assert peak_bytes(graph) >= 2 * 128 + inside


def test_the_report_in_every_form():
    report = cost_report(mx.make_graph(lambda x: mnp.exp(x) * x @ x.T)(X))
    assert [row.operation for row in report.rows[:2]] == ["dot_general", "mul"]
    text, page = str(report), report._repr_html_()
    assert text == repr(report) and "XLA's" in text and "dot_general" in text
    assert page.count("<table>") == 2
    told = report.as_dict()
    assert told["total"]["flops"] == 256 + 32 and told["rows"][0]["count"] == 1
    assert set(told["xla"]) >= {"flops", "bytes", "arguments", "results", "peak"}
    assert cost_report(mx.make_graph(mnp.exp)(X), with_xla=False).xla == {}
