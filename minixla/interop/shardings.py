"""Annotations of imported programs that say how values lie over devices.

They do not change what a program computes, but where. Shardy's are read (`interop/sdy.py`); a
program for several devices that has others is refused unless the caller gives them up.
"""

import re
from typing import Any, Literal

from jax.extend.mlir import ir

from minixla.core.errors import ImportError_
from minixla.interop.refusals import located

#: What is done with annotations: `refuse` raises, `drop` leaves them out.
Shardings = Literal["refuse", "drop"]
#: `keep` keeps Shardy's, and raises at others.
ShardyToo = Literal["keep", "refuse", "drop"]
_ADVICE = (
    'Give shardings="drop" to import the program without '
    "its shardings: it computes the same, on one device. Or write it for one device."
)
#: One of these is in the bytecode or text of a program that has annotations.
_WORDS = (b"sdy", b"harding", b"annotate_device_placement", b"SPMD")
#: Targets of custom calls begin so that give their operand, somewhere.
PLACEMENTS = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
    "xla.sdy.",
)
# A mesh alone says nothing of values; programs of one device of several are refused later.
_SILENT = ("sdy.mesh", "sdy.manual_computation", "sdy.return")
_OF_ARGUMENTS = {"arg_attrs": "argument", "res_attrs": "result"}
_SHARDING = re.compile(r"\b(sdy\.\w*sharding\w*|mhlo\.sharding|xla\.sdy\.\w*sharding\w*)")


def refuse_shardings(module: Any, written: bytes, kept: str = "none") -> None:
    """Raises ImportError_ at the first annotation of an MLIR module for several devices.

    It was `written` so. Annotations that begin with `kept` are none.
    """
    # For how many devices JAX says that it wrote the program.
    devices = module.operation.attributes.get("mhlo.num_partitions", None)
    is_for_one = isinstance(devices, ir.IntegerAttr) and devices.value == 1
    if is_for_one or not any(word in written for word in _WORDS):
        return
    refusals: list[ImportError_] = []

    def visit(operation: Any) -> Any:
        annotation = _annotation(operation)
        if annotation is None or annotation.startswith(kept):
            return ir.WalkResult.ADVANCE
        problem = f"{annotation} says how values lie over devices, which would be lost"
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
    """What an operation says of devices, in words; None where it says nothing."""
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
