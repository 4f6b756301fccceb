"""Calls of JAX's functions in our programs, with what JAX derives of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from itertools import compress
from typing import Any

import jax
from jax.tree_util import tree_flatten, tree_leaves, tree_unflatten

from minixla.core.attributes import Attribute, attribute
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph
from minixla.core.linear import spread
from minixla.core.shapes import AnyShape, Shape
from minixla.core.state import state
from minixla.core.symbolic_zeros import ZeroTrace, pullback_by
from minixla.core.tracing import default_trace, shape_of, under
from minixla.engine.eager import ENGINE, compiled_operation
from minixla.engine.float0 import float0_zeros
from minixla.engine.jax_functions import explaining, refuse_lost
from minixla.interop.module import Module
from minixla.interop.shardings import ShardyToo
from minixla.sharding.explicit import explicit
from minixla.sharding.mesh import Mesh
from minixla_ops.host.custom_call import CustomCall
from minixla_ops.programs.call import Call

# No backend: JAX writes what does without libraries of one.
_PORTABLE = "minixla"


class FlatFunction:
    """A JAX function of arrays that gives a list of arrays, for arguments of fixed shapes.

    Derivatives and batches are what JAX makes of the function, and are such functions too. The
    arguments have labels in messages.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        shapes: Sequence[AnyShape],
        weak: Sequence[bool],
        name: str,
        labels: Sequence[str] = (),
        shardings: ShardyToo = "keep",
        platform: str | None = None,
    ) -> None:
        self.function, self.weak, self.name = function, weak, name
        self.shardings: ShardyToo = shardings
        self.platform = platform
        given = [
            jax.ShapeDtypeStruct(s.dimensions, s.dtype, weak_type=flag)
            for s, flag in zip(shapes, weak, strict=True)
            if isinstance(s, Shape)
        ]
        # What the function calls of ours belongs to JAX's program, not to the one being traced.
        with under(default_trace()), explaining(name, given, labels):
            staged = jax.jit(function, keep_unused=True).trace(*given)
        meshes = refuse_lost(staged.jaxpr, name, shardings)
        # JAX has rules for some backends alone; the libraries that it calls on a CPU are read.
        platforms = [_PORTABLE, *dict.fromkeys(["cpu", jax.default_backend()])]
        self.graph = _lowered(staged, [platform] if platform else platforms, meshes)
        self.graph.name = name
        self._derived: dict[Any, FlatFunction] = {}
        #: Of the pullback that each forward half gives.
        self.trees: dict[Any, Any] = {}

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """The results under the current trace, as one instruction."""
        operation = JaxCall(self.graph, self)
        if state.trace is ENGINE:
            return ENGINE.run(self._compiled, operation, operands)
        return operation(*operands)

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        # JAX keeps the program that it traces, so that it must hold nothing that this holds.
        again = copy(self)
        again._derived = {}
        return compiled_operation(JaxCall(self.graph, again))

    def made(self, key: Any, function: Callable[..., Any], shapes: Any) -> FlatFunction:
        """One of those that JAX makes of it: by its kind, and what else tells it apart."""
        if key not in self._derived:
            # All but a backward half have the same operands first, then tangents.
            own = () if key[0] == "back" else self.weak
            weak, name = [*own, *[False] * (len(shapes) - len(own))], f"{key[0]}_{self.name}"
            made = FlatFunction(function, shapes, weak, name, (), self.shardings, self.platform)
            self._derived[key] = made
        return self._derived[key]

    @property
    def moving(self) -> list[bool]:
        """Which results have tangents."""
        return [has_tangent(shape) for shape in self.graph.output_shapes]


def _lowered(staged: Any, platforms: Sequence[str], meshes: Sequence[Any]) -> Graph:
    """A program as JAX lowers it for the first platform that it can, and that is understood."""
    first, *others = platforms
    try:
        lowered = staged.lower(lowering_platforms=(first,))
    except (NotImplementedError, ValueError):  # it has no rule for this one
        if not others:
            raise
        return _lowered(staged, others, meshes)
    module = Module(lowered.compiler_ir("stablehlo"), keeps_shardings=bool(meshes))
    module.is_traced = True
    if module.shardings is not None:
        module.shardings.name(map(Mesh.of, meshes))
    graph = explicit(module.translated()["main"])
    module.lost.warn("from_jax")
    if first == "cpu" and others and _calls_code(graph):
        with suppress(NotImplementedError, ValueError):
            return _lowered(staged, others, meshes)
    return graph


def _calls_code(graph: Graph) -> bool:
    own = any(isinstance(step.op, CustomCall) for step in graph.instructions)
    return own or any(map(_calls_code, graph.computations))


# Functions that JAX derives do not hold the FlatFunction, which keeps their compiled functions: JAX
# holds what it traces, and frees it with the compiled function.


def _of_active(
    function: Callable[..., Any], active: Sequence[bool], operands: Sequence[Any]
) -> Callable[..., Any]:
    """A function of the active operands alone; it gives the list of results."""
    return lambda *moving: tree_leaves(function(*spread(active, moving, operands)))


class JaxCall(Call):
    """A call of a JAX function's program, with the derivatives and batches that JAX makes of it."""

    builder_name = "from_jax"
    hlo_name = "call"
    spec_names = ()
    # What JAX makes of it keeps nothing of the values for which it is made first.
    function: FlatFunction = attribute(Attribute(), hlo=None)

    def forward(self, primals, tangents):
        flat, active = self.function, tuple([t is not None for t in tangents])
        inputs, count, moving = flat.graph.input_shapes, len(primals), flat.moving
        function = flat.function

        def with_tangents(*values: Any) -> list[Any]:
            own, moved = [*compress(values[:count], active)], [*values[count:]]
            results, moved = jax.jvp(_of_active(function, active, values[:count]), own, moved)
            return [*results, *compress(moved, moving)]

        derived = flat.made(("jvp", active), with_tangents, [*inputs, *compress(inputs, active)])
        found = derived(*primals, *compress(tangents, active))
        return found[: len(moving)], tuple(spread(moving, found[len(moving) :]))

    def linearize(self, operands, active):
        flat, flags, moving = self.function, tuple(active), self.function.moving
        outputs, function, trees = flat.graph.output_shapes, flat.function, flat.trees

        def with_residuals(*values: Any) -> list[Any]:
            results, pull = jax.vjp(_of_active(function, flags, values), *compress(values, flags))
            residuals, trees[flags] = tree_flatten(pull)
            return [*results, *residuals]

        found = flat.made(("vjp", flags), with_residuals, flat.graph.input_shapes)(*operands)
        results, residuals = found[: len(moving)], found[len(moving) :]
        tree, count = trees[flags], len(residuals)

        def pulled(*values: Any) -> list[Any]:
            rest = iter(values[count:])
            cotangents = [
                next(rest) if flag else float0_zeros(shape.dimensions)  # type: ignore[union-attr]  # an array
                for shape, flag in zip(outputs, moving, strict=True)
            ]
            return list(tree_unflatten(tree, values[:count])(cotangents))

        def backward(*cotangents: Any) -> Sequence[Any]:
            shapes = [*map(shape_of, residuals), *compress(outputs, moving)]
            return flat.made(("back", flags), pulled, shapes)(*residuals, *cotangents)

        return results, pullback_by(backward, results, moving, flags)

    def enter(self, trace, operands):
        if isinstance(trace, ZeroTrace) and _calls_code(self.computation):
            # Its derivatives are JAX's, and a program without zeros would not have them.
            with under(trace.parent):
                return self(*map(trace.instantiated, operands))
        return super().enter(trace, operands)

    def of_derived(self, computation):
        return Call(computation)

    def dependent(self, variables):
        return self.function.moving

    def batch_of(self, size, operands, dimensions, **_):
        flat, at = self.function, tuple(dimensions)
        if not any(each is not None for each in at):
            return flat(*operands), (None,) * len(flat.moving)
        function = flat.function
        of_all = jax.vmap(lambda *x: tree_leaves(function(*x)), at, 0, axis_size=size)
        made = flat.made(("batch", at, size), of_all, [*map(shape_of, operands)])
        return made(*operands), (0,) * len(flat.moving)
