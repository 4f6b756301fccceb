"""Every opcode of HLO, and attributes that do not change what is computed."""

from __future__ import annotations

from minixla.interop.hlo.asynchronous import ASYNCHRONOUS
from minixla.interop.hlo.collectives import COLLECTIVES
from minixla.interop.hlo.composed import COMPOSED
from minixla.interop.hlo.custom_calls import CUSTOM_CALLS
from minixla.interop.hlo.layouts import LAYOUTS
from minixla.interop.hlo.operations import OPERATIONS, Entry
from minixla.interop.hlo.products import PRODUCTS
from minixla.interop.hlo.programs import PROGRAMS

__all__ = ["IGNORED", "OPCODES"]

#: How each opcode is read.
OPCODES: dict[str, Entry] = {
    **OPERATIONS,
    **PRODUCTS,
    **PROGRAMS,
    **COLLECTIVES,
    **ASYNCHRONOUS,
    **LAYOUTS,
    **CUSTOM_CALLS,
    **COMPOSED,
}

#: Attributes of any instruction that say nothing of its meaning.
IGNORED = frozenset(
    [
        "backend_config",
        "control-predecessors",
        "execution_thread",
        "frontend_attributes",
        "metadata",
        "origin",
        "original_value",
        "outer_dimension_partitions",
        "parameter_replication",
        "sharding",
        "statistics",
    ]
)
