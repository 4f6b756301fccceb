"""Metadata of programs: shardings of values, paths of leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from minixla.core.graph import Value


@dataclass(frozen=True)
class Annotations:
    """How a program says that its values lie over devices; the core only carries it.

    Attributes:
        values: the sharding of an input or of an instruction's result.
        outputs: for each output its sharding as a result of the function, or None; or nothing.
        meshes: the meshes that the program names.
        rules: the sharding rule that stands at an instruction, by its first result.
    """

    values: Mapping[Value, Any] = field(default_factory=dict)
    outputs: Sequence[Any] = ()
    meshes: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[Value, Any] = field(default_factory=dict)


class Paths(NamedTuple):
    """What users call the inputs and outputs of a program: the paths of leaves of pytrees.

    Attributes:
        arguments: for each input, such as `args[0]['w']`.
        results: for each output, such as `result[0]`.
    """

    arguments: Sequence[str] = ()
    results: Sequence[str] = ()

    def argument(self, index: int) -> str:
        """Return the path of an input, or its number if it has no path."""
        return self.arguments[index] if index < len(self.arguments) else f"input {index}"

    def result(self, index: int) -> str:
        """Return the path of an output, or its number if it has no path."""
        return self.results[index] if index < len(self.results) else f"result {index}"


#: The paths of a program whose inputs and outputs have only numbers.
UNNAMED = Paths()
