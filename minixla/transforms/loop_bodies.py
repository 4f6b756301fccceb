"""What goes through a loop: its places, its structure, the types that its body settles on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minixla.core.errors import ShapeError, TransformError, explain
from minixla.core.shapes import Shape
from minixla.core.tracing import _state, shape_of, weak_type_of
from minixla.engine.float0 import flatten
from minixla.transforms.places import Places, difference, lifted_leaves, parameter_names, places
from minixla.transforms.staging import Staged, stage
from minixla_ops.elementwise.conversion import convert_element_type


def carry_places(fun: Callable[..., Any], number: int, init: Any) -> Places:
    """The places of the leaves of a loop's value, by the name that its body gives the argument."""
    return lambda: places(parameter_names(fun, number + 1)[number], init)


def stable_body(
    subject: str, name: str, body_fun: Callable[..., Any], init: Any, where: Places
) -> tuple[Staged, list[Any], Any]:
    """The body of a loop, the leaves of the first value and the structure of the arguments.

    Weakly typed leaves take the type that the body gives them.
    """
    leaves, tree = flatten((init,))
    leaves = lifted_leaves(subject, leaves, where)
    weak = [weak_type_of(leaf) for leaf in leaves]
    while True:
        shapes = [shape_of(leaf) for leaf in leaves]
        staged = stage(body_fun, tree, shapes, weak)
        check_structure(subject, body_fun, 0, flatten(init)[1], staged.result_tree)
        stable, found = fitted(subject, name, staged, leaves, weak, where)
        if found is None:
            return stable, leaves, tree
        leaves, weak = found


def check_structure(
    subject: str, body_fun: Callable[..., Any], number: int, taken: Any, returned: Any
) -> None:
    """Raises TransformError where a body returns something else than its argument of a number."""
    if returned == taken:
        return
    name = parameter_names(body_fun, number + 1)[number]
    raise explain(
        TransformError,
        subject,
        "body_fun returns another structure than it takes",
        [
            f"it takes {taken}",
            f"it returns {returned}",
            *difference(name, "it takes", taken, "it returns", returned),
        ],
        "What goes through a loop keeps its structure.",
    )


def fitted(
    subject: str,
    name: str,
    staged: Staged,
    leaves: Sequence[Any],
    weak: Sequence[bool],
    where: Places,
    carries: int | None = None,
) -> tuple[Staged, tuple[list[Any], list[bool]] | None]:
    """What a loop's body gives compared with what it takes.

    Returns:
        The body; and, where weakly typed leaves must be of other types, the leaves to stage it
        with again.
    """
    given = staged.graph.output_shapes[:carries]
    if all(shape_of(x) is s for x, s in zip(leaves, given, strict=True)):
        flags = [a and b for a, b in zip(weak, staged.weak, strict=False)]
        if flags == list(weak):
            return staged, None
        return staged, (list(leaves), flags)
    changed, flags = [], []
    for index, (leaf, shape, is_weak) in enumerate(zip(leaves, given, weak, strict=True)):
        known = shape_of(leaf)
        assert isinstance(shape, Shape) and isinstance(known, Shape)
        if shape is not known and (not is_weak or shape.dimensions != known.dimensions):
            raise explain(
                ShapeError,
                subject,
                f"{name} returns another shape for {where()[index]} than it takes",
                [f"it takes {known}", f"it returns {shape}"],
                "What goes through a loop keeps its shape and element type: convert it in the "
                "loop, or before.",
            )
        changed.append(converted_to(leaf, shape))
        flags.append(is_weak and shape is known)
    return staged, (changed, flags)


def converted_to(value: Any, shape: Any) -> Any:
    """A value of the element type of `shape`."""
    if shape_of(value) is shape:
        return value
    return convert_element_type(_state.trace.lift(value), shape.element_type)
