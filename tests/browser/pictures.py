"""The program of the documentation's pictures, and where these are kept."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import minixla as mx
import minixla.numpy as mnp

generator = np.random.default_rng(0)
X, W = generator.normal(size=(16, 8)).astype("f4"), generator.normal(size=(8, 8)).astype("f4")


@mx.jit
def layer(x, w):
    return mnp.tanh(x @ w)


def network(x, w):
    for _ in range(2):
        x = layer(x, w)
    x = mx.fori_loop(0, 3, lambda _, y: y * 0.9, x)
    return mnp.log(x).mean()


def kept(name: str, otherwise: Path) -> Path:
    """Where a picture goes: MINIXLA_PICTURES names a folder, docs/images to renew those there."""
    return Path(os.environ.get("MINIXLA_PICTURES", otherwise), name)
