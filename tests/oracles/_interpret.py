"""The process behind `interpreter.py`: evaluates modules in StableHLO's interpreter."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.extend.mlir.passmanager import PassManager
from jax.interpreters.mlir import make_ir_context

from tests.oracles._worker import serve
from tests.oracles.values import COMPLEX, DTYPES, SMALL_FLOATS, is_float, type_name

# Writes chlo ops and those that StableHLO has replaced (dot, broadcast, create_token) in terms of
# what the interpreter evaluates, and leaves everything else as it is.
LEGALISE = (
    "builtin.module(func.func("
    "chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false}))"
)

# Python cannot read attributes of these types; the op, in the interpreter, gives one that it can.
CARRIERS: dict[str, tuple[Callable[[ir.Type, Any], Any], str]] = {
    "bf16": (stablehlo.bitcast_convert, "ui16"),
    **{name: (stablehlo.bitcast_convert, "ui8") for name, _ in SMALL_FLOATS if name[:2] == "f8"},
    **{name: (stablehlo.convert, "f32") for name, _ in SMALL_FLOATS if name[:2] != "f8"},
    **dict.fromkeys(("i2", "i4"), (stablehlo.convert, "i8")),
    **dict.fromkeys(("ui2", "ui4"), (stablehlo.convert, "ui8")),
}


def make_context() -> ir.Context:
    """An MLIR context with the dialects that the interpreter evaluates and those JAX writes."""
    context = make_ir_context()
    context.allow_unregistered_dialects = True
    stablehlo.register_interpreter_dialect(context)
    return context


# A context keeps every constant it ever saw, and takes milliseconds to make: each serves a while.
CONTEXTS = itertools.chain.from_iterable(
    itertools.repeat(make_context(), 1000) for _ in itertools.count()
)


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


def carry(result: Any) -> list[Any]:
    """The values, of types that Python can read, that carry a result out."""
    element, dimensions = str(result.type.element_type), result.type.shape
    if element in dict(COMPLEX):
        return [stablehlo.real(result), stablehlo.imag(result)]
    if element in CARRIERS:
        operation, carrier = CARRIERS[element]
        return [operation(tensor_type(dimensions, carrier), result)]
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


def constants(arguments: Sequence[np.ndarray], types: Sequence[ir.Type]) -> list[ir.Attribute]:
    """The arguments as the interpreter takes them; ValueError where they do not fit @main."""
    given = [tensor_type(array.shape, type_name(array.dtype)) for array in arguments]
    if given != list(types):
        expected, actual = (", ".join(map(str, listed)) for listed in (types, given))
        raise ValueError(f"@main takes ({expected}), but was given ({actual})")
    buffers = (np.frombuffer(array.tobytes(), np.uint8) for array in arguments)
    return [
        ir.DenseElementsAttr.get(buffer, type=type_)
        for buffer, type_ in zip(buffers, given, strict=True)
    ]


def read(type_: Any, carriers: Iterator[ir.Attribute]) -> np.ndarray:
    """A result of @main from the next of what carried it."""
    dtype, dimensions = DTYPES[str(type_.element_type)], type_.shape
    carrier = np.array(next(carriers)).reshape(dimensions)
    if dtype.kind == "c":
        array = np.empty(dimensions, dtype)
        array.real, array.imag = carrier, np.reshape(next(carriers), dimensions)
        return array
    bits = is_float(dtype) and carrier.dtype.kind == "u"
    return carrier.view(dtype) if bits else carrier.astype(dtype, copy=False)


def evaluate(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of the module's @main."""
    with next(CONTEXTS), ir.Location.unknown():
        module = ir.Module.parse(text)
        PassManager.parse(LEGALISE).run(module.operation)
        main = find_main(module)
        results = main.type.results
        inputs = constants(arguments, main.type.inputs)
        carry_results(main)
        carriers = iter(stablehlo.eval_module(module, inputs))
        return [read(type_, carriers) for type_ in results]


if __name__ == "__main__":
    stablehlo.register_stablehlo_passes()
    serve(evaluate)
