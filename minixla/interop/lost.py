"""Attributes of imported programs that graphs do not hold, and the warning that names them.

Such attributes control how XLA runs a program (frontend attributes, donated buffers, memory kinds),
not what it computes. An attribute of an operation is lost if its translation never reads it.
"""

import re
from collections.abc import Iterable
from typing import Any

from jax.extend.mlir import ir

from minixla.core.source import warn
from minixla.interop.step import Step

#: Descriptions, layouts, and attributes that other parts of the import read.
_HARMLESS = frozenset(
    [
        *("xla_shape", "result_layout", "operand_layouts", "result_layouts", "layout"),
        *("resultSegmentSizes", "operandSegmentSizes", "value", "sharding", "callee"),
        "decomposition",  # a registered operation is imported in place of its decomposition
        *("sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs"),
        *("mhlo.sharding", "mhlo.num_partitions", "mhlo.num_replicas", "mhlo.is_dynamic"),
        *("mhlo.use_auto_spmd_partitioning", "mhlo.original_value"),
        *("jax.result_info", "jax.arg_info", "jax.global_constant", "jax.token"),
        *("jax.uses_shape_polymorphism", "tf.versions", "tf.entry_function"),
        *("tf._input_shapes", "tf._user_specified_name", "tf._original_func_name"),
    ]
)
_HARMLESS_BEGINNINGS = "sdy.", "xla.sdy.", "minixla.", "tf_saved_model.", "mhlo.xla_entry_"
#: Attributes of custom calls that are redundant once the target is translated.
_OF_CALLS = frozenset(["api_version", "backend_config", "call_target_name", "has_side_effect"])
#: Keys of frontend attributes that other parts of the import read, or that XLA writes itself.
_FRONTEND = "mhlo.frontend_attributes"
_HARMLESS_KEYS = re.compile(
    r"xla\.sdy\.\w+|composite\.\w+|inlineable|xla_cpu_small_call|num_batch_dims", re.ASCII
)
#: The text of attributes without content.
_EMPTY = ("[]", '""', "{}", "false", '"default"')
_PLACE = re.compile(r'"([^"]*)":(\d+):(\d+)')
_MOST_SHOWN = 20
_ADVICE = (
    "They tell XLA how to run the program, not what it computes. "
    "Remove them from the program to read it without this warning."
)


class Lost:
    """The attributes of one module that its graphs do not hold, in program order."""

    def __init__(self) -> None:
        #: The first location of each attribute, for each type of owner.
        self._places: dict[tuple[str, str], str] = {}

    def of_module(self, module: Any) -> None:
        """Note the attributes of a module."""
        attributes = module.operation.attributes
        self._note(attributes, attributes, "the module", None)

    def of_function(self, name: str, function: Any) -> None:
        """Note the attributes of a function, its arguments and its results."""
        attributes = function.attributes
        self._note(attributes, attributes, f"function @{name}", function.location)
        for key, what in {"arg_attrs": "argument", "res_attrs": "result"}.items():
            for index, dictionary in enumerate(attributes.get(key, ())):
                names = [pair.name for pair in dictionary]
                self._note(names, dictionary, f"{what} {index} of @{name}", function.location)

    def of_step(self, step: Step) -> None:
        """Note the attributes of an operation that its translation has not read."""
        attributes = step.operation.attributes
        if len(attributes):
            harmless = _OF_CALLS if "call_target_name" in attributes else ()
            unread = [name for name in attributes if name not in step.read and name not in harmless]
            self._note(unread, attributes, step.operation.name, step.operation.location)

    def _note(self, names: Iterable[str], attributes: Any, owner: str, location: Any) -> None:
        for name in names:
            label = _label(name, attributes)
            if label is not None:
                self._places.setdefault((label, owner), _place(location))

    def of_frontend(self, keys: Iterable[str], owner: str, line: int) -> None:
        """Note the frontend attributes of an HLO instruction in a line."""
        kept = [key for key in keys if not _HARMLESS_KEYS.fullmatch(key)]
        if kept:
            label = f"frontend_attributes ({', '.join(kept)})"[:200]
            self._places.setdefault((label, owner), f" (line {line})")

    def warn(self, subject: str) -> None:
        """Warn at the caller's line if there are any; `subject` names the importing function."""
        if not self._places:
            return
        details = [f"{label} of {owner}{place}" for (label, owner), place in self._places.items()]
        rest = f"; and {len(details) - _MOST_SHOWN} others" if len(details) > _MOST_SHOWN else ""
        listed = "; ".join(details[:_MOST_SHOWN])
        warn(f"{subject}: the graph does not hold {listed}{rest}. {_ADVICE}")


def _label(name: str, attributes: Any) -> str | None:
    """Return the name of a lost attribute for the warning; None if nothing is lost."""
    if name in _HARMLESS or name.startswith(_HARMLESS_BEGINNINGS):
        return None
    try:
        attribute = attributes[name]
        text = str(attribute)
    except TypeError:  # Python's interface to MLIR has no class for complex numbers
        return name[:200]
    if name == _FRONTEND and isinstance(attribute, ir.DictAttr):
        keys = [entry.name for entry in attribute if not _HARMLESS_KEYS.fullmatch(entry.name)]
        return f"{name} ({', '.join(keys)})"[:200] if keys else None
    return None if text in _EMPTY else name[:200]


def _place(location: Any) -> str:
    """Return the line of a location for messages; empty if it has no line."""
    match = _PLACE.search(str(location))
    if match is None:
        return ""
    file = "" if match[1] == "-" else f"{match[1]}, "
    return f" ({file}line {match[2]})"
