"""A program as one self-contained HTML page: its graph, instructions and source lines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from minixla.tools.layered_drawing import drawn
from minixla.tools.overlays import Overlay
from minixla.tools.program_files import Node, Part
from minixla.tools.source_lines import SourceLines

_TEMPLATE = Path(__file__).with_name("page.html")
#: The number of lines of a file that are shown around each line of an instruction.
_AROUND = 5


def page(parts: Sequence[Part], overlays: Sequence[Overlay], lines: SourceLines) -> str:
    """Return the page.

    Args:
        parts: the program, as `opened` returns it.
        overlays: the overlays that may color its nodes.
        lines: finds source lines.
    """
    drawings, rows = [], []
    for part in parts:
        nodes = list(part.nodes())
        title = " / ".join(part.groups) or part.graph.name
        drawings.append(f"<h2>{escape(title)}</h2>{drawn(nodes)}")
        rows += [_row(node) for node in nodes]
    options = [f"<option>{escape(overlay.name)}</option>" for overlay in overlays]
    data = {overlay.name: _shown(overlay) for overlay in overlays}
    filled = {
        "title": escape(parts[0].graph.name),
        "options": "".join(options),
        "graphs": "\n".join(drawings),
        "rows": "\n".join(rows),
        "source": "".join(_source(parts, lines)),
        "overlays": json.dumps(data).replace("<", "\\u003c"),
    }
    # Split first, because inserted text may contain the name of another placeholder.
    text, *pieces = _TEMPLATE.read_text(encoding="utf-8").split("{{")
    for name, _, rest in (piece.partition("}}") for piece in pieces):
        text += filled[name] + rest
    return text


def _row(node: Node) -> str:
    said = {k: v for k, v in node.attributes.items() if k not in ("shape", "line")}
    line = node.attributes.get("line", "")
    cells = [
        node.id,
        node.label,
        "",
        node.attributes["shape"],
        ", ".join(f"{label} {source}" for source, _, label in node.reads),
        "; ".join(f"{name} {value}" for name, value in said.items()),
        line.rpartition("/")[2],
    ]
    at = f' data-line="{escape(_line(node))}"' if node.step and node.step.source else ""
    text = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr data-node="{escape(node.id)}"{at}>{text}</tr>'


def _line(node: Node) -> str:
    """Return the line of an instruction, as the page names it."""
    assert node.step is not None and node.step.source is not None
    return f"{node.step.source.file}:{node.step.source.line}"


def _shown(overlay: Overlay) -> dict[str, object]:
    """Return the text and color of each node, and those of the legend."""
    texts = {name: overlay.shown(value) for name, value in overlay.values.items()}
    colors = {name: overlay.color(value) for name, value in overlay.values.items()}
    if isinstance(overlay.colors, Mapping):
        legend = [(word, overlay.colors[word]) for word in dict.fromkeys(texts.values())]
    else:
        legend = [(f"up to {bound:g}", color) for bound, color in overlay.colors[:-1]]
    return {"nodes": {name: (texts[name], colors[name]) for name in texts}, "legend": legend}


def _source(parts: Sequence[Part], lines: SourceLines) -> Iterator[str]:
    """Yield the lines of instructions and lines around them, or else the program's text."""
    used: dict[tuple[str, bool], set[int]] = {}
    files: dict[tuple[str, bool], list[str]] = {}
    for part in parts:
        for step in part.graph.instructions:
            source = step.source
            if source is not None and source.line:
                key = source.file, source.is_imported
                used.setdefault(key, set()).add(source.line)
                if key not in files:
                    files[key] = lines.of(source)
    for (file, is_imported), held in files.items():
        if held:
            window = "".join(_window(file, held, used[file, is_imported]))
            yield f"<h2>{escape(file)}</h2><pre>{window}</pre>"
    if not any(files.values()):
        text = parts[0].graph.stablehlo()
        numbered = enumerate(text.splitlines(), 1)
        body = "".join(_shown_line(number, line) for number, line in numbered)
        yield f"<h2>StableHLO</h2><pre>{body}</pre>"


def _window(file: str, lines: Sequence[str], used: set[int]) -> Iterator[str]:
    last = 0
    near = {n + by for n in used for by in range(-_AROUND, _AROUND + 1)}
    for number in sorted(near & set(range(1, len(lines) + 1))):
        if number > last + 1:
            yield _shown_line("", "...")
        yield _shown_line(number, lines[number - 1], f"{file}:{number}" if number in used else "")
        last = number


def _shown_line(number: int | str, text: str, name: str = "") -> str:
    at = f' data-line="{escape(name)}"' if name else ""
    return f'<span class="line" data-number="{number}"{at}>{escape(text)}\n</span>'
