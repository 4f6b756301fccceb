"""HLO text into StableHLO that names, by number, the instructions that it comes from.

XLA's translation loses the names of instructions, and has nothing of some opcodes, or less than
they say. So XLA's own notation of a parsed program, a protocol buffer, is edited before it: each
instruction gets a number for its name, and opcodes of `_KEPT` become custom calls. What they said
stands in a table beside the program, by number.

XLA may end the process over wrong programs: only the process that reads them runs this, as a file,
without the package around it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]  # compiled, without stubs

#: The target of what stands for a constant whose numbers are left out.
_ELIDED = b"minixla.elided"
# Constants may lack their numbers, or, in older programs, have their shape again; and XLA reads the
# negative zeros that it writes as integers, which have no sign.
_CONSTANT = r"\bconstant\(\s*(?:(\{\.\.\.\})\s*\)|[a-z]\w*\[[\d,]*\](?:\{[\d,]*\})?\s*(?=[({\d-]))"
_ZERO = r"(?<=[({, ])(-0)(?=[)}, \n])"
_WRITTEN = re.compile(rf'"(?:[^"\\]|\\.)*+(?:"|\Z)|{_CONSTANT}|{_ZERO}|(\{{\.\.\.\}})')
# Most programs have none of these.
_SIGNS = [re.compile(each) for each in (r"constant\(\s*[a-z]", r"-0[)}, \n]", r"\{\.\.\.\}")]

# Protocol buffers: a message is a list of fields, each a number, a value and the bytes of both.
_Field = tuple[int, Any, bytes]
_BYTES = 2


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7


def _fields(data: bytes) -> list[_Field]:
    found, position, end = [], 0, len(data)
    while position < end:  # of most instructions some ten times
        start = position
        key, position = data[position], position + 1
        if key > 127:
            key, position = _varint(data, start)
        kind = key & 7
        if kind == 1 or kind == 5:  # a double or a float
            last = position + (8 if kind == 1 else 4)
            value: Any = data[position:last]
        else:
            value, last = data[position], position + 1
            if value > 127:
                value, last = _varint(data, position)
            if kind == _BYTES:
                position, last = last, last + value
                value = data[position:last]
        position = last
        found.append((key >> 3, value, data[start:position]))
    return found


def _message(data: bytes) -> dict[int, Any]:
    """The last value of each field."""
    return {number: value for number, value, _ in _fields(data)}


def _repeated(data: bytes, number: int) -> list[Any]:
    return [value for each, value, _ in _fields(data) if each == number]


def _numbers(data: bytes) -> list[int]:
    """A field that holds several numbers; those below 0 count from 2**64."""
    found, position = [], 0
    while position < len(data):
        value, position = _varint(data, position)
        found.append(value - (1 << 64) if value >> 63 else value)
    return found


def _encoded(value: int) -> bytes:
    if value < 128:
        return _SMALL[value]
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


_SMALL = [bytes([value]) for value in range(128)]


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _encoded(number << 3) + _encoded(value)
    data = value.encode() if isinstance(value, str) else value
    return _encoded(number << 3 | _BYTES) + _encoded(len(data)) + data


# Numbers of fields: of a module and of its computations, of instructions, and of shapes.
_COMPUTATION, _ENTRY, _FRAMES, _INSTRUCTION, _PROGRAM, _ROOT = 3, 6, 17, 2, 4, 6
_NAME, _OPCODE, _SHAPE, _METADATA, _LITERAL, _INDEX, _DIMENSIONS = 1, 2, 3, 7, 8, 13, 14
_TARGET_NAME, _ID, _OPERANDS, _CALLEES, _SHARDING, _CONFIG, _PRECISION = 28, 35, 36, 38, 40, 43, 51
_FRONTEND, _VERSION, _COMPOSITE, _GROUPS, _MESH = 68, 77, 89, 87, 93
_TYPE, _MEMBERS, _LAYOUT = 2, 4, 5
_TUPLE = 13


def translated(text: str) -> tuple[bytes, dict[str, Any]]:
    """The StableHLO of an HLO program, as MLIR's bytecode, and what stands beside it.

    Args:
        text: HLO, computations in front of those that call them.

    Returns:
        The bytecode, in which instructions are called `i` and a number (members of constants `i1.0`
        too), and functions `f.` and a number, but for the entry, `main`. And tables:
        `computations`, their names by number; `entry`, its number; `names`, `opcodes`, `owners`
        (the computation's number) and `sources` (an index, or -1) of instructions; `places`: file,
        name and line of each source; `callees` of instructions that have some; `details` of those
        of which a translation asks for more.

    Raises:
        RuntimeError: XLA refuses the program.
    """
    if any(each.search(text) for each in _SIGNS):
        text = _WRITTEN.sub(_rewritten, text)
    module = _hlo.hlo_module_from_text(text)
    edited = _Edited(module.as_serialized_hlo_module_proto())
    return _jax.mlir.hlo_to_stablehlo(edited.data), edited.tables


def _rewritten(match: re.Match[str]) -> str:
    if match[0][0] == '"':
        return match[0]
    if match[3]:  # which XLA fills with numbers of its own
        before = match.string[: match.start()]
        place = f"{before.count(chr(10)) + 1}:{match.start() - before.rfind(chr(10))}"
        raise RuntimeError(f"was parsing {place}: error: numbers are left out within a constant")
    if match[2]:
        return "-0.0"
    return f'custom-call(), custom_call_target="{_ELIDED.decode()}"' if match[1] else "constant("


class _Edited:
    """A program, edited.

    Attributes:
        data: XLA's protocol buffer.
        tables: see `translated`.
    """

    def __init__(self, data: bytes) -> None:
        module = _fields(data)
        computations = [_fields(value) for number, value, _ in module if number == _COMPUTATION]
        heads = [{number: value for number, value, _ in each} for each in computations]
        self._numbers = {head.get(5, 0): index for index, head in enumerate(heads)}
        entry = next((value for number, value, _ in module if number == _ENTRY), 0)
        self._frames = _frames(next((value for n, value, _ in module if n == _FRAMES), b""))
        self._known: dict[bytes, int] = {b"": -1}
        self._new = itertools.count()
        self.tables: dict[str, Any] = {
            "computations": [_text(head[_NAME]) for head in heads],
            "entry": self._numbers[entry],
            "callees": {},
            "details": {},
            **{name: [] for name in ("names", "opcodes", "owners", "sources", "places")},
        }
        self.programs: list[bytes] = []
        edited = [
            _field(_COMPUTATION, self._computation(index, each))
            for index, each in enumerate(computations)
        ]
        rest = [raw for number, _, raw in module if number not in (_COMPUTATION, _PROGRAM, _FRAMES)]
        rest.append(_field(_PROGRAM, self.programs[self._numbers[entry]]))
        self.data = b"".join([*rest, *edited])

    def _computation(self, index: int, fields: list[_Field]) -> bytes:
        # Of fusion computations and threads XLA's translation has no notion.
        parts = [
            raw for number, _, raw in fields if number not in (_NAME, _INSTRUCTION, _PROGRAM, 7, 8)
        ]
        instructions = [_fields(value) for number, value, _ in fields if number == _INSTRUCTION]
        by_id = {}
        for each in instructions:
            found = {number: value for number, value, _ in each}
            by_id[found.get(_ID, 0)] = found, each
        self._shapes = {key: found[_SHAPE] for key, (found, _) in by_id.items()}
        self._new = itertools.count(max(by_id, default=0) + 1)
        # Numbered as they stand in the text.
        for key in sorted(by_id):
            parts += self._instruction(*by_id[key])
        self.tables["owners"] += [index] * len(by_id)
        head = {number: value for number, value, _ in fields}
        root = by_id[head.get(_ROOT, 0)][0]
        self.programs.append(_program(head[_PROGRAM], root))
        parts.append(_field(_PROGRAM, self.programs[-1]))
        return _field(_NAME, f"f.{index}") + b"".join(parts)

    def _instruction(self, found: dict[int, Any], fields: list[_Field]) -> list[bytes]:
        tables = self.tables
        number, opcode = len(tables["names"]), found[_OPCODE].decode()
        is_elided = found.get(_TARGET_NAME) == _ELIDED
        tables["names"].append(_text(found[_NAME]))
        tables["opcodes"].append("constant" if is_elided else opcode)
        tables["sources"].append(self._source(found.get(_METADATA, b"")))
        if _CALLEES in found:
            ids = _numbers(found[_CALLEES])
            tables["callees"][number] = [self._numbers[each] for each in ids]
        details = _DETAILS.get(opcode)
        if details is not None:
            operands = [self._shapes[each] for each in _numbers(found.get(_OPERANDS, b""))]
            tables["details"][number] = details(found, operands)
        name = _field(_NAME, f"i{number}")
        if opcode in _KEPT or is_elided or _has_one_start(opcode, found):
            call = [(_OPCODE, "custom-call"), (_TARGET_NAME, "minixla"), (_VERSION, 1)]
            kept = [raw for each, _, raw in fields if each in (_SHAPE, _ID, _OPERANDS)]
            kept += [_field(*each) for each in call]
        elif opcode == "constant" and _is_tuple(found[_SHAPE]):
            return self._tuple(f"i{number}", found[_LITERAL], found[_ID])[0]
        elif opcode in _SINGLE and _is_tuple(found[_SHAPE]):
            return self._one_by_one(f"i{number}", found, fields)
        else:
            kept = [raw for each, _, raw in fields if each not in _DROPPED]
            if opcode in _RENAMED:
                kept = [raw for each, _, raw in fields if each not in _DROPPED | {_OPCODE, _SHAPE}]
                kept += [_field(_OPCODE, _RENAMED[opcode]), _field(_SHAPE, _result(opcode, found))]
            if _MESH in found:
                kept.append(_field(_GROUPS, _groups(found[_MESH])))
            for each in _STRINGS & found.keys():
                found[each].decode()  # Python's interface to MLIR ends over other strings
        return [_field(_INSTRUCTION, b"".join([name, *kept]))]

    def _one_by_one(self, name: str, found: dict[int, Any], fields: list[_Field]) -> list[bytes]:
        """A collective of several arrays as one for each, since StableHLO's takes one."""
        operands, shapes = _numbers(found[_OPERANDS]), _repeated(found[_SHAPE], _MEMBERS)
        own = _DROPPED | {_SHAPE, _ID, _OPERANDS}
        rest = b"".join([raw for each, _, raw in fields if each not in own])
        made, ids = [], []
        for member, (operand, shape) in enumerate(zip(operands, shapes, strict=True)):
            ids.append(next(self._new))
            given = {_NAME: f"{name}.{member}", _SHAPE: shape, _ID: ids[-1]}
            given[_OPERANDS] = _encoded(operand)
            parts = [rest, *[_field(*each) for each in given.items()]]
            made.append(_field(_INSTRUCTION, b"".join(parts)))
        return [*made, self._packed(name, found[_SHAPE], found[_ID], ids)]

    def _packed(self, name: str, shape: bytes, id_: int, members: list[int]) -> bytes:
        """A tuple."""
        packed = b"".join(map(_encoded, members))
        given = {_NAME: name, _OPCODE: "tuple", _SHAPE: shape, _ID: id_, _OPERANDS: packed}
        return _field(_INSTRUCTION, b"".join([_field(*each) for each in given.items()]))

    def _tuple(self, name: str, literal: bytes, id_: int) -> tuple[list[bytes], int]:
        """The constants that make up a constant tuple, which XLA does not translate."""
        shape = next(value for number, value, _ in _fields(literal) if number == 1)
        if not _is_tuple(shape):
            given = {_NAME: name, _OPCODE: "constant", _SHAPE: shape, _ID: id_, _LITERAL: literal}
            parts = [_field(*each) for each in given.items()]
            return [_field(_INSTRUCTION, b"".join(parts))], id_
        made, ids = [], []
        for member, each in enumerate(_repeated(literal, 10)):
            parts, own = self._tuple(f"{name}.{member}", each, next(self._new))
            made += parts
            ids.append(own)
        return [*made, self._packed(name, shape, id_, ids)], id_

    def _source(self, metadata: bytes) -> int:
        """The index of the place in the user's program that metadata tell; -1 for none."""
        known = self._known.get(metadata)
        if known is not None:
            return known
        found = _message(metadata)
        name = _text(found.get(2, b"")) or "program"
        place = (_text(found[3]), name, found.get(4, 0)) if 3 in found else None
        place = place or self._frames.get(found.get(15, 0))
        index = -1
        if place is not None:
            index = len(self.tables["places"])
            self.tables["places"].append(place)
        self._known[metadata] = index
        return index


_DROPPED = frozenset([_NAME, _METADATA, _SHARDING, _FRONTEND, _COMPOSITE, _MESH])
#: Targets of custom calls, configurations of these, of outfeeds and infeeds.
_STRINGS = frozenset([_TARGET_NAME, _CONFIG, 22, 27])
#: Collectives of one array each.
_SINGLE = ("collective-permute", "reduce-scatter")
#: Opcodes that become another of the same attributes; the table says what they were.
_RENAMED = {
    "all-gather-start": "all-gather",
    "all-reduce-start": "all-reduce",
    "collective-permute-start": "collective-permute",
    "erf": "tanh",
}
_NAMES = """add-dependency all-gather-done all-reduce-done async-done async-start async-update
bitcast collective-permute-done conditional copy copy-done copy-start dynamic-reshape fusion mulhi
ragged-dot recv recv-done scaled-dot scan send send-done"""
_KEPT = frozenset(_NAMES.split())


def _is_tuple(shape: bytes) -> bool:
    return _message(shape).get(_TYPE) == _TUPLE


def _result(opcode: str, fields: dict[int, Any]) -> bytes:
    """The shape that an instruction of another opcode gives."""
    shape = fields[_SHAPE]
    in_tuple = opcode in ("all-gather-start", "collective-permute-start")
    return _repeated(shape, _MEMBERS)[1] if in_tuple else shape


def _program(shape: bytes, root: dict[int, Any]) -> bytes:
    """The shapes of parameters and result of a computation, whose root may give another now."""
    result = _field(2, _result(root[_OPCODE].decode(), root))
    return b"".join([raw for number, _, raw in _fields(shape) if number != 2]) + result


_WITH_ONE_START = {"dynamic-slice": 2, "dynamic-update-slice": 3}


def _has_one_start(opcode: str, fields: dict[int, Any]) -> bool:
    """Whether all starts of a dynamic slice may be in one vector, as in older programs."""
    count = _WITH_ONE_START.get(opcode)
    return count is not None and len(_numbers(fields[_OPERANDS])) == count


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _frames(data: bytes) -> dict[int, tuple[str, str, int]]:
    """File, function and line of each stack frame that a module lists."""
    files, functions, places, frames = (_repeated(data, number) for number in (1, 2, 3, 4))
    found = {}
    for number, each in enumerate(map(_message, frames), 1):
        location = each.get(1, 0)
        if 1 <= location <= len(places):
            place = _message(places[location - 1])
            file, function = place.get(1, 0), place.get(2, 0)
            if 1 <= file <= len(files):
                name = _text(functions[function - 1]) if 1 <= function <= len(functions) else ""
                found[number] = _text(files[file - 1]), name or "program", place.get(3, 0)
    return found


# What translations ask of instructions, from their fields and their operands' shapes.


def _layout(shape: bytes) -> Any:
    """The dimensions from the fastest to the slowest, and tiles; None for no layout."""
    layout = _message(shape).get(_LAYOUT)
    if layout is None:
        return None
    found = _message(layout)
    tiles = [_numbers(_message(each).get(1, b"")) for each in _repeated(layout, 6)]
    return _numbers(found.get(1, b"")), tiles


def _dot(data: bytes) -> list[list[int]]:
    found = _message(data)
    return [_numbers(found.get(number, b"")) for number in (1, 2, 3, 4)]


def _precision(fields: dict[int, Any]) -> list[int]:
    return _numbers(_message(fields.get(_PRECISION, b"")).get(1, b""))


def _ragged(fields: dict[int, Any], operands: Iterable[bytes]) -> dict[str, Any]:
    numbers = _message(fields[90])
    return {
        "dot": _dot(numbers.get(1, b"")),
        "ragged": [_numbers(numbers.get(each, b"")) for each in (2, 3)],
        "precision": _precision(fields),
    }


def _composite(fields: dict[int, Any], operands: Iterable[bytes]) -> dict[str, str]:
    """The attributes of a call that stands for a composite."""
    if not fields.get(_COMPOSITE):
        return {}
    pairs = map(_message, _repeated(fields.get(_FRONTEND, b""), 1))
    return {_text(each.get(1, b"")): _text(each.get(2, b"")) for each in pairs}


def _channel(fields: dict[int, Any], operands: Iterable[bytes]) -> dict[str, Any]:
    return {"channel_id": fields.get(26, 0), "is_host_transfer": bool(fields.get(47))}


_DETAILS: dict[str, Callable[[dict[int, Any], list[bytes]], dict[str, Any]]] = {
    "all-to-all": _channel,
    "async-start": lambda fields, _: {"thread": _text(fields.get(79, b"")) or "main"},
    "bitcast": lambda fields, operands: {
        "layouts": [_layout(operands[0]), _layout(fields[_SHAPE])]
    },
    "call": _composite,
    "dynamic-slice": lambda fields, _: {"sizes": _numbers(fields.get(20, b""))},
    "fusion": lambda fields, _: {"kind": _text(fields.get(11, b"kLoop"))},
    "ragged-all-to-all": _channel,
    "ragged-dot": _ragged,
    "recv": _channel,
    "recv-done": _channel,
    "scaled-dot": lambda fields, _: {"dot": _dot(fields[30]), "precision": _precision(fields)},
    "scan": lambda fields, _: {
        "dimension": _numbers(fields[_DIMENSIONS])[0],
        "is_reverse": bool(fields.get(94)),
        "carries": fields.get(95, 0),
        "is_associative": {0: False, 1: True}.get(fields.get(96, 0)),
    },
    "send": _channel,
    "send-done": _channel,
}


def _groups(data: bytes) -> bytes:
    """Replica groups along axes of a mesh of devices, written out."""
    mesh = _message(data)[1]
    sizes = [_message(each).get(2, 0) for each in _repeated(mesh, 1)]
    ids = np.array(_numbers(_message(mesh).get(2, b"")) or np.arange(math.prod(sizes)))
    for iota in map(_message, _repeated(mesh, 3)):
        ids = ids.reshape(_numbers(iota[1])).transpose(_numbers(iota[2]))
    # Which axes, and of those that are split the size before and of the part.
    along = []
    for each in map(_message, _repeated(data, 2)):
        part = _message(each.get(2, b""))
        at = each.get(1, 0)
        along.append((at, part.get(1, 1), part.get(2, sizes[at])))
    parts = []
    for axis, size in enumerate(sizes):
        own = [(low, low * count) for at, low, count in along if at == axis]
        cuts = sorted({1, size, *itertools.chain(*own)})
        parts += [(axis, low, high // low) for low, high in itertools.pairwise(cuts)]
    inner = [
        index
        for at, first, count in along
        for index, (axis, low, _) in enumerate(parts)
        if axis == at and first <= low < first * count
    ]
    outer = [index for index in range(len(parts)) if index not in inner]
    members = math.prod(parts[index][2] for index in inner)
    rows = ids.reshape([part for _, _, part in parts]).transpose(outer + inner)
    groups = [b"".join(map(_encoded, row)) for row in rows.reshape(-1, members).tolist()]
    return b"".join([_field(1, _field(1, each)) for each in groups])
