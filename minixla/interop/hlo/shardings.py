"""Shardings of HLO programs, by which devices hold different parts of values."""

from __future__ import annotations

import re

from minixla.interop.hlo.syntax import HloModule

__all__ = ["refuse_shardings"]

_ADVICE = (
    'Give shardings="drop" to import the program without '
    "them. Before XLA's partitioner a program computes the same on one device; after it, it is the "
    "part of each device."
)
# HLO does not always say for how many devices it is: these make no difference between devices.
_SAME_EVERYWHERE = re.compile(r"\{*(replicated|maximal device=0|manual)?\}*", re.ASCII)
_PARTITIONS = re.compile(r"HloModule[^\n]*\bnum_partitions=(\d+)", re.ASCII)


def refuse_shardings(module: HloModule) -> None:
    """Raises ImportError_ at the first sharding of a module that tells devices apart."""
    match = _PARTITIONS.search(module.text.text)
    is_partitioned = match is not None and match[1] != "1"
    for computation in module.computations.values():
        for each in computation.instructions:
            sharding = each.attributes.get("sharding")
            if sharding is None:
                continue
            if is_partitioned or not _SAME_EVERYWHERE.fullmatch(sharding.text):
                problem = (
                    f"{each.opcode}: sharding={sharding.text[:80]} says how values lie over "
                    "devices, which would be lost"
                )
                raise module.text.error(sharding.position, problem, (), _ADVICE)
