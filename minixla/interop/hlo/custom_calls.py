"""Custom calls in HLO: those whose meaning is known, and others, which are kept as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.graph import Value
from minixla.core.shapes import AnyShape, Shape
from minixla.interop.hlo import notation
from minixla.interop.hlo.operations import Entry, entry
from minixla.interop.hlo.refused import ForeignCallback
from minixla.interop.hlo.step import Nest, Step, leaf_shapes, nest_of, shape_of_nest
from minixla.interop.hlo.syntax import layouts_in
from minixla.interop.known_calls import ForeignCall, kept_call, known_call

__all__ = ["CUSTOM_CALLS"]

#: Custom calls that say where values shall lie: they give their operand.
_ANNOTATIONS = frozenset(
    [
        "LayoutConstraint",
        "MoveToDevice",
        "MoveToHost",
        "Pin",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "Sharding",
        "Unpin",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
    ]
)
_VERSIONS = {
    "API_VERSION_ORIGINAL": 1,
    "API_VERSION_STATUS_RETURNING": 2,
    "API_VERSION_STATUS_RETURNING_UNIFIED": 3,
    "API_VERSION_TYPED_FFI": 4,
}
_OPTION = re.compile(
    r"\s*([\w.$]+)\s*=\s*(?:(true|false)|(\"(?:[^\"\\]|\\.)*+\")|(-?[\w.+\-]+)(?:\s*:\s*(\w+))?)\s*(,|$)",
    re.ASCII,
)
_TYPES = {
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "f32": "float32",
    "f64": "float64",
}


def _custom_call(step: Step) -> Nest:
    target = step.string("custom_call_target")
    if target in _ANNOTATIONS and len(step.operands) == 1:
        (whole,) = step.operands
        if shape_of_nest(whole) is step.shape:
            return whole
    options = _options(step)
    call = ForeignCall(
        target,
        step.builder,
        step.leaves,
        leaf_shapes(step.shape),
        options,
        step.computations("called_computations") if target == "ApproxTopK" else (),
    )
    found = known_call(call)
    if found is None:
        found = _kept(step, call)
    return nest_of(step.shape, iter(found))


def _kept(step: Step, call: ForeignCall) -> Sequence[Value]:
    """The call itself, which evaluates where somebody registers what it means."""
    version = _VERSIONS[step.choice("api_version", *_VERSIONS, default="API_VERSION_ORIGINAL")]
    options, config = call.options, step.text("backend_config", "")
    if options is None:
        text = notation.string(config)
        options = {"backend_config": config if text is None else text} if config else {}
    for name in ("called_computations", "to_apply"):
        if step.has(name):  # what the target runs is lost: none may take the call for a plain one
            options[name] = step.text(name)
    given = {
        "options": options,
        "has_side_effect": step.flag("custom_call_has_side_effect"),
        "api_version": version,
    }
    if step.has("operand_layout_constraints"):
        constraints = step.text("operand_layout_constraints")
        shapes = [value.shape for value in call.operands]
        given["operand_layouts"] = _layouts(step, constraints, shapes)
        given["result_layouts"] = _layouts(step, step.instruction.shape_text, call.results)
    if "python" in call.target and "callback" in call.target:
        attributes = {"target_name": call.target, "shapes": tuple(call.results), **given}
        return step.builder.apply(ForeignCallback.instance, call.operands, attributes)
    return kept_call(call, given)


def _layouts(step: Step, text: str, shapes: Sequence[AnyShape]) -> Any:
    """The layouts that a text has for values of these shapes; None where they are row-major."""
    ranks = [shape.rank if isinstance(shape, Shape) else 0 for shape in shapes]
    rows = [tuple(range(rank))[::-1] for rank in ranks]
    found = layouts_in(text)
    if len(found) != len(rows):
        step.reject(f"{len(found)} layouts for {len(rows)} values", "Give one for each value.")
    orders = [row if order is None else order for row, order in zip(rows, found, strict=True)]
    for row, order in zip(rows, orders, strict=True):
        if sorted(order) != sorted(row):
            step.reject(f"{order} is no layout", "A layout names each dimension once.")
    return None if orders == rows else tuple(orders)


def _options(step: Step) -> dict[str, Any] | None:
    """The numbers and strings of a typed configuration, `{uplo = 76 : ui8}`; None for others."""
    text = step.text("backend_config", "")
    if not text.startswith("{") or not text.endswith("}"):
        return None
    found: dict[str, Any] = {}
    body, position = text[1:-1].strip(), 0
    while position < len(body):
        match = _OPTION.match(body, position)
        if match is None:
            return None
        name, truth, quoted, digits, kind = match.groups()[:5]
        value: Any = truth == "true" if truth else notation.string(quoted) if quoted else None
        if digits:
            value = _number(digits, kind or "i64")
        if value is None:
            return None
        found[name] = value
        position = match.end()
    return found


def _number(digits: str, kind: str) -> Any:
    """A number as custom calls take it: the name of its type, and its value."""
    dtype = _TYPES.get(kind)
    if dtype is None or "_" in digits or len(digits) > 40:
        return None
    try:
        value = float(digits) if kind[0] == "f" else int(digits)
        np.dtype(dtype).type(value)
    except (ValueError, OverflowError):
        return None
    return {"i64": int, "f64": float}[kind](value) if kind in ("i64", "f64") else (dtype, value)


#: By opcode.
CUSTOM_CALLS: dict[str, Entry] = {
    "custom-call": entry(
        _custom_call,
        """custom_call_target api_version called_computations to_apply operand_layout_constraints
        output_to_operand_aliasing custom_call_has_side_effect custom_call_schedule
        has_side_effect schedule window dim_labels feature_group_count batch_group_count
        padding_type literal dimension""",
    )
}
