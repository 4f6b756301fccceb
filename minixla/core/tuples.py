"""Tuples as values outside graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class TupleValue:
    """What a value of tuple shape is where nothing is staged; in a graph it is a traced value.

    As a tangent or cotangent it may hold None, for a member whose is zero.

    Attributes:
        elements: the members: values of any trace, TupleValues among them.
    """

    __slots__ = ("elements",)

    def __init__(self, elements: Sequence[Any]) -> None:
        self.elements = tuple(elements)

    def __repr__(self) -> str:
        return f"TupleValue{self.elements!r}"
