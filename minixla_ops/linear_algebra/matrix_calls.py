"""Calls of LAPACK and cuSOLVER that replace operations."""

from collections.abc import Mapping, Sequence

from minixla.core.attributes import Integer, ShapeAttribute, Text, attribute
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.operation import Operation
from minixla.core.shapes import Shape
from minixla.typing import Array
from minixla_ops.helpers.shorthand import as_results
from minixla_ops.linear_algebra.lapack_calls import lapack_layout, sharding_hints


class MatrixCall(Operation):
    """A call of compiled code on stacks of column-major matrices.

    Attributes:
        target: the target name of the code.
        config: the attributes of the call in MLIR's notation.
        results: the shapes of the results.
        over: the operand that LAPACK overwrites with its first result if their shapes are equal.
    """

    operands = ("operands...",)
    target: str = attribute(Text())
    config: str = attribute(Text())
    results: tuple[Shape, ...] = attribute(SequenceOf(ShapeAttribute()))
    over: int = attribute(Integer(0), default=0)

    def shape(self, *operands):
        return as_results(self.results)

    def stablehlo(self, emit, operands, shapes, results):
        # Otherwise, the code would copy the operand; XLA copies it only if it is read later.
        is_in_place = self.target.startswith("lapack_") and results[0] is shapes[self.over]
        batch = shapes[0].rank - 2
        layouts = [
            [lapack_layout(shape.rank - batch, batch) for shape in side]
            for side in (shapes, results)
        ]
        return emit.custom_call(
            self.target,
            operands,
            shapes,
            results,
            f"{{{self.config}}}",
            layouts,
            hints=sharding_hints(batch, shapes, results),
            aliases={self.over: 0} if is_in_place else None,
        )


def library_call(
    target: str,
    options: Mapping[str, str],
    operands: Sequence[Sequence[Array]],
    results: Sequence[Shape],
    over: int = 0,
) -> tuple[Array, ...]:
    """Call a routine of a library and return its results.

    Args:
        target: the target name of the code.
        options: the attributes of the call, each in MLIR's notation.
        operands: stacks of matrices.
        results: the shapes of the results.
        over: the operand that LAPACK may overwrite with the first result.
    """
    config = ", ".join([f"{name} = {text}" for name, text in options.items()])
    call = MatrixCall(target, config, tuple(results), over)
    found = call(*operands)
    return found if len(results) > 1 else (found,)
