"""Kernels of an operation: what computes it, by platform and by values of attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from minixla.core.errors import (
    AttributeValueError,
    MinixlaError,
    ShapeError,
    TransformError,
    explain,
)
from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape
from minixla.core.source import Source
from minixla.core.stablehlo_text import layouts_text
from minixla.extension.foreign_text import bytes_text, dictionary_text
from minixla.extension.kinds import ListKind, TypeKind
from minixla.extension.types import SETS, type_name
from minixla_ops.programs.call import Call
from minixla_ops.programs.compositions import kept_program
from minixla_ops.vocabulary.shorthand import as_results, as_tuple

if TYPE_CHECKING:
    from minixla.extension.definitions import Definition
    from minixla.extension.operation import CustomOperation

#: The kernel that is the meaning, in NumPy, and the one that is a program on every platform.
REFERENCE, ANY = "reference", "any"
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_GROUPS = {"gpu": ("cuda", "rocm"), "default": (ANY,)}


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel.

    Attributes:
        platform: `reference`, `any`, `cpu`, `cuda`, `rocm` or `tpu`.
        allowed: by attribute, the values for which it is.
        priority: of several kernels the one with the highest is taken.
        source: the line that registers it.
    """

    platform: str
    allowed: Mapping[str, tuple[Any, ...]]
    priority: int = 0
    source: Source | None = field(default=None, repr=False)

    @cached_property
    def conditions(self) -> str:
        """`T in {float, int32}`: for which attributes it is, in words."""
        texts = [f"{name} in {_listed(values)}" for name, values in self.allowed.items()]
        return " and ".join(texts)

    def __str__(self) -> str:
        conditions = f" for {self.conditions}" if self.allowed else ""
        line = f" at {self.source}" if self.source else ""
        return f"the {self.platform} kernel{conditions}{line}"

    def fits(self, operation: CustomOperation) -> bool:
        """Whether it is for an operation with these attributes."""
        declared = operation.definition.attributes
        for name, allowed in self.allowed.items():
            value = operation.attr(name)
            members = value if isinstance(declared[name].kind, ListKind) else (value,)
            if not all(each in allowed for each in members):
                return False
        return True

    def is_narrower(self, other: Kernel) -> bool:
        """Whether it is for no attributes but those that another kernel is for."""
        return all(
            name in self.allowed and set(self.allowed[name]) <= set(values)
            for name, values in other.allowed.items()
        )

    def write(
        self, operation: CustomOperation, emit: Any, operands: Any, shapes: Any, results: Any
    ) -> Sequence[str]:
        """The operation in StableHLO; see `Operation.stablehlo`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class PythonKernel(Kernel):
    """A function of a context and values: of NumPy for `reference`, else of traced ones."""

    function: Callable[..., Any] = field(kw_only=True, repr=False)

    def write(self, operation, emit, operands, shapes, results):  # noqa: ANN001, ANN201
        """A call of the program that the function is."""
        program = program_of(operation, self, emit.platform or "", tuple(shapes))
        return Call(program).stablehlo(emit, operands, shapes, results)


@lru_cache(maxsize=1024)
def program_of(
    operation: CustomOperation, kernel: PythonKernel, platform: str, shapes: tuple[AnyShape, ...]
) -> Graph:
    """What a kernel of traced values does, as a graph, whose results are those declared."""

    def function(*operands: Any) -> Any:
        found = operation.run_python(kernel, operands, platform)
        return as_results(found) if found else ()

    graph = kept_program(function, shapes, operation.builder_name)
    wanted = as_tuple(operation.infer(shapes))
    if graph.output_shapes != wanted:
        problem = f"{kernel} gives other results than are declared"
        shown = [f"declared: {', '.join(map(str, wanted))}"]
        shown.append(f"given: {', '.join(map(str, graph.output_shapes))}")
        advice = "Mend the kernel, or the shape function and the types of the outputs."
        raise explain(ShapeError, operation.builder_name, problem, shown, advice)
    return graph


@dataclass(frozen=True, eq=False)
class HostKernel(Kernel):
    """The reference, called on the host."""

    def write(self, operation, emit, operands, shapes, results):  # noqa: ANN001, ANN201
        """A call of Python."""

        def function(*arrays: Any) -> Sequence[Any]:
            return as_tuple(operation.reference(*arrays))

        return emit.host_call(function, operands, shapes, results, False)


@dataclass(frozen=True, eq=False)
class ForeignKernel(Kernel):
    """Compiled code, known to XLA's typed foreign function interface by the name `target`."""

    target: str = field(kw_only=True)

    def write(self, operation, emit, operands, shapes, results):  # noqa: ANN001, ANN201
        """One custom call."""
        emit.foreign_call(self.target, operation)
        return foreign_call(self.target, operation, emit, operands, shapes, results)


def foreign_call(
    target: str,
    operation: CustomOperation,
    emit: Any,
    operands: Sequence[str],
    shapes: Sequence[AnyShape],
    results: Sequence[AnyShape],
) -> Sequence[str]:
    """A custom call in StableHLO, with the attributes that do not follow from the operands."""
    definition = operation.definition
    given = [
        (name, declared.kind.foreign(operation.attr(name)))
        for name, declared in definition.attributes.items()
        if name not in definition.inferred
    ]
    return emit.operation(
        "stablehlo.custom_call",
        operands,
        shapes,
        results,
        call_target_name=bytes_text(target.encode()),
        has_side_effect=False,
        api_version="4 : i32",
        backend_config=dictionary_text(given),
        operand_layouts=_row_major(shapes),
        result_layouts=_row_major(results),
    )


def _row_major(shapes: Sequence[Any]) -> str:
    return layouts_text([range(shape.rank)[::-1] for shape in shapes])


class Kernels:
    """The kernels of an operation.

    Attributes:
        listed: all of them.
        falls_back: whether the reference runs on the host where a platform has no kernel.
    """

    def __init__(self, definition: Definition, subject: str, falls_back: bool = False) -> None:
        self.definition, self.subject, self.falls_back = definition, subject, falls_back
        self.listed: list[Kernel] = []

    def add(self, kernel: Kernel) -> None:
        """Enters a kernel.

        Raises:
            AttributeValueError: there is one for the same already.
        """
        for other in self.listed:
            alike = (kernel.platform, kernel.priority) == (other.platform, other.priority)
            if alike and kernel.is_narrower(other) and other.is_narrower(kernel):
                problem = "there is a kernel for the same platform and attributes already"
                advice = "Give one of them a higher priority, or other attributes."
                raise explain(AttributeValueError, self.subject, problem, [str(other)], advice)
        self.listed.append(kernel)

    def platforms_of(self, platform: str) -> tuple[str, ...]:
        """The platforms that a caller names; raises AttributeValueError for what is none."""
        known = (REFERENCE, ANY, *PLATFORMS)
        if platform in known:
            return (platform,)
        if platform in _GROUPS:
            return _GROUPS[platform]
        problem, advice = f"there is no platform {platform!r}", ", ".join((*known, *_GROUPS))
        raise explain(AttributeValueError, self.subject, problem, (), f"It is one of {advice}.")

    def allowed(self, given: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
        """The values of attributes that a kernel is for, in canonical form.

        Raises:
            AttributeValueError: there is no such attribute, or it cannot have such a value.
        """
        found = {}
        for name, values in given.items():
            declared = self.definition.attributes.get(name)
            if declared is None:
                problem = f"a kernel is for values of {name}, which is no attribute"
                advice = f"Its attributes are {', '.join(self.definition.attributes) or 'none'}."
                raise explain(AttributeValueError, self.subject, problem, (), advice)
            kind = declared.kind.member if isinstance(declared.kind, ListKind) else declared.kind
            listed: Iterable[Any] = values if isinstance(values, (list, tuple, set)) else (values,)
            if isinstance(kind, TypeKind):
                listed = [each for value in listed for each in _set(value, kind)]
            try:
                found[name] = tuple([kind.canonical(each) for each in listed])
            except MinixlaError:
                raise
            except (TypeError, ValueError) as error:
                problem = f"a kernel is for a value that {name} cannot have"
                shown = [str(declared), str(error)]
                raise explain(
                    AttributeValueError, self.subject, problem, shown, "See its declaration."
                ) from None
        return found

    def reference(self, operation: CustomOperation) -> PythonKernel | None:
        """The kernel that is the meaning in NumPy."""
        return self._best(operation, REFERENCE)

    def composition(self, operation: CustomOperation) -> PythonKernel | None:
        """The kernel that is a program on every platform, and so has derivatives."""
        return self._best(operation, ANY)

    def _best(self, operation: CustomOperation, *platforms: str) -> Any:
        """The kernel that is narrowest of those with the highest priority; None if there is none.

        Raises:
            TransformError: there are several.
        """
        fitting = [k for k in self.listed if k.platform in platforms and k.fits(operation)]
        if not fitting:
            return None
        ranks = [(each.priority, each.platform != ANY) for each in fitting]
        first = [k for k, rank in zip(fitting, ranks, strict=True) if rank == max(ranks)]
        best = [each for each in first if all(map(each.is_narrower, first))]
        if len(best) != 1:
            problem = "several kernels are for these attributes, and none of them for fewer"
            shown = [*map(str, first), f"attributes: {shown_attributes(operation)}"]
            advice = "Give one of them a priority: op.kernel(..., priority=1)."
            raise explain(TransformError, operation.builder_name, problem, shown, advice)
        return best[0]

    def chosen(self, operation: CustomOperation, emit: Any, shapes: Sequence[AnyShape]) -> Kernel:
        """The kernel for the platform of a program that is being written.

        Raises:
            TransformError: there is none, or several.
        """
        platform = emit.platform
        found = self._best(operation, *([platform, ANY] if platform else [ANY]))
        if found is not None:
            return found
        if not emit.calls_host:
            # A text that is to be read: it names the operation.
            return ForeignKernel(platform or ANY, {}, target=operation.name)
        has_reference = self.reference(operation) is not None
        if self.falls_back and has_reference:
            return HostKernel(platform or ANY, {})
        where = f"the platform {platform}" if platform else "several platforms at once"
        problem = f"there is no kernel for {where} and these types"
        known = [str(each) for each in self.listed] or ["no kernel is registered"]
        shown = [f"operands {', '.join(map(str, shapes))}"]
        shown += [f"attributes: {shown_attributes(operation)}"] if operation.values else []
        advice = f'Register one: op.kernel("{platform or ANY}"), or op.composition for all. '
        if has_reference:
            advice += "host_fallback=True in register_op runs the reference on the host."
        raise explain(TransformError, operation.builder_name, problem, [*shown, *known], advice)


def _set(value: Any, kind: TypeKind) -> tuple[Any, ...]:
    """The types that a caller names, a set by its name: those of it that the attribute takes."""
    members = SETS.get(value) if isinstance(value, str) else None
    return (value,) if members is None else tuple(filter(kind.takes_type, members))


def _listed(values: Iterable[Any]) -> str:
    shown = [type_name(v) if hasattr(v, "stablehlo") else repr(v) for v in values]
    return f"{{{', '.join(shown)}}}"


def shown_attributes(operation: CustomOperation) -> str:
    """`T = f32, n = 2`: the attributes in a message."""
    return ", ".join([f"{name} = {operation.attr(name)!r}" for name in operation.field_names])
