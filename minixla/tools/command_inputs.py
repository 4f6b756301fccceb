"""The inputs of commands: the program in a file, and arguments for it."""

import argparse
import io
import itertools
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minixla import interop
from minixla.core import Graph, Shape
from minixla.core.errors import ImportError_, TransformError
from minixla.interop import ImportedProgram
from minixla.interop.hlo.reading import is_serialized
from minixla.interop.sharding_passes import read_program as read_sharded
from minixla.interop.sharding_passes import run_pass
from minixla.interop.symbolic import SymbolicProgram
from minixla.tools.command_line import BadInput
from minixla_ops.helpers.tuple_operations import without_tuples

# Blanks and a comment before HLO text.
_COMMENT = re.compile(rb"\s*(?://[^\n]*\n)?")
# Commands that read arguments and write results as array files.
_EVALUATING = "run", "grad", "vmap", "check", "cost"
_STATIC = "--shapes is for programs with symbolic sizes; this one has only static sizes"
# Other errors of NumPy for a damaged archive.
_DAMAGES = zipfile.BadZipFile, zlib.error, MemoryError


def is_hlo(source: bytes) -> bool:
    """Test whether a file is HLO text or a serialized HLO module."""
    if is_serialized(source):
        return True
    at = None
    while (match := _COMMENT.match(source, at or 0)) and match.end() != at:
        at = match.end()
    return source.startswith(b"HloModule", at)


def read_program(options: argparse.Namespace) -> ImportedProgram:
    """Read the program from the file or standard input that the options name; print warnings."""
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        program = _read(options)
    for warning in issued:
        said = re.sub(r"^import_\w+: ", "", str(warning.message))
        print(f"minixla {options.command}: {options.program}: {said}", file=sys.stderr)
    return program


def _read(options: argparse.Namespace) -> ImportedProgram:
    is_standard = options.program == "-"
    source = sys.stdin.buffer.read() if is_standard else Path(options.program).read_bytes()
    if not source.strip():
        raise BadInput(f"{options.program} is empty")
    drops = options.drop_shardings
    try:
        if is_hlo(source):
            if options.shapes is not None:
                raise BadInput(_STATIC)
            if options.function is not None:
                raise BadInput("--function is for StableHLO modules; HLO has one entry")
            if getattr(options, "passes", None):
                raise BadInput("--pass is for StableHLO modules; HLO's shardings are XLA's")
            shardings = "drop" if drops else "refuse"
            return interop.import_hlo(_hlo_source(source), shardings=shardings)
        if getattr(options, "passes", None):
            source = options.text = _after_passes(options, source)
        shardings = "drop" if drops else "keep"
        read = interop.import_stablehlo(source, function=options.function, shardings=shardings)
        if isinstance(read, SymbolicProgram):
            read = read.with_sizes(_sizes(options, read))
        elif options.shapes is not None:
            raise BadInput(_STATIC)
    except (ImportError_, TransformError) as error:
        # Use the names of the command line.
        said = re.sub(r"^import_\w+: ", "", str(error)).replace("function=", "--function")
        said = said.replace('shardings="drop"', "--drop-shardings")
        raise BadInput(f"{options.program}: {said}") from None
    # Programs of jax.export take pytrees; files hold single arrays.
    flat = without_tuples if options.command in _EVALUATING else lambda graph: graph
    return ImportedProgram(
        flat(read.graph), {name: flat(function.graph) for name, function in read.functions.items()}
    )


def _sizes(options: argparse.Namespace, program: SymbolicProgram) -> list[Any]:
    """Return the sizes of the arrays that a program with symbolic sizes takes, None if static."""
    if options.shapes is not None:
        return options.shapes
    if not getattr(options, "arguments", ()):
        raise BadInput(
            f"{options.program} has symbolic sizes, {program.signature}: give their values, as in "
            "--shapes 3x4,4x2, or files of arguments if the command takes them"
        )
    axes = getattr(options, "in_axes", [None]) or [0]
    pairs = zip(_given_arrays(options), itertools.cycle(axes), strict=False)
    return [_without_axis(array.shape, axis) for (_, array), axis in pairs]


def _without_axis(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """Return the shape of one element of a batch."""
    if axis is None or not -len(shape) <= axis < len(shape):
        return shape
    axis %= len(shape)
    return (*shape[:axis], *shape[axis + 1 :])


def _hlo_source(source: bytes) -> str | bytes:
    return source if is_serialized(source) else source.decode(errors="replace")


def _after_passes(options: argparse.Namespace, source: bytes) -> str:
    """Return the text of a module after the sharding passes that the options name."""
    try:
        text = source.decode()
    except UnicodeDecodeError:  # bytecode, or a file of jax.export
        text = str(read_sharded(source))
    return run_pass(",".join(options.passes), text, engine=options.engine)


def array_shapes(graph: Graph, rule: str = "only arrays of fixed size are read") -> list[Any]:
    """Return the shapes of arguments, which must be arrays of fixed size."""
    for index, shape in enumerate(graph.input_shapes):
        if not isinstance(shape, Shape) or shape.is_dynamic:
            raise BadInput(f"argument {index} is of shape {shape}: {rule}")
    return list(graph.input_shapes)


def arguments(options: argparse.Namespace, graph: Graph) -> tuple[list[np.ndarray], list[str]]:
    """Return the arguments of a program, and a description of the origin of each."""
    pairs, count = _given_arrays(options), len(graph.inputs)
    if len(pairs) > count:
        raise BadInput(f"{len(pairs)} arguments were given, the program takes {count}")
    wanted, missing = array_shapes(graph), range(len(pairs), count)
    arrays = [_fitting(index, *pair, wanted[index]) for index, pair in enumerate(pairs)]
    arrays += [_generated(options.seed, index, wanted[index]) for index in missing]
    origins = [origin for origin, _ in pairs]
    return arrays, origins + [f"generated from seed {options.seed}"] * len(missing)


def batch_size(options: argparse.Namespace, axes: Sequence[int | None]) -> int:
    """Return the size of the batch in the files of arguments; 2 if no file has a batched one."""
    sizes = {}
    for axis, (origin, array) in zip(axes, _given_arrays(options), strict=False):
        if axis is not None and -array.ndim <= axis < array.ndim:
            sizes[f"{origin} {array.shape[axis]}"] = array.shape[axis]
    if len(set(sizes.values())) > 1:
        raise BadInput(f"the files have batches of different sizes: {', '.join(sizes)}")
    return next(iter(sizes.values()), 2)


def _given_arrays(options: argparse.Namespace) -> list[tuple[str, np.ndarray]]:
    """Return (origin, array) for each array in the files, which are read once: some are pipes."""
    if not hasattr(options, "arrays"):
        options.arrays = [pair for name in options.arguments for pair in _arrays_in(name)]
    return options.arrays


def _arrays_in(name: str) -> list[tuple[str, np.ndarray]]:
    """Return (origin, array) for each array in a file."""
    with open(name, "rb") as file:
        # Pipes cannot seek.
        stream = file if file.seekable() else io.BytesIO(file.read())
        if not stream.read(6).startswith((b"\x93NUMPY", b"PK")):
            raise BadInput(f"{name} is not a .npy or .npz file")
        stream.seek(0)
        try:
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return [(name, loaded)]
            pairs = [(f"{name}[{key}]", loaded[key]) for key in loaded.files]
        except (ValueError, EOFError, KeyError, NotImplementedError, *_DAMAGES) as error:
            problem = str(error) or "it is truncated"
            if "allow_pickle" in problem:
                problem = "it holds Python objects, not only arrays of numbers"
            raise BadInput(f"{name} cannot be read: {problem}") from None
    for origin, array in pairs:
        if not isinstance(array, np.ndarray):
            raise BadInput(f"{origin} is not an array")
    return pairs


def _fitting(index: int, origin: str, array: np.ndarray, shape: Shape) -> np.ndarray:
    # NumPy's files keep the bytes of bf16 and f8, but not their types.
    if array.dtype.kind == "V" and array.dtype.itemsize == shape.dtype.itemsize:
        array = array.view(shape.dtype)
    if array.dtype != shape.dtype or array.shape != shape.dimensions:
        described = f"argument {index} from {origin} is {array.dtype}{list(array.shape)}"
        raise BadInput(f"{described}, the program takes {shape.dtype}{list(shape.dimensions)}")
    return array


def _generated(seed: int, index: int, shape: Shape) -> np.ndarray:
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
