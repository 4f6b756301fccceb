"""A search for programs that mix JAX with minixla and disagree with JAX.

A case draws a program (`tests/programs/jax_programs.py`) in which each step is in one of the two
libraries, transformations included. Its value, forward derivative, reverse derivative and batch by
minixla's transformations are compared with those of the same program in JAX only.
"""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from tests.compilation import QUICKLY
from tests.programs.jax_programs import Body, function_of, program_of

#: Tolerances relative to the largest element, or to 1.
_TOLERANCES = {"float32": 1e-3, "float64": 1e-8}
#: The number of smaller programs that the search for the smallest one runs.
_MOST_TRIES = 400


def _vectors(is_wide: bool) -> dict[str, Any]:
    """Return the arguments of programs and of their derivatives."""
    draws = np.random.default_rng(0)
    dtype = np.float64 if is_wide else np.float32
    names = ("a", "b", "da", "db", "ct")
    vectors = {name: draws.normal(size=3).astype(dtype) for name in names}
    return vectors | {"batch": draws.normal(size=(2, 3)).astype(dtype)}


#: The compared results: functions of a library, a program and its arguments.
CHECKS: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "value": lambda library, program, v: program(v["a"], v["b"]),
    "jvp": lambda library, program, v: library.jvp(program, (v["a"], v["b"]), (v["da"], v["db"]))[
        1
    ],
    "vjp": lambda library, program, v: library.vjp(program, v["a"], v["b"])[1](v["ct"]),
    "vmap": lambda library, program, v: library.vmap(program, (0, None))(v["batch"], v["b"]),
}


class Outcome(NamedTuple):
    """The result of a check: arrays, or the error that it raises."""

    arrays: list[Any]
    error: Exception | None = None


def _outcome(run: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(jax.tree.leaves(run()))
    except Exception as error:
        return Outcome([], error)


#: JAX raises this error only if the compiled program needs the tangent. Our graphs cannot represent
#: this tangent, so minixla raises the error where the function is called.
_LAZY = "can't apply forward-mode autodiff (jvp) to a custom_vjp function"


def _compiled(library: Any, program: Any, names: list[str], is_wide: bool) -> dict[str, Outcome]:
    """Run checks as one compiled program; one by one if that raises an error."""
    vectors = _vectors(is_wide)

    def run(names: list[str]) -> Any:
        def checks(given: dict[str, Any]) -> dict[str, Any]:
            return {name: CHECKS[name](library, program, given) for name in names}

        return library.jit(checks, compiler_options=QUICKLY)(vectors)

    try:
        return {name: Outcome(jax.tree.leaves(each)) for name, each in run(names).items()}
    except Exception:
        return {name: _outcome(partial(run, [name])) for name in names}


def _eager(library: Any, program: Any, names: list[str], is_wide: bool) -> dict[str, Outcome]:
    """Run checks outside of `jit`."""
    vectors = {name: jnp.asarray(each) for name, each in _vectors(is_wide).items()}
    return {name: _outcome(partial(CHECKS[name], library, program, vectors)) for name in names}


@dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        seed, number: identify the case.
        body: the program.
        is_compiled: whether minixla's checks run in `mx.jit`.
        is_wide: whether values are float64, in `enable_x64`.
    """

    seed: int
    number: int
    body: Body
    is_compiled: bool
    is_wide: bool

    def __str__(self) -> str:
        how = "compiled" if self.is_compiled else "eager"
        dtype = "float64" if self.is_wide else "float32"
        return f"{self.seed}/{self.number}: {how}, {dtype}\n{self.body.source()}"

    def run(self) -> str | None:
        """Return the disagreement; None if there is none, or if JAX raises an error."""
        found = self.disagreement()
        return None if found is None else f"{self}\n\n{found[1]}"

    def disagreement(self, only: str | None = None) -> tuple[str, str] | None:
        """Describe the first failing check in a short and in a long text; None if all agree."""
        with warnings.catch_warnings(), jax.enable_x64(self.is_wide):
            warnings.simplefilter("ignore")
            names = [only] if only else list(CHECKS)
            in_jax = function_of(self.body.source(is_mixed=False))
            expected = _compiled(jax, in_jax, names, self.is_wide)
            names = [name for name in names if expected[name].error is None]
            run = _compiled if self.is_compiled else _eager
            found = run(mx, function_of(self.body.source()), names, self.is_wide)
            for name in names:
                if _LAZY in str(found[name].error):
                    continue
                difference = self._difference(name, found[name], expected[name])
                if difference is not None:
                    return difference
        return None

    def _difference(self, name: str, found: Outcome, expected: Outcome) -> tuple[str, str] | None:
        """Describe how the results of one check differ; None if they agree."""
        if found.error is not None:
            kind = type(found.error).__name__
            trace = "".join(traceback.format_exception(found.error)[-8:])
            return f"{name} {kind} {_place(found.error)}", f"{name} raises {kind}\n{trace[-3000:]}"
        if len(found.arrays) != len(expected.arrays):
            return f"{name} count", f"{name}: {len(found.arrays)} results"
        exact = None
        for at, (ours, theirs) in enumerate(zip(found.arrays, expected.arrays, strict=True)):
            if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
                text = f"{name}: {ours.dtype}{ours.shape}, in JAX {theirs.dtype}{theirs.shape}"
                return f"{name} type", text
            if not np.isfinite(theirs).all():
                continue
            tolerance = _TOLERANCES[str(theirs.dtype)] * max(1.0, float(abs(theirs).max()))
            if _near(ours, theirs, tolerance):
                continue
            # If JAX itself is inaccurate, minixla may be as inaccurate.
            exact = self._exact(name) if exact is None else exact
            error = abs(np.asarray(exact[at], np.float64) - theirs).max() if exact else 0.0
            if not _near(ours, theirs, 30 * error):
                if self._agrees_step_by_step(name, at, ours, tolerance):
                    continue
                values = f"{np.asarray(ours).tolist()}, in JAX {np.asarray(theirs).tolist()}"
                return f"{name} differs", f"{name}: {values}"
        return None

    def _exact(self, name: str) -> list[Any]:
        """Return JAX's results in double precision; empty if the case already uses it."""
        if self.is_wide:
            return []
        with jax.enable_x64(True):
            program = function_of(self.body.source(is_mixed=False))
            return _compiled(jax, program, [name], True)[name].arrays

    def _agrees_step_by_step(self, name: str, at: int, ours: Any, tolerance: float) -> bool:
        """Return whether a result agrees with JAX in `disable_jit`.

        Partial evaluation of `lax.scan` and `lax.cond` in JAX forgets the rules of `custom_jvp`
        functions (`JaxprTrace.process_custom_jvp_call`), so an output that is only computed, such
        as `aux` of `jax.grad`, then has the tangent of the function in place of the rule's.
        minixla keeps the rule, and so does JAX where these run in Python.
        """
        vectors = {name: jnp.asarray(vector) for name, vector in _vectors(self.is_wide).items()}
        program = function_of(self.body.source(is_mixed=False))
        with jax.disable_jit():
            theirs = _outcome(partial(CHECKS[name], jax, program, vectors))
        return theirs.error is None and _near(ours, theirs.arrays[at], tolerance)

    def smallest(self) -> Case:
        """Return the smallest case that fails in the same way."""
        found = self.disagreement()
        if found is None:
            return self
        way, check = found[0], found[0].split()[0]
        case, tries = self, 0
        smaller = self._smaller()
        while tries < _MOST_TRIES and (each := next(smaller, None)) is not None:
            tries += 1
            again = each.disagreement(check)
            if again is not None and again[0] == way:
                case, smaller = each, each._smaller()
        return case

    def _smaller(self) -> Iterator[Case]:
        for body in self.body.smaller():
            yield replace(self, body=body)
        if self.is_wide:
            yield replace(self, is_wide=False)
        if not self.is_compiled:
            yield replace(self, is_compiled=True)

    def shrunk(self) -> str:
        """Return the disagreement of the smallest case that fails in the same way."""
        smallest = self.smallest()
        return smallest.run() or str(smallest)


def _near(ours: Any, theirs: Any, tolerance: float) -> bool:
    return bool((abs(np.asarray(ours) - np.asarray(theirs)) <= tolerance).all())


def _place(error: Exception) -> str:
    """Return the function of minixla that raises an error."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/minixla" in f.filename]
    return frames[-1].name if frames else ""


def case_of(seed: int, number: int) -> Case:
    """Draw one case."""
    draws = random.Random(f"jax_code/{seed}/{number}")
    return Case(seed, number, program_of(draws), draws.random() < 0.85, draws.random() < 0.4)


def cases(seed: int) -> Iterator[Case]:
    """Yield the cases of a seed, numbered from 0, without end."""
    number = 0
    while True:
        yield case_of(seed, number)
        number += 1
