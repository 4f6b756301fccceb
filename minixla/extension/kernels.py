"""Kernels of an operation, by platform and by values of attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from minixla.core.errors import MinixlaError, ShapeError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape
from minixla.core.sharding_rule import ShardingRule
from minixla.core.source import Source
from minixla.extension.attribute_types import ListKind
from minixla.extension.foreign_text import dictionary_text
from minixla.extension.libraries import split_batches
from minixla.extension.stored import VERSION, stored_attributes
from minixla.extension.types import type_name
from minixla_ops.helpers.shorthand import as_results, as_tuple
from minixla_ops.programs.composite_call import CompositeCall
from minixla_ops.programs.lowering import kept_program

if TYPE_CHECKING:
    from minixla.extension.operation import CustomOperation


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel.

    Attributes:
        platform: `reference`, `any`, `cpu`, `cuda`, `rocm` or `tpu`.
        allowed: by attribute, the values that it supports.
        priority: among several kernels, the one with the highest priority is used.
        source: the line that registers it.
    """

    platform: str
    allowed: Mapping[str, tuple[Any, ...]]
    priority: int = 0
    source: Source | None = field(default=None, repr=False)

    @cached_property
    def conditions(self) -> str:
        """The attributes that it supports, as text: `T in {float, int32}`."""
        texts = [f"{name} in {_listed(values)}" for name, values in self.allowed.items()]
        return " and ".join(texts)

    def __str__(self) -> str:
        conditions = f" for {self.conditions}" if self.allowed else ""
        line = f" at {self.source}" if self.source else ""
        return f"the {self.platform} kernel{conditions}{line}"

    def fits(self, operation: CustomOperation) -> bool:
        """Test whether it supports an operation with these attributes."""
        declared = operation.definition.attributes
        for name, allowed in self.allowed.items():
            value = operation.attr(name)
            members = value if isinstance(declared[name].kind, ListKind) else (value,)
            if not all(member in allowed for member in members):
                return False
        return True

    def is_narrower(self, other: Kernel) -> bool:
        """Test whether another kernel supports all attributes that it supports."""
        return all(
            name in self.allowed and set(self.allowed[name]) <= set(values)
            for name, values in other.allowed.items()
        )

    def write(
        self, operation: CustomOperation, emit: Any, operands: Any, shapes: Any, results: Any
    ) -> Sequence[str]:
        """Return the operation in StableHLO; see `Operation.stablehlo`."""
        raise NotImplementedError(f"{type(self).__name__} has no write")


@dataclass(frozen=True, eq=False)
class PythonKernel(Kernel):
    """A function of a context and values: NumPy arrays for `reference`, else traced values."""

    function: Callable[..., Any] = field(kw_only=True, repr=False)

    def write(self, operation, emit, operands, shapes, results):
        """Write a call of the function's program, with the operation's name."""
        program = program_of(operation, self, emit.platform or "", tuple(shapes))
        attributes = dictionary_text(stored_attributes(operation))
        told = operation.name, attributes, operation.registered.version
        return CompositeCall(program, *told).stablehlo(emit, operands, shapes, results)


@lru_cache(maxsize=1024)
def program_of(
    operation: CustomOperation, kernel: PythonKernel, platform: str, shapes: tuple[AnyShape, ...]
) -> Graph:
    """Return a kernel of traced values as a graph; its results must be those declared."""

    def function(*operands: Any) -> Any:
        results = operation.run_python(kernel, operands, platform)
        return as_results(results) if results else ()

    graph = kept_program(function, shapes, operation.builder_name)
    wanted = as_tuple(operation.infer(shapes))
    if graph.output_shapes != wanted:
        problem = f"{kernel} returns other results than declared"
        details = [f"declared: {', '.join(map(str, wanted))}"]
        details.append(f"given: {', '.join(map(str, graph.output_shapes))}")
        advice = "Fix the kernel, or the shape function and the types of the outputs."
        raise explain(ShapeError, operation.builder_name, problem, details, advice)
    return graph


@dataclass(frozen=True, eq=False)
class HostKernel(Kernel):
    """The reference, called on the host."""

    def write(self, operation, emit, operands, shapes, results):
        """Write a call of Python."""

        def function(*arrays: Any) -> Sequence[Any]:
            return as_tuple(operation.reference(*arrays))

        return emit.host_call(function, operands, shapes, results, False)


@dataclass(frozen=True, eq=False)
class ForeignKernel(Kernel):
    """Compiled code that is registered in XLA's typed foreign function interface as `target`."""

    target: str = field(kw_only=True)
    aliases: Mapping[str, str] = field(kw_only=True, default_factory=dict)
    inferred: tuple[str, ...] = field(kw_only=True, default=())

    def write(self, operation, emit, operands, shapes, results):
        """Write one custom call."""
        attributes = stored_attributes(operation, self.inferred if emit.calls_host else None)
        if not emit.calls_host and operation.registered.version:
            attributes += [(VERSION, f"{operation.registered.version} : i32")]
        aliases = self._aliased(operation, shapes, results)
        hints = sharding_hint(self.target, operation, shapes, emit) if emit.calls_host else ""
        told: Any = {"operation": operation, "aliases": aliases, "hints": hints}
        config = dictionary_text(attributes)
        return emit.custom_call(self.target, operands, shapes, results, config, **told)

    def _aliased(self, operation: CustomOperation, shapes: Any, results: Any) -> dict[int, int]:
        """Return the result that is in the memory of each aliased operand."""
        definition, aliased = operation.definition, {}
        for operand_name, made in self.aliases.items():
            operand = _place(operand_name, definition.inputs, operation.input_types)
            result = _place(made, definition.outputs, operation.output_types)
            if shapes[operand] is not results[result]:
                problem = f"{made} cannot be in the memory of {operand_name}"
                details = [f"{operand_name} {shapes[operand]}, {made} {results[result]}"]
                advice = "Omit the alias, or restrict the kernel to types for which it is valid."
                raise explain(ShapeError, operation.builder_name, problem, details, advice)
            aliased[operand] = result
        return aliased


def sharding_hint(
    target: str, operation: CustomOperation, shapes: Sequence[AnyShape], emit: Any
) -> str:
    """Return the text that states the sharding rule in a call, if a rule was stated.

    Shardy reads the rule from it. If all arrays have the first dimensions in common, XLA splits the
    call along them by itself when only XLA knows that they are sharded.
    """
    rule = operation.sharding_rule(*shapes) if operation.registered.sharding_notation else None
    if rule is None:
        return ""
    batch = _batch_dimensions(operation, rule, shapes, emit.device_count)
    if batch:
        split_batches(target)
    return rule.hint(batch)


def _batch_dimensions(
    operation: CustomOperation, rule: ShardingRule, shapes: Sequence[Any], devices: int
) -> int:
    """Return how many first dimensions XLA may split, however it shards them over devices."""
    # XLA gathers operands that consist of the batch only.
    least = min([shape.rank for shape in shapes], default=1) - 1
    count = min(rule.batch_dimensions, least) if devices > 1 else 0
    if count <= 0:
        return 0
    even = takewhile(lambda size: size and size % devices == 0, shapes[0].dimensions[:count])
    count = len(list(even))

    def piece(shape: Any) -> Any:
        sizes = [size // devices for size in shape.dimensions[:count]]
        return shape.with_dimensions([*sizes, *shape.dimensions[count:]])

    try:
        shapes_of_piece = as_tuple(operation.infer(tuple(map(piece, shapes))))
    except MinixlaError:
        return 0
    return (
        count
        if list(shapes_of_piece) == list(map(piece, as_tuple(operation.infer(tuple(shapes)))))
        else 0
    )


def _place(name: str, arguments: Mapping[str, Any], types: Sequence[Sequence[Any]]) -> int:
    """Return the index of a single array among all arrays of inputs or outputs."""
    return sum(map(len, types[: list(arguments).index(name)]))


def _listed(values: Iterable[Any]) -> str:
    details = [type_name(v) if hasattr(v, "stablehlo") else repr(v) for v in values]
    return f"{{{', '.join(details)}}}"
