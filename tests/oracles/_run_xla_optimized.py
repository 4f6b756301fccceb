"""The process behind `xla.py` for programs that LLVM optimises, as it does users'."""

from functools import partial

import jax

from minixla.tools.worker import serve
from tests.compilation import OPTIMIZED
from tests.oracles._run_xla import evaluate

if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    serve(partial(evaluate, options=tuple(OPTIMIZED.items())))
