"""Passes for the shardings of arguments and results of programs, which callers see."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from minixla.sharding.axes import Part, size_of
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.program import Program, Value
from minixla.sharding.tensor_sharding import TensorSharding

Parts = Sequence[Part]


def keep_dividing_axes(program: Program) -> None:
    """Keep only the first axes of each dimension that divide it.

    SDY: sdy-update-non-divisible-input-output-shardings.
    """

    def kept(parts: Parts, size: int) -> Parts:
        if size % size_of(parts) == 0:
            return parts
        kept_parts: list[Part] = []
        for part in parts:
            common = math.gcd(part.size, size)
            if common == 1:
                break
            kept_parts.append(Part(part.name, part.start, part.start * common))
            if common < part.size:
                break
            size //= common
        return kept_parts

    def of_sharding(sharding: TensorSharding, number: int, size: int) -> Parts:
        return kept(sharding.parts[number], size)

    _change(program, of_sharding, everywhere=True)
    for step in program.walk():
        for value, sharding in zip(
            step.results, step.callee.output_shardings if step.callee else (), strict=False
        ):
            value.sharding = sharding or _changed(value.sharding, value, of_sharding)


def remove_sub_axes(program: Program) -> None:
    """Remove parts of axes, and all axes after them, from open dimensions.

    SDY: sdy-remove-sub-axes-in-input-output-shardings.
    """

    def kept(sharding: TensorSharding, number: int, size: int) -> Parts:
        parts = sharding.parts[number]
        if not sharding.dimensions[number].is_closed:
            for count, part in enumerate(parts):
                if part != sharding.mesh.whole_axes[part.name]:
                    return parts[:count]
        return parts

    _change(program, kept, keeps_priorities=True)


def _changed(
    sharding: TensorSharding | None,
    value: Value,
    kept: Callable[[TensorSharding, int, int], Parts],
    keeps_priorities: bool = False,
) -> TensorSharding | None:
    """Return the sharding of a value with the axes that each dimension keeps."""
    if sharding is None or sharding.mesh.is_maximal:
        return sharding
    sizes = getattr(value.shape, "dimensions", ())
    changed = sharding.with_parts([kept(sharding, *dimension) for dimension in enumerate(sizes)])
    if not keeps_priorities:
        return changed
    pairs = zip(changed.dimensions, sharding.dimensions, strict=True)
    return changed.of(dimensions=[replace(new, priority=old.priority) for new, old in pairs])


def _change(
    program: Program,
    kept: Callable[[TensorSharding, int, int], Parts],
    everywhere: bool = False,
    keeps_priorities: bool = False,
) -> None:
    """Let each dimension of arguments and results keep some of its axes.

    Args:
        program: the program, which is changed.
        kept: the axes that a dimension of a sharding keeps, given its number and size.
        everywhere: whether to change those of private functions and of manual computations, too.
        keeps_priorities: whether dimensions that change keep their priorities.
    """

    def all_changed(
        shardings: Sequence[TensorSharding | None], values: Sequence[Value]
    ) -> list[TensorSharding | None]:
        pairs = zip(shardings, values, strict=True)
        return [_changed(sharding, value, kept, keeps_priorities) for sharding, value in pairs]

    for function in program.functions.values():
        if not (function.is_public or everywhere):
            continue
        found = all_changed([value.sharding for value in function.inputs], function.inputs)
        for value, sharding in zip(function.inputs, found, strict=True):
            value.sharding = sharding
        outputs = function.output_shardings
        function.output_shardings = all_changed(outputs, function.outputs)
        for step in function.walk():
            if isinstance(step.op, ManualComputation) and everywhere:
                bounds = all_changed(step.op.in_shardings, step.operands)
                outer = all_changed(step.op.out_shardings, step.results)
                step.op = step.op.replace(in_shardings=bounds, out_shardings=outer)
