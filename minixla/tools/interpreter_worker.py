"""The process behind `interpreter.py`: evaluates modules in StableHLO's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.extend.mlir.passmanager import PassManager

from minixla.core.element_types import ELEMENT_TYPES
from minixla.engine.readers.hlo_protos import stablehlo_of_hlo
from minixla.tools.mlir import check_arguments, find_main, input_types, next_context
from minixla.tools.worker import serve

# By StableHLO's name.
_TYPES = {each.stablehlo: each for each in ELEMENT_TYPES.values()}
_FLOATS = [each.stablehlo for each in ELEMENT_TYPES.values() if each.is_float and each.bits <= 8]

# Writes chlo ops and those that StableHLO has replaced (dot, broadcast, create_token) in terms of
# what the interpreter evaluates, and leaves everything else as it is.
_LEGALISE = (
    "builtin.module(func.func("
    "chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false}))"
)

# Python cannot read attributes of these types; the op, in the interpreter, gives one that it can.
_CARRIERS: dict[str, tuple[Callable[[ir.Type, Any], Any], str]] = {
    "bf16": (stablehlo.bitcast_convert, "ui16"),
    **{name: (stablehlo.bitcast_convert, "ui8") for name in _FLOATS if name[:2] == "f8"},
    **{name: (stablehlo.convert, "f32") for name in _FLOATS if name[:2] != "f8"},
    **dict.fromkeys(("i2", "i4"), (stablehlo.convert, "i8")),
    **dict.fromkeys(("ui2", "ui4"), (stablehlo.convert, "ui8")),
}


def carry(result: Any) -> list[Any]:
    """The values, of types that Python can read, that carry a result out."""
    type_ = result.type
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        raise ValueError(f"the interpreter returns tensors of static shape only, not {type_}")
    element = str(type_.element_type)
    if _TYPES[element].is_complex:
        return [stablehlo.real(result), stablehlo.imag(result)]
    if element in _CARRIERS:
        operation, carrier = _CARRIERS[element]
        carrier_type = ir.RankedTensorType.get(type_.shape, ir.Type.parse(carrier))
        return [operation(carrier_type, result)]
    return [result]


def carry_results(main: Any) -> None:
    """Let @main return carriers: `eval_module` aborts the process on complex results."""
    terminator = list(main.entry_block.operations)[-1]
    with ir.InsertionPoint(terminator):
        carriers = [carrier for result in terminator.operands for carrier in carry(result)]
        ir.Operation.create("func.return", operands=carriers)
    terminator.erase()
    function_type = ir.FunctionType.get(main.type.inputs, [carrier.type for carrier in carriers])
    main.attributes["function_type"] = ir.TypeAttr.get(function_type)
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]


def read(type_: Any, carriers: Iterator[Any]) -> np.ndarray:
    """A result of @main from the next of what carried it."""
    kind, dimensions = _TYPES[str(type_.element_type)], type_.shape
    carrier = np.array(next(carriers)).reshape(dimensions)
    if kind.is_complex:
        array = np.empty(dimensions, kind.dtype)
        array.real, array.imag = carrier, np.reshape(next(carriers), dimensions)
        return array
    bits = kind.is_float and carrier.dtype.kind == "u"
    return carrier.view(kind.dtype) if bits else carrier.astype(kind.dtype, copy=False)


def evaluate(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of the module's @main, or of an HLO module's entry."""
    if text.startswith("HloModule"):
        text = stablehlo_of_hlo(text)
    with next_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        PassManager.parse(_LEGALISE).run(module.operation)
        main = find_main(module)
        results = main.type.results
        check_arguments(arguments, input_types(main))
        data: list[Any] = [np.frombuffer(array.tobytes(), np.uint8) for array in arguments]
        inputs = [
            ir.DenseElementsAttr.get(each, type=type_)
            for each, type_ in zip(data, main.type.inputs, strict=True)
        ]
        carry_results(main)
        carriers = iter(stablehlo.eval_module(module, inputs))
        return [read(type_, carriers) for type_ in results]


if __name__ == "__main__":
    stablehlo.register_stablehlo_passes()
    serve(evaluate)
