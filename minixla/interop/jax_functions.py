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
        try:
            lowered = staged.lower(lowering_platforms=(_PORTABLE,))
        except (NotImplementedError, ValueError):  # JAX has rules for the backend's alone
            lowered = staged.lower(lowering_platforms=(jax.default_backend(),))
        self.graph = Module(lowered.compiler_ir("stablehlo")).translated()["main"]
        self.graph.name = name
        self._derived: dict[Any, FlatFunction] = {}
        #: Of the pullback that each forward half gives.
        self.trees: dict[Any, Any] = {}

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """The results under the current trace, as one instruction."""
        return JaxCall(self.graph, self)(*operands)

    def made(self, key: Any, function: Callable[..., Any], shapes: Any) -> FlatFunction:
        """One of those that JAX makes of it: by its kind, and what else tells it apart."""
        if key not in self._derived:
            weak, name = [False] * len(shapes), f"{key[0]}_{self.name}"
            made = FlatFunction(function, shapes, weak, name, (), self.shardings)
            self._derived[key] = made
        return self._derived[key]

    def of_active(self, active: Sequence[bool], operands: Sequence[Any]) -> Callable[..., Any]:
        """The function of the active operands alone; it gives the list of results."""
        return lambda *moving: tree_leaves(self.function(*spread(active, moving, operands)))

    @property
    def moving(self) -> list[bool]:
        """Which results have tangents."""
        return [has_tangent(shape) for shape in self.graph.output_shapes]


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

        def with_tangents(*values: Any) -> list[Any]:
            own, moved = [*compress(values[:count], active)], [*values[count:]]
            results, moved = jax.jvp(flat.of_active(active, values[:count]), own, moved)
            return [*results, *compress(moved, moving)]

        derived = flat.made(("jvp", active), with_tangents, [*inputs, *compress(inputs, active)])
        found = derived(*primals, *compress(tangents, active))
        return found[: len(moving)], tuple(spread(moving, found[len(moving) :]))

    def linearize(self, operands, active):
        flat, flags, moving = self.function, tuple(active), self.function.moving
        outputs = flat.graph.output_shapes

        def with_residuals(*values: Any) -> list[Any]:
            results, pull = jax.vjp(flat.of_active(flags, values), *compress(values, flags))
            residuals, flat.trees[flags] = tree_flatten(pull)
            return [*results, *residuals]

        found = flat.made(("vjp", flags), with_residuals, flat.graph.input_shapes)(*operands)
        results, residuals = found[: len(moving)], found[len(moving) :]
        tree, count = flat.trees[flags], len(residuals)

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

    def dependent(self, variables):
        return self.function.moving

    def batch_of(self, size, operands, dimensions, **_):
        flat, at = self.function, tuple(dimensions)
        if not any(each is not None for each in at):
            return flat(*operands), (None,) * len(flat.moving)
        of_all = jax.vmap(lambda *x: tree_leaves(flat.function(*x)), at, 0, axis_size=size)
        made = flat.made(("batch", at, size), of_all, [*map(shape_of, operands)])
        return made(*operands), (0,) * len(flat.moving)


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

    def lost(problem: str, shown: str, advice: str) -> ImportError_:
        return explain(ImportError_, "from_jax", f"{name} {problem}", [shown], advice)

    for step in _steps(jaxpr):
        if step.primitive.name == "shard_map":
            raise lost(
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
                    raise lost(
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
        raise lost(
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
