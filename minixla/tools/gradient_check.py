"""`check_grads`: derivatives against finite differences."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path, tree_leaves, tree_unflatten

from minixla.core import shape_of
from minixla.core.errors import DerivativeError, check_arguments, explain
from minixla.core.linear import spread
from minixla.core.tracebacks import api_boundary
from minixla.interop.progress import shown_progress
from minixla.tools.differences import Leaf
from minixla.tools.gradient_comparison import MODES, Check, Function
from minixla.tools.graph_parts import is_inexact
from minixla.transforms import jit, reference, vjp
from minixla.transforms.arguments import checked_function

_EVALUATORS: Any = {None: lambda fun: fun, "jit": jit, "reference": reference}


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
    """Check derivatives against finite differences (JAX: test_util.check_grads).

        mx.check_grads(loss, (parameters, batch), order=2)

    Each derivative is compared along one random direction and with one random cotangent, which
    shows an error in any element. If it differs, `mx.reference` computes the differences again in
    double, at the step where they vary least. So neither rounding nor curvature of the function
    counts as an error of its derivative. If it still differs, the worst element is searched for.

    Args:
        fun: a function of pytrees of arrays.
        args: its arguments. Arrays of integers and booleans are passed unchanged.
        order: the highest order of derivatives, which are taken in every mode.
        modes: some of "fwd" (jvp), "rev" (vjp) and "lin" (linearize).
        atol: the absolute tolerance, or one for each element type; default: JAX's for the coarsest
            type, plus the effect on a difference of rounding the function's values.
        rtol: the relative tolerance.
        eps: the step, in units of max(1, |x|), for the function in its own types; default: first
            the cube root of the coarsest type's precision, 6e-6 for f64 and 5e-3 for f32.
        kwargs: keyword arguments, which are not differentiated.
        evaluate: how to run functions: "jit", "reference" (in NumPy), or None, as they are called.

    Raises:
        GradientCheckError: a derivative differs, or is NaN. The error names the mode and order, the
            elements of argument and result whose derivative is most wrong, both numbers, the step
            and the tolerance.
        DerivativeError: no argument or result has a derivative.
        AttributeValueError: a mode or evaluator is unknown, or the order is invalid.

    Example:
        >>> mx.check_grads(lambda x: mx.numpy.sin(x) * x, (np.float32([1, 2]),))
    """
    checked_function(fun, "check_grads")
    _check_options(args, kwargs, order, modes, evaluate, eps=eps, atol=atol, rtol=rtol)
    function = _flat(fun, tuple(args), dict(kwargs or {}))
    if not function.inputs:
        details = [f"args: {', '.join(str(shape_of(x)) for x in tree_leaves(args))}"]
        problem, advice = "no argument has a derivative", "Pass floats or complex numbers."
        raise explain(DerivativeError, "check_grads", problem, details, advice)
    functions = [function]
    total = sum([len(modes) ** depth for depth in range(1, order + 1)])
    with shown_progress("check_grads", total) as say:
        for depth in range(1, order + 1):
            for checked in functions:
                check = Check(checked, depth, (atol, rtol, eps, _EVALUATORS[evaluate]))
                for mode in modes:
                    say(f"order {depth}, {mode}: the {MODES[mode][0]} of {checked.name}")
                    check.run(mode)
            functions = [_derivative(function, mode) for function in functions for mode in modes]


def _check_options(
    args: Any, kwargs: Any, order: Any, modes: Any, evaluate: Any, **numbers: Any
) -> None:
    is_listed = isinstance(modes, Collection) and not isinstance(modes, str)
    is_modes = is_listed and set(modes) <= set(MODES) and len(modes) > 0
    rules: dict[str, tuple[Any, bool, str]] = {
        "args": (args, isinstance(args, (tuple, list)), "a tuple of arguments, (x,) for one"),
        "kwargs": (kwargs, isinstance(kwargs or {}, Mapping), "a dictionary of arguments"),
        "order": (order, isinstance(order, int) and order > 0, "an integer of at least 1"),
        "modes": (modes, is_modes, f"a sequence of some of {', '.join(MODES)}"),
        "evaluate": (evaluate, evaluate in [*_EVALUATORS], "None, 'jit' or 'reference'"),
    }
    for name, value in numbers.items():
        candidates: list[Any] = [value]
        if isinstance(value, Mapping) and name != "eps":
            candidates = list(value.values())
        is_kept = all(x is None or (hasattr(x, "__float__") and float(x) >= 0) for x in candidates)
        rules[name] = value, is_kept, "None or a number of at least 0"
    check_arguments("check_grads", **rules)


def _flat(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Function:
    """Return `fun` as a function of its float and complex arguments."""
    listed, tree = tree_flatten_with_path(args)
    leaves = [value for _, value in listed]
    found = [_leaf("args", *item) for item in listed]
    inputs, outputs = list(filter(None, found)), list[Leaf]()
    pairs = zip(inputs, compress(leaves, found), strict=True)
    values = [x if leaf.is_number else np.asarray(x).astype(leaf.shape.dtype) for leaf, x in pairs]

    def call(*arguments: Any) -> list[Any]:
        full = spread(found, arguments, leaves)
        results = tree_flatten_with_path(fun(*tree_unflatten(tree, full), **kwargs))[0]
        kept = [_leaf("result", *result) for result in results]
        outputs[:] = filter(None, kept)
        return [value for _, value in compress(results, kept)]

    return Function(getattr(fun, "__name__", "the function"), call, inputs, values, outputs)


def _leaf(root: str, path: Any, value: Any) -> Leaf | None:
    """Return the Leaf for an array of floats or complex numbers; None for others."""
    shape: Any = shape_of(value, "check_grads")
    is_number = isinstance(value, (float, complex)) and not isinstance(value, np.generic)
    return Leaf(root + keystr(path), shape, is_number) if is_inexact(shape) else None


def _derivative(function: Function, mode: str) -> Function:
    """Return the function of a mode's derivative that the next order checks."""

    def pushed(*arguments: Any) -> list[Any]:
        count = len(function.inputs)
        results, tangents = MODES[mode][1](function.call, arguments[:count], arguments[count:])
        return [*results, *tangents]

    def pulled(*arguments: Any) -> list[Any]:
        results, pullback = vjp(function.call, *arguments)
        return list(pullback(results))

    def named(kind: str, leaves: Sequence[Leaf]) -> list[Leaf]:
        return [leaf._replace(name=f"{kind} of {leaf.name}") for leaf in leaves]

    if mode == "rev":
        name, outputs = f"the reverse derivative of {function.name}", function.inputs
        return function._replace(name=name, call=pulled, outputs=named("cotangent", outputs))
    inputs = [*function.inputs, *named("tangent", function.inputs)]
    outputs = [*function.outputs, *named("tangent", function.outputs)]
    name = f"the forward derivative of {function.name}"
    return Function(name, pushed, inputs, function.values * 2, outputs)
