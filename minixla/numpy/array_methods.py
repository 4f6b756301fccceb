"""The methods and attributes of arrays, put on Tracer when this module is imported."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from minixla.core.errors import ShapeError, explain
from minixla.core.expressions import running_expression, text_of
from minixla.core.source import find_source
from minixla.core.tracing import Tracer
from minixla.numpy import (
    averages,
    elementwise,
    joining,
    linear_algebra,
    manipulation,
    matrices,
    reductions,
    taking,
)
from minixla.numpy.index_updates import IndexUpdates
from minixla.numpy.indexing import getitem
from minixla.numpy.protocols import PROTOCOLS


def _members(self: Tracer) -> Iterator[Any]:
    """The members along the leading axis."""
    if not self.ndim:
        problem = "a scalar has no members"
        advice = "Only arrays with dimensions have some; mx.fori_loop counts to a traced number."
        raise explain(ShapeError, "iteration", problem, [f"the value is {self!r}"], advice)
    return iter(joining.unstack(self))


def _with_sizes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes its sequence of integers as one argument or as several."""

    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        if not args:
            return function(self, **kwargs)
        return function(self, args[0] if len(args) == 1 else args, **kwargs)

    method.__name__ = function.__name__
    method.__doc__ = function.__doc__
    return method


def _astype(self: Tracer, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The same values in another dtype."""
    return manipulation.astype(self, dtype, copy=copy)


def _round(self: Tracer, ndigits: int | None = None) -> Any:
    """Python's round: to so many decimals, or to the nearest integer as an array of integers."""
    if ndigits is None:
        return manipulation.astype(elementwise.round(self), int)
    return elementwise.round(self, ndigits)


def _refuse_assignment(self: Tracer, index: Any, value: Any) -> None:
    """Raises TypeError: arrays do not change."""
    problem = "an array's elements cannot be assigned to"
    advice = f"Use the updated copy: {_update()}, or .add, .multiply ..."
    raise explain(ShapeError, "indexing", problem, [f"the array is {self!r}"], advice)


def _update() -> str:
    """The user's assignment to elements as an update of a copy."""
    expression = running_expression(find_source())
    node = None if expression is None else expression.node
    parent = expression.parents[0] if expression is not None and expression.parents else None
    if not isinstance(node, ast.Subscript) or not isinstance(parent, (ast.Assign, ast.AugAssign)):
        return "x = x.at[index].set(value)"
    array, index, value = text_of(node.value), text_of(node.slice), text_of(parent.value)
    if isinstance(parent, ast.Assign):
        return f"{array} = {array}.at[{index}].set({value})"
    changed = text_of(ast.BinOp(node, parent.op, parent.value))
    return f"{array} = {array}.at[{index}].set({changed})"


def _clip(self: Tracer, min: Any = None, max: Any = None) -> Any:
    """The values brought between bounds."""
    return elementwise.clip(self, min, max)


def _block_until_ready(self: Tracer) -> Any:
    """The value itself, which is computed when it is needed."""
    return self


def _dimension_reverse(self: Tracer) -> Any:
    """The array with its dimensions reversed."""
    return manipulation.transpose(self)


_SAME_AS_FUNCTIONS = {
    averages: "mean std var",
    elementwise: "conj conjugate round",
    joining: "repeat",
    linear_algebra: "dot",
    manipulation: "copy ravel squeeze swapaxes",
    matrices: "diagonal trace",
    reductions: "all any argmax argmin cumprod cumsum max min prod ptp sum",
    taking: "choose nonzero searchsorted take",
}
_METHODS: dict[str, Callable[..., Any]] = {
    **{n: getattr(home, n) for home, names in _SAME_AS_FUNCTIONS.items() for n in names.split()},
    "__getitem__": getitem,
    "__setitem__": _refuse_assignment,
    "__iter__": _members,
    "__round__": _round,
    "__copy__": manipulation.copy,
    "__deepcopy__": lambda self, memo: self,
    "astype": _astype,
    "block_until_ready": _block_until_ready,
    "clip": _clip,
    "compress": lambda self, condition, axis=None: taking.compress(condition, self, axis),
    "flatten": manipulation.ravel,
    "reshape": _with_sizes(manipulation.reshape),
    "transpose": _with_sizes(manipulation.transpose),
    **PROTOCOLS,
}
_ATTRIBUTES: dict[str, Callable[[Tracer], Any]] = {
    "T": _dimension_reverse,
    "mT": manipulation.matrix_transpose,
    "at": IndexUpdates,
    "imag": elementwise.imag,
    "itemsize": lambda self: self.dtype.itemsize,
    "nbytes": lambda self: self.size * self.dtype.itemsize,
    "real": elementwise.real,
}


def install_on(kind: type[Tracer]) -> None:
    """Gives a class of tracers the methods and attributes of arrays."""
    for name, function in _METHODS.items():
        setattr(kind, name, function)
    for name, getter in _ATTRIBUTES.items():
        setattr(kind, name, property(getter))


install_on(Tracer)
