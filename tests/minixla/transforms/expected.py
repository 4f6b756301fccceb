"""What compositions of transformations must return, from a few derivatives that JAX computes once.

A program f: R^4 -> R^k is looked at near four points, which a linear map TURN of order four
permutes, along DIRECTION, which TURN leaves alone. Whatever transformations make of f is then a
linear function of the derivatives of f along DIRECTION at the points, and `Expected` holds its
coefficients: a derivative raises the order, an argument turned by TURN moves on to the next point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.harness import by_jax

#: x -> SCALES * roll(x, -1): a turn of order four, since the scales multiply to one.
SCALES = np.array([1.25, -0.8, 1.0, -1.0])
TURN = np.diag(SCALES) @ np.eye(4)[[1, 2, 3, 0]]
#: TURN's powers.
TURNS = np.stack([np.linalg.matrix_power(TURN, k) for k in range(4)])
#: The eigenvector of TURN's eigenvalue one.
DIRECTION = np.array([1.0, 0.8, -1.0, -1.0])
POINT = np.array([0.6, -0.9, 0.4, 1.3])
ORDERS = 4


def weights(shape: tuple[int, ...], phase: float) -> np.ndarray:
    """Different numbers, to make one number of an array."""
    return np.cos(phase + np.arange(np.prod(shape, dtype=int)).reshape(shape))


class Derivatives(NamedTuple):
    """Derivatives of a program along DIRECTION, at the points.

    Attributes:
        values: [point, order, component], the orders up to 3.
        slopes: [point, order, component, 4], the gradients of the orders up to 2.
    """

    values: np.ndarray
    slopes: np.ndarray


def derivatives(
    fun: Callable[..., Any], has_forward: bool = True, has_flow: bool = False
) -> Derivatives:
    """The derivatives of a JAX function from f64[4] to a vector, by one compiled program.

    Args:
        fun: the function.
        has_forward: whether it has a forward derivative; else reverse mode is used throughout.
        has_flow: whether it holds loops or branches, which JAX runs in Python where it inlines.
    """
    size = len(POINT)

    def inlined(x: Any) -> Any:
        # JAX would differentiate and batch each of its small jitted functions of its own.
        with jax.disable_jit(not has_flow):
            return fun(x)

    def along(f: Callable[..., Any]) -> Callable[..., Any]:
        if has_forward:
            return lambda x: jax.jvp(f, (x,), (jnp.asarray(DIRECTION),))
        slope = jax.jacrev(f)
        return lambda x: (f(x), jax.tree.map(lambda j: j @ jnp.asarray(DIRECTION), slope(x)))

    def orders(x: Any) -> Any:
        (first, second), (_, third) = along(along(inlined))(x)
        return jnp.stack([first, second, third])

    def forward(points: Any) -> Any:
        """By one batch of all points and units together: batching costs more than members."""
        operands = jnp.repeat(points, size, 0), jnp.tile(jnp.eye(size), (len(points), 1))
        found = jax.vmap(lambda x, unit: jax.jvp(orders, (x,), (unit,)))(*operands)
        values, slopes = (each.reshape(len(points), size, *each.shape[1:]) for each in found)
        return jnp.moveaxis(slopes, 1, -1), values[:, 0]

    backward = jax.vmap(jax.jacrev(lambda x: (orders(x),) * 2, has_aux=True))
    with jax.enable_x64(True):
        compiled = by_jax(forward if has_forward else backward, TURNS @ POINT)
        slopes, values = (np.asarray(each) for each in compiled)
    highest = slopes[:, -1:] @ DIRECTION
    return Derivatives(np.concatenate([values, highest], 1), slopes)


class Expected(NamedTuple):
    """A linear function of the derivatives of a program.

    Attributes:
        coefficients: [..., point, order, component], in front the dimensions of the result.
    """

    coefficients: np.ndarray

    @classmethod
    def program(cls, size: int) -> Expected:
        """The program itself, whose result is a vector of `size`."""
        found = np.zeros((size, len(TURNS), ORDERS, size))
        found[:, 0, 0] = np.eye(size)
        return cls(found)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of the result."""
        return self.coefficients.shape[:-3]

    def __add__(self, other: Expected) -> Expected:
        return Expected(self.coefficients + other.coefficients)

    def __rmul__(self, factor: float) -> Expected:
        return Expected(factor * self.coefficients)

    def derivative(self) -> Expected:
        """The derivative along DIRECTION."""
        moved = np.zeros_like(self.coefficients)
        moved[..., 1:, :] = self.coefficients[..., :-1, :]
        assert not self.coefficients[..., -1, :].any(), "an order of which nothing is known"
        return Expected(moved)

    def turned(self, count: int) -> Expected:
        """The same of an argument that was turned `count` times."""
        return Expected(np.roll(self.coefficients, count, -3))

    def rows(self, count: int, axis: int = 0) -> Expected:
        """The results at the first `count` points, stacked."""
        found = [self.turned(k).coefficients for k in range(count)]
        return Expected(np.stack(found, axis % (len(self.shape) + 1)))

    def contracted(self, cotangent: np.ndarray) -> Expected:
        """The sum of the result's elements times those of `cotangent`."""
        return Expected(np.tensordot(cotangent, self.coefficients, cotangent.ndim))

    def summed(self, axis: int = 0) -> Expected:
        """The sum along a dimension, which stays, repeated."""
        total = self.coefficients.sum(axis, keepdims=True)
        return Expected(np.broadcast_to(total, self.coefficients.shape))

    def value(self, known: Derivatives) -> np.ndarray:
        """The result at POINT."""
        return np.tensordot(self.coefficients, known.values, 3)

    def jacobian(self, known: Derivatives) -> np.ndarray:
        """The derivative of the result there by all of the argument: [..., 4]."""
        assert not self.coefficients[..., -1, :].any(), "an order of which nothing is known"
        slopes = np.einsum("komi,kij->komj", known.slopes, TURNS)
        return np.tensordot(self.coefficients[..., :-1, :], slopes, 3)
