"""How far functions of whole arrays are from the truth: part of docs/accuracy.md.

`python -m tests.minixla.numpy.array_accuracy` measures them on this machine and prints `BOUNDS`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from minixla.tools.comparison import real_part_info
from tests.minixla.numpy.accuracy_rows import TYPES, WIDE, WIDE_COMPLEX, Array
from tests.minixla.numpy.array_accuracy_rows import MEASURES, ROWS, adjoint


def _drawn(shape: tuple[int, ...], how: str, generator: np.random.Generator) -> Array:
    if how == "mixed":  # of both signs and many sizes
        size = 2.0 ** generator.uniform(-8, 2, shape)
        return size * generator.choice([-1.0, 1.0], shape)
    if how == "near one":
        return generator.uniform(0.8, 1.25, shape) * generator.choice([-1.0, 1.0], shape)
    return generator.normal(1.0, 1.0, shape)


def operands_of(name: str, kind: str) -> list[Array]:
    """Operands of a function in a type, the same in every run."""
    row, dtype = ROWS[name], TYPES[kind]
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    found = []
    for shape in row.shapes:
        x = _drawn(shape, row.draw, generator)
        if dtype.kind == "c":
            x = x * np.exp(1j * generator.uniform(-math.pi, math.pi, shape))
        if row.draw in ("hermitian", "definite"):
            x = x @ adjoint(x) / 2 if row.draw == "definite" else x
            x = x + adjoint(x)  # to the last bit, which products are not on every processor
        if row.draw == "dominant":
            x = x + 10 * np.eye(shape[-1])
        found.append(x.astype(dtype))
        if row.draw in ("hermitian", "definite"):  # rounding keeps it so
            assert np.array_equal(found[-1], adjoint(found[-1]))
    return found


def _wide(x: Any) -> Array:
    x = np.asarray(x)
    return x.astype(WIDE_COMPLEX if x.dtype.kind == "c" else WIDE)


def worst(name: str, kind: str, module: Any = mx.numpy, run: Any = mx.jit) -> float:
    """The largest error of a function of a module, in steps of the type at 1.

    Args:
        name: of the function.
        kind: of the elements.
        module: `mx.numpy`, or `jax.numpy`.
        run: what makes a function that computes of one that calls the module's.
    """
    row, operands = ROWS[name], operands_of(name, kind)
    with jax.enable_x64(True):
        result = run(lambda *xs: row.call(module, *xs))(*operands)
    wide = tuple(map(_wide, result)) if isinstance(result, (tuple, list)) else _wide(result)
    error, scale = row.error(wide, *map(_wide, operands))
    steps = np.max(error / scale) / WIDE(float(real_part_info(TYPES[kind]).eps))
    return float(steps) if np.isfinite(steps) else math.inf


#: The largest errors, ours and what was measured of JAX's, by type.
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {
    "sum": {
        "f16": (0.079, 0.053),
        "bf16": (0.058, 0.038),
        "f32": (0.14, 0.09),
        "f64": (0.24, 0.16),
        "c64": (0.26, 0.17),
        "c128": (0.31, 0.2),
    },
    "mean": {
        "f16": (0.081, 0.054),
        "bf16": (0.087, 0.058),
        "f32": (0.18, 0.12),
        "f64": (0.2, 0.12),
        "c64": (0.19, 0.13),
        "c128": (0.28, 0.18),
    },
    "prod": {
        "f16": (0.72, 0.48),
        "bf16": (0.66, 0.44),
        "f32": (5.9, 3.9),
        "f64": (5.9, 3.9),
        "c64": (6.6, 4.4),
        "c128": (7.4, 4.1),
    },
    "cumsum": {
        "f16": (1.3, 0.87),
        "bf16": (1.6, 1.0),
        "f32": (1.9, 1.3),
        "f64": (1.8, 1.2),
        "c64": (2.3, 1.5),
        "c128": (1.6, 1.1),
    },
    "cumprod": {
        "f16": (5.8, 3.9),
        "bf16": (6.8, 4.5),
        "f32": (6.7, 4.5),
        "f64": (6.8, 4.5),
        "c64": (6.3, 4.2),
        "c128": (8.1, 4.3),
    },
    "var": {
        "f16": (0.71, 0.47),
        "bf16": (0.73, 0.48),
        "f32": (1.3, 0.85),
        "f64": (2.5, 1.6),
        "c64": (2.1, 1.4),
        "c128": (1.4, 0.92),
    },
    "std": {
        "f16": (0.86, 0.57),
        "bf16": (1.0, 0.69),
        "f32": (1.1, 0.76),
        "f64": (1.3, 0.84),
        "c64": (1.3, 0.87),
        "c128": (1.0, 0.63),
    },
    "median": {"f16": (0.2, 0.14), "bf16": (0.2, 0.14), "f32": (0.2, 0.14), "f64": (0.2, 0.14)},
    "percentile": {
        "f16": (0.094, 0.062),
        "bf16": (0.076, 0.051),
        "f32": (0.14, 0.068),
        "f64": (0.14, 0.096),
    },
    "cov": {
        "f16": (0.87, 0.58),
        "bf16": (1.5, 1.0),
        "f32": (3.3, 2.2),
        "f64": (9.8, 6.6),
        "c64": (6.0, 4.0),
        "c128": (5, 1.5),
    },
    "corrcoef": {
        "f16": (1.5, 1.0),
        "bf16": (1.5, 0.13),
        "f32": (1.5, 1.0),
        "f64": (1.5, 1.0),
        "c64": (1.5, 0.5),
        "c128": (1.5, 0.5),
    },
    "matmul": {
        "f16": (0.25, 0.16),
        "bf16": (0.26, 0.18),
        "f32": (3.6, 2.4),
        "f64": (4.6, 3.1),
        "c64": (2.8, 1.6),
        "c128": (3, 1.3),
    },
    "convolve": {
        "f16": (0.52, 0.35),
        "bf16": (0.5, 0.33),
        "f32": (3.1, 1.1),
        "f64": (3.1, 1.1),
        "c64": (3.2, 1.7),
        "c128": (2.2, 1.7),
    },
    "fft.fft": {"f32": (4.4, 2.9), "f64": (4.8, 3.2), "c64": (4.5, 3.0), "c128": (6.4, 4.2)},
    "fft.ifft": {"f32": (6.0, 4.0), "f64": (5.9, 3.9), "c64": (6.7, 4.4), "c128": (6.5, 4.3)},
    "fft.rfft": {"f32": (4.2, 2.8), "f64": (4.7, 3.1)},
    "fft.fft2": {"f32": (4.6, 3.1), "f64": (5.9, 3.9), "c64": (4.4, 3.0), "c128": (5.4, 3.6)},
    "linalg.norm": {
        "f16": (0.94, 0.62),
        "bf16": (0.82, 0.55),
        "f32": (1.3, 0.88),
        "f64": (1.3, 0.85),
        "c64": (1.2, 0.81),
        "c128": (1.2, 0.82),
    },
    "linalg.solve": {
        "f32": (0.41, 0.27),
        "f64": (0.46, 0.31),
        "c64": (0.67, 0.45),
        "c128": (0.69, 0.46),
    },
    "linalg.inv": {
        "f32": (0.42, 0.28),
        "f64": (0.4, 0.27),
        "c64": (0.64, 0.43),
        "c128": (0.64, 0.42),
    },
    "linalg.det": {
        "f32": (4.3, 57.0),
        "f64": (8.3, 70.0),
        "c64": (6.6, 32),
        "c128": (10.0, 41.0),
    },
    "linalg.qr": {"f32": (3.6, 2.4), "f64": (3.6, 2.4), "c64": (3.6, 2.4), "c128": (3.2, 2.1)},
    "linalg.svd": {"f32": (9.3, 6.2), "f64": (53.0, 35.0), "c64": (12.0, 7.7), "c128": (16, 11)},
    "linalg.svdvals": {"f32": (2.7, 1.8), "f64": (2.4, 1.6), "c64": (2.4, 1.6), "c128": (3.9, 2.6)},
    "linalg.eigh": {"f32": (8.7, 5.8), "f64": (15, 9.9), "c64": (12.0, 8.0), "c128": (14, 9.4)},
    "linalg.cholesky": {
        "f32": (0.66, 0.44),
        "f64": (0.56, 0.37),
        "c64": (0.7, 0.46),
        "c128": (0.76, 0.51),
    },
}


def section() -> str:
    """The part of the page."""
    lines = [
        "## Functions of whole arrays",
        "",
        "The table shows the largest error of any element, in ULP of the type at 1 (2^-23 for",
        "f32). It is relative to the quantity in the last column. The number after the slash is",
        "the error of jax 0.10.2 at the same operands. Results are compared with the function of",
        "long doubles. If a result is not unique (factors, solutions), the table shows the norm",
        "of its residual, computed in long doubles.",
        "",
        "Operands are the same in every run: rows of 1,000 numbers of both signs, from 2^-8 to 4,",
        "or normal numbers of mean 1; products of 40; matrices of 20 rows; transforms of 240.",
        "Bounds are 1.5 times the errors on processors with AVX-512 and with AVX2, which sum in",
        "different orders.",
        "",
        f"|  | {' | '.join(TYPES)} | relative to |",
        f"| {' | '.join(['---'] * (len(TYPES) + 2))} |",
    ]
    for name, row in ROWS.items():
        cells = [_shown(BOUNDS[name].get(kind)) for kind in TYPES]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {MEASURES[row.measure]} |")
    return "\n".join(lines) + "\n"


def _shown(pair: tuple[float, float] | None) -> str:
    return "" if pair is None else " / ".join(f"{each:g}" for each in pair)


def _rounded(steps: float, slack: float = 1) -> float:
    return float(f"{steps * slack:.2g}") if steps else 0


def measure() -> Iterator[str]:
    """The lines of `BOUNDS`: half more than was measured of ours, and JAX's errors."""
    for name, row in ROWS.items():
        pairs = []
        for kind in row.kinds:
            ours = max(worst(name, kind), worst(name, kind, run=mx.reference))
            theirs = worst(name, kind, jnp, jax.jit)
            pairs.append(f'"{kind}": ({_rounded(ours, 1.5)}, {_rounded(theirs)})')
        yield f'    "{name}": {{{", ".join(pairs)}}},'


if __name__ == "__main__":
    for line in measure():
        print(line, flush=True)
