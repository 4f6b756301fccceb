"""The trace that evaluates operations by their reference rules, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minixla.core.errors import MinixlaError, ShapeError, explain, too_large
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape, TupleShape, TupleValue, shape_of_data, snapshot
from minixla.core.tracer import (
    Tracer,
    host_array,
    leaked,
    not_a_value,
    shape_of,
    weak_type_of,
)
from minixla.core.tracing import Trace
from minixla.reference_evaluator.widening import wide_type, widened


class ReferenceTracer(Tracer):
    """An array (or token) held in NumPy, with the element type it is declared to have."""

    __slots__ = ("data",)

    def __init__(self, trace: ReferenceTrace, data: Any, shape: AnyShape) -> None:
        self._trace = trace
        self._shape = shape
        self._weak = False
        self.data = data

    def _weak_copy(self) -> ReferenceTracer:
        copied = ReferenceTracer(self._trace, self.data, self._shape)
        copied._mark_weak()
        return copied

    def _concrete(self, wanted: str) -> Any:
        return self.data


class ReferenceTrace(Trace):
    """Evaluates operations at once, in NumPy.

    Floats and complex numbers have their declared types, or, with precision `"float64"`, double's.
    """

    transformation = "reference"
    __slots__ = ("widen",)

    def __init__(self, parent: Trace, precision: str | None = None) -> None:
        super().__init__(parent)
        self.widen = precision == "float64"

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        if operation.run is not None:
            return operation.run(*operands)
        return self.evaluate(operation, operands)

    def evaluate(self, operation: Operation, operands: Sequence[Any]) -> Any:
        """The result of the reference rule, also of operations that `run` otherwise."""
        values = [self.lift(operand, operation.builder_name) for operand in operands]
        shapes = tuple(map(shape_of, values))
        results = operation.infer(shapes)
        data = list(map(_data_of, values))
        if self.widen and operation.reads_bits:
            declared = [shape.dtype for shape in operation.array_shapes(shapes)]
            data = [each.astype(dtype) for each, dtype in zip(data, declared, strict=True)]
        elif self.widen:
            operation = operation.changed(widened)
        try:
            outcome = operation.reference(*data)
        except (MemoryError, ValueError) as error:
            raise _explained(error, operation.builder_name, shapes, results) from None
        if type(results) is not tuple:
            return self._wrap(operation, outcome, results)  # type: ignore[arg-type]  # one shape
        pairs = zip(outcome, results, strict=True)
        return tuple([self._wrap(operation, data, shape) for data, shape in pairs])

    def lift(self, value: Any, subject: str = "reference") -> Any:
        if isinstance(value, ReferenceTracer) and value._trace is self:
            return value
        if isinstance(value, Tracer):
            raise leaked(value, subject)
        if isinstance(value, TupleValue):
            return TupleValue([self.lift(element, subject) for element in value.elements])
        shape = shape_of_data(value)
        if shape is None:
            raise not_a_value(value, subject)
        data = host_array(value, shape, subject) if isinstance(value, int) else np.asarray(value)
        if data is value:
            data = snapshot(data)
        tracer = ReferenceTracer(self, self._convert(data, shape), shape)
        tracer._weak = weak_type_of(value)
        return tracer

    def _convert(self, data: np.ndarray, shape: Shape) -> np.ndarray:
        wanted = wide_type(shape.element_type) if self.widen else shape.element_type
        return data if data.dtype == wanted.dtype else data.astype(wanted.dtype)

    def _wrap(self, operation: Operation, data: Any, shape: AnyShape) -> Any:
        if isinstance(shape, TupleShape):
            members = zip(data, shape.elements, strict=True)
            return TupleValue([self._wrap(operation, *member) for member in members])
        if isinstance(shape, Shape):
            data = np.asarray(data)
            if self.widen:
                data = self._convert(data, shape)
            elif data.dtype != shape.dtype or not _fits(data.shape, shape):
                raise AssertionError(
                    f"the reference rule of {operation.name} gave {data.dtype}{list(data.shape)} "
                    f"where its shape rule says {shape}"
                )
        return ReferenceTracer(self, data, shape)


def _explained(
    error: MemoryError | ValueError, subject: str, shapes: Sequence[AnyShape], results: Any
) -> Exception:
    """Our error for one of NumPy's."""
    if isinstance(error, MinixlaError):  # of an operation inside, which it names
        return error
    listed = ", ".join(map(str, results if type(results) is tuple else (results,)))
    given = [f"operands ({', '.join(map(str, shapes))})"] if shapes else []
    if isinstance(error, MemoryError):
        return too_large(subject, f"there is not enough memory to compute {listed}", given)
    if "maximum supported dimension" not in str(error):
        return error
    problem = "NumPy has no arrays of more than 64 dimensions"
    advice = "Run the program compiled, by mx.jit, or merge dimensions."
    return explain(ShapeError, subject, problem, [*given, f"results {listed}"], advice)


def _fits(sizes: tuple[int, ...], shape: Shape) -> bool:
    if sizes == shape.dimensions:
        return True
    return len(sizes) == shape.rank and all(
        size == bound or (flag and size <= bound)
        for size, bound, flag in zip(sizes, shape.dimensions, shape.dynamic, strict=True)
    )


def _data_of(value: Any) -> Any:
    """The array, or a Python tuple of arrays, that a lifted value holds."""
    if isinstance(value, TupleValue):
        return tuple(map(_data_of, value.elements))
    return value.data
