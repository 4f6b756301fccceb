"""One operation of an MLIR program, as translations read it."""

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import Any, NoReturn

from minixla.core.attributes import REQUIRED, Attribute, Enumeration
from minixla.core.errors import ImportError_
from minixla.core.graph import Graph, Value
from minixla.core.operation import REGISTRY, Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import closed_graph
from minixla.interop.building import Builder
from minixla.interop.values import UnreadableError, plain, shape_of_type

#: The default, for each dimension of a window, of attributes that may be omitted.
_LEFT_OUT: dict[str, Any] = {
    **dict.fromkeys(("base_dilations", "lhs_dilation", "rhs_dilation", "window_dilations"), 1),
    **dict.fromkeys(("window_dimensions", "window_strides"), 1),
    "padding": (0, 0),
    "window_reversal": False,
}


class Step:
    """An MLIR operation, its operands as our values, and the graph that receives it."""

    __slots__ = ("builder", "module", "name", "operands", "operation", "read")

    def __init__(self, operation: Any, name: str, builder: Builder, module: Any) -> None:
        self.operation = operation
        self.name = name
        self.builder = builder
        self.module = module
        self.operands = builder.values_of(operation.operands)
        #: The attributes that the translation has read.
        self.read: set[str] = set()

    def raw(self, name: str) -> Any:
        """Return an MLIR attribute, or None."""
        self.read.add(name)
        return self.operation.attributes.get(name, None)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute as a Python value; `default` if it is omitted."""
        attribute = self.raw(name)
        return default if attribute is None else plain(attribute)

    def written(self, name: str) -> Any:
        """Return an attribute in the form that its parser expects; mesh axes become a table."""
        self.read.add(name)
        return plain(self.operation.attributes[name], self.module.as_written)

    def choice(self, name: str) -> str:
        """Return the choice in an enumeration; "" if it is omitted."""
        return Enumeration().read(str(self.raw(name) or ""))

    @property
    def shapes(self) -> list[Any]:
        """The operands' shapes."""
        return [value.shape for value in self.operands]

    @property
    def results(self) -> list[AnyShape]:
        """The shapes that the program declares for the results."""
        return [self._declared(result) for result in self.operation.results]

    @property
    def result(self) -> Shape:
        """The declared shape of the first result, an array."""
        shape = self._declared(self.operation.results[0])
        if not isinstance(shape, Shape):
            self.reject(f"its result is {shape}, not an array", "Such programs are not supported.")
        return shape

    def _declared(self, result: Any) -> AnyShape:
        return self.module.declared(result.type) or shape_of_type(result.type)

    def apply(
        self, name: str, operands: Sequence[Value] | None = None, **attributes: Any
    ) -> Sequence[Value]:
        """Apply our operation (see `record`), by default to the same operands."""
        record = self.record(name, **attributes)
        return self.builder.apply(record, self.operands if operands is None else operands)

    def record(self, name: str, **attributes: Any) -> Operation:
        """Return our operation with XLA's name and some attributes.

        The other attributes come from the program's attributes, regions and result type.
        """
        operation, attributes = REGISTRY[name], attributes | self.module.details
        labelled, used, regions = self.operation.attributes, [], 0
        self.read.update(
            [field.stablehlo for field in operation.fields.values() if field.stablehlo]
        )
        for key, field in operation.fields.items():
            kind, label, value = field.kind, field.stablehlo, attributes.get(key, field.default)
            if kind.holds_programs:
                value = self.region(regions) if value is REQUIRED else value
                regions += 1
            elif key in attributes:
                pass
            elif label is None:
                if kind.of_result is not None:
                    value = kind.of_result(self.result)
                    # Omit what may be omitted if it is equal to that of the operands.
                    before = [kind.of_result(operand.shape) for operand in self.operands[:2]]
                    if field.default is None and all(operand is value for operand in before):
                        value = None
            elif label in labelled:
                value = self._value(kind, label)
            elif label in _LEFT_OUT:
                rank = self.shapes[0].rank - 2 * ("dimension_numbers" in operation.fields)
                value = (_LEFT_OUT[label],) * rank
            used.append(value)
        return operation(*used)

    def _value(self, kind: Attribute, label: str) -> Any:
        cached, key = self.module.values, (kind, self.operation.attributes[label])
        if key not in cached:
            try:
                cached[key] = kind.read(self.written(label))
            except ValueError as error:
                raise UnreadableError(f"attribute {label} {error}") from None
        return cached[key]

    def bind(self, name: str, *operands: Value, **attributes: Any) -> Value:
        """Apply our operation with XLA's name; return its only result."""
        return self.builder.bind(name, *operands, **attributes)

    def promoted(self, values: Sequence[Value], shapes: Iterable[AnyShape]) -> list[Value]:
        """Convert values to the element types of `shapes`, which repeat after the last."""
        found = []
        for value, shape in zip(values, cycle(shapes), strict=False):
            kinds = [
                candidate.element_type
                for candidate in (value.shape, shape)
                if isinstance(candidate, Shape)
            ]
            if len(set(kinds)) == 2:  # computations may be written for wider types
                value = self.bind("ConvertElementType", value, new_element_type=kinds[1])
            found.append(value)
        return found

    def inlined(self, function: Callable[..., Any]) -> list[Value]:
        """Apply the instructions of a function to the operands."""
        return self.builder.inline(closed_graph(function, self.shapes, self.name), self.operands)

    def region(self, number: int) -> Graph:
        """Return a region, which may read only constants from outside."""
        return self.module.region(self, number)

    def regions(self) -> tuple[list[Builder], list[Value]]:
        """Return all regions, and the outer values that they read: each region's last inputs."""
        bodies = [self.module.body(self, number) for number in range(len(self.operation.regions))]
        outer = {key: value for body in bodies for key, (value, _) in body.captured.items()}
        for body in bodies:
            body.captured = {
                key: body.captured.get(key) or (value, Value(value.shape, None, -1))
                for key, value in outer.items()
            }
        return bodies, list(outer.values())

    def reject(self, problem: str, advice: str) -> NoReturn:
        """Raise ImportError_ for this operation."""
        raise self.error(problem, advice)

    def error(self, problem: str, advice: str) -> ImportError_:
        """Return the error for this operation."""
        details = [f"operands ({', '.join(map(str, self.shapes))})"] if self.operands else []
        location = self.operation.location
        return self.module.located(location, f"{self.name}: {problem}", details, advice)
