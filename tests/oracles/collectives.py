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
_MESH = re.compile(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}")

Groups = frozenset[frozenset[int]]


class Found(NamedTuple):
    """One collective: what it is, between whom, and the bytes that each device has after it."""

    kind: str
    groups: Groups
    bytes: int


def collectives_of(text: str, devices: int) -> list[Found]:
    """The collectives of a module of HLO after all of XLA's passes."""
    found = []
    for line in text.splitlines():
        match = _LINE.search(line)
        if match is None:
            continue
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


def _groups(line: str, devices: int) -> Groups:
    numbers = np.arange(devices)
    if match := _LISTED.search(line):
        rows = [_numbers(each) for each in re.findall(r"\{([\d,]+)\}", match[1])]
    elif match := _IOTA.search(line):
        sizes, grid, order = (_numbers(each or "") for each in match.groups())
        rows = numbers.reshape(grid).transpose(order or range(len(grid))).reshape(sizes).tolist()
    elif match := _MESH.search(line):
        names = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
        along = [list(names).index(each) for each in re.findall(r"'(\w+)'", match[2])]
        grid = numbers.reshape([int(each) for each in names.values()])
        grid = np.moveaxis(grid, along, range(-len(along), 0))
        rows = grid.reshape(-1, prod(grid.shape[-len(along) :])).tolist()
    else:
        rows = [numbers.tolist()]
    return frozenset(map(frozenset, rows))
