"""JAX functions of flat arrays as operations of ours: their programs, and what JAX derives."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.tree_util import tree_flatten, tree_leaves, tree_unflatten

from minixla.core.attributes import Attribute, attribute
from minixla.core.errors import ConcretizationError, ImportError_, MinixlaError, explain
from minixla.core.forward import has_tangent
from minixla.core.linear import pullback_by, spread
from minixla.core.shapes import AnyShape, Shape, shape_of_data
from minixla.core.source import find_source, is_user_file
from minixla.core.tracing import default_trace, shape_of, under
from minixla.engine.float0 import float0_zeros
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
        with under(default_trace()), _explaining(name, arguments, labels):
            staged = jax.jit(function, keep_unused=True).trace(*arguments)
        _refuse(staged.jaxpr, name, shardings)
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


# What goes wrong while JAX traces a function, in our words.

#: What JAX's errors call the arguments of the function that it traces, by its only parameter.
_ARGUMENT = re.compile(r"\barrays\[(\d+)\]")


@contextmanager
def _explaining(name: str, arguments: Sequence[Any], labels: Sequence[str]) -> Iterator[None]:
    """Errors of JAX's name the arguments (by `labels` if the user gave them) and what to do."""
    try:
        yield
    except MinixlaError:
        raise
    except Exception as error:
        labels = labels or [f"operand {number}" for number in range(len(arguments))]
        traced = [f"{x} {shape_of_data(a)}" for x, a in zip(labels, arguments, strict=True)]
        kinds = (jax.errors.JAXTypeError, jax.errors.JAXIndexError, TypeError)
        if not isinstance(error, kinds) or "concrete" not in str(error).lower():
            where = f", called at {source}" if (source := find_source(1)) else ""
            error.add_note(
                f"mx.from_jax: raised while JAX traced {name}{where}.\n  JAX traced: "
                f"{', '.join(traced) or 'nothing'}; all else reached {name} as it was given."
            )
            raise
        found = sorted(map(int, set(_ARGUMENT.findall(str(error)))))
        wanted = [labels[number] for number in found if number < len(labels)]
        # The innermost of the user's that raised, if it is not the one that called us.
        frames = [f for f in traceback.extract_tb(error.__traceback__) if is_user_file(f.filename)]
        raise explain(
            ConcretizationError,
            "from_jax",
            f"{name} asks for the value of {' and '.join(wanted) or 'what it computes'}, "
            "of which JAX knows only the shape",
            [f"JAX traced {each}" for each in traced]
            + [f"JAX says: {str(error).splitlines()[0]}"]
            + [f"asked for at {frame.filename}:{frame.lineno}" for frame in frames[-1:]],
            "mx.from_jax lets JAX trace arrays, NumPy's numbers and traced values, and nothing "
            f"else: give {wanted[0] if wanted else 'it'} as a Python number (or a tuple of such). "
            "Where it comes into mx.jit as an argument, name it in static_argnums or "
            "static_argnames there; if the value is only known when the program runs, choose with "
            "jnp.where or jax.lax.cond.",
        ) from None


def _refuse(jaxpr: Any, name: str, shardings: Shardings) -> None:
    """Raises ImportError_ where a function of JAX's does what no graph says."""
    for problem, shown, advice in _losses(jaxpr, shardings):
        raise explain(ImportError_, "from_jax", f"{name} {problem}", [shown], advice)


def _losses(jaxpr: Any, shardings: Shardings) -> Iterator[tuple[str, str, str]]:
    """What a program would lose, which one, and what to do."""
    for step in _steps(jaxpr):
        if step.primitive.name == "shard_map":
            yield (
                "maps a function over devices with jax.shard_map",
                f"mesh: {step.params['mesh']}",
                "A program of ours is one for all devices: call jax.shard_map from JAX's code "
                "(jax.jit, jax.grad), where the mapped function may call ours; or use mx.pmap.",
            )
    for step in _steps(jaxpr) if shardings == "refuse" else ():
        for key in ("sharding", "in_shardings", "out_shardings", "devices"):
            given = step.params.get(key)
            for each in given if isinstance(given, (tuple, list)) else (given,):
                # What is left open is no Sharding.
                if isinstance(each, jax.sharding.Sharding):
                    yield (
                        "fixes the layout of a value over devices, which a program of ours would "
                        "lose",
                        f"{step.primitive.name}, {key}: {each}",
                        'mx.from_jax(f, shardings="drop") gives it up: the results are the same. '
                        "Or leave it out of the function and say it outside: "
                        "mx.jit(lambda x: x, out_shardings=sharding)(x) keeps the layout of x "
                        "inside a program of ours; or call the function from jax.jit, not through "
                        "mx.from_jax.",
                    )
    if jaxpr.effects:
        yield (
            "has side effects",
            f"effects: {', '.join(map(str, jaxpr.effects))}",
            "Prints and ordered callbacks run in JAX's own programs only: call the function "
            "outside, or leave them out.",
        )


def _steps(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr and of all within it."""
    for step in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield step
        for inner in tree_leaves([*step.params.values()]):
            if isinstance(inner, (ClosedJaxpr, Jaxpr)):
                yield from _steps(inner)
