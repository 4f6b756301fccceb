"""Programs as nodes: which there are, what is said of them, and those that are run within them."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.program_files import opened

X = np.ones((4, 8), "f4")
FILE = "test_program_files.py"


def squared(x):
    return x * x


def looped(x):
    return mx.fori_loop(0, 3, lambda _, y: y + 1, mx.jit(squared)(x))


def nodes_of(fun, *args):
    return {node.id: node for part in opened(mx.make_graph(fun)(*args)) for node in part.nodes()}


def test_a_node_says_what_it_is_what_it_costs_and_where_it_stands():
    line = squared.__code__.co_firstlineno + 1
    node = nodes_of(squared, X)["0"]
    assert node.label == "mul" and node.shapes == ["f32[4,8]"]
    assert node.groups == (f"squared ({FILE})", f"line {line}")
    assert node.reads == [("input0", 0, "lhs"), ("input0", 0, "rhs")]
    said = node.attributes
    assert (said["shape"], said["flops"], said["bytes"]) == ("f32[4,8]", "32", "384")
    assert said["line"].endswith(f"{FILE}:{line} (squared)")


@pytest.mark.parametrize(
    ("fun", "name", "attribute", "text"),
    [
        (lambda x: x + 1.5, "0", "literal", "f32[4,8] 1.5"),
        (lambda x: x[0, :2] + np.array([1, 2], "f4"), "2", "literal", "f32[2] [1.0, 2.0]"),
        (lambda x: x[0] + np.arange(40, dtype="f4")[:8] @ np.eye(8, dtype="f4"), "2", "bytes", ""),
        (lambda x: mnp.transpose(x), "0", "permutation", "(1, 0)"),
    ],
)
def test_attributes_are_there(fun, name, attribute, text):
    nodes = nodes_of(fun, X)
    found = [node.attributes.get(attribute, "") for node in nodes.values()]
    assert text in found, nodes[name]


def test_programs_that_are_run_are_groups_within():
    nodes = nodes_of(looped, X)
    loop = next(node for node in nodes.values() if node.label == "while_")
    body = [node for node in nodes.values() if node.id.startswith(f"{loop.id}.1.")]
    assert [node.label for node in body][:3] == ["input 0", "input 1", "input 2"]
    assert body[-1].label == "results" and "add" in [node.label for node in body]
    assert all(node.groups[:2] == loop.groups for node in body)
    assert body[0].groups[2].startswith(f"{loop.id} while_: body ")
    assert body[0].reads == [(loop.id, 0, "run by")]
    called = nodes["0.0.0"]
    assert called.label == "mul" and "0 call: computation squared" in called.groups


def test_every_operand_is_a_node_that_stands_before():
    for fun in (
        looped,
        mx.grad(lambda x: looped(x).sum()),
        lambda x: mx.cond(x[0, 0] > 0, squared, mnp.sin, x),
    ):
        known: set[str] = set()
        for part in opened(mx.make_graph(fun)(X)):
            for node in part.nodes():
                assert node.id not in known
                assert {source for source, *_ in node.reads} <= known
                known.add(node.id)


def doubled(depth):
    fun = squared
    for _ in range(depth):
        fun = mx.jit((lambda inner: lambda x: inner(x) + inner(x))(fun))
    return fun


def test_a_program_in_many_places_is_opened_once_where_there_would_be_too_many_nodes():
    graph = mx.make_graph(doubled(3))(X)
    assert len(opened(graph)) == 8  # the program, 1, 2, 4
    assert len(opened(graph, most=20)) == 4
    assert len(opened(mx.make_graph(doubled(40))(X))) == 41


def test_names_of_groups_do_not_grow_with_the_depth():
    fun = squared
    for _ in range(100):
        fun = mx.jit((lambda inner: lambda x: inner(x) + 1)(fun))
    parts = opened(mx.make_graph(fun)(X))
    assert len(parts) == 101 and max(len(part.groups) for part in parts) <= 61


@pytest.mark.parametrize("fun", [lambda: None, lambda: mnp.zeros((0, 3))])
def test_programs_without_inputs(fun):
    assert nodes_of(fun)["results"].label == "results"
