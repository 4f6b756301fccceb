"""Drawings of graphs: Graphviz's language, pictures where it is there, notebooks."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.drawing import dot_text, draw, html_of

X = np.ones(3, "f4")


def program(x):
    return mx.fori_loop(0, 3, lambda i, y: mnp.sin(y) * 2, x)


def test_every_instruction_is_a_box_and_every_operand_an_arrow():
    graph = mx.make_graph(lambda x: mnp.tanh(x) * x)(X)
    text = dot_text(graph)
    boxes = dict(re.findall(r'^  (n\d+) \[label="(\w+)', text, re.MULTILINE))
    assert sorted(boxes.values()) == ["input", "mul", "result", "tanh"]
    arrows = {(boxes[a], boxes[b]) for a, b in re.findall(r"(n\d+) -> (n\d+)", text)}
    assert arrows == {("input", "tanh"), ("tanh", "mul"), ("input", "mul"), ("mul", "result")}
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


FAKE = "#!{python}\nimport sys\nprint('<?xml?><svg>' + sys.argv[1] + '</svg>')\n"


@pytest.fixture
def graphviz(tmp_path, monkeypatch):
    def install(script):
        path = tmp_path / "dot"
        path.write_text(script.format(python=sys.executable))
        path.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return install


def test_a_picture_where_graphviz_is_there(graphviz):
    graph = mx.make_graph(mnp.sin)(X)
    assert draw(graph, "svg") is None
    graphviz(FAKE)
    assert draw(graph, "png") == b"<?xml?><svg>-Tpng</svg>\n"
    assert graph._repr_html_() == "<svg>-Tsvg</svg>\n"


def test_text_where_it_is_not_or_fails(graphviz):
    graph = mx.make_graph(mnp.sin)(X)
    assert graph._repr_html_().startswith("<pre>HloModule sin")
    graphviz("#!{python}\nraise SystemExit(3)\n")
    assert "sine(%arg0.1)" in html_of(graph)


def test_notebooks_get_no_endless_text(graphviz):
    def many(x):
        for _ in range(1000):
            x = mnp.sin(x)
        return x

    text = html_of(mx.make_graph(many)(X))
    assert len(text.splitlines()) == 401 and "more lines</pre>" in text


def test_imported_functions_are_shown_too(graphviz):
    imported = mx.import_stablehlo(mx.make_graph(mnp.sin)(X).stablehlo())
    assert imported._repr_html_() == imported.graph._repr_html_()
