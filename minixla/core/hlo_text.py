"""HLO text of a graph, as XLA prints programs, with the user's lines as metadata.

XLA's own parser reads it back, constants of more than 16 elements aside: they are elided.
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
    """Writes computations and their instructions; operations' `hlo` rules call it."""

    def __init__(self) -> None:
        self._count = 0
        self._source: Source | None = None
        # By identity of the graph, which is held, and the form in which it is called.
        self._names: dict[tuple[int, bool], tuple[str, Graph]] = {}
        self._pending: list[tuple[Graph, bool]] = []
        # Of the computation that is being written: its instructions, the names of values or, where
        # they come in a tuple, that tuple's name and their place, and the computations called.
        self._lines: dict[str, str] = {}
        self._values: dict[int, str] = {}
        self._tuples: dict[int, tuple[str, int]] = {}
        self._called: set[str] = set()

    def module(self, graph: Graph) -> str:
        """The program as an HLO module, computations that it calls before it."""
        name = identifier(graph.name, ".-")
        texts = {name: f"ENTRY {self._computation(graph, name, False)}"}
        callees = {name: self._called}
        while self._pending:
            callee, by_tuple = self._pending.pop()
            symbol, _ = self._names[id(callee), by_tuple]
            texts[symbol] = self._computation(callee, symbol, by_tuple)
            callees[symbol] = self._called
        # XLA's parser knows a computation only after its definition.
        order = TopologicalSorter({k: sorted(v) for k, v in callees.items()}).static_order()
        return (
            "\n\n".join([f"HloModule {name}", *[texts[computation] for computation in order]])
            + "\n"
        )

    def computation(self, graph: Graph, by_tuple: bool = False) -> str:
        """A reference (`%body.7`) to a computation that the module will hold.

        Results that are not single come back as a tuple; inputs are given in one `by_tuple` (unless
        there is just one), as to bodies of loops and branches.
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
        """Appends one instruction; returns the name of its result.

        Operands are names that instructions have been given, for a constant the literal's text;
        attributes are as `attribute` takes them, under HLO's names, and None leaves one out.
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
        """Appends a constant; one repeated value is a scalar and a broadcast of it."""
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
        """Several values as one tuple, one value as itself: what `by_tuple` computations take."""
        if len(operands) == 1:
            return operands[0]
        return self.instruction("tuple", operands, TupleShape(shapes))

    def attribute(self, value: object) -> str:
        """An attribute's value in HLO text; strings are taken as that already."""
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
        """The name of a value; one of several is taken out of its tuple when first read."""
        name = self._values.get(id(value))
        if name is None:
            owner, index = self._tuples[id(value)]
            name = self.instruction("get-tuple-element", [owner], value.shape, index=index)
            self._values[id(value)] = name
        return name


def quoted(text: str) -> str:
    """`text` as a string in HLO, with its quotes."""
    return _quoted(text, "03o")


def _joint_shape(shapes: Sequence[AnyShape]) -> AnyShape:
    """One result is itself; several, or none, come as a tuple."""
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


def _real_hlo(value: SupportsFloat) -> str:
    # The shortest digits that read back as the same value of the same type.
    number = float(value)
    if number == 0:  # XLA's parser reads -0 as an integer
        return "-0.0" if math.copysign(1, number) < 0 else "0"
    text = str(value) if isinstance(value, np.floating) else repr(number)
    # It reads in double first: rounded up, the largest f32 would be out of range.
    is_rounded_up = abs(float(text)) > abs(number)
    return (repr(number) if is_rounded_up else text).removesuffix(".0")
