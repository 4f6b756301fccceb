"""grad, value_and_grad, vjp and jvp: derivatives of functions of pytrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.tree_util import tree_flatten, tree_map, tree_structure, tree_unflatten

from minixla.core.errors import DerivativeError, TransformError, explain
from minixla.core.forward import ForwardTrace, ForwardTracer
from minixla.core.linear import zeros_like
from minixla.core.reverse import ReverseTrace, ReverseTracer
from minixla.core.shapes import Shape
from minixla.core.tracebacks import api_boundary, hiding_frames
from minixla.core.tracing import Trace, Tracer, _state, shape_of, under, weak_type_of
from minixla.engine.float0 import float0_zeros, is_float0
from minixla.engine.random_keys import flatten, without_keys
from minixla.transforms.arguments import (
    checked_function,
    is_single,
    leaving,
    leaving_all,
    named_after,
    positions,
)
from minixla.transforms.places import (
    Places,
    argument_places,
    chosen_places,
    difference,
    leaf_shapes,
    lifted_leaves,
    structure_places,
)
from minixla_ops.vocabulary.shorthand import ones_like


class _Recorded:
    """A function run under a reverse trace: its outputs and the way back to chosen leaves."""

    def __init__(
        self,
        subject: str,
        fun: Callable[..., Any],
        leaves: Sequence[Any],
        has_aux: bool,
        where: Places,
    ) -> None:
        parent = _state.trace
        self.trace = trace = ReverseTrace(parent)
        self.leaves = lifted_leaves(subject, leaves, where)
        self.inputs = [trace.add_input(x) if _is_inexact(x) else None for x in self.leaves]
        tracers = [x if t is None else t for x, t in zip(self.leaves, self.inputs, strict=True)]
        try:
            with under(trace):
                out = fun(*tracers)
        finally:
            trace.alive = False
        self.aux = None
        if has_aux:
            out, aux = _split_aux(subject, out)
            self.aux = _leaving_aux(self._value, aux, parent, subject)
        self.outputs, self.tree = flatten(out)
        self.values = leaving_all(list(map(self._value, self.outputs)), parent, subject, out)

    def _value(self, output: Any) -> Any:
        is_mine = type(output) is ReverseTracer and output._trace is self.trace
        return output.value if is_mine else output

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """A cotangent for each leaf; float0 zeros for leaves that have none."""
        tracers = [tracer for tracer in self.inputs if tracer is not None]
        found = iter(self.trace.pull(self.outputs, cotangents, tracers))
        lift = _state.trace.lift
        results = []
        for leaf, tracer in zip(self.leaves, self.inputs, strict=True):
            if tracer is None:
                results.append(float0_zeros(leaf.shape))
            else:
                cotangent = next(found)
                value = lift(zeros_like(leaf) if cotangent is None else cotangent)
                results.append(as_weak_as(leaf, value))
        return results


def _is_inexact(value: Any) -> bool:
    shape = shape_of(value)
    return isinstance(shape, Shape) and shape.element_type.is_inexact


def as_weak_as(primal: Any, derivative: Any) -> Any:
    """A derivative, weakly typed where the value that it belongs to is."""
    return _state.trace.weakly(derivative) if weak_type_of(primal) else derivative


def _split_aux(subject: str, out: Any) -> tuple[Any, Any]:
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise explain(
            TransformError,
            subject,
            "the function did not return a pair, as has_aux=True wants",
            [f"it returned {type(out).__name__}"],
            "Return (result, auxiliary data).",
        )
    return out[0], out[1]


def _leaving_aux(value_of: Callable[[Any], Any], aux: Any, parent: Trace, subject: str) -> Any:
    """Auxiliary data with the parent's values; what is no tracer passes as it is."""

    def leave(leaf: Any) -> Any:
        value = value_of(leaf)
        if not isinstance(value, Tracer):
            return value
        return leaving(value, parent, subject, lambda: "auxiliary data")

    return tree_map(leave, aux)


@api_boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`fun(*primals)` and its pullback (JAX: vjp).

    Args:
        fun: a function of pytrees of arrays.
        primals: its arguments.
        has_aux: whether `fun` returns `(result, aux)`; `aux` is passed through.

    Returns:
        `(result, pullback)`, or `(result, pullback, aux)`. `pullback(cotangent)` takes a pytree
        like the result and returns a tuple with a cotangent for each primal (float0 zeros for
        integers and booleans).

    Raises:
        TransformError: from the pullback, where the cotangent does not fit the result.
    """
    checked_function(fun, "vjp")
    leaves, tree = flatten(primals)
    recorded = _Recorded(
        "vjp",
        lambda *flat: fun(*tree_unflatten(tree, flat)),
        leaves,
        has_aux,
        lambda: argument_places(fun, primals),
    )

    @api_boundary
    def pullback(cotangent: Any) -> Any:
        given, given_tree = tree_flatten(cotangent)
        if given_tree != without_keys(recorded.tree):
            raise _wrong_structure("vjp", "cotangent", given_tree, "result", recorded.tree)
        checked = _checked_tangents(
            "vjp",
            "cotangent",
            given,
            recorded.values,
            lambda: structure_places("the result", recorded.tree),
        )
        return tree_unflatten(tree, recorded.pull(checked))

    result = tree_unflatten(recorded.tree, recorded.values)
    return (result, pullback, recorded.aux) if has_aux else (result, pullback)


def _wrong_structure(
    subject: str, what: str, given: Any, other: str, wanted: Any
) -> TransformError:
    return explain(
        TransformError,
        subject,
        f"the {what} has another structure than the {other}",
        [
            f"{what}: {given}",
            f"{other}: {wanted}",
            *difference("", f"{what} has", given, f"{other} has", wanted),
        ],
        f"Give a {what} with one array for each array of the {other}.",
    )


def _checked_tangents(
    subject: str, what: str, tangents: Sequence[Any], primals: Sequence[Any], where: Places
) -> list[Any]:
    """Tangents or cotangents as values, None for float0 zeros."""
    return [
        _checked_tangent(subject, what, tangent, primal, lambda i=index: where()[i])
        for index, (tangent, primal) in enumerate(zip(tangents, primals, strict=True))
    ]


def _checked_tangent(
    subject: str, what: str, tangent: Any, primal: Any, where: Callable[[], str]
) -> Any:
    primal_shape = shape_of(primal)
    if is_float0(tangent):
        if not _is_inexact(primal):
            return None
        given: Any = f"float0{list(tangent.shape)}"
    else:
        tangent = lifted_leaves(subject, [tangent], lambda: [f"the {what} of {where()}"])[0]
        given = shape_of(tangent)
        if given is primal_shape and _is_inexact(primal):
            return tangent
    wanted = primal_shape if _is_inexact(primal) else "float0, since integers have no derivative"
    raise explain(
        TransformError,
        subject,
        f"the {what} of {where()} does not fit it",
        [f"{where()}: {primal_shape}", f"{what}: {given}"],
        f"It must be {wanted}.",
    )


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns `fun`'s value and its gradient (JAX: value_and_grad).

    Args:
        fun: returns a real scalar (or a pair with auxiliary data).
        argnums: the positional argument or arguments to differentiate with respect to.
        has_aux: whether `fun` returns `(value, aux)`.
        holomorphic: whether `fun` is holomorphic: complex inputs and a complex result.
        allow_int: whether integer arguments are allowed; they get float0 zeros.

    Returns:
        A function of the same arguments that returns `(value, gradient)`, or
        `((value, aux), gradient)`; the gradient is like the argument, or a tuple of such.

    Raises:
        TransformError: `fun` does not return a scalar, or argnums is out of range.
        DerivativeError: integer arguments or complex values where they are not allowed.
    """
    checked_function(fun, "value_and_grad")
    return named_after(hiding_frames(_both(fun, argnums, has_aux, holomorphic, allow_int)), fun)


def _both(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> Callable[..., Any]:
    """The function that `value_and_grad` returns, before it is one of the public ones."""
    name = "grad"

    def derived(*args: Any, **kwargs: Any) -> Any:
        chosen = positions(argnums, len(args), name)
        leaves, tree = flatten([args[index] for index in chosen])

        def where() -> Sequence[str]:
            return chosen_places(fun, args, chosen)

        shapes = leaf_shapes(name, leaves, where)
        for index, shape in enumerate(shapes):
            _check_input(name, shape, holomorphic, allow_int, lambda i=index: where()[i])

        def flat(*tracers: Any) -> Any:
            full = list(args)
            for index, value in zip(chosen, tree_unflatten(tree, tracers), strict=True):
                full[index] = value
            return fun(*full, **kwargs)

        recorded = _Recorded(name, flat, leaves, has_aux, where)
        value = _scalar_output(recorded, holomorphic)
        found = tree_unflatten(tree, recorded.pull([_state.trace.lift(ones_like(value))]))
        gradient = found[0] if is_single(argnums) else tuple(found)
        return ((value, recorded.aux) if has_aux else value), gradient

    return derived


def _scalar_output(recorded: _Recorded, holomorphic: bool) -> Any:
    shapes = [shape_of(value) for value in recorded.values]
    only = shapes[0] if recorded.tree == tree_structure(0) else None
    if not isinstance(only, Shape) or only.rank:
        raise explain(
            TransformError,
            "grad",
            "the function does not return one scalar",
            [f"it returned {recorded.tree} of shapes {shapes}"],
            "Reduce the result to a scalar (for example with .sum()), use has_aux=True for more "
            "results, or mx.vjp or mx.jacrev for functions of other results.",
        )
    kind = only.element_type
    if kind.is_complex != holomorphic or not kind.is_inexact:
        raise explain(
            DerivativeError,
            "grad",
            f"the function returns {only} with holomorphic={holomorphic}",
            advice="The result must be a real float, or complex with holomorphic=True.",
        )
    return recorded.values[0]


def _check_input(
    subject: str, shape: Any, holomorphic: bool, allow_int: bool, where: Callable[[], str]
) -> None:
    if not isinstance(shape, Shape):
        raise explain(
            DerivativeError,
            subject,
            f"{where()} is not an array",
            [f"it is {shape}"],
            "Give its members as a Python tuple, or differentiate with mx.vjp.",
        )
    kind = shape.element_type
    if holomorphic and not kind.is_complex:
        raise explain(
            DerivativeError,
            "grad",
            f"holomorphic=True, and {where()} is of type {kind}",
            [f"it is {shape}"],
            "Give complex arguments.",
        )
    if not kind.is_inexact and not allow_int:
        raise explain(
            DerivativeError,
            "grad",
            f"{where()} of type {kind} has no gradient",
            [f"it is {shape}"],
            "Give floats (1.0, not 1), choose other argnums, or set allow_int=True for zeros.",
        )


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of `fun` (JAX: grad).

    Arguments and errors are those of `value_and_grad`. With `has_aux` it returns
    `(gradient, aux)`.
    """
    checked_function(fun, "grad")
    both = _both(fun, argnums, has_aux, holomorphic, allow_int)

    @hiding_frames
    def derived(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return named_after(derived, fun)


@api_boundary
def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """`fun(*primals)` and its derivative along `tangents` (JAX: jvp).

    Args:
        fun: a function of pytrees of arrays.
        primals: its arguments.
        tangents: one for each, alike in structure, shape and type (float0 for integers).
        has_aux: whether `fun` returns `(result, aux)`.

    Returns:
        `(result, tangent)`, or `(result, tangent, aux)`.

    Raises:
        TransformError: the tangents do not fit the primals.
    """
    checked_function(fun, "jvp")
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise explain(
            TransformError,
            "jvp",
            "primals and tangents must be tuples or lists",
            [f"primals: {type(primals).__name__}", f"tangents: {type(tangents).__name__}"],
            "Write mx.jvp(f, (x,), (t,)).",
        )
    parent = _state.trace
    leaves, tree = flatten(tuple(primals))
    given, given_tree = tree_flatten(tuple(tangents))
    if given_tree != without_keys(tree):
        raise _wrong_structure("jvp", "tangents", given_tree, "primals", tree)
    trace = ForwardTrace(parent)

    def where() -> Sequence[str]:
        return argument_places(fun, primals)

    leaves = lifted_leaves("jvp", leaves, where)
    checked = _checked_tangents("jvp", "tangent", given, leaves, where)
    pairs = zip(leaves, checked, strict=True)
    inputs = [x if t is None else ForwardTracer(trace, x, t) for x, t in pairs]
    try:
        with under(trace):
            out = fun(*tree_unflatten(tree, inputs))
    finally:
        trace.alive = False
    aux = None
    if has_aux:
        out, aux = _split_aux("jvp", out)
        aux = _leaving_aux(lambda leaf: _primal_of(trace, leaf), aux, parent, "jvp")
    outputs, out_tree = flatten(out)
    values = leaving_all([_primal_of(trace, output) for output in outputs], parent, "jvp", out)
    tangents_out = [_tangent_of(trace, *pair) for pair in zip(outputs, values, strict=True)]
    result = tree_unflatten(out_tree, values)
    tangent = tree_unflatten(out_tree, tangents_out)
    return (result, tangent, aux) if has_aux else (result, tangent)


def _is_own(trace: ForwardTrace, value: Any) -> bool:
    return type(value) is ForwardTracer and value._trace is trace


def _primal_of(trace: ForwardTrace, value: Any) -> Any:
    return value.value if _is_own(trace, value) else value


def _tangent_of(trace: ForwardTrace, output: Any, value: Any) -> Any:
    if not _is_own(trace, output):
        if not _is_inexact(value):
            return float0_zeros(value.shape)
        return as_weak_as(value, trace.parent.lift(zeros_like(value)))
    return as_weak_as(value, trace.parent.lift(output.tangent))
