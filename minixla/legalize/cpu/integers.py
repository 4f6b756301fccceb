"""Integer arithmetic that XLA:CPU folds or simplifies wrongly."""

from minixla.legalize.constants import classes
from minixla.legalize.cpu.barriers import on_hidden
from minixla.legalize.registry import legalize


@legalize(classes("Clz"), "cpu", when=lambda operation, operands, target: True)
def count_of_leading_zeros(operation, operands, target):
    """XLA's folder counts the leading zeros of constants in 64 bits, so that some are negative."""
    return on_hidden(operation, operands)
