"""Shardings inside manual computations, where the manual axes are not seen, and outside."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from minixla.sharding.axes import Part, merged
from minixla.sharding.program import Step
from minixla.sharding.tensor_sharding import DimensionSharding, TensorSharding


class View(NamedTuple):
    """How a node sees a tensor's sharding, and back."""

    enter: Callable[[TensorSharding], TensorSharding]
    leave: Callable[[TensorSharding], TensorSharding]


class ManualAxes:
    """The manual axes of an operand or result of a manual computation.

    Attributes:
        bound: its sharding in `in_shardings` or `out_shardings`.
        names: the manual axes.
    """

    def __init__(self, bound: TensorSharding, names: Collection[str]) -> None:
        self.bound, self.names = bound, names

    def inside(self, sharding: TensorSharding) -> TensorSharding:
        """A sharding without the manual axes: that of the body's value."""
        return self._with(sharding, [self._free(parts) for parts in sharding.parts], ())

    def outside(self, sharding: TensorSharding) -> TensorSharding:
        """A sharding of the body's value with the manual axes before its own."""
        manual = [self._manual(parts) for parts in self.bound.parts]
        pairs = zip(manual, sharding.parts, strict=True)
        replicated = self._manual(map(self.bound.mesh.part, self.bound.replicated))
        return self._with(sharding, [[*first, *rest] for first, rest in pairs], replicated)

    @property
    def seen_outside(self) -> View:
        """How an edge from outside sees the body's input."""
        return View(self.outside, self.inside)

    @property
    def seen_inside(self) -> View:
        """How an edge from the body sees the result outside."""
        return View(self.inside, self.outside)

    def _manual(self, parts: Iterable[Part]) -> list[Part]:
        return [part for part in parts if part.name in self.names]

    def _free(self, parts: Iterable[Part]) -> list[Part]:
        return [part for part in parts if part.name not in self.names]

    def _with(
        self, sharding: TensorSharding, parts: Iterable[Iterable[Part]], replicated: Iterable[Part]
    ) -> TensorSharding:
        mesh = self.bound.mesh
        dimensions = [
            DimensionSharding(tuple(map(mesh.axis, merged(each))), old.is_closed, old.priority)
            for each, old in zip(parts, sharding.dimensions, strict=True)
        ]
        kept = [*self._free(map(mesh.part, sharding.replicated)), *replicated]
        axes = tuple(map(mesh.axis, merged(mesh.sorted_parts(kept))))
        return sharding.of(dimensions=tuple(dimensions), replicated=axes)


def put_bound(step: Step, name: str, number: int, sharding: TensorSharding) -> None:
    """Puts one of a step's `in_shardings` or `out_shardings` into its operation."""
    values = step.results if name == "out_shardings" else step.operands
    given = getattr(step.op, name) or [sharding.saying_nothing(each.shape) for each in values]
    step.op = step.op.replace(**{name: (*given[:number], sharding, *given[number + 1 :])})
