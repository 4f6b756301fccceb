"""StableHLO's own interpreter, as a function from module text and arrays to arrays.

It rounds after every operation, sums in row-major order, keeps denormals, and computes elementary
functions in double: those of f32 and smaller are correctly rounded, but for `logistic`, which it
composes of rounded steps. What it cannot be asked, or answers wrongly, as of jaxlib 0.10.2:

- It aborts on batch_norm_*, cholesky, custom_call, einsum, fft of f32 (not of f64), rng,
  rng_bit_generator, torch_index_select, unary_einsum, real_dynamic_slice, set_dimension_size,
  `remainder` and ordered `compare` of complex numbers, integer division by zero, triangular_solve
  with ADJOINT of real numbers or of a batch without unit diagonal, `dot_general` that contracts a
  dimension of size 0, and collectives, replica_id and partition_id outside
  `interpreter.run_parallel`. Quantized types do not parse.
- dot, broadcast, create_token and chlo are rewritten first. What chlo becomes (erf, lgamma, digamma
  ...) are approximations, largely those that XLA uses too: no second opinion, and up to thousands
  of ulp off near their zeros.
- `built_in_evaluators.interpreter_gap` tells wrong answers. Besides, `scatter` writes to its
  operand: who else reads that value reads the result. f8E3M4: ceil, floor and both roundings give
  NaN, and sqrt may be a step off. f8 types without infinities: `logistic` gives NaN where exp
  overflows, and `reduce_precision` is wrong for large values.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.extend.mlir.passmanager import PassManager

from minixla.core.element_types import BY_STABLEHLO
from minixla.engine.readers.hlo_protos import stablehlo_of_hlo
from minixla.tools.worker import Worker, check_arguments, find_main, next_context, serve

_worker = Worker("StableHLO's interpreter", "minixla.tools.interpreter")


def run_stablehlo(
    text: str, arguments: Sequence[np.ndarray], *, timeout: float = 60.0
) -> list[np.ndarray]:
    """Results of a module's @main, or of HLO's entry, bit for bit; see `Worker.evaluate`."""
    return _worker.evaluate(text, arguments, timeout)


# What the process does: by StableHLO's name the types, and those that Python cannot read attributes
# of; the operation, in the interpreter, gives one that it can.
_SMALL = [name for name, kind in BY_STABLEHLO.items() if kind.is_float and kind.bits <= 8]
_CARRIERS: dict[str, tuple[Callable[[ir.Type, Any], Any], str]] = {
    "bf16": (stablehlo.bitcast_convert, "ui16"),
    **{name: (stablehlo.bitcast_convert, "ui8") for name in _SMALL if name[:2] == "f8"},
    **{name: (stablehlo.convert, "f32") for name in _SMALL if name[:2] != "f8"},
    **dict.fromkeys(("i2", "i4"), (stablehlo.convert, "i8")),
    **dict.fromkeys(("ui2", "ui4"), (stablehlo.convert, "ui8")),
}
# Writes chlo ops and those that StableHLO has replaced (dot, broadcast, create_token) in terms of
# what the interpreter evaluates, and leaves everything else as it is.
_LEGALISE = "chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false}"


def _carriers(result: Any) -> list[Any]:
    """The values, of types that Python can read, that carry a result out."""
    type_ = result.type
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        raise ValueError(f"the interpreter returns tensors of static shape only, not {type_}")
    element = str(type_.element_type)
    if BY_STABLEHLO[element].is_complex:
        return [stablehlo.real(result), stablehlo.imag(result)]
    if element not in _CARRIERS:
        return [result]
    operation, carrier = _CARRIERS[element]
    return [operation(ir.RankedTensorType.get(type_.shape, ir.Type.parse(carrier)), result)]


def _return_carriers(main: Any) -> None:
    """Lets @main return carriers: `eval_module` aborts the process on complex results."""
    terminator = list(main.entry_block.operations)[-1]
    with ir.InsertionPoint(terminator):
        carriers = [carrier for result in terminator.operands for carrier in _carriers(result)]
        ir.Operation.create("func.return", operands=carriers)
    terminator.erase()
    function_type = ir.FunctionType.get(main.type.inputs, [carrier.type for carrier in carriers])
    main.attributes["function_type"] = ir.TypeAttr.get(function_type)
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]


def _read(type_: Any, carriers: Iterator[Any]) -> np.ndarray:
    """A result of @main from the next of what carried it."""
    kind, dimensions = BY_STABLEHLO[str(type_.element_type)], type_.shape
    carrier = np.array(next(carriers)).reshape(dimensions)
    if kind.is_complex:
        array = np.empty(dimensions, kind.dtype)
        array.real, array.imag = carrier, np.reshape(next(carriers), dimensions)
        return array
    bits = kind.is_float and carrier.dtype.kind == "u"
    return carrier.view(kind.dtype) if bits else carrier.astype(kind.dtype, copy=False)


def _evaluate(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of the module's @main, or of an HLO module's entry."""
    if text.startswith("HloModule"):
        text = stablehlo_of_hlo(text)
    with next_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        PassManager.parse(f"builtin.module(func.func({_LEGALISE}))").run(module.operation)
        main, types = find_main(module)
        results = main.type.results
        check_arguments(arguments, types)
        data: list[Any] = [np.frombuffer(array.tobytes(), np.uint8) for array in arguments]
        pairs = zip(data, main.type.inputs, strict=True)
        inputs = [ir.DenseElementsAttr.get(array, type=type_) for array, type_ in pairs]
        _return_carriers(main)
        carriers = iter(stablehlo.eval_module(module, inputs))
        return [_read(type_, carriers) for type_ in results]


if __name__ == "__main__":
    stablehlo.register_stablehlo_passes()
    serve(_evaluate)
