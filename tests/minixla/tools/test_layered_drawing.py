"""Pictures of nodes: every node is a box, what is read stands above, text is escaped."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.layered_drawing import drawn
from minixla.tools.program_files import Node, opened

SVG = "{http://www.w3.org/2000/svg}"
X = np.ones((4, 8), "f4")


def boxes_of(nodes):
    """The corner of each box by its node's name, and the picture's sizes."""
    picture = ElementTree.fromstring(drawn(nodes))
    boxes = {}
    for group in picture.iter(f"{SVG}g"):
        box = group.find(f"{SVG}rect")
        assert box is not None
        boxes[group.attrib["data-node"]] = float(box.attrib["x"]), float(box.attrib["y"])
    return boxes, (float(picture.attrib["width"]), float(picture.attrib["height"]))


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: mnp.tanh(x @ x.T + 1).sum(),
        lambda x: [x * number for number in range(1, 20)],
        lambda x: mx.fori_loop(0, 3, lambda _, y: y * 2, x),
        lambda x: None,
    ],
)
def test_boxes_stand_below_what_they_read_and_apart(fun):
    for part in opened(mx.make_graph(fun)(X)):
        nodes = list(part.nodes())
        boxes, (width, height) = boxes_of(nodes)
        assert set(boxes) == {node.id for node in nodes} and len(set(boxes.values())) == len(boxes)
        for node in nodes:
            x, y = boxes[node.id]
            assert 0 <= x <= width - 150 and 0 <= y <= height - 34
            assert all(boxes[each][1] < y for each, *_ in node.reads if each in boxes)
        for y in {y for _, y in boxes.values()}:
            row = sorted(x for x, other in boxes.values() if other == y)
            assert all(after - before >= 150 for before, after in pairwise(row))


def test_what_is_written_is_escaped_and_cut():
    node = Node("0", "<b>&", (), {"shape": "f32" + "1" * 60, "text": '"<'}, [], [])
    text = drawn([node])
    assert "<b>" not in text and "&lt;b&gt;&amp;" in text
    shown = [each.text for each in ElementTree.fromstring(text).iter(f"{SVG}text")]
    assert shown[0] == "<b>&" and len(str(shown[1])) == 24
