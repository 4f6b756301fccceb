"""The place of a value's sharding: on it, in its operation, or on the owner of its edge."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from minixla.sharding.axes import AxisRef
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import NamedComputation, Placed, shardings_of
from minixla.sharding.program import Program, Value
from minixla.sharding.tensor_sharding import TensorSharding

Change = Callable[[TensorSharding], TensorSharding]


def owner_of(value: Value) -> Value:
    """Return the owner of the data-flow edge that a value is a target of; else the value."""
    step = value.flow
    if step is not None:
        for edge in step.edges:
            if any(step.at(place) is value for place in edge.targets):
                return step.at(edge.owner)
    return value


def sharding_of(value: Value) -> TensorSharding | None:
    """Return the sharding of a value in a program, or None."""
    return stated_sharding(owner_of(value))


def stated_sharding(value: Value) -> TensorSharding | None:
    """Return the sharding of the owner of an edge, or of a value without an edge."""
    step, is_result = value.flow, value.step is not None
    if step is None:
        return value.sharding
    op = step.op
    if isinstance(op, Placed):
        return op.sharding
    if not isinstance(op, (ManualComputation, NamedComputation)):
        if not is_result:
            return None
        return value.sharding or own_shardings(step.results)[value.index]
    stated = op.out_shardings if is_result else op.in_shardings
    if stated is None:
        return None
    sharding = stated[value.index]
    if isinstance(op, ManualComputation) and not is_result:
        return without_axes(sharding, op.manual_axes)
    return sharding


def own_shardings(values: Sequence[Value]) -> list[TensorSharding | None]:
    """Return the shardings of values that one attribute holds; see `in_one_attribute`."""
    return in_one_attribute([value.sharding for value in values], values)


def put_own(values: Sequence[Value]) -> None:
    """Store the sharding of each value from one attribute on the value itself."""
    for value, sharding in zip(values, own_shardings(values), strict=True):
        value.sharding = sharding


def in_one_attribute(
    given: Sequence[TensorSharding | None], values: Sequence[Value]
) -> list[TensorSharding | None]:
    """Return shardings of values; if some are missing, they are open, as one attribute has all."""
    first = next(filter(None, given), None)
    if first is None:
        return [*given]
    pairs = zip(given, values, strict=True)
    return [sharding or first.saying_nothing(value.shape) for sharding, value in pairs]


def put(value: Value, sharding: TensorSharding) -> None:
    """Set a value's sharding at the place where the program stores it."""
    step, op = value.flow, value.flow and value.flow.op
    is_input = value.step is None
    if step is not None and isinstance(op, Placed):
        step.op = op.replace(sharding=sharding)
    elif step is not None and isinstance(op, (ManualComputation, NamedComputation)):
        if isinstance(op, ManualComputation) and is_input:
            sharding = with_axes_of(sharding, op.in_shardings[value.index], op.manual_axes)
        name, values = ("in", step.operands) if is_input else ("out", step.results)
        name = f"{name}_shardings"
        stated = getattr(op, name) or [sharding.saying_nothing(value.shape) for value in values]
        shardings = *stated[: value.index], sharding, *stated[value.index + 1 :]
        step.op = op.replace(**{name: shardings})
    else:
        value.sharding = sharding


def change_shardings(program: Program, change: Change) -> None:
    """Apply a function to every sharding of a program, in the order of its text."""

    def changed(given: object) -> object:
        if isinstance(given, tuple):
            return tuple(map(changed, given))
        return change(given) if isinstance(given, TensorSharding) else given

    for function in program.functions.values():
        _change_values(function.inputs, change)
        shardings = function.output_shardings
        function.output_shardings = [sharding and change(sharding) for sharding in shardings]
        for step in function.walk():
            _change_values(step.results, change)
            if shardings_of(step.op):
                step.op = step.op.changed(changed)


def _change_values(values: Sequence[Value], change: Change) -> None:
    for value in values:
        value.sharding = value.sharding and change(value.sharding)


def keep_axes(sharding: TensorSharding, is_kept: Callable[[AxisRef], bool]) -> TensorSharding:
    """Return a sharding with some of its axes."""

    def kept(axes: Sequence[AxisRef]) -> tuple[AxisRef, ...]:
        return tuple(filter(is_kept, axes))

    return sharding.of(
        dimensions=[
            replace(dimension, axes=kept(dimension.axes)) for dimension in sharding.dimensions
        ],
        replicated=kept(sharding.replicated),
        unreduced=kept(sharding.unreduced),
    )


def without_axes(sharding: TensorSharding, names: Sequence[str]) -> TensorSharding:
    """Return a sharding without the axes of some names."""
    return keep_axes(sharding, lambda axis: axis.name not in names)


def with_axes_of(
    sharding: TensorSharding, other: TensorSharding, names: Sequence[str]
) -> TensorSharding:
    """Add the axes of some names in another sharding to a sharding that lacks them.

    Manual axes are invisible within a manual computation; outside they come first.
    """
    manual, mesh = keep_axes(other, lambda axis: axis.name in names), other.mesh
    pairs = zip(manual.dimensions, sharding.dimensions, strict=True)
    dimensions = [
        replace(dimension, axes=(*first.axes, *dimension.axes)) for first, dimension in pairs
    ]
    replicated = mesh.listed(map(mesh.part, (*manual.replicated, *sharding.replicated)))
    return sharding.of(dimensions=dimensions, replicated=replicated)
