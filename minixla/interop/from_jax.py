"""from_jax: a JAX function as one of ours, with what JAX derives of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, Literal

import jax
import numpy as np
from jax.tree_util import tree_unflatten

from minixla.core import errors
from minixla.core.argument_kinds import checks_kinds
from minixla.core.attributes import spelling
from minixla.core.element_types import S64, canonical_element_type
from minixla.core.errors import explain
from minixla.core.linear import spread
from minixla.core.shapes import Shape, shape_of_data
from minixla.core.tracebacks import hiding_frames
from minixla.core.tracing import Tracer, not_a_value, shape_of, weak_type_of
from minixla.engine.random_keys import flatten, with_keys_of_jax
from minixla.interop.jax_calls import FlatFunction
from minixla.interop.shardings import ShardyToo
from minixla.transforms import arguments
from minixla.transforms.arguments import Arguments
from minixla_ops.programs.call import call

#: How many programs of one function are kept: there is one for each value of a Python number.
_MOST_PROGRAMS = 1024


@checks_kinds
def from_jax(
    fun: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    derivatives: Literal["jax", "program"] = "jax",
    shardings: ShardyToo = "keep",
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
            `keep` keeps those over meshes, and `jax.shard_map`, as instructions of ours, `refuse`
            raises, `drop` leaves them out, which changes no result.
        platform: what its program is made for (`cpu`, `cuda`, `tpu`), as Pallas needs to know;
            default: any platform, or where JAX has no such program the one that it runs on.

    Returns:
        A function that works inside and outside of `mx.jit`, `mx.grad`, `mx.vmap`,
        `mx.reference`, with attribute `graph(*args)`, which gives the Graph.

    Raises:
        AttributeValueError: there is no such way to treat shardings or derivatives, or no such
            argument.
        ImportError_: when called: the function prints, calls back into Python, or fixes layouts
            that are not kept.
        ConcretizationError: when called: it needs the value of something that JAX traces.
        LeakedTracerError, ForeignCallError: when called: it closes over values of ours that are
            being traced; pass them as arguments.
        TransformError: when called: what is not traced cannot be hashed.

    Example:
        >>> total = mx.from_jax(jax.numpy.sum)
        >>> mx.jit(mx.grad(lambda x: total(x * x)))(np.float32([1, 2]))
        Array([2., 4.], dtype=float32)
    """
    arguments.checked_function(fun, "from_jax")
    marks = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    arguments.check_marks("from_jax", fun, **marks)
    marked = arguments.StaticArguments(fun, static_argnums, static_argnames)
    programs: dict[Any, tuple[FlatFunction, Any]] = arguments.Cache()

    def staged(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[FlatFunction, Any, list[Any]]:
        given, static = marked.split("from_jax", args, kwargs)
        leaves, tree = given.leaves, given.tree
        flags = tuple(map(_is_traced, leaves))
        operands = [*compress(leaves, flags)]
        shapes = tuple([_shape(operand, fun) for operand in operands])
        weak = tuple(map(weak_type_of, operands))
        fixed = [leaf for leaf, flag in zip(leaves, flags, strict=True) if not flag]
        fixed += [value for _, value in static]
        mode = canonical_element_type(S64)
        # 1, 1.0 and True are equal.
        held = tuple([(spelling(value), _hashable(value)) for value in fixed])
        key = (tree, flags, shapes, weak, tuple([name for name, _ in static]), held, mode)
        try:
            found = programs.get(key)
        except TypeError:
            raise _unhashable(fun, fixed) from None
        if found is None:
            # The program is kept, and arrays of this call are not to be kept with it.
            held_leaves = [None if flag else x for x, flag in zip(leaves, flags, strict=True)]
            held_args = [dict(static).get(number) for number in range(len(args))]
            others = Arguments("from_jax", fun, held_args, {}, given.numbers, given.fixed)
            trees: list[Any] = []

            def flat(*arrays: Any) -> list[Any]:
                whole = with_keys_of_jax(tree_unflatten(tree, spread(flags, arrays, held_leaves)))
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
