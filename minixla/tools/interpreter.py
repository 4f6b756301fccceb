"""StableHLO's own interpreter, as a function from module text and arrays to arrays.

It rounds after every operation, sums in row-major order, keeps denormals, and computes elementary
functions in double: those of f32 and smaller are correctly rounded, but for `logistic`, which it
composes of rounded steps. What it cannot be asked, or answers wrongly, as of jaxlib 0.10.2:

- It aborts on batch_norm_*, cholesky, custom_call, einsum, fft of f32 (not of f64), rng,
  rng_bit_generator, torch_index_select, unary_einsum, real_dynamic_slice, set_dimension_size,
  `remainder` and ordered `compare` of complex numbers, integer division by zero, triangular_solve
  with ADJOINT of real numbers or of a batch without unit diagonal, and collectives, replica_id and
  partition_id outside `interpreter.run_parallel`. Quantized types do not parse.
- dot, broadcast, create_token and chlo are rewritten first. What chlo becomes (erf, lgamma, digamma
  ...) are approximations, largely those that XLA uses too: no second opinion, and up to thousands
  of ulp off near their zeros.
- `compare` ignores TOTALORDER.
- Unsigned start indices (dynamic_slice, gather, ...) are read as signed: ui8 200 is -56.
- `scatter` applies the part of a window that is within bounds, where XLA drops the window. It
  writes to its operand: who else reads that value reads the result.
- `dot_general` aborts where it contracts a dimension of size 0. It and `convolution` give noise
  where the result's float type is not that of the operands.
- fft gives noise for IRFFT of odd lengths; `power` of complex numbers gives some NaN.
- `select_and_scatter` adds the initial value twice.
- f8E3M4: ceil, floor and both roundings give NaN, and sqrt may be a step off. f8E8M0FNU: zero,
  negative and NaN results are wrong. f4E2M1FN: division by zero, log and rsqrt of zero give zero,
  as do infinities and NaN converted to it. f8 types without infinities: `logistic` gives NaN where
  exp overflows, and `reduce_precision` is wrong for large values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minixla.tools.worker import Worker

_worker = Worker("StableHLO's interpreter", "minixla.tools.interpreter_worker")


def run_stablehlo(
    text: str, arguments: Sequence[np.ndarray], *, timeout: float = 60.0
) -> list[np.ndarray]:
    """Results of a module's @main in StableHLO's interpreter.

    Args:
        text: the module; @main takes and returns tensors of static shape and any element type. HLO
            text is translated by XLA first.
        arguments: an array an argument, of exactly its shape and type.
        timeout: seconds until the interpreter is taken for hanging.

    Returns:
        An array a result, of its shape and type, bit for bit as the interpreter has it.

    Raises:
        OracleError: the module does not parse or verify, or the arguments do not fit it.
        OracleCrash: the interpreter aborted or hung.
    """
    return _worker.evaluate(text, arguments, timeout)
