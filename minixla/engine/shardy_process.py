"""A process in which Shardy's passes run, because a failed check ends the process.

`shardy` runs it as a script. A request is MLIR's pipeline, whether the text gets locations, and
the text of a module. A reply is empty, with the text after the passes, or has the arguments of
`Refusal`. Without a module it describes the pipeline.
"""

from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.passmanager import PassManager
from jax.interpreters.mlir import make_ir_context

from minixla.core.shared_contexts import SharedContexts
from minixla.engine.forks import limits, problem_of, serve_in_forks

# Several times the seconds and bytes of memory that propagation over a valid program needs.
_SECONDS, _SECONDS_PER_BYTE = 30.0, 2e-4
_BYTES, _BYTES_PER_BYTE = 8 << 30, 4000


def _new_context() -> Any:
    context = make_ir_context()
    # A fork does not have the threads of its parent.
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
    except Exception as error:  # the sender gets any error
        return problem_of(error), []


if __name__ == "__main__":
    serve_in_forks(_answer)
