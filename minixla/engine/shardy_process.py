"""A process in which Shardy's passes run: a check of theirs that fails ends it.

Run as a script, by `shardy`. A request is MLIR's pipeline, whether the text is to have its places,
and the text of a module; a reply is empty, with the text that the passes leave, or what becomes the
arguments of `Refusal`. Without a module the pipeline is described.
"""

from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.passmanager import PassManager
from jax.interpreters.mlir import make_ir_context

from minixla.core.shared_contexts import SharedContexts
from minixla.engine.forks import limits, problem_of, serve_in_forks

# What propagation over a healthy program needs, several times over: seconds, and bytes of memory.
_SECONDS, _SECONDS_PER_BYTE = 30.0, 2e-4
_BYTES, _BYTES_PER_BYTE = 8 << 30, 4000


def _new_context() -> Any:
    context = make_ir_context()
    # The threads of the process that this one was forked from are not here.
    context.enable_multithreading(False)
    return context


_contexts = SharedContexts(_new_context)


def _answer(request: Any, arrays: list[np.ndarray]) -> tuple[dict[str, Any], list[bytes]]:
    pipeline, with_places = request
    size = sum(map(len, arrays))
    try:
        seconds, memory = _SECONDS + size * _SECONDS_PER_BYTE, _BYTES + size * _BYTES_PER_BYTE
        with limits(seconds, memory), _contexts.context_for(size):
            passes = PassManager.parse(pipeline)
            if not arrays:
                return {}, [str(passes).encode()]
            module = ir.Module.parse(arrays[0].tobytes())
            passes.run(module.operation)
            text: Any = module.operation.get_asm(enable_debug_info=with_places)
            return {}, [text.encode()]
    except Exception as error:  # whatever is wrong with the request, its sender is told
        return problem_of(error), []


if __name__ == "__main__":
    serve_in_forks(_answer)
