"""Names and source lines of the derivative rules that users define."""

import inspect
from collections.abc import Callable
from typing import Any

from minixla.core.source import Source
from minixla.extension.operation import CustomOperation
from minixla.transforms.custom_calls import CustomDerivativeCall


def described_rule(operation: Any) -> str | None:
    """Describe the function and rules of an operation with a user's derivative; None for others."""
    if isinstance(operation, CustomOperation):
        gradient = operation.registered.gradient_rule or operation.registered.forward_rule
        return f"{operation.builder_name}, rule {_place(gradient)}" if gradient else None
    if not isinstance(operation, CustomDerivativeCall):
        return None
    function: Any = operation.function
    while hasattr(function, "inner"):  # over a batch
        function = function.inner
    holder = getattr(function, "rules", function)
    names = ("jvp", "fwd", "bwd") if holder is not function else ("rule", "fwd", "bwd")
    rules = [_place(rule) for name in names if (rule := getattr(holder, name, None)) is not None]
    fun = getattr(holder, "fun", None)
    if fun is None or not rules:
        return None
    return f"{_place(fun)}, rule {' and '.join(rules)}"


def _place(function: Callable[..., Any]) -> str:
    """Return the name of a function and the line of its definition."""
    info = getattr(function, "debug_info", None)  # of a function that JAX wraps
    if info is not None:
        return str(info.func_src_info)
    plain: Any = inspect.unwrap(function)
    plain = getattr(plain, "func", plain)  # of a partial function
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(plain, "__code__", None)
    if code is None:
        return name
    return f"{name} at {str(Source(code, 0)).split(' (')[0]}"
