"""`build_op_library`: C++ and CUDA sources of kernels as a shared library, in a cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from minixla.core.errors import MinixlaError, explain
from minixla.extension.libraries import OpLibrary

_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=default")
_CUDA_FLAGS = ("-std=c++17", "-O2", "-x", "cu", "-Xcompiler", "-fPIC")
#: The variable with the directory of libraries; by default it is in that of XDG_CACHE_HOME.
_CACHE = "MINIXLA_OP_CACHE"
_CACHE_ADVICE = f"Set the environment variable {_CACHE} to a writable directory."
# A line in which the preprocessor names the file of the next lines.
_LINE_MARKER = re.compile(rb'^# [0-9]+ "([^"\n]*)".*\n', re.MULTILINE)
# The number of compiler messages that an error shows.
_MOST_LINES = 12


_INCLUDE = Path(__file__).with_name("include")


class BuildError(MinixlaError, RuntimeError):
    """Error for sources of kernels that cannot be compiled."""


def build_op_library(
    sources: Sequence[str | Path] | str | Path,
    cuda_sources: Sequence[str | Path] = (),
    *,
    name: str = "",
    flags: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    verbose: bool = False,
) -> OpLibrary:
    """Compile kernels against XLA's foreign function interface, or return them from the cache.

    The library is cached in `$MINIXLA_OP_CACHE`, or in `minixla/ops` in the user's cache directory.
    The key covers everything that the compiler reads (sources, headers, macros that select them),
    the flags, and the versions of compiler and jaxlib. Each library has a checksum; a damaged
    library is compiled again.

    Args:
        sources: C++ files; a string with line breaks is a source itself.
        cuda_sources: CUDA files, compiled by nvcc.
        name: the name of the library's file; default: that of the first source.
        flags: flags for the compiler, after the required ones.
        include: directories of headers.
        verbose: whether to print the commands.

    Returns:
        The library, which `op.kernel(..., library=...)` takes.

    Raises:
        BuildError: a file or a compiler is missing; the compiler rejects a source; the cache
            cannot be written.
    """
    if not isinstance(sources, (Iterable, Path)):
        raise explain(BuildError, _SUBJECT, f"{sources!r} is not a source", (), "Pass C++ files.")
    listed = [sources] if isinstance(sources, (str, Path)) else [*sources]
    if not listed and not cuda_sources:
        raise explain(BuildError, _SUBJECT, "no sources are given", (), "Pass C++ files.")
    compiler = _compiler("CXX", ("g++", "c++", "clang++"), "C++ compiler")
    cuda = _compiler("NVCC", ("nvcc", "/usr/local/cuda/bin/nvcc"), "nvcc") if cuda_sources else ""
    parts = [*((file, False) for file in listed), *((each, True) for each in cuda_sources)]
    searched = [f"-I{folder}" for folder in (jax.ffi.include_dir(), _INCLUDE, *include)]
    macos = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    host = [compiler, *_FLAGS, *macos, *map(str, flags), *searched]
    device, linker = [cuda, *_CUDA_FLAGS, *searched], host
    if cuda:  # nvcc knows where its runtime is, and links it
        linker = [cuda, "-ccbin", compiler, "-std=c++17", "-O2", "-shared", *searched]
        linker += [part for flag in ("-fPIC", *flags) for part in ("-Xcompiler", str(flag))]
    first = listed[0] if listed else cuda_sources[0]
    stem = name or ("op_library" if _is_text(first) else Path(first).stem)
    with _named_errors("sources"), tempfile.TemporaryDirectory() as scratch:
        files = [_source_file(*part, Path(scratch) / str(i)) for i, part in enumerate(parts)]
        key = hashlib.sha256()
        for text in (version("jaxlib"), _version(compiler), cuda and _version(cuda), *linker):
            key.update(f"{text}\0".encode())
        for path in filter(os.path.isfile, flags):  # objects and archives to link
            key.update(Path(path).read_bytes())
        for path, is_cuda in files:
            for content in _compiled_text(device if is_cuda else host, path, is_cuda, verbose):
                key.update(hashlib.sha256(content.replace(scratch.encode(), b"")).digest())
        suffix = ".dylib" if sys.platform == "darwin" else ".so"
        target = _cache_folder() / f"{stem}-{key.hexdigest()[:16]}{suffix}"
        if not _is_whole(target):
            with _named_errors("cache", target.parent):
                target.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
                    made = Path(temporary) / target.name
                    _compile(linker, device, files, made, verbose)
                    _keep(made, target)
    return OpLibrary(target)


_SUBJECT = "build_op_library"


def _compiler(variable: str, names: Sequence[str], what: str) -> str:
    """Return the path of a compiler, which an environment variable may name."""
    wanted = [os.environ[variable]] if variable in os.environ else names
    for name in wanted:
        path = shutil.which(name)
        if path:
            return path
    problem = f"no {what} was found"
    details = [f"looked for: {', '.join(wanted)}"]
    advice = f"Install one, or name it in the environment variable {variable}."
    raise explain(BuildError, _SUBJECT, problem, details, advice)


def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return f"{compiler} {done.stdout}"


def _is_text(source: str | Path) -> bool:
    """Test whether a source is code, not a path."""
    return isinstance(source, str) and "\n" in source


def _source_file(source: str | Path, is_cuda: bool, folder: Path) -> tuple[Path, bool]:
    """Return the file of a source, after writing code to it, and whether it is CUDA."""
    if not _is_text(source):
        return Path(source).absolute(), is_cuda
    folder.mkdir()
    path = folder / f"source.{'cu' if is_cuda else 'cc'}"
    path.write_text(str(source), encoding="utf-8")
    return path, is_cuda


def _compiled_text(command: list[str], path: Path, is_cuda: bool, verbose: bool) -> Iterator[bytes]:
    """Return everything that decides what a source compiles to: the preprocessor's output.

    Only the preprocessor knows which headers are read, from which folders, under which macros.
    """
    try:
        yield path.read_bytes()
    except OSError as error:
        problem, advice = f"the source {path} cannot be read", "Pass the path of a C++ file."
        raise explain(BuildError, _SUBJECT, problem, [str(error)], advice) from None
    text = _run([*command, "-E", str(path)], verbose)
    yield _LINE_MARKER.sub(b"", text)
    if is_cuda:  # the text has only the code for the GPU
        for included in sorted({*_LINE_MARKER.findall(text)} - {os.fsencode(path)}):
            if os.path.isfile(included):
                yield Path(os.fsdecode(included)).read_bytes()


def _compile(
    linker: list[str], device: list[str], files: Sequence[Any], made: Path, verbose: bool
) -> None:
    """Compile sources into a library."""
    options: list[str] = []
    for index, (path, is_cuda) in enumerate(files):
        options.append(str(made.with_name(f"cuda_{index}.o") if is_cuda else path))
        if is_cuda:
            _run([*device, "-c", str(path), "-o", options[-1]], verbose)
    _run([*linker, *options, "-o", str(made)], verbose)


def _checksum_file(library: Path) -> Path:
    return library.with_name(f"{library.name}.sha256")


def _is_whole(library: Path) -> bool:
    """Test whether a library is in the cache and matches its checksum."""
    try:
        kept = _checksum_file(library).read_bytes()
        return kept == hashlib.sha256(library.read_bytes()).hexdigest().encode()
    except OSError:
        return False


def _keep(made: Path, target: Path) -> None:
    """Move a new library into the cache atomically: several processes may build it at once."""
    checksum = made.with_name(_checksum_file(target).name)
    checksum.write_text(hashlib.sha256(made.read_bytes()).hexdigest(), encoding="ascii")
    os.replace(made, target)
    os.replace(checksum, _checksum_file(target))


def _cache_folder() -> Path:
    """Return the directory of compiled libraries."""
    folder, caches = os.environ.get(_CACHE), os.environ.get("XDG_CACHE_HOME", "")
    if folder:
        return Path(folder).absolute()
    if os.path.isabs(caches):
        return Path(caches) / "minixla" / "ops"
    home = os.path.expanduser("~") if os.environ.get("HOME", "~") else ""
    if os.path.isabs(home):
        return Path(home) / ".cache" / "minixla" / "ops"
    problem = "no home directory found for compiled libraries"
    raise explain(BuildError, _SUBJECT, problem, [f"HOME is {home!r}"], _CACHE_ADVICE)


@contextmanager
def _named_errors(what: str, folder: Path | None = None) -> Iterator[None]:
    """Raise BuildError for file system errors; the message names the directory."""
    try:
        yield
    except OSError as error:
        place = f" in {folder}" if folder else ""
        problem = f"the {what} of compiled libraries cannot be written{place}"
        raise explain(BuildError, _SUBJECT, problem, [str(error)], _CACHE_ADVICE) from None


def _run(command: list[str], verbose: bool) -> bytes:
    """Run a compiler and return its output; raise BuildError with its messages if it fails."""
    if verbose:
        print(" ".join(command))
    # Fix the date: a source with __DATE__ must have the same key each time.
    environment = {"SOURCE_DATE_EPOCH": "0", **os.environ}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    if done.returncode:
        said = (done.stderr + done.stdout).decode(errors="replace").strip().splitlines()
        errors = [line for line in said if re.search(r"\b(error|fatal|undefined)\b", line)] or said
        advice = f"The command was: {' '.join(command)}"
        problem = f"{Path(command[0]).name} cannot compile it"
        raise explain(BuildError, _SUBJECT, problem, errors[:_MOST_LINES], advice)
    return done.stdout
