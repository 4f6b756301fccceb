"""from_jax: a JAX function as one of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
from jax.tree_util import tree_flatten, tree_unflatten

from minixla.core.shapes import Shape, shape_of_data
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import Tracer, not_a_value, shape_of, weak_type_of
from minixla.interop.jax_functions import FlatFunction
from minixla.transforms.arguments import checked_function, named_after, split_static
from minixla_ops.calls import call

__all__ = ["from_jax"]


def from_jax(
    fun: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = (),
    derivatives: Literal["jax", "program"] = "jax",
) -> Callable[..., Any]:
    """A JAX function as one of ours.

    It is staged by JAX for the shapes that it meets, and its StableHLO becomes part of our program.
    JAX arrays that it closes over become constants.

    Args:
        fun: a function of pytrees of arrays, made of `jax.numpy`, `jax.lax`, Flax, Optax ...
        static_argnums: positions of arguments that are hashable Python values.
        derivatives: `jax`: derivatives and batches are those of JAX, with its custom rules and
            stop_gradient, made into our programs in the same way; `program`: those that our rules
            give for the StableHLO program, in which neither is left.

    Returns:
        A function that works inside and outside of `mx.jit`, `mx.grad`, `mx.vmap`,
        `mx.reference`, with attribute `graph(*args)`, which gives the Graph.

    Raises:
        ImportError_: when called: the function prints, or calls back into Python.
        LeakedTracerError, ForeignCallError: when called: it closes over values of ours that are
            being traced; pass them as arguments.
    """
    checked_function(fun, "from_jax")
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    cache: dict[Any, FlatFunction] = {}

    def staged(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[FlatFunction, list[Any]]:
        at = tuple(sorted(number % len(args) for number in numbers)) if args else ()
        dynamic, rebuild = split_static(args, at)
        leaves, tree = tree_flatten((dynamic, kwargs))
        keys = [_key_type(leaf) for leaf in leaves]
        leaves = [_data(leaf) for leaf in leaves]
        shapes = tuple([_shape(leaf, fun) for leaf in leaves])
        weak = tuple(map(weak_type_of, leaves))
        key = (tree, shapes, weak, tuple(map(str, keys)), tuple([args[number] for number in at]))
        found = cache.get(key)
        if found is None:

            def flat(*arrays: Any) -> list[Any]:
                given = [
                    array if kind is None else jax.random.wrap_key_data(array, impl=kind)
                    for array, kind in zip(arrays, keys, strict=True)
                ]
                positional, named = tree_unflatten(tree, given)
                return jax.tree_util.tree_map(_data, fun(*rebuild(positional), **named))

            name = getattr(fun, "__name__", "function")
            found = cache[key] = FlatFunction(flat, shapes, weak, name)
        return found, leaves

    @api_boundary
    def function(*args: Any, **kwargs: Any) -> Any:
        flat, leaves = staged(args, kwargs)
        own = derivatives == "jax"
        results = flat(*leaves) if own else call(flat.graph, *leaves)
        return tree_unflatten(flat.result_tree, results)

    def graph(*args: Any, **kwargs: Any) -> Any:
        return staged(args, kwargs)[0].graph

    wrapper: Any = named_after(function, fun)
    wrapper.graph = graph
    return wrapper


def _shape(leaf: Any, fun: Callable[..., Any]) -> Shape:
    shape = shape_of(leaf) if isinstance(leaf, Tracer) else shape_of_data(leaf)
    if not isinstance(shape, Shape):
        raise not_a_value(leaf, getattr(fun, "__name__", "from_jax"), "an argument")
    return shape


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(dtype, jax.dtypes.prng_key)


def _key_type(leaf: Any) -> Any:
    """The kind of a typed random key of JAX's; None for anything else."""
    return None if isinstance(leaf, Tracer) or not _is_key(leaf) else jax.random.key_impl(leaf)


def _data(leaf: Any) -> Any:
    """The numbers in a typed key; anything else as it is."""
    if isinstance(leaf, Tracer) or not _is_key(leaf):
        return leaf
    return jax.random.key_data(leaf)
