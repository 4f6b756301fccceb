"""The halves of asynchronous operations in HLO.

XLA writes a start of any operation in short: `slice-start(...), slice={...}` is an `async-start`
of a computation that holds one slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minixla.core.graph import Graph, Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape, TupleShape
from minixla.interop.building import Builder
from minixla.interop.hlo.collectives import gathered, groups_of, permuted
from minixla.interop.hlo.operations import Entry, entry
from minixla.interop.hlo.step import Nest, Step, leaves_of, nest_of, nested, shape_of_nest
from minixla.interop.hlo.syntax import Instruction

__all__ = ["ASYNCHRONOUS", "asynchronous"]

_GROUPS = "channel_id replica_groups use_global_device_ids constrain_layout"
_THREAD = "async_execution_thread"


def asynchronous(opcode: str, known: Mapping[str, Entry]) -> Entry | None:
    """How `<opcode>-start`, `-update` or `-done` is read, if that is one of a known opcode."""
    for ending in ("-start", "-update", "-done"):
        whole = known.get(opcode.removesuffix(ending)) if opcode.endswith(ending) else None
        if whole is not None:
            if ending != "-start":
                second = known[f"async{ending}"]
                return second._replace(attributes=second.attributes | whole.attributes)
            return _start_of(opcode.removesuffix(ending), whole)
    return None


def _start_of(opcode: str, whole: Entry) -> Entry:
    """The start of one operation."""

    def translation(step: Step) -> Nest:
        declared = _declared(step)
        inner = Instruction(opcode, step.instruction.position, declared.elements[1], None)
        inner.opcode, inner.attributes = opcode, step.instruction.attributes
        builder = Builder()
        builder.source = step.builder.source
        operands: list[Nest] = []
        for each in step.operands:
            shape = shape_of_nest(each)
            leaves = [Value(leaf.shape, None, -1) for leaf in leaves_of(step.builder, each)]
            builder.inputs.extend(leaves)
            operands.append(nest_of(shape, iter(leaves)))
        nest = whole.translation(Step(inner, builder, step.module, operands, step.layouts))
        graph = builder.graph(leaves_of(builder, nest), opcode)
        return _started(step, graph, step.text(_THREAD, '"main"'))

    return Entry(translation, whole.attributes | {_THREAD}, loose=True)


def _declared(step: Step) -> TupleShape:
    """The declared shape of a start: operands, result and, on some backends, contexts."""
    declared = step.shape
    if not isinstance(declared, TupleShape) or len(declared.elements) < 2:
        step.reject(f"its result is {declared}", "It gives operands, result and contexts.")
    return declared


def _started(step: Step, computation: Graph, thread: str) -> Nest:
    """The start of a computation: one of ours, where that says it all."""
    leaves = step.leaves
    if len(computation.outputs) == 1 and all(type(each) is Value for each in step.operands):
        given = {"computation": computation, _THREAD: thread.strip('"')}
        return step.apply(REGISTRY["AsyncStart"], leaves, given)
    declared = _declared(step)
    results = step.builder.apply(REGISTRY["Call"], leaves, {"computation": computation})
    return (tuple(step.operands), nested(results, declared.elements[1]))


def _async_start(step: Step) -> Nest:
    return _started(step, step.computation("calls"), step.text(_THREAD, '"main"'))


def _done(name: str, member: int | None) -> Any:
    """A second half: of one of our starts, or of one that was taken apart."""
    operation = REGISTRY[name]

    def translation(step: Step) -> Nest:
        step.count(1)
        (start,) = step.operands
        if type(start) is Value:
            return step.apply(operation, [start])
        if member is None:
            return start
        if len(start) <= member:  # type: ignore[arg-type]  # a tuple
            step.reject("its operand is not what the start gives", "Give what the start gave.")
        return start[member]  # type: ignore[index]  # a tuple

    return translation


def _copy_start(step: Step) -> Nest:
    step.count(1)
    (whole,) = step.operands
    if type(whole) is Value:
        return step.apply(REGISTRY["CopyStart"], [whole])
    return (whole, whole)


def _all_gather_start(step: Step) -> Nest:
    declared = _declared(step)
    result = declared.elements[1]
    if len(step.operands) != 1 or not isinstance(result, Shape):
        shapes = result.elements if isinstance(result, TupleShape) else ()
        if len(shapes) != len(step.operands):
            step.reject(f"its result is {declared}", "It gives operands and results.")
        results = [
            step.bind("AllGather", value, **gathered(step, _large(step, each), index))
            for index, (value, each) in enumerate(zip(step.values, shapes, strict=True))
        ]
        return (tuple(step.operands), tuple(results))
    given = gathered(step, _large(step, result))
    return step.apply(REGISTRY["AllGatherStart"], step.values, given)


def _large(step: Step, shape: Any) -> int:
    """The size of the result along the dimension that is gathered."""
    (dimension,) = step.integers("dimensions")[:1] or (-1,)
    inside = isinstance(shape, Shape) and 0 <= dimension < shape.rank
    return shape.dimensions[dimension] if inside else 0


def _all_reduce_start(step: Step) -> Nest:
    given = {"computation": step.computation("to_apply"), **groups_of(step)}
    name = "AllReduceStart" if len(step.operands) == 1 else "AllReduce"
    return step.apply(REGISTRY[name], step.values, given)


def _collective_permute_start(step: Step) -> Nest:
    if len(step.operands) != 1 or step.has("slice_sizes"):
        step.reject(
            "it has several operands", "Passes make such programs late: dump an earlier one."
        )
    return step.apply(REGISTRY["CollectivePermuteStart"], step.values, permuted(step))


#: By opcode.
ASYNCHRONOUS: dict[str, Entry] = {
    "all-gather-done": entry(_done("AllGatherDone", 1)),
    "all-gather-start": entry(_all_gather_start, f"{_GROUPS} dimensions", loose=True),
    "all-reduce-done": entry(_done("AllReduceDone", None)),
    "all-reduce-start": entry(_all_reduce_start, f"{_GROUPS} to_apply"),
    "async-done": entry(_done("AsyncDone", 1), f"calls {_THREAD}"),
    "async-start": entry(_async_start, f"calls {_THREAD}", loose=True),
    "async-update": entry(_done("AsyncUpdate", None), f"calls {_THREAD}", loose=True),
    "collective-permute-done": entry(_done("CollectivePermuteDone", 1)),
    "collective-permute-start": entry(
        _collective_permute_start, "channel_id source_target_pairs slice_sizes", loose=True
    ),
    "copy-done": entry(_done("CopyDone", 0)),
    "copy-start": entry(_copy_start, "cross_program_prefetch_index", loose=True),
}
