"""How each opcode of HLO without a program of its own becomes one of our operations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from minixla.core.graph import Value
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.interop.decomposition import decomposition
from minixla.interop.hlo import notation
from minixla.interop.hlo.literals import ELIDED, parse_literal, tuple_members
from minixla.interop.hlo.refused import ElidedConstant
from minixla.interop.hlo.step import Nest, Step, leaves_of, nest_of, shape_of_nest
from minixla.interop.special import SPECIAL
from minixla_ops.accuracy import ResultAccuracy
from minixla_ops.elementwise import Elementwise
from minixla_ops.fft import Fft
from minixla_ops.transcendental import FloatUnary

__all__ = ["OPERATIONS", "Entry", "entry"]

_ACCURACY = re.compile(r"\{(?:mode=(\w+)|tolerance=\{([^{}]*)\})\}", re.ASCII)
_FIELD = re.compile(r"(atol|rtol|ulps)\s*=\s*([\w.+\-]+)", re.ASCII)


class Entry(NamedTuple):
    """How an opcode is read.

    Attributes:
        translation: adds to the graph under construction and gives the result.
        attributes: the names of those that it may have.
        loose: whether only the first two members of its tuple are the same on all backends.
        reads: whether operands are values.
    """

    translation: Callable[[Step], Nest]
    attributes: frozenset[str] = frozenset()
    loose: bool = False
    reads: bool = True


def entry(translation: Callable[[Step], Nest], attributes: str = "", **more: bool) -> Entry:
    """An Entry from the names of attributes in one string."""
    return Entry(translation, frozenset(attributes.split()), **more)


def _one(
    name: str, attributes: Callable[[Step], dict[str, Any]] | None = None, names: str = ""
) -> Entry:
    """The operation of XLA's name `name`, on the same operands."""
    operation = REGISTRY[name]

    def translation(step: Step) -> Nest:
        given = attributes(step) if attributes is not None else {}
        return step.apply(operation, step.values, given)

    return entry(translation, names)


def _elementwise(operation: Operation) -> Entry:
    def translation(step: Step) -> Nest:
        return step.builder.apply(operation, step.values)[0]

    return Entry(translation)


def _accuracy(text: str) -> ResultAccuracy | None:
    match = _ACCURACY.fullmatch(text)
    if match is None:
        return None
    if match[1]:
        return ResultAccuracy(match[1].upper())
    fields = {name: float(value) for name, value in _FIELD.findall(match[2])}
    return ResultAccuracy(
        "TOLERANCE", fields.get("atol", 0.0), fields.get("rtol", 0.0), int(fields.get("ulps", 0))
    )


def _accurate(operation: Operation) -> Entry:
    def translation(step: Step) -> Nest:
        given = {}
        if step.has("result_accuracy"):
            accuracy = step.parsed("result_accuracy", _accuracy, "{mode=highest}")
            if accuracy.mode != "DEFAULT":
                given["result_accuracy"] = accuracy
        return step.apply(operation, step.values, given)

    return entry(translation, "result_accuracy")


def _same_names() -> dict[str, Entry]:
    """Elementwise operations, which have no other attributes."""
    table: dict[str, Entry] = {}
    for operation in list(REGISTRY.values()):
        if not isinstance(operation, Elementwise) or operation.hlo_name == "compare":
            continue
        if isinstance(operation, FloatUnary):
            table[operation.hlo_name] = _accurate(operation)
        elif not operation.fields and f"chlo.{operation.builder_name}" not in SPECIAL:
            table[operation.hlo_name] = _elementwise(operation)
    return table


def _special(name: str) -> Entry:
    """A function that StableHLO lacks: complex ones are decomposed."""
    operation = SPECIAL[f"chlo.{name}"]

    def translation(step: Step) -> Nest:
        shape = step.operand(0, 1)
        if not shape.element_type.is_complex:
            return step.apply(operation, step.values)
        graph = decomposition(f"chlo.{name}", (shape,), (shape,), "")
        return step.nest(step.builder.inline(graph, step.values))

    return entry(translation, "result_accuracy")


_DIRECTIONS = {each.upper(): each.capitalize() for each in ("eq", "ne", "ge", "gt", "le", "lt")}
_COMPARE_TYPES = ("FLOAT", "SIGNED", "UNSIGNED", "TOTALORDER")


def _compare(step: Step) -> Nest:
    direction = _DIRECTIONS[step.choice("direction", *_DIRECTIONS)]
    how = step.choice("type", *_COMPARE_TYPES) if step.has("type") else ""
    name = f"{direction}TotalOrder" if how == "TOTALORDER" else direction
    return step.apply(REGISTRY[name], step.values)


def _constant(step: Step) -> Nest:
    (text,) = step.instruction.operands
    return _literal(step, text, step.shape)


def _literal(step: Step, text: str, shape: AnyShape) -> Nest:
    if isinstance(shape, TupleShape):
        members = tuple_members(text, shape)
        return tuple([_literal(step, each, inner) for each, inner in members])
    if not isinstance(shape, Shape):
        step.reject(f"there is no constant {shape}", "Constants are arrays or tuples of them.")
    if text.strip() == ELIDED:
        label, line = step.instruction.name, step.module.text.line(step.instruction.position)
        return step.bind(ElidedConstant.name, output_shape=shape, label=label, line=line)
    try:
        literal = parse_literal(text, shape)
    except ValueError as error:
        position = step.instruction.operand_position
        advice = "A constant is such as 1.5, {1, 2} or {{1, 2}, {3, 4}}."
        raise step.module.text.error(position, f"constant: {error}", (), advice) from None
    return step.bind("Constant", literal=literal)


def _iota(step: Step) -> dict[str, Any]:
    # XLA leaves the dimension out where there is one only.
    return {"output_shape": step.array, "iota_dimension": step.integer("iota_dimension", 0)}


def _broadcast(step: Step) -> Nest:
    shape, result = step.operand(0, 1), step.array
    dimensions = step.integers("dimensions", ())
    given = {"out_dim_size": result.dimensions, "broadcast_dimensions": dimensions}
    found = step.apply(REGISTRY["BroadcastInDim"], step.values, given)
    if [result.dimensions[at] for at in dimensions] != list(shape.dimensions):
        step.reject(
            f"dimensions {list(dimensions)} of {result} have other sizes than {shape}",
            "HLO's broadcast adds dimensions and does not stretch them.",
        )
    return found


def _reshape(step: Step) -> dict[str, Any]:
    return {"dimensions": step.array.dimensions}


def _permutation(step: Step) -> dict[str, Any]:
    return {"permutation": step.integers("dimensions")}


def _dimensions(step: Step) -> dict[str, Any]:
    return {"dimensions": step.integers("dimensions")}


def _pad(step: Step) -> dict[str, Any]:
    return {"padding_config": step.parsed("padding", notation.padding, "0_1x1_0_2")}


def _slice(step: Step) -> dict[str, Any]:
    ranges = step.parsed("slice", notation.slices, "{[0:4:2],[1:3]}")
    starts, limits, strides = zip(*ranges, strict=True) if ranges else ((), (), ())
    return {"start_indices": starts, "limit_indices": limits, "strides": strides}


def _starts(step: Step, count: int, rank: int) -> list[Value]:
    """The operands of a dynamic slice; older programs have all starts in one vector."""
    values = step.values
    if len(values) != count + 1 or not isinstance(values[-1].shape, Shape):
        return values
    vector = values[-1]
    if vector.shape.rank != 1 or vector.shape.dimensions != (rank,):  # type: ignore[union-attr]  # an array
        return values
    found = values[:count]
    for index in range(rank):
        limits = {"start_indices": (index,), "limit_indices": (index + 1,), "strides": (1,)}
        found.append(step.bind("Reshape", step.bind("Slice", vector, **limits), dimensions=()))
    return found


def _dynamic_slice(step: Step) -> Nest:
    sizes = step.integers("dynamic_slice_sizes")
    values = _starts(step, 1, len(sizes))
    return step.apply(REGISTRY["DynamicSlice"], values, {"slice_sizes": sizes})


def _dynamic_update_slice(step: Step) -> Nest:
    return step.apply(REGISTRY["DynamicUpdateSlice"], _starts(step, 2, step.array.rank))


def _dynamic_reshape(step: Step) -> dict[str, Any]:
    return {
        "new_size_bounds": step.array.dimensions,
        "dims_are_dynamic": step.array.dynamic,
    }


def _converted(step: Step) -> dict[str, Any]:
    return {"new_element_type": step.array.element_type}


def _set_dimension_size(step: Step) -> dict[str, Any]:
    dimension, result = step.dimension(), step.array
    is_there = 0 <= dimension < result.rank
    return {"dimension": dimension, "to_bound": is_there and not result.dynamic[dimension]}


def _reduce_precision(step: Step) -> dict[str, Any]:
    return {name: step.integer(name) for name in ("exponent_bits", "mantissa_bits")}


def _rng(step: Step) -> Nest:
    distribution = step.choice("distribution", "rng_uniform", "rng_normal")
    name = "RngUniform" if distribution == "rng_uniform" else "RngNormal"
    return step.apply(REGISTRY[name], step.values, {"shape": step.array})


_ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")


def _rng_bit_generator(step: Step) -> Nest:
    algorithm = step.choice("algorithm", *_ALGORITHMS)
    declared = step.shape
    if not isinstance(declared, TupleShape) or len(declared.elements) != 2:
        step.reject(f"its result is {declared}", "It gives a state and bits.")
    given = {"algorithm": algorithm, "shape": declared.elements[1]}
    return step.apply(REGISTRY["RngBitGenerator"], step.values, given)


def _triangular_solve(step: Step) -> dict[str, Any]:
    names = ("left_side", "lower", "unit_diagonal")
    transposes = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    return {
        **{name: step.flag(name) for name in names},
        "transpose_a": step.choice("transpose_a", *transposes, default="NO_TRANSPOSE"),
    }


def _fft(step: Step) -> dict[str, Any]:
    names = Fft.fields["fft_type"].kind.names  # type: ignore[attr-defined]  # an Enumeration
    return {"fft_type": step.choice("fft_type", *names), "fft_length": step.integers("fft_length")}


def _batch_norm(step: Step) -> dict[str, Any]:
    return {"epsilon": step.real("epsilon"), "feature_index": step.integer("feature_index")}


def _top_k(step: Step) -> dict[str, Any]:
    return {"k": step.integer("k"), "largest": step.flag("largest", True)}


# Tuples.


def _tuple(step: Step) -> Nest:
    return tuple(step.operands)


def _get_tuple_element(step: Step) -> Nest:
    step.count(1)
    (whole,), index = step.operands, step.integer("index")
    if type(whole) is Value:
        return step.bind("GetTupleElement", whole, index=index)
    if not 0 <= index < len(whole):  # type: ignore[arg-type]  # a tuple
        step.reject(f"there is no member {index}", f"index is below {len(whole)}.")  # type: ignore[arg-type]  # a tuple
    return whole[index]  # type: ignore[index]  # a tuple


def by_leaf(name: str, names: str = "") -> Entry:
    """An identity of one operand, for each leaf of which there is one of our instructions."""
    operation = REGISTRY[name]

    def translation(step: Step) -> Nest:
        step.count(1)
        (whole,) = step.operands
        leaves = leaves_of(step.builder, whole)
        results = [step.builder.apply(operation, [leaf])[0] for leaf in leaves]
        return nest_of(shape_of_nest(whole), iter(results))

    return entry(translation, names)


def _optimization_barrier(step: Step) -> Nest:
    step.count(1)
    (whole,) = step.operands
    leaves = leaves_of(step.builder, whole)
    results = step.builder.apply(REGISTRY["OptimizationBarrier"], leaves)
    return nest_of(shape_of_nest(whole), iter(results))


def _add_dependency(step: Step) -> Nest:
    step.count(2)
    whole, token = step.operands
    operation = REGISTRY["AddDependency"]
    (token,) = leaves_of(step.builder, token)[:1] or step.values[1:]
    leaves = leaves_of(step.builder, whole)
    results = [step.builder.apply(operation, [leaf, token])[0] for leaf in leaves]
    return nest_of(shape_of_nest(whole), iter(results))


_KIND = re.compile(r"\{kind=\"(\w+)\"", re.ASCII)


def _domain(step: Step) -> Nest:
    step.count(1)
    match = step.parsed("domain", _KIND.match, '{kind="sharding", entry={...}, exit={...}}')
    given = {"kind": match[1], "entry": _side(step, "entry"), "exit": _side(step, "exit")}
    (whole,) = step.operands
    results = [step.bind("Domain", leaf, **given) for leaf in leaves_of(step.builder, whole)]
    return nest_of(shape_of_nest(whole), iter(results))


def _side(step: Step, name: str) -> str:
    """The sharding on one side of a domain."""
    attribute, source = step.instruction.attributes["domain"], step.module.text
    start = attribute.text.find(f"{name}={{")
    if start < 0:
        step.reject_attribute("domain", f"It says {name}={{...}}.")
    start += attribute.position + len(name) + 1
    return source.text[start : source.braces_end(start)]


#: By opcode.
OPERATIONS: dict[str, Entry] = {
    **_same_names(),
    **{name: _special(name) for name in ("acos", "acosh", "asin", "asinh", "atanh", "sinh")},
    "add-dependency": entry(_add_dependency),
    "after-all": _one("AfterAll"),
    "batch-norm-grad": _one("BatchNormGrad", _batch_norm, "epsilon feature_index"),
    "batch-norm-inference": _one("BatchNormInference", _batch_norm, "epsilon feature_index"),
    "batch-norm-training": _one("BatchNormTraining", _batch_norm, "epsilon feature_index"),
    "bitcast-convert": _one("BitcastConvertType", _converted),
    "broadcast": entry(_broadcast, "dimensions"),
    "cholesky": _one("Cholesky", lambda step: {"lower": step.flag("lower")}, "lower"),
    "clamp": _one("Clamp"),
    "compare": entry(_compare, "direction type"),
    "concatenate": _one("ConcatInDim", lambda step: {"dimension": step.dimension()}, "dimensions"),
    "constant": entry(_constant, reads=False),
    "convert": _one("ConvertElementType", _converted),
    "copy": by_leaf("Copy"),
    "domain": entry(_domain, "domain"),
    "dynamic-reshape": _one("DynamicReshape", _dynamic_reshape),
    "dynamic-slice": entry(_dynamic_slice, "dynamic_slice_sizes"),
    "dynamic-update-slice": entry(_dynamic_update_slice),
    "fft": _one("Fft", _fft, "fft_type fft_length"),
    "get-dimension-size": _one(
        "GetDimensionSize", lambda step: {"dimension": step.dimension()}, "dimensions"
    ),
    "get-tuple-element": entry(_get_tuple_element, "index"),
    "iota": _one("Iota", _iota, "iota_dimension"),
    "opt-barrier": entry(_optimization_barrier),
    "pad": _one("Pad", _pad, "padding"),
    "partition-id": _one("PartitionID", lambda step: {"output_shape": step.array}),
    "reduce-precision": _one("ReducePrecision", _reduce_precision, "exponent_bits mantissa_bits"),
    "replica-id": _one("ReplicaId"),
    "reshape": _one("Reshape", _reshape, "inferred_dimension"),
    "reverse": _one("Rev", _dimensions, "dimensions"),
    "rng": entry(_rng, "distribution"),
    "rng-bit-generator": entry(_rng_bit_generator, "algorithm"),
    "rng-get-and-update-state": _one(
        "RngGetAndUpdateState", lambda step: {"delta": step.integer("delta", 1)}, "delta"
    ),
    "select": _one("Select"),
    "set-dimension-size": _one("SetDimensionSize", _set_dimension_size, "dimensions"),
    "slice": _one("Slice", _slice, "slice"),
    "topk": _one("TopK", _top_k, "k largest"),
    "transpose": _one("Transpose", _permutation, "dimensions"),
    "triangular-solve": _one(
        "TriangularSolve", _triangular_solve, "left_side lower unit_diagonal transpose_a"
    ),
    "tuple": entry(_tuple),
}
