"""Programs with a collective over an axis named "i", and what their tests share.

`m` is minixla or JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

import minixla as mx
from tests.harness import QUICKLY, by_jax

__all__ = [
    "INSIDE",
    "PERMUTATION",
    "PROGRAMS",
    "WITHOUT_DERIVATIVE",
    "W",
    "Y",
    "assert_same",
    "both",
    "check",
    "value_and_derivatives",
    "weights_of",
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


def weights_of(function: Function, *operands: Any) -> np.ndarray:
    """A cotangent for the result of a JAX function."""
    shape = jax.eval_shape(function, *operands).shape
    return np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def assert_same(ours: Any, theirs: Any) -> None:
    """Asserts that arrays are equal up to the order of sums in f32."""
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def value_and_derivatives(m: Any, fun: Function, weights: Any) -> Function:
    """A function of Y: the value and, with weights, a reverse and a forward derivative."""

    def found(y: Any) -> Any:
        if weights is None:
            return (fun(y),)
        gradient = m.grad(lambda y: (fun(y) * weights).sum())(y)
        return fun(y), gradient, m.jvp(fun, (y,), (y * y,))[1]

    return found


def check(ours: Function, theirs: Function, y: Any = Y, derivatives: bool = True) -> None:
    """Asserts that both have the same values and derivatives, and what they are.

    Ours: the value by pmap alone and in the reference, all else in one compiled program and in the
    reference.
    """
    weights = weights_of(theirs, y) if derivatives else None
    expected = by_jax(value_and_derivatives(jax, theirs, weights), y)
    assert_same(ours(y), expected[0])
    program = value_and_derivatives(mx, ours, weights)
    jax.tree.map(assert_same, mx.reference(program)(y), expected)
    if derivatives:
        jax.tree.map(assert_same, tuple(mx.jit(program, compiler_options=QUICKLY)(y)), expected)
