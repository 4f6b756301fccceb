"""What goes through a loop: its places, its structure, the types that its body settles on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.tree_util import tree_unflatten

from minixla.core.errors import AttributeValueError, ShapeError, explain
from minixla.core.shapes import Shape
from minixla.core.tracing import _state, shape_of, weak_type_of
from minixla.engine.float0 import flatten
from minixla.numpy.operands import static_int
from minixla.transforms.arguments import misfit
from minixla.transforms.places import Places, difference, parameter_names, places
from minixla.transforms.staging import Staged, stage
from minixla_ops.elementwise.conversion import convert_element_type
from minixla_ops.vocabulary.shorthand import array_shape


def carry_places(fun: Callable[..., Any], number: int, init: Any) -> Places:
    """The places of the leaves of a loop's value, by the name that its body gives the argument."""
    return lambda: places(parameter_names(fun, number + 1)[number], init)


def stable_body(
    subject: str,
    name: str,
    body: Callable[..., Any],
    tree: Any,
    leaves: Sequence[Any],
    where: Places,
    check: Callable[[Any], None],
    rows: Sequence[Any] = (),
) -> tuple[Staged, list[Any]]:
    """The body of a loop, and the first value in the types that the body settles on.

    Weakly typed leaves take the type that the body gives them.

    Args:
        subject: the function of the user's call, for messages.
        name: the parameter that is the body.
        body: takes what goes through the loop, and what it gets in each step.
        tree: the structure of its arguments.
        leaves: the first value.
        where: gives the places of these.
        check: checks the structure of the body's result, of which the next value is first.
        rows: arrays whose entries the steps get.
    """
    leaves, weak = list(leaves), list(map(weak_type_of, leaves))
    shapes_of_rows: list[Any] = [array_shape(each).without_dimension(0) for each in rows]
    weak_rows = list(map(weak_type_of, rows))
    while True:
        shapes = [*map(shape_of, leaves), *shapes_of_rows]
        staged = stage(body, tree, shapes, [*weak, *weak_rows])
        check(staged.result_tree)
        fitted = []
        given = zip(leaves, weak, staged.graph.output_shapes, staged.weak, strict=False)
        for index, (leaf, is_weak, shape, stays_weak) in enumerate(given):
            known: Any = shape_of(leaf)
            if shape is known:
                fitted.append((leaf, is_weak and stays_weak))
                continue
            if not is_weak or not isinstance(shape, Shape) or shape.dimensions != known.dimensions:
                raise explain(
                    ShapeError,
                    subject,
                    f"{name} returns another shape for {where()[index]} than it takes",
                    [f"it takes {known}", f"it returns {shape}"],
                    "What goes through a loop keeps its shape and element type: convert it in the "
                    "loop, or before.",
                )
            fitted.append((converted_to(leaf, shape), False))
        if [flag for _, flag in fitted] == weak:
            return staged, leaves
        leaves, weak = [leaf for leaf, _ in fitted], [flag for _, flag in fitted]


def check_structure(
    subject: str, body_fun: Callable[..., Any], number: int, taken: Any, returned: Any
) -> None:
    """Raises TransformError where a body returns something else than its argument of a number."""
    if returned == taken:
        return
    name = parameter_names(body_fun, number + 1)[number]
    raise misfit(
        subject,
        "body_fun returns another structure than it takes",
        [
            f"it takes {taken}",
            f"it returns {returned}",
            *difference(name, "it takes", taken, "it returns", returned),
        ],
        "What goes through a loop keeps its structure.",
    )


def converted_to(value: Any, shape: Any) -> Any:
    """A value of the element type of `shape`."""
    if shape_of(value) is shape:
        return value
    return convert_element_type(_state.trace.lift(value), shape.element_type)


def lifted(subject: str, values: Any) -> Any:
    """A pytree whose leaves are values of the current trace."""
    leaves, tree = flatten(values)
    return tree_unflatten(tree, [_state.trace.lift(leaf, subject) for leaf in leaves])


def steps_at_a_time(subject: str, unroll: Any) -> int | None:
    """How many steps are straight code: 0 and False mean one, True all, which is None here.

    Raises:
        AttributeValueError: `unroll` is no number of steps.
    """
    if unroll is True:
        return None
    size = static_int(unroll, subject, "unroll")
    if size < 0:
        problem = "unroll is negative"
        advice = "Give the number of steps at a time, or True for all."
        raise explain(AttributeValueError, subject, problem, [f"unroll = {unroll}"], advice)
    return max(size, 1)
