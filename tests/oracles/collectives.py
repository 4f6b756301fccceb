"""The collectives of a program that XLA compiled: kinds, groups of devices, and bytes."""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from typing import NamedTuple

import numpy as np

KINDS = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter|collective-broadcast"
_LINE = re.compile(rf"= (.*?) ({KINDS}|ragged-all-to-all)(-start)?\((.*)$")
_ARRAY = re.compile(r"([a-z]+)(\d*)(?:e\d\w+)?\[([\d,]*)\]")
_LISTED = re.compile(r"(?:replica_groups|source_target_pairs)=(\{\{.*?\}\})")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_ORDER = r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))?"
_MESH = re.compile(rf"replica_groups=mesh\[(.*?)\]{_ORDER} \{{(.*?)\}}")
_PART = re.compile(r"channel_id=(\d+).*chain_id=")

Groups = frozenset[frozenset[int]]


class Found(NamedTuple):
    """One collective: what it is, between whom, and the bytes that each device has after it."""

    kind: str
    groups: Groups
    bytes: int


def collectives_of(text: str, devices: int) -> list[Found]:
    """The collectives of a module of HLO after all of XLA's passes."""
    found, parts = [], set()
    for line in text.splitlines():
        match = _LINE.search(line)
        if match is None:
            continue
        if part := _PART.search(line):  # XLA:TPU writes it into each fusion that runs meanwhile
            if part[1] in parts:
                continue
            parts.add(part[1])
        shapes, kind, start, _ = match.groups()
        arrays = [_bytes(*each) for each in _ARRAY.findall(shapes)]
        if start and kind != "all-reduce":
            # Operands, then results, then counters.
            arrays = arrays[1:2] if len(arrays) < 5 else arrays[len(arrays) // 2 :]
        found.append(Found(kind, _groups(line, devices), sum(arrays)))
    return found


def totals(found: list[Found]) -> Counter[tuple[str, Groups]]:
    """The bytes by kind and groups: XLA joins some, and sends some in several parts."""
    counts: Counter[tuple[str, Groups]] = Counter()
    for each in found:
        is_pairs = each.kind == "collective-permute"
        counts[each.kind, frozenset() if is_pairs else each.groups] += each.bytes
    return counts


def _bytes(kind: str, bits: str, sizes: str) -> int:
    return prod(_numbers(sizes)) * (1 if kind == "pred" else int(bits) // 8)


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def _ordered(devices: int, sizes: str | None, order: str | None) -> np.ndarray:
    """The devices' numbers, in a grid of `sizes` whose axes are then put into an order."""
    grid = np.arange(devices)
    if sizes:
        grid = grid.reshape(_numbers(sizes))
    return grid.transpose(_numbers(order)) if order else grid


def _groups(line: str, devices: int) -> Groups:
    if match := _LISTED.search(line):
        rows = [_numbers(each) for each in re.findall(r"\{([\d,]+)\}", match[1])]
    elif match := _IOTA.search(line):
        rows = _ordered(devices, match[2], match[3]).reshape(_numbers(match[1])).tolist()
    elif match := _MESH.search(line):
        axes, sizes, order, along = match.groups()
        names = dict(re.findall(r"'(\w+)'=(\d+)", axes))
        assert ":" not in along, f"parts of axes: {line}"
        at = [list(names).index(each) for each in re.findall(r"'(\w+)'", along)]
        grid = _ordered(devices, sizes, order).reshape([int(each) for each in names.values()])
        grid = np.moveaxis(grid, at, range(-len(at), 0))
        rows = grid.reshape(-1, prod(grid.shape[-len(at) :])).tolist()
    else:
        assert "replica_groups" not in line or "replica_groups={}" in line, line
        rows = [list(range(devices))]
    return frozenset(map(frozenset, rows))
