"""Programs as SVG pictures in layers: the inputs of a node are above it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape

from minixla.tools.program_files import Node, Part

# In pixels.
_WIDTH, _HEIGHT, _GAP, _BETWEEN = 150, 34, 16, 40
_LINE, _TITLE = 13, 28
_MOST_LETTERS = 24
_FONT = 'font-family="system-ui, sans-serif" font-size="11"'


def picture(parts: Sequence[Part]) -> str:
    """Return an SVG image of a program and of the programs that its instructions run.

    Args:
        parts: the programs, as `opened` returns them; each is drawn below the one before.
    """
    images, width, height = [], 0.0, 0.0
    for part in parts:
        title = " / ".join(part.groups) or part.graph.name
        image, size = _drawn(list(part.nodes()), f'y="{height + _TITLE:g}" ')
        images += [f'<text x="4" y="{height + 18:g}" font-size="14">{escape(title)}</text>', image]
        width, height = max(width, size[0]), height + _TITLE + size[1]
    size = f'width="{width:g}" height="{height:g}" {_FONT}'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', *images, "</svg>"])


def drawn(nodes: Sequence[Node]) -> str:
    """Return an SVG element with a group for each node, whose name is its `data-node`.

    Args:
        nodes: the nodes of one program, each after its inputs.
    """
    return _drawn(nodes)[0]


def _drawn(nodes: Sequence[Node], at: str = "") -> tuple[str, tuple[float, float]]:
    """Return the element and its size; `at` contains more attributes of it."""
    # Shardings have a separate line.
    box_height = _HEIGHT + _LINE * any("layout" in node.attributes for node in nodes)
    ids = {node.id for node in nodes}
    sources = {
        node.id: list(dict.fromkeys(source for source, *_ in node.reads if source in ids))
        for node in nodes
    }
    layers = _layers(nodes, sources)
    width = max(map(len, layers)) * (_WIDTH + _GAP) + _GAP
    places = _places(layers, sources, width, box_height + _BETWEEN)
    height = len(layers) * (box_height + _BETWEEN)
    pairs = [(places[x], places[name]) for name, read in sources.items() for x in read]
    edges = [_edge(source, target, box_height) for source, target in pairs]
    boxes = [_box(node, *places[node.id], box_height) for node in nodes]
    arrow = (
        '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#99a"/></marker>'
    )
    size = f'{at}width="{width}" height="{height}" {_FONT}'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><defs>{arrow}</defs>'
    return "\n".join([start, *edges, *boxes, "</svg>"]), (width, height)


def _layers(nodes: Sequence[Node], sources: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the names of the nodes in each layer."""
    rank: dict[str, int] = {}
    for node in nodes:
        rank[node.id] = max((rank[source] + 1 for source in sources[node.id]), default=0)
    # Place constants right above their readers.
    first: dict[str, int] = {}
    for node in nodes:
        for source in sources[node.id]:
            first[source] = min(first.get(source, rank[node.id]), rank[node.id])
    for node in nodes:
        if node.step is not None and not sources[node.id]:
            rank[node.id] = max(first.get(node.id, 1) - 1, 0)
    layers: dict[int, list[str]] = defaultdict(list)
    for node in nodes:
        layers[rank[node.id]].append(node.id)
    return [layers[layer] for layer in sorted(layers)]


def _places(
    layers: Sequence[list[str]], sources: Mapping[str, Sequence[str]], width: int, distance: int
) -> dict[str, tuple[float, float]]:
    """Return the top left corner of each box; the boxes of a layer are in the order of inputs."""
    places: dict[str, tuple[float, float]] = {}

    def middle(name: str) -> float:
        above = [places[source][0] for source in sources[name] if source in places]
        return sum(above) / len(above) if above else width

    for number, layer in enumerate(layers):
        row = sorted(layer, key=middle)
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
        for index, name in enumerate(row):
            places[name] = left + index * (_WIDTH + _GAP), number * distance + 4
    return places


def _edge(source: tuple[float, float], target: tuple[float, float], box_height: int) -> str:
    (x, y), (to_x, to_y) = source, target
    x, to_x, y = x + _WIDTH / 2, to_x + _WIDTH / 2, y + box_height
    half = (y + to_y) / 2
    return (
        f'<path class="edge" fill="none" stroke="#99a" marker-end="url(#arrow)" '
        f'd="M{x:g} {y:g}C{x:g} {half:g} {to_x:g} {half:g} {to_x:g} {to_y:g}"/>'
    )


def _box(node: Node, x: float, y: float, height: int) -> str:
    lines = [node.attributes[name] for name in ("shape", "layout") if name in node.attributes]
    said = [node.label, *[f"{name}: {value}" for name, value in node.attributes.items()]]
    at = f'x="{x + _WIDTH / 2:g}" text-anchor="middle"'
    rows = [
        f'<text {at} y="{y + 27 + _LINE * number:g}" fill="#556">{escape(_cut(line))}</text>'
        for number, line in enumerate(lines)
    ]
    return (
        f'<g data-node="{escape(node.id)}"><title>{escape(chr(10).join(said))}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{height}" rx="5" fill="#fff" '
        f'stroke="#667"/><text {at} y="{y + 14:g}" font-weight="600">{escape(node.label)}</text>'
        f"{''.join(rows)}</g>"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."
