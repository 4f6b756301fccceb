"""Classes of JAX's as ours: their objects hold values of ours, and their methods are ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from importlib import import_module
from inspect import cleandoc, signature
from typing import Any, ClassVar

import jax
import numpy as np
from jax.tree_util import register_pytree_node_class, tree_flatten, tree_map, tree_unflatten

from minixla.core.tracebacks import hiding_frames
from minixla.engine.random_keys import with_keys_of_jax
from minixla.interop.jax_table import JaxFunction


def class_of(module: str, name: str) -> type:
    """A class of JAX's as ours, of which JAX makes pytrees.

    Args:
        module: the public module of JAX's.
        name: the class. A tuple of fields without methods stays what it is.
    """
    base = getattr(import_module(module), name)
    methods = [
        key
        for key, value in vars(base).items()
        if (key[0] != "_" or key == "__call__") and callable(value) and key not in vars(JaxObject)
    ]
    if issubclass(base, tuple) and not methods:
        return base
    text = f"`{module}.{name}`, whose methods JAX traces.\n\n{cleandoc(base.__doc__ or '')}"
    members = {key: _method(base, module, key, getattr(base, key)) for key in methods}
    members |= {"_base": base, "__signature__": signature(base), "__doc__": text}
    members["__module__"] = module.replace("jax", "minixla", 1)
    return register_pytree_node_class(type(name, (JaxObject,), members))


class JaxObject:
    """An object of a class of JAX's: its arrays, which may be ours, and what else it has."""

    _base: ClassVar[type]
    _leaves: Sequence[Any]
    _tree: Any

    @hiding_frames
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        def made(*args: Any, **kwargs: Any) -> JaxObject:
            leaves, tree = tree_flatten(self._base(*args, **kwargs))
            return self.tree_unflatten(tree, leaves)

        construct = _function(self.__module__, self._base.__name__, made, self._base)
        vars(self).update(vars(construct(*args, **kwargs)))

    def tree_flatten(self) -> tuple[Sequence[Any], Any]:
        """The arrays, and the structure of JAX's object."""
        return self._leaves, self._tree

    @classmethod
    def tree_unflatten(cls, tree: Any, leaves: Sequence[Any]) -> JaxObject:
        """The object that has these arrays."""
        made = cls.__new__(cls)
        made._leaves, made._tree = leaves, tree
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self._base, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return _method(self._base, self.__module__, name, lambda each: getattr(each, name))(self)


@register_pytree_node_class
class _Known:
    """A result that is no array, as a part of structures."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple[()], Any]:
        return (), self.value

    @classmethod
    def tree_unflatten(cls, value: Any, _: Any) -> _Known:
        return cls(value)


def _method(base: type, module: str, key: str, function: Any) -> Callable[..., Any]:
    def of_arrays(*args: Any, **kwargs: Any) -> Any:
        given = with_keys_of_jax((args, kwargs))
        args, kwargs = tree_map(_of_jax, given, is_leaf=_is_object)
        return tree_map(_known, function(*args, **kwargs))

    made = _function(module, f"{base.__name__}.{key}", of_arrays, function)

    @hiding_frames
    def method(*args: Any, **kwargs: Any) -> Any:
        result = made(*args, **kwargs)
        return tree_map(lambda x: x.value if _is_known(x) else x, result, is_leaf=_is_known)

    return update_wrapper(method, function)


def _function(module: str, name: str, function: Callable[..., Any], of: Any) -> JaxFunction:
    made = JaxFunction(module.replace("minixla", "jax", 1), name)
    update_wrapper(function, of).__name__ = name
    vars(made)["__wrapped__"] = function
    return made


def _is_object(value: Any) -> bool:
    return isinstance(value, JaxObject)


def _is_known(value: Any) -> bool:
    return isinstance(value, _Known)


def _of_jax(value: Any) -> Any:
    return tree_unflatten(value._tree, value._leaves) if _is_object(value) else value


def _known(value: Any) -> Any:
    return value if isinstance(value, (jax.Array, np.ndarray, np.generic)) else _Known(value)
