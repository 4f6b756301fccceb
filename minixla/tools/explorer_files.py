"""Programs and their overlays as files for Model Explorer.

Its formats are described in the package's modules `graph_builder` and `node_data_builder`.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minixla.tools.overlays import Overlay
from minixla.tools.program_files import Node, Part

_GRADIENT = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#ff5050"})


def graph_collection(parts: Sequence[Part]) -> dict[str, Any]:
    """Return a program as a collection of one graph, in JSON form."""
    nodes = [_node(node) for part in parts for node in part.nodes()]
    name = parts[0].graph.name
    return {"label": name, "graphs": [{"id": name, "nodes": nodes}]}


def _node(node: Node) -> dict[str, Any]:
    edges = [
        {
            "sourceNodeId": source,
            "sourceNodeOutputId": str(output),
            "targetNodeInputId": str(number),
        }
        for number, (source, output, _) in enumerate(node.reads)
    ]
    results = [
        {"id": str(number), "attrs": _pairs({"shape": shape, "__tensor_tag": f"result {number}"})}
        for number, shape in enumerate(node.shapes)
    ]
    operands = [
        {"id": str(number), "attrs": _pairs({"__tensor_tag": label})}
        for number, (_, _, label) in enumerate(node.reads)
    ]
    return {
        "id": node.id,
        "label": node.label,
        "namespace": "/".join(node.groups),
        "attrs": _pairs(node.attributes),
        "incomingEdges": edges,
        "outputsMetadata": results,
        "inputsMetadata": operands,
    }


def _pairs(attributes: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in attributes.items()]


def node_data(graph: str, overlay: Overlay) -> dict[str, Any]:
    """Return an overlay of a graph's nodes, in JSON form."""
    results: dict[str, Any] = {name: {"value": value} for name, value in overlay.values.items()}
    data: dict[str, Any] = {"name": overlay.name, "results": results}
    if isinstance(overlay.colors, Mapping):
        for result in results.values():
            result["bgColor"] = overlay.colors[result["value"]]
    elif overlay.colors:
        data["thresholds"] = [{"value": v, "bgColor": color} for v, color in overlay.colors]
    else:
        data["gradient"] = list(_GRADIENT)
    if not isinstance(overlay.colors, Mapping):
        # A sum would count instructions within an instruction twice, and a sum of errors means
        # nothing.
        data |= {"hideAggregatedStats": ["sum", "avg"], "hideInChildrenStatsTable": True}
    return {graph: data}


def write_files(path: Path, parts: Sequence[Part], overlays: Sequence[Overlay]) -> list[Path]:
    """Write a program to a .json file, and each overlay to a file next to it.

    Returns:
        The program's file, then those of the overlays: `net.json`, `net.bytes_on_a_device.json`.
    """
    graphs = graph_collection(parts)
    contents, name = {path: graphs}, parts[0].graph.name
    for overlay in overlays:
        file = path.with_suffix(f".{overlay.name.replace(' ', '_')}.json")
        contents[file] = node_data(name, overlay)
    for file, content in contents.items():
        file.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")
    return list(contents)
