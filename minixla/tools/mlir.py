"""What processes that evaluate a module's text ask of it: its @main and what that takes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

from minixla.core.shapes import Shape


def make_context() -> ir.Context:
    """An MLIR context with the dialects that the interpreter evaluates and those JAX writes."""
    context = make_ir_context()
    context.allow_unregistered_dialects = True
    stablehlo.register_interpreter_dialect(context)
    return context


# One keeps every constant it ever saw, and takes milliseconds to make: each serves a while.
_contexts = itertools.chain.from_iterable(
    itertools.repeat(make_context(), 1000) for _ in itertools.count()
)


def next_context() -> ir.Context:
    """A context as of `make_context` for the next module, which many modules share."""
    return next(_contexts)


def find_main(module: ir.Module) -> Any:
    """The module's @main; ValueError if it has none."""
    name = ir.StringAttr.get("main")
    functions = [op for op in module.body.operations if "sym_name" in op.attributes]
    main = next((op for op in functions if op.attributes["sym_name"] == name), None)
    if main is None:
        raise ValueError("the module has no function @main")
    return main


def input_types(main: Any) -> list[str]:
    """Types of the arguments of a function, as text."""
    return [str(type_) for type_ in main.type.inputs]


def check_arguments(arguments: Sequence[np.ndarray], types: Sequence[str]) -> None:
    """Raise ValueError where arguments do not fit: XLA would read their bytes as another type."""
    given = [Shape(array.dtype, array.shape).stablehlo for array in arguments]
    if given != types:
        raise ValueError(f"@main takes ({', '.join(types)}), but was given ({', '.join(given)})")
