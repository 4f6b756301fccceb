"""Operations whose sizes are operands: where those are constants, the ones with fixed sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minixla.core.graph import Value
from minixla.core.shapes import Shape
from minixla.interop.operations import Translation
from minixla.interop.step import Step
from minixla.interop.values import element_of


def _numbers(step: Step, index: int, what: str) -> tuple[int, ...]:
    """The value of an operand that must be a constant."""
    found = step.builder.known(step.operands[index])
    if found is None:
        step.reject(
            f"{what}, operand {index}, is not a constant",
            "Sizes must be known when a program is read: export it for fixed shapes, or refine its "
            "shapes (jax.extend.mlir.refine_polymorphic_shapes).",
        )
    return tuple([int(each) for each in np.ravel(found)])


def _sizes(step: Step, index: int) -> tuple[int, ...]:
    """The sizes of the result: declared, or those in an operand."""
    declared = step.operation.results[0].type
    if declared.has_static_shape:
        step.builder.known(step.operands[index])
        return tuple(declared.shape)
    return _numbers(step, index, "the result's shape")


def _broadcast_in_dim(step: Step) -> Sequence[Value]:
    return step.apply("BroadcastInDim", step.operands[:1], out_dim_size=_sizes(step, 1))


def _iota(step: Step) -> Sequence[Value]:
    shape = Shape(element_of(step.operation.results[0].type), _sizes(step, 0))
    return step.apply("Iota", (), output_shape=shape)


def _reshape(step: Step) -> Sequence[Value]:
    operand, listed = step.operands
    shape = step.module.declared[step.operation.results[0].type]
    dynamic = any(isinstance(s, Shape) and s.is_dynamic for s in (shape, operand.shape))
    if not isinstance(shape, Shape) or not dynamic:
        return [step.bind("Reshape", operand, dimensions=_sizes(step, 1))]
    sizes = _scalars(step, listed, shape.rank)
    given = {"new_size_bounds": shape.dimensions, "dims_are_dynamic": shape.dynamic}
    return step.apply("DynamicReshape", [operand, *sizes], **given)


def _scalars(step: Step, listed: Value, count: int) -> list[Value]:
    """The members of a vector of sizes, each as s32[]."""
    whole = listed.instruction
    if whole is not None and whole.op.name == "ConcatInDim":
        made = [operand.instruction for operand in whole.operands]
        parts = [
            each.operands[0] for each in made if each is not None and each.op.name == "Reshape"
        ]
        if len(parts) == count and all(part.shape is Shape("s32") for part in parts):
            step.builder.folded.update(map(id, [whole, *made]))
            return parts
    scalars = []
    for index in range(count):
        one = step.bind("Slice", listed, start_indices=(index,), limit_indices=(index + 1,))
        scalar = step.bind("Reshape", one, dimensions=())
        if scalar.shape is not Shape("s32"):
            scalar = step.bind("ConvertElementType", scalar, new_element_type="s32")
        scalars.append(scalar)
    return scalars


def _pad(step: Step) -> Sequence[Value]:
    names = ("the padding below", "the padding above", "the padding between")
    lists = [_numbers(step, index, name) for index, name in enumerate(names, 2)]
    config = tuple(zip(*lists, strict=True))
    return [step.bind("Pad", *step.operands[:2], padding_config=config)]


def _slice(step: Step) -> Sequence[Value]:
    names = ("start_indices", "limit_indices", "strides")
    given = {name: _numbers(step, index, name) for index, name in enumerate(names, 1)}
    return [step.bind("Slice", step.operands[0], **given)]


def _gather(step: Step) -> Sequence[Value]:
    sizes = _numbers(step, 2, "slice_sizes")
    return step.apply("Gather", step.operands[:2], slice_sizes=sizes)


def _convolution(step: Step) -> Sequence[Value]:
    numbers = _numbers(step, 2, "the padding")
    padding = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    return step.apply("ConvGeneralDilated", step.operands[:2], padding=padding)


#: By StableHLO's name.
DYNAMIC: dict[str, Translation] = {
    "stablehlo.dynamic_broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.dynamic_conv": _convolution,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.dynamic_pad": _pad,
    "stablehlo.dynamic_reshape": _reshape,
    "stablehlo.real_dynamic_slice": _slice,
}
