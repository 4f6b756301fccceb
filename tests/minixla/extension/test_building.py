"""Compiling kernels: what is kept, and what is refused."""

from __future__ import annotations

import pytest

import minixla as mx
from minixla.extension import building

SOURCE = """#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
#ifndef ANSWER
#include "answer.h"
#endif
static ffi::Error Answer(ffi::ResultBuffer<ffi::S32> y) {
  y->typed_data()[0] = ANSWER;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(answer, Answer, ffi::Ffi::Bind().Ret<ffi::Buffer<ffi::S32>>());
"""


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """The commands that run, which write an empty file."""
    commands = []

    def run(command, verbose):
        commands.append(command)
        open(command[command.index("-o") + 1], "w").close()

    monkeypatch.setenv("MINIXLA_OP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "_run", run)
    monkeypatch.setattr(building, "_compiler", lambda variable, names, what: f"/bin/{names[0]}")
    monkeypatch.setattr(building, "_version", lambda compiler: f"{compiler} 1.0")
    return commands


def test_c50_a_library_is_compiled_once_for_sources_flags_and_versions(
    compiled, tmp_path, monkeypatch
):
    source = tmp_path / "answer.cc"
    source.write_text(SOURCE)
    first = mx.build_op_library(source)
    assert first.path.parent == tmp_path / "cache" and first.path.name.startswith("answer-")
    assert mx.build_op_library([str(source)]).path == first.path
    assert len(compiled) == 1
    paths = {first.path}
    changes = [
        lambda: source.write_text(SOURCE + "// changed\n"),
        lambda: (tmp_path / "answer.h").write_text("#define ANSWER 42\n"),
        lambda: monkeypatch.setattr(building, "_version", lambda compiler: "2.0"),
    ]
    for change in changes:
        change()
        paths.add(mx.build_op_library(source).path)
    paths.add(mx.build_op_library(source, flags=["-DANSWER=1"]).path)
    assert len(paths) == len(compiled) == 5


def test_c49_cuda_sources_are_compiled_by_nvcc_and_linked(compiled):
    mx.build_op_library("int a;\n", cuda_sources=["__global__ void k() {}\n"])
    first, second = compiled
    assert first[0] == "/bin/nvcc" and first[first.index("-x") + 1] == "cu" and "-fPIC" in first
    assert second[0] == "/bin/nvcc" and second[second.index("-ccbin") + 1] == "/bin/g++"
    assert first[first.index("-o") + 1] in second


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("NVCC", "no_such_compiler")
    with pytest.raises(mx.BuildError, match="there is no nvcc") as caught:
        mx.build_op_library([], cuda_sources=["__global__ void k() {}\n"])
    assert "environment variable NVCC" in str(caught.value)


def test_what_the_compiler_says_is_shown(tmp_path, monkeypatch, library):
    monkeypatch.setenv("MINIXLA_OP_CACHE", str(tmp_path))
    with pytest.raises(mx.BuildError, match=r"cannot compile it") as caught:
        mx.build_op_library("int f() { return nothing; }\n")
    assert "nothing" in str(caught.value) and "The command was: " in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_source_that_is_not_there(tmp_path):
    with pytest.raises(mx.BuildError, match=r"the source .*none.cc cannot be read"):
        mx.build_op_library(tmp_path / "none.cc")
    with pytest.raises(mx.BuildError, match="there are no sources"):
        mx.build_op_library([])
