"""XLA:CPU, as a function from StableHLO text and arrays to arrays.

What a comparison with it must know, as of jaxlib 0.10.2:

- Arithmetic, functions, comparison, minimum, maximum, sign and conversion of bf16, f32, f64 and
  their complex types take and give zero for denormals (`compare.flush_denormals`), which makes some
  infinities and NaN, and odd values in `atan2`, `cbrt` and `power`. What moves or masks bits keeps
  them (negate, abs, TOTALORDER, bf16 to f32 and back), as do operations that are optimised away.
  f16 and the f8 types have denormals.
- a * b + c in f32 and f64 is rounded once where LLVM optimises; x / constant is x times the
  reciprocal; x + 0 is x, even for -0. bf16, f16 and f8 are rounded after every operation, but
  summed in wider or partial sums; their dot products are sums in f32.
- Constants are folded by other code: convolutions of integers in double (they saturate), bits of
  8-bit constants read as 4-bit ones wrongly; a complex constant converted to a real type kills it.
- Dot products and convolutions begin with the first product, which may be -0, and not with 0.
- complex(real(x), imag(x)) is x, even for a real x, whose type it then has.
- s2 and u2: comparisons with constants are wrong, and concatenation kills the process.
- Integers: x / 0 is all ones, x % 0 is x, min / -1 is min, min % -1 is 0. `power` takes exponents
  modulo 64, negative ones give 0, 1 or -1, and unsigned ones from half the range on are taken for
  negative. `popcnt` of negative i4 is wrong.
- Float to integer saturates and NaN becomes 0; but 6 in f4E2M1FN becomes the largest integer.
- An overflow is NaN in types without infinities, and the largest value in f4E2M1FN.
- Complex functions differ from C99 in signs of zeros and in NaN where one part is infinite; abs of
  an infinity with a NaN part is NaN.
- There are no f6 types (they may kill the process), cbrt of complex numbers, ragged_dot,
  unary_einsum, dynamic_pad, dynamic_gather, real_dynamic_slice or quantized types; `remainder` of
  complex numbers kills the process.
"""

from collections.abc import Sequence

import numpy as np

from minixla.tools.worker import Worker

_worker = Worker("XLA:CPU", "tests.oracles._run_xla")
_optimizing = Worker("XLA:CPU", "tests.oracles._run_xla_optimized")


def run_xla(
    text: str, arguments: Sequence[np.ndarray], *, timeout: float = 120.0
) -> list[np.ndarray]:
    """Results of a module's @main on XLA:CPU, compiled as by `jax.jit`, but `LIGHTLY`.

    Args:
        text: the module; what it compiles to is kept.
        arguments: an array an argument, of exactly its shape and type.
        timeout: seconds until XLA is taken for hanging.

    Returns:
        An array a result, of its shape and type; 64 bits stay 64, whatever `jax_enable_x64` says.

    Raises:
        OracleError: the module does not compile, or the arguments do not fit it.
        OracleCrash: XLA aborted or hung.
    """
    return _worker.evaluate(text, arguments, timeout)


def run_xla_optimized(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """As `run_xla`, but compiled as users' programs are: LLVM fuses products with sums."""
    return _optimizing.evaluate(text, arguments, 120.0)
