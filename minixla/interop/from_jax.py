"""from_jax: a JAX function as one of ours, with what JAX derives of it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any, Literal

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.tree_util import tree_flatten, tree_leaves, tree_unflatten

from minixla.core import errors
from minixla.core.attributes import Attribute, attribute, spelling
from minixla.core.element_types import S64, canonical_element_type
from minixla.core.errors import explain
from minixla.core.forward import has_tangent
from minixla.core.linear import pullback_by, spread
from minixla.core.shapes import AnyShape, Shape, shape_of_data
from minixla.core.source import find_source, is_user_file
from minixla.core.tracebacks import hiding_frames
from minixla.core.tracing import Tracer, default_trace, not_a_value, shape_of, under, weak_type_of
from minixla.engine.float0 import float0_zeros
from minixla.engine.random_keys import flatten
from minixla.interop.module import Module
from minixla.interop.shardings import Shardings, check_shardings
from minixla.transforms import arguments
from minixla.transforms.arguments import Arguments
from minixla_ops.programs.call import Call, call

#: How many programs of one function are kept: there is one for each value of a Python number.
_MOST_PROGRAMS = 1024


def from_jax(
    fun: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    derivatives: Literal["jax", "program"] = "jax",
    shardings: Shardings = "refuse",
    platform: str | None = None,
) -> Callable[..., Any]:
    """A JAX function as one of ours.

    It is staged by JAX for the arguments that it meets, and its StableHLO becomes part of our
    program. Arrays, NumPy's numbers and traced values are traced by JAX. All else (Python's
    numbers, strings, functions, element types) reaches the function as it is, so that
    `from_jax(jnp.sum)(x, axis=1)` is `jnp.sum(x, axis=1)`; it is staged anew for each value.
    JAX arrays that it closes over become constants.

    Args:
        fun: a function of pytrees of arrays, made of `jax.numpy`, `jax.lax`, Flax, Optax ...
        static_argnums: positions of arguments that reach the function whole, as they are: hashable
            objects of which JAX is not to trace the arrays.
        static_argnames: names of such arguments.
        derivatives: `jax`: derivatives and batches are those of JAX, with its custom rules and
            stop_gradient, made into our programs in the same way; `program`: those that our rules
            give for the StableHLO program, in which neither is left.
        shardings: what to do with layouts over devices that the function fixes
            (`jax.lax.with_sharding_constraint`, shardings of `jax.jit` or `jax.device_put`):
            `refuse` raises, `drop` leaves them out, which changes no result.
        platform: what its program is made for (`cpu`, `cuda`, `tpu`), as Pallas needs to know;
            default: any platform, or where JAX has no such program the one that it runs on.

    Returns:
        A function that works inside and outside of `mx.jit`, `mx.grad`, `mx.vmap`,
        `mx.reference`, with attribute `graph(*args)`, which gives the Graph.

    Raises:
        AttributeValueError: there is no such way to treat shardings.
        ImportError_: when called: the function prints, calls back into Python, fixes layouts or
            maps over devices.
        ConcretizationError: when called: it needs the value of something that JAX traces.
        LeakedTracerError, ForeignCallError: when called: it closes over values of ours that are
            being traced; pass them as arguments.
        TransformError: when called: what is not traced cannot be hashed.
    """
    arguments.checked_function(fun, "from_jax")
    check_shardings("from_jax", shardings)
    marked = arguments.StaticArguments(fun, static_argnums, static_argnames)
    programs: dict[Any, tuple[FlatFunction, Any]] = arguments.Cache()

    def staged(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[FlatFunction, Any, list[Any]]:
        numbers = marked.numbers(args)
        static, named = marked.split_names(kwargs)
        dynamic = [number for number in range(len(args)) if number not in numbers]
        given = Arguments("from_jax", fun, args, named, dynamic)
        leaves, tree = given.leaves, given.tree
        flags = tuple(map(_is_traced, leaves))
        operands = [*compress(leaves, flags)]
        shapes = tuple([_shape(operand, fun) for operand in operands])
        weak = tuple(map(weak_type_of, operands))
        fixed = [leaf for leaf, flag in zip(leaves, flags, strict=True) if not flag]
        fixed += [*[args[number] for number in numbers], *[static[name] for name in sorted(static)]]
        mode = canonical_element_type(S64)
        # 1, 1.0 and True are equal.
        held = tuple([(spelling(value), _hashable(value)) for value in fixed])
        key = (tree, flags, shapes, weak, numbers, tuple(sorted(static)), held, mode)
        try:
            found = programs.get(key)
        except TypeError:
            raise _unhashable(fun, fixed) from None
        if found is None:
            # The program is kept, and arrays of this call are not to be kept with it.
            held_leaves = [None if flag else x for x, flag in zip(leaves, flags, strict=True)]
            held_args = [arg if n in numbers else None for n, arg in enumerate(args)]
            others = Arguments("from_jax", fun, held_args, {}, dynamic, static)
            trees: list[Any] = []

            def flat(*arrays: Any) -> list[Any]:
                whole = tree_unflatten(tree, spread(flags, arrays, held_leaves))
                results, result_tree = flatten(others.apply(*whole))
                trees[:] = [result_tree]
                return results

            name = getattr(fun, "__name__", "function")
            places = compress(given.where(), flags)
            labels = [place.removeprefix("argument ") for place in places]
            program = FlatFunction(flat, shapes, weak, name, labels, shardings, platform)
            if len(programs) >= _MOST_PROGRAMS:
                programs.pop(next(iter(programs)))
            found = programs[key] = program, trees[0]
        return found[0], found[1], operands

    @hiding_frames
    def function(*args: Any, **kwargs: Any) -> Any:
        flat, tree, operands = staged(args, kwargs)
        own = derivatives == "jax"
        results = flat(*operands) if own else call(flat.graph, *operands)
        return tree_unflatten(tree, results)

    def graph(*args: Any, **kwargs: Any) -> Any:
        return staged(args, kwargs)[0].graph

    wrapper: Any = arguments.named_after(function, fun)
    wrapper.graph = graph
    return wrapper


def _is_traced(leaf: Any) -> bool:
    """Whether JAX traces an argument: an array or a traced value, no number of Python's."""
    if isinstance(leaf, (Tracer, jax.Array, np.ndarray, np.generic)):
        return True
    return not isinstance(leaf, (bool, int, float, complex)) and shape_of_data(leaf) is not None


def _shape(leaf: Any, fun: Callable[..., Any]) -> Shape:
    shape = shape_of(leaf) if isinstance(leaf, Tracer) else shape_of_data(leaf)
    if not isinstance(shape, Shape):
        raise not_a_value(leaf, getattr(fun, "__name__", "from_jax"), "an argument")
    return shape


def _hashable(value: Any) -> Any:
    """What stands for a value in a key: slices are not hashable before Python 3.12."""
    return value.__reduce__() if isinstance(value, slice) else value


def _unhashable(fun: Callable[..., Any], fixed: Sequence[Any]) -> errors.TransformError:
    shown = []
    for value in fixed:
        try:
            hash(_hashable(value))
        except TypeError:
            shown.append(repr(value)[:200])
    name = getattr(fun, "__name__", "the function")
    problem = f"an argument of {name} is no array and not hashable"
    advice = (
        "JAX stages the function for its value: give a hashable object (a tuple, a frozen "
        "dataclass), arrays, or close over it: mx.from_jax(lambda x: f(x, value))."
    )
    return explain(errors.TransformError, "from_jax", problem, shown, advice)


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
        platform: str | None = None,
    ) -> None:
        self.function, self.name = function, name
        self.shardings: Shardings = shardings
        self.platform = platform
        given = [
            jax.ShapeDtypeStruct(s.dimensions, s.dtype, weak_type=flag)
            for s, flag in zip(shapes, weak, strict=True)
            if isinstance(s, Shape)
        ]
        # What the function calls of ours belongs to JAX's program, not to the one being traced.
        with under(default_trace()), _explaining(name, given, labels):
            staged = jax.jit(function, keep_unused=True).trace(*given)
        _refuse(staged.jaxpr, name, shardings)
        try:
            lowered = staged.lower(lowering_platforms=(platform or _PORTABLE,))
        except (NotImplementedError, ValueError):  # JAX has rules for the backend's alone
            if platform is not None:
                raise
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
            made = FlatFunction(function, shapes, weak, name, (), self.shardings, self.platform)
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
def _explaining(name: str, given: Sequence[Any], labels: Sequence[str]) -> Iterator[None]:
    """Errors of JAX's name the arguments (by `labels` if the user gave them) and what to do."""
    try:
        yield
    except errors.MinixlaError:
        raise
    except Exception as error:
        labels = labels or [f"operand {number}" for number in range(len(given))]
        traced = [f"{x} {shape_of_data(a)}" for x, a in zip(labels, given, strict=True)]
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
            errors.ConcretizationError,
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

    def lost(problem: str, shown: str, advice: str) -> errors.ImportError_:
        return explain(errors.ImportError_, "from_jax", f"{name} {problem}", [shown], advice)

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
