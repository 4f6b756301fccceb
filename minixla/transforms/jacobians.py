"""linearize, jacfwd, jacrev and hessian: derivatives as functions and as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.tree_util import tree_flatten, tree_map, tree_unflatten

from minixla.core.errors import DerivativeError, explain
from minixla.core.forward import ForwardTracer
from minixla.core.linear import spread, zeros_like
from minixla.core.partial import LinearizeTrace
from minixla.core.shapes import DeclaredArray, Shape
from minixla.core.tracebacks import api_boundary, hiding_frames
from minixla.core.tracing import _state, evaluate_graph, shape_of, under
from minixla.engine.float0 import float0_zeros
from minixla.engine.random_keys import flatten, without_keys
from minixla.transforms.arguments import (
    checked_function,
    is_single,
    leaving_all,
    named_after,
    positions,
)
from minixla.transforms.gradients import (
    _checked_tangents,
    _is_inexact,
    _leaving_aux,
    _split_aux,
    _wrong_structure,
    as_weak_as,
    jvp,
    vjp,
)
from minixla.transforms.places import argument_places, chosen_places, lifted_leaves, places
from minixla.transforms.vmap import vmap


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`fun(*primals)` and its derivative there as a linear function (JAX: linearize).

    What depends on the primals alone is computed once, now; the linear function runs the rest.

    Args:
        fun: a function of pytrees of arrays.
        primals: its arguments.
        has_aux: whether `fun` returns `(result, aux)`.

    Returns:
        `(result, linear)`, or `(result, linear, aux)`. `linear(*tangents)` takes a tangent for
        each primal and returns that of the result.

    Raises:
        TransformError: from the linear function, where the tangents do not fit the primals.
    """
    checked_function(fun, "linearize")
    parent = _state.trace
    leaves, tree = flatten(primals)
    leaves = lifted_leaves("linearize", leaves, lambda: argument_places(fun, primals))
    trace = LinearizeTrace(parent)
    recorder = trace.recorder
    inputs = [
        ForwardTracer(trace, leaf, recorder.add_input(shape_of(leaf)))
        if _is_inexact(leaf)
        else leaf
        for leaf in leaves
    ]

    def value_of(output: Any) -> Any:
        is_mine = type(output) is ForwardTracer and output._trace is trace
        return output.value if is_mine else output

    aux = None
    try:
        with under(trace):
            out = fun(*tree_unflatten(tree, inputs))
        if has_aux:
            out, aux = _split_aux("linearize", out)
            aux = _leaving_aux(value_of, aux, parent, "linearize")
        outputs, out_tree = flatten(out)
        values = leaving_all(list(map(value_of, outputs)), parent, "linearize", out)
        moving = [output.tangent if value_of(output) is not output else None for output in outputs]
        kept = [each for each in moving if each is not None]
        graph = recorder.graph(kept, "linearized").silent().pruned()
    finally:
        trace.alive = recorder.alive = False
    captured = recorder.captured

    @api_boundary
    def linear(*tangents: Any) -> Any:
        given, given_tree = tree_flatten(tangents)
        if given_tree != without_keys(tree):
            raise _wrong_structure("linearize", "tangents", given_tree, "primals", tree)
        lift = _state.trace.lift
        checked = _checked_tangents(
            "linearize", "tangent", given, leaves, lambda: argument_places(fun, primals)
        )
        operands = [each for each, leaf in zip(checked, leaves, strict=True) if _is_inexact(leaf)]
        found = iter(evaluate_graph(graph, [*captured, *operands]))
        results = [
            _zero_tangent(value, lift) if each is None else as_weak_as(value, lift(next(found)))
            for each, value in zip(moving, values, strict=True)
        ]
        return tree_unflatten(out_tree, results)

    result = tree_unflatten(out_tree, values)
    return (result, linear, aux) if has_aux else (result, linear)


def _zero_tangent(value: Any, lift: Callable[[Any], Any]) -> Any:
    if not _is_inexact(value):
        return float0_zeros(value.shape)
    return as_weak_as(value, lift(zeros_like(value)))


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `fun`, by forward mode (JAX: jacfwd).

    Args:
        fun: a function of pytrees of arrays.
        argnums: the positional argument or arguments to differentiate with respect to.
        has_aux: whether `fun` returns `(result, aux)`; the Jacobian comes with `aux`.
        holomorphic: whether `fun` is holomorphic: complex inputs and results.

    Returns:
        A function of the same arguments. Its result has, for each array of `fun`'s result, a tree
        like the argument (a tuple of such for several) of arrays whose dimensions are those of
        the result, then those of the argument.

    Raises:
        DerivativeError: arguments that are not real floats (complex where holomorphic).
    """
    checked_function(fun, "jacfwd")

    @hiding_frames
    def derived(*args: Any, **kwargs: Any) -> Any:
        flat, leaves, rebuild = _chosen("jacfwd", fun, argnums, args, kwargs, holomorphic)

        def push(*tangents: Any) -> Any:
            outcome = jvp(flat, tuple(leaves), tangents, has_aux)
            _check_results("jacfwd", outcome[0], holomorphic)
            return outcome[1:]

        bases = _basis(leaves)
        out = vmap(push, out_axes=(-1, None) if has_aux else (-1,))(*bases)
        jacobian = tree_map(lambda each: rebuild(_split(each, leaves, -1)), out[0])
        return (jacobian, out[1]) if has_aux else jacobian

    return named_after(derived, fun)


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `fun`, by reverse mode (JAX: jacrev).

    Arguments, result and errors are those of `jacfwd`; with `allow_int` integer arguments get
    float0 zeros.
    """
    checked_function(fun, "jacrev")

    @hiding_frames
    def derived(*args: Any, **kwargs: Any) -> Any:
        flat, leaves, rebuild = _chosen(
            "jacrev", fun, argnums, args, kwargs, holomorphic, allow_int
        )
        moving = [_is_inexact(leaf) for leaf in leaves]

        def of_moving(*tracers: Any) -> Any:
            return flat(*spread(moving, tracers, leaves))

        inexact = [leaf for leaf, flag in zip(leaves, moving, strict=True) if flag]
        result, pull, *aux = vjp(of_moving, *inexact, has_aux=has_aux)
        _check_results("jacrev", result, holomorphic)
        outputs, tree = tree_flatten(result)
        rows = iter(vmap(pull)(tree_unflatten(tree, _basis(outputs))))
        # Rows by argument; wanted by result, then argument.
        parts = [
            _split(next(rows), outputs, 0)
            if flag
            else [float0_zeros((*out.shape, *leaf.shape)) for out in outputs]
            for leaf, flag in zip(leaves, moving, strict=True)
        ]
        columns = [rebuild(list(column)) for column in zip(*parts, strict=True)]
        jacobian = tree_unflatten(tree, columns)
        return (jacobian, *aux) if has_aux else jacobian

    return named_after(derived, fun)


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Hessian of `fun`, forward over reverse (JAX: hessian)."""
    inner = jacrev(fun, argnums, has_aux, holomorphic)
    return jacfwd(inner, argnums, has_aux, holomorphic)


def _chosen(
    subject: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    holomorphic: bool,
    allow_int: bool = False,
) -> tuple[Callable[..., Any], list[Any], Callable[[Sequence[Any]], Any]]:
    """`fun` of the leaves of the chosen arguments, these, and how to put such leaves together."""
    chosen = positions(argnums, len(args), subject)
    leaves, tree = tree_flatten([args[index] for index in chosen])

    def where() -> Sequence[str]:
        return chosen_places(fun, args, chosen)

    leaves = lifted_leaves(subject, leaves, where)
    for index, leaf in enumerate(leaves):
        _check_kind(subject, lambda i=index: where()[i], leaf, holomorphic, allow_int)

    def flat(*tracers: Any) -> Any:
        full = list(args)
        for index, value in zip(chosen, tree_unflatten(tree, tracers), strict=True):
            full[index] = value
        return fun(*full, **kwargs)

    def rebuild(found: Sequence[Any]) -> Any:
        parts = tree_unflatten(tree, found)
        return parts[0] if is_single(argnums) else tuple(parts)

    return flat, leaves, rebuild


def _check_results(subject: str, results: Any, holomorphic: bool) -> None:
    for index, result in enumerate(tree_flatten(results)[0]):
        _check_kind(
            subject, lambda i=index: places("the result", results)[i], result, holomorphic, False
        )


def _check_kind(
    subject: str, where: Callable[[], str], value: Any, holomorphic: bool, allow_int: bool
) -> None:
    shape = shape_of(value)
    kind = shape.element_type if isinstance(shape, Shape) else None
    if kind is not None and (
        (kind.is_complex if holomorphic else kind.is_float) or (allow_int and not kind.is_inexact)
    ):
        return
    raise explain(
        DerivativeError,
        subject,
        f"{where()} has no Jacobian with holomorphic={holomorphic}",
        [f"it is {shape}"],
        "Arguments and results must be real floats, or complex with holomorphic=True.",
    )


def _basis(leaves: Sequence[Any]) -> list[Any]:
    """For each array, its part of the standard basis of all: [total, *dimensions]."""
    shapes = [shape_of(leaf) for leaf in leaves]
    sizes = [shape.size for shape in shapes if isinstance(shape, Shape)]
    total, start, bases = sum(sizes), 0, []
    for shape, size in zip(shapes, sizes, strict=True):
        assert isinstance(shape, Shape)
        eye = np.eye(total, size, -start).astype(shape.dtype)
        bases.append(eye.reshape((total, *shape.dimensions)).view(DeclaredArray))
        start += size
    return bases


def _split(value: Any, leaves: Sequence[Any], axis: int) -> list[Any]:
    """An array cut along `axis` into one for each leaf, its dimensions in the axis's place."""
    shapes = [shape_of(leaf) for leaf in leaves]
    rank, parts, start = len(value.shape), [], 0
    at = axis % rank
    for shape in shapes:
        assert isinstance(shape, Shape)
        index = (slice(None),) * at + (slice(start, start + shape.size),)
        sizes = (*value.shape[:at], *shape.dimensions, *value.shape[at + 1 :])
        parts.append(value[index].reshape(sizes))
        start += shape.size
    return parts
