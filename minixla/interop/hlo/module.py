"""An HLO module, translated by XLA, as graphs."""

import re
import sys
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from minixla.core.errors import ImportError_
from minixla.core.graph import Graph, Value
from minixla.core.operation import Names
from minixla.core.shapes import TupleShape
from minixla.core.source import Source
from minixla.interop.building import Builder
from minixla.interop.hlo.operations import HLO, STAND_INS
from minixla.interop.hlo.reading import read
from minixla.interop.hlo.text import HloText
from minixla.interop.module import TRANSLATIONS, Module
from minixla.interop.step import Step
from minixla.interop.values import source_at

_OPERATION = re.compile(r"(?:stablehlo|chlo|mhlo|hlo|func)\.[\w.\-]+: ")
_LOOSE = ("-start", "-update")
#: MLIR's operations that may replace instructions with other opcodes.
_STANDING = {f"stablehlo.{opcode.replace('-', '_')}" for opcode in STAND_INS.values()}


class HloModule(Module):
    """An HLO module under translation.

    Its computations are the functions, including those that are regions of operations.
    """

    translations = {**TRANSLATIONS, **HLO}
    is_hlo = True
    deepest = sys.maxsize

    def __init__(self, text: HloText) -> None:
        module, shardings_read = read(text)
        super().__init__(module, None, shardings_read.constants)
        self._text = text
        tables = self.tables = shardings_read.tables
        self._names: list[str] = tables["computations"]
        symbols = {tables["entry"]: "main"}
        self._by_symbol = {
            symbols.get(index, f"f.{index}"): name for index, name in enumerate(self._names)
        }
        self.functions = {name: self.functions[symbol] for symbol, name in self._by_symbol.items()}
        self._places = [source_at(file, name, line) for file, name, line in tables["places"]]
        #: The number of the instruction that is being translated.
        self._at = -1

    def function(self, name: str, step: Step) -> Graph:
        """Return the graph of a computation, by its symbol in XLA's translation."""
        return self.graphs[self._by_symbol[name]]

    def called(self, step: Step) -> list[Graph]:
        """Return the computations that an instruction runs."""
        callees = self.tables["callees"].get(self._at)
        if callees is None:  # XLA's parser forgets those of custom calls with layouts
            return [self.graphs[callee] for callee in self._text.callees(self._at)]
        return [self.graphs[self._names[callee]] for callee in callees]

    def region(self, step: Step, number: int) -> Graph:
        """Return the computation that a region is a copy of."""
        return self.called(step)[number]

    @property
    def details(self) -> dict[str, Any]:
        """Attributes of an instruction outside of MLIR's program."""
        return self.tables["details"].get(self._at, {})

    @property
    def place(self) -> dict[str, Any]:
        """The instruction's name, and its line in the text."""
        return {"label": self.tables["names"][self._at], "line": self._line()}

    def located(self, location: Any, problem: str, details: Names, advice: str) -> ImportError_:
        """Return the error for an instruction."""
        problem = _OPERATION.sub("", problem)
        return self._text.refused_at(_number(location), problem, details, advice)

    def translated(self, say: Any = None) -> dict[str, Graph]:
        """Translate all computations; see `Module.translated`."""
        graphs = super().translated(say)
        for index, keys in self.tables["frontend"].items():
            line = self._text.line(self._text.position_of(index))
            self.lost.of_frontend(keys, self.tables["opcodes"][index], line)
        return graphs

    def _order(self) -> list[str]:
        return self._names

    def _operations(self, block: Any) -> Iterator[Any]:
        """Yield the operations in the order of the text, which XLA's translation changes."""
        operations = [view.operation for view in block.operations]
        numbered = [(_number(operation.location), operation) for operation in operations]
        last = numbered.pop()
        numbered.sort(key=itemgetter(0))
        for self._at, operation in [*numbered, last]:
            yield operation

    def _translate(self, operation: Any, name: str, builder: Builder) -> None:
        opcode = self.tables["opcodes"][self._at] if self._at >= 0 else ""
        is_another = name in _STANDING and opcode in STAND_INS
        super()._translate(operation, f"hlo.{opcode}" if is_another else name, builder)

    def _source(self, location: Any) -> Source | None:
        if self._at < 0:
            return None
        place = self.tables["sources"][self._at]
        if place >= 0:
            return self._places[place]
        computation = self._names[self.tables["owners"][self._at]]
        return source_at("<hlo>", computation, self._line())

    def _line(self) -> int:
        return self._text.line(self._text.position_of(self._at))

    def _as_declared(self, step: Step, results: Sequence[Value]) -> Sequence[Value]:
        """Return one value for an instruction: its leaves as a tuple if it is declared as one."""
        declared = step.results
        if len(declared) > 1 or [isinstance(result.shape, TupleShape) for result in results] == [
            isinstance(shape, TupleShape) for shape in declared
        ]:
            return results
        return step.builder.from_leaves(declared, results)

    def _check_declared(self, step: Step, what: str, mlir_value: Any, value: Value) -> None:
        is_start = self._at >= 0 and self.tables["opcodes"][self._at].endswith(_LOOSE)
        # Contexts of asynchronous operations differ from backend to backend.
        if not (is_start or isinstance(value.shape, TupleShape)):
            super()._check_declared(step, what, mlir_value, value)


def _number(location: Any) -> int:
    """Return the number of the instruction that an operation comes from; -1 if unknown."""
    name = getattr(location, "name_str", "")
    number = name[1:].partition(".")[0]
    return int(number) if number.isdigit() else -1
