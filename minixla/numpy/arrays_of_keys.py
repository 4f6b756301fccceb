"""Functions that move elements of arrays, for arrays of random keys too."""

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
#: By the parameters that keys may be given for.
_OF_ELEMENTS = {
    "arrays": "concatenate stack",
    "a": "expand_dims moveaxis ravel repeat reshape squeeze swapaxes transpose",
    "array": "broadcast_to",
    "x y": "where",
}


def install_on(functions: dict[str, Any]) -> None:
    """Makes those of the array library that move elements take keys, where they are defined too."""
    for parameters, names in _OF_ELEMENTS.items():
        for name in names.split():
            home = sys.modules[functions[name].__module__]
            functions[name] = _of_keys_too(functions[name], parameters.split())
            setattr(home, name, functions[name])


def _of_keys_too(function: Function, names: list[str]) -> Function:
    """A function of arrays that takes keys for these parameters."""
    declared = signature(function)

    def moved(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:  # as there is of keys: what takes none is not to wait for them
            if any(map(_has_keys, (*args, *options.values()))):
                result = _of_keys(function, declared.bind(*args, **options), names)
                if result is not None:
                    return result
            hide_frames(error)
            raise

    return wraps(function)(moved)


def _has_keys(value: Any) -> bool:
    # No deeper: lists may hold themselves.
    return any(map(is_key, value)) if isinstance(value, (list, tuple)) else is_key(value)


def _of_keys(function: Function, bound: Any, names: list[str]) -> Any:
    """What a function gives of keys, each number of which is moved as an element is.

    None where others than keys of one kind are given for the parameters.
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
