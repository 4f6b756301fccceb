"""Layouts of arrays over devices inside a program: what a nested jit's options say of them."""

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from minixla.core.attributes import Attribute, attribute
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape
from minixla.core.tracing import _state, current_trace, weak_type_of
from minixla.engine.random_keys import flatten
from minixla.transforms.arguments import Function, flatten_prefix, misfit
from minixla_ops.vocabulary.shorthand import array_shape


class ShardingConstraint(Operation):
    """The operand itself, laid out over devices as `sharding` says (JAX: with_sharding_constraint).

    It runs between the programs before and after it, so that JAX knows of the devices.
    """

    hlo_name = "custom-call"
    spans_devices = True
    operands = ("operand",)
    linear_operands = (0,)
    sharding: NamedSharding | SingleDeviceSharding = attribute(Attribute())

    def shape(self, operand):
        return operand

    def run(self, operand):
        value = current_trace().lift(operand, self.builder_name)
        return jax.lax.with_sharding_constraint(value, self.sharding)

    def reference(self, operand):
        return operand  # NumPy has one device

    def stablehlo(self, emit, operands, shapes, results):
        if emit.calls_host:
            problem = "a loop or branch on one device cannot hold a function with a layout"
            advice = "Give in_shardings and out_shardings to the jit around the loop or branch."
            raise misfit("jit", problem, [f"the layout is {self.sharding}"], advice)
        name, text = emit.name(), _shardy(self.sharding, shapes[0])
        emit.line(f"{name} = sdy.sharding_constraint {operands[0]} {text} : {shapes[0].stablehlo}")
        return [name]

    def hlo_attributes(self, shapes):
        text = _shardy(self.sharding, shapes[0]).replace('"', "'")
        return {"custom_call_target": '"Sharding"', "sharding": f'"{text}"'}

    def transpose(self, cotangents, operands, linear):
        return (self(cotangents),)

    def batch(self, operands, dimensions):
        # Where the batch goes is open.
        (at,), sharding = dimensions, self.sharding
        if at is not None and isinstance(sharding, NamedSharding):
            spec = _entries(sharding, array_shape(operands[0]).rank - 1)
            spec.insert(at, PartitionSpec.UNCONSTRAINED)
            sharding = NamedSharding(sharding.mesh, PartitionSpec(*spec))
        return self(operands[0], sharding=sharding), at


def _entries(sharding: NamedSharding, rank: int) -> list[Any]:
    """The part of a specification that is about each dimension."""
    given = list(sharding.spec)
    return [*given, *[None] * (rank - len(given))]


def _shardy(sharding: Any, shape: AnyShape) -> str:
    if isinstance(sharding, SingleDeviceSharding):
        (device,) = sharding.device_set
        return f"<mesh<[], device_ids=[{device.id}]>, []>"
    mesh = sharding.mesh
    axes = ", ".join([f'"{name}"={size}' for name, size in mesh.shape.items()])
    is_abstract = isinstance(mesh, jax.sharding.AbstractMesh)
    numbers = [] if is_abstract else [device.id for device in mesh.devices.flat]
    order = "" if numbers == list(range(len(numbers))) else f", device_ids={numbers}"
    parts = []
    for entry in _entries(sharding, array_shape(shape).rank):
        names = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
        is_open = entry is PartitionSpec.UNCONSTRAINED
        parts.append("?" if is_open else ", ".join([f'"{name}"' for name in names]))
    dimensions = ", ".join([f"{{{part}}}" for part in parts])
    return f"<mesh<[{axes}]{order}>, [{dimensions}]>"


def laid_out(fun: Function, options: dict[str, Any]) -> Function:
    """A function of (args, kwargs) in a program, these and results laid out by jit's options."""
    device, backend = options.get("device"), options.get("backend")
    if device is None and backend is not None:
        device = jax.local_devices(backend=backend)[0]
    place = None if device is None else SingleDeviceSharding(device)
    given, wanted = options.get("in_shardings", place), options.get("out_shardings", place)

    def between(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs and given is not None:
            problem = "in_shardings and arguments by name do not go together"
            shown = [f"by name: {', '.join(kwargs)}", f"in_shardings = {given}"]
            raise misfit("jit", problem, shown, "Give the arguments by position.")
        args = _constrained("in_shardings", args, given)
        return _constrained("out_shardings", fun(args, kwargs), wanted)

    return fun if given is None and wanted is None else between


def _constrained(name: str, values: Any, shardings: Any) -> Any:
    """A pytree whose arrays have the layouts of a prefix tree, in which None says nothing."""
    if shardings is None:
        return values
    leaves, tree = flatten(values)
    whole = jax.tree.unflatten(tree, range(len(leaves)))
    found = flatten_prefix(
        "jit", name, whole, shardings, "a sharding", lambda x: x is None or type(x) is PartitionSpec
    )
    for index, (value, sharding) in enumerate(zip(leaves, found, strict=True)):
        if sharding is not None:
            placed = ShardingConstraint(_known(name, sharding))(value)
            leaves[index] = _state.trace.weakly(placed) if weak_type_of(value) else placed
    return jax.tree.unflatten(tree, leaves)


def _known(name: str, sharding: Any) -> Any:
    if isinstance(sharding, PartitionSpec):
        mesh = jax.sharding.get_abstract_mesh()
        if not mesh.empty:
            return NamedSharding(mesh, sharding)
    elif isinstance(sharding, (NamedSharding, SingleDeviceSharding)):
        return sharding
    problem = f"{name} inside another transformation is no layout that a program here can keep"
    advice = "Give a jax.sharding.NamedSharding or SingleDeviceSharding, or a PartitionSpec under "
    advice += "jax.set_mesh; or give it to the outermost jit."
    raise misfit("jit", problem, [f"{name} holds {sharding!r}"], advice)
