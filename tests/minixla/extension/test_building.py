"""Compiling kernels: what is cached, what causes a rebuild, and which errors are raised."""

from __future__ import annotations

import ctypes
import os
import shutil

import pytest

import minixla as mx
from minixla.extension import building

HEAD = 'extern "C" __attribute__((visibility("default"))) '
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler found")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty cache."""
    monkeypatch.setenv("MINIXLA_OP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def commands(monkeypatch):
    """Record the commands that run, except the preprocessor's."""
    listed, run = [], building._run

    def recorded(command, verbose):
        listed.extend([command] * ("-E" not in command))
        return run(command, verbose)

    monkeypatch.setattr(building, "_run", recorded)
    return listed


def value_of(library):
    return ctypes.CDLL(str(library.path)).f()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# The text in front of `int f() { return K; }`, the files at first, the change that makes K 2
# instead of 1, and options.
K1, K2 = "#define K 1\n", "#define K 2\n"
CHANGES = {
    "the source": ("{}", {}, {"a.cc": f"{K2}{HEAD}int f() {{ return K; }}"}, {}),
    "a header in the same folder": ('#include "k.h"\n', {"k.h": K1}, {"k.h": K2}, {}),
    "a header in a folder": ('#include "s/t/k.h"\n', {"s/t/k.h": K1}, {"s/t/k.h": K2}, {}),
    "a header above": ('#include "../k.h"\n', {"../k.h": K1}, {"../k.h": K2}, {}),
    "a file of another suffix": ('#include "k.inc"\n', {"k.inc": K1}, {"k.inc": K2}, {}),
    "a file without a suffix": ('#include "k"\n', {"k": K1}, {"k": K2}, {}),
    "a header of a header": (
        '#include "k.h"\n',
        {"k.h": '#include "s/l.h"\n', "s/l.h": K1},
        {"s/l.h": K2},
        {},
    ),
    "a directory of headers": ("#include <k.h>\n", {"i/k.h": K1}, {"i/k.h": K2}, {"include": "i"}),
    "a flag -I": ("#include <k.h>\n", {"i/k.h": K1}, {"i/k.h": K2}, {"flags": "-I{}/i"}),
    "a flag -include": ("", {"k.h": K1}, {"k.h": K2}, {"flags": "-include{}/k.h"}),
    "a name by a macro": ("#include NAME\n", {"k.h": K1}, {"k.h": K2}, {"flags": '-DNAME="k.h"'}),
    "a header that shadows": (
        "#include <k.h>\n",
        {"i/k.h": K1},
        {"j/k.h": K2},
        {"flags": "-I{}/j -I{}/i"},
    ),
    "a header that appears": (
        '#if __has_include("k.h")\n#include "k.h"\n#else\n#define K 1\n#endif\n',
        {},
        {"k.h": K2},
        {},
    ),
    "a header that disappears": (
        '#include "l.h"\n#if __has_include("k.h")\n#include "k.h"\n#else\n#define K 2\n#endif\n',
        {"k.h": K1, "l.h": ""},
        {"k.h": None},
        {},
    ),
}


@needs_compiler
@pytest.mark.parametrize("change", CHANGES)
def test_a_library_is_built_again_when_what_it_includes_changes(change, tmp_path, commands):
    includes, before, after, options = CHANGES[change]
    includes = includes.format(K1) if "{}" in includes else includes
    folder = tmp_path / "sources"
    write(folder / "a.cc", f"{includes}{HEAD}int f() {{ return K; }}")
    given = {key: text.format(folder, folder).split() for key, text in options.items()}
    if "include" in given:
        given["include"] = [folder / each for each in given["include"]]

    def built(files):
        for name, text in files.items():
            if text is None:
                (folder / name).unlink()
            else:
                write(folder / name, text)
        return mx.build_op_library(folder / "a.cc", **given)

    first = built(before)
    assert built({}).path == first.path and len(commands) == 1
    second = built(after)
    assert second.path != first.path and len(commands) == 2
    assert (value_of(first), value_of(second)) == (1, 2)
    assert built({}).path == second.path and len(commands) == 2


@needs_compiler
def test_a_library_is_kept_by_flags_and_versions_and_not_by_the_time(
    tmp_path, monkeypatch, commands
):
    source = (
        "#include <cassert>\nconst char *t = __TIME__;\nint f(int x) { assert(x); return x; }\n"
    )
    first = mx.build_op_library(source)
    assert first.path.parent == tmp_path / "cache" and first.path.name.startswith("op_library-")
    monkeypatch.setattr(building, "_version", lambda compiler: "2.0")
    versions = [mx.build_op_library(source).path for _ in range(2)]
    flags = mx.build_op_library(source, flags=["-DANSWER=1"], name="named")
    assert flags.path.name.startswith("named-") and versions[0] == versions[1]
    assert len({first.path, versions[0], flags.path}) == len(commands) == 3


def test_an_object_that_is_linked_counts(tmp_path, monkeypatch):
    given = tmp_path / "k.o"
    paths = set()
    monkeypatch.setattr(building, "_run", lambda command, verbose: _output(command))
    monkeypatch.setattr(building, "_compiler", lambda variable, names, what: f"/bin/{names[0]}")
    monkeypatch.setattr(building, "_version", lambda compiler: "1.0")
    for content in (b"\x7fELF", b"\x7fELF2"):
        given.write_bytes(content)
        paths.add(mx.build_op_library("int a;\n", flags=[str(given)]).path)
    assert len(paths) == 2


def _output(command):
    """Write a file in place of the compiler."""
    if "-o" in command:
        open(command[command.index("-o") + 1], "w").close()
    return b""


@needs_compiler
def test_a_missing_header_is_an_error_although_a_library_is_kept(tmp_path):
    write(tmp_path / "k.h", K1)
    source = tmp_path / "a.cc"
    write(source, '#include "k.h"\nint a = K;\n')
    mx.build_op_library(source)
    (tmp_path / "k.h").unlink()
    with pytest.raises(mx.BuildError, match="cannot compile it") as caught:
        mx.build_op_library(source)
    assert "k.h" in str(caught.value)


SOURCE = f"\n{HEAD}int f() {{ return 1; }}\n"


def _truncate(library, checksum):
    library.write_bytes(library.read_bytes()[:-100])


# Ways to damage a library and its checksum.
DAMAGE = {
    "a truncated library": _truncate,
    "an empty library": lambda library, checksum: library.write_bytes(b""),
    "garbage": lambda library, checksum: library.write_bytes(b"garbage" * 1000),
    "another library": lambda library, checksum: library.write_bytes(library.read_bytes() + b"x"),
    "no library": lambda library, checksum: library.unlink(),
    "no checksum": lambda library, checksum: checksum.unlink(),
    "an empty checksum": lambda library, checksum: checksum.write_bytes(b""),
    "a checksum of garbage": lambda library, checksum: checksum.write_bytes(b"\xff\x00 garbage"),
}


@needs_compiler
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_library_is_built_again(damage, cache, commands):
    path = mx.build_op_library(SOURCE).path
    (checksum,) = [each for each in cache.iterdir() if each != path]
    DAMAGE[damage](path, checksum)
    again = mx.build_op_library(SOURCE)
    assert again.path == path and len(commands) == 2 and value_of(again) == 1
    assert mx.build_op_library(SOURCE).path == path and len(commands) == 2
    assert {*cache.iterdir()} == {path, checksum}


def _file(tmp_path):
    write(tmp_path / "cache", "a file")
    return {}


def _folder_as_library(tmp_path):
    path = mx.build_op_library(SOURCE).path
    path.unlink()
    path.mkdir()
    return {}


# An obstacle in the cache's path, and the part of the error that names it.
UNWRITABLE = {
    "a file": (_file, "cache"),
    "a file above": (lambda p: (write(p / "f", ""), {"MINIXLA_OP_CACHE": f"{p}/f/g"})[1], "f/g"),
    "a folder in place of a library": (_folder_as_library, "op_library-"),
    "a folder that cannot be made": (lambda p: {"MINIXLA_OP_CACHE": "/proc/none"}, "/proc/none"),
    "no home": (lambda p: {"MINIXLA_OP_CACHE": "", "HOME": "", "XDG_CACHE_HOME": ""}, "HOME is ''"),
    "a relative home": (
        lambda p: {"MINIXLA_OP_CACHE": "", "HOME": "home", "XDG_CACHE_HOME": "caches"},
        "HOME is 'home'",
    ),
}


@needs_compiler
@pytest.mark.parametrize("name", UNWRITABLE)
def test_a_cache_that_cannot_be_written_is_named(name, tmp_path, monkeypatch):
    prepare, says = UNWRITABLE[name]
    for variable, value in prepare(tmp_path).items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(mx.BuildError) as caught:
        mx.build_op_library(SOURCE)
    assert says in str(caught.value) and "environment variable MINIXLA_OP_CACHE" in str(
        caught.value
    )


@needs_compiler
def test_caches_are_where_the_system_has_them(tmp_path, monkeypatch):
    monkeypatch.delenv("MINIXLA_OP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert building._cache_folder() == tmp_path / "caches" / "minixla" / "ops"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert building._cache_folder() == tmp_path / ".cache" / "minixla" / "ops"


@needs_compiler
def test_a_truncated_library_does_not_end_the_process(tmp_path):
    content = mx.build_op_library(SOURCE).path.read_bytes()
    for eighth in range(7):
        path = tmp_path / f"part{eighth}.so"
        path.write_bytes(content[: len(content) * eighth // 8])
        with pytest.raises(mx.AttributeValueError, match=r"(cannot be loaded|describes no)"):
            mx.load_op_library(path)


def test_c49_cuda_sources_are_compiled_by_nvcc_and_linked(monkeypatch):
    listed = []

    def run(command, verbose):
        listed.append(command)
        return _output(command)

    monkeypatch.setattr(building, "_run", run)
    monkeypatch.setattr(building, "_compiler", lambda variable, names, what: f"/bin/{names[0]}")
    monkeypatch.setattr(building, "_version", lambda compiler: "1.0")
    mx.build_op_library("int a;\n", cuda_sources=["__global__ void k() {}\n"])
    *preprocessed, first, second = listed
    assert [each[0] for each in preprocessed] == ["/bin/g++", "/bin/nvcc"]
    assert first[0] == "/bin/nvcc" and first[first.index("-x") + 1] == "cu" and "-fPIC" in first
    assert second[0] == "/bin/nvcc" and second[second.index("-ccbin") + 1] == "/bin/g++"
    assert first[first.index("-o") + 1] in second


def test_a_header_that_only_a_gpu_or_only_the_host_sees_counts(tmp_path, monkeypatch):
    header = tmp_path / "k.h"

    def run(command, verbose):
        # nvcc writes the code for the GPU, and the origin of lines.
        _output(command)
        return b'# 1 "%s" 1\nint a;\n' % os.fsencode(header)

    monkeypatch.setattr(building, "_run", run)
    monkeypatch.setattr(building, "_compiler", lambda variable, names, what: f"/bin/{names[0]}")
    monkeypatch.setattr(building, "_version", lambda compiler: "1.0")
    paths = set()
    for text in ("#ifndef __CUDA_ARCH__\n#endif", "#ifndef __CUDA_ARCH__\nint b;\n#endif"):
        write(header, text)
        paths.add(mx.build_op_library([], cuda_sources=["__global__ void k() {}\n"]).path)
    assert len(paths) == 2


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("NVCC", "no_such_compiler")
    with pytest.raises(mx.BuildError, match="no nvcc was found") as caught:
        mx.build_op_library([], cuda_sources=["__global__ void k() {}\n"])
    assert "environment variable NVCC" in str(caught.value)


@needs_compiler
def test_what_the_compiler_says_is_shown(cache):
    with pytest.raises(mx.BuildError, match=r"cannot compile it") as caught:
        mx.build_op_library("int f() { return nothing; }\n")
    assert "nothing" in str(caught.value) and "The command was: " in str(caught.value)
    assert not list(cache.iterdir())


def test_a_source_that_cannot_be_read(tmp_path):
    with pytest.raises(mx.BuildError, match=r"the source .*none.cc cannot be read"):
        mx.build_op_library(tmp_path / "none.cc")
    with pytest.raises(mx.BuildError, match="no sources are given"):
        mx.build_op_library([])


@needs_compiler
def test_a_source_in_another_encoding(tmp_path):
    source = tmp_path / "a.cc"
    source.write_bytes(f"// \xe9t\xe9\n{SOURCE}".encode("latin-1"))
    assert value_of(mx.build_op_library(source)) == 1
