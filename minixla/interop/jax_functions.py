"""JAX functions of flat arrays as operations of ours: their programs, and what JAX derives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import jax
from jax.tree_util import tree_flatten, tree_leaves, tree_unflatten

from minixla.core.attributes import Attribute, attribute
from minixla.core.forward import has_tangent
from minixla.core.linear import pullback_by, spread
from minixla.core.shapes import AnyShape, Shape
from minixla.core.tracing import default_trace, shape_of, under
from minixla.engine.float0 import float0_zeros
from minixla.interop.jax_tracing import explaining, refuse
from minixla.interop.module import Module
from minixla.interop.shardings import Shardings
from minixla_ops.programs.call import Call

# No backend: JAX writes what does without libraries of one.
_PORTABLE = "minixla"


def _lowered(staged: Any) -> Any:
    """The StableHLO module: without a backend's libraries where JAX can do without them."""
    try:
        lowered = staged.lower(lowering_platforms=(_PORTABLE,))
    except (NotImplementedError, ValueError):  # JAX has no rule for a platform but the backend's
        lowered = staged.lower(lowering_platforms=(jax.default_backend(),))
    return lowered.compiler_ir("stablehlo")


class FlatFunction:
    """A JAX function of arrays that gives a list of arrays, for arguments of fixed shapes.

    Derivatives and batches are what JAX makes of the function, and are such functions too.

    Args:
        function: takes arrays.
        shapes: of its arguments.
        weak: which of them are weakly typed.
        name: the graph's.
        labels: what the arguments are called in messages.
        shardings: what to do with layouts over devices that it fixes.

    Raises:
        ImportError_: the function calls back into Python, has other side effects, fixes layouts,
            or maps over devices.
        ConcretizationError: it needs the value of an argument.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        shapes: Sequence[AnyShape],
        weak: Sequence[bool],
        name: str,
        labels: Sequence[str] = (),
        shardings: Shardings = "refuse",
    ) -> None:
        self.function, self.name = function, name
        self.shardings: Shardings = shardings
        arguments = [
            jax.ShapeDtypeStruct(s.dimensions, s.dtype, weak_type=flag)
            for s, flag in zip(shapes, weak, strict=True)
            if isinstance(s, Shape)
        ]
        # What the function calls of ours belongs to JAX's program, not to the one being traced.
        with under(default_trace()), explaining(name, arguments, labels):
            staged = jax.jit(function, keep_unused=True).trace(*arguments)
        refuse(staged.jaxpr, name, shardings)
        self.graph = Module(_lowered(staged)).translated()["main"]
        self.graph.name = name
        self._derived: dict[Any, FlatFunction] = {}
        # Of the pullback that each forward half gives.
        self._trees: dict[Any, Any] = {}

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """The results under the current trace, as one instruction."""
        return JaxCall(self.graph, self)(*operands)

    def _make(
        self, key: Any, function: Callable[..., Any], shapes: Sequence[AnyShape], name: str
    ) -> FlatFunction:
        if key not in self._derived:
            made = FlatFunction(function, shapes, [False] * len(shapes), name, (), self.shardings)
            self._derived[key] = made
        return self._derived[key]

    def _of_active(self, active: Sequence[bool], operands: Sequence[Any]) -> Callable[..., Any]:
        """The function of the active operands alone; it gives the list of results."""
        return lambda *moving: tree_leaves(self.function(*spread(active, moving, operands)))

    @property
    def moving(self) -> list[bool]:
        """Which results have tangents."""
        return [has_tangent(shape) for shape in self.graph.output_shapes]

    def jvp(self, active: tuple[bool, ...]) -> FlatFunction:
        """From the operands and a tangent for each active one to the results and tangents."""
        inputs, count = self.graph.input_shapes, len(self.graph.inputs)

        def function(*values: Any) -> list[Any]:
            primals, tangents = values[:count], values[count:]
            own = [*compress(primals, active)]
            results, moved = jax.jvp(self._of_active(active, primals), own, list(tangents))
            return [*results, *compress(moved, self.moving)]

        shapes = [*inputs, *compress(inputs, active)]
        return self._make(("jvp", active), function, shapes, f"jvp_{self.name}")

    def forward(self, active: tuple[bool, ...]) -> FlatFunction:
        """From the operands to the results and what the backward half needs."""

        def function(*operands: Any) -> list[Any]:
            own = compress(operands, active)
            results, pull = jax.vjp(self._of_active(active, operands), *own)
            residuals, tree = tree_flatten(pull)
            self._trees[active] = tree
            return [*results, *residuals]

        shapes = self.graph.input_shapes
        return self._make(("vjp", active), function, shapes, f"vjp_{self.name}")

    def backward(self, active: tuple[bool, ...], shapes: Sequence[AnyShape]) -> FlatFunction:
        """From residuals and the cotangents of results to those of active operands."""
        tree, count, outputs = self._trees[active], len(shapes), self.graph.output_shapes

        def function(*values: Any) -> list[Any]:
            pull = tree_unflatten(tree, values[:count])
            found = iter(values[count:])
            cotangents = [
                next(found) if flag else float0_zeros(shape.dimensions)  # type: ignore[union-attr]  # an array
                for shape, flag in zip(outputs, self.moving, strict=True)
            ]
            return list(pull(cotangents))

        shapes = [*shapes, *compress(outputs, self.moving)]
        return self._make(("back", active), function, shapes, f"back_{self.name}")

    def batched(
        self, dimensions: tuple[int | None, ...], shapes: Sequence[AnyShape], size: int
    ) -> FlatFunction:
        """The function over a batch, that of each result in front."""
        function = jax.vmap(
            lambda *operands: tree_leaves(self.function(*operands)), dimensions, 0, axis_size=size
        )
        key = ("batch", dimensions, size)
        return self._make(key, function, shapes, f"batch_{self.name}")


class JaxCall(Call):
    """A call of a JAX function's program, with the derivatives and batches that JAX makes of it.

    Attributes:
        computation: the Graph.
        function: the FlatFunction.
    """

    builder_name = "from_jax"
    hlo_name = "call"
    spec_names = ()
    function: FlatFunction = attribute(Attribute(), hlo=None)

    def forward(self, primals, tangents):
        function, active = self.function, tuple([t is not None for t in tangents])
        everything = function.jvp(active)(*primals, *[t for t in tangents if t is not None])
        count = len(function.graph.outputs)
        return everything[:count], tuple(spread(function.moving, everything[count:]))

    def linearize(self, operands, active):
        function, flags = self.function, tuple(active)
        everything = function.forward(flags)(*operands)
        count = len(function.graph.outputs)
        results, residuals = everything[:count], everything[count:]

        def backward(*cotangents: Any) -> Sequence[Any]:
            shapes = [shape_of(each) for each in residuals]
            return function.backward(flags, shapes)(*residuals, *cotangents)

        return results, pullback_by(backward, results, function.moving, flags)

    def dependent(self, variables):
        return self.function.moving

    def batch_of(self, size, operands, dimensions, **_):
        function, at = self.function, tuple(dimensions)
        if not any(each is not None for each in at):
            return function(*operands), (None,) * len(function.graph.outputs)
        shapes = [shape_of(each) for each in operands]
        return function.batched(at, shapes, size)(*operands), (0,) * len(function.graph.outputs)
