"""What MLIR writes in StableHLO for operations of the chlo dialect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape
from minixla.interop.reading import legalised, read_module

_PASSES = "chlo-legalize-to-stablehlo"


@lru_cache(maxsize=1024)
def decomposition(
    name: str, operands: tuple[AnyShape, ...], results: tuple[AnyShape, ...], attributes: str
) -> Graph:
    """The program that an operation stands for.

    Args:
        name: with its dialect, `chlo.sinh`.
        operands: shapes.
        results: shapes.
        attributes: MLIR's text, without braces.

    Raises:
        ImportError_: MLIR has none.
    """
    from minixla.interop.module import Module  # it reads operations by this

    module = read_module(_text(name, operands, results, attributes))
    legalised(module, _PASSES)
    translated = Module(module)
    translated.translate()
    return translated.graphs["main"]


def _text(
    name: str, operands: Sequence[AnyShape], results: Sequence[AnyShape], attributes: str
) -> str:
    given = ", ".join([f"%{i}: {shape.stablehlo}" for i, shape in enumerate(operands)])
    names = ", ".join([f"%{i}" for i in range(len(operands))])
    types = ", ".join([shape.stablehlo for shape in operands])
    outcome = ", ".join([shape.stablehlo for shape in results])
    properties = f" <{{{attributes}}}>" if attributes else ""
    back = ", ".join([f"%r#{index}" for index in range(len(results))])
    return (
        f"func.func @main({given}) -> ({outcome}) {{\n"
        f'%r:{len(results)} = "{name}"({names}){properties} : ({types}) -> ({outcome})\n'
        f"return {back} : {outcome}\n}}"
    )
