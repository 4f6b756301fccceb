"""Translate HLO text to StableHLO whose operations name their HLO instructions by number.

XLA's translation loses the names of instructions, and some opcodes in part or entirely. So this
module edits XLA's protocol buffer of the parsed program before the translation. Each instruction
gets a number as its name, and such opcodes become custom calls, or others with the same
attributes. Tables next to the program keep the original data, by number.

Invalid programs may make XLA end the process, so only the reader process runs this, as a module
without packages around it.
"""

import itertools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]  # compiled, without stubs

#: The target that replaces a constant whose numbers are omitted.
ELIDED = "minixla.elided"
# Constants may lack their numbers, or repeat their shape in older programs. XLA prints negative
# zeros but reads them back as integers, which have no sign.
_CONSTANT = r"\bconstant\(\s*(?:(\{\.\.\.\})\s*\)|[a-z]\w*\[[\d,]*\](?:\{[\d,]*\})?\s*(?=[({\d-]))"
_ZERO = r"(?<=[({, ])(-0)(?=[)}, \n])"
_WRITTEN = re.compile(rf'"(?:[^"\\]|\\.)*+"?|{_CONSTANT}|{_ZERO}|(\{{\.\.\.\}})')
# Most programs contain none of these patterns.
_SIGNS = [re.compile(pattern) for pattern in (r"constant\(\s*[a-z]", r"-0[)}, \n]", r"\{\.\.\.\}")]

# Protocol buffers: a message is a list of fields, each a number and a value.
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


def _parted(
    data: bytes, dropped: Collection[int] = (), lists: Collection[int] = ()
) -> tuple[dict[int, Any], bytes]:
    """Return the value of each field (the last, or a list of all), and the other fields' bytes."""
    fields: dict[int, Any] = {}
    kept, kept_from, position, end = [], 0, 0, len(data)
    while position < end:  # about ten times for most instructions
        start = position
        key, position = data[position], position + 1
        if key > 127:
            key, position = _varint(data, start)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == 1 or kind == 5:  # a double or a float
            last = position + (8 if kind == 1 else 4)
            value = data[position:last]
        else:
            value, last = data[position], position + 1
            if value > 127:
                value, last = _varint(data, position)
            if kind == _BYTES:
                position, last = last, last + value
                value = data[position:last]
        position = last
        if number in lists:
            fields.setdefault(number, []).append(value)
        else:
            fields[number] = value
        if number in dropped:
            kept.append(data[kept_from:start])
            kept_from = position
    kept.append(data[kept_from:])
    return fields, b"".join(kept)


def _message(data: bytes, *lists: int) -> dict[int, Any]:
    """Return the value of each field: the last one, or all for the numbers in `lists`."""
    return {**{number: [] for number in lists}, **_parted(data, (), lists)[0]}


def _numbers(data: bytes) -> list[int]:
    """Return the values of a field with several numbers; those below 0 count from 2**64."""
    numbers, position = [], 0
    while position < len(data):
        value, position = _varint(data, position)
        numbers.append(value - (1 << 64) if value >> 63 else value)
    return numbers


def _encoded(value: int) -> bytes:
    if value < 128:
        return _SMALL[value]
    return bytes([value & 127 | 128]) + _encoded(value >> 7)


_SMALL = [bytes([value]) for value in range(128)]


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _encoded(number << 3) + _encoded(value)
    data = value.encode() if isinstance(value, str) else value
    return _encoded(number << 3 | _BYTES) + _encoded(len(data)) + data


def _instruction(fields: dict[int, Any], rest: bytes = b"") -> bytes:
    """Encode an instruction as a field of its computation."""
    parts = b"".join([_field(*field) for field in fields.items()])
    return _field(_INSTRUCTION, parts + rest)


# Numbers of the fields of a module and its computations, of instructions and of shapes.
_COMPUTATION, _ENTRY, _FRAMES, _INSTRUCTION, _PROGRAM, _ROOT = 3, 6, 17, 2, 4, 6
_ENTRY_NAME = 2
_NAME, _OPCODE, _SHAPE, _METADATA, _LITERAL = 1, 2, 3, 7, 8
_TARGET_NAME, _ID, _OPERANDS, _CALLEES, _SHARDING, _CONFIG = 28, 35, 36, 38, 40, 43
_FRONTEND, _VERSION, _GROUPS, _COMPOSITE, _MESH = 68, 77, 87, 89, 93
_TYPE, _MEMBERS, _LAYOUT = 2, 4, 5
_TUPLE = 13


def translated(
    source: str | bytes, stand_ins: Mapping[str, str]
) -> tuple[bytes, dict[str, Any], str]:
    """Translate HLO to StableHLO as MLIR bytecode, with tables; raise RuntimeError if it fails.

    The source is HLO text, or a serialized HloModuleProto or HloProto. The last result is the HLO
    text of a serialized module, without large constants.

    Computations come before their callers. XLA's translation loses parts of some opcodes:
    `stand_ins` maps them to `custom-call`, or to an opcode with the same attributes.

    Instructions are named `i` and a number (elements of tuple constants also `i1.0`). Functions are
    named `f.` and a number, except the entry, `main`. The tables are:
    `computations`, the names by number; `entry`, its number; `names`, `opcodes`, `owners` (the
    computation's number) and `sources` (an index, or -1) of instructions; `places`: file, name and
    line of each source; `callees` of instructions that call computations; `frontend`, the names of
    frontend attributes; `details` of the replaced instructions: `_DETAILS`.
    """
    is_serialized = isinstance(source, bytes)
    module = _serialized_module(source) if is_serialized else _module_of_text(source)
    edited = _Edited(module.as_serialized_hlo_module_proto(), stand_ins, is_serialized)
    text = module.to_string(_without_large_constants()) if is_serialized else ""
    return _jax.mlir.hlo_to_stablehlo(edited.data), edited.tables, text


def _module_of_text(text: str) -> Any:
    if any(pattern.search(text) for pattern in _SIGNS):
        text = _WRITTEN.sub(_rewritten, text)
    return _hlo.hlo_module_from_text(text)


def _serialized_module(data: bytes) -> Any:
    """Parse a serialized HloModuleProto, or the module of a serialized HloProto."""
    fields, _ = _parted(data)
    if _ENTRY_NAME not in fields and isinstance(fields.get(_NAME), bytes):
        data = fields[_NAME]
    return _hlo.HloModule.from_serialized_hlo_module_proto(data)


def _without_large_constants() -> Any:
    options = _hlo.HloPrintOptions()
    options.print_large_constants = False
    return options


def stablehlo_of_hlo(text: str) -> str:
    """Translate our own HLO text to StableHLO without edits; raise RuntimeError if it fails."""
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))


def _rewritten(match: re.Match[str]) -> str:
    if match[0][0] == '"':
        return match[0]
    if match[3]:  # XLA would fill these with arbitrary numbers
        before = match.string[: match.start()]
        place = f"{before.count(chr(10)) + 1}:{match.start() - before.rfind(chr(10))}"
        raise RuntimeError(f"was parsing {place}: error: numbers are omitted inside a constant")
    if match[2]:
        return "-0.0"
    return f'custom-call(), custom_call_target="{ELIDED}"' if match[1] else "constant("


class _Edited:
    """An edited program: `data` is XLA's protocol buffer; for `tables` see `translated`."""

    def __init__(self, data: bytes, stand_ins: Mapping[str, str], is_ordered: bool = False) -> None:
        dropped = (_COMPUTATION, _PROGRAM, _FRAMES)
        module, rest = _parted(data, dropped, (_COMPUTATION,))
        computations = [
            _parted(computation, _OF_TEXT, (_INSTRUCTION,)) for computation in module[_COMPUTATION]
        ]
        self._numbers = {head.get(5, 0): index for index, (head, _) in enumerate(computations)}
        self._stand_ins = stand_ins
        #: True if instructions are in execution order; otherwise their ids are.
        self._is_ordered = is_ordered
        self._frames = _frames(module.get(_FRAMES, b""))
        self._known: dict[bytes, int] = {b"": -1}
        entry = self._numbers[module.get(_ENTRY, 0)]
        names = [_text(head[_NAME]) for head, _ in computations]
        self.tables: Any = {"computations": names, "entry": entry}
        self.tables |= {table: {} for table in ("callees", "details", "frontend")}
        self.tables |= {table: [] for table in ("names", "opcodes", "owners", "sources", "places")}
        made = [
            self._computation(index, *computation) for index, computation in enumerate(computations)
        ]
        parts = [_field(_COMPUTATION, head) for head, _ in made]
        self.data = b"".join([rest, _field(_PROGRAM, made[entry][1]), *parts])

    def _computation(self, index: int, head: dict[int, Any], rest: bytes) -> tuple[bytes, bytes]:
        """Edit a computation; also return the shapes of its parameters and its result."""
        rows = [_parted(instruction, _DROPPED) for instruction in head[_INSTRUCTION]]
        by_id = {row[0].get(_ID, 0): row for row in rows}
        self._shapes = {key: fields[_SHAPE] for key, (fields, _) in by_id.items()}
        self._new = itertools.count(max(by_id, default=0) + 1)
        # Number them in the order of the text.
        order = by_id if self._is_ordered else sorted(by_id)
        parts = [self._instruction(*by_id[key]) for key in order]
        self.tables["owners"] += [index] * len(by_id)
        root, _ = by_id[head.get(_ROOT, 0)]
        # The root may have another shape now.
        _, program = _parted(head[_PROGRAM], (2,))
        program += _field(2, _result(root[_OPCODE].decode(), root[_SHAPE]))
        parts = [_field(_NAME, f"f.{index}"), rest, *parts, _field(_PROGRAM, program)]
        return b"".join(parts), program

    def _instruction(self, fields: dict[int, Any], rest: bytes) -> bytes:
        tables = self.tables
        number, opcode = len(tables["names"]), fields[_OPCODE].decode()
        stand_in, name = self._stand_ins.get(opcode), f"i{number}"
        is_elided = fields.get(_TARGET_NAME) == ELIDED.encode()
        tables["names"].append(_text(fields[_NAME]))
        tables["opcodes"].append("constant" if is_elided else opcode)
        tables["sources"].append(self._source(fields.get(_METADATA, b"")))
        if _CALLEES in fields:
            ids = _numbers(fields[_CALLEES])
            tables["callees"][number] = [self._numbers[id_] for id_ in ids]
        if _FRONTEND in fields:
            entries = _message(fields[_FRONTEND], 1)[1]
            tables["frontend"][number] = [_text(_message(entry).get(1, b"")) for entry in entries]
        if stand_in is not None:
            # Attributes that the translation of a replaced instruction may need.
            rows = [(*_DETAILS[field], fields[field]) for field in _DETAILS if field in fields]
            details = tables["details"][number] = {key: read(data) for key, read, data in rows}
            if opcode == "bitcast":
                shapes = self._shapes[_numbers(fields[_OPERANDS])[0]], fields[_SHAPE]
                details["layouts"] = [*map(_layout, shapes)]
        if stand_in == "custom-call":
            kept = {field: fields[field] for field in (_SHAPE, _ID, _OPERANDS) if field in fields}
            call = {_NAME: name, _OPCODE: stand_in, _TARGET_NAME: "minixla", _VERSION: 1}
            return _instruction(call | kept)
        if opcode == "constant" and _is_tuple(fields[_SHAPE]):
            return self._tuple(name, fields[_LITERAL], fields.get(_ID, 0))
        if opcode in _SINGLE and _is_tuple(fields[_SHAPE]):
            return self._one_by_one(name, fields, rest)
        written = {_NAME: name}
        if stand_in is not None:
            written |= {_OPCODE: stand_in, _SHAPE: _result(opcode, fields[_SHAPE])}
            _, rest = _parted(rest, written)
        if _MESH in fields:
            rest += _field(_GROUPS, _groups(fields[_MESH]))
        for field in _STRINGS & fields.keys():
            fields[field].decode()  # other strings end Python's interface to MLIR
        return _instruction(written, rest)

    def _one_by_one(self, name: str, fields: dict[int, Any], rest: bytes) -> bytes:
        """Split a collective of several arrays, because StableHLO's takes one."""
        operands, shapes = _numbers(fields[_OPERANDS]), _message(fields[_SHAPE], _MEMBERS)[_MEMBERS]
        _, rest = _parted(rest, (_SHAPE, _ID, _OPERANDS))
        made, ids = [], []
        for member, (operand, shape) in enumerate(zip(operands, shapes, strict=True)):
            ids.append(next(self._new))
            written = {_NAME: f"{name}.{member}", _SHAPE: shape, _ID: ids[-1]}
            made.append(_instruction({**written, _OPERANDS: _encoded(operand)}, rest))
        return b"".join([*made, _packed(name, fields[_SHAPE], fields[_ID], ids)])

    def _tuple(self, name: str, literal: bytes, id_: int) -> bytes:
        """Encode a constant tuple, which XLA does not translate, as one constant per element."""
        message = _message(literal, 10)
        shape, members = message[1], message[10]
        if not _is_tuple(shape):
            written = {_NAME: name, _OPCODE: "constant", _SHAPE: shape, _ID: id_}
            return _instruction({**written, _LITERAL: literal})
        ids = [next(self._new) for _ in members]
        rows = zip(itertools.count(), members, ids, strict=False)
        made = [
            self._tuple(f"{name}.{member}", element, shape_) for member, element, shape_ in rows
        ]
        return b"".join([*made, _packed(name, shape, id_, ids)])

    def _source(self, metadata: bytes) -> int:
        """Return the index of the source location in the metadata; -1 if it has no location."""
        if metadata not in self._known:
            fields = _message(metadata)
            place = self._frames.get(fields.get(15, 0))
            if 3 in fields:
                place = _text(fields[3]), _text(fields.get(2, b"")) or "program", fields.get(4, 0)
            self._known[metadata] = -1 if place is None else len(self.tables["places"])
            self.tables["places"] += filter(None, [place])
        return self._known[metadata]


def _packed(name: str, shape: bytes, id_: int, members: list[int]) -> bytes:
    packed = b"".join(map(_encoded, members))
    return _instruction({_NAME: name, _OPCODE: "tuple", _SHAPE: shape, _ID: id_, _OPERANDS: packed})


#: Fields of a computation that are written anew; XLA's translation ignores fusions and threads.
_OF_TEXT = (_NAME, _INSTRUCTION, _PROGRAM, 7, 8)
_DROPPED = frozenset([_NAME, _METADATA, _SHARDING, _FRONTEND, _COMPOSITE, _MESH])
#: Targets and configurations of custom calls; configurations of outfeeds and infeeds.
_STRINGS = frozenset([_TARGET_NAME, _CONFIG, 22, 27])
#: Collectives that take one array each.
_SINGLE = ("collective-permute", "reduce-scatter")
#: Opcodes that return a tuple of operand and result.
_IN_TUPLE = ("all-gather-start", "collective-permute-start")


def _is_tuple(shape: bytes) -> bool:
    return _message(shape).get(_TYPE) == _TUPLE


def _result(opcode: str, shape: bytes) -> bytes:
    """Return the result shape of the instruction that replaces this one."""
    return _message(shape, _MEMBERS)[_MEMBERS][1] if opcode in _IN_TUPLE else shape


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _frames(data: bytes) -> dict[int, tuple[str, str, int]]:
    """Return file, function and line of each stack frame that a module lists."""
    lists = _message(data, 1, 2, 3, 4).values()
    files, functions, places, frames = [dict(enumerate(items, 1)) for items in lists]
    by_id = {}
    for number, frame in frames.items():
        place = _message(places.get(_message(frame).get(1, 0), b""))
        if place.get(1, 0) in files:
            name = _text(functions.get(place.get(2, 0), b""))
            by_id[number] = _text(files[place[1]]), name or "program", place.get(3, 0)
    return by_id


def _lists(data: bytes, *numbers: int) -> list[list[int]]:
    """Return the numbers in each of several fields."""
    fields = _message(data)
    return [_numbers(fields.get(number, b"")) for number in numbers]


def _layout(shape: bytes) -> Any:
    """Return the dimensions from the fastest to the slowest, and tiles; None without a layout."""
    layout = _message(shape).get(_LAYOUT)
    if layout is None:
        return None
    tiles = [_lists(tile, 1)[0] for tile in _message(layout, 6)[6]]
    return _lists(layout, 1)[0], tiles


def _pairs(data: bytes) -> dict[str, str]:
    pairs = map(_message, _message(data, 1)[1])
    return {_text(pair.get(1, b"")): _text(pair.get(2, b"")) for pair in pairs}


def _precisions(numbers: list[int]) -> list[str] | None:
    """Return the names for both operands; None if both are the default."""
    names = ("DEFAULT", "HIGH", "HIGHEST")
    return [names[number] for number in numbers] if any(numbers) else None


#: For each field number the name, ours if we have such an attribute, and the function that reads
#: it.
_DETAILS: dict[int, tuple[str, Callable[[Any], Any]]] = {
    11: ("kind", _text),
    14: ("dimensions", _numbers),
    20: ("slice_sizes", _numbers),
    26: ("channel_id", int),
    30: ("dot", lambda data: _lists(data, 1, 2, 3, 4)),
    47: ("is_host_transfer", bool),
    51: ("precision_config", lambda data: _precisions(_lists(data, 1)[0][:2])),
    _FRONTEND: ("frontend_attributes", _pairs),
    79: ("async_execution_thread", _text),
    _COMPOSITE: ("is_composite", bool),
    90: ("ragged_dot", lambda data: [_DETAILS[30][1](_message(data)[1]), *_lists(data, 2, 3)]),
    94: ("is_reverse", bool),
    95: ("carries", int),
    96: ("associativity", int),
}


def _groups(data: bytes) -> bytes:
    """Expand replica groups that are given by the axes of a device mesh."""
    fields = _message(data, 2)
    mesh = _message(fields[1], 1, 3)
    sizes = [_message(axis).get(2, 0) for axis in mesh[1]]
    places = np.indices(sizes).reshape(len(sizes), -1)
    ids = np.array(_numbers(mesh.get(2, b"")) or range(places.shape[1]))
    for iota in map(_message, mesh[3]):
        ids = ids.reshape(_numbers(iota[1])).transpose(_numbers(iota[2]))
    # The position of each device in its group, and the rest of its position in the mesh.
    inner, left, members = np.zeros(ids.size, int), places.copy(), 1
    for reference in map(_message, fields[2]):
        # For a split axis: the size before the part, and the size of the part.
        axis, part = reference.get(1, 0), _message(reference.get(2, b""))
        count = part.get(2, sizes[axis])
        step = sizes[axis] // (part.get(1, 1) * count)
        digit = places[axis] // step % count
        inner, members = inner * count + digit, members * count
        left[axis] -= digit * step
    order = np.lexsort((inner, np.ravel_multi_index(tuple(left), sizes)))
    rows = ids.reshape(-1)[order].reshape(-1, members).tolist()
    return b"".join([_field(1, _field(1, b"".join(map(_encoded, row)))) for row in rows])
