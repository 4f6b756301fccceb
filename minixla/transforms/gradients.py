"""grad, value_and_grad, vjp and jvp: derivatives of functions of pytrees."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from jax.tree_util import tree_flatten, tree_structure, tree_unflatten

from minixla.core.argument_kinds import checks_kinds
from minixla.core.docstrings import documented
from minixla.core.errors import DerivativeError, explain
from minixla.core.forward import ForwardTrace, ForwardTracer, has_tangent
from minixla.core.linear import zeros_like
from minixla.core.reverse import ReverseTrace
from minixla.core.shapes import Shape, TupleShape, TupleValue
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Trace, Tracer, _state, shape_of, under, weak_type_of
from minixla.engine.float0 import (
    float0_zeros,
    places,
)
from minixla.engine.random_keys import flatten
from minixla.transforms.arguments import Arguments, in_place_of, leaving, misfit
from minixla.transforms.linear_functions import Pullback, Sides, checked_tangents
from minixla.transforms.pytree_paths import Places
from minixla.transforms.sharing import shares
from minixla.transforms.typed_functions import Aux, Function, Numbers, Parameters, Result
from minixla.typing import Array, ArrayLike, PyTree
from minixla_ops.helpers.shorthand import array_shape, ones_like

#: Kinds of element types that may be differentiated, or stand for zeros.
INEXACT = "float", "complex"
ANY = *INEXACT, "pred", "signed", "unsigned"
#: Sections that the derivatives share.
SHARED = """
Args:
    fun: a function of pytrees of arrays.
    primals: the arguments of `fun`.
    argnums: the positional argument or arguments to differentiate with respect to.
    has_aux: whether `fun` returns `(result, aux)`; `aux` is returned beside the derivative.
    holomorphic: whether `fun` is holomorphic: complex inputs and results.
    allow_int: whether integer arguments are allowed; their derivatives are float0 zeros.
"""
_OF_SCALARS = """
Args:
    fun: a function that returns a real scalar, or a pair with auxiliary data.

Raises:
    TransformError: `fun` does not return a scalar, or argnums is out of range.
    DerivativeError: an argument has an integer or complex type that is not allowed.
"""


class Outcome:
    """The result of a function under a trace, as values of the previous trace.

    `outputs` are the leaves of the result as the function returned them, and `values` the same
    without the trace's derivatives; `aux` is the auxiliary data.
    """

    def __init__(self, subject: str, trace: Trace, call: Function, has_aux: bool) -> None:
        self.trace, self._has_aux = trace, has_aux
        try:
            with under(trace):
                out, aux = self._parted(subject, call()) if has_aux else (call(), None)
                # This traces the linear functions in the result.
                self.outputs, self.tree = flatten(out)
                leaves, aux_tree = tree_flatten(aux)
        finally:
            trace.alive = False
        self.aux = tree_unflatten(aux_tree, [self._leave(subject, leaf) for leaf in leaves])
        values = list(map(self.value_of, self.outputs))
        self.values = leaving(values, subject, lambda: places("the result", out, True))

    def _parted(self, subject: str, out: PyTree) -> tuple[PyTree, PyTree]:
        """Split the pair that the function returns into result and auxiliary data."""
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            problem = "the function must return a pair, since has_aux=True"
            details = [f"it returned {type(out).__name__}"]
            raise misfit(subject, problem, details, "Return (result, auxiliary data).")
        return out[0], out[1]

    def _leave(self, subject: str, leaf: object) -> object:
        """Convert a leaf of the auxiliary data to a value of the current trace."""
        values = [self.value_of(leaf)] if isinstance(leaf, Tracer) else []
        return leaving(values, subject, lambda: ["auxiliary data"])[0] if values else leaf

    def value_of(self, output: ArrayLike) -> ArrayLike:
        """Return an output without the trace's derivative."""
        return output.value if self.trace.is_own(output) else output

    def result(self, leaves: Sequence[object] | None = None) -> PyTree:
        """Return the function's result, or other leaves in its structure."""
        return tree_unflatten(self.tree, self.values if leaves is None else leaves)

    def with_aux(self, *operands: PyTree) -> tuple[PyTree, ...]:
        """Append the auxiliary data, if any, to the results of a transformation."""
        return (*operands, self.aux) if self._has_aux else operands


def recorded(subject: str, arguments: Arguments, has_aux: bool) -> tuple[Outcome, Function]:
    """Return a function's outcome, and its pullback, which returns float0 for integer leaves."""
    trace, leaves = ReverseTrace(_state.trace), arguments.lifted()
    inputs = [trace.add_input(x) if has_tangent(x) else x for x in leaves]
    out = Outcome(subject, trace, lambda: arguments.call(*inputs), has_aux)

    def pull(cotangents: Sequence[Array | None]) -> list[Any]:
        return list(map(derivative_of, leaves, trace.pull(out.outputs, cotangents, inputs)))

    return out, pull


def derivative_of(primal: object, derivative: Any) -> Any:  # noqa: ANN401  # float0 and tuples, too
    """Return a derivative as users get it, weak like its primal; None becomes zeros or float0."""
    shape = shape_of(primal)
    if isinstance(shape, TupleShape) and not isinstance(derivative, Tracer):
        parts = [None] * len(shape.elements) if derivative is None else derivative.elements
        return TupleValue(list(map(derivative_of, shape.elements, parts)))
    if derivative is None:
        if not has_tangent(shape):
            return float0_zeros(array_shape(shape).dimensions)
        derivative = zeros_like(primal)
    lifted = _state.trace.lift(derivative)
    return _state.trace.weakly(lifted) if weak_type_of(primal) else lifted


@overload
def vjp(
    fun: Callable[..., Result], *primals: PyTree, has_aux: Literal[False] = False
) -> tuple[Result, Callable[[PyTree], tuple[PyTree, ...]]]: ...
@overload
def vjp(
    fun: Callable[..., tuple[Result, Aux]], *primals: PyTree, has_aux: Literal[True]
) -> tuple[Result, Callable[[PyTree], tuple[PyTree, ...]], Aux]: ...
@documented(SHARED)
@api_boundary
@checks_kinds
def vjp(fun: Function, *primals: PyTree, has_aux: bool = False) -> PyTree:
    """Compute `fun(*primals)` and its pullback (JAX: `jax.vjp`).

    Returns:
        `(result, pullback)`, or `(result, pullback, aux)`. `pullback(cotangent)` takes a pytree
        like the result and returns a tuple with a cotangent for each primal, float0 for integers.

    Raises:
        TransformError: from the pullback, if the cotangent does not match the result.

    Example:
        >>> value, pullback = mx.vjp(lambda x, y: x * y, np.float32(2), np.float32(3))
        >>> pullback(np.float32(1))
        (Array(3., dtype=float32), Array(2., dtype=float32))
    """
    arguments = Arguments("vjp", fun, primals)
    out, pull = recorded("vjp", arguments, has_aux)
    sides = Sides(out.tree, tuple(map(shape_of, out.values)), arguments.tree)
    return out.with_aux(out.result(), Pullback(pull, sides))


@documented(SHARED)
@documented(_OF_SCALARS)
@shares
@checks_kinds
def value_and_grad(
    fun: Callable[Parameters, Result],
    argnums: Numbers = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Parameters, tuple[Result, PyTree]]:
    """Return a function that computes `fun` and its gradient (JAX: `jax.value_and_grad`).

    Returns:
        A function of the same arguments that returns `(value, gradient)`, or
        `((value, aux), gradient)`; the gradient is like the argument, or a tuple of gradients.

    Example:
        >>> mx.value_and_grad(lambda x: x**3)(2.0)
        (Array(8., dtype=float32, weak_type=True), Array(12., dtype=float32, weak_type=True))
    """

    @in_place_of(fun, "value_and_grad")
    def derived(*args: PyTree, **kwargs: PyTree) -> PyTree:
        arguments = Arguments.chosen("grad", fun, args, kwargs, argnums)
        check_kinds(
            "grad", arguments.shapes(), arguments.where, holomorphic, ANY if allow_int else INEXACT
        )
        out, pull = recorded("grad", arguments, has_aux)
        value = _scalar_output(out, holomorphic)
        gradient = arguments.alike(pull([_state.trace.lift(ones_like(value))]))
        return (value, out.aux) if has_aux else value, gradient

    return derived


def _scalar_output(out: Outcome, holomorphic: bool) -> Array:
    shapes = [shape_of(value) for value in out.values]
    is_lone = out.tree == tree_structure(0)
    only = shapes[0] if is_lone else None
    if not isinstance(only, Shape) or only.rank:
        problem = "the function must return one scalar"
        details = [f"it returned {only if is_lone else f'{out.tree} of shapes {shapes}'}"]
        advice = "Reduce the result to a scalar (for example with .sum()), use has_aux=True for "
        advice += "more results, or mx.vjp or mx.jacrev for other results."
        raise misfit("grad", problem, details, advice)
    check_kinds("grad", shapes, lambda: ["the result"], holomorphic)
    return out.values[0]


def check_kinds(
    subject: str,
    values: Sequence[object],
    where: Places,
    holomorphic: bool,
    kinds: Sequence[str] = ("float",),
) -> None:
    """Raise DerivativeError for values of kinds other than `kinds`, or complex if holomorphic."""
    for index, shape in enumerate(map(shape_of, values)):
        kind = shape.element_type if isinstance(shape, Shape) else None
        if kind is not None and kind.kind in (("complex",) if holomorphic else kinds):
            continue
        place, noun = where()[index], "gradient" if subject == "grad" else "Jacobian"
        problem = f"{place} of type {kind} has no {noun}"
        advice = "It must be a real float, or complex with holomorphic=True."
        if kind is None:
            problem = f"{place} is not an array"
            advice = "Pass its elements as a Python tuple, or differentiate with mx.vjp."
        elif holomorphic:
            problem += " with holomorphic=True"
        elif place.startswith("argument"):
            zeros = "" if subject == "jacfwd" else ", or set allow_int=True for zeros"
            advice = f"Pass floats (1.0, not 1), choose other argnums{zeros}."
        raise explain(DerivativeError, subject, problem, [f"it is {shape}"], advice)


@documented(SHARED)
@documented(_OF_SCALARS)
@shares
@checks_kinds
def grad(
    fun: Callable[Parameters, PyTree],
    argnums: Numbers = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Parameters, PyTree]:
    """Return a function that computes the gradient of `fun` (JAX: `jax.grad`).

    Returns:
        A function of the same arguments that returns the gradient, which is like the argument, or a
        tuple of gradients; or `(gradient, aux)`.

    Example:
        >>> mx.grad(lambda x: (x * x).sum())(np.float32([1, 2]))
        Array([2., 4.], dtype=float32)
    """

    @in_place_of(fun, "grad")
    def derived(*args: PyTree, **kwargs: PyTree) -> PyTree:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)
    return derived


@overload
def jvp(
    fun: Callable[..., Result],
    primals: Sequence[PyTree],
    tangents: Sequence[PyTree],
    has_aux: Literal[False] = False,
) -> tuple[Result, Result]: ...
@overload
def jvp(
    fun: Callable[..., tuple[Result, Aux]],
    primals: Sequence[PyTree],
    tangents: Sequence[PyTree],
    has_aux: Literal[True],
) -> tuple[Result, Result, Aux]: ...
@documented(SHARED)
@api_boundary
@checks_kinds
def jvp(
    fun: Function, primals: Sequence[PyTree], tangents: Sequence[PyTree], has_aux: bool = False
) -> PyTree:
    """Compute `fun(*primals)` and its derivative along `tangents` (JAX: `jax.jvp`).

    Args:
        tangents: one for each of `primals`, with its structure, shapes and types (float0 for
            integers).

    Returns:
        `(result, tangent)`, or `(result, tangent, aux)`.

    Raises:
        TransformError: the tangents do not match the primals.

    Example:
        >>> mx.jvp(mx.numpy.sin, (0.0,), (2.0,))
        (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        problem = "primals and tangents must be tuples or lists"
        details = [f"primals: {type(primals).__name__}", f"tangents: {type(tangents).__name__}"]
        raise misfit("jvp", problem, details, "Write mx.jvp(f, (x,), (t,)).")
    arguments, trace = Arguments("jvp", fun, primals), ForwardTrace(_state.trace)
    leaves = arguments.lifted()
    checked = checked_tangents("jvp", tuple(tangents), arguments.tree, leaves, arguments.where)
    pairs = zip(leaves, checked, strict=True)
    inputs = [x if t is None else ForwardTracer(trace, x, t) for x, t in pairs]
    out = Outcome("jvp", trace, lambda: arguments.call(*inputs), has_aux)
    pairs = zip(out.outputs, out.values, strict=True)
    moving = [
        derivative_of(x, result.known if trace.is_own(result) else None) for result, x in pairs
    ]
    return out.with_aux(out.result(), out.result(moving))
