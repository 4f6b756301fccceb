"""StableHLO's interpreter as a function from module text and arrays to arrays.

It rounds after every operation, sums in row-major order and keeps denormals. It computes elementary
functions in double, so those of f32 and smaller types are correctly rounded, except `logistic`,
which it composes of rounded steps. Unsupported operations and wrong results, as of jaxlib 0.10.2:

- It aborts on batch_norm_*, cholesky, custom_call, einsum, fft of f32 (not of f64), rng,
  rng_bit_generator, torch_index_select, unary_einsum, real_dynamic_slice and set_dimension_size.
- It aborts on `remainder` and ordered `compare` of complex numbers, integer division by zero, and
  `dot_general` that contracts a dimension of size 0.
- It aborts on triangular_solve with ADJOINT of real numbers or of a batch without unit diagonal.
- It aborts on collectives, replica_id and partition_id outside `interpreter.run_parallel`.
- Quantized types do not parse.
- dot, broadcast, create_token and chlo are rewritten first. The results of chlo (erf, lgamma,
  digamma ...) are approximations, mostly the same as XLA's. They are not independent, and are up
  to thousands of ulp off near their zeros.
- `built_in_evaluators.interpreter_gap` lists wrong results. In addition, `scatter` writes to its
  operand, so other readers of that value read the result. f8E3M4: ceil, floor and both roundings
  give NaN, and sqrt may be a step off. f8 types without infinities: `logistic` gives NaN where exp
  overflows, and `reduce_precision` is wrong for large values.
"""

from collections.abc import Sequence

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

from minixla.engine.readers.hlo_protos import stablehlo_of_hlo
from minixla.tools.reproducer_script import interpret
from minixla.tools.worker import Worker, check_arguments, find_main, next_context, serve

_worker = Worker("StableHLO's interpreter", "minixla.tools.interpreter")


def run_stablehlo(
    text: str, arguments: Sequence[np.ndarray], *, timeout: float = 60.0
) -> list[np.ndarray]:
    """Return the results of a module's @main, or of HLO's entry, exactly; see `Worker.evaluate`."""
    return _worker.evaluate(text, arguments, timeout)


def _evaluate(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of the module's @main, or of an HLO module's entry."""
    if text.startswith("HloModule"):
        text = stablehlo_of_hlo(text)
    with next_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        check_arguments(arguments, find_main(module)[1])
        return interpret(module, arguments)


if __name__ == "__main__":
    stablehlo.register_stablehlo_passes()
    serve(_evaluate)
