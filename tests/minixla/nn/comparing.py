"""What the tests of mx.nn share: functions of ours against JAX's, by every way to run them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from tests.compilation import OPTIMIZED, QUICKLY
from tests.harness import DerivativesTogether, check_batching, check_derivatives, together
from tests.minixla.numpy.tables import assert_close

__all__ = ["Case", "Table", "Transformed", "check", "check_transformed", "draw", "gradients"]

Function = Callable[..., Any]


def draw(*sizes: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Normally distributed values."""
    return np.random.default_rng([seed, *sizes]).standard_normal(sizes).astype(dtype)


class Case(NamedTuple):
    """A function of ours and one of JAX's that give the same, and arrays for them.

    Attributes:
        function, jax_function: ours and JAX's.
        arrays: operands.
        units: how far results may be apart, in their type's eps.
        others: takes the place of `arrays` in a second comparison.
        eager: whether ours also runs at once on JAX arrays. That compiles each operation of its
            own for each shape: it is for one case of a function, of f32.
        optimized: whether it has a program of its own, compiled with all of XLA's passes, because
            JAX's result is rounded worse without.
    """

    function: Function
    jax_function: Function
    arrays: Sequence[np.ndarray]
    units: float | None = None
    others: Sequence[np.ndarray] = ()
    eager: bool = False
    optimized: bool = False

    def given(self) -> list[Sequence[np.ndarray]]:
        return [each for each in (self.others, self.arrays) if len(each)]

    def both(self, *xs: Any) -> tuple[Any, Any]:
        return mx.jit(self.function)(*xs), self.jax_function(*xs)


class Table:
    """Cases under keys, all of which are compiled in one program, which takes least of the time."""

    def __init__(self, cases: Mapping[Any, Case | Sequence[Case]]) -> None:
        self.cases: dict[Any, list[Case]] = {
            key: [found] if isinstance(found, Case) else list(found) for key, found in cases.items()
        }

    @functools.cached_property
    def compiled(self) -> dict[tuple[int, int], Any]:
        """Our results and JAX's by the cases' identities and the number of the comparison."""
        cases = [case for found in self.cases.values() for case in found]
        pairs = [
            (case, at) for case in cases if not case.optimized for at in range(len(case.given()))
        ]
        return together(
            functools.partial(jax.jit, compiler_options=QUICKLY),
            {(id(case), at): case.both for case, at in pairs},
            {(id(case), at): case.given()[at] for case, at in pairs},
        )

    def check(self, key: Any) -> None:
        """Asserts that the functions of a key's cases give the same: in NumPy, compiled, eager."""
        for case in self.cases[key]:
            for at, arrays in enumerate(case.given()):
                found = self.compiled.get((id(case), at))
                alone = jax.jit(case.both, compiler_options=OPTIMIZED)
                actual, expected = found or alone(*arrays)
                with np.errstate(all="ignore"):
                    assert_close(mx.reference(case.function)(*arrays), expected, case.units)
                assert_close(actual, expected, case.units)
                if case.eager:
                    actual = case.function(*map(jnp.asarray, arrays))
                    assert_close(actual, expected, case.units)


def check(*cases: Case) -> None:
    """Asserts that the functions of each case give the same."""
    Table({None: cases}).check(None)


class Transformed:
    """Functions of ours and JAX's under keys, whose derivatives in JAX are one program.

    Args:
        rows: for each key ours, JAX's and operands, of which floats are computed in f64.
        differences: False where finite differences mean nothing.
        batched: the operands that may be batched; default: all.
    """

    def __init__(
        self,
        rows: Mapping[Any, tuple[Function, Function, Sequence[np.ndarray]]],
        *,
        differences: bool = True,
        batched: Sequence[int] | None = None,
    ) -> None:
        options = {"order": 1, "differences": differences}
        self.first = DerivativesTogether(
            {
                key: (function, list(map(_wide, arrays)), jax_function, options)
                for key, (function, jax_function, arrays) in rows.items()
            }
        )
        self.differences = differences
        self.batched = batched

    def check(self, key: Any) -> None:
        """Asserts that first and second derivatives in both modes, and batches are right."""
        self.first.check(key)
        function, wide, _, _ = self.first.rows[key]
        check_derivatives(function, wide, order=2, differences=self.differences)
        check_batching(function, wide, size=2, batched=self.batched)


def _wide(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, np.float64) if x.dtype.kind == "f" else x


def check_transformed(
    function: Function, jax_function: Function, arrays: Sequence[np.ndarray], **options: Any
) -> None:
    """What `Transformed` asserts, of one function."""
    Transformed({None: (function, jax_function, arrays)}, **options).check(None)


def gradients(function: Function, of: Any = mx) -> Function:
    """The derivative of a function of one array, at each element."""
    return of.vmap(of.grad(function))
