"""Draw the pictures of the examples into `out`, or into the folder that MINIXLA_PICTURES names."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np


def folder() -> Path:
    """Return the folder of the pictures."""
    return Path(os.environ.get("MINIXLA_PICTURES", "out"))


def curves(
    name: str, lines: dict[str, Any], x: str = "step", y: str = "loss", style: str = "-"
) -> None:
    """Draw curves against their index, or pairs of coordinates.

    Args:
        name: the name of the file, without `.png`.
        lines: for each label, the values or a pair of arrays (x, y).
        x: the label of the horizontal axis.
        y: the label of the vertical axis. A loss that falls far has a logarithmic axis.
        style: Matplotlib's style of the curves; the first label may have `"o"` for points.
    """
    figure, axes = _figure()
    for number, (label, line) in enumerate(lines.items()):
        pair = line if isinstance(line, tuple) else (np.arange(len(line)), line)
        horizontal, vertical = (np.asarray(each, float) for each in pair)
        kind = "o" if label == "data" else "--" if y == "loss" and number else style
        axes.plot(horizontal, vertical, kind, label=label, linewidth=1.2, markersize=3)
        if y == "loss" and vertical.min() > 0 and vertical.max() > 8 * vertical.min():
            axes.set_yscale("log")
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    if len(lines) > 1:
        axes.legend()
    _write(name, figure)


def points(name: str, where: Any, labels: Any, centers: Any) -> None:
    """Draw points of the plane, colored by their cluster, and the centers of the clusters."""
    figure, axes = _figure()
    where, centers = np.asarray(where), np.asarray(centers)
    axes.scatter(where[:, 0], where[:, 1], c=np.asarray(labels), s=3, cmap="tab10")
    axes.plot(centers[:, 0], centers[:, 1], "k+", markersize=14, markeredgewidth=2)
    _write(name, figure)


def images(name: str, rows: dict[str, Any]) -> None:
    """Draw rows of images, each below its title; all rows have the same number of images."""
    import matplotlib.pyplot as plt

    columns = max(len(row) for row in rows.values())
    size = (5.6, 0.3 + len(rows) * (0.25 + 5.6 / columns))
    figure, axes = plt.subplots(len(rows), columns, figsize=size, squeeze=False)
    for line, (title, row) in zip(axes, rows.items(), strict=True):
        line[0].set_title(title, loc="left", fontsize=9)
        for cell, image in zip(line, row, strict=True):
            cell.imshow(np.asarray(image, float), cmap="gray_r")
            cell.set_axis_off()
    figure.set_layout_engine("tight")
    _write(name, figure)


def _figure() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(5.6, 3.2), layout="constrained")


def _write(name: str, figure: Any) -> None:
    """Write a picture of 64 colors, which is small."""
    import matplotlib.pyplot as plt
    from PIL import Image

    path = folder() / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = io.BytesIO()
    figure.savefig(file, dpi=100)
    plt.close(figure)
    Image.open(file).convert("RGB").quantize(64).save(path, optimize=True)
    print(f"picture written to {path}")
