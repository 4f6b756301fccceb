"""Opcodes that run computations: folds, loops, branches, sorts, calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minixla.core.graph import Graph, Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import AnyShape, Shape
from minixla.interop.building import Builder
from minixla.interop.hlo import notation
from minixla.interop.hlo.operations import Entry, entry
from minixla.interop.hlo.products import window_fields
from minixla.interop.hlo.step import Nest, Step, leaves_of, shape_of_nest

__all__ = ["PROGRAMS"]


def _reduce(step: Step) -> Nest:
    given = {
        "computation": step.computation("to_apply"),
        "dimensions_to_reduce": step.integers("dimensions"),
    }
    return step.apply(REGISTRY["Reduce"], step.values, given)


def _window(step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
    """A window as attributes of ours: sizes, strides and padding, and dilations."""
    if not step.operands:
        step.reject("it has no operands", "Give arrays and initial values.")
    shape = step.values[0].shape
    fields = window_fields(step, shape.rank if isinstance(shape, Shape) else 0)
    if any(fields["rhs_reversal"]):
        step.reject_attribute("window", "Only windows of convolutions are reversed.")
    names = {"window_dimensions": "size", "window_strides": "stride", "padding": "pad"}
    dilations = {"base_dilations": "lhs_dilate", "window_dilations": "rhs_dilate"}
    plain, dilated = (
        {name: fields[field] for name, field in each.items()} for each in (names, dilations)
    )
    return plain, dilated


def _reduce_window(step: Step) -> Nest:
    plain, dilated = _window(step)
    given = {"computation": step.computation("to_apply"), **plain, **dilated}
    return step.apply(REGISTRY["ReduceWindow"], step.values, given)


def _select_and_scatter(step: Step) -> Nest:
    plain, dilated = _window(step)
    if any(each != 1 for sizes in dilated.values() for each in sizes):
        step.reject_attribute("window", "It has no dilations.")
    programs = {name: step.computation(name) for name in ("select", "scatter")}
    return step.apply(REGISTRY["SelectAndScatter"], step.values, {**programs, **plain})


def _sort(step: Step) -> Nest:
    given = {
        "comparator": step.computation("to_apply"),
        "dimension": step.dimension(),
        "is_stable": step.flag("is_stable"),
    }
    return step.apply(REGISTRY["Sort"], step.values, given)


def _map(step: Step) -> Nest:
    given = {
        "computation": step.computation("to_apply"),
        "dimensions": step.integers("dimensions"),
    }
    return step.apply(REGISTRY["Map"], step.values, given)


def _scan(step: Step) -> Nest:
    carries, dimension, values = step.integer("num_carries", 0), step.dimension(), step.values
    inputs = len(values) - carries
    first = values[0].shape if inputs > 0 else None
    if not isinstance(first, Shape) or not 0 <= dimension < first.rank:
        step.reject("it has no input along that dimension", "Inputs stand before the carries.")
    given = {
        "to_apply": step.computation("to_apply"),
        "carries": carries,
        "length": first.dimensions[dimension],
        "scan_dimension": dimension,
        "is_reverse": step.flag("is_reverse"),
        "is_associative": step.flag("is_associative") if step.has("is_associative") else None,
    }
    return step.apply(REGISTRY["Scan"], values, given)


def _while(step: Step) -> Nest:
    step.count(1)
    given = {name: step.computation(name) for name in ("condition", "body")}
    return step.apply(REGISTRY["While"], step.leaves, given)


def _conditional(step: Step) -> Nest:
    if step.has("branch_computations"):
        branches = step.computations("branch_computations")
    else:
        branches = [step.computation(f"{name}_computation") for name in ("true", "false")]
    step.count(len(branches) + 1)
    index, *sections = step.operands
    if type(index) is not Value:
        step.reject(f"operand 0 is {shape_of_nest(index)}", "It is a predicate or an index.")
    given = [leaves_of(step.builder, each) for each in sections]
    # Our branches take all operands; what several of them are given is there once.
    distinct = {id(value): value for section in given for value in section}
    everything = list(distinct.values())
    for number, (branch, section) in enumerate(zip(branches, given, strict=True)):
        shapes = [value.shape for value in section]
        if list(branch.input_shapes) != shapes:
            wanted = f"It takes ({', '.join(map(str, branch.input_shapes))})."
            step.reject(f"branch {number} is given ({', '.join(map(str, shapes))})", wanted)
    programs = [
        _of_all(branch, section, everything)
        for branch, section in zip(branches, given, strict=True)
    ]
    attributes = {"branches": tuple(programs)}
    return step.apply(REGISTRY["Conditional"], [index, *everything], attributes)


def _of_all(branch: Graph, section: Sequence[Value], everything: Sequence[Value]) -> Graph:
    """A branch as a program of all operands."""
    if [id(each) for each in section] == [id(each) for each in everything]:
        return branch
    builder = Builder()
    builder.inputs = [Value(value.shape, None, -1) for value in everything]
    own = {id(value): mine for value, mine in zip(everything, builder.inputs, strict=True)}
    outputs = builder.inline(branch, [own[id(value)] for value in section])
    return builder.graph(outputs, branch.name)


def flat_call(step: Step, op: str, computation: Graph, **attributes: Any) -> Nest:
    """A call of a computation, whose operands and results are flat."""
    leaves = step.leaves
    shapes: tuple[AnyShape, ...] = tuple([value.shape for value in leaves])
    if shapes != computation.input_shapes:
        wanted = f"It takes ({', '.join(map(str, computation.input_shapes))})."
        step.reject(f"{computation.name} is given ({', '.join(map(str, shapes))})", wanted)
    return step.apply(REGISTRY[op], leaves, {"computation": computation, **attributes})


def _call(step: Step) -> Nest:
    computation = step.computation("to_apply")
    if step.flag("is_composite"):
        fields = notation.strings(step.text("frontend_attributes", "{}"))
        name, version = fields.get("composite.name"), fields.get("composite.version", "0")
        if name is not None and version.isdecimal() and len(version) < 10:
            given = {
                "composite_name": name,
                "composite_attributes": _composite_attributes(step),
                "version": int(version),
            }
            return flat_call(step, "CompositeCall", computation, **given)
    return flat_call(step, "Call", computation)


def _composite_attributes(step: Step) -> str:
    """The dictionary of a composite, in MLIR's notation."""
    attribute = step.instruction.attributes["frontend_attributes"]
    label = "composite.attributes="
    start = attribute.text.find(label)
    if start < 0 or not attribute.text.startswith("{", start + len(label)):
        return "{}"
    at = attribute.position + start + len(label)
    source = step.module.text
    return source.text[at : source.braces_end(at)]


_KINDS = ("kLoop", "kInput", "kOutput", "kCustom")


def _fusion(step: Step) -> Nest:
    kind = step.choice("kind", *_KINDS, default="kLoop")
    return flat_call(step, "Fusion", step.computation("calls"), kind=kind)


#: By opcode.
PROGRAMS: dict[str, Entry] = {
    "call": entry(_call, "to_apply is_composite"),
    "conditional": entry(_conditional, "true_computation false_computation branch_computations"),
    "fusion": entry(_fusion, "kind calls output_to_operand_aliasing"),
    "map": entry(_map, "to_apply dimensions"),
    "reduce": entry(_reduce, "to_apply dimensions"),
    "reduce-window": entry(_reduce_window, "to_apply window"),
    "scan": entry(_scan, "to_apply dimensions num_carries is_reverse is_associative"),
    "select-and-scatter": entry(_select_and_scatter, "select scatter window"),
    "sort": entry(_sort, "to_apply dimensions is_stable"),
    "while": entry(_while, "condition body"),
}
