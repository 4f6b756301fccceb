"""Compiled code that programs call by name, made ready; and what errors of XLA's mean."""

import ctypes
import re
from collections.abc import Callable
from threading import Lock
from weakref import WeakSet, ref

import jax
from jax.errors import JaxRuntimeError

from minixla.core.errors import MinixlaError, TransformError, explain, too_large
from minixla.core.graph import Graph
from minixla.core.operation import Operation
from minixla.core.source import Source
from minixla.engine import kernels
from minixla.engine.jax_private import initialize_lapack, register_xla_runtime_error_handler

#: For each target of the programs that were lowered, where the last call of it is, and of what.
_CALLED: dict[str, tuple[Source | None, Callable[[], Operation | None]]] = {}
#: By target the library, symbol and platform of code that was registered from shared libraries.
LIBRARIES: dict[str, tuple[str, str, str]] = {}
_REGISTERING = Lock()
#: The operations that were lowered to a call of compiled code of users'.
_CALLERS: WeakSet[Operation] = WeakSet()
# XLA's words for a target without code, with the target and the platform.
_UNKNOWN = (
    r"No FFI handler registered for (\S+) on a platform (\S+)",
    r"No registered implementation for .*custom call to (\S+) for (?:platform )?(\S+)",
    r"Custom call target (\S+) is not implemented()",
)
# And for a compiler option that it does not know, or whose value is none.
_OPTION = r"No such compile option: .*|While setting option .*"
#: Targets of XLA's own passes, which check nothing, and what to use instead.
_INTERNAL = {"SliceToDynamic": "minixla_ops.set_dimension_size", "TopK": "minixla_ops.top_k"}


def register_code(target: str, path: str, symbol: str, platform: str) -> None:
    """Makes a handler of a shared library known to XLA; again, nothing happens.

    Raises:
        OSError: there is no such library.
        AttributeError: it has no such symbol.
    """
    with _REGISTERING:
        if target not in LIBRARIES:
            handler = getattr(ctypes.CDLL(path), symbol)
            name_of_platform = {"cuda": "CUDA", "rocm": "ROCM"}.get(platform, platform)
            jax.ffi.register_ffi_target(
                target, jax.ffi.pycapsule(handler), platform=name_of_platform
            )
            LIBRARIES[target] = path, symbol, platform


def prepare_target(target: str, source: Source | None, operation: Operation | None = None) -> None:
    """Makes the code of a custom call ready, for a program that is lowered and calls it there."""
    if target in _INTERNAL:
        problem = f"the target {target!r} is a name that XLA's compiler gives to calls of its own"
        advice = "XLA ends the process where such a call is not as it makes them: use "
        advice += f"{_INTERNAL[target]}."
        raise explain(TransformError, "custom_call", problem, advice=advice, source=source)
    if target.startswith("lapack_"):
        # The kernels are registered from the start, as null pointers.
        initialize_lapack()
    if target.startswith(kernels.PREFIX) and (path := kernels.library()) is not None:
        register_code(target, str(path), target, "cpu")
    _CALLED[target] = source, (lambda: None) if operation is None else ref(operation)
    if operation is not None:
        _CALLERS.add(operation)


def _explained(error: Exception) -> Exception | None:
    """Our error for one of XLA's compiler about what it does not know; None for others."""
    if option := re.search(_OPTION, str(error)):
        advice = "Names in compiler_options are XLA's flags (xla_...) and compile options."
        return explain(
            TransformError, "compiler_options", f"XLA: {option[0].rstrip('.')}", advice=advice
        )
    match = next(filter(None, (re.search(pattern, str(error)) for pattern in _UNKNOWN)), None)
    if match is None or match[1] not in _CALLED:
        return None
    problem = f"XLA has no code for the target {match[1]!r}"
    problem += f" on the platform {match[2]}" if match[2] else ""
    advice = "Load the library that has it and register it with jax.ffi.register_ffi_target, or "
    advice += "say what it computes: minixla_ops.register_custom_call(target_name, function)."
    source, called = _CALLED[match[1]]
    operation = called()
    subject = "custom_call" if operation is None else operation.builder_name
    details = [] if operation is None else [f"{name} = {x}" for name, x in operation.values.items()]
    return explain(TransformError, subject, problem, details, advice, source)


register_xla_runtime_error_handler(_explained)
_INTERRUPTED = "^KeyboardInterrupt"


class KernelError(MinixlaError, JaxRuntimeError):
    """Compiled code that an operation calls has failed, or refused what it was given."""


def raise_ours(
    error: Exception, subject: str, program: Callable[[], Graph] | Operation | None = None
) -> None:
    """Raises KeyboardInterrupt, SizeError or KernelError where an error of XLA's means that.

    `program` is what ran, or gives it, where it may have called compiled code of users'.
    """
    text = str(error)
    # Ctrl-C ended a Python function that a program called.
    if isinstance(error, JaxRuntimeError) and re.search(_INTERRUPTED, text, flags=re.MULTILINE):
        raise KeyboardInterrupt from error
    kind, _, problem = text.partition(": ")
    if kind == "RESOURCE_EXHAUSTED":
        what = "there is not enough memory to run the program"
        raise too_large(subject, what, [f"XLA: {problem}"]) from None
    # Of a program that ran before, jaxlib raises some as ValueError.
    is_of_xla = isinstance(error, JaxRuntimeError) or kind == "INVALID_ARGUMENT"
    if is_of_xla and program is not None and _CALLERS:
        _raise_of_kernel(subject, kind, problem, program)


def _raise_of_kernel(
    subject: str, kind: str, problem: str, program: Callable[[], Graph] | Operation
) -> None:
    """Raises KernelError where a program called compiled code of users'."""
    calls = {program: None} if isinstance(program, Operation) else _callers_in(program())
    calls = {operation: source for operation, source in calls.items() if operation in _CALLERS}
    for operation, source in calls.items():
        details = [f"{name} = {value}" for name, value in operation.values.items()]
        details = [f"XLA: {kind}", *details]
        if len(calls) > 1:
            subject, source = subject, None
            details = [f"in one of: {operation.name} at {at}" for operation, at in calls.items()]
        else:
            subject = operation.builder_name
        raise explain(KernelError, subject, problem.rstrip("."), details, source=source) from None


def _callers_in(graph: Graph) -> dict[Operation, Source | None]:
    """The operations of a program and of all within it, and where each is called."""
    callers: dict[Operation, Source | None] = {}
    pending = [graph]
    while pending:
        for step in pending.pop().instructions:
            callers.setdefault(step.op, step.source)
            pending.extend(step.op.computations)
    return callers
