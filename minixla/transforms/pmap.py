"""pmap: run a function on several devices at once, each with its elements of mapped axes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Unpack, overload

import jax
from jax.core import Tracer as JaxTracer
from jax.sharding import PartitionSpec
from jax.tree_util import tree_flatten, tree_leaves, tree_unflatten

import minixla.numpy as mxnp
from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import check_arguments
from minixla.core.graph import Graph, remembered
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import _state, default_trace, evaluate_graph
from minixla.engine import raise_ours, stage_for_jax
from minixla.engine.devices import chosen_devices, own_count, own_share
from minixla.engine.float0 import is_float0, places, with_axis
from minixla.engine.meshes import OnMesh, is_outermost, jax_mesh, spec_of
from minixla.engine.structures import PyTreeDef
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.mesh import MESH_NAME, Mesh
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.transforms.arguments import Arguments, Cache, check_marks, in_place_of, misfit
from minixla.transforms.named_axes import UNNAMED, MeshAxis, mapped_axis
from minixla.transforms.pytree_paths import check_leaves, numbers_among
from minixla.transforms.shard_map import of_first
from minixla.transforms.staging import stage_once, static_key
from minixla.transforms.typed_functions import Function, Parameters, PmapOptions, Result
from minixla.transforms.vmap import mapped_shapes, out_axis, vmap
from minixla.typing import Array, PyTree
from minixla_ops.helpers.shorthand import array_shape
from minixla_ops.programs.runs_programs import SpansDevices, program

_AXIS = "devices"
Axes = tuple[int | None, ...]


class AcrossProcesses(ManualComputation, SpansDevices):
    """A program on devices of several processes, each with its own shards.

    All processes must make the same calls; it runs between programs.
    """

    name = "Pmap"
    builder_name = "pmap"

    def manual_sizes(self, sharding, what="it"):
        count, cut = own_count(self.mesh.devices.flat), self.mesh.size
        return [count if size == cut else size for size in super().manual_sizes(sharding, what)]

    def numbers_along(self, axes):
        is_here = [device.process_index == jax.process_index() for device in self.mesh.devices.flat]
        return super().numbers_along(axes)[is_here]

    def run(self, *operands):
        if any(isinstance(operand, JaxTracer) for operand in operands):
            raise self._alone(
                "a program that JAX traces cannot use devices of other processes",
                "Call it outside jit and JAX's transformations: the mapped function is compiled "
                "already, and mx.grad, mx.jvp and mx.vmap can be applied to it.",
            )
        from jax.experimental import multihost_utils  # slow to import, and rarely needed

        mesh = jax_mesh(self.mesh)
        in_specs, wanted = (list(map(spec_of, x)) for x in (self.in_shardings, self.out_shardings))
        wide = multihost_utils.host_local_array_to_global_array(list(operands), mesh, in_specs)
        results = list(ManualComputation(**self.values)(*wide))
        return tuple(multihost_utils.global_array_to_host_local_array(results, mesh, wanted))

    def reference(self, *operands):
        advice = "Run it in one process, or use only local devices: devices=jax.local_devices()."
        raise self._alone("the reference evaluator has no values of other processes", advice)

    def _alone(self, problem: str, advice: str) -> Exception:
        size, count = self.mesh.size, own_count(self.mesh.devices.flat)
        return misfit("pmap", problem, [f"{size} devices, {count} of this process"], advice)


@overload
def pmap(
    fun: Callable[Parameters, Result],
    axis_name: Hashable | None = None,
    **options: Unpack[PmapOptions],
) -> Callable[Parameters, Result]: ...
@overload
def pmap(
    *, axis_name: Hashable | None = None, **options: Unpack[PmapOptions]
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]: ...
@checks_kinds
def pmap(
    fun: Callable[..., PyTree] | None = None,
    axis_name: Hashable | None = None,
    *,
    in_axes: int | Sequence[PyTree] | None = 0,
    out_axes: PyTree = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[object] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Function:
    """Compile `fun` and run it on several devices at once (JAX: pmap).

    Each device gets its element of the mapped axes, whose size is the number of devices in use.
    Inside another pmap or a shard_map, the elements of the inner axis stay on the outer one's
    device, as in vmap. It is one instruction, `sdy.manual_computation`, in every program: in loops,
    branches, derivatives and batches. All pmaps in one program use the same devices. The function
    is traced once for each combination of shapes and static arguments.

    If JAX runs in several processes, all must make the same calls. Each process passes and gets its
    devices' elements, equally many in all processes; collectives are over all elements.
    Unmapped values must be equal in all processes; their derivatives are those of the whole
    program.

    Args:
        fun: a function of pytrees of arrays; omitted if `pmap` is a decorator with options.
        axis_name: a name of the axis for collectives.
        in_axes: the mapped axis of each array argument; see `vmap`.
        out_axes: the mapped axis of each result; None takes the first device's result.
        static_broadcasted_argnums: positions of arguments that are passed unchanged.
        devices: the devices to use, in order; default: those of the mesh of the surrounding jit, if
            their number matches, or the first ones of the backend.
        backend: the platform whose devices are used.
        axis_size: the size of the axis, over all processes; required if no argument is mapped.
        donate_argnums: positions of arguments whose memory may be reused.

    Returns:
        A function of arrays whose mapped axes have the size of the number of devices in use.

    Raises:
        TransformError: there are too few devices, or the axes do not match.

    Example:
        >>> f = mx.pmap(lambda x: x / mx.psum(x, "i"), axis_name="i", devices=jax.devices()[:1])
        >>> f(np.float32([5]))
        Array([1.], dtype=float32)
    """
    if fun is None:
        options = locals()
        return functools.partial(pmap, **{n: v for n, v in options.items() if n != "fun"})
    listed = devices if isinstance(devices, Iterable) else [devices]
    is_right = devices is None or all(isinstance(device, jax.Device) for device in listed)
    check_arguments("pmap", devices=(devices, is_right, "a list of devices, as of jax.devices()"))
    marks = {"static_broadcasted_argnums": static_broadcasted_argnums}
    check_marks("pmap", fun, **marks, donate_argnums=donate_argnums)
    known = axis_name, in_axes, out_axes, static_broadcasted_argnums, devices, backend, axis_size
    mapping, evaluator = _Mapping(fun, *known, donate_argnums), default_trace()

    @in_place_of(fun, "pmap")
    def mapped(*args: PyTree, **kwargs: PyTree) -> PyTree:
        is_alone = _state.trace is evaluator and _state.mesh is None and is_outermost()
        return (mapping.run if is_alone else mapping.bind)(*args, **kwargs)

    return mapped


@dataclass
class _Mapping:
    """A function with the options of `pmap`."""

    fun: Callable[..., PyTree]
    axis_name: Hashable
    in_axes: PyTree
    out_axes: PyTree
    static: int | Sequence[int]
    devices: Sequence[object] | None
    backend: str | None
    axis_size: int | None
    donated: int | Sequence[int]
    staged: Cache = field(default_factory=Cache)
    compiled: Cache = field(default_factory=Cache)

    def run(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Run the function as a separate program."""
        numbers = numbers_among(self.static, len(args)) if self.static != () else ()
        fixed = {number: args[number] for number in numbers}
        rest = tuple([x for n, x in enumerate(args) if n not in fixed]) if fixed else args
        leaves, tree = tree_flatten((rest, kwargs))
        shapes = tuple([getattr(leaf, "shape", None) for leaf in leaves])
        key = tree, shapes, tuple([static_key("pmap", *pair) for pair in fixed.items()])
        compiled = self.compiled.get(key)
        if compiled is None:
            layout = self.layout(args, kwargs)
            if not _is_own(layout.mesh):
                return self.bind(*args, **kwargs)
            compiled = self.compiled[key] = self.program(layout, tree, fixed, len(args))
        try:
            return compiled(*leaves)
        except RuntimeError as error:
            raise_ours(error, "pmap")
            raise
        except (TypeError, ValueError):
            self.layout(args, kwargs)  # raises our error if they do not match
            raise

    def program(
        self, layout: _Layout, tree: PyTreeDef, fixed: dict[int, PyTree], count: int
    ) -> OnMesh:
        """Return the function of the leaves of `count` arguments, without `fixed` ones."""
        # Do not refer to the programs, so that they are freed with the function.
        mapping = replace(self, compiled=Cache())

        def of_leaves(*leaves: Array) -> PyTree:
            rest, kwargs = tree_unflatten(tree, leaves)
            others = iter(rest)
            args = [fixed[n] if n in fixed else next(others) for n in range(count)]
            return mapping.bind(*args, **kwargs)

        of_leaves.__name__ = layout.given.name
        donated, others = numbers_among(self.donated, count), set(range(count)) - set(fixed)
        pairs = zip(sorted(others), tree.children()[0].children(), strict=True)
        owners = [number for number, structure in pairs for _ in range(structure.num_leaves)]
        again = [leaf for leaf, owner in enumerate(owners) if owner in donated]
        specs = [PartitionSpec(*_entries(axis)) for axis in layout.axes]
        return OnMesh(stage_for_jax(of_leaves), layout.mesh, specs, again)

    def layout(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> _Layout:
        """Return the layout of the arguments, which must match."""
        arguments, axes = self.arguments(args, kwargs)
        leaves = tree_leaves(whole := (arguments.given, kwargs))
        if any(map(is_float0, leaves)):
            check_leaves("pmap", leaves, places("argument", whole, True))
        share = None if self.axis_size is None else own_share(self.axis_size, self.devices)
        shapes, axes, size = mapped_shapes("pmap", arguments, axes, share)
        return _Layout(arguments, shapes, tuple(axes), size, self.mesh(size))

    def mesh(self, size: int) -> Mesh:
        """Return the devices in use; default: those of the current mesh, if the number matches."""
        known = None if (self.devices, self.backend) != (None, None) else _state.mesh
        if known is not None and known.size == size:
            return _mesh(None if known.devices is None else tuple(known.devices.flat), size)
        return _mesh(chosen_devices(size, self.devices, self.backend))

    def arguments(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> tuple[Arguments, PyTree]:
        """Return the arguments that are not static, and their axes."""
        static, axes = numbers_among(self.static, len(args)), self.in_axes
        if isinstance(axes, (list, tuple)):
            axes = [axis for number, axis in enumerate(axes) if number not in static]
        return Arguments.besides("pmap", self.fun, args, kwargs, static), axes

    def bind(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function under the current trace."""
        name = UNNAMED if self.axis_name is None else self.axis_name
        if any(isinstance(axis, MeshAxis) for _, axis in _state.axes):
            arguments, axes = self.arguments(args, kwargs)
            options = axes, self.out_axes, self.axis_name, self.axis_size
            return vmap(lambda *a, **k: arguments.apply(a, k), *options)(*arguments.given, **kwargs)
        arguments, shapes, axes, size, mesh = self.layout(args, kwargs)
        pairs = zip(shapes, axes, strict=True)
        members = arguments.signature(
            [x if at is None else x.without_dimension(at) for x, at in pairs]
        )
        static = [(n, args[n]) for n in numbers_among(self.static, len(args))]
        with mapped_axis(name, MeshAxis(mesh, (_AXIS,), itertools.count(1))):
            staged = stage_once(self.staged, arguments, static, members, arguments.apply)
        results = staged.described_by("pmap", "out_axes", self.out_axes)
        wanted = tuple([_out_axis(*result) for result in results])
        operation = _operation(staged.graph, mesh, (*[None] * len(staged.read), *axes), wanted)
        return with_axis(staged.results(operation(*staged.read, *arguments.leaves)), size)


class _Layout(NamedTuple):
    """The layout of a call's arguments."""

    given: Arguments
    shapes: list[Any]  # shapes of the leaves
    axes: Axes  # the mapped axis of each leaf; None passes the whole leaf to every device
    size: int  # the size of these axes in this process
    mesh: Mesh  # the devices of all processes


def _out_axis(shape: AnyShape, axis: int | None) -> int | None:
    """Return the axis of a result with a shape per device, counted from the front."""
    return out_axis("pmap", shape, axis, lambda: "a result", f"{shape} on each device")


@lru_cache(maxsize=256)
def _mesh(devices: tuple[object, ...] | None, size: int | None = None) -> Mesh:
    return Mesh(devices, (_AXIS,), None if size is None else (size,))


def _is_own(mesh: Mesh) -> bool:
    """Return whether all devices belong to this process."""
    return mesh.devices is None or own_count(mesh.devices.flat) == mesh.size


def _entries(axis: int | None) -> list[str | None]:
    """Return the PartitionSpec entries of an array that is sharded along an axis."""
    return [] if axis is None else [*[None] * axis, _AXIS]


@remembered
def _operation(graph: Graph, mesh: Mesh, in_axes: Axes, out_axes: Axes) -> ManualComputation:
    """Build the program of each device, whose shards have the mapped axis with size 1."""
    cut = tuple([() if at is None else (_AXIS,) for at in in_axes])
    graph = of_first(graph, mesh, cut, tuple([(_AXIS,) if at is None else () for at in out_axes]))

    def on_each(*pieces: Array) -> list[Array]:
        pairs = zip(pieces, in_axes, strict=True)
        members = [x if at is None else mxnp.squeeze(x, at) for x, at in pairs]
        pairs = zip(evaluate_graph(graph, members), out_axes, strict=True)
        return [x if at is None else mxnp.expand_dims(x, at) for x, at in pairs]

    def sides(shapes: Sequence[Any], axes: Axes) -> tuple[TensorSharding, ...]:
        return tuple([_side(mesh, *pair) for pair in zip(shapes, axes, strict=True)])

    pairs = zip(graph.input_shapes, in_axes, strict=True)
    pieces = [x if at is None else array_shape(x).with_dimension(at, 1) for x, at in pairs]
    body = program(on_each, pieces, graph.name)
    in_sides, wanted = sides(pieces, in_axes), sides(body.output_shapes, out_axes)
    kind = ManualComputation if _is_own(mesh) else AcrossProcesses
    return kind(body, in_sides, wanted, (_AXIS,))


def _side(mesh: Mesh, shape: Shape, axis: int | None) -> TensorSharding:
    sharding = TensorSharding.from_spec(mesh, _entries(axis), shape.rank)
    return sharding.replicated_along([_AXIS] if axis is None else [], MESH_NAME)
