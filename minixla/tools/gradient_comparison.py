"""Comparison of derivatives with differences, down to the worst element."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from minixla.core import Shape, element_type, shape_of
from minixla.core.element_types import C128, F64
from minixla.core.errors import GradientCheckError, explain
from minixla.tools.comparison import precision_of
from minixla.tools.differences import Agreement, Leaf, Point, Space
from minixla.transforms import jvp, linearize, reference, vjp

#: The allowed distance of derivatives from differences: JAX's tolerances for gradients.
_TOLERANCES = {"f64": 1e-5, "c128": 1e-5, "f32": 2e-3, "c64": 2e-3, "f16": 1e-2, "bf16": 1e-1}
_WIDEST_TOLERANCE = 1e-1
# The function's values are assumed to be rounded by this many times their type's precision.
_ROUNDINGS = 4
# The number of elements that are compared one by one to find the worst.
_MOST_ELEMENTS = 64
_ADVICE = "A derivative rule is wrong (mx.custom_jvp, mx.custom_vjp, an operation's), or the "
_ADVICE += "function is not smooth within the step: choose another point, another eps, or wider "
_ADVICE += "tolerances."
_ADVICE_FOR_NAN = "mx.debug_nans() shows the operation that gives the first NaN. If it is in an "
_ADVICE_FOR_NAN += "arm of `where`, replace its operand first where the arm is not selected: "
_ADVICE_FOR_NAN += "where(x > 0, log(where(x > 0, x, 1)), 0)."
# The number of times that the step in double is divided by 16 to find quotients that agree.
_REFINEMENTS = 3


class Function(NamedTuple):
    """A function from float and complex arrays to a list of them, and the point of the check."""

    name: str
    call: Callable[..., list[Any]]
    inputs: list[Leaf]
    values: list[Any]
    outputs: list[Leaf]  # known after the first call


def _linearized(call: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    results, linear = linearize(call, *primals)
    return results, linear(*tangents)


def _pulled(call: Callable[..., Any], primals: Any, cotangents: Any) -> tuple[Any, Any]:
    results, pullback = vjp(call, *primals)
    return results, list(pullback(list(cotangents)))


#: The name of each mode's derivative, and the function that computes it.
MODES: dict[str, tuple[str, Callable[..., tuple[Any, Any]]]] = {
    "fwd": ("forward derivative", jvp),
    "rev": ("reverse derivative", _pulled),
    "lin": ("linearized function", _linearized),
}


class Check:
    """A comparison of a function's derivatives, of some order, with differences."""

    def __init__(self, function: Function, order: int, options: Sequence[Any]) -> None:
        self.function, self.order = function, order
        atol, rtol, eps, self.evaluator = options
        results = self.evaluator(function.call)(*function.values)
        leaves = [*function.inputs, *function.outputs]  # the results are known now
        self.tolerances = _tolerance(atol, leaves), _tolerance(rtol, leaves)
        self.is_default = atol is rtol is None
        self.is_stated = eps is not None
        step = eps or _step(leaves)
        self.own = self._point(self.evaluator(function.call), function, results, step)
        for at in np.flatnonzero(np.isnan(self.own.results))[:1]:
            problem, details = f"{function.name} gives NaN", [self.own.outputs.name(at)]
            advice = "Choose a point where it is defined; "
            advice += "mx.debug_nans() shows where a NaN begins."
            raise explain(GradientCheckError, "check_grads", problem, details, advice)

    def _point(
        self, call: Callable[..., Any], function: Function, results: Sequence[Any], step: float
    ) -> Point:
        inputs, outputs = Space(function.inputs), Space(function.outputs)
        values, (absolute, relative) = inputs.vector(function.values), self.tolerances

        def tolerance(quotients: np.ndarray) -> np.ndarray:
            return absolute + relative * np.abs(quotients)

        at = inputs, outputs, values, outputs.vector(results), call
        return Point(*at, step, np.maximum(1, np.abs(values)), tolerance, roundings=0)

    def _point_in_double(self, direction: np.ndarray) -> Point | None:
        """Return the point with the function in double, at the step where quotients vary least.

        Return None if the reference cannot evaluate the function.
        """
        wide = self.function._replace(
            inputs=list(map(_in_double, self.function.inputs)),
            outputs=list(map(_in_double, self.function.outputs)),
        )
        call = reference(self.function.call, precision="float64")
        steps = [_step(wide.inputs) / 16**number for number in range(_REFINEMENTS + 1)]
        try:
            results = call(*Space(wide.inputs).arrays(Space(wide.inputs).vector(wide.values)))
            points = [self._point(call, wide, results, step) for step in steps]
            quotients = [point.along(direction).middle for point in points]
        except Exception:  # the function, or a user's rule, may raise any error
            return None
        with np.errstate(all="ignore"):
            errors = [np.nansum(np.abs(b - a)) for a, b in pairwise(quotients)]
            gaps = [np.isnan(b - a).sum() for a, b in pairwise(quotients)]
        best = min(zip(gaps, errors, points[1:], strict=True), key=lambda item: item[:2])[2]
        return replace(best, roundings=_ROUNDINGS)

    def run(self, mode: str) -> None:
        """Compare along a random direction; if it differs, look for the worst elements."""
        name, take = MODES[mode]
        self.mode, self.text = mode, f"the {name} of {self.function.name}"
        self.derive = self.evaluator(partial(take, self.function.call))
        point, inputs, outputs = self.own, self.own.inputs, self.own.outputs
        generator = np.random.default_rng(0)
        direction = inputs.random(generator)
        cotangent = outputs.rounded(outputs.random(generator))
        pulled = self._derived(cotangent) if mode == "rev" else None

        def along(way: np.ndarray) -> Agreement:
            slopes = point.along(way)
            if pulled is not None:
                return slopes.reverse(cotangent, pulled)
            return slopes.forward(self._derived(slopes.tangent))

        def of_results(some: Sequence[int]) -> Agreement:
            weights = outputs.only(some, cotangent).conj()  # Re(-1j z) is the imaginary part of z
            return slopes.reverse(weights, self._derived(weights))

        if along(direction).excess <= 1:
            return
        self._refuse_nan(pulled if pulled is not None else self._derived(direction))
        # Rounding and curvature may exceed the tolerance, so compare with differences in double.
        finer = None if self.is_stated else self._point_in_double(direction)
        point = finer or replace(point, roundings=_ROUNDINGS if self.is_default else 0)
        if along(direction).excess <= 1:
            return
        places = inputs.coordinates
        argument, worst = _worst_of(places, lambda some: along(inputs.only(some, direction)))
        result = worst.element
        if pulled is not None:  # the argument's derivative is that of all results together
            slopes = point.along(inputs.only([argument], direction))
            result, worst = _worst_of(outputs.coordinates, of_results)
        ours, theirs, (atol, rtol) = worst.derivative, worst.difference, self.tolerances
        alone = "no single element exceeds the tolerance, all together do; the worst:"
        is_nan = np.isnan(ours) and not np.isnan(theirs)
        raise self._error(
            f"{self.text} differs from finite differences",
            *([alone] if worst.excess <= 1 else []),
            f"{outputs.name(result)} with respect to {inputs.name(argument)}:",
            f"{self.mode} {ours:.7g}, differences {theirs:.7g}, "
            f"apart by {abs(ours - theirs):.3g}, allowed {worst.allowed:.2g}",
            f"step {point.step:.2g}, tolerance {atol:.2g} + {rtol:.2g} * |value|",
            advice=_ADVICE_FOR_NAN if is_nan else _ADVICE,
        )

    def _derived(self, vector: np.ndarray) -> np.ndarray:
        """Return the derivative; check that the results that come with it are the function's."""
        inputs, outputs, (atol, rtol) = self.own.inputs, self.own.outputs, self.tolerances
        side, made = (outputs, inputs) if self.mode == "rev" else (inputs, outputs)
        values = tuple(self.function.values)
        results, derivatives = self.derive(values, tuple(side.arrays(vector)))
        for leaf, ours in zip(outputs.leaves, results, strict=True):
            shape = shape_of(ours)
            if shape is not leaf.shape:
                problem = f"{self.mode} returns {leaf.name} in another shape than the function"
                raise self._error(problem, f"{self.mode} {shape}", f"function {leaf.shape}")
        ours, truth = outputs.vector(results), self.own.results
        for at in np.flatnonzero(~np.isclose(ours, truth, rtol, atol))[:1]:
            numbers = f"{self.mode} gives {ours[at]:.7g}, the function {truth[at]:.7g}"
            problem = f"the value that comes with {self.text} is not the function's"
            raise self._error(problem, outputs.name(at), numbers)
        return made.vector(derivatives)

    def _refuse_nan(self, derivative: np.ndarray) -> None:
        """Raise GradientCheckError if a derivative holds NaN, which needs no difference."""
        made = self.own.inputs if self.mode == "rev" else self.own.outputs
        for at in np.flatnonzero(np.isnan(derivative))[:1]:
            owner = "with respect to" if self.mode == "rev" else "of"
            where = f"{owner} {made.name(at)}"
            raise self._error(f"{self.text} is NaN", where, advice=_ADVICE_FOR_NAN)

    def _error(self, problem: str, *details: str, advice: str = _ADVICE) -> GradientCheckError:
        lines = [*details, f"mode {self.mode}, order {self.order}: {self.text}"]
        return explain(GradientCheckError, "check_grads", problem, lines, advice)


def _worst_of(
    some: Sequence[int], compare: Callable[[Sequence[int]], Agreement]
) -> tuple[int, Agreement]:
    """Return the most wrong coordinate, by halving until few are left to compare one by one."""
    while len(some) > _MOST_ELEMENTS:
        halves = some[: len(some) // 2], some[len(some) // 2 :]
        some = max(halves, key=lambda half: compare(half).excess)
    return max(((x, compare([x])) for x in some), key=lambda pair: pair[1].excess)


def _step(leaves: Sequence[Leaf]) -> float:
    return max(precision_of(leaf.shape.element_type) for leaf in leaves) ** (1 / 3)


def _in_double(leaf: Leaf) -> Leaf:
    kind = C128 if leaf.shape.element_type.is_complex else F64
    return leaf._replace(shape=Shape(kind, leaf.shape.dimensions))


def _tolerance(stated: float | Mapping[Any, float] | None, leaves: Sequence[Leaf]) -> float:
    if stated is not None and not isinstance(stated, Mapping):
        return float(stated)
    by_type = {element_type(key).name: number for key, number in (stated or {}).items()}
    table = _TOLERANCES | by_type
    return max(table.get(leaf.shape.element_type.name, _WIDEST_TOLERANCE) for leaf in leaves)
