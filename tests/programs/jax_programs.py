"""Random programs that mix JAX with minixla, as source text, and the same programs in JAX only.

A program is a tree of steps: each takes values that exist at its point, including those of the
functions around it. `Body.source` writes the tree as Python.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.ad_checkpoint
import jax.numpy as jnp
import numpy as np
from jax import lax

import minixla as mx
from tests.programs.jax_steps import EXPRESSIONS, LIBRARY, TEMPLATES, TRANSFORMATIONS


@dataclass(frozen=True)
class Step:
    """A template applied to values.

    Attributes:
        template: the name of the template.
        operands: indices of values, modulo the number of values that exist at this point.
        is_ours: whether the step is in minixla; else it is in JAX.
        bodies: the functions of the template.
    """

    template: str
    operands: tuple[int, ...]
    is_ours: bool
    bodies: tuple[Body, ...] = ()

    def smaller(self) -> Iterator[Step]:
        """Simpler steps: in JAX, or with simpler bodies."""
        if self.is_ours:
            yield replace(self, is_ours=False)
        for at, body in enumerate(self.bodies):
            for each in body.smaller():
                yield replace(self, bodies=(*self.bodies[:at], each, *self.bodies[at + 1 :]))


@dataclass(frozen=True)
class Body:
    """A function of vectors; its result is the sum of the values that no step reads.

    Attributes:
        parameters: the number of parameters.
        steps: the steps, in order.
    """

    parameters: int
    steps: tuple[Step, ...]

    @property
    def size(self) -> int:
        """The number of steps at all depths."""
        inner = [body.size for step in self.steps for body in step.bodies]
        return len(self.steps) + sum(inner)

    def all_steps(self) -> Iterator[Step]:
        """The steps at all depths."""
        for step in self.steps:
            yield step
            for body in step.bodies:
                yield from body.all_steps()

    def smaller(self) -> Iterator[Body]:
        """Simpler functions, the simplest first."""
        for step in self.steps:  # a body in place of everything
            for body in step.bodies:
                if body.parameters <= self.parameters:
                    yield replace(body, parameters=self.parameters)
        for at in range(len(self.steps)):
            yield replace(self, steps=self.steps[:at] + self.steps[at + 1 :])
        for at, step in enumerate(self.steps):
            for each in step.smaller():
                yield replace(self, steps=(*self.steps[:at], each, *self.steps[at + 1 :]))

    def source(self, is_mixed: bool = True) -> str:
        """The program as Python source, a function `program`.

        Args:
            is_mixed: whether steps of minixla are in minixla; else all steps are in JAX.
        """
        return "\n".join(_Writer(is_mixed).function("program", self, ()))


class _Writer:
    """Writes bodies as functions whose names are all different."""

    def __init__(self, is_mixed: bool) -> None:
        self._is_mixed = is_mixed
        self._count = 0
        self._read: set[str] = set()

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def function(self, name: str, body: Body, outer: tuple[str, ...]) -> list[str]:
        """The lines of a function that may read the values of the functions around it."""
        parameters = [self._name("x") for _ in range(body.parameters)]
        # Parameters are the last values, so that small indices read what is outside.
        values, lines = [*outer, *parameters], []
        for step in body.steps:
            lines += self._step(step, values)
        results = [each for each in values[len(outer) :] if each not in self._read]
        total = " + ".join(results[-len(body.steps) :] if body.steps else parameters[:1])
        head = f"def {name}({', '.join(parameters)}):"
        return [head, *[f"    {line}" for line in lines], f"    return {total}"]

    def _step(self, step: Step, values: list[str]) -> list[str]:
        """The lines of a step; adds its result to the values."""
        template, is_ours = TEMPLATES[step.template], step.is_ours and self._is_mixed
        lines, functions = [], {}
        for at, body in enumerate(step.bodies):
            functions[f"f{at}"] = name = self._name("f")
            lines += self.function(name, body, () if template.is_closed else tuple(values))
        out = self._name("v")
        fields = {key: pair[0 if is_ours else 1] for key, pair in LIBRARY.items()}
        others = {key: pair[1 if is_ours else 0] for key, pair in LIBRARY.items()}
        if not self._is_mixed:
            others = fields
        fields |= {"U": others["T"], "V": others["C"]}
        operands = [values[-1 - index % len(values)] for index in step.operands]
        self._read.update(operands)
        text = template.text.format(*operands, out=out, **functions, **fields)
        values.append(out)
        return lines + text.split("\n")


def function_of(source: str) -> Any:
    """The function `program` that source text defines."""
    namespace = {"jax": jax, "jnp": jnp, "lax": lax, "np": np, "mx": mx}
    exec(compile(source, "<random program>", "exec"), namespace)
    return namespace["program"]


@dataclass(frozen=True)
class Limits:
    """What a body may hold.

    Attributes:
        depth: how many levels of functions may be inside.
        is_reversed: whether reverse mode passes the body.
        is_forward: whether forward mode passes the body.
    """

    depth: int
    is_reversed: bool = False
    is_forward: bool = False


#: Steps that differentiate their body.
_REVERSE = ("grad", "vjp", "jacrev", "pullback", "value_and_grad", "hessian")
_FORWARD = ("jvp", "linear", "jacfwd", "hessian")


def body_of(draws: random.Random, parameters: int, limits: Limits) -> Body:
    """Draw a body."""
    count = draws.choice([1, 1, 2, 2, 3])
    steps = []
    for at in range(count):
        # The last step is a transformation more often, since the others may not be read.
        likely = 0.75 if at == count - 1 else 0.45
        has_bodies = limits.depth > 0 and draws.random() < likely
        steps.append(step_of(draws, has_bodies, limits))
    return Body(parameters, tuple(steps))


def step_of(draws: random.Random, has_bodies: bool, limits: Limits) -> Step:
    """Draw a step that JAX can differentiate where it must."""
    while True:
        name = draws.choice(TRANSFORMATIONS if has_bodies else EXPRESSIONS)
        template = TEMPLATES[name]
        if limits.is_reversed and not template.has_reverse:
            continue
        if limits.is_forward and not template.has_forward:
            continue
        break
    is_custom = name.startswith("custom_")
    inner = Limits(
        limits.depth - 1,
        limits.is_reversed or name.startswith(_REVERSE) or is_custom,
        limits.is_forward or name.startswith(_FORWARD) or is_custom,
    )
    bodies = tuple([body_of(draws, count, inner) for count in template.bodies])
    # Recent values more often.
    operands = tuple([min(draws.randrange(6), draws.randrange(6)) for _ in range(template.arity)])
    return Step(name, operands, template.is_mixed and draws.random() < 0.5, bodies)


def program_of(draws: random.Random) -> Body:
    """Draw a program of two vectors."""
    is_reversed = draws.random() < 0.5
    return body_of(draws, 2, Limits(draws.choice([1, 1, 2, 2, 3]), is_reversed))
