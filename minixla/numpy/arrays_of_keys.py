"""Random keys as arguments of functions that move elements of arrays."""

import sys
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import jax
from jax.tree_util import tree_flatten, tree_unflatten

from minixla.core.hooks import transforms
from minixla.core.tracebacks import hide_frames
from minixla.engine.random_keys import KeyNumbers, is_key

Function = Callable[..., Any]
#: Function names, by the parameters that accept keys.
_OF_ELEMENTS = {
    "arrays": "concatenate stack",
    "a": "expand_dims moveaxis ravel repeat reshape squeeze swapaxes transpose",
    "array": "broadcast_to",
    "x y": "where",
}


def install_on(functions: dict[str, Any]) -> None:
    """Let the functions that move elements accept keys, also in the modules that define them."""
    for parameters, names in _OF_ELEMENTS.items():
        for name in names.split():
            home = sys.modules[functions[name].__module__]
            functions[name] = _of_keys_too(functions[name], parameters.split())
            setattr(home, name, functions[name])


def _of_keys_too(function: Function, names: list[str]) -> Function:
    """Return a function of arrays that also accepts keys for the given parameters."""
    declared = signature(function)

    def moved(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:  # keys raise; to check only now keeps other calls fast
            if any(map(_has_keys, (*args, *options.values()))):
                result = _of_keys(function, declared.bind(*args, **options), names)
                if result is not None:
                    return result
            hide_frames(error)
            raise

    return wraps(function)(moved)


def _has_keys(value: Any) -> bool:
    # Check one level only, because lists may contain themselves.
    return any(map(is_key, value)) if isinstance(value, (list, tuple)) else is_key(value)


def _of_keys(function: Function, bound: Any, names: list[str]) -> Any:
    """Apply a function to keys by mapping it over the words of the keys.

    Return None unless the values of all parameters are keys of one dtype.
    """
    values = {name: bound.arguments.get(name) for name in names}
    if not all(map(_has_keys, values.values())):
        return None
    leaves, structure = tree_flatten(values, is_leaf=is_key)
    if not all(map(is_key, leaves)) or len({leaf.dtype for leaf in leaves}) > 1:
        return None

    def of_numbers(numbers: list[Any]) -> Any:
        bound.arguments.update(tree_unflatten(structure, numbers))
        return function(*bound.args, **bound.kwargs)

    keys = [KeyNumbers.of(leaf) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]
    return keys[0].with_data(transforms().vmap(of_numbers, -1, -1)([key.data for key in keys]))
