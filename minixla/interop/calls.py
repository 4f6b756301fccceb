"""Calls in StableHLO: of functions of the module, of composites, of external code."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from jax.extend.mlir import ir

from minixla.core.element_types import BY_STABLEHLO
from minixla.core.errors import MinixlaError
from minixla.core.graph import Value
from minixla.core.operation import REGISTRY
from minixla.core.sharding_rule import ShardingRule
from minixla.extension import stored
from minixla.interop.operations import Translation
from minixla.interop.sdy import RULE, SHARDING
from minixla.interop.shardings import PLACEMENTS
from minixla.interop.step import Step
from minixla.interop.values import named, plain
from minixla_ops.helpers.tuple_operations import leaf_shapes, without_tuples
from minixla_ops.host.lapack import LapackCall, column_major, with_layouts
from minixla_ops.host.targets import meaning

#: Custom calls that correspond to an operation, by their names in portable artifacts.
_OPERATIONS = {"mhlo.topk": "TopK"}


def foreign_call(step: Step) -> Sequence[Value]:
    """Translate a custom call by its target, or keep the call if the target is unknown.

    As in HLO, members of tuples among operands and results are separate values.
    """
    version, options = _config(step)
    shapes = [leaf for shape in step.results for leaf in leaf_shapes(shape)]
    step.operands = step.builder.leaves(*step.operands)
    call: Any = step.record("CustomCall", shapes=shapes, options=options, api_version=version)
    programs = step.module.called(step)
    laid_out = with_layouts(call, step.shapes, step.module.is_hlo)
    # With other layouts, LAPACK routines would get transposed matrices.
    is_other = column_major(call.target_name, step.shapes) and type(laid_out) is not LapackCall
    function = None if is_other else meaning(call, step.shapes, programs)
    if function is not None or type(laid_out) is LapackCall or programs:
        step.read |= {"output_operand_aliases", "called_computations"}
    if function is not None:
        return step.inlined(function)
    if programs and not step.module.is_hlo:
        problem = f"the target {call.target_name!r} calls functions of the program"
        step.reject(problem, "Such calls are not supported.")
    if programs:  # their names are lost, so nothing may treat it as a plain call
        names = ", ".join([f"%{program.name}" for program in programs])
        laid_out = laid_out.replace(options={**options, "called_computations": f"{{{names}}}"})
    call = laid_out
    placed, shardings = step.raw(SHARDING), step.module.shardings
    if placed is not None and not step.results and shardings is not None:
        call = call.replace(out_shardings=shardings.several(placed))
    stated = step.raw(RULE)
    if stated is not None:
        call = call.replace(stated_rule=ShardingRule.parse(str(stated)))
    return step.builder.apply(call, step.operands)


def _call(name: str, label: str, step: Step) -> Sequence[Value]:
    """Call the function that an attribute names; tuples are passed as their members."""
    graph = step.module.function(step.get(label), step)
    leaves = step.builder.leaves(*step.operands)
    results = step.apply(name, leaves, computation=without_tuples(graph))
    return step.builder.from_leaves(graph.output_shapes, results)


def _custom_call(step: Step) -> Sequence[Value]:
    target = step.get("call_target_name")
    if target.startswith(PLACEMENTS) and step.results == step.shapes:
        return step.operands
    if target in _OPERATIONS:
        operation = REGISTRY[_OPERATIONS[target]]
        attributes = _options(step, step.raw("mhlo.attributes") or ())
        step.read.add("mhlo.version")
        return step.builder.apply(operation(**attributes), step.operands)
    function = step.module.translations.get(f"chlo.{target.removeprefix('mhlo.')}")
    if target.startswith("mhlo.") and function is not None and not step.raw("mhlo.attributes"):
        step.read |= {"mhlo.attributes", "mhlo.version"}
        return function(step)
    if "callback" in target and "python" in target:
        step.reject(
            f"the target {target!r} calls a Python function of another process",
            "It has no meaning in another program: remove pure_callback, io_callback and debug "
            "prints, or register a function with minixla_ops.register_custom_call and use "
            "minixla_ops.custom_call.",
        )
    config = _written_config(step)
    registered = _registered(step, target, _tree(config) if isinstance(config, ir.DictAttr) else {})
    return (
        step.builder.from_leaves(step.results, foreign_call(step))
        if registered is None
        else registered
    )


def _registered(
    step: Step, target: str, values: dict[str, Any], version: int = 0
) -> Sequence[Value] | None:
    """Return the results of a registered operation; None if the name is not registered."""
    version = values.pop(stored.VERSION, version)
    try:
        operation = stored.read_operation(target, version, values, step.shapes)
    except (TypeError, ValueError) as error:
        if isinstance(error, MinixlaError):
            raise
        step.reject(f"{target} {error}", "It was stored with another definition: see its package.")
    return None if operation is None else step.builder.apply(operation, step.operands)


def _tree(attribute: Any) -> Any:
    """Return an attribute, including dictionaries, as Python values."""
    if isinstance(attribute, ir.DictAttr):
        return {name: _tree(item) for name, item in named(attribute)}
    return plain(attribute)


def _composite(step: Step) -> Sequence[Value]:
    attributes = step.raw("composite_attributes")
    values = {} if attributes is None else _tree(attributes)
    registered = _registered(step, step.get("name"), values, step.get("version", 0))
    return _call("CompositeCall", "decomposition", step) if registered is None else registered


def _written_config(step: Step) -> Any:
    typed = step.raw("mhlo.backend_config")
    return step.raw("backend_config") if typed is None else typed


def _config(step: Step) -> tuple[int, dict[str, Any]]:
    """Return the version of XLA's interface, and the attributes that the code receives."""
    config = _written_config(step)
    if isinstance(config, ir.DictAttr):
        return 4, _options(step, config)
    text = plain(config) if config is not None else ""
    # 0 is XLA's API_VERSION_UNSPECIFIED, the first version.
    return step.get("api_version", 1) or 1, {"backend_config": text} if text else {}


# The element type in `5 : i32`, `dense<1> : tensor<3xf32>` and `array<i8: 1, 2>`.
_ELEMENT = re.compile(r"array<(\w+)|tensor<(\w+)>$|: (\w+)$")
_DIMENSION = re.compile(r"\d+x")


def _options(step: Step, dictionary: Any) -> dict[str, Any]:
    return {name: _option(step, name, item) for name, item in named(dictionary)}


def _option(step: Step, name: str, attribute: Any) -> Any:
    value = plain(attribute)
    if isinstance(value, (bool, str, bytes)):
        return value
    text = str(attribute)
    value = tuple(value.tolist()) if isinstance(value, np.ndarray) and value.ndim else value
    members = value if isinstance(value, tuple) else (value,)
    match, element = _ELEMENT.search(text), "f64" if float in map(type, members) else "i64"
    element = _DIMENSION.sub("", match[match.lastindex or 0]) if match else element
    if element not in BY_STABLEHLO or not all(isinstance(x, (bool, int, float)) for x in members):
        step.reject(
            f"attribute {name} = {text[:100]} is not a number, string or vector",
            "Custom calls accept numbers, strings and vectors of numbers.",
        )
    is_pythons = value is not members and element in ("i64", "f64")
    return value if is_pythons else (BY_STABLEHLO[element].dtype.name, value)


#: Translations by name.
CALLS: dict[str, Translation] = {
    "func.call": partial(_call, "Call", "callee"),
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
}
