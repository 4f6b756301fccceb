"""Graphs under construction from MLIR blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.graph import Annotations, Graph, Instruction, Value
from minixla.core.operation import REGISTRY, Operation, Shapes
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.core.source import Source
from minixla.interop.values import shape_of_type
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.reference_evaluation import reference_graph

# Sizes of shapes are computed when they need no more instructions than this.
_MOST_FOLDED = 1000
_SMALL = 4096
_SIZE = "GetDimensionSize"


class Builder:
    """A builder of one graph, with a map from MLIR's values to ours.

    Values of an enclosing builder are captured: constants are copied, and others become inputs
    after
    the block's own.
    """

    def __init__(self, parent: Builder | None = None) -> None:
        self.parent = parent
        self.inputs: list[Value] = []
        self.instructions: list[Instruction] = []
        # By the hash of MLIR's values, their addresses, because keeping them alive takes longer.
        self._values: dict[int, Any] = {}
        #: Values of the parent that were captured, and their inputs here.
        self.captured: dict[int, tuple[Value, Value]] = {}
        #: True if constants of the parent are copied.
        self.copies_constants = True
        self.source: Source | None = None
        #: Instructions that only gave sizes, which are dropped if nothing else reads them.
        self.folded: set[int] = set()
        #: The shardings of values that the program states.
        self.shardings: dict[Value, Any] = {}
        #: The sharding rules of instructions, by their first results.
        self.rules: dict[Value, Any] = {}
        #: For a region: its results, and a name for its graph.
        self.outputs: list[Value] = []
        self.name = ""

    def add_input(self, mlir_value: Any) -> None:
        """Add an input for an argument of a block, unless it is a known constant."""
        if not self.knows(mlir_value):
            value = Value(shape_of_type(mlir_value.type), None, len(self.inputs))
            self.inputs.append(value)
            self.define(mlir_value, value)

    def knows(self, mlir_value: Any) -> bool:
        """Test whether an MLIR value already has a value here."""
        return hash(mlir_value) in self._values

    def define(self, mlir_value: Any, value: Any) -> None:
        """Set our value for an MLIR value."""
        key = hash(mlir_value)
        assert key not in self._values, "the hash of a value is its address"
        self._values[key] = value

    def redefine(self, mlir_value: Any, value: Value) -> None:
        """Replace our value for an MLIR value in what follows."""
        self._values[hash(mlir_value)] = value

    def value(self, mlir_value: Any) -> Any:
        """Return our value for an MLIR value."""
        found = self._values.get(hash(mlir_value))
        if found is None:
            assert self.parent is not None, "MLIR's verifier checks that operands dominate"
            found = self._capture(self.parent.value(mlir_value))
            self.define(mlir_value, found)
        return found

    def values_of(self, mlir_values: Any) -> list[Any]:
        """Return our values for MLIR values."""
        values = self._values
        # Use indices, because MLIR ends a loop over it with an exception.
        return [
            values.get(hash(mlir_value := mlir_values[index])) or self.value(mlir_value)
            for index in range(len(mlir_values))
        ]

    def _capture(self, outer: Value) -> Value:
        known = self.captured.get(id(outer))
        if known is not None:
            return known[1]
        step = outer.instruction
        if self.copies_constants and step is not None and step.op.name == "Constant":
            return self.apply(step.op, ())[0]
        inner = Value(outer.shape, None, -1)
        self.captured[id(outer)] = outer, inner
        return inner

    def apply(self, operation: Operation, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Add an instruction and return its results."""
        shapes = tuple([value.shape for value in operands])
        return self.add(operation, operands, operation.infer(shapes))

    def add(
        self, operation: Operation, operands: Sequence[Value], shapes: Shapes
    ) -> tuple[Value, ...]:
        """Add an instruction whose result shapes are known."""
        step = Instruction(operation, tuple(operands), shapes, self.source)
        self.instructions.append(step)
        return step.results

    def bind(self, name: str, *operands: Value, **attributes: Any) -> Value:
        """Add an instruction of the operation with XLA's name `name`; return its only result."""
        return self.apply(REGISTRY[name](**attributes), operands)[0]

    def constant(self, number: Any, shape: Shape) -> Value:
        """Add a constant that repeats a number."""
        return self.bind("Constant", literal=Literal.splat(number, shape))

    def inline(self, graph: Graph, operands: Sequence[Value]) -> list[Value]:
        """Add copies of a graph's instructions and return the results."""
        values = dict(zip(map(id, graph.inputs), operands, strict=True))
        for step in graph.instructions:
            given = [values[id(value)] for value in step.operands]
            results = self.apply(step.op, given)
            values.update(zip(map(id, step.results), results, strict=True))
        return [values[id(value)] for value in graph.outputs]

    def leaves(self, *values: Value) -> list[Value]:
        """Return values, with tuples replaced by their members at all levels."""
        leaves_found: list[Value] = []
        for value in values:
            if isinstance(value.shape, TupleShape):
                for index in range(len(value.shape.elements)):
                    leaves_found += self.leaves(self.member(value, index))
            else:
                leaves_found.append(value)
        return leaves_found

    def member(self, value: Value, index: int) -> Value:
        """Return a member of a tuple: the value itself if the tuple was built here."""
        made = value.instruction
        if made is not None and made.op.name == "Tuple":
            return made.operands[index]
        return self.bind("GetTupleElement", value, index=index)

    def packed(self, members: Sequence[Value]) -> Value:
        """Return a tuple, which is dropped if only its members are read."""
        value = self.bind("Tuple", *members)
        self.folded.add(id(value.instruction))
        return value

    def from_leaves(self, shapes: Iterable[AnyShape], leaves: Iterable[Value]) -> list[Value]:
        """Return values of the given shapes from all their leaves."""
        rest = iter(leaves)
        return [
            self.packed(self.from_leaves(shape.elements, rest))
            if isinstance(shape, TupleShape)
            else next(rest)
            for shape in shapes
        ]

    def known(self, value: Value) -> np.ndarray | None:
        """Return the number that a small value always has; None if it depends on inputs."""
        needed: set[int] = set()
        measured: list[Value] = []
        pending = [value]
        while pending:
            current = pending.pop()
            step = current.instruction
            if step is None or not _is_foldable(current, step) or len(needed) > _MOST_FOLDED:
                return None
            if id(step) not in needed:
                needed.add(id(step))
                (measured if step.op.name == _SIZE else pending).extend(step.operands)
        self.folded |= needed
        steps = [step for step in self.instructions if id(step) in needed]
        # Only the shapes of values whose sizes are read matter.
        shapes = [array_shape(value) for value in measured]
        zeros = [np.broadcast_to(np.zeros((), x.dtype), x.dimensions) for x in shapes]
        with np.errstate(all="ignore"):
            return np.asarray(reference_graph(Graph(measured, steps, [value], ""), zeros)[0])

    @property
    def captures(self) -> list[Value]:
        """The inputs for values of the parent."""
        return [inner for _, inner in self.captured.values()]

    def graph(
        self,
        outputs: Sequence[Value] | None = None,
        name: str = "",
        placed: Sequence[Any] = (),
        meshes: Mapping[str, Any] | None = None,
    ) -> Graph:
        """Return the graph, by default that of a region; captured values are its last inputs.

        `placed` are the shardings of a function's results, and `meshes` those of its module.
        """
        inputs, outputs = [*self.inputs, *self.captures], outputs or self.outputs
        for index, value in enumerate(inputs):
            value.index = index
        kept = self.instructions
        if self.folded:
            read, kept = {id(value.instruction) for value in outputs}, []
            for step in reversed(self.instructions):
                if id(step) not in self.folded or id(step) in read:
                    kept.append(step)
                    read.update([id(operand.instruction) for operand in step.operands])
            kept.reverse()
        placed = placed if any(sharding is not None for sharding in placed) else ()
        notes = Annotations(self.shardings, tuple(placed), meshes or {}, self.rules)
        is_annotated = any(vars(notes).values())
        return Graph(inputs, kept, outputs, name or self.name, notes if is_annotated else None)


def _is_foldable(value: Value, step: Instruction) -> bool:
    """Test whether a step always returns the same small value."""
    op, shape = step.op, value.shape
    if not isinstance(shape, Shape) or shape.size > _SMALL:
        return False
    if step.has_side_effect or op.computations or op.name in ("ReplicaId", "PartitionID"):
        return False
    return op.name != _SIZE or not array_shape(step.operands[0]).is_dynamic
