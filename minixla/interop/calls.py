"""Calls in StableHLO: of functions of the module, of composites, of code from outside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir

from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.core.shapes import Shape
from minixla.interop.known_calls import ForeignCall, kept_call, known_call
from minixla.interop.operations import Translation
from minixla.interop.shardings import PLACEMENTS
from minixla.interop.step import Step
from minixla.interop.values import ELEMENTS, plain
from minixla_ops.vocabulary.tuple_operations import leaf_shapes

#: Custom calls with an operation of ours, by the name under which portable artifacts keep them.
_OPERATIONS = {"mhlo.topk": "TopK", "mhlo.erf": "Erf", "mhlo.cosh": "Cosh"}
_CALLBACK = "callback"


def _call(step: Step) -> Sequence[Value]:
    graph = step.module.function(step.get("callee"), step)
    return step.builder.call(graph, step.operands)


def _composite(step: Step) -> Sequence[Value]:
    graph = step.module.function(step.get("decomposition"), step)
    attributes = step.raw("composite_attributes")
    given = {
        "composite_name": step.get("name"),
        "composite_attributes": str(attributes) if attributes is not None else "{}",
        "version": step.get("version", 0),
    }
    return step.builder.call(graph, step.operands, "CompositeCall", **given)


def _custom_call(step: Step) -> Sequence[Value]:
    target = step.get("call_target_name")
    if target.startswith(PLACEMENTS) and step.results == step.shapes:
        return step.operands
    if target in _OPERATIONS:
        given = _options(step, step.raw("mhlo.attributes"))
        return step.builder.apply(REGISTRY[_OPERATIONS[target]], step.operands, given)
    if _CALLBACK in target and "python" in target:
        step.reject(
            f"the target {target!r} calls a Python function of the program's maker",
            "It means nothing in another program: leave pure_callback, io_callback and debug "
            "prints out, or register a function with minixla_ops.register_custom_call and use "
            "minixla_ops.custom_call.",
        )
    call, given = foreign_call(step)
    results = known_call(call)
    if results is None and call.computations:
        step.reject(
            f"the target {target!r} is given functions to call", "Such calls are not supported."
        )
    return packed(step, kept_call(call, given) if results is None else results)


def foreign_call(step: Step) -> tuple[ForeignCall, dict[str, Any]]:
    """A custom call, and the attributes that it has as an operation of ours."""
    version, attributes = _config(step)
    # As in HLO, the members of a tuple are results of their own.
    shapes = [leaf for shape in step.results for leaf in leaf_shapes(shape)]
    leaves = [leaf for value in step.operands for leaf in step.builder.leaves(value)]
    names = step.get("called_computations", ())
    computations = [step.module.function(name, step) for name in names]
    target = step.get("call_target_name")
    call = ForeignCall(target, step.builder, leaves, shapes, attributes, computations)
    given = {
        "options": attributes,
        "has_side_effect": bool(step.get("has_side_effect", False)),
        "api_version": version,
        "operand_layouts": _layouts(step, "operand_layouts", step.shapes),
        "result_layouts": _layouts(step, "result_layouts", shapes),
    }
    return call, given


def packed(step: Step, leaves: Iterable[Value]) -> Sequence[Value]:
    """Leaves as the results that an operation declares."""
    flat = iter(leaves)
    return [step.builder.from_leaves(shape, flat) for shape in step.results]


def _config(step: Step) -> tuple[int, dict[str, Any]]:
    """The version of XLA's interface, and the attributes that the code is given."""
    typed = step.raw("mhlo.backend_config")
    config = step.raw("backend_config") if typed is None else typed
    if isinstance(config, ir.DictAttr):
        return 4, _options(step, config)
    text = plain(config) if config is not None else ""
    return step.get("api_version", 1), {"backend_config": text} if text else {}


def _layouts(step: Step, name: str, shapes: Sequence[Any]) -> Any:
    """The layouts that it declares; None where they are row-major."""
    if not step.has(name):
        return None
    listed = [tuple(each.tolist()) for each in step.get(name)]
    ranks = [shape.rank if isinstance(shape, Shape) else 0 for shape in shapes]
    return None if listed == [tuple(range(rank))[::-1] for rank in ranks] else tuple(listed)


# The element type in `5 : i32`, `dense<1> : tensor<3xf32>` and `array<i8: 1, 2>`.
_ELEMENT = re.compile(r"array<(\w+)|tensor<(?:\d+x)*(\w+)>$|: (\w+)$")


def _options(step: Step, dictionary: Any) -> dict[str, Any]:
    """A dictionary attribute as custom calls take it."""
    if dictionary is None:
        return {}
    return {each.name: _option(step, each.name, each.attr) for each in dictionary}


def _option(step: Step, name: str, attribute: Any) -> Any:
    value, text = plain(attribute), str(attribute)
    if isinstance(value, (bool, str)):
        return value
    value = tuple(value.tolist()) if isinstance(value, np.ndarray) and value.ndim else value
    members = value if isinstance(value, tuple) else (value,)
    match, element = _ELEMENT.search(text), "f64" if float in map(type, members) else "i64"
    element = match[match.lastindex or 0] if match else element
    if element not in ELEMENTS or not all(isinstance(x, (bool, int, float)) for x in members):
        step.reject(
            f"attribute {name} = {text[:100]} is no number, string or vector",
            "Custom calls can be given numbers, strings and vectors of numbers.",
        )
    is_pythons = value is not members and element in ("i64", "f64")
    return value if is_pythons else (ELEMENTS[element].dtype.name, value)


#: By name.
CALLS: dict[str, Translation] = {
    "func.call": _call,
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
}
