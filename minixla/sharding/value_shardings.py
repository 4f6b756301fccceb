"""Where the sharding of a value stands: on it, in its operation, or with the owner of its edge."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from minixla.sharding.axes import AxisRef
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.operations import NamedComputation, Placed, shardings_of
from minixla.sharding.program import Program, Step, Value
from minixla.sharding.tensor_sharding import TensorSharding

Change = Callable[[TensorSharding], TensorSharding]


def owner_of(value: Value) -> Value:
    """The owner of the data-flow edge of which a value is a target; the value if of none."""
    step = _step_of(value)
    if step is not None:
        for edge in step.edges:
            if any(step.at(place) is value for place in edge.targets):
                return step.at(edge.owner)
    return value


def sharding_of(value: Value) -> TensorSharding | None:
    """How a program says that a value lies over devices, or None."""
    value = owner_of(value)
    step, is_result = _step_of(value), isinstance(value.owner, Step)
    if step is None:
        return value.sharding
    op = step.op
    if isinstance(op, Placed):
        return op.sharding
    if not isinstance(op, (ManualComputation, NamedComputation)):
        return _of_result(value, step) if is_result else None
    given = op.out_shardings if is_result else op.in_shardings
    if given is None:
        return None
    found = given[value.index]
    if isinstance(op, ManualComputation) and not is_result:
        return without_axes(found, op.manual_axes)
    return found


def _of_result(value: Value, step: Step) -> TensorSharding | None:
    """The sharding of a plain result, which is open where only others of its step have one."""
    given = next((each.sharding for each in step.results if each.sharding is not None), None)
    return value.sharding or (given and given.saying_nothing(value.shape))


def place(value: Value, sharding: TensorSharding) -> None:
    """Has a program say how a value lies of which it says nothing.

    It says then that the other results of the step, or operands of the named computation, are open:
    in SDY one attribute holds the shardings of all.
    """
    value = owner_of(value)
    step, is_result = _step_of(value), isinstance(value.owner, Step)
    if step is None:
        value.sharding = sharding
    elif isinstance(step.op, NamedComputation):
        key = "out_shardings" if is_result else "in_shardings"
        given = getattr(step.op, key) or ()
        others = step.results if is_result else step.blocks[0].inputs
        found = given or [sharding.saying_nothing(each.shape) for each in others]
        found = [*found[: value.index], sharding, *found[value.index + 1 :]]
        step.op = step.op.replace(**{key: tuple(found)})
    elif is_result:
        value.sharding = sharding
        for each in step.results:
            each.sharding = each.sharding or sharding.saying_nothing(each.shape)


def change_shardings(program: Program, change: Change) -> None:
    """Passes every sharding of a program through a function, in the order of its text."""

    def changed(given: object) -> object:
        if isinstance(given, tuple):
            return tuple(map(changed, given))
        return change(given) if isinstance(given, TensorSharding) else given

    for function in program.functions.values():
        _change_values(function.inputs, change)
        found = function.output_shardings
        function.output_shardings = [each and change(each) for each in found]
        for step in function.walk():
            _change_values(step.results, change)
            if shardings_of(step.op):
                step.op = step.op.changed(changed)


def _change_values(values: Sequence[Value], change: Change) -> None:
    for each in values:
        each.sharding = each.sharding and change(each.sharding)


def keep_axes(sharding: TensorSharding, is_kept: Callable[[AxisRef], bool]) -> TensorSharding:
    """A sharding with some of its axes."""

    def kept(axes: Sequence[AxisRef]) -> tuple[AxisRef, ...]:
        return tuple(filter(is_kept, axes))

    return sharding.of(
        dimensions=tuple([replace(each, axes=kept(each.axes)) for each in sharding.dimensions]),
        replicated=kept(sharding.replicated),
        unreduced=kept(sharding.unreduced),
    )


def without_axes(sharding: TensorSharding, names: Sequence[str]) -> TensorSharding:
    """A sharding without the axes of some names."""
    return keep_axes(sharding, lambda axis: axis.name not in names)


def _step_of(value: Value) -> Step | None:
    """The step whose result a value is, or an input of what it runs."""
    return value.owner if isinstance(value.owner, Step) else value.owner.step
