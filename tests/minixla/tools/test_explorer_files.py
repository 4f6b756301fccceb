"""What Model Explorer reads: fields by the names of its format, ids that are there."""

from __future__ import annotations

import json

import numpy as np

import minixla as mx
import minixla.numpy as mnp
from minixla.tools.explorer_files import graph_collection, node_data, write_files
from minixla.tools.overlays import Overlay
from minixla.tools.program_files import opened

X = np.ones((4, 8), "f4")


def branched(x):
    return mx.cond(x.sum() > 0, mnp.sin, lambda y: y / 2, x)


PARTS = opened(mx.make_graph(branched)(X))
# The fields of `GraphNode` in model_explorer.graph_builder that are written.
FIELDS = {"id", "label", "namespace", "attrs", "incomingEdges", "outputsMetadata", "inputsMetadata"}
EDGE = {"sourceNodeId", "sourceNodeOutputId", "targetNodeInputId"}


def test_nodes_have_the_fields_of_the_format():
    collection = graph_collection(PARTS)
    (graph,) = collection["graphs"]
    assert collection["label"] == graph["id"] == "branched"
    names = {node["id"] for node in graph["nodes"]}
    assert len(names) == len(graph["nodes"])
    for node in graph["nodes"]:
        assert set(node) == FIELDS
        assert all(set(pair) == {"key", "value"} for pair in node["attrs"])
        assert all(isinstance(pair["value"], str) for pair in node["attrs"])
        for edge in node["incomingEdges"]:
            assert set(edge) == EDGE and edge["sourceNodeId"] in names
            assert all(isinstance(value, str) for value in edge.values())


def test_edges_carry_shapes_and_operands_names():
    nodes = {node["label"]: node for node in graph_collection(PARTS)["graphs"][0]["nodes"]}
    compared = nodes["gt"]
    assert [edge["targetNodeInputId"] for edge in compared["incomingEdges"]] == ["0", "1"]
    assert compared["inputsMetadata"][0]["attrs"] == [{"key": "__tensor_tag", "value": "lhs"}]
    assert {"key": "shape", "value": "pred[]"} in compared["outputsMetadata"][0]["attrs"]


def test_groups_are_paths():
    nodes = graph_collection(PARTS)["graphs"][0]["nodes"]
    spaces = [node["namespace"].split("/") for node in nodes if node["label"] == "sin"]
    (space,) = spaces
    assert space[0] == "branched (test_explorer_files.py)" and space[1].startswith("line ")
    assert "branches[" in space[2]


def test_overlays_of_numbers_words_and_bounds():
    numbers = node_data("g", Overlay("cost", {"0": 2.0}))["g"]
    assert numbers["results"] == {"0": {"value": 2.0}}
    assert [each["stop"] for each in numbers["gradient"]] == [0, 1]
    words = node_data("g", Overlay("NaN", {"0": "NaN"}, {"NaN": "#f00"}))["g"]
    assert words["results"] == {"0": {"value": "NaN", "bgColor": "#f00"}}
    bounds = node_data("g", Overlay("ulp", {"0": 1.0}, ((0.5, "#0f0"), (8.0, "#f00"))))["g"]
    assert bounds["thresholds"][1] == {"value": 8.0, "bgColor": "#f00"}
    assert not {"gradient", "thresholds"} & set(words)


def test_files_are_strict_json_beside_each_other(tmp_path):
    overlays = [Overlay("a cost", {"0": 1.0}), Overlay("NaN", {})]
    written = write_files(tmp_path / "net.v1.json", PARTS, overlays)
    names = ["net.v1.json", "net.v1.a_cost.json", "net.v1.NaN.json"]
    assert [file.name for file in written] == names
    graph, *others = (json.loads(file.read_text()) for file in written)
    assert set(graph) == {"label", "graphs"}
    assert [set(each) for each in others] == [{"branched"}, {"branched"}]
