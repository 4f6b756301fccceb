"""Examples give the same numbers with JAX in place of minixla, from the same file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: How many steps JAX's loop takes, in place of as many as are needed, to have a derivative.
_MOST_STEPS = 12


class _AsMinixla(ModuleType):
    """JAX under our names."""

    numpy = jnp

    def __getattr__(self, name: str) -> Any:
        return getattr(jax if hasattr(jax, name) else jax.lax, name)

    def from_jax(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


class _WithDerivatives(_AsMinixla):
    """JAX, whose while_loop is a scan, since reverse mode does not go through its own."""

    def while_loop(self, is_going: Any, body: Any, start: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            goes, after = is_going(state), body(state)
            return jax.tree.map(lambda a, b: jnp.where(goes, a, b), after, state), None

        start = jax.tree.map(jnp.asarray, start)
        state = jax.lax.scan(step, start, None, length=_MOST_STEPS)[0]
        return state


def run(name: str, arguments: str) -> list[float]:
    """What an example returns, with the minixla that is in `sys.modules`."""
    spec = importlib.util.spec_from_file_location(f"_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example.main(arguments.split())


#: The examples' arguments, what is true of its numbers, and how far they may be apart.
ROWS: dict[str, tuple[str, Callable[[Any], bool], float]] = {
    "kmeans": ("--points 300", lambda x: x[-2] < 2.5 and x[-1] > 2, 1e-5),
    "fft_denoising": ("--steps 20", lambda x: x[1] < 0.3 * x[0] and x[21] < 0.6 * x[2], 1e-4),
    "hamiltonian_monte_carlo": ("--warm-up 6 --draws 4", lambda x: x[-1] > 0.5, 1e-2),
    "gaussian_process": ("--steps 30", lambda x: x[29] < 0.3 < x[0], 1e-3),
    "neural_ode": ("--steps 12 --points 12", lambda x: x[11] < 0.6 * x[0], 1e-3),
    "variational_autoencoder": ("--steps 20 --batch 32", lambda x: x[-1] < 0.9 * x[0], 1e-4),
    "transformer": ("--steps 16 --batch 16", lambda x: x[15] < 0.97 * x[0], 1e-3),
}
#: Those whose programs take longest to compile.
LONG = ("gaussian_process", "neural_ode", "variational_autoencoder", "transformer")


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.full] if x in LONG else []) for x in ROWS]
)
def test_the_same_numbers(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("MINIXLA_PICTURES", str(tmp_path))
    arguments, is_right, tolerance = ROWS[name]
    ours = run(name, arguments)
    kind = _WithDerivatives if name == "neural_ode" else _AsMinixla
    monkeypatch.setitem(sys.modules, "minixla", kind("minixla"))
    monkeypatch.setitem(sys.modules, "minixla.numpy", jnp)
    theirs = run(name, arguments)
    assert is_right(ours)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
