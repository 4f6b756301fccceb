"""Find the values of a graph that XLA may compute during compilation, and their numbers if known.

XLA folds operations on constants after it has inlined calls and removed loops of one iteration. Its
simplifier turns `x - x`, `x * 0` and similar expressions into constants. A value that is wrongly
counted as a constant costs a barrier. A constant that is missed may make the result wrong.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minixla.core.attributes import Literal
from minixla.core.errors import MinixlaError
from minixla.core.graph import Graph, Instruction, Value, remembered
from minixla.core.registry import operation_named
from minixla.core.shapes import Shape, repeated_scalar
from minixla.core.tracing import nested
from minixla_ops.control_flow.conditional import Conditional
from minixla_ops.control_flow.loops import While
from minixla_ops.elementwise.comparisons import Comparison
from minixla_ops.elementwise.selection import Select
from minixla_ops.programs.call import Call
from minixla_ops.programs.composite_call import OptimizationBarrier
from minixla_ops.programs.runs_programs import CallsProgram, RunsPrograms


def classes(names: str) -> tuple[type[Any], ...]:
    """Return the classes of operations for a string of names separated by spaces."""
    return tuple([operation_named(name, "minixla_ops") for name in names.split()])


#: Operations that move, repeat or drop elements of their operand without changing them.
MOVES = classes("Broadcast BroadcastInDim Reshape Transpose Rev Slice Copy")
# If both operands are equal, XLA knows the result: 0, or the value of the comparison.
_ALIKE = classes("Sub Xor Rem Eq Ne Ge Gt Le Lt")
# An operand of zeros or ones, or a divisor of 1, determines the result.
_ZERO, _ONES, _UNIT = classes("Mul And"), classes("Or"), classes("Rem")
# Unsigned numbers are never below 0.
_BOUNDED = (*classes("Min Max"), Comparison)
_SHIFTS = classes("ShiftLeft ShiftRightLogical")
_PADS, _PARTS = classes("Pad ConcatInDim"), classes("Slice DynamicSlice Gather")
# Limits on the evaluation of constants.
_MOST_STEPS, _MOST_ELEMENTS = 24, 1 << 16
# Operations that may be constants although some operands are not: for integers, and for all types.
_EXACT = frozenset(
    (*_ALIKE, *_ZERO, *_ONES, *_UNIT, *classes("Min Max"), *_SHIFTS, *Comparison.__subclasses__())
)
_CHOICES = frozenset((Select, *Select.__subclasses__(), *_PARTS))
# The depth in instructions to which two values are compared.
_DEPTH = 4


class Fact(NamedTuple):
    """Facts about an input of a program, known from its call.

    Attributes:
        is_constant: whether XLA may know the value during compilation.
        number: the bytes of the scalar that a constant repeats; bytes, because -0 equals +0.
        notes: facts for rules about the value passed to the input, by name.
    """

    is_constant: bool = False
    number: bytes | None = None
    notes: tuple[tuple[str, Any], ...] = ()

    def __or__(self, other: "Fact") -> "Fact":
        number = self.number if self.number == other.number else None
        notes = {**dict(self.notes), **dict(other.notes)}
        return Fact(self.is_constant or other.is_constant, number, tuple(notes.items()))


NOTHING, CONSTANT = Fact(), Fact(True)


class Constants:
    """The values of one graph that count as constants.

    Args:
        graph: the graph.
        inputs: the facts about each input where the graph is called.
    """

    def __init__(self, graph: Graph, inputs: Sequence[Fact]) -> None:
        self._known: dict[Value, bool] = {}
        self._arrays: dict[Value, np.ndarray | None] = {}
        self.facts = dict(zip(graph.inputs, inputs, strict=True))
        for value, fact in self.facts.items():
            self._known[value] = fact.is_constant or value.literal is not None
            if fact.number is not None and isinstance(value.shape, Shape):
                number = np.frombuffer(fact.number, value.shape.dtype)[0]
                self._arrays[value] = repeated_scalar(number, value.shape.dimensions)

    def note(self, value: Value, name: str) -> Any:
        """Return a note about the value passed to an input, or None."""
        fact = self.facts.get(value)
        return None if fact is None or not fact.notes else dict(fact.notes).get(name)

    def array(self, value: Value) -> np.ndarray | None:
        """Return the numbers of a constant if it is small and does not depend on an input."""
        arrays = self._arrays
        if value in arrays:
            return arrays[value]
        splat = _splat_array(value)
        if splat is not None or not self._may_be_short(value) or not self(value):
            arrays[value] = splat
            return splat
        pending, count = [value], 0
        while pending:
            current = pending[-1]
            if current in arrays:
                pending.pop()
                continue
            step, count = current.instruction, count + 1
            splat, literal = _splat_array(current), current.literal
            if splat is not None:
                arrays[current] = splat
                continue
            if literal is not None:
                arrays[current] = literal.array if _is_known(literal) else None
                continue
            waiting = [] if step is None else [x for x in step.operands if x not in arrays]
            if waiting and count < _MOST_STEPS:
                pending.extend(waiting)
            else:
                arrays[current] = None if step is None or waiting else self._evaluated(step)
        return arrays[value]

    def _may_be_short(self, value: Value) -> bool:
        """Return whether a value depends on few instructions and no input.

        Most values depend on more instructions, so this saves a visit of all of them.
        """
        pending = [value]
        for _ in range(_MOST_STEPS):
            if not pending:
                return True
            current = pending.pop()
            if current in self._arrays:
                if self._arrays[current] is None:
                    return False
                continue
            step = current.instruction
            if step is not None:
                pending.extend(step.operands)
            elif not self._known.get(current, False):
                return False
        return not pending

    def _evaluated(self, step: Instruction) -> np.ndarray | None:
        operand_arrays = [self._arrays[operand] for operand in step.operands]
        is_simple = (
            step.single and step.op.is_plain and step.operands and _is_small(step.results[0])
        )
        if not is_simple or any(array is None for array in operand_arrays):
            return None
        try:
            return np.asarray(step.op.reference(*operand_arrays))
        except (MinixlaError, NotImplementedError):
            return None

    def __call__(self, value: Value) -> bool:
        """Return whether XLA may know the value during compilation."""
        flags_of, pending = self._known, [value]
        while pending:
            current = pending[-1]
            if current in flags_of:
                pending.pop()
                continue
            step = current.instruction
            if step is None or step.op.__class__ is OptimizationBarrier:
                flags_of[current] = False
                continue
            flags = [flags_of.get(operand) for operand in step.operands]
            if False in flags and _needs_all(step):
                flags_of[current] = False
                continue
            if None in flags:
                pending.append(step.operands[flags.index(None)])
                continue
            flags_of[current] = self._of_result(step, current.index)
        return flags_of[value]

    def _of_result(self, step: Instruction, index: int) -> bool:
        flags = [self._known[operand] for operand in step.operands]
        if all(flags):
            return True
        shape = step.shapes[index]
        if isinstance(shape, Shape) and any(
            isinstance(operand.shape, Shape) and operand.shape.size == 0
            for operand in step.operands
        ):
            return True
        if isinstance(step.op, RunsPrograms):
            return _of_program(step, flags, index)
        return _simplified(step, flags)


def _needs_all(step: Instruction) -> bool:
    """Return whether an instruction is a constant only if all operands are, which most are."""
    kind = type(step.op)
    if not step.op.is_plain or kind in _CHOICES:
        return False
    if kind not in _EXACT:
        return True
    shape = step.operands[0].shape
    assert isinstance(shape, Shape), "operands of these operations must be arrays"
    return shape.element_type.is_inexact


def _of_program(step: Instruction, flags: Sequence[bool], index: int) -> bool:
    """Return whether a call, branch or loop has a constant result although some operands vary."""
    programs = step.op.computations
    if isinstance(step.op, While):
        body = step.op.body
        return flags[index] and body.inputs[index] is body.outputs[index]
    if isinstance(step.op, (Call, Conditional)):
        facts = [CONSTANT if flag else NOTHING for flag in flags]
        inputs = [inputs_of(step, number, facts) for number in range(len(programs))]
        with nested():
            pairs = zip(programs, inputs, strict=True)
            return all(
                _is_constant_output(program, program_inputs, index)
                for program, program_inputs in pairs
            )
    return False


@remembered
def _is_constant_output(graph: Graph, inputs: tuple[Fact, ...], index: int) -> bool:
    return Constants(graph, inputs)(graph.outputs[index])


def inputs_of(step: Instruction, program: int, facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return the facts about the inputs of a program that an instruction runs.

    XLA removes loops of one iteration, so the initial values of a loop count as constants.
    """
    count = len(step.op.computations[program].inputs)
    if isinstance(step.op, RunsPrograms) and not isinstance(step.op, CallsProgram):
        # Later iterations and other branches have other numbers.
        facts = [fact._replace(number=None) for fact in facts]
    if len(facts) == count:
        return tuple(facts)
    if isinstance(step.op, Conditional):
        return tuple(facts[1:])
    return (CONSTANT if any(fact.is_constant for fact in facts) else NOTHING,) * count


def _simplified(step: Instruction, flags: list[bool]) -> bool:
    """Return whether XLA's simplifier makes an instruction with a varying operand constant."""
    op, operands = step.op, step.operands
    shape = operands[0].shape
    if not isinstance(shape, Shape):
        return False
    if len(operands) == 2 and not shape.element_type.is_inexact:
        is_unsigned = shape.element_type.kind in ("unsigned", "pred")
        return (
            (isinstance(op, _ALIKE) and is_same(operands[0], operands[1]))
            or (isinstance(op, _ZERO) and any(holds_only(operand, 0) for operand in operands))
            or (isinstance(op, _ONES) and any(map(_has_all_bits, operands)))
            or (isinstance(op, _UNIT) and holds_only(operands[1], 1))
            or (isinstance(op, _BOUNDED) and is_unsigned and any(flags))
            or (isinstance(op, _SHIFTS) and flags[1])
        )
    if isinstance(op, Select):
        _, first, second = step.operands
        return any(flags[1:]) if flags[0] else all(flags[1:]) or is_same(first, second)
    if isinstance(op, _PARTS):
        padded = operands[0].instruction
        is_padding = padded is not None and isinstance(padded.op, _PADS)
        return is_padding or (flags[0] and splat_of(operands[0]) is not None)
    return False


def _has_all_bits(value: Value) -> bool:
    number = splat_of(value)
    return number is not None and bool(~np.asarray(number) == 0)


def is_same(first: Value, second: Value, depth: int = _DEPTH) -> bool:
    """Return whether two values are computed in the same way, so that XLA merges them."""
    if first is second:
        return True
    one, other = first.instruction, second.instruction
    if one is None or other is None or first.index != second.index or not depth:
        return False
    if first.literal is not None and second.literal is not None:
        are_known = _is_known(first.literal) and _is_known(second.literal)
        return are_known and first.literal == second.literal
    if one.op is not other.op or len(one.operands) != len(other.operands):
        return False
    pairs = zip(one.operands, other.operands, strict=True)
    return all(is_same(*pair, depth - 1) for pair in pairs)


def literal_of(value: Value) -> Literal | None:
    """Return the constant whose elements a value consists of, in any arrangement."""
    moves: Any = MOVES
    while value.literal is None:
        step = value.instruction
        if step is None or not isinstance(step.op, moves):
            return None
        value = step.operands[0]
    return value.literal


def splat_of(value: Value) -> Any:
    """Return the number that a constant repeats, as a NumPy scalar; None for other values."""
    literal = literal_of(value)
    if literal is None or not literal.shape.size or not _is_known(literal):
        return None
    if literal.is_splat:
        return literal.scalar
    array = literal.array
    first = array.flat[0]
    # Compare bytes, because -0 equals +0.
    return first if array.tobytes() == first.tobytes() * array.size else None


def _splat_array(value: Value) -> np.ndarray | None:
    """Return the array of a constant that repeats one number; None for other values."""
    number = splat_of(value)
    if number is None or not isinstance(value.shape, Shape):
        return None
    return repeated_scalar(number, value.shape.dimensions)


def distinct(array: np.ndarray) -> np.ndarray:
    """Return the elements of an array; only one if the array repeats it."""
    repeats = array.size > 0 and not any(array.strides)
    return array[(*[slice(1)] * array.ndim, ...)] if repeats else array


def _is_known(literal: Literal) -> bool:
    """Return whether the numbers are in this process's memory, and few enough to read."""
    is_host = isinstance(literal.data, np.ndarray)
    return is_host and (literal.is_splat or literal.shape.size <= _MOST_ELEMENTS)


def holds_only(value: Value, number: Any) -> bool:
    """Return whether a value is a constant that repeats one number."""
    repeated = splat_of(value)
    return repeated is not None and bool(repeated == number)


def _is_small(value: Value) -> bool:
    return isinstance(value.shape, Shape) and value.shape.size <= _MOST_ELEMENTS
