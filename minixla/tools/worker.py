"""Evaluators of modules in separate processes, which a program may kill without harm.

Both sides are here: `Worker` calls the process, `serve` runs in it, and the rest helps to evaluate
a module. A request is (text, arrays); a reply is (None, arrays) or (error message, []).
"""

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

from minixla.core.shapes import Shape
from minixla.engine.jax_private import make_ir_context
from minixla.engine.subprocesses import Helper, HelperDied, receive, send, stream_to_parent


class OracleError(NotImplementedError):
    """Error for a program that an oracle rejects: it does not parse, verify, compile or fit."""


class OracleCrash(OracleError):
    """Error for an oracle that a program ended, or that timed out; the message has the program."""


class Worker(Helper):
    """An evaluator with a name for messages: a process that runs `module`, which calls `serve`."""

    def __init__(self, name: str, module: str) -> None:
        super().__init__("-m", module)
        self.name = name

    def evaluate(self, text: str, arguments: Sequence[Any], timeout: float) -> list[np.ndarray]:
        """Return a program's results; raise OracleError if it is rejected, OracleCrash on death."""
        try:
            (error, results), _ = self.ask((text, list(map(np.asarray, arguments))), timeout)
        except HelperDied as death:
            raise OracleCrash(f"{self.name} {death}\n{text}") from death
        if error is not None:
            raise OracleError(f"{self.name} rejected the module: {error}\n{text}")
        return results


def serve(evaluate: Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]) -> None:
    """Evaluate the requests on the connection that the command line names, until it is closed."""
    stream = stream_to_parent()
    with contextlib.suppress(EOFError):
        while True:
            number, request, _ = receive(stream)
            try:
                reply = None, evaluate(*request)
            except Exception as error:  # any error is reported to the sender
                reply = f"{type(error).__name__}: {error}", []
            send(stream, number, reply)


def make_context() -> ir.Context:
    """Create an MLIR context with the dialects of the interpreter and those that JAX writes."""
    context = make_ir_context()
    context.allow_unregistered_dialects = True
    stablehlo.register_interpreter_dialect(context)
    return context


# A context keeps all constants, and takes milliseconds to create, so each serves for a while.
_contexts = itertools.chain.from_iterable(
    itertools.repeat(make_context(), 1000) for _ in itertools.count()
)
#: Return a context, as of `make_context`, for the next module; many modules share it.
next_context = _contexts.__next__


def find_main(module: ir.Module) -> tuple[Any, list[str]]:
    """Return a module's @main and its argument types, as text; raise ValueError without one."""
    operation: Any
    for operation in module.body.operations:
        if operation.attributes.get("sym_name") == ir.StringAttr.get("main"):
            return operation, list(map(str, operation.type.inputs))
    raise ValueError("the module has no function @main")


def check_arguments(arguments: Sequence[np.ndarray], types: Sequence[str]) -> None:
    """Raise ValueError if arguments do not fit: XLA would read their bytes as another type."""
    shapes = [Shape(array.dtype, array.shape).stablehlo for array in arguments]
    if shapes != types:
        raise ValueError(f"@main takes ({', '.join(types)}), but was given ({', '.join(shapes)})")
