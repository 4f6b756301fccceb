"""Reads damaged programs; run as a script: `fuzz_import.py FIRST FORM:COUNT ...`.

Each seed makes one damaged program. Prints how many of a form were read and refused; another end
than that is a crash of MLIR's parser.
"""

from __future__ import annotations

import random
import re
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from tests.minixla.interop.import_programs import MLP, PROGRAMS, as_artifact, as_bytecode, main


def healthy(form: str) -> list[str | bytes]:
    """Programs to damage."""
    texts = [MLP, *(main(row.body) for row in PROGRAMS.values())]
    if form == "text":
        return [*texts, *jax_texts()]
    if form == "exported":
        exported = jax.export.export(jax.jit(lambda x: jnp.sin(x) @ x.T))
        return [bytes(exported(jax.ShapeDtypeStruct((2, 3), jnp.float32)).serialize())]
    make = {"bytecode": as_bytecode, "artifact": as_artifact}[form]
    return [make(text) for text in texts[:4]]


def jax_texts() -> list[str]:
    """What JAX writes for a convolution, a loop, a branch, a sort and their derivatives."""

    def network(x: Any, kernel: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")
        y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        y = jnp.fft.rfft(jnp.sort(y, 1)[..., 0]).real
        y = jax.lax.fori_loop(0, 3, lambda i, c: c * 2 + i, y)
        return jax.lax.cond(y.sum() > 0, jnp.sin, jax.scipy.special.gammaln, y).at[0].add(1.0)

    arguments = np.ones((1, 2, 4, 4), np.float32), np.ones((2, 2, 3, 3), np.float32)
    gradient = jax.grad(lambda *given: network(*given).sum())
    return [jax.jit(each).lower(*arguments).as_text() for each in (network, gradient)]


_TOKEN = re.compile(r"[A-Za-z_.]+|\d+|\s+|.")
_NUMBERS = (0, -1, 1, 7, 2**31, 2**32, 2**63 - 1, 10**20 - 1)


def damaged(source: str | bytes, random_: random.Random) -> str | bytes:
    """The program cut off, with wrong characters, or with words or numbers in wrong places."""
    how = random_.randrange(6)
    if how == 0:
        return source[: random_.randrange(len(source))]
    if isinstance(source, bytes):
        data = bytearray(source)
        for _ in range(random_.randrange(1, 4)):
            data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        return bytes(data)
    parts = list(source) if how == 1 else _TOKEN.findall(source)
    for _ in range(random_.randrange(1, 4)):
        at, other = random_.randrange(len(parts)), random_.randrange(len(parts))
        if how == 1:
            parts[at] = chr(random_.randrange(1, 300))
        elif how == 2:
            parts[at], parts[other] = parts[other], parts[at]
        elif how == 3:
            del parts[at : min(at + random_.randrange(1, 6), len(parts) - 1)]
        elif how == 4:
            parts[at:at] = parts[other : other + random_.randrange(1, 20)]
        else:
            numbers = [place for place, each in enumerate(parts) if each.isdigit()]
            parts[random_.choice(numbers or [at])] = str(random_.choice(_NUMBERS))
    return "".join(parts)


def run(form: str, first: int, count: int) -> None:
    """Damages and reads `count` programs."""
    programs = healthy(form)
    refused, slowest = 0, 0.0
    for program in programs:
        if form != "artifact":
            mx.import_stablehlo(program)
    for seed in range(first, first + count):
        random_ = random.Random(seed)
        program = damaged(random_.choice(programs), random_)
        start = time.perf_counter()
        try:
            mx.import_stablehlo(program)
        except mx.ImportError_:
            refused += 1
        except Exception:
            print(f"{form}, seed {seed}", file=sys.stderr)
            raise
        slowest = max(slowest, time.perf_counter() - start)
    print(f"{form}: {count} read, {refused} refused, the slowest took {slowest:.1f} s", flush=True)


if __name__ == "__main__":
    for each in sys.argv[2:]:
        name, number = each.split(":")
        run(name, int(sys.argv[1]), int(number))
