"""check_grads: derivatives against finite differences."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path, tree_leaves, tree_unflatten

import minixla as mx
from minixla.core.errors import explain
from minixla.core.linear import spread
from minixla.core.tracebacks import api_boundary
from minixla.tools.comparison import precision_of
from minixla.tools.differences import Agreement, Leaf, Point, Space
from minixla.tools.graph_parts import is_inexact
from minixla.transforms.arguments import checked_function

_EVALUATORS: Any = {None: lambda fun: fun, "jit": mx.jit, "reference": mx.reference}
#: How far derivatives and differences may be apart; JAX's tolerances for gradients.
_TOLERANCES = {"f64": 1e-5, "c128": 1e-5, "f32": 2e-3, "c64": 2e-3, "f16": 1e-2, "bf16": 1e-1}
_WIDEST_TOLERANCE = 1e-1
# The function's values are taken to be rounded by this many times their type's precision.
_ROUNDINGS = 4
# How many elements are looked at one by one to find the worst.
_MOST_ELEMENTS = 64
_ADVICE = (
    "A derivative rule is wrong (mx.custom_jvp, mx.custom_vjp, an operation's), or the function "
)
_ADVICE += "is not smooth within the step: choose another point, another eps, or wider tolerances."


class _Function(NamedTuple):
    """A function of float and complex arrays that gives a list of such, and where it is checked."""

    name: str
    call: Callable[..., list[Any]]
    inputs: list[Leaf]
    values: list[Any]
    outputs: list[Leaf]  # known after the first call


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
        given = [f"args: {', '.join(str(mx.shape_of(x)) for x in tree_leaves(args))}"]
        problem, advice = "no argument has a derivative", "Give floats or complex numbers."
        raise explain(mx.DerivativeError, "check_grads", problem, given, advice)
    functions = [function]
    for depth in range(1, order + 1):
        for each in functions:
            check = _Check(each, depth, (atol, rtol, eps, _EVALUATORS[evaluate]))
            for mode in modes:
                check.run(mode)
        functions = [_derivative(each, mode) for each in functions for mode in modes]


def _check_options(order: int, modes: Sequence[str], evaluate: str | None) -> None:
    is_modes = not isinstance(modes, str) and set(modes) <= set(_MODES) and len(modes) > 0
    rules = {
        "order": (order, isinstance(order, int) and order > 0, "a number from 1 on"),
        "modes": (modes, is_modes, f"a sequence of some of {', '.join(_MODES)}"),
        "evaluate": (evaluate, evaluate in _EVALUATORS, "None, 'jit' or 'reference'"),
    }
    for name, (value, is_kept, rule) in rules.items():
        if not is_kept:
            problem, given = "an option has a value that it cannot take", [f"{name} = {value!r}"]
            advice = f"{name} is {rule}."
            raise explain(mx.AttributeValueError, "check_grads", problem, given, advice)


def _flat(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Function:
    """`fun` of its float and complex arguments."""
    listed, tree = tree_flatten_with_path(args)
    leaves = [value for _, value in listed]
    found = [_leaf("args", *each) for each in listed]
    inputs, outputs = list(filter(None, found)), list[Leaf]()
    pairs = zip(inputs, compress(leaves, found), strict=True)
    values = [x if leaf.is_number else np.asarray(x).astype(leaf.shape.dtype) for leaf, x in pairs]

    def call(*given: Any) -> list[Any]:
        full = spread(found, given, leaves)
        results = tree_flatten_with_path(fun(*tree_unflatten(tree, full), **kwargs))[0]
        kept = [_leaf("result", *each) for each in results]
        outputs[:] = filter(None, kept)
        return [value for _, value in compress(results, kept)]

    return _Function(getattr(fun, "__name__", "the function"), call, inputs, values, outputs)


def _leaf(root: str, path: Any, value: Any) -> Leaf | None:
    """What an array of floats or complex numbers is; None for others."""
    shape: Any = mx.shape_of(value, "check_grads")
    is_number = isinstance(value, (float, complex)) and not isinstance(value, np.generic)
    return Leaf(root + keystr(path), shape, is_number) if is_inexact(shape) else None


def _linearized(call: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    results, linear = mx.linearize(call, *primals)
    return results, linear(*tangents)


def _pulled(call: Callable[..., Any], primals: Any, cotangents: Any) -> tuple[Any, Any]:
    results, pullback = mx.vjp(call, *primals)
    return results, list(pullback(list(cotangents)))


#: What each mode's derivative is called, and how it is taken.
_MODES: dict[str, tuple[str, Callable[..., tuple[Any, Any]]]] = {
    "fwd": ("forward derivative", mx.jvp),
    "rev": ("reverse derivative", _pulled),
    "lin": ("linearized function", _linearized),
}


def _derivative(function: _Function, mode: str) -> _Function:
    """The function of a mode's derivative that the next order checks."""

    def pushed(*given: Any) -> list[Any]:
        count = len(function.inputs)
        results, tangents = _MODES[mode][1](function.call, given[:count], given[count:])
        return [*results, *tangents]

    def pulled(*given: Any) -> list[Any]:
        results, pullback = mx.vjp(function.call, *given)
        return list(pullback(results))

    def named(kind: str, leaves: Sequence[Leaf]) -> list[Leaf]:
        return [leaf._replace(name=f"{kind} of {leaf.name}") for leaf in leaves]

    if mode == "rev":
        name, outputs = f"the reverse derivative of {function.name}", function.inputs
        return function._replace(name=name, call=pulled, outputs=named("cotangent", outputs))
    inputs = [*function.inputs, *named("tangent", function.inputs)]
    outputs = [*function.outputs, *named("tangent", function.outputs)]
    name = f"the forward derivative of {function.name}"
    return _Function(name, pushed, inputs, function.values * 2, outputs)


class _Check:
    """A function at its values, whose derivatives, of some order, are compared with differences."""

    def __init__(self, function: _Function, order: int, options: Sequence[Any]) -> None:
        self.function, self.order = function, order
        atol, rtol, eps, self.evaluator = options
        call = self.evaluator(function.call)
        results = call(*function.values)
        inputs, outputs = Space(function.inputs), Space(function.outputs)
        leaves = [*inputs.leaves, *outputs.leaves]
        absolute, relative = self.tolerances = _tolerance(atol, leaves), _tolerance(rtol, leaves)
        values = inputs.vector(function.values)
        at = inputs, outputs, values, outputs.vector(results), call
        step = eps or max(precision_of(leaf.shape.element_type) for leaf in leaves) ** (1 / 3)
        scale, roundings = np.maximum(1, np.abs(values)), _ROUNDINGS if atol is rtol is None else 0

        def tolerance(quotients: np.ndarray) -> np.ndarray:
            return absolute + relative * np.abs(quotients)

        point = self.point = Point(*at, step, scale, tolerance, roundings)
        for at in np.flatnonzero(np.isnan(point.results))[:1]:
            problem, given = f"{function.name} gives NaN", [outputs.name(at)]
            advice = "Choose a point where it is defined; "
            advice += "mx.debug_nans() shows where a NaN is made."
            raise explain(mx.GradientCheckError, "check_grads", problem, given, advice)

    def run(self, mode: str) -> None:
        """Compares along a random direction; where it differs, looks for the worst elements."""
        name, take = _MODES[mode]
        self.mode, self.text = mode, f"the {name} of {self.function.name}"
        self.derive = self.evaluator(partial(take, self.function.call))
        point, inputs, outputs = self.point, self.point.inputs, self.point.outputs
        generator = np.random.default_rng(0)
        direction = inputs.random(generator)
        cotangent = outputs.rounded(outputs.random(generator))
        pulled = self._derived(cotangent) if mode == "rev" else None

        def along(way: np.ndarray) -> Agreement:
            found = point.along(way)
            if pulled is not None:
                return found.reverse(cotangent, pulled)
            return found.forward(self._derived(found.tangent))

        def of_results(some: Sequence[int]) -> Agreement:
            given = outputs.only(some, cotangent).conj()  # Re(-1j z) is the imaginary part of z
            return found.reverse(given, self._derived(given))

        if along(direction).excess <= 1:
            return
        places = inputs.coordinates
        argument, worst = _worst_of(places, lambda some: along(inputs.only(some, direction)))
        result = worst.element
        if pulled is not None:  # the argument's is that for all results together
            found = point.along(inputs.only([argument], direction))
            result, worst = _worst_of(outputs.coordinates, of_results)
        ours, theirs, (atol, rtol) = worst.derivative, worst.difference, self.tolerances
        alone = "no element alone is beyond the tolerance, all together are; the worst:"
        raise self._error(
            f"{self.text} differs from finite differences",
            *([alone] if worst.excess <= 1 else []),
            f"{outputs.name(result)} with respect to {inputs.name(argument)}:",
            f"{self.mode} {ours:.7g}, differences {theirs:.7g}, "
            f"apart by {abs(ours - theirs):.3g}, allowed {worst.allowed:.2g}",
            f"step {point.step:.2g}, tolerance {atol:.2g} + {rtol:.2g} * |value|",
        )

    def _derived(self, vector: np.ndarray) -> np.ndarray:
        """What the derivative gives; the results that come with it must be the function's."""
        inputs, outputs, (atol, rtol) = self.point.inputs, self.point.outputs, self.tolerances
        given, made = (outputs, inputs) if self.mode == "rev" else (inputs, outputs)
        values = tuple(self.function.values)
        results, derivatives = self.derive(values, tuple(given.arrays(vector)))
        for leaf, ours in zip(outputs.leaves, results, strict=True):
            shape = mx.shape_of(ours)
            if shape is not leaf.shape:
                problem = f"{self.mode} gives {leaf.name} in another shape than the function"
                raise self._error(problem, f"{self.mode} {shape}", f"function {leaf.shape}")
        ours, known = outputs.vector(results), self.point.results
        for at in np.flatnonzero(~np.isclose(ours, known, rtol, atol))[:1]:
            numbers = f"{self.mode} gives {ours[at]:.7g}, the function {known[at]:.7g}"
            problem = f"the value that comes with {self.text} is not the function's"
            raise self._error(problem, outputs.name(at), numbers)
        return made.vector(derivatives)

    def _error(self, problem: str, *given: str) -> mx.GradientCheckError:
        lines = [*given, f"mode {self.mode}, order {self.order}: {self.text}"]
        return explain(mx.GradientCheckError, "check_grads", problem, lines, _ADVICE)


def _worst_of(
    some: Sequence[int], compare: Callable[[Sequence[int]], Agreement]
) -> tuple[int, Agreement]:
    """The coordinate that is wrong most: by halves until they are few enough to look at each."""
    while len(some) > _MOST_ELEMENTS:
        halves = some[: len(some) // 2], some[len(some) // 2 :]
        some = max(halves, key=lambda half: compare(half).excess)
    return max(((x, compare([x])) for x in some), key=lambda pair: pair[1].excess)


def _tolerance(given: float | Mapping[Any, float] | None, leaves: Sequence[Leaf]) -> float:
    if given is not None and not isinstance(given, Mapping):
        return float(given)
    own = {mx.element_type(key).name: each for key, each in (given or {}).items()}
    table = _TOLERANCES | own
    return max(table.get(leaf.shape.element_type.name, _WIDEST_TOLERANCE) for leaf in leaves)
