"""The grammar of HLO text: modules, computations, instructions."""

from __future__ import annotations

import re
from typing import NamedTuple

from minixla.core.errors import SizeError
from minixla.core.shapes import AnyShape, TupleShape, parse_shape
from minixla.interop.hlo.text import HloText

__all__ = [
    "Computation",
    "HloModule",
    "Instruction",
    "Layout",
    "layouts_in",
    "parse_module",
]

#: An array's layout: the dimensions from the fastest to the slowest, and what follows the colon.
Layout = tuple[tuple[int, ...], str]

_NAME = r"%?[A-Za-z_][\w.\-]*|%[\w.\-]+"
_HEADER = re.compile(rf"HloModule\s+({_NAME})", re.ASCII)
_TABLE = re.compile(r"(FileNames|FunctionNames|FileLocations|StackFrames)\b")
_ROW = re.compile(r'\s*(\d{1,18})\s+("(?:[^"\\\n]|\\.)*+"|\{[^{}\n]*\})')
_COMPUTATION = re.compile(rf"(ENTRY\s+)?({_NAME})\s*", re.ASCII)
_PARAMETER = re.compile(rf"\s*({_NAME})\s*:\s*", re.ASCII)
_INSTRUCTION = re.compile(rf"(ROOT\s+)?({_NAME})\s*=\s*", re.ASCII)
_ARRAY = re.compile(r"[a-z]\w*\[[^\[\]{}()\n]*\](?:\{[^{}\n]*\})?", re.ASCII)
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(\s*", re.ASCII)
_OPERAND = re.compile(rf"({_NAME})\s*([,)])\s*", re.ASCII)
_ATTRIBUTE = re.compile(r",\s*([A-Za-z_][\w.\-]*)\s*=\s*", re.ASCII)
_WORD = re.compile(
    r"(?:[^,\s{}()\[\]\"]|\[[^\]\n]*\]|\{[^{}\n]*\}|\((?:[^()\n]|\([^()\n]*\))*+\))++"
)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_LAYOUT = re.compile(r"\{([\d,\s]*)(?::([^}]*))?\}$")
_CALLEES = frozenset(
    [
        "body",
        "branch_computations",
        "called_computations",
        "calls",
        "condition",
        "false_computation",
        "scatter",
        "select",
        "to_apply",
        "true_computation",
    ]
)
_NAMES = re.compile(_NAME, re.ASCII)
_DEEPEST_TUPLE = 100
_WANTED_INSTRUCTION = "an instruction is: %name = f32[2] add(%x, %y), attribute=value"
_WANTED_SHAPE = "a shape is: f32[2,3]{1,0}, (f32[], s32[4]) or token[]"


class Value(NamedTuple):
    """An attribute's text, and where it stands."""

    text: str
    position: int


def layouts_in(text: str) -> tuple[tuple[int, ...] | None, ...]:
    """The layouts of all arrays in the text of a shape, or of several; None where it says none."""
    found = [_LAYOUT.search(match[0]) for match in _ARRAY.finditer(text)]
    return tuple([None if match is None else _order(match[1]) for match in found])


def _order(text: str) -> tuple[int, ...]:
    """The dimensions that a layout lists; -1 for what is no dimension."""
    # Longer numbers are no dimensions anyhow.
    listed = [each.strip() for each in text.split(",")] if text.strip() else []
    return tuple([int(each) if each.isdigit() and len(each) < 6 else -1 for each in listed])


class Instruction:
    """One instruction, as it is written.

    Attributes:
        name: without a percent sign.
        opcode: HLO's.
        shape: the declared one.
        layout: the declared one, of an array that has one.
        shape_text: the text of the shape, of a tuple with the members' layouts.
        operands: names; for parameters and constants the text between the parentheses.
        attributes: by name.
        position: where it stands.
        operand_position: where its operands stand.
    """

    __slots__ = (
        "attributes",
        "layout",
        "name",
        "opcode",
        "operand_position",
        "operands",
        "position",
        "shape",
        "shape_text",
    )

    def __init__(self, name: str, position: int, shape: AnyShape, layout: Layout | None) -> None:
        self.name = name
        self.position = position
        self.shape = shape
        self.layout = layout
        self.shape_text = ""
        self.opcode = ""
        self.operands: list[str] = []
        self.operand_position = position
        self.attributes: dict[str, Value] = {}

    @property
    def callees(self) -> list[str]:
        """The names of the computations that it runs."""
        found = []
        for name, value in self.attributes.items():
            if name in _CALLEES:
                found.extend([each.lstrip("%") for each in _NAMES.findall(value.text)])
        return found


class Computation:
    """One computation, as it is written.

    Attributes:
        name: without a percent sign.
        instructions: in the order of the text.
        root: what it gives.
        signature: the shapes of its parameters and result, where the text says them.
        position: where it stands.
        callees: the names of the computations that it runs.
    """

    def __init__(self, name: str, position: int) -> None:
        self.name = name
        self.position = position
        self.instructions: list[Instruction] = []
        self.root: Instruction | None = None
        self.signature: tuple[list[AnyShape], AnyShape] | None = None
        self.callees: dict[str, None] = {}


class HloModule:
    """A module, as it is written.

    Attributes:
        text: the whole text.
        name: its name.
        computations: by name.
        entry: the one that runs first.
        tables: the rows of the tables of files, functions and stack frames, by table and number.
    """

    def __init__(self, text: HloText, name: str) -> None:
        self.text = text
        self.name = name
        self.computations: dict[str, Computation] = {}
        self.entry: Computation | None = None
        self.tables: dict[str, dict[int, str]] = {}


def parse_module(text: str) -> HloModule:
    """The module that a text holds.

    Raises:
        ImportError_: it is none; the message names line and column, and what was found.
    """
    return _Parser(HloText(text)).module()


class _Parser:
    """Reads from `position` on; loops in place of recursion, since texts may be of any depth."""

    def __init__(self, source: HloText) -> None:
        self.source = source
        self.text = source.text
        self.position = 0
        self._shapes: dict[str, tuple[AnyShape, Layout | None]] = {}

    def module(self) -> HloModule:
        """The whole module."""
        source = self.source
        self.position = source.skip(0)
        match = self._take(_HEADER, "a module begins with: HloModule name")
        module = HloModule(source, match[1].lstrip("%"))
        self._attributes()
        while True:
            self.position = source.skip(self.position)
            if self.position == len(self.text):
                break
            table = _TABLE.match(self.text, self.position)
            if table is not None and source.skip(table.end()) != table.end():
                self._table(module, table)
            else:
                self._computation(module)
        self._choose_entry(module)
        return module

    def _take(self, pattern: re.Pattern[str], wanted: str) -> re.Match[str]:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise self.source.unexpected(self.position, wanted)
        self.position = match.end()
        return match

    def _table(self, module: HloModule, table: re.Match[str]) -> None:
        rows = module.tables.setdefault(table[1], {})
        self.position = table.end()
        while (row := _ROW.match(self.text, self.position)) is not None:
            rows[int(row[1])] = row[2]
            self.position = row.end()

    def _choose_entry(self, module: HloModule) -> None:
        if module.entry is not None:
            return
        if len(module.computations) != 1:
            advice = "Mark the computation that runs first: ENTRY %main (...) -> ... {"
            count = len(module.computations)
            problem = f"none of {count} computations is marked as ENTRY"
            raise self.source.error(self.position, problem, (), advice)
        (module.entry,) = module.computations.values()

    def _computation(self, module: HloModule) -> None:
        source, position = self.source, self.position
        match = self._take(_COMPUTATION, "a computation is: %name (x: f32[2]) -> f32[2] { ... }")
        computation = Computation(match[2].lstrip("%"), position)
        if computation.name in module.computations:
            problem = f"computation {computation.name} is there twice"
            raise source.error(position, problem, (), "Names of computations are unique.")
        if match[1]:
            if module.entry is not None:
                raise source.error(position, "there are two ENTRY computations", (), "Mark one.")
            module.entry = computation
        module.computations[computation.name] = computation
        if self._take_symbol("("):
            computation.signature = self._signature()
        self._expect("{", "a computation's instructions stand in braces")
        self._instructions(computation)
        self._attributes()

    def _take_symbol(self, symbol: str) -> bool:
        self.position = self.source.skip(self.position)
        if not self.text.startswith(symbol, self.position):
            return False
        self.position += len(symbol)
        return True

    def _expect(self, symbol: str, wanted: str) -> None:
        if not self._take_symbol(symbol):
            raise self.source.unexpected(self.position, f"{symbol!r} is wanted: {wanted}")

    def _signature(self) -> tuple[list[AnyShape], AnyShape]:
        parameters: list[AnyShape] = []
        while not self._take_symbol(")"):
            if parameters:
                self._expect(",", "parameters are: (x: f32[2], y: s32[])")
            self._take(_PARAMETER, "parameters are: (x: f32[2], y: s32[])")
            parameters.append(self._shape()[0])
        self._expect("->", "after the parameters comes -> and the result's shape")
        self.position = self.source.skip(self.position)
        return parameters, self._shape()[0]

    def _instructions(self, computation: Computation) -> None:
        instructions, is_marked = computation.instructions, False
        while not self._take_symbol("}"):
            position = self.position
            match = self._take(_INSTRUCTION, _WANTED_INSTRUCTION)
            name, start = match[2], self.position
            shape, layout = self._shape()
            each = Instruction(name[1:] if name[0] == "%" else name, position, shape, layout)
            each.shape_text = self.text[start : self.position]
            self._call(each)
            instructions.append(each)
            if match[1]:
                if is_marked:
                    raise self.source.error(position, "there are two ROOTs", (), "Mark one.")
                is_marked, computation.root = True, each
            if not _CALLEES.isdisjoint(each.attributes):
                computation.callees.update(dict.fromkeys(each.callees))
        if not instructions:
            problem = f"computation {computation.name} has no instruction"
            raise self.source.error(computation.position, problem, (), "It needs a ROOT.")
        if not is_marked:
            computation.root = instructions[-1]

    def _call(self, instruction: Instruction) -> None:
        """The opcode, what is in parentheses, and the attributes."""
        opcode = self._take(_OPCODE, _WANTED_INSTRUCTION)
        instruction.opcode = opcode[1]
        instruction.operand_position = position = self.position
        if opcode[1] in ("constant", "parameter"):
            end = self.source.parentheses_end(self.text.rindex("(", 0, position))
            instruction.operands = [self.text[position : end - 1].strip()]
            self.position = end
        elif self.text.startswith(")", position):
            self.position = position + 1
        else:
            self._operands(instruction.operands)
        instruction.attributes = self._attributes()

    def _operands(self, operands: list[str]) -> None:
        text = self.text
        while True:
            match = _OPERAND.match(text, self.position)
            if match is None:
                # A shape stands before the name.
                self._shape("operands are: (%x, %y) or (f32[2] %x, s32[] %y)")
                self.position = self.source.skip(self.position)
                match = self._take(_OPERAND, "operands are: (%x, %y) or (f32[2] %x, s32[] %y)")
            self.position = match.end()
            operands.append(match[1].lstrip("%"))
            if match[2] == ")":
                return

    def _attributes(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        text, source = self.text, self.source
        while True:
            match = _ATTRIBUTE.match(text, self.position)
            if match is None:
                start = source.skip(self.position)
                if start == self.position or not text.startswith(",", start):
                    if text.startswith(",", start):
                        raise source.unexpected(start + 1, "an attribute is: , name=value")
                    return found
                self.position = start
                continue
            start = match.end()
            first = text[start : start + 1]
            if first == "{":
                end = source.braces_end(start)
            else:
                whole = (_STRING if first == '"' else _WORD).match(text, start)
                if whole is None:
                    raise source.unexpected(start, f"attribute {match[1]} has no value")
                end = whole.end()
            if match[1] in found:
                problem = f"attribute {match[1]} is there twice"
                raise source.error(match.start(1), problem, (), "Give it once.")
            found[match[1]] = Value(text[start:end], start)
            self.position = end

    def _shape(self, wanted: str = _WANTED_SHAPE) -> tuple[AnyShape, Layout | None]:
        text, start = self.text, self.position
        match = _ARRAY.match(text, start)
        if match is not None:
            self.position = match.end()
            whole = match[0]
            found = self._shapes.get(whole)
            if found is None:
                found = self._shapes[whole] = self._array(whole, start)
            return found
        if not text.startswith("(", start):
            raise self.source.unexpected(start, wanted)
        self.position = self.source.parentheses_end(start)
        whole = text[start : self.position]
        found = self._shapes.get(whole)
        if found is None:
            found = self._shapes[whole] = (self._parsed(whole, start), None)
        return found

    def _array(self, whole: str, start: int) -> tuple[AnyShape, Layout | None]:
        shape = self._parsed(whole, start)
        match = _LAYOUT.search(whole)
        if match is None:
            if "{" in whole:
                wanted = "a layout is: {1,0} or {1,0:T(8,128)}"
                raise self.source.unexpected(start + whole.index("{"), wanted)
            return shape, None
        rank = getattr(shape, "rank", 0)
        order = _order(match[1])
        if sorted(order) != list(range(rank)):
            problem = f"{{{match[1]}}} is no layout of {shape}"
            advice = "A layout names each dimension once, the fastest first."
            raise self.source.error(start, problem, (), advice)
        return shape, (order, match[2] or "")

    def _parsed(self, whole: str, start: int) -> AnyShape:
        try:
            shape = parse_shape(" ".join(whole.split()))
        except ValueError as error:
            problem = error.problem if isinstance(error, SizeError) else str(error)
            raise self.source.error(start, problem) from None
        if isinstance(shape, TupleShape) and _depth(whole) > _DEEPEST_TUPLE:
            problem = f"more than {_DEEPEST_TUPLE} tuples within each other"
            raise self.source.error(start, problem, (), "Flatten the tuples.")
        return shape


def _depth(text: str) -> int:
    """How deep parentheses are nested."""
    depth = deepest = 0
    for each in re.findall("[()]", text):
        depth += 1 if each == "(" else -1
        deepest = max(deepest, depth)
    return deepest
