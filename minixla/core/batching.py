"""Batching: a trace whose values represent batches of values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import jax.core
from jax.sharding import PartitionSpec

from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape, TupleShape
from minixla.core.tracer import WrappingTracer, abstract_value, unknown_value, unwrapped, wrapped
from minixla.core.tracing import Trace, _state, shape_of
from minixla.core.value_types import Array, Results


class BatchTracer(WrappingTracer):
    """A value of the parent trace and its batch dimension; for a tuple, one for each element."""

    __slots__ = ()

    def __init__(
        self, trace: BatchTrace, value: Array, dimension: int | tuple[int | None, ...] | None
    ) -> None:
        self._trace = trace
        self._shape = _member_shape(shape_of(value), dimension)
        self.value = value
        self.known = dimension

    @property
    def aval(self) -> jax.core.ShapedArray:
        own = abstract_value(self._shape, self.weak_type)
        whole = getattr(self.value, "aval", None)
        if whole is None or self.known is None or not isinstance(whole, jax.core.ShapedArray):
            return own if whole is None or self.known is not None else whole
        specs = [spec for at, spec in enumerate(whole.sharding.spec.partitions) if at != self.known]
        sharding = whole.sharding.update(spec=PartitionSpec(*specs))
        return own.update(sharding=sharding, manual_axis_type=whole.manual_axis_type)

    def to_concrete_value(self) -> None:
        return None

    def _contents(self) -> list[tuple[str, object]]:
        return [("value", self.value)]

    def _concrete(self, wanted: str) -> NoReturn:
        where = "but the value differs between batch elements"
        details = [f"one batch element is {self._shape}, the batch has {self._trace.size} elements"]
        advice = "Alternatively, pass the argument unmapped (in_axes=None)."
        raise unknown_value("vmap", wanted, where, details, advice)


@lru_cache(maxsize=4096)
def _member_shape(whole: AnyShape, dimension: Any) -> AnyShape:  # noqa: ANN401  # or a tuple
    if dimension is None:
        return whole
    if isinstance(whole, TupleShape):
        return TupleShape(map(_member_shape, whole.elements, dimension))
    assert isinstance(whole, Shape), f"{whole} cannot be batched"
    return whole.without_dimension(dimension)


class BatchTrace(Trace):
    """Compute on whole batches under the parent trace."""

    transformation = "vmap"
    forwards = True
    prefix = "batched"
    __slots__ = ("name", "size")

    def __init__(self, parent: Trace | None, size: int, name: Hashable = None) -> None:
        super().__init__(parent)
        self.size = size
        self.name = name

    @property
    def memo_key(self) -> object:
        return "batch", self.size

    def again(self, parent: Trace) -> BatchTrace:
        return BatchTrace(parent, self.size)

    def put_together(self, values: Sequence[Array], known: object) -> Results:
        return wrapped(self, BatchTracer, values[0], known)

    def shapes_of(self, shape: AnyShape, known: int | None) -> list[AnyShape]:
        return [shape if known is None else shape.with_dimension(known, self.size)]  # type: ignore[union-attr]  # an array

    def process(self, operation: Operation, operands: tuple[Any, ...]) -> Results:
        values, dimensions, is_batched = unwrapped(self, BatchTracer, operands)
        if not is_batched and operation.stage_operands is not None and self.parent.parent:
            # The function that the operation runs may read batched values.
            staged, operands_read = operation.stage_operands(operands)
            if any(map(self.is_own, operands_read)):
                return self.process(staged, operands_read)
        if not is_batched:
            # Batch elements may differ although no operand is batched: random samples.
            effects = (
                computation.has_side_effect for computation in (operation, *operation.computations)
            )
            if operation.batch_within is None or not any(effects):
                return self.parent.process(operation, operands)
        if operation.stage_operands is None:
            # Infer shapes for one batch element, to check the call as the user wrote it.
            operation.infer(tuple(map(shape_of, operands)))
        if _state.watch is not None:
            _state.watch.batches(operation, values, dimensions, self.size)
        previous = _state.trace
        _state.trace = self.parent
        try:
            if operation.batch_within is not None:
                results, result_dimensions = operation.batch_within(self, values, dimensions)
            else:
                results, result_dimensions = operation.batch(values, dimensions)
        finally:
            _state.trace = previous
        return wrapped(self, BatchTracer, results, result_dimensions)
