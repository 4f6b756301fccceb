"""Instructions of HLO that XLA's translation drops, or that differ from StableHLO's.

Rows that begin with `hlo.` come as custom calls, or as operations with the same attributes; see
`engine.readers.hlo_protos`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla import numpy as mnp
from minixla.core.attributes import Literal
from minixla.core.graph import Graph, Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape, TupleShape
from minixla.core.tracing import closed_graph, evaluate_graph
from minixla.engine.readers.hlo_protos import ELIDED
from minixla.interop.calls import foreign_call
from minixla.interop.chlo import CHLO, decomposition
from minixla.interop.operations import TABLE, Translation, declared
from minixla.interop.shardings import PLACEMENTS
from minixla.interop.step import Step
from minixla.interop.values import literal_of, named, plain
from minixla_ops.collectives.collective_groups import ProcessLists
from minixla_ops.dump_only.tiled_bitcasts import tiled_bitcast
from minixla_ops.products.dot_dimensions import DotDimensionNumbers
from minixla_ops.products.ragged_dot import RaggedDotDimensionNumbers
from minixla_ops.programs.runs_programs import own_inputs


def _by_leaf(name: str, step: Step, **attributes: Any) -> Sequence[Value]:
    """Apply an identity with one instruction for each leaf of the first operand."""
    whole, *others = step.operands
    leaves = step.builder.leaves(whole)
    return [step.apply(name, [leaf, *others], **attributes)[0] for leaf in leaves]


def _call(step: Step) -> Sequence[Value]:
    details = step.module.details
    fields = details.get("frontend_attributes", {}) if details.get("is_composite") else {}
    name, version = fields.get("composite.name"), fields.get("composite.version", "0")
    if name is None or not version.isdecimal():
        return step.apply("Call")
    attributes = fields.get("composite.attributes", "{}")
    declared = {"composite_name": name, "composite_attributes": attributes, "version": int(version)}
    return step.apply("CompositeCall", **declared)


def _while(step: Step) -> Sequence[Value]:
    body, condition = step.module.called(step)
    return step.apply("While", condition=condition, body=body)


def _scan(step: Step) -> dict[str, Any]:
    details = step.module.details
    (dimension,) = details["dimensions"]
    first = step.operands[0].shape if len(step.operands) > details.get("carries", 0) else None
    if not isinstance(first, Shape) or not 0 <= dimension < first.rank:
        step.reject("it has no input along that dimension", "Inputs come before the carries.")
    return {
        "carries": 0,
        "length": first.dimensions[dimension],
        "scan_dimension": dimension,
        "is_associative": {0: False, 1: True}.get(details.get("associativity", 0)),
    }


def _conditional(step: Step) -> Sequence[Value]:
    index, *sections = step.operands
    branches = step.module.called(step)
    operands = []
    for number, (branch, section) in enumerate(zip(branches, sections, strict=True)):
        leaves = step.builder.leaves(section)
        shapes = [value.shape for value in leaves]
        if list(branch.input_shapes) != shapes:
            wanted = f"It takes ({', '.join(map(str, branch.input_shapes))})."
            step.reject(f"branch {number} is given ({', '.join(map(str, shapes))})", wanted)
        # As printed: unused tuples are gone, and so are readers of the operand.
        numbers, inputs = own_inputs(branch)
        operands.append((inputs, [leaves[number] for number in numbers]))
    # Our branches take all operands, so a value that several of them use is passed once.
    everything = list(dict.fromkeys([value for _, section in operands for value in section]))
    shapes = [value.shape for value in everything]

    def of_all(branch: Graph, section: Sequence[Value]) -> Graph:
        def chosen(*values: Any) -> Sequence[Any]:
            by_number = dict(zip(everything, values, strict=True))
            return evaluate_graph(branch, [by_number[number] for number in section])

        same = section == everything
        return branch if same else closed_graph(chosen, shapes, step.name, branch.name)

    programs = [of_all(branch, section) for branch, section in operands]
    return step.apply("Conditional", [index, *everything], branches=programs)


def _start(opcode: str, step: Step) -> Sequence[Value]:
    """Translate the start of a collective like the whole, and make it a start."""
    started = TABLE[f"stablehlo.{opcode.replace('-', '_')}"](step)
    if len(started) != 1:
        return started
    whole = step.builder.instructions.pop()
    start = REGISTRY[f"{whole.op.name}Start"]
    return step.builder.apply(start(**whole.op.values), whole.operands)


def _async_start(step: Step) -> Sequence[Value]:
    """Translate the start of a computation to ours, if that is sufficient."""
    builder, leaves = step.builder, step.builder.leaves(*step.operands)
    if len(step.region(0).outputs) == 1 and leaves == step.operands:
        return step.apply("AsyncStart")
    declared = step.results[0]
    assert isinstance(declared, TupleShape), "XLA's parser checks it"
    result = builder.from_leaves(declared.elements[1:2], step.apply("Call", leaves))
    return [builder.packed([builder.packed(step.operands), *result])]


def _copy_start(step: Step) -> Sequence[Value]:
    (whole,) = step.operands
    if isinstance(whole.shape, TupleShape):
        return [step.builder.packed([whole, whole])]
    return step.apply("CopyStart")


def _done(name: str, step: Step, member: int | None = None) -> Sequence[Value]:
    """Translate a second half: of one of our starts, or of one that was split."""
    (start,) = step.operands
    made = start.instruction
    if made is not None and made.op.name.endswith(("Start", "Update")):
        return step.apply(name)
    return [start if member is None else step.builder.member(start, member)]


def _dynamic(name: str, count: int, step: Step, **attributes: Any) -> Sequence[Value]:
    """Translate a dynamic slice of `count` arrays; older programs have all starts in a vector."""
    operands = step.operands
    if [shape.rank for shape in step.shapes[count:]] == [1]:
        operands = step.inlined(lambda *values: [*values[:count], *values[count]])
    return step.apply(name, operands, **attributes)


def _bitcast(step: Step) -> Sequence[Value]:
    """Reinterpret the bytes of the operand as an array of another shape or layout."""
    (operand,), result, layouts = step.shapes, step.result, step.module.details["layouts"]
    if not isinstance(operand, Shape):
        step.reject(f"its operand is {operand}", "It takes an array.")
    if any(layout and layout[1] for layout in layouts):
        try:
            return step.inlined(tiled_bitcast(operand, result, layouts))
        except ValueError as error:
            step.reject(str(error), "Both arrays must use the same memory, and be static.")
    orders = [
        None if layout is None or sorted(layout[0], reverse=True) == layout[0] else tuple(layout[0])
        for layout in layouts
    ]
    attributes = {"output_shape": result, "operand_layout": orders[0], "result_layout": orders[1]}
    return [step.bind("Bitcast", *step.operands, **attributes)]


def _broadcast(step: Step) -> Sequence[Value]:
    (shape,), sizes = step.shapes, step.result.dimensions
    dimensions = tuple(step.get("broadcast_dimensions", ()))
    if [sizes[at] for at in dimensions] != list(shape.dimensions):
        step.reject(
            f"dimensions {list(dimensions)} of {step.result} have other sizes than {shape}",
            "HLO's broadcast adds dimensions and does not stretch them.",
        )
    return TABLE["stablehlo.broadcast_in_dim"](step)


def _product(step: Step) -> dict[str, Any]:
    """Return the attributes of a product whose dimension numbers are outside of the program."""
    details = step.module.details
    dot, *ragged = details["ragged_dot"] if "ragged_dot" in details else [details["dot"]]
    numbers: Any = DotDimensionNumbers(*map(tuple, dot))
    if ragged:
        numbers = RaggedDotDimensionNumbers(numbers, *map(tuple, ragged))
    return {"dimension_numbers": numbers}


def _default(name: str, step: Step) -> Sequence[Value]:
    """Translate a product, and drop its precision if that is the default."""
    if "HIGH" not in str(step.raw("precision_config")):
        del step.operation.attributes["precision_config"]
    return TABLE[name](step)


def _scaled_dot(step: Step) -> Sequence[Value]:
    """Translate a scaled product; HLO has both scales last, ours each after its operand."""
    lhs, rhs, lhs_scale, rhs_scale = step.operands
    return step.apply("ScaledDot", [lhs, lhs_scale, rhs, rhs_scale], **_product(step))


def _mulhi(step: Step) -> Sequence[Value]:
    """Return the upper half of the bits of a product."""
    graph = decomposition("chlo.mulhi", tuple(step.shapes), tuple(step.results), "")
    return step.builder.inline(graph, step.operands)


def _stochastic_convert(step: Step) -> Sequence[Value]:
    """Convert floats to integers; round away from zero if random bits are below the fraction."""
    (operand, random), kind = step.shapes, step.result.element_type
    types = operand.element_type, random.element_type
    wanted = types[0].is_float, types[1].kind, kind.kind, types[1].bits
    if wanted != (True, "unsigned", "signed", types[0].bits):
        step.reject(
            f"{operand} and {random} do not convert to {step.result}",
            "It takes floats and random unsigned integers of as many bits, and returns signed.",
        )
    low, high = -(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1
    # In two exact steps: for f16 the whole power is out of range.
    half = 2.0 ** (types[0].bits // 2)

    def rounded(x: Any, bits: Any) -> Any:
        size = ops.abs(x)
        whole = ops.convert_element_type(size, kind)
        fraction = size - ops.convert_element_type(whole, types[0])
        up = ops.lt(bits, ops.convert_element_type(fraction * half * half, types[1]))
        rounded_value = whole + ops.convert_element_type(up, kind)
        rounded_value = mnp.where(x < 0, -rounded_value, rounded_value)
        rounded_value = mnp.where(x < high, rounded_value, high)
        rounded_value = mnp.where(x > low, rounded_value, low)
        return mnp.where(x == x, rounded_value, 0)

    return step.inlined(rounded)


def _all_to_all(step: Step) -> Sequence[Value]:
    """Send operand i to device i of the group; result i comes from device i."""
    if len({value.shape for value in step.operands}) != 1:
        step.reject("its operands are not of one shape", "Pass an array for each member.")
    attributes = {"split_dimension": 0, "concat_dimension": 0, "split_count": len(step.operands)}
    exchange = step.record("AllToAll", **attributes)
    return step.inlined(lambda *operands: [*exchange(mnp.stack(operands))])


def _ragged_all_to_all(step: Step) -> Sequence[Value]:
    """Translate it; HLO has both arrays first, ours has the output after the sent values."""
    rows, output, starts, sizes, places, counts = step.operands
    config = {name: plain(attribute) for name, attribute in named(step.raw("backend_config") or ())}
    groups = ProcessLists().read(config.get("replica_groups", np.empty(0)))
    attributes = {"replica_groups": groups, "channel_id": config.get("channel_id")}
    operands = [rows, starts, sizes, output, places, counts]
    return step.apply("RaggedAllToAll", operands, **attributes)


def _constant(step: Step) -> Sequence[Value]:
    """Return a constant with all numbers, as HLO writes it, even if they are equal."""
    literal = literal_of(step)
    if literal.is_splat and step.result.rank:
        literal = Literal(np.array(literal.array), step.result)
    return [step.bind("Constant", literal=literal)]


def _domain(step: Step) -> Sequence[Value]:
    sides = {name: step.get(f"{name}_metadata") or "{}" for name in ("entry", "exit")}
    return _by_leaf("Domain", step, kind=step.choice("kind"), **sides)


def _received(step: Step) -> dict[str, Any]:
    declared = step.results[0]
    if not isinstance(declared, TupleShape) or not declared.elements:
        step.reject(f"its result is {declared}", "It returns data, a context and a token.")
    return {"output_shape": declared.elements[0]}


#: Custom calls that place values in memory, besides shardings: they return their operand.
_MOVES = ("LayoutConstraint", "MoveToDevice", "MoveToHost", "Pin", "Unpin")
#: Targets that XLA's translation and our edits insert.
_TARGETS = {
    ELIDED: declared("ElidedConstant", lambda step: step.module.place),
    "ragged_all_to_all": _ragged_all_to_all,
}


def _custom_call(step: Step) -> Sequence[Value]:
    target = step.get("call_target_name")
    if target in _TARGETS:
        return _TARGETS[target](step)
    if target.startswith((*PLACEMENTS, *_MOVES)) and step.results == step.shapes:
        return step.operands
    return foreign_call(step)


#: Opcodes that come as another one with the same attributes, and their translations.
_SAME = {
    "erf": ("tanh", declared("Erf")),
    **{
        f"{opcode}-start": (opcode, partial(_start, opcode))
        for opcode in ("all-gather", "all-reduce", "collective-permute")
    },
}
#: Translations by MLIR's operation, or by the opcode that another operation replaces.
HLO: dict[str, Translation] = {
    **{f"mhlo.{name.removeprefix('chlo.')}": CHLO[name] for name in CHLO},
    **{f"hlo.{opcode}": translation for opcode, (_, translation) in _SAME.items()},
    "func.call": _call,
    "hlo.add-dependency": partial(_by_leaf, "AddDependency"),
    "hlo.all-gather-done": partial(_done, "AllGatherDone"),
    "hlo.all-reduce-done": partial(_done, "AllReduceDone"),
    "hlo.async-done": partial(_done, "AsyncDone", member=1),
    "hlo.async-start": _async_start,
    "hlo.async-update": partial(_done, "AsyncUpdate"),
    "hlo.bitcast": _bitcast,
    "hlo.collective-permute-done": partial(_done, "CollectivePermuteDone"),
    "hlo.conditional": _conditional,
    "hlo.copy": partial(_by_leaf, "Copy"),
    "hlo.copy-done": partial(_done, "CopyDone", member=0),
    "hlo.copy-start": _copy_start,
    "hlo.dynamic-reshape": declared("DynamicReshape"),
    "hlo.dynamic-slice": partial(_dynamic, "DynamicSlice", 1, slice_sizes=()),
    "hlo.dynamic-update-slice": partial(_dynamic, "DynamicUpdateSlice", 2),
    "hlo.fusion": lambda step: step.apply("Fusion", step.builder.leaves(*step.operands)),
    "hlo.mulhi": _mulhi,
    "hlo.ragged-dot": declared("RaggedDot", _product),
    "hlo.recv": declared("Recv", _received, channel_id=1),
    "hlo.recv-done": declared("RecvDone", channel_id=1),
    "hlo.scaled-dot": _scaled_dot,
    "hlo.scan": declared("Scan", _scan),
    "hlo.send": declared("Send", channel_id=1),
    "hlo.send-done": declared("SendDone", channel_id=1),
    "mhlo.all_to_all": _all_to_all,
    "mhlo.domain": _domain,
    "mhlo.stochastic_convert": _stochastic_convert,
    "mhlo.topk": CHLO["chlo.top_k"],
    "mhlo.xla.rng_get_and_update_state": declared("RngGetAndUpdateState"),
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.constant": _constant,
    "stablehlo.convolution": partial(_default, "stablehlo.convolution"),
    "stablehlo.custom_call": _custom_call,
    "stablehlo.dot": partial(_default, "stablehlo.dot"),
    "stablehlo.dot_general": partial(_default, "stablehlo.dot_general"),
    "stablehlo.get_tuple_element": lambda step: [
        step.builder.member(step.operands[0], step.get("index"))
    ],
    "stablehlo.map": declared("Map"),
    "stablehlo.select": declared("Select"),
    "stablehlo.tuple": lambda step: [step.builder.packed(step.operands)],
    "stablehlo.while": _while,
}
#: The opcodes that replace others while MLIR reads a program.
STAND_INS = {
    "call": "call",
    **{name[4:]: "custom-call" for name in HLO if name.startswith("hlo.")},
    **{opcode: stand_in for opcode, (stand_in, _) in _SAME.items()},
}
