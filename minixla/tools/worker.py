"""Evaluators of modules in processes of their own, which a program may kill without harm.

Both sides are here: `Worker` asks the process, `serve` is what the process does, and the rest what
it asks of a module. A request is (text, arrays); a reply is (None, arrays) or (error message, []).
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
    """An oracle refused a program or its arguments: it does not parse, verify, compile or fit."""


class OracleCrash(OracleError):
    """An oracle died of a program, or did not answer in time; the message has the program."""


class Worker(Helper):
    """An evaluator that messages call `name`: a process that runs `module`, which calls `serve`."""

    def __init__(self, name: str, module: str) -> None:
        super().__init__("-m", module)
        self.name = name

    def evaluate(self, text: str, arguments: Sequence[Any], timeout: float) -> list[np.ndarray]:
        """Results of a program; OracleError if it is refused, OracleCrash if no answer comes."""
        try:
            (error, results), _ = self.ask((text, list(map(np.asarray, arguments))), timeout)
        except HelperDied as death:
            raise OracleCrash(f"{self.name} {death}\n{text}") from death
        if error is not None:
            raise OracleError(f"{self.name} refused the module: {error}\n{text}")
        return results


def serve(evaluate: Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]) -> None:
    """Evaluate what comes over the connection that the command line names, until it is closed."""
    stream = stream_to_parent()
    with contextlib.suppress(EOFError):
        while True:
            number, request, _ = receive(stream)
            try:
                reply = None, evaluate(*request)
            except Exception as error:  # Whatever is wrong with the request, its sender is told.
                reply = f"{type(error).__name__}: {error}", []
            send(stream, number, reply)


def make_context() -> ir.Context:
    """An MLIR context with the dialects that the interpreter evaluates and those JAX writes."""
    context = make_ir_context()
    context.allow_unregistered_dialects = True
    stablehlo.register_interpreter_dialect(context)
    return context


# One keeps every constant it ever saw, and takes milliseconds to make: each serves a while.
_contexts = itertools.chain.from_iterable(
    itertools.repeat(make_context(), 1000) for _ in itertools.count()
)
#: A context as of `make_context` for the next module, which many modules share.
next_context = _contexts.__next__


def find_main(module: ir.Module) -> tuple[Any, list[str]]:
    """The module's @main and the types that it takes, as text; ValueError if it has none."""
    operation: Any
    for operation in module.body.operations:
        if operation.attributes.get("sym_name") == ir.StringAttr.get("main"):
            return operation, list(map(str, operation.type.inputs))
    raise ValueError("the module has no function @main")


def check_arguments(arguments: Sequence[np.ndarray], types: Sequence[str]) -> None:
    """Raise ValueError where arguments do not fit: XLA would read their bytes as another type."""
    shapes = [Shape(array.dtype, array.shape).stablehlo for array in arguments]
    if shapes != types:
        raise ValueError(f"@main takes ({', '.join(types)}), but was given ({', '.join(shapes)})")
