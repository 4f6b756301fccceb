"""Measure convolutions, and their gradients with respect to the images and the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from benchmarks.measure import Comparison, Effort, blocking, interleaved
from benchmarks.models import FRAMEWORKS, Framework


class _Layer(NamedTuple):
    """Sizes of images and kernels, both with features last, and the strides of windows."""

    images: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1

    def __str__(self) -> str:
        texts = [f"[{','.join(map(str, sizes))}]" for sizes in self[:2]]
        return " by ".join(texts) + f", stride {self.stride}" * (self.stride > 1)


_LAYERS = (
    _Layer((64, 28, 28, 1), (5, 5, 1, 6)),
    _Layer((32, 32, 32, 3), (3, 3, 3, 16)),
    _Layer((32, 28, 28, 32), (3, 3, 32, 64)),
    _Layer((8, 56, 56, 64), (3, 3, 64, 64)),
    _Layer((8, 56, 56, 64), (3, 3, 64, 128), 2),
    _Layer((8, 14, 14, 256), (3, 3, 256, 256)),
    _Layer((8, 28, 28, 128), (1, 1, 128, 512)),
    _Layer((2, 1000, 64), (9, 64, 64)),
)


def convolutions(effort: Effort) -> Iterator[Comparison]:
    """Measure layers of networks: forward, and both gradients."""
    rng = np.random.default_rng(0)
    for layer in _LAYERS[:1] if effort.small else _LAYERS:
        images, kernel = (jnp.asarray(rng.normal(size=size), "f4") for size in layer[:2])
        for what in ("", "gradient to images", "gradient to kernel"):
            variants = {each.name: _run(each, layer, what, images, kernel) for each in FRAMEWORKS}
            name = f"{layer}{', ' * bool(what)}{what}"
            yield interleaved(name, variants, effort.rounds(40))


def _run(framework: Framework, layer: _Layer, what: str, images: Any, kernel: Any) -> Any:
    letters = "HW"[4 - len(layer.images) :]
    numbers = f"N{letters}C", f"{letters}IO", f"N{letters}C"
    strides = (layer.stride,) * len(letters)

    library = {"minixla": mx.ops, "jax": jax.lax}[framework.name]

    def convolve(images: Any, kernel: Any) -> Any:
        given = images, kernel, strides, "SAME"
        return library.conv_general_dilated(*given, dimension_numbers=numbers)

    if not what:
        return blocking(framework.jit(convolve), images, kernel)
    index = int(what.endswith("kernel"))

    def gradient(images: Any, kernel: Any, cotangent: Any) -> Any:
        pull = framework.library.vjp(convolve, images, kernel)[1]
        return pull(cotangent)[index]

    cotangent = jnp.ones_like(framework.jit(convolve)(images, kernel))
    return blocking(framework.jit(gradient), images, kernel, cotangent)
