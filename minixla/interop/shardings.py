"""Annotations of imported programs that describe the distribution of values over devices.

They change only where a program computes. Shardy's are read (`interop/sdy.py`); a program for
several devices with other annotations raises an error unless the caller gives them up.
"""

import re
from typing import Any, Literal

from jax.extend.mlir import ir

from minixla.core.errors import ImportError_
from minixla.interop.refusals import located

#: How to treat annotations: `refuse` raises, `drop` removes them.
Shardings = Literal["refuse", "drop"]
#: `keep` keeps Shardy's, and raises for others.
ShardyToo = Literal["keep", "refuse", "drop"]
_ADVICE = (
    'Pass shardings="drop" to import the program without '
    "its shardings: it computes the same, on one device. Or write it for one device."
)
#: The bytecode or text of a program with annotations contains one of these.
_WORDS = (b"sdy", b"harding", b"annotate_device_placement", b"SPMD")
#: Prefixes of targets of custom calls that return their operand, placed somewhere.
PLACEMENTS = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
    "xla.sdy.",
)
# A mesh does not describe values; programs of one device among several raise an error later.
_SILENT = ("sdy.mesh", "sdy.manual_computation", "sdy.return")
_OF_ARGUMENTS = {"arg_attrs": "argument", "res_attrs": "result"}
_SHARDING = re.compile(r"\b(sdy\.\w*sharding\w*|mhlo\.sharding|xla\.sdy\.\w*sharding\w*)")


def refuse_shardings(module: Any, written: bytes, kept: str = "none") -> None:
    """Raise ImportError_ at the first annotation of an MLIR module for several devices.

    `written` is its text or bytecode. Annotations that begin with `kept` are allowed.
    """
    # The number of devices for which JAX wrote the program.
    devices = module.operation.attributes.get("mhlo.num_partitions", None)
    is_for_one = isinstance(devices, ir.IntegerAttr) and devices.value == 1
    if is_for_one or not any(word in written for word in _WORDS):
        return
    refusals: list[ImportError_] = []

    def visit(operation: Any) -> Any:
        annotation = _annotation(operation)
        if annotation is None or annotation.startswith(kept):
            return ir.WalkResult.ADVANCE
        problem = f"{annotation} describes a distribution over devices, which would be lost"
        refusals.append(located(operation.location, problem, (), _ADVICE))
        return ir.WalkResult.INTERRUPT

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    if refusals:
        raise refusals[0]


def _text(attributes: Any, name: str) -> str:
    """Return the text of an attribute; empty if Python has no class for it."""
    try:
        return str(attributes[name])
    except TypeError:
        return ""


def _annotation(operation: Any) -> str | None:
    """Return in words what an operation states about devices; None if it states nothing."""
    name = operation.name
    if name in _SILENT:
        return None
    if name.startswith("sdy."):
        return name
    attributes = operation.attributes
    if name == "func.func":
        for key, what in _OF_ARGUMENTS.items():
            for index, dictionary in enumerate(attributes.get(key, ())):
                match = _SHARDING.search(str(dictionary))
                if match is not None:
                    function = ir.StringAttr(attributes["sym_name"]).value
                    return f"{match[1]} of {what} {index} of @{function}"
        return None
    if name == "stablehlo.custom_call":
        target = ir.StringAttr(attributes["call_target_name"]).value
        if target.startswith(PLACEMENTS):
            return f"custom_call @{target}"
    for label in attributes:
        match = _SHARDING.search(
            f"{label} {_text(attributes, label)}" if "frontend" in label else label
        )
        if match is not None:
            return f"{match[1]} of {name}"
    return None
