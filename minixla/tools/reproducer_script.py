"""The part of a reproducer that runs it; every reproducer contains the text of this file.

It needs jax and numpy only. A reproducer's data replace the empty data below.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax.extend import backend
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.extend.mlir.passmanager import PassManager

Arrays = Sequence[np.ndarray]
# An array: its element type in StableHLO's notation, its dimensions, its bytes in hex.
Written = tuple[str, tuple[int, ...], str]

# BEGIN DATA
NAME = ""
DIFFERENCE = ""
FOUND = ""
PLATFORM = "cpu"
FLAGS = ""  # XLA_FLAGS, unless the environment says otherwise
INTERPRETER = ""  # why the interpreter may be wrong
VERSIONS: dict[str, str] = {}
PROGRAM = ""
INPUTS: list[Written] = []
EXPECTED: list[Written] = []
ALLOWED: list[Written] = []  # the largest error of each element; negative: its bits are equal
ACTUAL: list[Written] = []
# END DATA

SECONDS = 120
LEGALIZE = "chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false}"


def dtype_of(name: str) -> np.dtype:
    """Return the dtype of an element type in StableHLO's notation."""
    known = {"i1": "bool", "bf16": "bfloat16", "complex<f32>": "c8", "complex<f64>": "c16"}
    if name[0] == "f" and "E" in name:
        known[name] = f"float{name[1]}_{name[2:].lower()}"
    elif name.lstrip("ui").isdecimal() and name not in known:
        known[name] = f"{'u' * (name[0] == 'u')}int{name.lstrip('ui')}"
    elif name[0] == "f":
        known[name] = f"float{name[1:]}"
    full = known[name]
    return np.dtype(getattr(ml_dtypes, full, full))


def printable(text: str) -> str:
    """Return a text without control characters, which a terminal would obey."""
    return "".join(x if x.isprintable() else ascii(x)[1:-1] for x in text)


def array_of(written: Written) -> np.ndarray:
    """Return the array that a reproducer holds."""
    name, dimensions, digits = written
    return np.frombuffer(bytes.fromhex(digits), dtype_of(name)).reshape(dimensions)


def carriers_of(result: Any) -> list[Any]:
    """Return values of types that Python reads, which hold a result."""
    kind = result.type
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        raise ValueError(f"the interpreter returns tensors of static shape only, not {kind}")
    element = str(kind.element_type)
    if element.startswith("complex"):
        return [stablehlo.real(result), stablehlo.imag(result)]
    operation, carrier = carrier_of(element)
    if operation is None:
        return [result]
    return [operation(ir.RankedTensorType.get(kind.shape, ir.Type.parse(carrier)), result)]


def carrier_of(element: str) -> tuple[Callable[[ir.Type, Any], Any] | None, str]:
    """Return the operation that makes a type readable, and the type that it makes."""
    if element == "bf16" or element.startswith("f8"):
        return stablehlo.bitcast_convert, "ui16" if element == "bf16" else "ui8"
    if element in ("i2", "i4", "ui2", "ui4"):
        return stablehlo.convert, "ui8" if element[0] == "u" else "i8"
    return (stablehlo.convert, "f32") if "E" in element else (None, element)


def return_carriers(main: Any) -> None:
    """Let @main return carriers: `eval_module` aborts the process on complex results."""
    terminator = list(main.entry_block.operations)[-1]
    with ir.InsertionPoint(terminator):
        carriers = [carrier for result in terminator.operands for carrier in carriers_of(result)]
        ir.Operation.create("func.return", operands=carriers)
    terminator.erase()
    function_type = ir.FunctionType.get(main.type.inputs, [carrier.type for carrier in carriers])
    main.attributes["function_type"] = ir.TypeAttr.get(function_type)
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]


def read_result(kind: Any, carriers: Iterator[Any]) -> np.ndarray:
    """Return a result of @main from the next carriers."""
    dtype, dimensions = dtype_of(str(kind.element_type)), kind.shape
    carrier = np.array(next(carriers)).reshape(dimensions)
    if dtype.kind == "c":
        array = np.empty(dimensions, dtype)
        array.real, array.imag = carrier, np.reshape(next(carriers), dimensions)
        return array
    is_bits = carrier.dtype.kind == "u" and "float" in dtype.name
    return carrier.view(dtype) if is_bits else carrier.astype(dtype, copy=False)


def main_of(module: ir.Module) -> Any:
    """Return the function @main of a module; raise ValueError if it is missing."""
    operation: Any
    for operation in module.body.operations:
        if operation.attributes.get("sym_name") == ir.StringAttr.get("main"):
            return operation
    raise ValueError("the module has no function @main")


def interpret(module: ir.Module, arguments: Arrays) -> list[np.ndarray]:
    """Return the results of a module's @main in StableHLO's interpreter."""
    PassManager.parse(f"builtin.module(func.func({LEGALIZE}))").run(module.operation)
    main = main_of(module)
    results, inputs = main.type.results, main.type.inputs
    data: list[Any] = [np.frombuffer(array.tobytes(), np.uint8) for array in arguments]
    pairs = zip(data, inputs, strict=True)
    elements = [ir.DenseElementsAttr.get(array, type=kind) for array, kind in pairs]
    return_carriers(main)
    carriers = iter(stablehlo.eval_module(module, elements))
    return [read_result(kind, carriers) for kind in results]


def run_on_interpreter(text: str, arguments: Arrays) -> list[np.ndarray]:
    """Return the results of a program in StableHLO's interpreter."""
    stablehlo.register_stablehlo_passes()
    # JAX's context has all dialects that the text may use.
    empty: Any = jax.jit(lambda: 0).lower().compiler_ir("stablehlo")
    context = empty.context
    stablehlo.register_interpreter_dialect(context)
    with context, ir.Location.unknown():
        return interpret(ir.Module.parse(text), arguments)


def run_on_xla(text: str, arguments: Arrays, platform: str) -> list[np.ndarray]:
    """Return the results of a program in XLA."""
    if "lapack_" in text:
        jax.numpy.linalg.cholesky(np.eye(1))  # JAX loads LAPACK when it first calls it
    client: Any = backend.get_backend(platform)
    device = client.local_devices()[0]
    options = backend.get_compile_options(num_replicas=1, num_partitions=1)
    executable = client.compile_and_load(text, [device], options)
    buffers = [jax.device_put(argument, device) for argument in arguments]
    results = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [np.asarray(result) for (result,) in results]


def run_apart(way: str) -> list[np.ndarray] | str:
    """Return the results of this file's program in another process, or why they are missing."""
    words = [sys.executable, __file__, way]
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": SECONDS}
    how["env"] = {"XLA_FLAGS": FLAGS, **os.environ}
    try:
        done = subprocess.run(words, **how)
    except subprocess.TimeoutExpired:
        return f"no result after {SECONDS} seconds"
    if done.returncode == 0:
        results = json.loads(done.stdout.splitlines()[-1])
        pairs = zip(results, EXPECTED, strict=True)
        return [array_of((name, dimensions, digits)) for digits, (name, dimensions, _) in pairs]
    lines = done.stderr.strip().splitlines() or [""]
    # The error of Python, or what XLA wrote before its stack.
    shown = next((line for line in reversed(lines) if "Error: " in line), lines[0])
    return printable(f"the process ended with status {done.returncode}: {shown[:300]}")


def is_equal(actual: np.ndarray, expected: np.ndarray, allowed: np.ndarray) -> bool:
    """Test whether a result equals the expected one, up to the allowed errors."""
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return False
    if "float" not in expected.dtype.name and expected.dtype.kind != "c":
        return bool((actual == expected).all())
    kind = np.complex128 if expected.dtype.kind == "c" else np.float64
    wide: Any = [array.astype(kind) for array in (expected, actual)]
    is_nan = [np.isnan(array) for array in wide]
    with np.errstate(all="ignore"):
        is_same = (wide[0] == wide[1]) | is_nan[0] & is_nan[1]
        is_near = np.abs(wide[0] - wide[1]) <= allowed
    signs = [np.signbit(array.real) + 2 * np.signbit(array.imag) for array in wide]
    is_exact = is_same & ((signs[0] == signs[1]) | is_nan[0])
    return bool(np.where(allowed < 0, is_exact, is_same | is_near).all())


def main() -> int:
    """Run the program everywhere, print the results, and return the exit status."""
    inputs, expected = [*map(array_of, INPUTS)], [*map(array_of, EXPECTED)]
    if sys.argv[1:] in (["--xla"], ["--interpreter"]):
        jax.config.update("jax_enable_x64", True)
        is_xla = sys.argv[1] == "--xla"
        results = (
            run_on_xla(PROGRAM, inputs, PLATFORM) if is_xla else run_on_interpreter(PROGRAM, inputs)
        )
        print(json.dumps([np.asarray(result).tobytes().hex() for result in results]))
        return 0
    now = {name: run_apart(f"--{name.lower()}") for name in ("interpreter", "XLA")}
    allowed = [*map(array_of, ALLOWED)]
    agrees = not isinstance(now["XLA"], str) and all(
        is_equal(*each) for each in zip(now["XLA"], expected, allowed, strict=True)
    )
    np.set_printoptions(floatmode="unique", precision=17, threshold=64)
    print(printable(f"{NAME}: {DIFFERENCE}"))
    print(f"found with {', '.join(f'{name} {version}' for name, version in VERSIONS.items())}")
    print(f"now with jax {jax.__version__}, numpy {np.__version__}")
    print(f"inputs:          {inputs}")
    print(f"expected:        {expected}")
    print(f"XLA then:        {printable(FOUND) or [*map(array_of, ACTUAL)]}")
    for name, results in now.items():
        print(f"{name} now:".ljust(17) + str(results))
    if INTERPRETER:
        print(f"The interpreter may be wrong here: {INTERPRETER}.")
    print("XLA gives what is expected." if agrees else "XLA differs from what is expected.")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
