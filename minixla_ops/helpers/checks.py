"""Shape checks that several families share; each family passes its own label."""

from __future__ import annotations

from collections.abc import Sequence

from minixla.core import Operation, Shape


def check_dimensions(
    operation: Operation, label: str, operand: Shape, *dimensions: int, of: str = "operand"
) -> None:
    """Raise an error for check `label` if an operand called `of` lacks one of the dimensions."""
    for dimension in dimensions:
        if not 0 <= dimension < operand.rank:
            within = f"Dimensions of {of} must be in [0, {operand.rank})."
            advice = within if operand.rank else "A scalar has no dimension."
            operation.refuse_attribute(label, f"{of} has no dimension {dimension}", advice)


def check_equal_dimensions(
    operation: Operation, label: str, name: str, shapes: Sequence[Shape]
) -> None:
    """Raise an error for check `label` if arrays called `name[0]`, ... differ in dimensions."""
    for index, shape in enumerate(shapes):
        if shape.dimensions != shapes[0].dimensions:
            problem = f"{name}[0] and {name}[{index}] differ in dimensions"
            operation.refuse(label, problem, f"All {name} must have the same dimensions.")
