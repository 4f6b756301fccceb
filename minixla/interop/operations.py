"""How each operation of StableHLO without a program of its own becomes one of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import minixla_ops as ops
from minixla import numpy as mnp
from minixla.core.graph import Value
from minixla.core.operation import REGISTRY, Operation
from minixla.interop.incomplete import translated_select
from minixla.interop.step import Step
from minixla.interop.values import literal_of
from minixla.transforms.vmap import vmap
from minixla_ops.products.dot_dimensions import DotDimensionNumbers

#: Adds to the graph under construction and gives the results.
Translation = Callable[[Step], Sequence[Value]]


def declared(
    operation: type[Operation], more: Callable[[Step], dict[str, Any]] | None = None
) -> Translation:
    """An operation on the same operands, its attributes read as it declares them.

    Args:
        operation: ours.
        more: gives attributes that are not said by one of StableHLO's, or by the result's type.
    """

    def translation(step: Step) -> Sequence[Value]:
        given = more(step) if more is not None else {}
        return step.apply(operation.name, **given)

    return translation


def _compare(step: Step) -> Sequence[Value]:
    is_total = step.choice("compare_type") == "TOTALORDER"
    direction = str(step.choice("comparison_direction", "EQ")).capitalize()
    return step.apply(f"{direction}TotalOrder" if is_total else direction)


def _constant(step: Step) -> Sequence[Value]:
    literal = literal_of(step.operation, "value", step.result, step.module.constants)
    return [step.bind("Constant", literal=literal)]


def _dot(step: Step) -> dict[str, Any]:
    last = step.operands[0].shape.rank - 1  # type: ignore[union-attr]  # an array
    return {"dimension_numbers": DotDimensionNumbers((last,), (0,))}


def _pad(step: Step) -> dict[str, Any]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return {"padding_config": tuple(zip(*[step.integers(name) for name in names], strict=True))}


def _bitcast_convert(step: Step) -> Sequence[Value]:
    new = step.result.element_type
    (old,) = [shape.element_type for shape in step.shapes]
    if not new.is_complex or new is old:
        return step.apply("BitcastConvertType")

    def complex_bits(operand: Any) -> Any:
        # XLA has no bits of complex numbers: each is its real part and behind it the imaginary one.
        parts = mnp.stack([ops.real(operand), ops.imag(operand)], -1)
        found = ops.bitcast_convert_type(parts, new.real)
        return ops.complex(found[..., 0], found[..., 1])

    return step.inlined(complex_bits)


def _rng(step: Step) -> Sequence[Value]:
    is_uniform = step.choice("rng_distribution") == "UNIFORM"
    if step.operands[2].instruction is not None:
        step.builder.known(step.operands[2])
    return step.apply("RngUniform" if is_uniform else "RngNormal", step.operands[:2])


def _optimization_barrier(step: Step) -> Sequence[Value]:
    builder = step.builder
    leaves = [leaf for value in step.operands for leaf in builder.leaves(value)]
    results = iter(step.apply("OptimizationBarrier", leaves))
    return [builder.from_leaves(shape, results) for shape in step.shapes]


def _einsum(step: Step) -> Sequence[Value]:
    config = step.get("einsum_config")
    # As in a dot_general, products and sums have the type that the result is declared.
    step.operands = step.promoted(step.operands, [step.result])
    return step.inlined(lambda *operands: mnp.einsum(config, *operands))


def _torch_index_select(step: Step) -> Sequence[Value]:
    batch = step.get("batch_dims", 0)
    axis = step.get("dim") - batch

    def select(operand: Any, index: Any) -> Any:
        return mnp.take(operand, index, axis=axis, mode="clip")

    for _ in range(batch):
        select = vmap(select)
    return step.inlined(select)


#: Ours that have several names, none of StableHLO's, or one that others have too.
_NAMED = {
    "stablehlo.batch_norm_grad": "BatchNormGrad",
    "stablehlo.batch_norm_inference": "BatchNormInference",
    "stablehlo.batch_norm_training": "BatchNormTraining",
    "stablehlo.create_token": "AfterAll",
    "stablehlo.get_tuple_element": "GetTupleElement",
    "stablehlo.reshape": "Reshape",
}
#: By StableHLO's name. What is declared under that name stands here only if there is more to it.
TABLE: dict[str, Translation] = {
    **{
        f"stablehlo.{operation.stablehlo_name}": declared(operation)
        for name, operation in REGISTRY.items()
        if operation.stablehlo_name is not None and "." not in name
    },
    **{name: declared(REGISTRY[ours]) for name, ours in _NAMED.items()},
    "stablehlo.bitcast_convert": _bitcast_convert,
    # StableHLO leaves out what is False there, and True in XLA.
    "stablehlo.cholesky": declared(
        REGISTRY["Cholesky"], lambda step: {"lower": step.get("lower", False)}
    ),
    "stablehlo.compare": _compare,
    "stablehlo.constant": _constant,
    "stablehlo.dot": declared(REGISTRY["DotGeneral"], _dot),
    "stablehlo.einsum": _einsum,
    "stablehlo.optimization_barrier": _optimization_barrier,
    "stablehlo.pad": declared(REGISTRY["Pad"], _pad),
    "stablehlo.rng": _rng,
    "stablehlo.rng_bit_generator": declared(
        REGISTRY["RngBitGenerator"], lambda step: {"output_shape": step.results[1]}
    ),
    "stablehlo.select": translated_select,
    "stablehlo.set_dimension_size": declared(
        REGISTRY["SetDimensionSize"],
        lambda step: {"to_bound": not step.result.dynamic[step.get("dimension")]},
    ),
    "stablehlo.torch_index_select": _torch_index_select,
    "stablehlo.unary_einsum": _einsum,
}
