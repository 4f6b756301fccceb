"""linearize, jacfwd, jacrev and hessian: derivatives as functions and as arrays."""

from collections.abc import Callable, Sequence
from itertools import accumulate, compress
from typing import Literal, overload

import numpy as np
from jax.tree_util import tree_leaves, tree_map

from minixla.core.argument_kinds import checks_kinds
from minixla.core.docstrings import documented
from minixla.core.forward import ForwardTracer, LinearizeTrace, has_tangent
from minixla.core.linear import spread
from minixla.core.shapes import DeclaredArray
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import _state, evaluate_graph, shape_of
from minixla.engine.float0 import places
from minixla.transforms import gradients
from minixla.transforms.arguments import Arguments, in_place_of
from minixla.transforms.gradients import SHARED
from minixla.transforms.linear_functions import Pushforward, Sides
from minixla.transforms.sharing import shares
from minixla.transforms.typed_functions import Aux, Function, Numbers, Parameters, Result
from minixla.transforms.vmap import vmap
from minixla.typing import Array, ArrayLike, PyTree
from minixla_ops.helpers.shorthand import array_shape


@overload
def linearize(
    fun: Callable[..., Result], *primals: PyTree, has_aux: Literal[False] = False
) -> tuple[Result, Callable[..., Result]]: ...
@overload
def linearize(
    fun: Callable[..., tuple[Result, Aux]], *primals: PyTree, has_aux: Literal[True]
) -> tuple[Result, Callable[..., Result], Aux]: ...
@documented(SHARED)
@api_boundary
@checks_kinds
def linearize(fun: Function, *primals: PyTree, has_aux: bool = False) -> PyTree:
    """Compute `fun(*primals)` and its derivative there as a linear function (JAX: `jax.linearize`).

    Everything that depends only on the primals is computed once, now. The linear function runs the
    rest.

    Returns:
        `(result, linear)`, or `(result, linear, aux)`. `linear(*tangents)` takes a tangent for
        each primal and returns the tangent of the result.

    Raises:
        TransformError: from the linear function, if the tangents do not match the primals.

    Example:
        >>> value, linear = mx.linearize(lambda x: x**3, 2.0)
        >>> value, linear(1.0)
        (Array(8., dtype=float32, weak_type=True), Array(12., dtype=float32, weak_type=True))
    """
    arguments, trace = Arguments("linearize", fun, primals), LinearizeTrace(_state.trace)
    leaves, recorder = arguments.lifted(), trace.recorder
    inputs = [
        ForwardTracer(trace, x, recorder.add_input(shape_of(x))) if has_tangent(x) else x
        for x in leaves
    ]
    try:
        out = gradients.Outcome("linearize", trace, lambda: arguments.call(*inputs), has_aux)
        moving = [output.known for output in out.outputs if trace.is_own(output)]
        graph = recorder.graph(moving, "linearized").silent().pruned()
    finally:
        recorder.alive = False
    captured, flags = recorder.captured, list(map(trace.is_own, out.outputs))

    def push(tangents: Sequence[Array | None]) -> Sequence[object]:
        operands = [*captured, *compress(tangents, map(has_tangent, leaves))]
        results = spread(flags, evaluate_graph(graph, operands))
        return list(map(gradients.derivative_of, out.values, results))

    sides = Sides(arguments.tree, tuple(map(shape_of, leaves)), out.tree)
    return out.with_aux(out.result(), Pushforward(push, sides, arguments.where))


@documented(SHARED)
@shares
@checks_kinds
def jacfwd(
    fun: Callable[Parameters, PyTree],
    argnums: Numbers = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[Parameters, PyTree]:
    """Return a function that computes the Jacobian of `fun` by forward mode (JAX: `jax.jacfwd`).

    Returns:
        A function of the same arguments. Its result has, for each array of `fun`'s result, a tree
        like the argument (a tuple of trees for several arguments). The dimensions of its arrays are
        those of the result, then those of the argument. With `has_aux`, `aux` is returned beside
        it.

    Raises:
        DerivativeError: an argument is not a real float, or a result is neither a float nor
            complex; with `holomorphic`, an argument or result is not complex.

    Example:
        >>> mx.jacfwd(lambda x: x * x)(np.float32([1, 2]))
        Array([[2., 0.],
               [0., 4.]], dtype=float32)
    """

    @in_place_of(fun, "jacfwd")
    def derived(*args: PyTree, **kwargs: PyTree) -> PyTree:
        arguments = Arguments.chosen("jacfwd", fun, args, kwargs, argnums)
        leaves, aux = arguments.lifted(), []
        gradients.check_kinds("jacfwd", leaves, arguments.where, holomorphic)

        def push(*tangents: ArrayLike) -> PyTree:
            result, moving, *aux[:] = gradients.jvp(
                arguments.call, tuple(leaves), tangents, has_aux
            )
            _check_result("jacfwd", result, holomorphic, gradients.INEXACT)
            return moving

        columns = vmap(push, out_axes=-1)(*_basis(leaves))
        jacobian = tree_map(lambda column: arguments.alike(_split(column, leaves, -1)), columns)
        return (jacobian, *aux) if has_aux else jacobian

    return derived


@documented(SHARED)
@shares
@checks_kinds
def jacrev(
    fun: Callable[Parameters, PyTree],
    argnums: Numbers = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Parameters, PyTree]:
    """Return a function that computes the Jacobian of `fun` by reverse mode (JAX: `jax.jacrev`).

    Returns:
        A function of the same arguments, with the results of `jacfwd`.

    Raises:
        DerivativeError: a result is not a real float, or an argument is neither a float nor
            complex; with `holomorphic`, an argument or result is not complex.

    Example:
        >>> mx.jacrev(lambda x: x * x)(np.float32([1, 2]))
        Array([[2., 0.],
               [0., 4.]], dtype=float32)
    """

    @in_place_of(fun, "jacrev")
    def derived(*args: PyTree, **kwargs: PyTree) -> PyTree:
        arguments = Arguments.chosen("jacrev", fun, args, kwargs, argnums)
        kinds = gradients.ANY if allow_int else gradients.INEXACT
        gradients.check_kinds("jacrev", arguments.shapes(), arguments.where, holomorphic, kinds)
        out, pull = gradients.recorded("jacrev", arguments, has_aux)
        _check_result("jacrev", out.result(), holomorphic)
        rows = vmap(lambda *cotangents: pull(cotangents))(*_basis(out.values))
        # Rows are by argument; the result is by result, then argument.
        parts = [_split(row, out.values, 0) for row in rows]
        jacobian = out.result(
            [arguments.alike(list(column)) for column in zip(*parts, strict=True)]
        )
        return (jacobian, out.aux) if has_aux else jacobian

    return derived


@documented(SHARED)
@checks_kinds
def hessian(
    fun: Callable[Parameters, PyTree],
    argnums: Numbers = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[Parameters, PyTree]:
    """Return a function that computes the Hessian of `fun` (JAX: `jax.hessian`).

    Returns:
        A function of the same arguments: the `jacfwd` of the `jacrev` (forward over reverse mode).

    Raises:
        DerivativeError: an argument or result is not a real float (complex with `holomorphic`).

    Example:
        >>> mx.hessian(lambda x: x[0] ** 2 * x[1])(np.float32([1, 2]))
        Array([[4., 2.],
               [2., 0.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def _check_result(
    subject: str, result: PyTree, holomorphic: bool, kinds: Sequence[str] = ("float",)
) -> None:
    check = gradients.check_kinds
    check(subject, tree_leaves(result), lambda: places("the result", result), holomorphic, kinds)


def _basis(leaves: Sequence[Array]) -> list[np.ndarray]:
    """Return, for each array, its part of the standard basis of all: [total, *dimensions]."""
    shapes = list(map(array_shape, leaves))
    ends = list(accumulate([shape.size for shape in shapes], initial=0))
    pairs = zip(np.split(np.eye(ends[-1]), ends[1:], 1), shapes, strict=False)
    bases = [eye.astype(x.dtype).reshape((ends[-1], *x.dimensions)) for eye, x in pairs]
    return [base.view(DeclaredArray) for base in bases]


def _split(value: Array, leaves: Sequence[Array], axis: int) -> list[Array]:
    """Split an array along `axis` into one for each leaf, with the leaf's dimensions there."""
    at, parts, start = axis % len(value.shape), [], 0
    for shape in map(array_shape, leaves):
        part = value[(slice(None),) * at + (slice(start, start + shape.size),)]
        parts.append(part.reshape((*value.shape[:at], *shape.dimensions, *value.shape[at + 1 :])))
        start += shape.size
    return parts
