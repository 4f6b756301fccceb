"""What commands share: options, the program of a file, its arguments, how results are written."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib.util
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from minixla.tools.tables import plain_number

if TYPE_CHECKING:
    import numpy as np

    from minixla.core.graph import Graph
    from minixla.core.shapes import AnyShape, Shape


class BadInput(Exception):
    """Words or files that a command cannot use; the message says why."""


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_command(
    commands: Commands,
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """Adds a command on a program in a file.

    Args:
        commands: those that there are.
        name: its name.
        text: what it does, in a sentence.
        run: from its options to the exit code.
    """
    what = text.split(" ", 1)[1]
    command = commands.add_parser(name, help=what, description=f"{text}.")
    command.set_defaults(run=run)
    command.add_argument(
        "program",
        help="a StableHLO program (.mlir text, bytecode, a portable artifact, what jax.export "
        "serialized) or an HLO program (text); - reads standard input",
    )
    command.add_argument(
        "--function", metavar="NAME", help="the function of the module; default: main"
    )
    command.add_argument(
        "--drop-shardings",
        action="store_true",
        help="read a program for several devices without what it says of their shares",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    return command


def add_argument_options(command: argparse.ArgumentParser) -> None:
    """Adds where arguments come from."""
    command.add_argument(
        "arguments",
        nargs="*",
        default=[],  # else usage errors would ask for one
        metavar="array",
        help="files of arguments in order: .npy of one, .npz of several (in the order of the "
        "file); those that are missing are generated",
    )
    command.add_argument(
        "--seed",
        type=_seed,
        metavar="NUMBER",
        default=0,
        help="of generated arguments: floats are normal, integers 0 to 7 (default 0)",
    )
    command.add_argument(
        "--load",
        metavar="FILE.py",
        action="append",
        help="run first: it may add evaluators by mx.register_evaluator",
    )


def load_scripts(arguments: Sequence[str] | None) -> None:
    """Runs the files that `--load` names, which may add to what other words mean.

    Raises:
        BadInput, OSError: one cannot be run.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--load", action="append", nargs="?", default=[])
    for name in filter(None, parser.parse_known_args(arguments)[0].load):
        _check_file(name)
        spec = importlib.util.spec_from_file_location(f"loaded {name}", name)
        if spec is None or spec.loader is None:
            raise BadInput(f"--load: {name} is no file of Python's: its name does not end in .py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def look_for_files(options: argparse.Namespace) -> None:
    """Looks whether files can be read and written, before anything is loaded that takes time.

    Raises:
        OSError: one cannot.
    """
    for name in [getattr(options, "program", "-"), *getattr(options, "arguments", ())]:
        if name != "-":
            _check_file(name)
    output = getattr(options, "output", None)
    if output is not None:
        folder = os.path.dirname(output) or os.curdir
        if not os.path.isdir(folder):
            raise _refused(errno.ENOENT, folder)
        if os.path.exists(output):
            _check_access(output, os.W_OK)
        elif not os.access(folder, os.W_OK):
            raise _refused(errno.EACCES, output)


def _check_file(name: str) -> None:
    os.stat(name)
    _check_access(name, os.R_OK)


def _check_access(name: str, mode: int) -> None:
    if os.path.isdir(name):
        raise _refused(errno.EISDIR, name)
    if not os.access(name, mode):
        raise _refused(errno.EACCES, name)


def _refused(code: int, name: str) -> OSError:
    return OSError(code, os.strerror(code), name)


@contextlib.contextmanager
def sixty_four_bits() -> Iterator[None]:
    """Programs from files keep their 64-bit types."""
    import jax

    with jax.enable_x64(True):
        yield


def read_program(options: argparse.Namespace) -> Any:
    """The program of the file as a function of ours.

    Raises:
        BadInput, OSError: it cannot be read.
    """
    from minixla.core.errors import ImportError_
    from minixla.interop import import_hlo, import_stablehlo
    from minixla.interop.importing import ImportedProgram

    if options.program == "-":
        source = sys.stdin.buffer.read()
    else:
        source = Path(options.program).read_bytes()
    if not source.strip():
        raise BadInput(f"{options.program} is empty")
    shardings: Any = "drop" if options.drop_shardings else "refuse"
    try:
        if _is_hlo(source):
            if options.function is not None:
                raise BadInput("--function is for StableHLO modules; HLO has one entry")
            return import_hlo(source.decode(errors="replace"), shardings=shardings)
        program = import_stablehlo(source, function=options.function, shardings=shardings)
    except ImportError_ as error:
        raise BadInput(f"{options.program}: {_as_typed(error)}") from None
    functions = {name: each.graph for name, each in program.functions.items()}
    # What jax.export made takes pytrees; files give arrays one by one.
    return ImportedProgram(program.graph, functions)


def _as_typed(error: Exception) -> str:
    """The message of an importer in the words of the command line."""
    said = re.sub(r"^import_\w+: ", "", str(error)).replace("function=", "--function")
    return said.replace('shardings="drop"', "--drop-shardings")


def _is_hlo(source: bytes) -> bool:
    lines = (line.strip() for line in source[:4096].splitlines())
    first = next((line for line in lines if line and not line.startswith(b"//")), b"")
    return first.startswith(b"HloModule")


def argument_arrays(
    options: argparse.Namespace, shapes: Sequence[Any]
) -> tuple[list[np.ndarray], list[str]]:
    """The arguments of a program, and for each in words where it comes from.

    Raises:
        BadInput: they do not fit.
    """
    given = [pair for name in options.arguments for pair in _loaded(name)]
    if len(given) > len(shapes):
        raise BadInput(f"{len(given)} arguments were given, the program takes {len(shapes)}")
    arrays, origins = [], []
    for index, shape in enumerate(shapes):
        check_is_array(index, shape)
        if index < len(given):
            name, array = given[index]
            arrays.append(_fitting(index, array, shape, name))
            origins.append(name)
        else:
            arrays.append(_generated(options.seed, index, shape))
            origins.append(f"generated from seed {options.seed}")
    return arrays, origins


def check_is_array(index: int, shape: AnyShape) -> Shape:
    """The shape of an argument, where that is an array of fixed size.

    Raises:
        BadInput: it is not.
    """
    from minixla.core.shapes import Shape

    if not isinstance(shape, Shape) or shape.is_dynamic:
        raise BadInput(f"argument {index} is of shape {shape}: only arrays of fixed size are read")
    return shape


def _loaded(name: str) -> list[tuple[str, Any]]:
    """(origin, array) for each array in a file."""
    import numpy as np

    with open(name, "rb") as file:
        # Pipes cannot go back.
        stream = file if file.seekable() else io.BytesIO(file.read())
        start = stream.read(6)
        stream.seek(0)
        if not start.startswith((b"\x93NUMPY", b"PK")):
            raise BadInput(f"{name} is no .npy or .npz file")
        try:
            found = np.load(stream, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return [(name, found)]
            pairs = [(f"{name}[{key}]", found[key]) for key in found.files]
        except (ValueError, EOFError, KeyError, NotImplementedError, *_damages()) as error:
            problem = str(error) or "it is cut short"
            if "allow_pickle" in problem:
                problem = "it holds Python objects, and not arrays of numbers alone"
            raise BadInput(f"{name} cannot be read: {problem}") from None
    for origin, array in pairs:
        if not isinstance(array, np.ndarray):
            raise BadInput(f"{origin} is no array")
    return pairs


def _damages() -> tuple[type[Exception], ...]:
    """What NumPy raises besides for a damaged archive."""
    import zipfile
    import zlib

    return zipfile.BadZipFile, zlib.error, MemoryError


def _fitting(index: int, array: np.ndarray, shape: Shape, origin: str) -> np.ndarray:
    # NumPy's files keep the bytes of bf16 and f8, and not what they are.
    if array.dtype.kind == "V" and array.dtype.itemsize == shape.dtype.itemsize:
        array = array.view(shape.dtype)
    if array.dtype != shape.dtype or array.shape != shape.dimensions:
        given = f"{array.dtype}{list(array.shape)}"
        wanted = f"{shape.dtype}{list(shape.dimensions)}"
        raise BadInput(f"argument {index} from {origin} is {given}, the program takes {wanted}")
    return array


def _generated(seed: int, index: int, shape: Shape) -> np.ndarray:
    import numpy as np

    generator = np.random.default_rng([seed, index])
    kind = shape.element_type
    try:
        if kind.is_inexact:
            numbers = generator.normal(size=shape.dimensions)
            if kind.is_complex:
                numbers = numbers + 1j * generator.normal(size=shape.dimensions)
        else:
            numbers = generator.integers(0, 2 if kind.bits <= 2 else 8, shape.dimensions)
        return np.asarray(numbers).astype(shape.dtype)
    except (MemoryError, ValueError) as error:  # ValueError: its bytes cannot even be counted
        raise BadInput(f"argument {index} of shape {shape} does not fit in memory") from error


def print_json(value: Any) -> None:
    """Prints JSON; numbers that it lacks become strings."""
    print(json.dumps(_plain(value), indent=1, allow_nan=False))


def print_data(data: bytes) -> None:
    """Writes to standard output, which may take text only where Python has replaced it."""
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        print(data.decode(errors="replace"), end="")
    else:
        sys.stdout.flush()
        buffer.write(data)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    return plain_number(value)


def named_outputs(graph: Graph, stem: str) -> list[str]:
    """Names of the outputs of a program: `stem`, or `stem0`, `stem1` ..."""
    count = len(graph.outputs)
    return [stem] if count == 1 else [f"{stem}{index}" for index in range(count)]
