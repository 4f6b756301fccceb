"""Draw a program on its way from Python to StableHLO text, with the library's own drawings."""

from __future__ import annotations

import html
from pathlib import Path

import numpy

import minixla as mx
import minixla.numpy as np
from minixla.tools.drawing import html_of


def loss(w, x):
    """Compute the loss whose graphs are drawn."""
    return (np.tanh(x @ w) ** 2).sum()


def write(folder: Path) -> None:
    """Write the drawings and the text of the page *How it works*."""
    arguments = numpy.ones((3, 2), "f4"), numpy.ones((4, 3), "f4")
    forward = mx.make_graph(loss)(*arguments)
    both = mx.make_graph(mx.value_and_grad(loss))(*arguments)
    batch = mx.make_graph(mx.vmap(loss, in_axes=(None, 0)))(
        arguments[0], numpy.ones((5, 4, 3), "f4")
    )
    shown = {"graph": forward, "gradient": both, "batch": batch}
    for name, graph in shown.items():
        picture = f'<div class="program">{html_of(graph)}</div>'
        (folder / f"picture_{name}.inc").write_text(picture)
    text = html.escape(both.stablehlo())
    (folder / "picture_text.inc").write_text(f'<div class="highlight"><pre>{text}</pre></div>')
