"""The key of compiled programs is complete once the engine is loaded."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import jax
import numpy
import minixla as mx
import minixla.numpy as np

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
)
x = numpy.arange(5, dtype="f4")
np.quantile(x, 0.1)
first = len(compiled)
import minixla.bridge, minixla.interop, minixla.nn, minixla.random, minixla.scipy, minixla.tools
import minixla.transforms
for name in mx.__all__:
    getattr(mx, name)
np.quantile(x, 0.2)
print(first, len(compiled))
"""


def test_nothing_is_compiled_again_once_other_packages_are_loaded():
    """The transformations are loaded by the first call that traces, after its key is taken."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True, timeout=120
    )
    first, last = map(int, done.stdout.split())
    assert 0 < first == last
