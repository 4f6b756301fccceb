"""Difference quotients of a function of arrays at a point, and comparisons with derivatives.

The arguments of a function form one vector in double, and so do its results. A derivative is then
compared along a direction, or by its product with a cotangent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from minixla.core.shapes import Shape
from minixla.tools.comparison import precision_of, relative_error, wide


def random_direction(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Draw numbers whose real and imaginary parts are between 1/2 and 1 in size, in double."""
    parts = generator.uniform(0.5, 1, (2, *shape.dimensions))
    parts *= generator.choice([-1, 1], parts.shape)
    return np.asarray(parts[0] + 1j * parts[1] if shape.element_type.is_complex else parts[0])


class Leaf(NamedTuple):
    """An array of floats or complex numbers, or a Python number, and its name in messages."""

    name: str
    shape: Shape
    is_number: bool = False


class Space:
    """Arrays that form one vector; each has one of the `parts`."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self.leaves = list(leaves)
        self._sizes = [leaf.shape.size for leaf in leaves]
        self.parts = [slice(*ends) for ends in pairwise(accumulate(self._sizes, initial=0))]

    def vector(self, arrays: Sequence[Any]) -> np.ndarray:
        """Return the arrays in double as one vector."""
        return np.concatenate([np.zeros(0), *[wide(np.asarray(array)).ravel() for array in arrays]])

    def arrays(self, vector: np.ndarray) -> list[Any]:
        """Return the arrays in a vector, rounded to their types."""
        vectors = []
        for leaf, part in zip(self.leaves, self.parts, strict=True):
            kind = leaf.shape.element_type
            numbers = vector[part] if kind.is_complex else np.real(vector[part])
            array = numbers.astype(kind.dtype).reshape(leaf.shape.dimensions)
            vectors.append(array.item() if leaf.is_number else array)
        return vectors

    def rounded(self, vector: np.ndarray) -> np.ndarray:
        """Return the vector with each element rounded to the type of its array."""
        return self.vector(self.arrays(vector))

    def spread(self, numbers: Sequence[float]) -> np.ndarray:
        """Repeat a number for each array over the elements of that array."""
        return np.repeat(np.asarray(numbers, float), self._sizes)

    def random(self, generator: np.random.Generator) -> np.ndarray:
        """Draw a vector without small elements."""
        return self.vector([random_direction(generator, leaf.shape) for leaf in self.leaves])

    @property
    def coordinates(self) -> list[int]:
        """The indices of the real coordinates: of all elements, then of their imaginary parts."""
        is_complex = self.spread([leaf.shape.element_type.is_complex for leaf in self.leaves])
        imaginary = len(is_complex) + np.flatnonzero(is_complex)
        return [*range(len(is_complex)), *imaginary.tolist()]

    def only(self, coordinates: Sequence[int], vector: np.ndarray) -> np.ndarray:
        """Zero a vector except some coordinates; a single one is 1, others are `vector`'s."""
        parts = np.concatenate([np.real(vector), np.imag(vector)])
        kept = np.zeros(len(parts))
        kept[coordinates] = 1 if len(coordinates) == 1 else parts[coordinates]
        return kept[: len(vector)] + 1j * kept[len(vector) :]

    def name(self, coordinate: int) -> str:
        """Return the name of a coordinate in messages, such as `args[0]['w'][2, 3]`."""
        is_imaginary, element = divmod(int(coordinate), sum(self._sizes))
        pairs = zip(self.leaves, self.parts, strict=True)
        leaf, part = next(pair for pair in pairs if element < pair[1].stop)
        index = np.unravel_index(element - part.start, leaf.shape.dimensions)
        place = str(list(map(int, index))) if index else ""
        return f"{leaf.name}{place}{' along 1j' if is_imaginary else ''}"


class Agreement(NamedTuple):
    """The agreement of a derivative with a quotient at the worst element, for a unit direction."""

    derivative: Any = 0.0
    difference: Any = 0.0
    allowed: float = 0.0  # the allowed difference
    excess: float = 0.0  # the error divided by it, at most 1
    relative: float = 0.0  # the largest error divided by the largest number
    element: int = 0  # the index in the compared part


class Quotients(NamedTuple):
    """Difference quotients along a direction, one element for each result."""

    tangent: np.ndarray  # The direction, after rounding.
    middle: np.ndarray  # The quotients over both sides.
    # The allowed distance of a derivative from them (errors of elements are independent), and the
    # additional distance where both sides differ. Infinity means that there is nothing to compare.
    allowed: np.ndarray
    corners: np.ndarray

    @property
    def are_smooth(self) -> np.ndarray:
        """True if the quotients of both sides agree, for each result."""
        return self.corners <= self.allowed

    def without_growth(self, others: "Quotients", most: float) -> "Quotients":
        """Exclude elements that are more than `most` times those of a larger step."""
        with np.errstate(all="ignore"):
            grows = np.abs(self.middle) > most * np.abs(others.middle) + self.allowed
        is_pole = grows & (others.middle != 0)
        return self._replace(corners=np.where(is_pole, np.inf, self.corners))

    def forward(self, derivative: np.ndarray, part: slice = slice(None)) -> Agreement:
        """Compare the derivative along the direction, in all results or those in `part`."""
        ours, theirs, is_smooth = derivative[part], self.middle[part], self.corners[part] < np.inf
        if not theirs.size:
            return Agreement()
        with np.errstate(all="ignore"):
            error = np.where((ours == theirs) | ~is_smooth, 0.0, np.abs(ours - theirs))
            allowed = (self.allowed + self.corners)[part]
            largest = np.where(is_smooth, np.maximum(np.abs(ours), np.abs(theirs)), 0.0)
        excess = _excess(error, allowed)
        at = int(np.argmax(excess))
        numbers = np.array([ours[at], theirs[at]])
        one, other = numbers if np.iscomplex(numbers).any() else np.real(numbers)
        relative = relative_error(error, largest)
        return self._agreement(one, other, allowed[at], float(excess[at]), relative, at)

    def reverse(self, cotangent: np.ndarray, pulled: np.ndarray) -> Agreement:
        """Compare a pullback: Re sum(cotangent * quotients) = Re sum(pulled * tangent)."""
        weights = np.abs(cotangent)
        with np.errstate(all="ignore"):
            ours, theirs = _product(self.tangent, pulled), _product(cotangent, self.middle)
            corners = _product(weights, self.corners)
            allowed = np.sqrt(_product(weights**2, self.allowed**2)) + corners
            error = 0.0 if ours == theirs else abs(ours - theirs)
            size = _product(weights, np.abs(self.middle)) or 1.0
        if corners == np.inf:
            return Agreement()
        excess = float(_excess(error, allowed))
        return self._agreement(ours, theirs, allowed, excess, error / size)

    def _agreement(self, ours: Any, theirs: Any, allowed: Any, *more: Any) -> Agreement:
        length = float(np.linalg.norm(self.tangent)) or 1.0
        numbers = ours / length, theirs / length, float(allowed) / length
        return Agreement(*numbers, *more)


def _product(first: np.ndarray, second: np.ndarray) -> float:
    """Compute Re sum(x * y) over the elements for which the first is nonzero."""
    return float(np.sum(np.real(first * second)[first != 0]))


def _excess(error: Any, allowed: Any) -> Any:
    """Return the error in units of the allowed error; NaN counts as infinite."""
    with np.errstate(all="ignore"):
        ratio = np.divide(error, np.maximum(allowed, 1e-300))
    return np.where(np.isnan(error), np.inf, np.where(np.isnan(ratio), 0.0, ratio))


@dataclass(frozen=True)
class Point:
    """A function of arrays at a point, and the parameters of its comparison with differences."""

    inputs: Space
    outputs: Space
    values: np.ndarray
    results: np.ndarray  # at the values
    call: Callable[..., Sequence[Any]]  # the function, of the arrays one by one
    step: float
    scale: np.ndarray  # The factor of each element's step.
    tolerance: Callable[[np.ndarray], np.ndarray]  # Between derivatives and quotients.
    roundings: float  # The assumed number of roundings of results.
    is_smooth: bool = True  # True if corners, jumps and infinities count as errors.

    def along(self, direction: np.ndarray) -> Quotients:
        """Return the difference quotients along a direction, from values on both sides."""
        values, step = self.values, self.step
        with np.errstate(all="ignore"):
            moved = self.inputs.rounded(values + step * self.scale * direction)
            # Go equally far to the other side, which usually needs no rounding.
            shift = np.where(np.isfinite(values), moved - values, 0)
            after, before = self.inputs.arrays(values + shift), self.inputs.arrays(values - shift)
            way = (self.inputs.vector(after) - self.inputs.vector(before)) / (2 * step)
            tangent = self.inputs.rounded(np.where(np.isfinite(values), way, 0))
            high, low = (
                self.outputs.vector(self.call(*arguments)) for arguments in (after, before)
            )
            middle = np.where(high == low, 0, high - low) / (2 * step)
            corners = np.zeros(len(middle))
            if not self.is_smooth:
                corners = 2 * np.abs(high - 2 * self.results + low) / step
            # A quotient at a jump must not set the tolerance for derivatives of other elements.
            allowed = self.tolerance(np.where(corners > np.abs(middle), 0, middle))
            if self.roundings:
                largest = np.maximum(np.abs(high), np.abs(low))
                leaves = self.outputs.leaves
                units = self.outputs.spread([precision_of(x.shape.element_type) for x in leaves])
                allowed = allowed + self.roundings * units * largest / step
            if not self.is_smooth:
                corners[~np.isfinite(middle + allowed + corners)] = np.inf
        return Quotients(tangent, middle, allowed, corners)
