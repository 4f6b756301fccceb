"""Reads damaged programs; run as a script: `fuzz_import.py FORM FIRST COUNT`.

Each seed makes one damaged program. Prints how many were read and refused; another end than that is
a crash of MLIR's parser.
"""

from __future__ import annotations

import random
import sys
import time

import jax
import jax.numpy as jnp

import minixla as mx
from tests.minixla.interop.import_programs import MLP, PROGRAMS, as_artifact, as_bytecode, main


def healthy(form: str) -> list[str | bytes]:
    """Programs to damage."""
    texts = [MLP, *(main(row.body) for row in PROGRAMS.values())]
    if form == "text":
        return list(texts)
    if form == "exported":
        exported = jax.export.export(jax.jit(lambda x: jnp.sin(x) @ x.T))
        return [bytes(exported(jax.ShapeDtypeStruct((2, 3), jnp.float32)).serialize())]
    make = {"bytecode": as_bytecode, "artifact": as_artifact}[form]
    return [make(text) for text in texts[:4]]


def damaged(source: str | bytes, random_: random.Random) -> str | bytes:
    """The program cut off, with wrong characters, or with words in wrong places."""
    how = random_.randrange(3)
    if how == 0:
        return source[: random_.randrange(len(source))]
    if isinstance(source, bytes):
        data = bytearray(source)
        for _ in range(random_.randrange(1, 4)):
            data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        return bytes(data)
    parts = list(source) if how == 1 else source.split(" ")
    for _ in range(random_.randrange(1, 4)):
        other = chr(random_.randrange(1, 300)) if how == 1 else random_.choice(parts)
        parts[random_.randrange(len(parts))] = other
    return ("" if how == 1 else " ").join(parts)


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
            print(f"seed {seed}", file=sys.stderr)
            raise
        slowest = max(slowest, time.perf_counter() - start)
    print(f"{count} read, {refused} refused, the slowest took {slowest:.1f} s")


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
