"""Methods, attributes and NumPy protocols of arrays, which are installed on Tracer."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NoReturn

import numpy as np

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import AssignmentError, UnsupportedError, explain
from minixla.core.source import Source, find_source, running_expression, text_of
from minixla.core.state import state
from minixla.core.tracing import Tracer
from minixla.numpy.element_functions import transforms
from minixla.numpy.indexing import IndexUpdates, getitem
from minixla.numpy.operands import kind_of, refuse_in_place, requested_type, shape_error
from minixla.numpy.ufuncs import FOLDS


def _members(self: Any) -> Iterator[Any]:
    if not self.ndim:
        advice = "Iterate over an array with dimensions, or use mx.fori_loop with a traced count."
        raise shape_error("iteration", "a scalar is not iterable", advice, f"the value is {self!r}")
    return iter(mnp.unstack(self))


def _with_sizes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that takes its integers as one sequence or as separate arguments."""

    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        return function(self, *(args if len(args) < 2 else [args]), **kwargs)

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    return method


def _round(self: Any, ndigits: int | None = None) -> Any:
    """Round to `ndigits` decimals; without it, to the nearest integers, as an integer array."""
    return mnp.astype(mnp.round(self), int) if ndigits is None else mnp.round(self, ndigits)


def _view(self: Any, dtype: Any = None, type: None = None) -> Any:
    """Reinterpret the bits as elements of another type; the last axis grows or shrinks to fit."""
    if type is not None:
        raise shape_error("view", "type is not supported", "Pass a dtype.")
    kind_of_array, kind = (
        kind_of(self),
        kind_of(self) if dtype is None else requested_type(dtype, "view"),
    )
    if kind is kind_of_array:
        return self
    if kind_of_array.is_complex:
        parts = mnp.stack([mnp.real(self), mnp.imag(self)], -1)
        return _view(mnp.reshape(parts, (*self.shape[:-1], -1)), dtype)
    if kind.is_complex:
        parts = _view(self, kind.real)
        parts = mnp.reshape(parts, (*parts.shape[:-1], -1, 2))
        return ops.complex(parts[..., 0], parts[..., 1])
    if "pred" in (kind_of_array.kind, kind.kind):  # XLA stores a pred as one bit
        byte = mnp.astype(self, "uint8") if kind_of_array.kind == "pred" else _view(self, "uint8")
        return byte != 0 if kind.kind == "pred" else _view(byte, kind)
    ratio, sizes = kind.bits // kind_of_array.bits, self.shape
    if kind.bits > kind_of_array.bits:
        if not sizes or sizes[-1] % ratio:
            problem = f"the last axis of {self!r} does not divide into elements of {kind}"
            raise shape_error("view", problem, "Use another dtype, or pad the last axis.")
        self = mnp.reshape(self, (*sizes[:-1], sizes[-1] // ratio, ratio))
    viewed = ops.bitcast_convert_type(self, kind)
    return mnp.reshape(viewed, (*sizes[:-1], -1)) if kind.bits < kind_of_array.bits else viewed


def _byteswap(self: Any, inplace: bool = False) -> Any:
    """Reverse the bytes of each element."""
    refuse_in_place("byteswap", inplace)
    if self.dtype.itemsize == 1:
        return self
    size = self.dtype.itemsize // (2 if kind_of(self).is_complex else 1)
    parts = mnp.reshape(_view(mnp.reshape(self, (-1,)), "uint8"), (-1, size))
    return mnp.reshape(_view(mnp.ravel(mnp.flip(parts, 1)), self.dtype), self.shape)


def _to_device(self: Tracer, device: Any, *, stream: None = None) -> Any:
    """Move the array to a device, or shard it."""
    return transforms().layouts.placed(self, device)


def _refuse_assignment(self: Tracer, index: Any, value: Any) -> None:
    """Raise AssignmentError: arrays do not change."""
    node, parent = _running(find_source())
    update = "x = x.at[index].set(value)"
    if isinstance(node, ast.Subscript) and isinstance(parent, (ast.Assign, ast.AugAssign)):
        is_plain = isinstance(parent, ast.Assign)
        changed = parent.value if is_plain else ast.BinOp(node, parent.op, parent.value)
        array, index = text_of(node.value), text_of(node.slice)
        update = f"{array} = {array}.at[{index}].set({text_of(changed)})"
    problem = "an array's elements cannot be assigned to"
    advice = f"Use the updated copy: {update}, or .add, .multiply ..."
    raise explain(AssignmentError, "indexing", problem, [f"the array is {self!r}"], advice)


def _running(source: Source | None) -> tuple[Any, Any]:
    """Return the expression that runs at a source line, and its parent."""
    expression = running_expression(source)
    parents = expression.parents if expression else None
    return expression and expression.node, parents and parents[0]


# NumPy's protocols: a NumPy function called with a tracer runs the function of mx.numpy.

# Keywords that NumPy names differently from mx.numpy, whose names are JAX's.
_KEYWORDS = {"clip": {"a_min": "min", "a_max": "max"}}
# Advice for NumPy functions that neither mx.numpy nor JAX supports, and their names.
_ADVICE = {
    "Use x.dtype": "common_type min_scalar_type",
    "Print it while the program runs, with mx.debug_print": "array2string",
    "Return the value and write it": "savetxt savez_compressed",
    "The type of a result must be known: use mx.numpy.real(x)": "real_if_close",
    "Traced values have no memory": "may_share_memory shares_memory",
    "Write x = mx.numpy.where(mask, y, x)": "copyto putmask",
    "XLA has no dates": "busday_count busday_offset datetime_as_string is_busday isnat",
}
_INSTEAD = {name: advice for advice, names in _ADVICE.items() for name in names.split()}


@cache
def _ours(name: str, module: str = "numpy") -> Callable[..., Any] | None:
    """Return the mx.numpy function with the name of a function in a NumPy module, or None."""
    part = module.split(".")[1:2]
    namespace = getattr(mnp, part[0], None) if part else mnp
    return getattr(namespace, name) if name in getattr(namespace, "__all__", ()) else None


def _refuse(name: str, problem: str, advice: str) -> NoReturn:
    raise explain(UnsupportedError, f"numpy.{name}", problem, advice=advice)


def _unsupported(name: str) -> NoReturn:
    outside = "call it outside of the traced function, or on values that are not traced"
    advice = "Write it with functions of mx.numpy, jax.numpy or mx.ops"
    advice = f"{_INSTEAD.get(name, advice)}; or {outside}."
    _refuse(name, "it has no counterpart for traced values", advice)


def _array_ufunc(self: Tracer, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Run our function for a NumPy ufunc, or for its method reduce, accumulate or outer."""
    name = ufunc.__name__
    if kwargs.get("out") is not None:
        node, _ = _running(state.source or find_source())
        instead = "use the function's result (x = x + y, not x += y, where x is a NumPy array)"
        if isinstance(node, ast.AugAssign):
            changed = ast.BinOp(node.target, node.op, node.value)
            instead = f"write {text_of(node.target)} = {text_of(changed)}"
        advice = f"Traced values do not change arrays in place: {instead}."
        _refuse(name, "the result cannot be written to out", advice)
    without_effect = ("out", "casting", "order", "subok")
    options = {key: value for key, value in kwargs.items() if key not in without_effect}
    dtype = options.pop("dtype", None)
    if method == "outer":
        first, second = inputs
        inputs = (mnp.reshape(first, (*mnp.shape(first), *[1] * mnp.ndim(second))), second)
    if method in ("__call__", "outer"):
        function = _ours(name) or _unsupported(name)
        if options:
            problem = f"the keyword {next(iter(options))} is not supported for traced values"
            _refuse(name, problem, "Choose between values with mx.numpy.where.")
        result = function(*inputs)
    else:
        prefix = {"reduce": "", "accumulate": "cum"}.get(method, method)
        function = _ours(prefix + FOLDS.get(name, "")) or _unsupported(f"{name}.{method}")
        array, *rest = inputs
        keywords = {"axis": rest[0] if rest else 0, **_meant(options)}
        if keywords.get("where") is True:
            del keywords["where"]
        result = function(array, **keywords)
    return result if dtype is None else mnp.astype(result, dtype)


def _meant(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not np._NoValue}


def _array_function(self: Tracer, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run our function with the name of a NumPy function."""
    name, module = func.__name__, func.__module__ or "numpy"
    path = f"{module.removeprefix('numpy').lstrip('.')}.{name}".lstrip(".")
    function = _ours(name, module) or _unsupported(path)
    renamed = _KEYWORDS.get(name, {})
    named = {renamed.get(key, key): value for key, value in _meant(kwargs).items()}
    parameters = _parameters(function)
    unknown = [key for key in named if key not in parameters and "kwargs" not in parameters]
    if unknown:
        problem = f"the keyword {unknown[0]} is not supported for traced values"
        _refuse(name, problem, f"mx.numpy.{name} takes the keywords of jax.numpy.{name}.")
    return function(*args, **named)


@cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _array_namespace(self: Tracer, /, *, api_version: str | None = None) -> Any:
    """Return `minixla.numpy`, for code written for the Python array API."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"version {api_version!r} of the array API is not supported")
    return mnp


_SAME_AS_FUNCTIONS = "mean std var clip conj conjugate round repeat dot copy ravel squeeze "
_SAME_AS_FUNCTIONS += "swapaxes diagonal trace all any argmax argmin cumprod cumsum max min prod "
_SAME_AS_FUNCTIONS += "ptp sum choose nonzero searchsorted take sort argsort argpartition"


def install_on(kind: type[Tracer]) -> None:
    """Add the methods and attributes of arrays to a class of tracers."""
    members: dict[str, Any] = {
        **{name: getattr(mnp, name) for name in _SAME_AS_FUNCTIONS.split()},
        "__getitem__": getitem,
        "__setitem__": _refuse_assignment,
        "__iter__": _members,
        "__round__": _round,
        "__copy__": mnp.copy,
        "__deepcopy__": lambda self, memo: self,
        "astype": lambda self, dtype, copy=False, device=None: mnp.astype(self, dtype),
        "__contains__": lambda self, value: bool(mnp.any(self == value)),
        "block_until_ready": lambda self: self,
        "byteswap": _byteswap,
        "compress": lambda self, condition, *args, **options: mnp.compress(
            condition, self, *args, **options
        ),
        "copy_to_host_async": lambda self: None,
        # The device is unknown while tracing; functions accept None as their `device`.
        "device": property(lambda self: None),
        "flatten": mnp.ravel,
        "reshape": _with_sizes(mnp.reshape),
        "transpose": _with_sizes(mnp.transpose),
        "to_device": _to_device,
        "view": _view,
        "__array_ufunc__": _array_ufunc,
        "__array_function__": _array_function,
        "__array_namespace__": _array_namespace,
        "T": property(mnp.transpose),
        "mT": property(mnp.matrix_transpose),
        "at": property(IndexUpdates),
        "imag": property(mnp.imag),
        "itemsize": property(lambda self: self.dtype.itemsize),
        "nbytes": property(lambda self: self.size * self.dtype.itemsize),
        "real": property(mnp.real),
    }
    for name, member in members.items():
        setattr(kind, name, member)
