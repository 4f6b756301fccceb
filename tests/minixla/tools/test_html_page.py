"""The page of a program: one file, with every node, the source lines, and nothing from outside."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.explorer import shown_parts
from minixla.tools.html_page import page
from minixla.tools.overlays import Overlay
from minixla.tools.source_lines import SourceLines

X = np.ones((4, 8), "f4")


def squashed(x):
    return mnp.tanh(x).sum()


class Reader(HTMLParser):
    """The attributes of elements, and the data of overlays."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.data, self._is_data = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._is_data = dict(attrs).get("id") == "overlays"

    def handle_data(self, data):
        self.data += data if self._is_data else ""
        self._is_data = False

    def named(self, tag, attribute):
        return [
            given[attribute] for name, given in self.elements if name == tag and attribute in given
        ]


def page_of(fun, *args):
    parts, overlays, _ = shown_parts(mx.make_graph(fun)(*args))
    return page(parts, overlays, SourceLines({}))


def test_every_node_is_a_row_and_a_box():
    parts, overlays, _ = shown_parts(mx.make_graph(squashed)(X))
    found = Reader(page(parts, overlays, SourceLines({})))
    names = [node.id for part in parts for node in part.nodes()]
    assert found.named("tr", "data-node") == names
    assert sorted(found.named("g", "data-node")) == sorted(names)
    data = json.loads(found.data)
    assert data["arithmetic operations"]["nodes"]["0"] == ["32", "#ff5050"]
    assert set(data["arithmetic operations"]["nodes"]) <= set(names)


def test_the_lines_of_instructions_are_marked_in_the_source():
    text = page_of(squashed, X)
    found = Reader(text)
    line = squashed.__code__.co_firstlineno + 1
    (name,) = found.named("span", "data-line")
    assert name == f"{squashed.__code__.co_filename}:{line}"
    assert set(found.named("tr", "data-line")) == {name}
    assert "return mnp.tanh(x).sum()" in text and "def test_" not in text.split("<script")[0]


def test_nothing_is_loaded_from_elsewhere():
    text = page_of(squashed, X)
    assert not re.findall(r'(?:src|href)="(?!data:)', text) and "@import" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_without_a_source_the_program_is_shown():
    program = mx.import_stablehlo(mx.make_graph(squashed)(X).stablehlo())
    parts, overlays, _ = shown_parts(program.graph)
    text = page(parts, overlays, SourceLines({}))
    assert "<h2>StableHLO</h2>" in text and "stablehlo.tanh" in text
    found = Reader(page(parts, overlays, SourceLines({"<stablehlo>": "one\ntwo\nthree"})))
    assert found.named("span", "data-line")[0] == "<stablehlo>:3"


@pytest.mark.parametrize("name", ["</script><b>", "{{rows}}", 'a"b', "{{", "}}"])
def test_names_do_not_break_the_page(name):
    parts, _, _ = shown_parts(mx.make_graph(squashed)(X))
    text = page(
        parts, [Overlay(name, {"0": name}, {name: "#f00"})], SourceLines({"<stablehlo>": name})
    )
    assert json.loads(Reader(text).data) == {
        name: {"nodes": {"0": [name, "#f00"]}, "legend": [[name, "#f00"]]}
    }
    assert text.rstrip().endswith("</script>") and text.count("</script>") == 2
