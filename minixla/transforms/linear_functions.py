"""The linear functions that `vjp` and `linearize` return. They are pytrees, as in JAX.

The leaves of a linear function are the values that it closes over; its structure is a graph. It
is traced when it becomes an argument or a result of another function.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple, Self

from jax.tree_util import (
    register_pytree_node_class,
    tree_flatten,
    tree_structure,
    tree_unflatten,
)

from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.linear import spread
from minixla.core.shapes import AnyShape
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import shape_of
from minixla.engine.float0 import float0_zeros, is_float0, structure_places, with_float0
from minixla.engine.random_keys import without_keys
from minixla.engine.structures import PyTreeDef
from minixla.transforms.arguments import Signature, misfit
from minixla.transforms.pytree_paths import Places, lifted_leaves, other_structure
from minixla.transforms.staging import Staged, stage
from minixla.typing import Array, PyTree
from minixla_ops.programs.call import call


class Sides(NamedTuple):
    """The argument and result structures of a linear function.

    Attributes:
        taken: the structure of its arguments.
        shapes: the shapes of the leaves; some have no tangents.
        given: the structure of its results.
    """

    taken: PyTreeDef
    shapes: tuple[AnyShape, ...]
    given: PyTreeDef


class _Form(NamedTuple):
    """The structure of a linear function: its graph and everything else that is not a value."""

    sides: Sides
    graph: Graph
    result_tree: PyTreeDef
    weak: tuple[bool, ...]
    zeros: tuple[tuple[int, ...] | None, ...]  # for each result its dimensions if it is float0


class _LinearFunction:
    """A linear function of the leaves of a pytree.

    Args:
        apply: takes a value for each leaf, None if it has no tangent, and returns all results.
        sides: the argument and result structures.
        where: returns the paths of the argument's leaves for messages.
    """

    subject: str

    def __init__(
        self,
        apply: Callable[[Sequence[Any]], Sequence[Any]],
        sides: Sides,
        where: Places | None = None,
    ) -> None:
        self._apply, self._sides = apply, sides
        what = "the result" if self.subject == "vjp" else "argument"
        self._where = where or partial(structure_places, what, sides.taken)
        self._parts: tuple[list[Any], _Form] | None = None

    def _call(self, vectors: PyTree) -> PyTree:
        sides = self._sides
        leaves = checked_tangents(self.subject, vectors, sides.taken, sides.shapes, self._where)
        return tree_unflatten(sides.given, self._apply(leaves))

    def tree_flatten(self) -> tuple[list[Any], _Form]:
        """Return the values that the function computes with, and its graph."""
        if self._parts is None:
            self._parts = self._traced()
        return self._parts

    def _traced(self) -> tuple[list[Any], _Form]:
        moving, zeros = list(map(has_tangent, self._sides.shapes)), list[Any]()

        def of_leaves(*operands: Array) -> list[Array]:
            results = self._apply(spread(moving, operands))
            zeros[:] = [result.shape if is_float0(result) else None for result in results]
            return [result for result in results if not is_float0(result)]

        shapes = list(compress(self._sides.shapes, moving))
        signature = Signature(tree_structure((0,) * len(shapes)), shapes, [False] * len(shapes))
        staged = stage(of_leaves, signature, self.subject)
        weak = tuple(staged.weak)
        return staged.read, _Form(self._sides, staged.graph, staged.result_tree, weak, tuple(zeros))

    @classmethod
    def tree_unflatten(cls, form: _Form, values: Sequence[Array]) -> Self:
        """Build the linear function with other values."""
        staged = Staged(form.graph, list(values), form.result_tree, list(form.weak))
        moving = list(map(has_tangent, form.sides.shapes))

        def apply(leaves: Sequence[Array | None]) -> Sequence[object]:
            results = iter(staged.results(call(form.graph, *values, *compress(leaves, moving))))
            return [next(results) if zero is None else float0_zeros(zero) for zero in form.zeros]

        made = cls(apply, form.sides)
        made._parts = staged.read, form
        return made


@register_pytree_node_class
class Pullback(_LinearFunction):
    """A function from a cotangent of the result to cotangents of the arguments."""

    subject = "vjp"

    @api_boundary
    def __call__(self, cotangent: PyTree) -> PyTree:
        return self._call(cotangent)


@register_pytree_node_class
class Pushforward(_LinearFunction):
    """A function from tangents of the arguments to the tangent of the result."""

    subject = "linearize"

    @api_boundary
    def __call__(self, *tangents: PyTree) -> PyTree:
        return self._call(tangents)


def checked_tangents(
    subject: str, vectors: PyTree, tree: PyTreeDef, primals: Sequence[object], where: Places
) -> list[Array | None]:
    """Return the leaves of (co)tangents of `primals`, leaves of a pytree; None for float0."""
    what, other = ("cotangent", "result") if subject == "vjp" else ("tangents", "primals")
    leaves, structure = tree_flatten(vectors)
    wanted, empty = with_float0(without_keys(tree))
    if structure != wanted or not all(map(is_float0, compress(leaves, empty))):
        problem = f"the {what} must have the structure of the {other}"
        both = (f"{what} has", structure), (f"{other} has", tree)
        advice = f"Pass a {what} with one array for each array of the {other}."
        raise other_structure(subject, problem, "", *both, advice)
    what, leaves = what.removesuffix("s"), [x for x, e in zip(leaves, empty, strict=True) if not e]
    checked = []
    for index, (tangent, primal) in enumerate(zip(leaves, primals, strict=True)):
        shape = shape_of(primal)
        wanted = shape if has_tangent(primal) else "float0, since integers have no derivative"
        if is_float0(tangent):
            value, structure, is_fit = None, f"float0{list(tangent.shape)}", wanted is not shape
        else:
            (value,) = lifted_leaves(
                subject, [tangent], lambda i=index: [f"the {what} of {where()[i]}"]
            )
            structure, is_fit = shape_of(value), shape_of(value) is wanted
            if subject == "vjp" and not has_tangent(primal) and structure is shape:
                # As in JAX, an integer cotangent of an integer result counts as zero.
                value, is_fit = None, True
        if not is_fit:
            problem = f"the {what} of {where()[index]} does not match it"
            details = [f"{where()[index]}: {shape}", f"{what}: {structure}"]
            raise misfit(subject, problem, details, f"It must be {wanted}.")
        checked.append(value)
    return checked
