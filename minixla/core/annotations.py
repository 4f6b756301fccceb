"""Metadata of programs: shardings of values, and paths of pytree leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from minixla.core.graph import Value


@dataclass(frozen=True)
class Annotations:
    """The shardings that a program states for its values; the core only carries them.

    Attributes:
        values: the shardings of inputs and of instructions' results.
        outputs: for each output, its sharding as a result of the function, or None; or empty.
        meshes: the meshes that the program names.
        rules: the sharding rules stated at instructions, by the first result.
    """

    values: Mapping[Value, Any] = field(default_factory=dict)
    outputs: Sequence[Any] = ()
    meshes: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[Value, Any] = field(default_factory=dict)


class Paths(NamedTuple):
    """The paths of pytree leaves that name a program's inputs and outputs.

    Attributes:
        arguments: a path for each input, such as `args[0]['w']`.
        results: a path for each output, such as `result[0]`.
    """

    arguments: Sequence[str] = ()
    results: Sequence[str] = ()

    def argument(self, index: int) -> str:
        """Return the path of an input, or its index if it has no path."""
        return self.arguments[index] if index < len(self.arguments) else f"input {index}"

    def result(self, index: int) -> str:
        """Return the path of an output, or its index if it has no path."""
        return self.results[index] if index < len(self.results) else f"result {index}"


#: The paths of a program whose inputs and outputs are only numbered.
UNNAMED = Paths()
