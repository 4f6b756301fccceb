"""build_op_library: C++ and CUDA sources of kernels as a shared library, in a cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import jax

from minixla.core.errors import MinixlaError, explain
from minixla.extension.libraries import OpLibrary

_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=default")
#: Where libraries are kept; XDG_CACHE_HOME says where caches are.
_CACHE = "MINIXLA_OP_CACHE"
# The compiler's messages that an error shows.
_MOST_LINES = 12


_INCLUDE = Path(__file__).with_name("include")


class BuildError(MinixlaError, RuntimeError):
    """Sources of kernels cannot be compiled."""


def build_op_library(
    sources: Sequence[str | Path] | str | Path,
    cuda_sources: Sequence[str | Path] = (),
    *,
    name: str = "",
    flags: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    verbose: bool = False,
) -> OpLibrary:
    """Compiles kernels against XLA's foreign function interface, or finds what was compiled.

    What is compiled is kept by the contents of the sources, headers next to them, flags, and the
    versions of compiler and jaxlib: in `$MINIXLA_OP_CACHE`, or `minixla/ops` among the user's
    caches.

    Args:
        sources: C++ files; a text with line breaks is a source itself.
        cuda_sources: CUDA files, compiled by nvcc.
        name: what the file is called; default: as the first source.
        flags: for the compiler, after those that are needed.
        include: directories of headers.
        verbose: whether the commands are printed.

    Returns:
        The library, which `op.kernel(..., library=...)` takes.

    Raises:
        BuildError: a file, or a compiler, is missing; the compiler refuses a source.
    """
    if not isinstance(sources, (Iterable, Path)):
        raise explain(BuildError, _SUBJECT, f"{sources!r} is no source", (), "Give C++ files.")
    listed = [sources] if isinstance(sources, (str, Path)) else [*sources]
    if not listed and not cuda_sources:
        raise explain(BuildError, _SUBJECT, "there are no sources", (), "Give C++ files.")
    compiler = _compiler("CXX", ("g++", "c++", "clang++"), "C++ compiler")
    cuda = _compiler("NVCC", ("nvcc", "/usr/local/cuda/bin/nvcc"), "nvcc") if cuda_sources else ""
    parts = [*((each, False) for each in listed), *((each, True) for each in cuda_sources)]
    texts = [(*_read(each), is_cuda) for each, is_cuda in parts]
    directories = [jax.ffi.include_dir(), _INCLUDE, *include]
    own = [*_FLAGS, *(["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []), *flags]
    key = hashlib.sha256()
    for each in (version("jaxlib"), _version(compiler), cuda and _version(cuda), *own):
        key.update(f"{each}\0".encode())
    for path, text, is_cuda in texts:
        key.update(f"{path.suffix if path else ''}\0{is_cuda}\0{text}\0".encode())
    headers = _headers([path for path, _, _ in texts if path], include)
    for header in [*headers, *_files(_INCLUDE / "minixla", "h")]:
        key.update(header.read_bytes())
    stem = name or (texts[0][0].stem if texts[0][0] else "op_library")
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    folder = _cache_folder()
    target = folder / f"{stem}-{key.hexdigest()[:16]}{suffix}"
    if target.exists():
        return OpLibrary(target)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        place = Path(temporary)
        searched = [f"-I{each}" for each in directories]
        given: list[str] = []
        for index, (path, text, is_cuda) in enumerate(texts):
            if path is None:
                path = place / f"source_{index}.{'cu' if is_cuda else 'cc'}"
                path.write_text(text)
            if not is_cuda:
                given.append(str(path))
                continue
            given.append(str(place / f"cuda_{index}.o"))
            command = [cuda, "-std=c++17", "-O2", "-x", "cu", "-Xcompiler", "-fPIC", *searched]
            _run([*command, "-c", str(path), "-o", given[-1]], verbose)
        made = place / target.name
        linker = [compiler, *own]
        if cuda:  # it knows where its runtime is, and puts it into the library
            linker = [cuda, "-ccbin", compiler, "-std=c++17", "-O2", "-shared"]
            linker += [part for flag in ("-fPIC", *flags) for part in ("-Xcompiler", flag)]
        _run([*linker, *searched, *given, "-o", str(made)], verbose)
        os.replace(made, target)  # whole, also where several processes build it
    return OpLibrary(target)


_SUBJECT = "build_op_library"


def _compiler(variable: str, names: Sequence[str], what: str) -> str:
    """The path of a compiler, which an environment variable may name."""
    wanted = [os.environ[variable]] if variable in os.environ else names
    for each in wanted:
        found = shutil.which(each)
        if found:
            return found
    problem = f"there is no {what}"
    shown = [f"looked for: {', '.join(wanted)}"]
    advice = f"Install one, or name it in the environment variable {variable}."
    raise explain(BuildError, _SUBJECT, problem, shown, advice)


def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return f"{compiler} {done.stdout}"


def _read(source: str | Path) -> tuple[Path | None, str]:
    """The path of a source, None for a text, and what it says."""
    if isinstance(source, str) and "\n" in source:
        return None, source
    path = Path(source).absolute()
    try:
        return path, path.read_text()
    except OSError as error:
        problem, advice = f"the source {source} cannot be read", "Give the path of a C++ file."
        raise explain(BuildError, _SUBJECT, problem, [str(error)], advice) from None


def _headers(paths: Sequence[Path], include: Sequence[str | Path]) -> list[Path]:
    """The user's headers that sources may include."""
    folders = sorted({*[path.parent for path in paths], *map(Path, include)})
    return [each for at in folders for kind in ("h", "hpp", "cuh") for each in _files(at, kind)]


def _files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*.{suffix}"))


def _cache_folder() -> Path:
    given = os.environ.get(_CACHE)
    if given:
        return Path(given)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "minixla" / "ops"


def _run(command: list[str], verbose: bool) -> None:
    if verbose:
        print(" ".join(command))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines()
        errors = [line for line in said if re.search(r"\b(error|fatal|undefined)\b", line)] or said
        advice = f"The command was: {' '.join(command)}"
        problem = f"{Path(command[0]).name} cannot compile it"
        raise explain(BuildError, _SUBJECT, problem, errors[:_MOST_LINES], advice)
