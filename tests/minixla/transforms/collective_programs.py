"""Programs with a collective over an axis named "i", and what their tests share.

`m` is minixla or JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import numpy as np
from jax import lax

import minixla as mx
from tests.harness import compiled_together

__all__ = [
    "INSIDE",
    "ON_DEVICES",
    "PERMUTATION",
    "PROGRAMS",
    "WITHOUT_DERIVATIVE",
    "Mapped",
    "Members",
    "W",
    "Y",
    "assert_same",
    "both",
    "gradients_in_jax",
    "of_squares",
    "together_on_devices",
    "value_and_derivatives",
]

Function = Callable[..., Any]

#: The members along the first dimension.
Y = np.random.default_rng(0).normal(size=(4, 8, 3)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)
PERMUTATION = [(0, 1), (1, 3), (3, 2), (2, 0)]

#: Of the module that has the collectives and of one member.
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "psum": lambda m, x: m.psum(x, "i"),
    "psum of booleans": lambda m, x: x * m.psum(x > 0, "i"),
    "pmean of booleans": lambda m, x: x * m.pmean(x > 0, "i"),
    "pmean": lambda m, x: m.pmean({"x": x}, "i")["x"],
    "pmax": lambda m, x: m.pmax(x, "i"),
    "pmin": lambda m, x: m.pmin(x, "i"),
    "ppermute": lambda m, x: m.ppermute(x, "i", PERMUTATION),
    "all_gather": lambda m, x: m.all_gather(x, "i", axis=1),
    "all_gather, last": lambda m, x: m.all_gather(x, "i", axis=-1),
    "all_gather, tiled": lambda m, x: m.all_gather(x, "i", axis=1, tiled=True),
    "psum_scatter": lambda m, x: m.psum_scatter(x[:4], "i"),
    "psum_scatter, tiled": lambda m, x: m.psum_scatter(x, "i", scatter_dimension=0, tiled=True),
    "all_to_all": lambda m, x: m.all_to_all(x[:4], "i", 0, 1),
    "all_to_all, tiled": lambda m, x: m.all_to_all(x, "i", 0, 1, tiled=True),
    "axis_index": lambda m, x: x * m.axis_index("i"),
    "axis_size": lambda m, x: x * m.axis_size("i"),
    "psum of a number": lambda m, x: x * m.psum(2, "i"),
}
#: JAX has no derivative of these.
WITHOUT_DERIVATIVE = ("pmax", "pmin")
#: Those whose derivative JAX can take of a member. Its transpose of an all_to_all that is not
#: tiled exchanges the wrong dimensions.
INSIDE = [name for name in PROGRAMS if name not in (*WITHOUT_DERIVATIVE, "all_to_all")]


def both(name: str) -> tuple[Function, Function]:
    """The program as a function of a member, in minixla and in JAX."""
    program = PROGRAMS[name]
    return (lambda x: program(mx, x)), (lambda x: program(lax, x))


def assert_same(ours: Any, theirs: Any) -> None:
    """Asserts that arrays are equal up to the order of sums in f32."""
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def value_and_derivatives(m: Any, fun: Function, has_derivatives: bool = True) -> Function:
    """A function of Y: the value and, where it has them, a reverse and a forward derivative."""

    def found(y: Any) -> dict[str, Any]:
        value = fun(y)
        if not has_derivatives:
            return {"value": value}
        size = int(np.prod(value.shape))
        weights = np.cos(np.arange(size, dtype=np.float32)).reshape(value.shape)
        gradient = m.grad(lambda y: (fun(y) * weights).sum())(y)
        return {"value": value, "gradient": gradient, "jvp": m.jvp(fun, (y,), (y * y,))[1]}

    return found


def of_squares(m: Any, member: Function) -> Function:
    """The gradient that a member takes of the sum of its squared results."""
    return lambda x: m.grad(lambda x: (member(x) ** 2).sum())(x)


def together_on_devices(members: Mapping[str, Function], y: Any = Y) -> Function:
    """From the name of a function of a member to its results by pmap alone, of all in one."""
    return compiled_together(members, y, jit=lambda fun, **_: mx.pmap(fun, axis_name="i"))


class Mapped:
    """Functions of all members in ours and in JAX, each of which compiles all of them together.

    Args:
        functions: by name, ours and JAX's.
        y: the members.
        without_derivative: the names of those that JAX cannot differentiate.
    """

    def __init__(
        self,
        functions: Mapping[str, tuple[Function, Function]],
        y: Any = Y,
        without_derivative: Collection[str] = (),
    ) -> None:
        self.functions, self.y, self.without_derivative = functions, y, without_derivative

    def derived(self, m: Any) -> dict[str, Function]:
        """Values and derivatives in ours or in JAX, by name."""
        return {
            name: value_and_derivatives(m, pair[m is jax], name not in self.without_derivative)
            for name, pair in self.functions.items()
        }

    @functools.cached_property
    def expected(self) -> Function:
        """JAX's values and derivatives by name."""
        return compiled_together(self.derived(jax), self.y, jit=jax.jit)

    @functools.cached_property
    def compiled(self) -> Function:
        """Ours by name."""
        return compiled_together(self.derived(mx), self.y)

    def alone(self, name: str) -> Any:
        """Our value without jit."""
        return self.functions[name][0](self.y)

    def check(self, name: str) -> None:
        """Asserts that both have the same values and derivatives, and what they are.

        Ours: the value by pmap alone, and all in a compiled program and in the reference.
        """
        expected = self.expected(name)
        assert_same(self.alone(name), expected["value"])
        for found in (self.compiled(name), mx.reference(self.derived(mx)[name])(self.y)):
            jax.tree.map(assert_same, found, expected)


class Members(Mapped):
    """Functions of one member, mapped by pmap in ours and by vmap in JAX."""

    def __init__(
        self,
        members: Mapping[str, tuple[Function, Function]],
        y: Any = Y,
        without_derivative: Collection[str] = (),
    ) -> None:
        self.members = members
        functions = {
            name: (mx.pmap(ours, axis_name="i"), jax.vmap(theirs, axis_name="i"))
            for name, (ours, theirs) in members.items()
        }
        super().__init__(functions, y, without_derivative)

    @functools.cached_property
    def on_devices(self) -> Function:
        """Our values without jit, of all in one pmap."""
        return together_on_devices({name: pair[0] for name, pair in self.members.items()}, self.y)

    def alone(self, name: str) -> Any:
        return self.on_devices(name)


#: The programs on four devices.
ON_DEVICES = Members({name: both(name) for name in PROGRAMS}, without_derivative=WITHOUT_DERIVATIVE)


@functools.cache
def gradients_in_jax() -> Function:
    """From the name of a program to what JAX says of the gradient that each member takes."""
    functions = {name: jax.vmap(of_squares(jax, both(name)[1]), axis_name="i") for name in INSIDE}
    return compiled_together(functions, Y, jit=jax.jit)
