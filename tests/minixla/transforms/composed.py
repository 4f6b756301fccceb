"""The transformations that the table of compositions composes, each with what it must return."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import minixla as mx
from tests.minixla.transforms.expected import DIRECTION, TURNS, Derivatives, Expected, weights

Function = Callable[[Any], Any]
Names = tuple[str, ...]
_names = itertools.count()


class Transformation(NamedTuple):
    """One transformation of functions of an f64[4].

    Attributes:
        apply: the transformed function.
        expect: what it returns; of one that `ends_in_argument`, whose derivative it returns.
        ends_in_argument: whether the result's last dimension is that of the argument.
        is_forward: whether it needs a forward derivative.
    """

    apply: Callable[[Function], Function]
    expect: Callable[[Expected], Expected]
    ends_in_argument: bool = False
    is_forward: bool = False

    def closed(self, fun: Function) -> Function:
        """The transformed function, ready for another transformation."""
        applied = self.apply(fun)
        return (lambda x: applied(x) @ DIRECTION) if self.ends_in_argument else applied

    def expect_closed(self, inner: Expected) -> Expected:
        """What that returns."""
        found = self.expect(inner)
        return found.derivative() if self.ends_in_argument else found


def _grad(grad: Callable[..., Any]) -> Callable[[Function], Function]:
    def apply(fun: Function) -> Function:
        def scalar(x: Any) -> Any:
            result = fun(x)
            return (result * weights(result.shape, 0.0)).sum()

        return grad(scalar)

    return apply


def _jvp(fun: Function) -> Function:
    def apply(x: Any) -> Any:
        result, tangent = mx.jvp(fun, (x,), (DIRECTION,))
        return tangent - 0.5 * result

    return apply


def _linearize(fun: Function) -> Function:
    def apply(x: Any) -> Any:
        result, linear = mx.linearize(fun, x)
        return linear(DIRECTION) + result

    return apply


def _vjp(fun: Function) -> Function:
    def apply(x: Any) -> Any:
        result, pullback = mx.vjp(fun, x)
        return pullback(weights(result.shape, 1.0))[0]

    return apply


def _vmap(vmap: Callable[..., Any]) -> Callable[[Function], Function]:
    members = TURNS[:3].transpose(1, 0, 2)
    return lambda fun: lambda x: vmap(fun, in_axes=1)(members @ x)


def _with_sum(fun: Function) -> Any:
    """A member's result less a part of what all members of an axis return, and the axis."""
    name = f"axis {next(_names)}"

    def member(x: Any) -> Any:
        result = fun(x)
        return result - 0.3 * mx.psum(result, name)

    return member, name


def _named(fun: Function) -> Function:
    member, name = _with_sum(fun)
    return lambda x: mx.vmap(member, out_axes=-1, axis_name=name)(TURNS[:2] @ x)


def _pmap(fun: Function) -> Function:
    member, name = _with_sum(fun)
    return lambda x: mx.pmap(member, axis_name=name)(TURNS[:2] @ x)


def _weighted(phase: float) -> Callable[[Expected], Expected]:
    return lambda e: e.contracted(weights(e.shape, phase))


def _less_sum(axis: int) -> Callable[[Expected], Expected]:
    def expect(inner: Expected) -> Expected:
        rows = inner.rows(2, axis)
        return rows + -0.3 * rows.summed(axis % len(rows.shape))

    return expect


def _same(inner: Expected) -> Expected:
    return inner


#: What composes in any order.
INNER = {
    "jit": Transformation(mx.jit, _same),
    "grad": Transformation(_grad(mx.grad), _weighted(0.0), True),
    "jvp": Transformation(_jvp, lambda e: e.derivative() + -0.5 * e, is_forward=True),
    "vjp": Transformation(_vjp, _weighted(1.0), True),
    "linearize": Transformation(_linearize, lambda e: e.derivative() + e, is_forward=True),
    "vmap": Transformation(_vmap(mx.vmap), lambda e: e.rows(3)),
    "named vmap": Transformation(_named, _less_sum(-1)),
    "checkpoint": Transformation(mx.checkpoint, _same),
    "jacfwd": Transformation(mx.jacfwd, _same, True, True),
    "jacrev": Transformation(mx.jacrev, _same, True),
    "pmap": Transformation(_pmap, _less_sum(0)),
}
#: The reference, which must be outermost, and JAX's transformations.
OUTER = {
    "reference": Transformation(mx.reference, _same),
    "jax.jit": Transformation(jax.jit, _same),
    "jax.grad": Transformation(_grad(jax.grad), _weighted(0.0), True),
    "jax.vmap": Transformation(_vmap(jax.vmap), lambda e: e.rows(3)),
}
TRANSFORMATIONS = INNER | OUTER


def composed(names: Names, program: Function) -> Function:
    """A program under transformations, the outermost first."""
    outermost, *inner = [TRANSFORMATIONS[name] for name in names]
    for each in reversed(inner):
        program = each.closed(program)
    return outermost.apply(program)


def expected(names: Names, known: Derivatives) -> np.ndarray:
    """What `composed` of a program with these derivatives returns at POINT."""
    found = _expected(names, known.values.shape[-1])
    is_jacobian = TRANSFORMATIONS[names[0]].ends_in_argument
    return found.jacobian(known) if is_jacobian else found.value(known)


@functools.cache
def _expected(names: Names, size: int) -> Expected:
    """The same of any program whose result is a vector of `size`."""
    outermost, *inner = [TRANSFORMATIONS[name] for name in names]
    found = Expected.program(size)
    for each in reversed(inner):
        found = each.expect_closed(found)
    return outermost.expect(found)
