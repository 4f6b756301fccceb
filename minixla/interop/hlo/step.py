"""One instruction of an HLO program, as translations see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

from minixla.core.errors import ImportError_
from minixla.core.graph import Graph, Value
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.interop.building import Builder
from minixla.interop.hlo import notation
from minixla.interop.hlo.syntax import Instruction, Layout
from minixla_ops.tuples import leaf_shapes

__all__ = ["Nest", "Step", "leaf_shapes", "leaves_of", "nest_of", "nested", "shape_of_nest"]

#: A value, or the members of a tuple, which are not packed until an instruction wants the tuple.
Nest: TypeAlias = "Value | tuple[Nest, ...]"

_Parsed = TypeVar("_Parsed")
_NAME = re.compile(r"%?([\w.\-]+)", re.ASCII)


def shape_of_nest(nest: Nest) -> AnyShape:
    """Its shape."""
    return nest.shape if type(nest) is Value else TupleShape(map(shape_of_nest, nest))  # type: ignore[arg-type]  # a tuple


def leaves_of(builder: Builder, nest: Nest) -> list[Value]:
    """The arrays and tokens in it, in order; `builder` takes packed tuples apart."""
    if type(nest) is Value:
        return builder.leaves(nest) if type(nest.shape) is TupleShape else [nest]
    return [leaf for each in nest for leaf in leaves_of(builder, each)]  # type: ignore[union-attr]  # a tuple


def nest_of(shape: AnyShape, leaves: Iterator[Value]) -> Nest:
    """The nest of a shape whose leaves are the next ones."""
    if type(shape) is TupleShape:
        return tuple([nest_of(each, leaves) for each in shape.elements])
    return next(leaves)


def nested(values: tuple[Value, ...], shape: AnyShape) -> Nest:
    """Values in the structure of a shape where they are its leaves; else one, or a flat tuple."""
    is_tuple = type(shape) is TupleShape
    if len(values) == 1 and is_tuple is (type(values[0].shape) is TupleShape):
        return values[0]
    fits = is_tuple and len(leaf_shapes(shape)) == len(values)
    return nest_of(shape, iter(values)) if fits else values


class Step:
    """An instruction, its operands as our values, and the graph that it goes to.

    Attributes:
        instruction: as it is written.
        builder: makes the graph.
        module: what knows the computations.
        operands: for each operand its value, or its members'.
        layouts: the operands' declared layouts.
    """

    __slots__ = ("builder", "instruction", "layouts", "module", "operands")

    def __init__(
        self,
        instruction: Instruction,
        builder: Builder,
        module: Any,
        operands: list[Nest],
        layouts: list[Layout | None],
    ) -> None:
        self.instruction = instruction
        self.builder = builder
        self.module = module
        self.operands = operands
        self.layouts = layouts

    @property
    def shape(self) -> AnyShape:
        """The declared shape."""
        return self.instruction.shape

    @property
    def array(self) -> Shape:
        """The declared shape, an array's."""
        shape = self.instruction.shape
        if not isinstance(shape, Shape):
            self.reject(f"its result is {shape}, and no array", "It gives one array.")
        return shape

    @property
    def values(self) -> list[Value]:
        """The operands, none of them a tuple."""
        for index, each in enumerate(self.operands):
            if type(each) is not Value:
                advice = "Take the members out of it with get-tuple-element."
                self.reject(f"operand {index} is a tuple, {shape_of_nest(each)}", advice)
        return self.operands  # type: ignore[return-value]  # the loop has checked each

    @property
    def leaves(self) -> list[Value]:
        """The operands; members in place of tuples."""
        return [leaf for each in self.operands for leaf in leaves_of(self.builder, each)]

    def operand(self, index: int, count: int) -> Shape:
        """The shape of one of `count` operands, an array."""
        self.count(count)
        shape = self.values[index].shape
        if not isinstance(shape, Shape):
            self.reject(f"operand {index} is {shape}", "It takes an array.")
        return shape

    def count(self, *allowed: int) -> None:
        """Refuses other numbers of operands."""
        if len(self.operands) not in allowed:
            wanted = " or ".join(map(str, allowed))
            self.reject(f"{len(self.operands)} operands were given", f"It takes {wanted}.")

    # Attributes.

    def has(self, name: str) -> bool:
        """Whether it has an attribute."""
        return name in self.instruction.attributes

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute's text."""
        found = self.instruction.attributes.get(name)
        if found is not None:
            return found.text
        if default is None:
            self.reject(f"attribute {name} is missing", f"Give {name}=.")
        return default

    def parsed(
        self, name: str, parse: Callable[[str], _Parsed | None], form: str, default: Any = None
    ) -> _Parsed:
        """An attribute in the form that `parse` reads; `default`, if any, where it is left out."""
        if default is not None and name not in self.instruction.attributes:
            return default
        found = parse(self.text(name))
        if found is None:
            self.reject_attribute(name, f"It is such as {name}={form}.")
        return found

    def integer(self, name: str, default: int | None = None) -> int:
        """A number."""
        return self.parsed(name, notation.number, "1", default)

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of numbers."""
        return self.parsed(name, notation.integers, "{1,0}", default)

    def string(self, name: str, default: str | None = None) -> str:
        """A quoted string."""
        return self.parsed(name, notation.string, '"text"', default)

    def dimension(self, name: str = "dimensions") -> int:
        """The one number of a list."""
        found = self.integers(name)
        if len(found) != 1:
            self.reject_attribute(name, "It names one dimension.")
        return found[0]

    def real(self, name: str) -> float:
        """A real number."""
        return self.parsed(name, _real, "0.001")

    def flag(self, name: str, default: bool | None = False) -> bool:
        """True or false."""
        return self.parsed(name, {"true": True, "false": False}.get, "true", default)

    def choice(self, name: str, *names: str, default: str | None = None) -> str:
        """One of several words."""
        found = self.text(name, default)
        if found not in names:
            self.reject_attribute(name, f"It is one of {', '.join(names)}.")
        return found

    def computation(self, name: str) -> Graph:
        """The computation that an attribute names."""
        found = self.parsed(name, _NAME.fullmatch, "%name")
        return self.module.graph(found[1], self, name)

    def computations(self, name: str) -> list[Graph]:
        """The computations that an attribute names: one, or several in braces."""
        text = self.text(name)
        if not text.startswith("{"):
            return [self.computation(name)]
        found = [_NAME.fullmatch(each.strip()) for each in text[1:-1].split(",")]
        if None in found:
            self.reject_attribute(name, f"It is such as {name}={{%one, %other}}.")
        return [self.module.graph(each[1], self, name) for each in found if each is not None]

    # Results.

    def apply(
        self, operation: Any, operands: Sequence[Value], attributes: dict[str, Any] | None = None
    ) -> Nest:
        """The results of one more instruction, in the declared structure."""
        results = self.builder.apply(operation, operands, attributes)
        return self.nest(results)

    def bind(self, name: str, *operands: Value, **attributes: Any) -> Value:
        """The one result of one of our operations, by XLA's name."""
        return self.builder.bind(name, *operands, **attributes)

    def nest(self, leaves: Iterable[Value]) -> Nest:
        """Leaves in the structure of the declared shape, as far as they fit it."""
        found, shape = tuple(leaves), self.instruction.shape
        return nested(found, shape)

    # Errors.

    def reject_attribute(self, name: str, advice: str) -> NoReturn:
        """Raises ImportError_ for an attribute's value."""
        value = self.instruction.attributes[name]
        problem = f"{self.instruction.opcode}: attribute {name} cannot be {value.text[:80]}"
        raise self.module.text.error(value.position, problem, (), advice)

    def reject(self, problem: str, advice: str) -> NoReturn:
        """Raises ImportError_ for this instruction."""
        raise self.error(problem, advice)

    def error(self, problem: str, advice: str, given: Sequence[str] = ()) -> ImportError_:
        """The error for this instruction."""
        instruction = self.instruction
        shapes = ", ".join([str(shape_of_nest(each)) for each in self.operands])
        given = [*([f"operands ({shapes[:500]})"] if self.operands else []), *given]
        problem = f"{instruction.opcode}: {problem.rstrip('.')}"
        return self.module.text.error(instruction.position, problem, given, advice)


def _real(text: str) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None
