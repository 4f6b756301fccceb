"""The process behind `verifier.py`: parses modules."""

from collections.abc import Sequence

import numpy as np
from jax.extend.mlir import ir

from minixla.tools.worker import next_context, serve


def evaluate(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """No results; an error where the module does not parse or verify."""
    with next_context(), ir.Location.unknown():
        ir.Module.parse(text)
    return []


if __name__ == "__main__":
    serve(evaluate)
