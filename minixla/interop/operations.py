"""How each operation of StableHLO without a program of its own becomes one of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

import minixla_ops as ops
from minixla import numpy as mnp
from minixla.core.graph import Value
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import Shape
from minixla.interop.building import ELEMENTWISE
from minixla.interop.step import Step
from minixla.interop.undefined import translated_select
from minixla.interop.values import enumerator, literal_of
from minixla_ops.elementwise.accuracy import ResultAccuracy
from minixla_ops.elementwise.transcendental import FloatUnary
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers
from minixla_ops.products.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.products.dot_dimensions import DotDimensionNumbers

#: Adds to the graph under construction and gives the results.
Translation = Callable[[Step], Sequence[Value]]

_Attributes = Callable[[Step], dict[str, Any]]


def _one(name: str, attributes: _Attributes | None = None) -> Translation:
    """The operation of XLA's name `name`, on the same operands."""

    def translation(step: Step) -> Sequence[Value]:
        given = attributes(step) if attributes is not None else {}
        return step.builder.apply(REGISTRY[name], step.operands, given)

    return translation


def accurate(operation: type[Operation]) -> Translation:
    """A function that may say how accurate its result shall be."""

    def translation(step: Step) -> Sequence[Value]:
        given = {}
        if step.has("result_accuracy"):
            accuracy = ResultAccuracy.parse(str(step.raw("result_accuracy")))
            if accuracy.mode != "DEFAULT":
                given["result_accuracy"] = accuracy
        return step.builder.apply(operation, step.operands, given)

    return translation


_DIRECTIONS = {each.upper(): each.capitalize() for each in ("eq", "ne", "ge", "gt", "le", "lt")}


def _compare(step: Step) -> Sequence[Value]:
    direction = _DIRECTIONS[step.choice("comparison_direction") or "EQ"]
    is_total = step.choice("compare_type") == "TOTALORDER"
    name = f"{direction}TotalOrder" if is_total else direction
    return step.builder.apply(REGISTRY[name], step.operands)


def _constant(step: Step) -> Sequence[Value]:
    literal = literal_of(step.operation, "value", step.result, step.module.constants)
    return [step.bind("Constant", literal=literal)]


def precisions(step: Step) -> tuple[str, ...] | None:
    """The precision of each operand of a product, where it says one."""
    attribute = step.raw("precision_config")
    if attribute is None:
        return None
    names = tuple([enumerator(each) for each in attribute])
    return names if len(names) == 2 else None


def preferred(step: Step) -> Any:
    """The element type that a product is accumulated in, where it is not the operands'."""
    own = step.operands[0].shape
    kind = step.result.element_type
    return kind if isinstance(own, Shape) and own.element_type is not kind else None


def _dot_general(step: Step) -> dict[str, Any]:
    numbers = stablehlo.DotDimensionNumbers(step.raw("dot_dimension_numbers"))
    return {
        "dimension_numbers": DotDimensionNumbers(
            tuple(numbers.lhs_contracting_dimensions),
            tuple(numbers.rhs_contracting_dimensions),
            tuple(numbers.lhs_batching_dimensions),
            tuple(numbers.rhs_batching_dimensions),
        ),
        "precision_config": precisions(step),
        "preferred_element_type": preferred(step),
    }


def _dot(step: Step) -> dict[str, Any]:
    last = step.operands[0].shape.rank - 1  # type: ignore[union-attr]  # an array
    return {
        "dimension_numbers": DotDimensionNumbers((last,), (0,)),
        "precision_config": precisions(step),
        "preferred_element_type": preferred(step),
    }


def convolution_attributes(step: Step) -> dict[str, Any]:
    """All but the padding."""
    numbers = stablehlo.ConvDimensionNumbers(step.raw("dimension_numbers"))
    fields = ConvolutionDimensionNumbers.__slots__
    given = {name: getattr(numbers, name) for name in fields}
    given = {k: tuple(v) if k.endswith("s") else v for k, v in given.items()}
    ones = [1] * len(given["input_spatial_dimensions"])
    reversal = step.get("window_reversal", [False] * len(ones))
    return {
        "window_strides": step.integers("window_strides", ones),
        "lhs_dilation": step.integers("lhs_dilation", ones),
        "rhs_dilation": step.integers("rhs_dilation", ones),
        "dimension_numbers": ConvolutionDimensionNumbers(**given),
        "feature_group_count": step.get("feature_group_count", 1),
        "batch_group_count": step.get("batch_group_count", 1),
        "precision_config": precisions(step),
        "preferred_element_type": preferred(step),
        "window_reversal": tuple(map(bool, reversal)),
    }


def pairs(step: Step, name: str, count: int) -> tuple[tuple[int, int], ...]:
    """A padding: `count` pairs of integers, zeros where it is left out."""
    if not step.has(name):
        return ((0, 0),) * count
    rows = np.asarray(step.get(name)).reshape(-1, 2)
    return tuple([(int(low), int(high)) for low, high in rows])


def _convolution(step: Step) -> dict[str, Any]:
    attributes = convolution_attributes(step)
    count = len(attributes["window_strides"])
    return {**attributes, "padding": pairs(step, "padding", count)}


def gather_attributes(step: Step) -> dict[str, Any]:
    """All but the slices' sizes."""
    numbers = stablehlo.GatherDimensionNumbers(step.raw("dimension_numbers"))
    return {
        "dimension_numbers": GatherDimensionNumbers(
            tuple(numbers.offset_dims),
            tuple(numbers.collapsed_slice_dims),
            tuple(numbers.start_index_map),
            numbers.index_vector_dim,
            tuple(numbers.operand_batching_dims),
            tuple(numbers.start_indices_batching_dims),
        ),
        "indices_are_sorted": bool(step.get("indices_are_sorted", False)),
    }


def _gather(step: Step) -> dict[str, Any]:
    return {**gather_attributes(step), "slice_sizes": step.integers("slice_sizes")}


def _reshape(step: Step) -> dict[str, Any]:
    return {"dimensions": step.result.dimensions}


def _broadcast_in_dim(step: Step) -> dict[str, Any]:
    return {
        "out_dim_size": step.result.dimensions,
        "broadcast_dimensions": step.integers("broadcast_dimensions"),
    }


def _pad(step: Step) -> dict[str, Any]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return {"padding_config": tuple(zip(*[step.integers(name) for name in names], strict=True))}


def _slice(step: Step) -> dict[str, Any]:
    names = ("start_indices", "limit_indices", "strides")
    return {name: step.integers(name) for name in names}


def _converted(step: Step) -> dict[str, Any]:
    return {"new_element_type": step.result.element_type}


def _bitcast_convert(step: Step) -> Sequence[Value]:
    new = step.result.element_type
    (old,) = [shape.element_type for shape in step.shapes]
    if not new.is_complex or new is old:
        return [step.bind("BitcastConvertType", *step.operands, new_element_type=new)]

    def complex_bits(operand: Any) -> Any:
        # XLA has no bits of complex numbers: each is its real part and behind it the imaginary one.
        parts = mnp.stack([ops.real(operand), ops.imag(operand)], -1)
        found = ops.bitcast_convert_type(parts, new.real)
        return ops.complex(found[..., 0], found[..., 1])

    return step.inlined(complex_bits)


def _set_dimension_size(step: Step) -> dict[str, Any]:
    dimension = step.get("dimension")
    return {"dimension": dimension, "to_bound": not step.result.dynamic[dimension]}


def _batch_norm(step: Step) -> dict[str, Any]:
    return {"epsilon": step.get("epsilon"), "feature_index": step.get("feature_index")}


def _rng(step: Step) -> Sequence[Value]:
    is_uniform = step.choice("rng_distribution") == "UNIFORM"
    if step.operands[2].instruction is not None:
        step.builder.known(step.operands[2])
    name = "RngUniform" if is_uniform else "RngNormal"
    return [step.bind(name, *step.operands[:2], output_shape=step.result)]


def _rng_bit_generator(step: Step) -> dict[str, Any]:
    algorithm = (step.choice("rng_algorithm") or "DEFAULT").lower()
    return {"algorithm": f"rng_{algorithm}", "output_shape": step.results[1]}


def _triangular_solve(step: Step) -> dict[str, Any]:
    return {
        **{name: bool(step.get(name)) for name in ("left_side", "lower", "unit_diagonal")},
        "transpose_a": step.choice("transpose_a"),
    }


def _fft(step: Step) -> dict[str, Any]:
    return {"fft_type": step.choice("fft_type"), "fft_length": step.integers("fft_length")}


def _reduce_precision(step: Step) -> dict[str, Any]:
    return {name: step.get(name) for name in ("exponent_bits", "mantissa_bits")}


def _get_tuple_element(step: Step) -> dict[str, Any]:
    return {"index": step.get("index")}


def _optimization_barrier(step: Step) -> Sequence[Value]:
    builder = step.builder
    leaves = [leaf for value in step.operands for leaf in builder.leaves(value)]
    results = iter(builder.apply(REGISTRY["OptimizationBarrier"], leaves))
    return [builder.from_leaves(shape, results) for shape in step.shapes]


#: By StableHLO's name.
TABLE: dict[str, Translation] = {
    **{
        f"stablehlo.{operation.stablehlo_name}": (
            accurate(type(operation)) if isinstance(operation, FloatUnary) else _one(operation.name)
        )
        for operation in ELEMENTWISE.values()
    },
    "stablehlo.after_all": _one("AfterAll"),
    "stablehlo.batch_norm_grad": _one("BatchNormGrad", _batch_norm),
    "stablehlo.batch_norm_inference": _one("BatchNormInference", _batch_norm),
    "stablehlo.batch_norm_training": _one("BatchNormTraining", _batch_norm),
    "stablehlo.bitcast_convert": _bitcast_convert,
    "stablehlo.broadcast": _one(
        "Broadcast", lambda step: {"broadcast_sizes": step.integers("broadcast_sizes")}
    ),
    "stablehlo.broadcast_in_dim": _one("BroadcastInDim", _broadcast_in_dim),
    "stablehlo.cholesky": _one("Cholesky", lambda step: {"lower": bool(step.get("lower", False))}),
    "stablehlo.clamp": _one("Clamp"),
    "stablehlo.compare": _compare,
    "stablehlo.concatenate": _one("ConcatInDim", lambda step: {"dimension": step.get("dimension")}),
    "stablehlo.constant": _constant,
    "stablehlo.convert": _one("ConvertElementType", _converted),
    "stablehlo.convolution": _one("ConvGeneralDilated", _convolution),
    "stablehlo.create_token": _one("AfterAll"),
    "stablehlo.dot": _one("DotGeneral", _dot),
    "stablehlo.dot_general": _one("DotGeneral", _dot_general),
    "stablehlo.dynamic_slice": _one(
        "DynamicSlice", lambda step: {"slice_sizes": step.integers("slice_sizes")}
    ),
    "stablehlo.dynamic_update_slice": _one("DynamicUpdateSlice"),
    "stablehlo.fft": _one("Fft", _fft),
    "stablehlo.gather": _one("Gather", _gather),
    "stablehlo.get_dimension_size": _one(
        "GetDimensionSize", lambda step: {"dimension": step.get("dimension")}
    ),
    "stablehlo.get_tuple_element": _one("GetTupleElement", _get_tuple_element),
    "stablehlo.iota": _one(
        "Iota",
        lambda step: {"output_shape": step.result, "iota_dimension": step.get("iota_dimension")},
    ),
    "stablehlo.optimization_barrier": _optimization_barrier,
    "stablehlo.pad": _one("Pad", _pad),
    "stablehlo.partition_id": _one("PartitionID", lambda step: {"output_shape": step.result}),
    "stablehlo.reduce_precision": _one("ReducePrecision", _reduce_precision),
    "stablehlo.replica_id": _one("ReplicaId"),
    "stablehlo.reshape": _one("Reshape", _reshape),
    "stablehlo.reverse": _one("Rev", lambda step: {"dimensions": step.integers("dimensions")}),
    "stablehlo.rng": _rng,
    "stablehlo.rng_bit_generator": _one("RngBitGenerator", _rng_bit_generator),
    "stablehlo.select": translated_select,
    "stablehlo.set_dimension_size": _one("SetDimensionSize", _set_dimension_size),
    "stablehlo.slice": _one("Slice", _slice),
    "stablehlo.transpose": _one(
        "Transpose", lambda step: {"permutation": step.integers("permutation")}
    ),
    "stablehlo.triangular_solve": _one("TriangularSolve", _triangular_solve),
    "stablehlo.tuple": _one("Tuple"),
}
