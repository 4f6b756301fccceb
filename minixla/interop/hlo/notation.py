"""Attributes' values in HLO's notation: lists, windows, slices, paddings, replica groups."""

from __future__ import annotations

import math
import re
from functools import lru_cache

import numpy as np

__all__ = [
    "integers",
    "lists",
    "number",
    "padding",
    "replica_groups",
    "slices",
    "string",
    "strings",
    "window",
]

# XLA counts in 64 bits; longer numbers are mistakes, and slow to read.
_INTEGER = r"-?\d{1,18}"
_NUMBER = re.compile(_INTEGER, re.ASCII)
_INTEGERS = re.compile(rf"\{{\s*(?:{_INTEGER}(?:\s*,\s*{_INTEGER})*+\s*)?\}}", re.ASCII)
_LISTS = re.compile(rf"\{{\s*(?:{_INTEGERS.pattern}\s*,?\s*)*+\}}", re.ASCII)
_SLICE = re.compile(r"\[\s*(\d{1,18})\s*:\s*(\d{1,18})\s*(?::\s*(\d{1,18})\s*)?\]", re.ASCII)
_SLICES = re.compile(rf"\{{\s*(?:{_SLICE.pattern}\s*,?\s*)*+\}}", re.ASCII)
_DIMENSION_PADDING = re.compile(rf"({_INTEGER})_({_INTEGER})(?:_({_INTEGER}))?", re.ASCII)
_WINDOW = re.compile(r"\{\s*(?:\w+=[\w\-]*\s*)*+\}", re.ASCII)
_WINDOW_FIELD = re.compile(r"(\w+)=([\w\-]*)", re.ASCII)
_FIELDS = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", re.ASCII)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_NAMED_STRING = re.compile(r'(?<![\w.])([\w.]++)\s*+=\s*+("(?:[^"\\]|\\.)*+")', re.ASCII)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}
_MOST_IN_GROUPS = 1 << 20

# Each gives None where the text is in another form. Few texts are met again and again.


@lru_cache(maxsize=4096)
def number(text: str) -> int | None:
    """`5`."""
    return int(text) if _NUMBER.fullmatch(text) else None


@lru_cache(maxsize=4096)
def integers(text: str) -> tuple[int, ...] | None:
    """`{1,0}`."""
    if _INTEGERS.fullmatch(text) is None:
        return None
    return tuple(map(int, _NUMBER.findall(text)))


@lru_cache(maxsize=4096)
def lists(text: str) -> tuple[tuple[int, ...], ...] | None:
    """`{{0,1},{2,3}}`."""
    if _LISTS.fullmatch(text) is None:
        return None
    found = _INTEGERS.findall(text[text.index("{") + 1 : -1])
    return tuple([tuple(map(int, _NUMBER.findall(each))) for each in found])


@lru_cache(maxsize=4096)
def slices(text: str) -> tuple[tuple[int, int, int], ...] | None:
    """`{[0:4:2],[1:3]}` as starts, limits and strides."""
    if _SLICES.fullmatch(text) is None:
        return None
    found = _SLICE.findall(text)
    return tuple([(int(start), int(limit), int(stride or 1)) for start, limit, stride in found])


@lru_cache(maxsize=4096)
def padding(text: str) -> tuple[tuple[int, int, int], ...] | None:
    """`0_1_2x3_4` as what is put before, behind and between the elements of each dimension."""
    found = [_DIMENSION_PADDING.fullmatch(each) for each in text.split("x")]
    rows = [(int(m[1]), int(m[2]), int(m[3] or 0)) for m in found if m is not None]
    return tuple(rows) if len(rows) == len(found) else None


@lru_cache(maxsize=4096)
def window(text: str) -> dict[str, tuple[tuple[int, ...], ...]] | None:
    """`{size=3x3 stride=2x2 pad=0_1x0_1}`: for each dimension one number, or a pair."""
    if _WINDOW.fullmatch(text) is None:
        return None
    found: dict[str, tuple[tuple[int, ...], ...]] = {}
    for name, value in _WINDOW_FIELD.findall(text):
        rows = [[number(each) for each in part.split("_")] for part in value.split("x") if value]
        width = 2 if name == "pad" else 1
        plain = tuple([tuple([n for n in row if n is not None]) for row in rows])
        if name not in _FIELDS or name in found or any(len(row) != width for row in plain):
            return None
        found[name] = plain
    return found


@lru_cache(maxsize=1024)
def replica_groups(text: str) -> tuple[tuple[int, ...], ...] | None:
    """`{{0,1},{2,3}}`, or `[2,2]<=[4]`: 0 to 3 in two rows, `T(1,0)` for a transposed array."""
    match = _IOTA.fullmatch(text)
    if match is None:
        return lists(text)
    try:
        sizes, source, order = (
            [int(each) for each in (part or "").split(",") if each] for part in match.groups()
        )
    except ValueError:  # a number of thousands of digits
        return None
    count = math.prod(sizes)
    order = order or list(range(len(source)))
    if (
        count != math.prod(source)
        or count > _MOST_IN_GROUPS
        or not sizes
        or len(source) > 32
        or sorted(order) != list(range(len(source)))
    ):
        return None
    rows = np.arange(count).reshape(source).transpose(order).reshape(-1, sizes[-1])
    return tuple([tuple(row) for row in rows.tolist()])


def string(text: str) -> str | None:
    """`"text"`, without its quotes and escapes."""
    match = _QUOTED.fullmatch(text)
    return None if match is None else _ESCAPE.sub(_unescaped, match[1])


def strings(text: str) -> dict[str, str]:
    """The strings by name in `{name="text" other="text"}`; other fields are left out."""
    return {name: string(value) or "" for name, value in _NAMED_STRING.findall(text)}


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x" and len(code) == 3:
        return chr(int(code[1:], 16))
    if code.isdigit():
        return chr(int(code, 8)) if all(each < "8" for each in code) else code
    return _LETTERS.get(code, code)
