"""Start indices of slices, gathers and scatters."""

from minixla.legalize.constants import classes
from minixla.legalize.cpu.barriers import on_hidden, type_of
from minixla.legalize.registry import legalize


def _starts(operation, operands):
    if operation.name == "Scatter":
        return [operation_index(operation, operands)]
    return list(range(2 if operation.name == "DynamicUpdateSlice" else 1, len(operands)))


def operation_index(operation, operands):
    """The number of the operand of a scatter that holds indices."""
    return (len(operands) - 1) // 2


def _has_unsigned_start(operation, operands, target):
    starts = [operands[i] for i in _starts(operation, operands)]
    unsigned = [each for each in starts if type_of(each).kind == "unsigned"]
    return any(map(target.is_constant, unsigned))


@legalize(
    classes("DynamicSlice DynamicUpdateSlice Gather Scatter"), "cpu", when=_has_unsigned_start
)
def unsigned_starts(operation, operands, target):
    """XLA takes unsigned constant starts from half of the range on for negative, and clamps to 0."""
    return on_hidden(operation, operands, *_starts(operation, operands))
