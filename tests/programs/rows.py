"""What a row of the table of random programs is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import minixla_ops as ops
from tests.programs.draft import Draft

Call = tuple[Sequence[Any], dict[str, Any]]


class Row(NamedTuple):
    """How to draw a call of a builder.

    Attributes:
        name: the builder's.
        call: draws arguments; None where there is no fitting call.
        interpreted: whether StableHLO's interpreter can run it.
        is_basic: whether programs inside programs have it too.
        function: what is called in place of the builder.
    """

    name: str
    call: Callable[[Draft], Call | None]
    interpreted: bool = True
    is_basic: bool = True
    function: Callable[..., Any] | None = None

    @property
    def builder(self) -> Callable[..., Any]:
        """The function that makes a row's results: by default that of the operation set."""
        return self.function or getattr(ops, self.name)


TABLE: dict[str, Row] = {}


def row(*names: str, interpreted: bool = True, is_basic: bool = True) -> Callable[..., Any]:
    """Makes a function that draws a call the row of these builders."""

    def decorated(call: Callable[[Draft], Call | None]) -> Callable[[Draft], Call | None]:
        for name in names:
            add_row(name, call, interpreted, is_basic)
        return call

    return decorated


def add_row(
    name: str,
    call: Callable[[Draft], Call | None],
    interpreted: bool = True,
    is_basic: bool = True,
) -> None:
    """Adds a row."""
    TABLE[name] = Row(name, call, interpreted, is_basic)
