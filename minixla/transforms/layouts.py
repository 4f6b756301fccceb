"""Shardings of arrays that users and the options of jit state for values in programs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import jax
from jax.core import Tracer as JaxTracer
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from jax.tree_util import keystr, tree_map_with_path

from minixla.core.attributes import Attribute, attribute
from minixla.core.errors import ShardingError, check_arguments, explain
from minixla.core.graph import Annotations, Graph
from minixla.core.operation import Operation
from minixla.core.shapes import AnyShape, Shape
from minixla.core.state import held
from minixla.core.tracebacks import api_boundary
from minixla.core.tracer import check_value
from minixla.core.tracing import (
    Tracer,
    _state,
    current_trace,
    shape_of,
    weak_type_of,
)
from minixla.engine.float0 import structure_places
from minixla.engine.meshes import abstract_mesh, is_here, jax_mesh
from minixla.engine.program_keys import mesh_key
from minixla.engine.random_keys import flatten, is_key
from minixla.engine.structures import PyTreeDef
from minixla.sharding.axes import size_of
from minixla.sharding.mesh import MESH_NAME, Mesh
from minixla.sharding.operations import Identity, ShardingConstraint
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.transforms.arguments import Arguments, flatten_prefix, misfit, named_after
from minixla.transforms.pytree_paths import Places, naming
from minixla.transforms.typed_functions import Function
from minixla.typing import ArrayLike, PyTree
from minixla_ops.programs.runs_programs import SpansDevices

#: A mesh of minixla or JAX.
MeshLike: TypeAlias = Mesh | jax.sharding.Mesh | jax.sharding.AbstractMesh
_KNOWN = (PartitionSpec, NamedSharding, TensorSharding, SingleDeviceSharding)


class DevicePlacement(Identity, SpansDevices):
    """Place the operand on one device (JAX: with_sharding_constraint).

    It runs between the programs before and after it, because JAX must know the device.
    """

    namespace = Operation.namespace  # in Shardy it is a constraint
    hlo_name = "custom-call"
    sharding: SingleDeviceSharding = attribute(Attribute())

    def run(self, operand):
        value = current_trace().lift(operand, self.builder_name)
        if isinstance(value, JaxTracer):
            return jax.lax.with_sharding_constraint(value, self.sharding)
        return jax.device_put(value, self.sharding)  # from any device

    def stablehlo(self, emit, operands, shapes, results):
        if emit.calls_host:
            problem = "a loop or branch cannot contain a function that is placed on a device"
            advice = "Pass the device to the jit around the loop or branch."
            raise misfit("jit", problem, [f"the device is {self.sharding}"], advice)
        constraint = ShardingConstraint(_on_device(self.sharding))
        return constraint.stablehlo(emit, operands, shapes, results)

    def hlo_attributes(self, shapes):
        text = f'"{_on_device(self.sharding)}"'
        return {"custom_call_target": '"Sharding"', "sharding": text}


def _on_device(sharding: SingleDeviceSharding) -> TensorSharding:
    (device,) = sharding.device_set
    return TensorSharding(Mesh.maximal(device.id))


@contextmanager
def mesh_in_force(mesh: Mesh | None) -> Iterator[None]:
    """Use this mesh, if it is not None, for specs without a mesh inside a `with` block."""
    if mesh is None:
        yield
        return
    with held("mesh", mesh), mesh_key(mesh):
        yield


def known_mesh(subject: str, mesh: MeshLike | None = None) -> Mesh:
    """Return a mesh of minixla; default: the one of `mx.jit(mesh=)` or `jax.set_mesh`.

    Raises:
        TransformError: no mesh is set.
    """
    current = _state.mesh or jax.sharding.get_abstract_mesh() if mesh is None else mesh
    if not (current := Mesh.of(current)).is_empty:
        return current
    advice = "Pass mesh=minixla.sharding.Mesh(...) to it or to the jit around it, or call it under "
    raise misfit(subject, "no mesh of devices is set", advice=f"{advice}jax.set_mesh(mesh).")


def tensor_sharding(
    subject: str, stated: object, shape: AnyShape, mesh: MeshLike | None = None
) -> TensorSharding:
    """Convert a PartitionSpec, NamedSharding or TensorSharding for an array to TensorSharding.

    Raises:
        ShardingError: it does not match the array.
        TransformError: the type is not supported, or no mesh is set.
    """
    if isinstance(stated, TensorSharding):
        sharding = stated
    else:
        own_mesh, spec = mesh, stated
        if isinstance(stated, NamedSharding):
            own_mesh, spec = stated.mesh, stated.spec
        sharding = TensorSharding.from_spec(
            known_mesh(subject, own_mesh), spec, getattr(shape, "rank", 0)
        )
        sharding = sharding.of(mesh_name=MESH_NAME)
    sharding.check_rank(shape, subject)
    return sharding


def constrain(x: PyTree, sharding: PyTree, *, mesh: MeshLike | None = None) -> PyTree:
    """Constrain the sharding of arrays (JAX: lax.with_sharding_constraint).

    Values do not change. It works everywhere, including loops, derivatives and batches. The
    cotangent has the same sharding; the additional dimension of a batch is open.

    Args:
        x: a pytree of arrays.
        sharding: a PartitionSpec, a NamedSharding, a TensorSharding, or a tree of these that is a
            prefix of `x`; None does not constrain.
        mesh: the mesh of PartitionSpecs, of minixla or JAX; default: that of the surrounding
            `mx.jit`, or of `jax.set_mesh`.

    Returns:
        A pytree like `x`.

    Raises:
        ShardingError: a sharding does not match its array.
        TransformError: no mesh is set, or the tree does not match.

    Example:
        >>> mesh = mx.sharding.Mesh(jax.devices()[:1], "x")
        >>> mx.jit(lambda x: mx.sharding.constrain(x, jax.P("x"), mesh=mesh))(np.float32([1, 2]))
        Array([1., 2.], dtype=float32)
    """
    return _constrained("constrain", "sharding", "x", x, sharding, mesh)


@api_boundary
def device_put(
    x: PyTree,
    device: PyTree = None,
    *,
    src: PyTree = None,
    donate: PyTree = False,
    may_alias: PyTree = None,
) -> PyTree:
    """Place arrays on a device, or shard them over several (JAX: device_put).

    For traced values, it becomes part of the program: a sharding over a mesh becomes a constraint,
    and a device becomes the device of the program.

    Args:
        x: a pytree of arrays and scalars.
        device: a device, a sharding, or a tree of these that is a prefix of `x`; None: the default
            device, or the current one of a value.
        src: the current location; like donate and may_alias, it is passed to JAX and ignored for
            traced values.
        donate: whether the memory of `x` may be reused.
        may_alias: whether the result may share memory with `x`.

    Returns:
        A pytree like `x` of arrays.

    Raises:
        ShardingError: a sharding does not match its array.
        TransformError: values are traced, and programs do not support the layout.

    Example:
        >>> mx.device_put(np.float32([1, 2]), jax.devices()[0])
        Array([1., 2.], dtype=float32)
    """
    subject, leaves = "device_put", jax.tree.leaves(x)
    if _state.trace.evaluates and not any(isinstance(leaf, Tracer) for leaf in leaves):
        try:
            return jax.device_put(x, device, src=src, donate=donate, may_alias=may_alias)
        except TypeError:
            for leaf in leaves:
                if not is_key(leaf):
                    check_value(leaf, subject)
            raise
    lifted = jax.tree.map(lambda leaf: _state.trace.lift(leaf, subject), x)
    places = jax.tree.map(_as_sharding, device, is_leaf=_is_leaf)
    return _constrained(subject, "device", "x", lifted, places, None)


def _as_sharding(place: object) -> object:
    return SingleDeviceSharding(place) if isinstance(place, jax.Device) else place


def placed(value: PyTree, place: object, name: str = "device") -> PyTree:
    """Place an array on a device or shard it, as the argument `name` states."""
    place = _as_sharding(place)
    if not isinstance(place, (*_KNOWN, type(None))):
        problem, advice = f"{name} must be a device or a sharding", "Pass one of jax.devices()."
        raise misfit("placement", problem, [f"{name} = {place!r}"], advice)
    return _constrained("placement", name, "the array", value, place, None)


def _constrained(
    subject: str, name: str, label: str, values: PyTree, shardings: PyTree, mesh: MeshLike | None
) -> PyTree:
    """Shard the arrays of a pytree by a prefix tree, in which None does not constrain.

    `name` is the argument with the shardings; errors name the pytree `label`.
    """
    if shardings is None:
        return values
    leaves, tree = flatten(values)
    for index, sharding in enumerate(_listed(subject, name, tree, shardings)):
        if sharding is not None:
            value = leaves[index]
            if isinstance(sharding, SingleDeviceSharding):
                placed = DevicePlacement(sharding)(value)
            else:
                shape = shape_of(value, subject)
                with naming(lambda: structure_places(label, tree), index):
                    sharding_wanted = tensor_sharding(subject, sharding, shape, mesh)
                placed = ShardingConstraint(sharding_wanted)(_moved(value, sharding_wanted))
            leaves[index] = _state.trace.weakly(placed) if weak_type_of(value) else placed
    return jax.tree.unflatten(tree, leaves)


def _moved(value: ArrayLike, sharding: TensorSharding) -> ArrayLike:
    """Move a value to the devices of a constraint outside programs, if it is elsewhere."""
    if not isinstance(value, jax.Array) or isinstance(value, JaxTracer):
        return value
    if not value.committed or not _state.trace.evaluates:
        return value
    mesh = jax_mesh(sharding.mesh)
    is_there = value.sharding.device_set == set(mesh.devices.flat)
    return value if is_there else jax.device_put(value, NamedSharding(mesh, PartitionSpec()))


def _is_leaf(value: object) -> bool:
    return value is None or isinstance(value, _KNOWN)


def _listed(subject: str, name: str, tree: PyTreeDef, shardings: PyTree) -> list[Any]:
    """Return the sharding of each leaf of a tree."""
    listed = flatten_prefix(subject, name, tree, shardings, "a sharding", _is_leaf)
    for entry in listed:
        if entry is not None and not isinstance(entry, _KNOWN):
            problem = f"{name} inside another transformation is a layout that programs do not "
            advice = "Pass a PartitionSpec with a mesh, a jax.sharding.NamedSharding or "
            advice += "SingleDeviceSharding; or pass it to the outermost jit."
            raise misfit(subject, f"{problem}support", [f"{name} has {entry!r}"], advice)
    return listed


class JitLayouts:
    """The shardings of a jit's arguments and results, as stated by its options."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options, self._mesh, device = options, options.get("mesh"), options.get("device")
        is_right = device is None or isinstance(device, (jax.Device, Sharding))
        check_arguments("jit", device=(device, is_right, "one of jax.devices(), or None"))

    def _side(self, name: str) -> PyTree:
        """Return `in_shardings` or `out_shardings`; default: the device option."""
        device, backend = self.options.get("device"), self.options.get("backend")
        if device is None and backend is not None:
            device = jax.local_devices(backend=backend)[0]
        return self.options.get(name, None if device is None else SingleDeviceSharding(device))

    def within(self, fun: Function) -> Function:
        """Wrap a function so that specs without a mesh use the jit's mesh, if it has one."""
        if self._mesh is None:
            return fun

        def within(*args: PyTree, **kwargs: PyTree) -> PyTree:
            with mesh_in_force(Mesh.of(self._mesh)):
                return fun(*args, **kwargs)

        return named_after(within, fun)

    def for_jax(self) -> dict[str, Any]:
        """Return the options for `jax.jit`, with the mesh in each of the shardings."""
        if self._mesh is None:
            return self.options
        mesh = Mesh.of(self._mesh)
        device_mesh = jax_mesh(mesh) if is_here(mesh) else abstract_mesh(mesh)

        def named(path: Sequence[object], sharding: object) -> object:
            if isinstance(sharding, TensorSharding):
                sharding = PartitionSpec(
                    *[_entry(sharding, dimension) for dimension in sharding.spec()]
                )
            if not isinstance(sharding, PartitionSpec):
                return sharding
            with naming(lambda: [f"{side}{keystr(tuple(path))}"], 0):
                TensorSharding.from_spec(mesh, sharding, len(sharding))  # raises our error
            return NamedSharding(device_mesh, sharding)

        options = {name: value for name, value in self.options.items() if name != "mesh"}
        for side in {"in_shardings", "out_shardings"} & options.keys():
            options[side] = tree_map_with_path(named, options[side], is_leaf=_is_leaf)
        return options

    def laid_out(self, fun: Function) -> Function:
        """Wrap a function of (args, kwargs) to shard its arguments and results in a program."""
        in_side, wanted, mesh = self._side("in_shardings"), self._side("out_shardings"), self._mesh

        def between(args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
            if kwargs and in_side is not None:
                problem = "in_shardings does not support keyword arguments"
                details = [f"keywords: {', '.join(kwargs)}", f"in_shardings = {in_side}"]
                raise misfit("jit", problem, details, "Pass the arguments by position.")
            args = _constrained("jit", "in_shardings", "args", args, in_side, mesh)
            result = fun(args, kwargs)
            return _constrained("jit", "out_shardings", "the result", result, wanted, mesh)

        return fun if in_side is None and wanted is None else between

    def annotated(self, graph: Graph, arguments: Arguments, tree: PyTreeDef) -> Graph:
        """Annotate the function's program with the shardings of arguments and results.

        `tree` is the structure of the results. Arguments without a stated sharding keep their own.
        """
        placed = self._of_arguments(arguments)
        placed += [None] * (len(graph.inputs) - len(placed))
        for number, leaf in enumerate(arguments.leaves):
            found = getattr(leaf, "sharding", None)
            if placed[number] is None and isinstance(found, NamedSharding) and found.mesh.size > 1:
                placed[number] = found
        wanted, outputs = self._side("out_shardings"), [None] * len(graph.outputs)
        if wanted is not None:
            outputs = _listed("jit", "out_shardings", tree, wanted)
        ends = partial(structure_places, "the result", tree)
        inputs = self._noted(arguments.where, [value.shape for value in graph.inputs], placed)
        outputs = self._noted(ends, graph.output_shapes, outputs)
        pairs = zip(graph.inputs, inputs, strict=True)
        values = {value: sharding for value, sharding in pairs if sharding is not None}
        if not values and all(output is None for output in outputs):
            return graph
        notes = Annotations(values, tuple(outputs))
        parts = graph.inputs, graph.instructions, graph.outputs
        return Graph(*parts, graph.name, notes, graph.paths)

    def check_mesh(self) -> None:
        """Raise ShardingError if the mesh has more devices than exist."""
        if self._mesh is not None:
            jax_mesh(Mesh.of(self._mesh))

    def check_arguments(self, arguments: Arguments) -> None:
        """Raise ShardingError if the shardings do not match the arguments or the devices."""
        self.check_mesh()
        shardings = self._of_arguments(arguments)
        shapes = [shape_of(leaf, "jit") for leaf in arguments.leaves[: len(shardings)]]
        self._noted(arguments.where, shapes, shardings)

    def _of_arguments(self, given: Arguments) -> list[Any]:
        """Return the stated sharding of each argument; empty if none is stated."""
        arguments, (_, tree) = self._side("in_shardings"), flatten(given.given)
        return [] if arguments is None else _listed("jit", "in_shardings", tree, arguments)

    def _noted(
        self, where: Places, shapes: Sequence[AnyShape], shardings: Sequence[Any]
    ) -> list[TensorSharding | None]:
        """Return TensorShardings for arrays, which they must match; `where` names the arrays."""
        noted: list[TensorSharding | None] = []
        for index, (shape, sharding) in enumerate(zip(shapes, shardings, strict=True)):
            if isinstance(sharding, SingleDeviceSharding):
                sharding = _on_device(sharding)
            elif sharding is not None:
                with naming(where, index):
                    sharding = tensor_sharding("jit", sharding, shape, self._mesh)
                check_pieces("jit", where, index, shape, sharding)
            noted.append(sharding)
        return noted


def _entry(sharding: TensorSharding, entry: object) -> object:
    if any(axis.size is not None for dimension in sharding.dimensions for axis in dimension.axes):
        problem = "shardings of arguments and results must use whole axes, as JAX requires"
        advice = "Use whole axes; inside the function, mx.sharding.constrain supports any sharding."
        raise explain(ShardingError, "jit", problem, [f"sharding: {sharding}"], advice)
    return PartitionSpec.UNCONSTRAINED if entry is ... else entry


def check_pieces(
    subject: str, where: Places, index: int, shape: AnyShape, sharding: TensorSharding
) -> None:
    """Raise ShardingError if the shards of an array would differ in size.

    `where` names the arrays; this is the one at `index`.
    """
    if not isinstance(shape, Shape) or sharding.mesh.is_maximal:
        return
    for number, (size, parts) in enumerate(zip(shape.dimensions, sharding.parts, strict=True)):
        if size % size_of(parts):
            axes = " * ".join([f"{part.name}={part.size}" for part in parts])
            name = where()[index]
            problem = f"dimension {number} of {name}, of size {size}, cannot be split into "
            problem += f"{size_of(parts)} equal pieces"
            details = [f"{name}: {shape}", f"sharding: {sharding}", f"axes: {axes}"]
            advice = "The axis sizes must divide the dimension's size: pad it, or use other axes."
            raise explain(ShardingError, subject, problem, details, advice)
