"""What both oracles' processes ask of a module's text: its @main and what that takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

from tests.oracles.values import type_name


def make_context() -> ir.Context:
    """An MLIR context with the dialects that the interpreter evaluates and those JAX writes."""
    context = make_ir_context()
    context.allow_unregistered_dialects = True
    stablehlo.register_interpreter_dialect(context)
    return context


def tensor_type(dimensions: Sequence[int], element: str) -> ir.Type:
    """The type of a tensor of static shape."""
    return ir.RankedTensorType.get(list(dimensions), ir.Type.parse(element))


def find_main(module: ir.Module) -> Any:
    """The module's @main; ValueError if it has none, or one whose values cannot pass in and out."""
    name = ir.StringAttr.get("main")
    functions = [op for op in module.body.operations if "sym_name" in op.attributes]
    main: Any = next((op for op in functions if op.attributes["sym_name"] == name), None)
    if main is None:
        raise ValueError("the module has no function @main")
    for type_ in [*main.type.inputs, *main.type.results]:
        if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
            raise ValueError(f"@main takes and returns tensors of static shape only, not {type_}")
    return main


def check_arguments(arguments: Sequence[np.ndarray], main: Any) -> None:
    """Raise ValueError where arguments do not fit: XLA would read their bytes as another type."""
    given = [tensor_type(array.shape, type_name(array.dtype)) for array in arguments]
    if given != list(main.type.inputs):
        expected, actual = (", ".join(map(str, types)) for types in (main.type.inputs, given))
        raise ValueError(f"@main takes ({expected}), but was given ({actual})")
