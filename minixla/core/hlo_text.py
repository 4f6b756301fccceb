"""HLO text of a graph, as XLA prints programs, with the user's lines as metadata.

XLA's parser can read it, except for constants of more than 16 elements, which are elided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from graphlib import TopologicalSorter
from typing import SupportsFloat

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.graph import Graph, Value
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.core.source import Source
from minixla.core.stablehlo_text import identifier, nested_text
from minixla.core.stablehlo_text import quoted as _quoted

# Larger constants are elided, as XLA does.
_ELIDED_ABOVE = 16


class HloEmitter:
    """Write computations and their instructions; called by the `hlo` rules of operations."""

    def __init__(self) -> None:
        self._count = 0
        self._source: Source | None = None
        # Names by the id of the graph, which is kept alive, and the form of the call.
        self._names: dict[tuple[int, bool], tuple[str, Graph]] = {}
        self._pending: list[tuple[Graph, bool]] = []
        # The current computation: its instructions, the names of values (or their tuple's name and
        # index), and the computations that it calls.
        self._values: dict[int, str] = {}
        self._tuples: dict[int, tuple[str, int]] = {}
        self._called: set[str] = set()

    def module(self, graph: Graph) -> str:
        """Return the program as an HLO module; called computations precede it."""
        name = identifier(graph.name, ".-")
        texts = {name: f"ENTRY {self._computation(graph, name, False)}"}
        callees = {name: self._called}
        while self._pending:
            callee, by_tuple = self._pending.pop()
            symbol, _ = self._names[id(callee), by_tuple]
            texts[symbol] = self._computation(callee, symbol, by_tuple)
            callees[symbol] = self._called
        # XLA's parser requires definitions before uses.
        order = TopologicalSorter({k: sorted(v) for k, v in callees.items()}).static_order()
        return (
            "\n\n".join([f"HloModule {name}", *[texts[computation] for computation in order]])
            + "\n"
        )

    def computation(self, graph: Graph, by_tuple: bool = False) -> str:
        """Return a reference (`%body.7`) to a computation of the module.

        Several results (or none) are returned as a tuple. `by_tuple` passes inputs as one tuple
        (unless there is just one), as required for bodies of loops and branches.
        """
        key = (id(graph), by_tuple and len(graph.inputs) != 1)
        name, _ = self._names.get(key, (None, None))
        if name is None:
            name = self._number(identifier(graph.name, ".-"))
            self._names[key] = name, graph
            self._pending.append((graph, key[1]))
        self._called.add(name)
        return f"%{name}"

    def instruction(
        self, opcode: str, operands: Sequence[str], shape: AnyShape, /, **attributes: object
    ) -> str:
        """Append one instruction; return the name of its result.

        Operands are names of instructions; for a constant, the literal's text. Attributes are
        values for `attribute`, under HLO's names; None omits one.
        """
        name = self._number(opcode)
        details = [f", {k}={self.attribute(v)}" for k, v in attributes.items() if v is not None]
        if self._source is not None:
            file, line = quoted(self._source.file), self._source.line
            scope = self._source.scope
            named = f"op_name={quoted(scope)} " if scope else ""
            details.append(f", metadata={{{named}source_file={file} source_line={line}}}")
        self._lines[f"%{name}"] = f"{shape} {opcode}({', '.join(operands)}){''.join(details)}"
        return f"%{name}"

    def constant(self, literal: Literal) -> str:
        """Append a constant; a repeated value is written as a broadcast scalar."""
        shape = literal.shape
        if literal.is_splat and shape.rank > 0:
            scalar = self.constant(Literal.splat(literal.scalar, Shape(shape.element_type)))
            return self.instruction("broadcast", [scalar], shape, dimensions=())
        text = "{...}"
        if shape.size <= _ELIDED_ABOVE:
            numbers = literal.array if shape.rank > 0 else literal.scalar
            text = nested_text(numbers, shape.element_type, _real_hlo, "{}")
        return self.instruction("constant", [text], shape)

    def pack(self, operands: Sequence[str], shapes: Sequence[AnyShape]) -> str:
        """Pack several values into a tuple, for `by_tuple` computations; keep a single value."""
        if len(operands) == 1:
            return operands[0]
        return self.instruction("tuple", operands, TupleShape(shapes))

    def attribute(self, value: object) -> str:
        """Write an attribute's value as HLO text; strings are HLO text already."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, Graph):
            return self.computation(value)
        if isinstance(value, (tuple, list)):
            return f"{{{','.join([self.attribute(element) for element in value])}}}"
        return str(value)

    def _number(self, stem: str) -> str:
        self._count += 1
        return f"{stem}.{self._count}"

    def _computation(self, graph: Graph, name: str, by_tuple: bool) -> str:
        self._lines, self._values, self._tuples, self._called = {}, {}, {}, set()
        self._source = None
        parameters = self._parameters(graph, by_tuple)
        for step in graph.instructions:
            self._source = step.source
            operands = [self._read(value) for value in step.operands]
            shapes = [value.shape for value in step.operands]
            made = step.op.hlo(self, operands, shapes, _joint_shape(step.shapes))
            if len(step.results) == 1:
                self._values[id(step.results[0])] = made
            else:
                self._members(made, step.results)
        self._source = None
        outputs = [self._read(value) for value in graph.outputs]
        result = _joint_shape(graph.output_shapes)
        root = outputs[0] if len(outputs) == 1 else self.instruction("tuple", outputs, result)
        lines = [
            f"  {'ROOT ' if k == root else ''}{k} = {text}\n" for k, text in self._lines.items()
        ]
        return f"%{name} ({parameters}) -> {result} {{\n{''.join(lines)}}}"

    def _parameters(self, graph: Graph, by_tuple: bool) -> str:
        shapes = (TupleShape(graph.input_shapes),) if by_tuple else graph.input_shapes
        names = [self._number(f"arg{index}") for index in range(len(shapes))]
        for index, (name, shape) in enumerate(zip(names, shapes, strict=True)):
            self._lines[f"%{name}"] = f"{shape} parameter({index})"
        if by_tuple:
            self._members(f"%{names[0]}", graph.inputs)
        else:
            pairs = zip(graph.inputs, names, strict=True)
            self._values.update({id(value): f"%{name}" for value, name in pairs})
        return ", ".join([f"{n}: {s}" for n, s in zip(names, shapes, strict=True)])

    def _members(self, owner: str, values: Sequence[Value]) -> None:
        self._tuples.update({id(value): (owner, index) for index, value in enumerate(values)})

    def _read(self, value: Value) -> str:
        """Return the name of a value; extract it from its tuple on first use."""
        name = self._values.get(id(value))
        if name is None:
            owner, index = self._tuples[id(value)]
            name = self.instruction("get-tuple-element", [owner], value.shape, index=index)
            self._values[id(value)] = name
        return name


def quoted(text: str) -> str:
    """Quote a string for HLO."""
    return _quoted(text, "03o")


def _joint_shape(shapes: Sequence[AnyShape]) -> AnyShape:
    """Return a single shape as it is; several shapes, or none, as a tuple shape."""
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


def _real_hlo(value: SupportsFloat) -> str:
    # The shortest digits that parse to the same value of the same type.
    number = float(value)
    if number == 0:  # XLA's parser treats -0 as an integer
        return "-0.0" if math.copysign(1, number) < 0 else "0"
    text = str(value) if isinstance(value, np.floating) else repr(number)
    # XLA parses f64 first: rounded up, the largest f32 would be out of range.
    is_rounded_up = abs(float(text)) > abs(number)
    return (repr(number) if is_rounded_up else text).removesuffix(".0")
