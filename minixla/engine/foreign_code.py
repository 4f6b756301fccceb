"""Register the compiled code that programs call by name, and explain XLA's errors."""

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

#: For each target of the lowered programs: the source line and the operation of its last call.
_CALLED: dict[str, tuple[Source | None, Callable[[], Operation | None]]] = {}
#: Library, symbol and platform of each target that was registered from a shared library.
LIBRARIES: dict[str, tuple[str, str, str]] = {}
_REGISTERING = Lock()
#: The operations that were lowered to calls of users' compiled code.
_CALLERS: WeakSet[Operation] = WeakSet()
# XLA's messages for a target without code, with the target and the platform.
_UNKNOWN = (
    r"No FFI handler registered for (\S+) on a platform (\S+)",
    r"No registered implementation for .*custom call to (\S+) for (?:platform )?(\S+)",
    r"Custom call target (\S+) is not implemented()",
)
# XLA's messages for an unknown compiler option, or an invalid value.
_OPTION = r"No such compile option: .*|While setting option .*"
#: Targets of XLA's own passes, which do not check operands, and what to use instead.
_INTERNAL = {"SliceToDynamic": "minixla_ops.set_dimension_size", "TopK": "minixla_ops.top_k"}


def register_code(target: str, path: str, symbol: str, platform: str) -> None:
    """Register a handler of a shared library with XLA; a second call does nothing.

    Raises:
        OSError: the library does not exist.
        AttributeError: the library does not have the symbol.
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
    """Prepare the code of a custom call in a program that is being lowered."""
    if target in _INTERNAL:
        problem = f"the target {target!r} is reserved for calls that XLA's compiler inserts"
        advice = "XLA may end the process if such a call has an unexpected form. Use "
        advice += f"{_INTERNAL[target]}."
        raise explain(TransformError, "custom_call", problem, advice=advice, source=source)
    if target.startswith("lapack_"):
        # The kernels are null pointers before this.
        initialize_lapack()
    if target.startswith(kernels.PREFIX) and (path := kernels.library()) is not None:
        register_code(target, str(path), target, "cpu")
    _CALLED[target] = source, (lambda: None) if operation is None else ref(operation)
    if operation is not None:
        _CALLERS.add(operation)


def _explained(error: Exception) -> Exception | None:
    """Return our error for an unknown option or target in XLA's error; None for other errors."""
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
    advice = "Load its library and register the target with jax.ffi.register_ffi_target, or "
    advice += "define it in Python: minixla_ops.register_custom_call(target_name, function)."
    source, called = _CALLED[match[1]]
    operation = called()
    subject = "custom_call" if operation is None else operation.builder_name
    details = [] if operation is None else [f"{name} = {x}" for name, x in operation.values.items()]
    return explain(TransformError, subject, problem, details, advice, source)


register_xla_runtime_error_handler(_explained)
_INTERRUPTED = "^KeyboardInterrupt"


class KernelError(MinixlaError, JaxRuntimeError):
    """Error of compiled code that an operation calls: it has failed, or rejected its operands."""


def raise_ours(
    error: Exception, subject: str, program: Callable[[], Graph] | Operation | None = None
) -> None:
    """Raise KeyboardInterrupt, SizeError or KernelError if an error of XLA means one of them.

    `program` is the program that ran, or a function that returns it. It is given if the program may
    call users' compiled code.
    """
    text = str(error)
    # Ctrl-C ended a Python function that the program called.
    if isinstance(error, JaxRuntimeError) and re.search(_INTERRUPTED, text, flags=re.MULTILINE):
        raise KeyboardInterrupt from error
    kind, _, problem = text.partition(": ")
    if kind == "RESOURCE_EXHAUSTED":
        what = "not enough memory to run the program"
        raise too_large(subject, what, [f"XLA: {problem}"]) from None
    # If the program has run before, jaxlib raises some of these errors as ValueError.
    is_of_xla = isinstance(error, JaxRuntimeError) or kind == "INVALID_ARGUMENT"
    if is_of_xla and program is not None and _CALLERS:
        _raise_of_kernel(subject, kind, problem, program)


def _raise_of_kernel(
    subject: str, kind: str, problem: str, program: Callable[[], Graph] | Operation
) -> None:
    """Raise KernelError if a program called users' compiled code."""
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
    """Return all operations of a program and its inner programs, with the source line of each."""
    callers: dict[Operation, Source | None] = {}
    pending = [graph]
    while pending:
        for step in pending.pop().instructions:
            callers.setdefault(step.op, step.source)
            pending.extend(step.op.computations)
    return callers
