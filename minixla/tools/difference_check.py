"""One derivative at one point, against finite differences; the elements where it is worst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from minixla.core.errors import GradientCheckError, explain
from minixla.core.shapes import Shape
from minixla.core.tracing import shape_of

__all__ = ["Leaf", "Mode", "Point", "check_derivative"]

# The function's values are taken to be rounded by this many times their type's precision.
_ROUNDINGS = 4
# How many elements are looked at one by one to find the worst.
_MOST_ELEMENTS = 64


class Leaf(NamedTuple):
    """An array of floats or complex numbers that a function takes or gives.

    Attributes:
        name: what messages call it, `args[0]['w']`.
        shape: its shape.
        is_number: whether it is a Python number.
    """

    name: str
    shape: Shape
    is_number: bool = False

    @property
    def precision(self) -> float:
        """The distance from 1 to the next number."""
        kind = self.shape.dtype
        real = np.dtype(f"f{kind.itemsize // 2}") if kind.kind == "c" else kind
        return float(ml_dtypes.finfo(real).eps)

    def rounded(self, value: np.ndarray) -> Any:
        """A value of the leaf from one in double precision."""
        rounded = value.astype(self.shape.dtype)
        return rounded.item() if self.is_number else rounded

    def random(self, generator: np.random.Generator) -> np.ndarray:
        """Numbers whose real and imaginary parts are between 1/2 and 1 in size, in double."""
        parts = generator.uniform(0.5, 1, (2, *self.shape.dimensions))
        parts *= generator.choice([-1, 1], parts.shape)
        return parts[0] + 1j * parts[1] if self.shape.element_type.is_complex else parts[0]


class Mode(NamedTuple):
    """A way to take a derivative of a function.

    Attributes:
        name: "fwd", "rev" or "lin".
        order: of the derivative, counted from the user's function.
        function: what is differentiated.
        is_reverse: whether `run` takes cotangents of the results.
        run: from values and their tangents (or cotangents) to results and theirs.
    """

    name: str
    order: int
    function: str
    is_reverse: bool
    run: Callable[..., tuple[Any, Any]]


@dataclass(frozen=True)
class Point:
    """A function of arrays at a point, and how it is compared with its differences.

    Attributes:
        inputs, outputs: what the arrays are.
        values: the point.
        results: the function's results there.
        call: the function.
        step: of the differences, in units of max(1, |x|).
        atol, rtol: tolerances.
        allows_rounding: whether what rounding of results makes of differences is tolerated too.
    """

    inputs: Sequence[Leaf]
    outputs: Sequence[Leaf]
    values: Sequence[Any]
    results: Sequence[Any]
    call: Callable[..., Any]
    step: float
    atol: float
    rtol: float
    allows_rounding: bool

    def differences(self, directions: Sequence[np.ndarray]) -> _Differences:
        """The derivative of the results along a direction, from values on both sides."""
        after, before, tangents = [], [], []
        for leaf, value, direction in zip(self.inputs, self.values, directions, strict=True):
            middle = _wide(value)
            shift = self.step * np.maximum(1, np.abs(middle)) * direction
            after.append(leaf.rounded(middle + shift))
            before.append(leaf.rounded(middle - shift))
            # The way between both as they have been rounded.
            tangents.append((_wide(after[-1]) - _wide(before[-1])) / (2 * self.step))
        pairs = zip(map(_wide, self.call(*after)), map(_wide, self.call(*before)), strict=True)
        quotients, errors = [], []
        for leaf, (high, low) in zip(self.outputs, pairs, strict=True):
            with np.errstate(all="ignore"):
                quotient = np.where(high == low, 0, high - low) / (2 * self.step)
                largest = np.maximum(np.abs(high), np.abs(low))
                rounding = _ROUNDINGS * leaf.precision * largest / self.step
                allowed = self.atol + self.rtol * np.abs(quotient)
            quotients.append(quotient)
            errors.append(allowed + rounding if self.allows_rounding else allowed)
        rounded = [leaf.rounded(x) for leaf, x in zip(self.inputs, tangents, strict=True)]
        return _Differences(rounded, quotients, errors)


class _Differences(NamedTuple):
    """Difference quotients.

    Attributes:
        tangents: the direction.
        quotients: one for each result, in double.
        allowed: how far derivatives may be from them.
    """

    tangents: list[Any]
    quotients: list[np.ndarray]
    allowed: list[np.ndarray]


class _Element(NamedTuple):
    """A derivative of one element with respect to another.

    Attributes:
        result, argument: the elements, described.
        derivative, difference: the two numbers.
        allowed: how far they may be apart.
    """

    result: str
    argument: str
    derivative: complex
    difference: complex
    allowed: float

    @property
    def excess(self) -> float:
        """The error in units of what is allowed; NaN counts as infinite."""
        if self.derivative == self.difference:
            return 0.0
        error = abs(self.derivative - self.difference)
        return float("inf") if np.isnan(error) else float(error / (self.allowed or 1e-300))

    def over(self, length: float) -> _Element:
        """The same for a direction that is shorter by a factor."""
        numbers = self.derivative / length, self.difference / length, self.allowed / length
        return self._replace(derivative=numbers[0], difference=numbers[1], allowed=numbers[2])


def check_derivative(point: Point, mode: Mode) -> None:
    """Compares a derivative with differences along a random direction.

    Raises:
        GradientCheckError: they differ, or the results that come with it are others.
    """
    generator = np.random.default_rng(0)
    directions = [leaf.random(generator) for leaf in point.inputs]
    cotangents = [leaf.random(generator) for leaf in point.outputs]
    found = point.differences(directions)
    given = _rounded(point.outputs, cotangents) if mode.is_reverse else found.tangents
    results, derivatives = mode.run(tuple(point.values), given)
    _check_results(point, mode, results)
    if mode.is_reverse:
        is_close = _summed(found, given, derivatives).excess <= 1
        find = lambda: _worst_of_reverse(point, mode, directions, cotangents, derivatives)  # noqa: E731
    else:
        is_close = _worst_result(point, found, derivatives).excess <= 1
        find = lambda: _worst_of_forward(point, mode, directions)  # noqa: E731
    if not is_close:
        raise _difference(point, mode, find())


def _rounded(leaves: Sequence[Leaf], values: Sequence[np.ndarray]) -> tuple[Any, ...]:
    return tuple([leaf.rounded(value) for leaf, value in zip(leaves, values, strict=True)])


def _summed(found: _Differences, cotangents: Sequence[Any], pulled: Sequence[Any]) -> _Element:
    """What a pullback gives compared with differences: Re sum(c dy) = Re sum(dx pulled)."""
    parts = [
        np.sum(np.abs(_wide(c) * each) ** 2)
        for c, each in zip(cotangents, found.allowed, strict=True)
    ]
    # Errors of the elements are taken to be independent.
    allowed = float(np.sqrt(sum(parts)))
    ours, theirs = _inner(pulled, found.tangents), _inner(cotangents, found.quotients)
    return _Element("", "", ours, theirs, allowed)


def _inner(first: Sequence[Any], second: Sequence[Any]) -> float:
    pairs = zip(map(_wide, first), map(_wide, second), strict=True)
    return float(sum([np.sum(np.real(x * y)) for x, y in pairs]))


def _wide(value: Any) -> np.ndarray:
    """In double precision."""
    array = np.asarray(value)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _check_results(point: Point, mode: Mode, results: Sequence[Any]) -> None:
    """Compares the results that come with a derivative with the function's."""
    for leaf, ours, known in zip(point.outputs, results, point.results, strict=True):
        if shape_of(ours) is not leaf.shape:
            problem = f"{mode.name} gives {leaf.name} in another shape than the function"
            given = [f"{mode.name} {shape_of(ours)}", f"function {leaf.shape}"]
            raise _error(mode, problem, given)
        first, second = _wide(ours), _wide(known)
        far = ~np.isclose(first, second, point.rtol, point.atol)
        if far.any():
            at = tuple(map(int, np.argwhere(far)[0]))
            given = [
                f"{leaf.name}{list(at) if at else ''}",
                f"{mode.name} gives {first[at]:.7g}, the function {second[at]:.7g}",
            ]
            problem = f"the value that comes with {_mode_text(mode)} is not the function's"
            raise _error(mode, problem, given)


# Where it is wrong: elements.


def _worst_result(
    point: Point, found: _Differences, derivatives: Sequence[Any], argument: str = ""
) -> _Element:
    """The element of the results whose derivative along a direction is worst."""
    worst = _Element("", argument, 0, 0, 0.0)
    rows = zip(point.outputs, map(_wide, derivatives), *found[1:], strict=True)
    for leaf, ours, theirs, allowed in rows:
        if theirs.size:
            error = np.where(ours == theirs, 0, np.abs(ours - theirs))
            ratio = np.where(np.isnan(error), np.inf, error / np.maximum(allowed, 1e-300))
            at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
            if ratio[at] > worst.excess:
                numbers = ours[at], theirs[at], float(allowed[at])
                worst = _Element(f"{leaf.name}{_place(at)}", argument, *numbers)
    return worst


def _place(at: Sequence[Any]) -> str:
    return str(list(map(int, at))) if at else ""


class _Unit(NamedTuple):
    """A step of one element, in the real or imaginary direction.

    Attributes:
        leaf: the number of its array.
        element: its number there.
        step: 1 or 1j.
    """

    leaf: int
    element: int
    step: complex


def _units(leaves: Sequence[Leaf]) -> list[_Unit]:
    return [
        _Unit(number, element, step)
        for number, leaf in enumerate(leaves)
        for element in range(leaf.shape.size)
        for step in ((1, 1j) if leaf.shape.element_type.is_complex else (1,))
    ]


def _named(leaves: Sequence[Leaf], unit: _Unit) -> str:
    leaf = leaves[unit.leaf]
    at = np.unravel_index(unit.element, leaf.shape.dimensions)
    return f"{leaf.name}{_place(at)}{' along 1j' if unit.step == 1j else ''}"


def _only(
    leaves: Sequence[Leaf], units: Sequence[_Unit], values: Sequence[np.ndarray] | None = None
) -> list[np.ndarray]:
    """Arrays that are zero but for some units, where they are 1, or as `values`."""
    found = [
        np.zeros(leaf.shape.dimensions, complex if leaf.shape.element_type.is_complex else float)
        for leaf in leaves
    ]
    for number, element, step in units:
        part = step
        if values is not None:
            whole = values[number].flat[element]
            part = whole.real if step == 1 else 1j * whole.imag
        found[number].flat[element] += part
    return found


def _worst_unit(
    units: list[_Unit], several: Callable[[list[_Unit]], float], one: Callable[[_Unit], _Element]
) -> tuple[_Unit, _Element]:
    """The unit that is wrong most: by halves until they are few enough to look at each."""
    while len(units) > _MOST_ELEMENTS:
        halves = units[: len(units) // 2], units[len(units) // 2 :]
        units = max(halves, key=several)
    found = [one(unit) for unit in units]
    number = int(np.argmax([each.excess for each in found]))
    return units[number], found[number]


def _worst_of_forward(point: Point, mode: Mode, directions: Sequence[np.ndarray]) -> _Element:
    """The worst derivative of a result's element by an argument's."""
    leaves = point.inputs

    def along(direction: Sequence[np.ndarray], unit: _Unit | None = None) -> _Element:
        found = point.differences(direction)
        derivatives = mode.run(tuple(point.values), tuple(found.tangents))[1]
        worst = _worst_result(point, found, derivatives, _named(leaves, unit) if unit else "")
        return worst.over(_length(found, unit)) if unit else worst

    return _worst_unit(
        _units(leaves),
        lambda units: along(_only(leaves, units, directions)).excess,
        lambda unit: along(_only(leaves, [unit]), unit),
    )[1]


def _length(found: _Differences, unit: _Unit) -> float:
    """How large the step of one unit is, where rounding has left it."""
    return float(np.real(_wide(found.tangents[unit.leaf]).flat[unit.element] / unit.step))


def _worst_of_reverse(
    point: Point,
    mode: Mode,
    directions: Sequence[np.ndarray],
    cotangents: Sequence[np.ndarray],
    pulled: Sequence[Any],
) -> _Element:
    """The same: first the argument's element for all results together, then the result's."""
    inputs, outputs = point.inputs, point.outputs
    rounded = _rounded(outputs, cotangents)

    def along(direction: Sequence[np.ndarray]) -> _Element:
        return _summed(point.differences(direction), rounded, pulled)

    worst, _ = _worst_unit(
        _units(inputs),
        lambda units: along(_only(inputs, units, directions)).excess,
        lambda unit: along(_only(inputs, [unit])),
    )
    found = point.differences(_only(inputs, [worst]))

    def of_results(given: Sequence[np.ndarray], name: str) -> _Element:
        given = [x.conj() for x in given]  # Re(-1j z) is the imaginary part of z
        again = mode.run(tuple(point.values), _rounded(outputs, given))[1]
        element = _summed(found, given, again).over(_length(found, worst))
        return element._replace(result=name, argument=_named(inputs, worst))

    return _worst_unit(
        _units(outputs),
        lambda units: of_results(_only(outputs, units, cotangents), "").excess,
        lambda unit: of_results(_only(outputs, [unit]), _named(outputs, unit)),
    )[1]


# Messages.

_ADVICE = (
    "A derivative rule is wrong (mx.custom_jvp, mx.custom_vjp, an operation's), or the function is "
    "not smooth within the step: choose another point, another eps, or wider tolerances."
)
_WAYS = {"fwd": "forward derivative", "rev": "reverse derivative", "lin": "linearized function"}


def _mode_text(mode: Mode) -> str:
    return f"the {_WAYS[mode.name]} of {mode.function}"


def _error(mode: Mode, problem: str, given: Sequence[str]) -> GradientCheckError:
    lines = [*given, f"mode {mode.name}, order {mode.order}: {_mode_text(mode)}"]
    return explain(GradientCheckError, "check_grads", problem, lines, _ADVICE)


def _difference(point: Point, mode: Mode, worst: _Element) -> GradientCheckError:
    problem = f"{_mode_text(mode)} differs from finite differences"
    error = abs(worst.derivative - worst.difference)
    lines = [
        f"{worst.result} with respect to {worst.argument}:",
        f"{mode.name} {worst.derivative:.7g}, differences {worst.difference:.7g}, "
        f"apart by {error:.3g}, allowed {worst.allowed:.2g}",
        f"step {point.step:.2g}, tolerance {point.atol:.2g} + {point.rtol:.2g} * |value|",
    ]
    if worst.excess <= 1:
        lines.insert(0, "no element alone is beyond the tolerance, all together are; the worst:")
    return _error(mode, problem, lines)
