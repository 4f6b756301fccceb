"""check_grads: derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path, tree_unflatten

from minixla.core.element_types import element_type
from minixla.core.errors import AttributeValueError, DerivativeError, GradientCheckError, explain
from minixla.core.shapes import Shape
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import shape_of
from minixla.tools.difference_check import Leaf, Mode, Point, check_derivative
from minixla.transforms.arguments import checked_function
from minixla.transforms.evaluation import reference
from minixla.transforms.gradients import jvp, vjp
from minixla.transforms.jacobians import linearize
from minixla.transforms.jit import jit

__all__ = ["check_grads"]

_EVALUATORS: dict[str | None, Callable[..., Any]] = {
    None: lambda fun: fun,
    "jit": jit,
    "reference": reference,
}
#: How far derivatives and differences may be apart; JAX's tolerances for gradients.
_TOLERANCES = {"f64": 1e-5, "c128": 1e-5, "f32": 2e-3, "c64": 2e-3, "f16": 1e-2, "bf16": 1e-1}
_WIDEST_TOLERANCE = 1e-1


class _Function(NamedTuple):
    """A function of float and complex arrays that gives such, and where it is checked.

    Attributes:
        name: what messages call it.
        call: takes the arrays one by one and returns a list.
        inputs: what the arrays are.
        values: the arrays.
        outputs: what the results are; known after the first call.
    """

    name: str
    call: Callable[..., list[Any]]
    inputs: list[Leaf]
    values: list[Any]
    outputs: list[Leaf]


@api_boundary
def check_grads(
    fun: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | Mapping[Any, float] | None = None,
    rtol: float | Mapping[Any, float] | None = None,
    eps: float | None = None,
    kwargs: Mapping[str, Any] | None = None,
    evaluate: str | None = None,
) -> None:
    """Checks derivatives against finite differences (JAX: test_util.check_grads).

        mx.check_grads(loss, (parameters, batch), order=2)

    Each derivative is compared along one random direction, and with one random cotangent: an error
    in any element shows. Where one does, the elements are looked at one by one.

    Args:
        fun: a function of pytrees of arrays.
        args: its arguments. Arrays of integers and booleans are kept as they are.
        order: derivatives up to this order: of the function, of its derivatives in every mode ...
        modes: of "fwd" (jvp), "rev" (vjp) and "lin" (linearize).
        atol: the absolute tolerance, or one for each element type; default: JAX's for the coarsest
            type, and what rounding of the function's values makes of a difference.
        rtol: the relative tolerance.
        eps: the step, in units of max(1, |x|); default: the cube root of the coarsest type's
            precision, 6e-6 for f64 and 5e-3 for f32.
        kwargs: keyword arguments, which are not differentiated.
        evaluate: how functions are run: "jit", "reference" (in NumPy), or None: as they are called.

    Raises:
        GradientCheckError: a derivative differs. It names the mode and order, the elements of
            argument and result whose derivative is wrong most, both numbers, step and tolerance.
        DerivativeError: there is nothing to differentiate.
        AttributeValueError: an unknown mode or evaluator, or no order.
    """
    checked_function(fun, "check_grads")
    _check_options(order, modes, evaluate)
    function = _flat(fun, tuple(args), dict(kwargs or {}))
    if not function.inputs:
        raise explain(
            DerivativeError,
            "check_grads",
            "no argument has a derivative",
            [f"args: {', '.join(str(shape_of(x)) for _, x in tree_flatten_with_path(args)[0])}"],
            "Give floats or complex numbers.",
        )
    functions = [function]
    for depth in range(1, order + 1):
        for each in functions:
            _check(each, depth, modes, (atol, rtol, eps), _EVALUATORS[evaluate])
        functions = [_MODES[name][1](each) for each in functions for name in modes]


def _check_options(order: int, modes: Sequence[str], evaluate: str | None) -> None:
    rules = [
        (isinstance(order, int) and order > 0, f"order = {order!r}", "order is a number from 1 on"),
        (
            not isinstance(modes, str) and set(modes) <= set(_MODES) and len(modes) > 0,
            f"modes = {modes!r}",
            f"modes is a sequence of some of {', '.join(_MODES)}",
        ),
        (
            evaluate in _EVALUATORS,
            f"evaluate = {evaluate!r}",
            "evaluate is None, 'jit' or 'reference'",
        ),
    ]
    for is_kept, given, rule in rules:
        if not is_kept:
            problem = "an option has a value that it cannot take"
            raise explain(AttributeValueError, "check_grads", problem, [given], f"{rule}.")


def _flat(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Function:
    """`fun` of its float and complex arguments."""
    listed, tree = tree_flatten_with_path(args)
    leaves = [value for _, value in listed]
    shapes = [shape_of(leaf, "check_grads") for leaf in leaves]
    moving = [_is_inexact(shape) for shape in shapes]
    inputs, values = [], []
    for (path, leaf), shape, flag in zip(listed, shapes, moving, strict=True):
        if flag:
            assert isinstance(shape, Shape)
            is_number = isinstance(leaf, (float, complex)) and not isinstance(leaf, np.generic)
            inputs.append(Leaf(f"args{keystr(path)}", shape, is_number))
            values.append(leaf if is_number else np.asarray(leaf).astype(shape.dtype))
    outputs: list[Leaf] = []

    def call(*given: Any) -> list[Any]:
        found = iter(given)
        full = [next(found) if f else x for x, f in zip(leaves, moving, strict=True)]
        results = tree_flatten_with_path(fun(*tree_unflatten(tree, full), **kwargs))[0]
        kept = [(path, x) for path, x in results if _is_inexact(shape_of(x, "check_grads"))]
        outputs[:] = [Leaf(f"result{keystr(path)}", shape_of(x)) for path, x in kept]  # type: ignore[arg-type]  # inexact: an array
        return [x for _, x in kept]

    name = getattr(fun, "__name__", "the function")
    return _Function(name, call, inputs, values, outputs)


def _is_inexact(shape: Any) -> bool:
    return isinstance(shape, Shape) and shape.element_type.is_inexact


# How each mode takes a derivative, and the function of that derivative that the next order checks.


def _with_tangents(derive: Callable[..., tuple[Any, Any]]) -> Callable[[_Function], _Function]:
    def derivative(function: _Function) -> _Function:
        count = len(function.inputs)

        def call(*given: Any) -> list[Any]:
            results, tangents = derive(function.call, given[:count], given[count:])
            return [*results, *tangents]

        tangents = [x._replace(name=f"tangent of {x.name}") for x in function.inputs]
        dots = [x._replace(name=f"tangent of {x.name}") for x in function.outputs]
        return _Function(
            f"the forward derivative of {function.name}",
            call,
            [*function.inputs, *tangents],
            [*function.values, *function.values],
            [*function.outputs, *dots],
        )

    return derivative


def _with_cotangents(function: _Function) -> _Function:
    def call(*given: Any) -> list[Any]:
        results, pullback = vjp(function.call, *given)
        return list(pullback(results))

    cotangents = [x._replace(name=f"cotangent of {x.name}") for x in function.inputs]
    name = f"the reverse derivative of {function.name}"
    return function._replace(name=name, call=call, outputs=cotangents)


def _linearized(call: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    results, linear = linearize(call, *primals)
    return results, linear(*tangents)


def _pulled(call: Callable[..., Any], primals: Any, cotangents: Any) -> tuple[Any, Any]:
    results, pullback = vjp(call, *primals)
    return results, list(pullback(list(cotangents)))


_MODES: dict[str, tuple[Callable[..., Any], Callable[[_Function], _Function]]] = {
    "fwd": (jvp, _with_tangents(jvp)),
    "rev": (_pulled, _with_cotangents),
    "lin": (_linearized, _with_tangents(_linearized)),
}


def _check(
    function: _Function,
    order: int,
    modes: Sequence[str],
    options: tuple[Any, Any, Any],
    evaluator: Callable[..., Any],
) -> None:
    value = evaluator(function.call)
    results = value(*function.values)
    _refuse_nans(function, results)
    atol, rtol, eps = options
    leaves = [*function.inputs, *function.outputs]
    step = eps or max(leaf.precision for leaf in leaves) ** (1 / 3)
    point = Point(
        function.inputs,
        function.outputs,
        function.values,
        results,
        value,
        step,
        _tolerance(atol, leaves),
        _tolerance(rtol, leaves),
        atol is rtol is None,
    )
    for name in modes:
        derive = _MODES[name][0]
        run = evaluator(lambda primals, given, d=derive: d(function.call, primals, given))
        check_derivative(point, Mode(name, order, function.name, name == "rev", run))


def _refuse_nans(function: _Function, results: Sequence[Any]) -> None:
    for leaf, result in zip(function.outputs, results, strict=True):
        if np.isnan(np.asarray(result)).any():
            raise explain(
                GradientCheckError,
                "check_grads",
                f"{function.name} gives NaN",
                [leaf.name],
                "Choose a point where it is defined; mx.debug_nans() shows where a NaN is made.",
            )


def _tolerance(given: float | Mapping[Any, float] | None, leaves: Sequence[Leaf]) -> float:
    """The largest of the leaves' tolerances."""
    if given is not None and not isinstance(given, Mapping):
        return float(given)
    own = {element_type(key).name: each for key, each in (given or {}).items()}
    table = {**_TOLERANCES, **own}
    return max(table.get(leaf.shape.element_type.name, _WIDEST_TOLERANCE) for leaf in leaves)
