"""Drawings of graphs: Graphviz's language, and notebooks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.drawing import dot_text, html_of

SVG = "{http://www.w3.org/2000/svg}"
X = np.ones(3, "f4")


def program(x):
    return mx.fori_loop(0, 3, lambda i, y: mnp.sin(y) * 2, x)


def test_every_instruction_is_a_box_and_every_operand_an_arrow():
    graph = mx.make_graph(lambda x: mnp.tanh(x) * x)(X)
    text = dot_text(graph)
    boxes = dict(re.findall(r'^  (n\d+) \[label="(\w+)', text, re.MULTILINE))
    assert sorted(boxes.values()) == ["args", "mul", "result", "tanh"]
    arrows = {(boxes[a], boxes[b]) for a, b in re.findall(r"(n\d+) -> (n\d+)", text)}
    assert arrows == {("args", "tanh"), ("tanh", "mul"), ("args", "mul"), ("mul", "result")}
    assert "test_drawing.py:" in text and "f32[3]" in text


def test_programs_inside_are_clusters():
    text = dot_text(mx.make_graph(program)(X))
    assert text.count("subgraph cluster_") == 2
    assert text.count("{") == text.count("}")
    assert text.count("style=dotted") == 2


def test_large_graphs_are_cut():
    def many(x):
        for _ in range(50):
            x = mnp.sin(x)
        return x

    text = dot_text(mx.make_graph(many)(X), most=20)
    assert "32 more instructions" in text and text.count("shape=box") == 18


def test_odd_names_are_quoted():
    graph = mx.make_graph(lambda x: x)(X)
    graph = mx.Graph(graph.inputs, graph.instructions, graph.outputs, 'a"b\\')
    assert dot_text(graph).startswith('digraph "a\\"b\\\\" {')


def test_notebooks_draw_a_graph_and_the_programs_that_it_runs():
    picture = ElementTree.fromstring(mx.make_graph(program)(X)._repr_html_())
    names = [each.text for each in picture.iter(f"{SVG}text")]
    assert {"program", "while_", "sin", "lt", "results"} < set(names)
    assert float(picture.attrib["width"]) > 0 and len(list(picture.iter(f"{SVG}svg"))) == 4


def test_notebooks_get_no_endless_text():
    def many(x):
        for _ in range(1000):
            x = mnp.sin(x)
        return x

    text = html_of(mx.make_graph(many)(X))
    assert len(text.splitlines()) == 401 and "more lines</pre>" in text


def test_imported_functions_are_shown_too():
    imported = mx.import_stablehlo(mx.make_graph(mnp.sin)(X).stablehlo())
    assert imported._repr_html_() == imported.graph._repr_html_()
