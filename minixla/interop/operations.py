"""The translation of each operation of StableHLO, by declaration or by a function here."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla import numpy as mnp
from minixla.core.attributes import written_fields
from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import TOKEN, Shape, TupleShape
from minixla.core.tracing import closed_graph, evaluate_graph
from minixla.interop.incomplete import translated_select
from minixla.interop.step import Step
from minixla.interop.values import element_of, literal_of
from minixla.transforms.vmap import vmap
from minixla_ops.collectives.collective_groups import ProcessLists
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.products.dot_dimensions import DotDimensionNumbers

#: Adds instructions to the graph under construction and returns the results.
Translation = Callable[[Step], Sequence[Value]]


def declared(
    name: str, more: Callable[[Step], dict[str, Any]] | None = None, **attributes: Any
) -> Translation:
    """Apply our operation to the same operands, and read its attributes as it declares them.

    `more` returns further attributes; `attributes` are always the same.
    """
    return lambda step: step.apply(name, **(more(step) if more is not None else {}), **attributes)


def _compare(step: Step) -> Sequence[Value]:
    direction = (step.choice("comparison_direction") or "EQ").capitalize()
    is_total = step.choice("compare_type") == "TOTALORDER"
    return step.apply(f"{direction}TotalOrder" if is_total else direction)


def _pad(step: Step) -> dict[str, Any]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return {"padding_config": tuple(zip(*[step.get(name) for name in names], strict=True))}


def _bitcast_convert(step: Step) -> Sequence[Value]:
    new = step.result.element_type
    (old,) = [shape.element_type for shape in step.shapes]
    if not new.is_complex or new is old:
        return step.apply("BitcastConvertType")

    def complex_bits(operand: Any) -> Any:
        # XLA lacks the bits of complex numbers: the real part comes before the imaginary one.
        parts = mnp.stack([ops.real(operand), ops.imag(operand)], -1)
        bits = ops.bitcast_convert_type(parts, new.real)
        return ops.complex(bits[..., 0], bits[..., 1])

    return step.inlined(complex_bits)


def _rng(step: Step) -> Sequence[Value]:
    is_uniform = step.choice("rng_distribution") == "UNIFORM"
    if step.operands[2].instruction is not None:
        step.builder.known(step.operands[2])
    return step.apply("RngUniform" if is_uniform else "RngNormal", step.operands[:2])


def _optimization_barrier(step: Step) -> Sequence[Value]:
    leaves = step.apply("OptimizationBarrier", step.builder.leaves(*step.operands))
    return step.builder.from_leaves(step.shapes, leaves)


def _einsum(step: Step) -> Sequence[Value]:
    config = step.get("einsum_config")
    # As in dot_general, products and sums have the declared type of the result.
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


def _fold(name: str, step: Step, **attributes: Any) -> Sequence[Value]:
    """Fold by one computation, which may be written for wider types than the operands'."""
    computation = step.region(0)
    operands = step.promoted(step.operands, computation.input_shapes)
    return step.apply(name, operands, computation=computation, **attributes)


def _select_and_scatter(step: Step) -> Sequence[Value]:
    select, scatter = step.region(0), step.region(1)
    operands, wide = step.promoted(step.operands, scatter.input_shapes), scatter.input_shapes[0]
    if any(shape is not wide for shape in select.input_shapes):
        narrow, types = select, [array_shape(shape).element_type for shape in select.input_shapes]

        def on_wide(*values: Any) -> Any:
            pairs = zip(values, types, strict=True)
            return evaluate_graph(narrow, [ops.convert_element_type(*pair) for pair in pairs])

        select = closed_graph(on_wide, [wide] * len(types), step.name, select.name)
    return step.apply("SelectAndScatter", operands, select=select, scatter=scatter)


def _scatter(step: Step) -> Sequence[Value]:
    computation = step.region(0)
    kinds, count = computation.input_shapes, len(computation.input_shapes) // 2
    shapes = [*kinds[:count], step.shapes[count], *kinds[count:]]
    operands = step.promoted(step.operands, shapes)
    return step.apply("Scatter", operands, update_computation=computation)


def _sort(step: Step) -> dict[str, Any]:
    dimension = step.get("dimension", -1)
    return {"dimension": dimension + step.shapes[0].rank * (dimension < 0)}


def _map(step: Step) -> Sequence[Value]:
    (body,), outer = step.regions()
    operands = [*step.operands, *outer]
    return step.apply("Map", operands, computation=body.graph(), static_count=len(outer))


def _while(step: Step) -> Sequence[Value]:
    (condition, body), outer = step.regions()
    # The loop passes on unchanged the outside values that the regions read.
    programs = {"condition": condition.graph(), "body": body.graph([*body.outputs, *body.captures])}
    return step.apply("While", [*step.operands, *outer], **programs)[: len(step.operands)]


def _conditional(step: Step) -> Sequence[Value]:
    bodies, outer = step.regions()
    branches = [body.graph() for body in bodies]
    return step.apply("Conditional", [step.operands[0], *outer], branches=branches)


def _scan(step: Step) -> dict[str, Any]:
    count, dimension = step.get("operandSegmentSizes")[0], step.get("dimension")
    if not count:
        step.reject("it has no inputs", "Its inputs determine the number of steps.")
    length = step.shapes[0].dimensions[dimension]
    return {"carries": len(step.operands) - count, "length": length, "scan_dimension": dimension}


def _numbers(step: Step, index: int, what: str) -> tuple[int, ...]:
    """Return the value of an operand that must be a constant."""
    array = step.builder.known(step.operands[index])
    if array is None:
        step.reject(
            f"{what}, operand {index}, is not a constant",
            "Sizes must be known when a program is read: export it for fixed shapes, or refine its "
            "shapes (jax.extend.mlir.refine_polymorphic_shapes).",
        )
    return tuple([int(number) for number in np.ravel(array)])


def _sizes(step: Step, index: int) -> tuple[int, ...]:
    """Return the sizes of the result: declared, or from an operand."""
    declared = step.operation.results[0].type
    if declared.has_static_shape:
        step.builder.known(step.operands[index])
        return tuple(declared.shape)
    return _numbers(step, index, "the result's shape")


def _dynamic_iota(step: Step) -> Sequence[Value]:
    shape = Shape(element_of(step.operation.results[0].type), _sizes(step, 0))
    return step.apply("Iota", (), output_shape=shape)


def _dynamic_reshape(step: Step) -> Sequence[Value]:
    operand, listed = step.operands
    shape = step.module.declared(step.operation.results[0].type)
    dynamic = any(isinstance(s, Shape) and s.is_dynamic for s in (shape, operand.shape))
    if not isinstance(shape, Shape) or not dynamic:
        return [step.bind("Reshape", operand, dimensions=_sizes(step, 1))]
    return step.apply("DynamicReshape", [operand, *_scalars(step, listed, shape.rank)])


def _scalars(step: Step, listed: Value, count: int) -> list[Value]:
    """Return the members of a vector of sizes, each as s32[]."""
    whole = listed.instruction
    if whole is not None and whole.op.name == "ConcatInDim":
        made = [operand.instruction for operand in whole.operands]
        parts = [
            step_made.operands[0]
            for step_made in made
            if step_made is not None and step_made.op.name == "Reshape"
        ]
        if len(parts) == count and all(part.shape is Shape("s32") for part in parts):
            step.builder.folded.update(map(id, [whole, *made]))
            return parts
    ones = [
        step.bind("Slice", listed, start_indices=(index,), limit_indices=(index + 1,))
        for index in range(count)
    ]
    return step.promoted([step.bind("Reshape", one, dimensions=()) for one in ones], [Shape("s32")])


def _dynamic_pad(step: Step) -> Sequence[Value]:
    names = ("the padding below", "the padding above", "the padding between")
    lists = [_numbers(step, index, name) for index, name in enumerate(names, 2)]
    config = tuple(zip(*lists, strict=True))
    return [step.bind("Pad", *step.operands[:2], padding_config=config)]


def _with_numbers(name: str, first: int, labels: Sequence[str], step: Step) -> Sequence[Value]:
    """Apply our operation with attributes from the last operands."""
    numbers = {label: _numbers(step, at, label) for at, label in enumerate(labels, first)}
    return step.apply(name, step.operands[:first], **numbers)


def _dynamic_convolution(step: Step) -> Sequence[Value]:
    numbers = _numbers(step, 2, "the padding")
    padding = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    return step.apply("ConvGeneralDilated", step.operands[:2], padding=padding)


_HOST_CHANNELS = (2, 3)


def _shards(step: Step, at: int, label: str) -> dict[str, Any]:
    """Return how many members' values a result holds, or how many share the operand."""
    shapes: Any = step.shapes[at], step.results[at]
    small, large = sorted([shape.dimensions[step.get(label)] for shape in shapes])
    groups = () if small else ProcessLists().read(step.written("replica_groups"))
    return {"shard_count": large // small if small else len(groups[0]) if groups else 1}


def _for_each(name: str, step: Step, joined: str = "") -> Sequence[Value]:
    """Apply one instruction to each operand; an attribute may name the dimension that it joins."""
    shards = [_shards(step, at, joined) if joined else {} for at in range(len(step.operands))]
    pairs = zip(step.operands, shards, strict=True)
    return [step.apply(name, [operand], **more)[0] for operand, more in pairs]


def _cross_replica_sum(step: Step) -> Sequence[Value]:
    scalars = [Shape(step.shapes[0].element_type)] * 2
    return step.apply("AllReduce", computation=closed_graph(ops.add, scalars, step.name, "add"))


def _infeed(step: Step) -> Sequence[Value]:
    *data, _ = step.results
    shape = data[0] if len(data) == 1 else TupleShape(data)
    item, token = step.apply("Infeed", output_shape=shape)
    if len(data) == 1:
        return [item, token]
    return [*[step.builder.member(item, index) for index in range(len(data))], token]


def _outfeed(step: Step) -> Sequence[Value]:
    *data, token = step.operands
    leaves = step.builder.leaves(*data)
    one = data[0].shape if len(data) == 1 else TupleShape([value.shape for value in data])
    return step.apply("Outfeed", [*leaves, token], shape_with_layout=one)


def _transfer(step: Step) -> dict[str, Any]:
    handle = written_fields(str(step.raw("channel_handle")))
    is_host = bool(step.get("is_host_transfer", False)) or handle["type"] in _HOST_CHANNELS
    return {"channel_id": max(handle["handle"], 1), "is_host_transfer": is_host}


_ONE_VALUE = "Our transfers move one array: send each array through its own channel."


def _send(step: Step) -> Sequence[Value]:
    if len(step.operands) != 2:
        step.reject(f"it sends {len(step.operands) - 1} values", _ONE_VALUE)
    transfer = _transfer(step)
    return [step.bind("SendDone", step.bind("Send", *step.operands, **transfer), **transfer)]


def _recv(step: Step) -> Sequence[Value]:
    *data, token = step.results
    if len(data) != 1 or token is not TOKEN:
        step.reject(f"it receives {len(data)} values", _ONE_VALUE)
    transfer = _transfer(step)
    context = step.bind("Recv", *step.operands, output_shape=data[0], **transfer)
    return step.apply("RecvDone", [context], **transfer)


#: Ours with several names, or with a name that StableHLO lacks or that others have too.
_NAMED = {
    "stablehlo.batch_norm_grad": "BatchNormGrad",
    "stablehlo.batch_norm_inference": "BatchNormInference",
    "stablehlo.batch_norm_training": "BatchNormTraining",
    "stablehlo.create_token": "AfterAll",
    "stablehlo.get_tuple_element": "GetTupleElement",
    "stablehlo.reshape": "Reshape",
}
_DECLARED = {
    f"stablehlo.{operation.stablehlo_name}": name
    for name, operation in REGISTRY.items()
    if operation.stablehlo_name is not None and "." not in name
}
_OWN = {name: declared(ours) for name, ours in (_DECLARED | _NAMED).items()}
#: Translations by StableHLO's name; a declared operation is listed only if it needs more.
TABLE: dict[str, Translation] = {
    **_OWN,
    "chlo.scan": declared("Scan", _scan),
    "stablehlo.all_gather": partial(_for_each, "AllGather", joined="all_gather_dim"),
    "stablehlo.all_reduce": partial(_fold, "AllReduce"),
    "stablehlo.all_to_all": partial(_for_each, "AllToAll"),
    "stablehlo.bitcast_convert": _bitcast_convert,
    "stablehlo.case": _conditional,
    # An omitted attribute is False in StableHLO, and True in XLA.
    "stablehlo.cholesky": declared("Cholesky", lambda step: {"lower": step.get("lower", False)}),
    "stablehlo.collective_broadcast": partial(_for_each, "CollectiveBroadcast"),
    "stablehlo.collective_permute": partial(_for_each, "CollectivePermute"),
    "stablehlo.compare": _compare,
    "stablehlo.constant": lambda step: [step.bind("Constant", literal=literal_of(step))],
    "stablehlo.cross-replica-sum": _cross_replica_sum,
    "stablehlo.dot": lambda step: step.apply(
        "DotGeneral", dimension_numbers=DotDimensionNumbers((step.shapes[0].rank - 1,), (0,))
    ),
    "stablehlo.dynamic_broadcast_in_dim": lambda step: step.apply(
        "BroadcastInDim", step.operands[:1], out_dim_size=_sizes(step, 1)
    ),
    "stablehlo.dynamic_conv": _dynamic_convolution,
    "stablehlo.dynamic_gather": partial(_with_numbers, "Gather", 2, ("slice_sizes",)),
    "stablehlo.dynamic_iota": _dynamic_iota,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.dynamic_reshape": _dynamic_reshape,
    "stablehlo.einsum": _einsum,
    "stablehlo.if": _conditional,
    "stablehlo.infeed": _infeed,
    "stablehlo.map": _map,
    "stablehlo.optimization_barrier": _optimization_barrier,
    "stablehlo.outfeed": _outfeed,
    "stablehlo.pad": declared("Pad", _pad),
    "stablehlo.real_dynamic_slice": partial(
        _with_numbers, "Slice", 1, ("start_indices", "limit_indices", "strides")
    ),
    "stablehlo.recv": _recv,
    "stablehlo.reduce": partial(_fold, "Reduce"),
    "stablehlo.reduce_scatter": lambda step: _fold(
        "ReduceScatter", step, **_shards(step, 0, "scatter_dimension")
    ),
    "stablehlo.reduce_window": partial(_fold, "ReduceWindow"),
    "stablehlo.rng": _rng,
    "stablehlo.rng_bit_generator": declared(
        "RngBitGenerator", lambda step: {"output_shape": step.results[1]}
    ),
    "stablehlo.scatter": _scatter,
    "stablehlo.select": translated_select,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.send": _send,
    "stablehlo.set_dimension_size": declared(
        "SetDimensionSize",
        lambda step: {"to_bound": not step.result.dynamic[step.get("dimension")]},
    ),
    "stablehlo.sort": declared("Sort", _sort),
    "stablehlo.torch_index_select": _torch_index_select,
    "stablehlo.unary_einsum": _einsum,
    "stablehlo.while": _while,
}
#: Operations of one line that become one instruction on the same operands, which the line gives.
SIMPLE = frozenset(
    [
        name
        for name, ours in (_DECLARED | _NAMED).items()
        if TABLE[name] is _OWN[name] and REGISTRY[ours].is_plain
    ]
) | {"stablehlo.compare", "stablehlo.constant", "stablehlo.reduce", "func.call", "call"}
