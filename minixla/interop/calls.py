"""Calls in StableHLO: of functions of the module, of composites, of code from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir import ir

from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.interop.operations import Translation
from minixla.interop.step import Step
from minixla.interop.values import plain

__all__ = ["CALLS"]

#: Custom calls that say where values shall lie: they give their operand.
_ANNOTATIONS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "MoveToHost", "MoveToDevice", "annotate_device_placement")  # fmt: skip
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
        "name": step.get("name"),
        "composite_attributes": str(attributes) if attributes is not None else "{}",
        "version": step.get("version", 0),
    }
    return step.builder.call(graph, step.operands, "CompositeCall", **given)


def _custom_call(step: Step) -> Sequence[Value]:
    target = step.get("call_target_name")
    if target in _ANNOTATIONS and step.results == step.shapes:
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
    if step.get("called_computations"):
        step.reject(
            f"the target {target!r} is given functions to call", "Such calls are not supported."
        )
    version = step.get("api_version", 1)
    config = step.raw("backend_config")
    if isinstance(config, ir.DictAttr):
        attributes = _options(step, config)
    else:
        text = plain(config) if config is not None else ""
        attributes = {"backend_config": text} if text else {}
    given = {
        "target_name": target,
        "shapes": tuple(step.results),
        "attributes": attributes,
        "has_side_effect": bool(step.get("has_side_effect", False)),
        "api_version": version,
    }
    leaves = [leaf for value in step.operands for leaf in step.builder.leaves(value)]
    return step.builder.apply(REGISTRY["CustomCall"], leaves, given)


_NUMPY = {"i1": "bool", "f16": "float16", "f32": "float32", "f64": "float64"}


def _options(step: Step, dictionary: Any) -> dict[str, Any]:
    """A dictionary attribute as custom calls take it."""
    if dictionary is None:
        return {}
    return {each.name: _option(step, each.name, each.attr) for each in dictionary}


def _option(step: Step, name: str, attribute: Any) -> Any:
    value = plain(attribute)
    if isinstance(value, (bool, str)):
        return value
    type_ = str(getattr(attribute, "type", ""))
    if isinstance(value, (int, float)):
        wide = {"i64": int, "f64": float}.get(type_)
        return wide(value) if wide else (_dtype(type_), value)
    element = type_.removeprefix("tensor<").rpartition("x")[2].rstrip(">")
    try:
        numbers = tuple([each for each in (value.tolist() if hasattr(value, "tolist") else value)])
        if all(isinstance(each, (bool, int, float)) for each in numbers):
            return _dtype(element), numbers
    except TypeError:
        pass
    step.reject(
        f"attribute {name} = {str(attribute)[:100]} is no number, string or vector",
        "Custom calls can be given numbers, strings and vectors of numbers.",
    )


def _dtype(element: str) -> str:
    known = _NUMPY.get(element)
    if known is not None:
        return known
    return element.replace("ui", "uint") if element.startswith("ui") else f"int{element[1:]}"


#: By name.
CALLS: dict[str, Translation] = {
    "func.call": _call,
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
}
