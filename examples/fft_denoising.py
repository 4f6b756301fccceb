"""Remove noise from images of digits and from a chirp, with Fourier transforms.

The chirp keeps its strongest frequencies. The images pass through a filter whose strength at each
frequency is learned: `mx.grad` differentiates the Fourier transform and its inverse.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import drawing
from sklearn.datasets import load_digits

import minixla as mx
import minixla.numpy as np


@mx.jit
def strongest(signal: Any, share: Any) -> Any:
    """Keep the strongest share of a signal's frequencies."""
    spectrum = np.fft.rfft(signal)
    power = np.abs(spectrum) ** 2
    least = np.quantile(power, 1 - share)
    return np.fft.irfft(np.where(power >= least, spectrum, 0), len(signal))


def filtered(strength: Any, images: Any) -> Any:
    """Multiply each frequency of images f32[count,8,8] by a strength, f32[8,5]."""
    return np.fft.irfft2(strength * np.fft.rfft2(images), images.shape[1:])


def loss(strength: Any, noisy: Any, clean: Any) -> Any:
    """Return the mean squared error of filtered images."""
    return np.square(filtered(strength, noisy) - clean).mean()


@mx.jit
def train_step(strength: Any, noisy: Any, clean: Any) -> Any:
    """Run one step of gradient descent."""
    value, gradient = mx.value_and_grad(loss)(strength, noisy, clean)
    return strength - 4 * gradient, value


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Print errors before and after; return them with the strengths."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    keys = mx.random.split(mx.random.key(options.seed))
    time = np.arange(1024) / 1024
    chirp = np.sin(2 * np.pi * (20 + 40 * time) * time)
    noisy = chirp + 0.5 * mx.random.normal(keys[0], chirp.shape)
    errors = [np.square(each - chirp).mean() for each in (noisy, strongest(noisy, 0.16))]
    print(f"a chirp: error {float(errors[0]):.4f}, denoised {float(errors[1]):.4f}")
    digits: Any = load_digits()
    clean = np.asarray(digits.images / 16, np.float32)
    images = clean + 0.4 * mx.random.normal(keys[1], clean.shape)
    strength, losses = np.ones((8, 5)), []
    for _ in range(options.steps):
        strength, value = train_step(strength, images, clean)
        losses.append(float(value))
    print(f"digits: error {losses[0]:.4f}, denoised {losses[-1]:.4f}")
    print("how much of each frequency is kept:")
    for row in strength:
        print("  ", *[f"{float(each):5.2f}" for each in row])
    few = {"noisy": images[:8], "filtered": filtered(strength, images[:8]), "clean": clean[:8]}
    drawing.images("fft_denoising", few)
    return [*map(float, errors), *losses, *map(float, strength.ravel())]


if __name__ == "__main__":
    main()
