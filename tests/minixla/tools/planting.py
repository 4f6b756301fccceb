"""Errors that tests plant in rules, the lines that reports must name, and random arrays."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np


def random_arrays():
    """A function that gives arrays, the same in every run of the file that asks for it."""
    generator = np.random.default_rng(0)
    return lambda *sizes, dtype="f4": generator.normal(size=sizes).astype(dtype)


def line_of(function, text):
    """`file:line` of the line of a function that has the text."""
    lines, start = inspect.getsourcelines(function)
    number = next(start + index for index, line in enumerate(lines) if text in line)
    return f"{Path(inspect.getfile(function)).name}:{number} ({function.__name__})"


def wrong_tanh(self, x):
    """A reference rule that is off by a hundredth."""
    return np.tanh(x) * x.dtype.type(1.01)


def sine_form(self, emit, operands, shapes, results):
    """A StableHLO form of another operation."""
    return emit.operation("stablehlo.sine", operands, shapes, results)
