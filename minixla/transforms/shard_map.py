"""shard_map: run a function on each device of a mesh with its own shards of arrays."""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, overload

import numpy as np
from jax.sharding import PartitionSpec

import minixla_ops as ops
from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import MinixlaError, ShardingError, explain
from minixla.core.graph import Graph, remembered
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracebacks import hiding_frames
from minixla.core.tracing import _state, default_trace, evaluate_graph, shape_of
from minixla.engine import raise_ours
from minixla.engine.float0 import structure_places
from minixla.engine.meshes import is_outermost
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.mesh import MESH_NAME, Mesh
from minixla.sharding.tensor_sharding import TensorSharding
from minixla.sharding.varying import varying
from minixla.transforms.arguments import (
    Arguments,
    Cache,
    checked_function,
    flatten_prefix,
    misfit,
    named_after,
)
from minixla.transforms.axis_operations import AxisSum
from minixla.transforms.custom_derivatives import custom_jvp
from minixla.transforms.evaluation import make_graph
from minixla.transforms.jit import Compiled
from minixla.transforms.layouts import JitLayouts, MeshLike, check_pieces, known_mesh
from minixla.transforms.named_axes import MeshAxis, mapped_axis
from minixla.transforms.pytree_paths import Places, naming
from minixla.transforms.staging import Staged, stage_once
from minixla.transforms.typed_functions import Function, Parameters, Result
from minixla.typing import Array, PyTree
from minixla_ops.helpers.shorthand import array_shape, zeros_like
from minixla_ops.programs.runs_programs import program

Names = tuple[tuple[str, ...], ...]


@overload
def shard_map(
    f: Callable[Parameters, Result],
    /,
    *,
    mesh: MeshLike | None = None,
    in_specs: PyTree,
    out_specs: PyTree,
    axis_names: Iterable[str] = (),
    check_vma: bool = True,
) -> Callable[Parameters, Result]: ...
@overload
def shard_map(
    *,
    mesh: MeshLike | None = None,
    in_specs: PyTree,
    out_specs: PyTree,
    axis_names: Iterable[str] = (),
    check_vma: bool = True,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]: ...
@checks_kinds
def shard_map(
    f: Callable[..., PyTree] | None = None,
    /,
    *,
    mesh: MeshLike | None = None,
    in_specs: PyTree,
    out_specs: PyTree,
    axis_names: Iterable[str] = (),
    check_vma: bool = True,
) -> Function:
    """Run a function on each device of a mesh with its own shards (JAX: shard_map).

    It is one instruction, `sdy.manual_computation`, in every program: in loops, branches,
    derivatives and batches. It supports collectives over the axes' names (`mx.psum` ...). Outside
    programs, it runs immediately.

    Args:
        f: a function of pytrees of arrays, which gets shards; omitted in a decorator.
        mesh: a Mesh of minixla or JAX; default: that of `jax.set_mesh`.
        in_specs: a PartitionSpec for each array argument, in a pytree that is a prefix of the
            arguments. It states along which axes each dimension is sharded.
        out_specs: the same for the results. Along axes that a spec omits, all devices must return
            the same value.
        axis_names: the axes along which arrays are sharded; default: all. Along other axes, the
            function behaves as without devices.
        check_vma: whether to reject a result that may differ between devices along an axis that its
            spec omits. Otherwise, the first device's value and its derivative are used.

    Returns:
        A function of whole arrays, with `jax.jit`'s methods.

    Raises:
        ShardingError: specs do not match the mesh, the arrays, or the results that are equal on all
            devices.
        TransformError: specs do not match the arguments.

    Example:
        >>> mesh, spec = jax.make_mesh((1,), ("x",)), jax.P("x")
        >>> total = mx.shard_map(
        ...     lambda x: mx.psum(x.sum(), "x"), mesh=mesh, in_specs=spec, out_specs=jax.P()
        ... )
        >>> total(np.float32([1, 2]))
        Array(3., dtype=float32)
    """
    names = tuple(axis_names)
    both = {"in_specs": in_specs, "out_specs": out_specs}
    again = functools.partial(shard_map, mesh=mesh, axis_names=names, check_vma=check_vma, **both)
    if f is None:
        return again
    function, cache = checked_function(f, "shard_map"), Cache()

    def bound(*args: PyTree) -> PyTree:
        mesh_here = known_mesh("shard_map", mesh)
        manual = _manual_axes(mesh_here, names)
        arguments = Arguments.besides("shard_map", function, args, {}, ())
        shapes = arguments.shapes()
        specs = flatten_prefix("shard_map", "in_specs", args, in_specs, "a spec", _is_spec)
        pairs = list(zip(shapes, specs, strict=True))
        sides = _sides(mesh_here, pairs, manual, arguments.where)
        pieces = [
            _piece(shape, sharding, arguments.where, index)
            for index, (shape, sharding) in enumerate(zip(shapes, sides, strict=True))
        ]
        static = [("mesh", mesh_here), ("axis_names", manual)]
        with ExitStack() as stack:
            for name, axis in _axes(mesh_here, manual).items():
                stack.enter_context(mapped_axis(name, axis))
            staged = stage_once(
                cache, arguments, static, arguments.signature(pieces), arguments.apply
            )
        everywhere = [
            _side(mesh_here, shape_of(value), PartitionSpec(), manual) for value in staged.read
        ]
        described = staged.described_by("shard_map", "out_specs", out_specs, "a spec", _is_spec)
        ends = functools.partial(structure_places, "the result", staged.result_tree)
        wanted = tuple(_sides(mesh_here, described, manual, ends))
        graph, given_sides = staged.graph, (*everywhere, *sides)
        cut = tuple([_names(side, manual)[0] for side in given_sides])
        alike = tuple([_names(sharding, manual)[1] for sharding in wanted])
        if not check_vma:
            graph = of_first(graph, mesh_here, cut, alike, _free(mesh_here, manual))
        elif any(alike):
            _check_results(staged, described, alike, varying(graph, cut, mesh_here))
        operation = ManualComputation(graph, given_sides, wanted, manual)
        return staged.results(operation(*staged.read, *arguments.leaves))

    compiled, evaluator = Compiled(named_after(bound, f), JitLayouts({})), default_trace()

    @hiding_frames
    def missed(
        made: Callable[..., PyTree], *args: PyTree, **kwargs: PyTree
    ) -> tuple[object, object, bool]:
        if _state.trace is evaluator and _state.mesh is None and is_outermost():
            try:
                return made(*args, **kwargs)
            except MinixlaError:
                raise
            except RuntimeError as error:
                raise_ours(error, "shard_map", lambda: make_graph(bound)(*args))
                raise
            except (TypeError, ValueError):
                pass
        # This moves arrays on other devices, and raises our errors.
        return bound(*args, **kwargs), None, False

    return compiled.function(missed, f, again)


def _is_spec(value: object) -> bool:
    return value is None or isinstance(value, PartitionSpec)


def _manual_axes(mesh: Mesh, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in mesh.shape:
            problem, details = f"the mesh has no axis {name!r}", [f"mesh: {mesh}"]
            advice = "Name axes of the mesh in axis_names, or omit it for all."
            raise explain(ShardingError, "shard_map", problem, details, advice)
    return tuple([name for name in mesh.axis_names if not names or name in names])


def _axes(mesh: Mesh, manual: tuple[str, ...]) -> dict[str, MeshAxis]:
    """Return the manual axes by name, for collectives."""
    free, channels = _free(mesh, manual), itertools.count(1)
    return {name: MeshAxis(mesh, (name,), channels, free) for name in manual}


def _free(mesh: Mesh, manual: tuple[str, ...]) -> tuple[str, ...]:
    """Return the axes that are not manual, here or in the surrounding functions."""
    around = [
        axis
        for _, axis in _state.axes
        if isinstance(axis, MeshAxis) and axis.mesh.shape == mesh.shape
    ]
    held = {*manual, *[name for mapped in around for name in mapped.names]}
    return tuple([name for name in mesh.axis_names if name not in held])


def _names(sharding: TensorSharding, manual: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the manual axes along which an array is sharded, and the others."""
    used = sharding.cut_along
    return [tuple([name for name in manual if (name in used) is flag]) for flag in (True, False)]


def _sides(
    mesh: Mesh, described: Sequence[tuple[AnyShape, Any]], manual: tuple[str, ...], where: Places
) -> list[TensorSharding]:
    """Convert specs to shardings for arrays with shapes; `where` names the arrays."""
    sides = []
    for index, (shape, spec) in enumerate(described):
        with naming(where, index):
            sides.append(_side(mesh, shape, spec, manual))
    return sides


def _side(
    mesh: Mesh, shape: AnyShape, spec: PartitionSpec | None, manual: tuple[str, ...]
) -> TensorSharding:
    """Convert a spec to a sharding that mentions every manual axis."""
    if not _is_spec(spec):
        problem, advice = f"{spec!r} is not a spec", "Pass jax.sharding.PartitionSpec, or None."
        raise misfit("shard_map", problem, [f"for {shape}"], advice)
    rank = shape.rank if isinstance(shape, Shape) else 0
    sharding = TensorSharding.from_spec(mesh, spec or (), rank)
    used = sharding.cut_along
    stray = [name for name in used if name not in manual]
    if stray:
        problem = f"a spec has axis {stray[0]!r}, which is not in axis_names"
        details = [f"spec: {spec}", f"axis_names: {', '.join(manual)}"]
        raise explain(
            ShardingError, "shard_map", problem, details, "Specs must use only these axes."
        )
    rest = [name for name in manual if name not in used]
    return sharding.replicated_along(rest, MESH_NAME)


def _piece(shape: AnyShape, sharding: TensorSharding, where: Places, index: int) -> AnyShape:
    if not isinstance(shape, Shape):
        return shape
    check_pieces("shard_map", where, index, shape, sharding)
    return sharding.local_shape(shape)


def _check_results(
    staged: Staged, described: Sequence[tuple[AnyShape, object]], alike: Names, differing: Names
) -> None:
    """Raise for results that may differ between devices along axes that specs omit."""
    for number, (names, axes) in enumerate(zip(alike, differing, strict=True)):
        stray = [name for name in names if name in axes]
        if stray:
            place = structure_places("the result", staged.result_tree)[number]
            problem = f"{place} may differ between devices along axis {stray[0]!r}, which its spec "
            problem += "omits"
            along = ", ".join(sorted(axes))
            details = [f"each device's: {described[number][0]}", f"it differs along: {along}"]
            advice = f"Name the axis in out_specs, combine the shards (mx.psum(x, {stray[0]!r})), "
            advice += "or pass check_vma=False to use the first device's value."
            raise explain(ShardingError, "shard_map", problem, details, advice)


@remembered
def of_first(
    graph: Graph, mesh: Mesh, names_in: Names, alike: Names, free: Sequence[str] = ()
) -> Graph:
    """Extend a program to return the first device's results along some axes.

    Args:
        graph: the program of each device.
        mesh: the devices.
        given: for each input, the axes along which it differs between devices.
        alike: for each output, the axes along which it must be equal.
        free: the axes that are not manual.
    """
    pairs = zip(alike, varying(graph, names_in, mesh), strict=True)
    stray = [tuple([name for name in names if name in axes]) for names, axes in pairs]
    if not any(stray):
        return graph

    def function(*operands: Array) -> list[Array]:
        results, channels = evaluate_graph(graph, operands), itertools.count(1)
        for number, names in enumerate(stray):
            if names:
                axis = MeshAxis(mesh, names, channels, free)
                results[number] = _first_along(axis, results[number])
        return results

    return program(function, graph.input_shapes, graph.name)


def _first_along(axis: MeshAxis, value: Array) -> Array:
    """Return the first device's value on all devices, as bits: a sum of floats loses -0."""
    kind = array_shape(value).element_type
    if kind.is_complex:
        real, imag = (_first_along(axis, part(value)) for part in (ops.real, ops.imag))
        return ops.complex(real, imag)
    if not kind.is_float or kind.bits not in _WORDS:
        return ops.convert_element_type(_sum_of_first(axis, value), kind)

    @custom_jvp
    def first(number: Array) -> Array:
        words = ops.bitcast_convert_type(number, f"u{kind.bits}")
        converted = ops.convert_element_type(_sum_of_first(axis, words), f"u{kind.bits}")
        return ops.bitcast_convert_type(converted, kind)

    first.defjvp(lambda primals, tangents: (first(*primals), _sum_of_first(axis, *tangents)))
    return first(value)


# The float widths that also exist as integers.
_WORDS = (4, 8, 16, 32, 64)


def _sum_of_first(axis: MeshAxis, value: Array) -> Array:
    """Sum the first device's value and zeros; small integers are widened."""
    kind = array_shape(value).element_type
    if kind.bits < 32 and not kind.is_inexact:  # which collectives between GPUs do not support
        value = ops.convert_element_type(value, "s32" if kind.kind == "signed" else "u32")
    is_first = ops.eq(axis.index(), np.zeros((), np.int32))
    return axis.apply(AxisSum, ops.select(is_first, value, zeros_like(value)))
