"""Random search for wrong numbers: functions and derivatives at drawn operands.

A case draws a function, an element type and operands. It compares the value and two derivatives
with the reference in double (`mx.reference(..., precision="float64")`). The tolerances are the
bounds of the accuracy page, plus the change of the result for a step of the operand. Another type
of case puts NaN, an infinity or a large number into one element of an array, and checks that
results that do not depend on the element are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import ml_dtypes
import numpy as np

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.derivative_rows import FUNCTIONS, LEAST, TYPES, bounds, values
from tests.minixla.numpy import test_isolated_elements as isolated

_WIDER = {"f16": "f32", "bf16": "f32", "f32": "f64"}
_COUNT = 32


@dataclass(frozen=True)
class Derivatives:
    """A function and two derivatives at operands of a narrow type, compared with a wide type."""

    name: str
    kind: str
    operands: tuple[float, ...]

    def _found(self, kind: str, shift: float = 0.0) -> list[np.ndarray]:
        with jax.enable_x64(kind == "f64"):
            x = np.array(self.operands).astype(TYPES[self.kind]).astype(TYPES[kind])
            found = mx.jit(lambda x: values(self.name, x))(x * TYPES[kind](1 + shift))
        return [np.asarray(each, np.float64) for each in found]

    def errors(self) -> list[np.ndarray]:
        """Return for each order the errors relative to the tolerance."""
        info, wide = ml_dtypes.finfo(TYPES[self.kind]), _WIDER[self.kind]
        step, tiny = float(info.eps), 1e3 * float(info.smallest_normal)
        with np.errstate(all="ignore"):
            truth, near = self._found(wide), self._found(wide, step)
            apart, is_known = [], np.full(len(self.operands), True)
            for order, found in enumerate(self._found(self.kind)):
                exact, moved = truth[order], near[order]
                least = LEAST.get((self.name, order), 0.0)
                unit = np.maximum(np.maximum(abs(exact), least) * step, abs(moved - exact))
                allowed = (bounds()[self.name, self.kind][order] + 8) * 4 * unit + tiny
                is_known = is_known & np.isfinite(exact) & (abs(exact) < float(info.max) / 2)
                error = np.where(is_known, abs(found - exact) / allowed, 0.0)
                apart.append(np.where(np.isnan(error), np.inf, error))
        return apart

    def run(self) -> str | None:
        """Return a description of the fault, or None."""
        for order, error in enumerate(self.errors()):
            if error.max() > 1:
                at = int(np.argmax(error))
                text = f"{self.name} in {self.kind}: derivative {order} at {self.operands[at]!r} "
                return text + f"is off by {error[at]:.3g} of what is allowed"
        return None

    def shrunk(self) -> Derivatives:
        """Return the case at the worst operand only."""
        worst = np.max(self.errors(), axis=0)
        return replace(self, operands=(self.operands[int(np.argmax(worst))],))


@dataclass(frozen=True)
class Isolated:
    """A function of an array with one element replaced by NaN, infinity or a large number."""

    name: str
    seed: int
    bad: float
    index: int

    def run(self) -> str | None:
        """Return a description of the fault, or None."""
        function, like = isolated.FUNCTIONS[self.name]
        array = np.random.default_rng(self.seed).normal(size=like.shape).astype(np.float32)
        moved, replaced = array.copy(), array.copy()
        moved.flat[self.index] += 1.5
        replaced.flat[self.index] = self.bad

        def flat(x: Any) -> Any:
            return mnp.concatenate([mnp.ravel(each) for each in jax.tree.leaves(function(x))])

        run = mx.jit(flat)
        first, other, found = (np.asarray(run(each)) for each in (array, moved, replaced))
        with np.errstate(all="ignore"):
            wrong = np.flatnonzero((abs(other - first) < 1e-4) & (found != first))
        if not wrong.size:
            return None
        text = f"{self.name}: element {self.index} = {self.bad} of draw {self.seed} changes result "
        return text + f"{wrong[0]} from {first[wrong[0]]} to {found[wrong[0]]}"

    def shrunk(self) -> Isolated:
        """Return the case, which cannot be smaller."""
        return self


Case = Derivatives | Isolated
#: Functions whose results may depend on an element only through jumps, or below a threshold.
_JUMPING = {"median", "quantile", "interp of places", "ptp"}


def cases(seed: int) -> Iterator[Case]:
    """Yield cases without end, the same for the same seed."""
    generator = np.random.default_rng(seed)
    names = sorted(FUNCTIONS)
    others = sorted({*isolated.FUNCTIONS} - _JUMPING)
    while True:
        name, kind = str(generator.choice(names)), str(generator.choice(sorted(_WIDER)))
        sizes = 2.0 ** generator.uniform(-20, 8, _COUNT)
        signed = sizes * generator.choice([-1, 1], _COUNT)
        drawn = np.where(generator.random(_COUNT) < 0.5, signed, generator.normal(size=_COUNT))
        operands = drawn.astype(TYPES[kind]).astype(np.float64)
        yield Derivatives(name, kind, tuple(operands.tolist()))
        other, bad = str(generator.choice(others)), float(generator.choice(isolated.BAD))
        size = isolated.FUNCTIONS[other][1].size
        yield Isolated(other, int(generator.integers(2**31)), bad, int(generator.integers(size)))
