"""A process in which MLIR reads programs, because damaged programs may end its readers.

`readers.sent` runs it as a script. A request is a number and a program, as text or in binary form.
For HLO it has the replacements of opcodes that XLA's translation lacks. For a program with
symbolic sizes it has the name and the argument types of the main function. A reply is the number
and the arguments of `Sent` or of `Refusal`.
"""

import io
import math
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.export
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.extend.mlir.passmanager import PassManager
from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir.dialects import mhlo  # no other package has it

from minixla.core.shared_contexts import SharedContexts
from minixla.engine.forks import limits, problem_of, serve_in_forks


def _beside(name: str) -> Any:
    """Import a file in this folder by path, even if another module has its name."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hlo_protos = _beside("hlo_protos")
refining = _beside("refining")
# Several times the CPU seconds and bytes of memory that a valid program needs.
_SECONDS, _SECONDS_PER_BYTE = 2.0, 2e-5
_BYTES, _BYTES_PER_BYTE = 4 << 30, 1000
# Bytes of a constant that is sent outside the module, and the most bytes of an element.
_LARGE = 1 << 16
_WIDEST = 16
# The most characters of a smaller constant, also in bits and in lists of short numbers.
_LONG_CONSTANT = 1 << 13

_contexts = SharedContexts(make_ir_context)
_contexts.context_for(0)  # made here, not in each child


def _read(source: Any, is_binary: bool) -> tuple[list[bytes], Any]:
    """Parse a program; return bytecode, data of large constants, and a binary program's text."""
    if is_binary and not source.startswith(b"ML\xefR"):
        source = jax.export.deserialize(source).mlir_module_serialized
    is_artifact = is_binary and b"StableHLO_v" in source[:64]
    may_be_large = len(source) > _LARGE and _may_hold_large(source)
    # Reading an artifact loads dialects, which other programs may not use.
    context = make_ir_context() if is_artifact else _contexts.context_for(len(source))
    with context:
        if is_artifact:
            module = stablehlo.deserialize_portable_artifact(context, source)
        else:
            module = ir.Module.parse(source)
        constants = _taken_constants(module) if may_be_large else []
        text: Any = module.operation.get_asm(enable_debug_info=True) if is_binary else ""
        given_text = text or source
        if isinstance(given_text, str):
            if _MHLO.search(given_text):
                _convert_mhlo(module)
            if _PLACE.search(given_text):
                _refuse_locations(module)
        del source, given_text
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
    return [stream.getvalue(), *constants], text


# A location, or its alias, as the value of an attribute or in a list of values.
_PLACE = re.compile(r"[={\[,(][ \t]*(?:loc\(|#\w+[ \t]*[],}>])")


#: Matches an operation of the dialect mhlo, which TensorFlow writes.
_MHLO = re.compile(r'=[ \t]*"?mhlo\.\w')


def _convert_mhlo(module: Any) -> None:
    """Convert mhlo operations to StableHLO, or to custom calls if StableHLO has no equivalent."""
    copies: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for copy in copies:  # StableHLO lacks it
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.erase()
    mhlo.register_mhlo_passes()
    PassManager.parse("builtin.module(hlo-legalize-to-stablehlo)").run(module.operation)


class _IsLocation(Exception):
    """Error for an attribute that is a location; it has `error_diagnostics` as MLIR's errors do."""

    def __init__(self, operation: Any) -> None:
        message = f"an attribute of {operation.name} is, or holds, a location"
        place = SimpleNamespace(message=message, location=str(operation.location))
        super().__init__(message)
        self.error_diagnostics = [place]


def _refuse_locations(module: Any) -> None:
    """Raise _IsLocation for an attribute that is a location.

    MLIR's Python bindings raise TypeError for locations, or end the process.
    """
    refused: list[Any] = []

    def visit(operation: Any) -> Any:
        try:
            attributes = operation.attributes
            waiting = [_attribute(attributes, name) for name in attributes]
            while waiting:
                location = waiting.pop()
                if isinstance(location, ir.ArrayAttr):
                    waiting.extend(location)
                elif isinstance(location, ir.DictAttr):
                    waiting.extend(_attribute(location, named.name) for named in location)
        except TypeError as error:
            if "Loc" in str(error):
                refused.append(operation)
                return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if refused:
        raise _IsLocation(refused[0])


def _attribute(dictionary: Any, name: str) -> Any:
    # `attr` of a named attribute would end the process where this raises TypeError.
    try:
        return dictionary[name]
    except TypeError as error:
        if "Loc" in str(error):
            raise
        return None  # some kinds of constants have no class


def _may_hold_large(source: str | bytes) -> bool:
    """Return whether a program may have large constants; a search of all operations is slow."""
    if not isinstance(source, str) or "dense_resource<" in source:
        return True
    _, *constants = source.split("dense<")
    return any(constant.find(">", 0, _LONG_CONSTANT) < 0 for constant in constants)


def _taken_constants(module: Any) -> list[bytes]:
    """Replace large constants by resources `minixla0`, ...; return their data."""
    constants: list[bytes] = []

    def visit(operation: Any) -> Any:
        if operation.name in ("stablehlo.constant", "chlo.constant"):
            data = _large_data(operation)
            if data is not None:
                value = f"dense_resource<minixla{len(constants)}> : {operation.results[0].type}"
                operation.attributes["value"] = ir.Attribute.parse(value)
                constants.append(data)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return constants


def _large_data(constant: Any) -> bytes | None:
    """Return a constant's data; None if it is small, or has additional attributes of the user."""
    type_ = constant.results[0].type
    if len(constant.attributes) != 1 or math.prod(type_.shape) * _WIDEST < _LARGE:
        return None
    if str(type_.element_type) == "i1":
        value = constant.attributes["value"]  # the bytecode stores bits
        is_large = not value.is_splat and math.prod(type_.shape) >= _LARGE
        return np.asarray(value).tobytes() if is_large else None
    # In bytecode the data of an attribute is a separate chunk, the only access for nearly every
    # element type. Use a copy: for a value with several uses, MLIR also writes their order, and
    # crashes.
    large: list[bytes] = []
    keep = SimpleNamespace(write=lambda data: large.append(data) if len(data) >= _LARGE else None)
    constant.clone(ip=False).write_bytecode(keep)
    return large[0] if len(large) == 1 and not len(large[0]) % math.prod(type_.shape) else None


def _answer(request: Any, arrays: list[np.ndarray]) -> tuple[dict[str, Any], list[bytes]]:
    is_text, stand_ins, specialization = request
    data = arrays[0].tobytes()
    tables: dict[str, Any] = {}
    try:
        seconds = _SECONDS + len(data) * _SECONDS_PER_BYTE
        with limits(seconds, _BYTES + len(data) * _BYTES_PER_BYTE):
            source: Any = data.decode() if is_text else data
            if specialization is not None:
                with _contexts.context_for(len(data)):
                    refined = refining.refined(data, *specialization)
                return {"text": "", "tables": tables}, [refined]
            if stand_ins is not None:
                source, tables, hlo_text = hlo_protos.translated(source, stand_ins)
                blocks, _ = _read(source, False)
                return {"text": hlo_text, "tables": tables}, blocks
            blocks, text = _read(source, not is_text)
            return {"text": text, "tables": tables}, blocks
    except Exception as error:  # the parent gets any error of damaged bytes
        return {**problem_of(error), "tables": tables}, []


if __name__ == "__main__":
    serve_in_forks(_answer)
