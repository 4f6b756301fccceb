"""Nodes as a picture in SVG, in layers: what a node reads stands above it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape

from minixla.tools.opened_programs import Node

# In pixels.
_WIDTH, _HEIGHT, _GAP, _BETWEEN = 150, 34, 16, 40
_MOST_LETTERS = 24


def drawn(nodes: Sequence[Node]) -> str:
    """An SVG element with a group for each node, which has its name as `data-node`.

    Args:
        nodes: of one program, each after those that it reads.
    """
    known = {node.id for node in nodes}
    sources = {
        node.id: list(dict.fromkeys(source for source, *_ in node.reads if source in known))
        for node in nodes
    }
    layers = _layers(nodes, sources)
    width = max(map(len, layers)) * (_WIDTH + _GAP) + _GAP
    places = _places(layers, sources, width)
    height = len(layers) * (_HEIGHT + _BETWEEN)
    edges = [_edge(places[x], places[name]) for name, read in sources.items() for x in read]
    boxes = [_box(node, *places[node.id]) for node in nodes]
    arrow = (
        '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#99a"/></marker>'
    )
    size = f'width="{width}" height="{height}"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><defs>{arrow}</defs>'
    return "\n".join([start, *edges, *boxes, "</svg>"])


def _layers(nodes: Sequence[Node], sources: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The names of the nodes of each layer."""
    rank: dict[str, int] = {}
    for node in nodes:
        rank[node.id] = max((rank[each] + 1 for each in sources[node.id]), default=0)
    # Constants stand right above what reads them.
    first: dict[str, int] = {}
    for node in nodes:
        for each in sources[node.id]:
            first[each] = min(first.get(each, rank[node.id]), rank[node.id])
    for node in nodes:
        if node.step is not None and not sources[node.id]:
            rank[node.id] = max(first.get(node.id, 1) - 1, 0)
    layers: dict[int, list[str]] = defaultdict(list)
    for node in nodes:
        layers[rank[node.id]].append(node.id)
    return [layers[each] for each in sorted(layers)]


def _places(
    layers: Sequence[list[str]], sources: Mapping[str, Sequence[str]], width: int
) -> dict[str, tuple[float, float]]:
    """The top left corner of each box; those of a layer in the order of what they read."""
    places: dict[str, tuple[float, float]] = {}

    def middle(name: str) -> float:
        above = [places[each][0] for each in sources[name] if each in places]
        return sum(above) / len(above) if above else width

    for number, layer in enumerate(layers):
        row = sorted(layer, key=middle)
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
        for index, name in enumerate(row):
            places[name] = left + index * (_WIDTH + _GAP), number * (_HEIGHT + _BETWEEN) + 4
    return places


def _edge(source: tuple[float, float], target: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = source, target
    x, to_x, y = x + _WIDTH / 2, to_x + _WIDTH / 2, y + _HEIGHT
    half = (y + to_y) / 2
    return (
        f'<path class="edge" d="M{x:g} {y:g}C{x:g} {half:g} {to_x:g} {half:g} {to_x:g} {to_y:g}"/>'
    )


def _box(node: Node, x: float, y: float) -> str:
    shape = node.attributes["shape"]
    shown = shape if len(shape) <= _MOST_LETTERS else f"{shape[: _MOST_LETTERS - 3]}..."
    said = [node.label, *[f"{name}: {value}" for name, value in node.attributes.items()]]
    at = f'x="{x + _WIDTH / 2:g}" text-anchor="middle"'
    return (
        f'<g data-node="{escape(node.id)}"><title>{escape(chr(10).join(said))}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}"/>'
        f'<text {at} y="{y + 14:g}" font-weight="600">{escape(node.label)}</text>'
        f'<text {at} y="{y + 27:g}" fill="#556">{escape(shown)}</text></g>'
    )
