"""stochastic-convert of HLO, which has no operation, as a program of operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from minixla.core.element_types import ElementType
from minixla.core.graph import Graph, Value
from minixla.core.shapes import Shape
from minixla.core.tracing import trace_to_graph
from minixla.interop.step import Step
from minixla_ops import abs as magnitude_of
from minixla_ops import convert_element_type, lt, ne, select
from minixla_ops.vocabulary.shorthand import full_like


def stochastic_convert(step: Step) -> Sequence[Value]:
    """Floats to integers, rounded away from zero as often as random bits are below the fraction."""
    (operand, random), result = step.shapes, step.result
    kinds = operand.element_type, random.element_type, result.element_type
    wanted = kinds[0].is_float, kinds[1].kind, kinds[2].kind, kinds[1].bits
    if wanted != (True, "unsigned", "signed", kinds[0].bits):
        step.reject(
            f"{operand} and {random} do not convert to {result}",
            "It takes floats and random unsigned integers of as many bits, and gives signed ones.",
        )
    graph = _rounded_by_chance(operand, random, result.element_type)
    return step.builder.inline(graph, step.operands)


@lru_cache(maxsize=64)
def _rounded_by_chance(operand: Shape, random: Shape, kind: ElementType) -> Graph:
    low, high = -(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1
    # In two steps, each exact: for f16 the whole power is out of range.
    half = 2.0 ** (operand.element_type.bits // 2)

    def function(x: Any, bits: Any) -> list[Any]:
        size = magnitude_of(x)
        whole = convert_element_type(size, kind)
        fraction = size - convert_element_type(whole, operand.element_type)
        scaled = fraction * full_like(x, half) * full_like(x, half)
        up = lt(bits, convert_element_type(scaled, random.element_type))
        rounded = whole + convert_element_type(up, kind)
        signed = select(lt(x, full_like(x, 0)), -rounded, rounded)
        highest, lowest = (full_like(signed, each) for each in (high, low))
        found = select(lt(x, full_like(x, high)), signed, highest)
        found = select(lt(full_like(x, low), x), found, lowest)
        return [select(ne(x, x), full_like(signed, 0), found)]

    return trace_to_graph(function, [operand, random], "stochastic_convert")[0]
