"""The command line: every command on every form of a program, exit codes, and bad input."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.interop
from minixla.core import element_type
from minixla.core.operation import REGISTRY
from minixla.interop import progress
from minixla.tools.array_formatting import write_file
from minixla.tools.command_line import main
from tests.harness import by_jax

ROOT = Path(__file__).resolve().parents[3]
SVG = "{http://www.w3.org/2000/svg}"
PROGRAM = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x3xf32>) -> (tensor<f32>, tensor<4x3xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %1 = stablehlo.tanh %0 : tensor<4x3xf32>
  %2 = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<4x3xf32>, tensor<f32>) -> tensor<f32>
  return %3, %1 : tensor<f32>, tensor<4x3xf32>
}
"""
TYPES = """
func.func @main(%b: tensor<3xbf16>, %n: tensor<2xui8>, %z: tensor<complex<f64>>, %p: tensor<2xi1>)
    -> (tensor<3xbf16>, tensor<2xui8>, tensor<complex<f64>>, tensor<2xi1>, tensor<2xf32>) {
  %k = stablehlo.constant dense<[0x7F800000, 0x7FC00000]> : tensor<2xf32>
  return %b, %n, %z, %p, %k
    : tensor<3xbf16>, tensor<2xui8>, tensor<complex<f64>>, tensor<2xi1>, tensor<2xf32>
}
"""
generator = np.random.default_rng(0)


def numbers(*sizes, dtype="f4"):
    return generator.normal(size=sizes).astype(dtype)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program in every form and its arguments; the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.mlir").write_text(PROGRAM)
    (tmp_path / "types.mlir").write_text(TYPES)
    np.save("x.npy", X)
    np.savez("both.npz", x=X, w=W)
    return tmp_path


X, W = numbers(4, 8), numbers(8, 3)


def expected():
    hidden = np.tanh(X.astype("f8") @ W)
    return hidden.sum(), hidden


def run(capsys, *words):
    """The exit status, standard output and standard error of a command."""
    status = main(list(map(str, words)))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def results(capsys, *words):
    status, out, err = run(capsys, *words, "--json")
    assert status == 0, err
    return json.loads(out)


@pytest.mark.parametrize("backend", ["reference", "xla", "interpreter"])
def test_run(folder, capsys, backend):
    found = results(capsys, "run", "p.mlir", "both.npz", "--backend", backend)
    assert found["backend"] == backend
    assert [each["origin"] for each in found["arguments"]] == ["both.npz[x]", "both.npz[w]"]
    assert [(each["name"], each["shape"]) for each in found["results"]] == [
        ("result0", "f32[]"),
        ("result1", "f32[4,3]"),
    ]
    for each, wanted in zip(found["results"], expected(), strict=True):
        np.testing.assert_allclose(each["values"], wanted, rtol=1e-5, atol=1e-6)


def test_run_prints_and_writes(folder, capsys):
    status, out, err = run(capsys, "run", "p.mlir", "both.npz", "--output", "out.npz")
    assert status == 0
    assert (
        out.startswith("result0 f32[]:\n")
        and "result1 f32[4,3]: from -0.996 to 1, mean 0.0695\n[[" in out
    )
    assert err == "argument 0 f32[4,8]: both.npz[x]\nargument 1 f32[8,3]: both.npz[w]\n"
    with np.load("out.npz") as written:
        np.testing.assert_allclose(written["result1"], expected()[1], rtol=1e-5)


def test_missing_arguments_come_from_the_seed(folder, capsys):
    first = results(capsys, "run", "p.mlir", "x.npy")
    assert first["arguments"][1]["origin"] == "generated from seed 0"
    assert results(capsys, "run", "p.mlir", "x.npy") == first
    other = results(capsys, "run", "p.mlir", "x.npy", "--seed", "1")
    assert other["results"] != first["results"]


def test_every_type_is_read_and_printed(folder, capsys):
    given = {
        "b": np.array([1, 2, 0.5], ml_dtypes.bfloat16),
        "n": np.array([1, 255], "u1"),
        "z": np.array(1 - 2j, "c16"),
        "p": np.array([True, False]),
    }
    np.savez("types.npz", **given)
    found = results(capsys, "run", "types.mlir", "types.npz")["results"]
    values = [[1.0, 2.0, 0.5], [1, 255], [1.0, -2.0], [True, False], ["inf", "nan"]]
    assert [each["values"] for each in found] == values
    generated = results(capsys, "run", "types.mlir", "--backend", "reference")
    assert [each["shape"] for each in generated["results"][:3]] == ["bf16[3]", "u8[2]", "c128[]"]


def test_grad(folder, capsys):
    found = results(capsys, "grad", "p.mlir", "both.npz", "--argnums", "1")["results"]
    wanted = by_jax(jax.grad(lambda w: 2 * jnp.tanh(X @ w).sum()), W)
    (gradient,) = found
    assert (gradient["name"], gradient["shape"]) == ("gradient1", "f32[8,3]")
    np.testing.assert_allclose(gradient["values"], wanted, rtol=1e-4, atol=1e-5)
    both = results(capsys, "grad", "p.mlir", "both.npz", "--backend", "reference")["results"]
    assert [each["name"] for each in both] == ["gradient0", "gradient1"]


@pytest.mark.parametrize("axes", ["0", "2,none", "none,-1"])
def test_vmap(folder, capsys, axes):
    words = ["vmap", "p.mlir", "--in-axes", axes, "--size", "3"]
    status, text, _ = run(capsys, *words, "--emit", "stablehlo")
    assert status == 0
    Path("batched.mlir").write_text(text)
    batched = mx.import_stablehlo(Path("batched.mlir"))
    shapes: list[Any] = list(batched.graph.input_shapes)
    first, second = [numbers(*each.dimensions) for each in shapes]
    np.savez("batch.npz", first, second)
    found = results(capsys, *words, "batch.npz")["results"]
    given = [None if each == "none" else int(each) for each in axes.split(",")]
    given = given * 2 if len(given) == 1 else given
    batched_by_jax = jax.vmap(lambda x, w: jnp.tanh(x @ w), in_axes=tuple(given))
    wanted = by_jax(batched_by_jax, first, second)
    np.testing.assert_allclose(found[1]["values"], wanted, rtol=1e-4, atol=1e-5)


def test_vmap_takes_the_size_of_the_files(folder, capsys):
    x, w = numbers(5, 4, 8), numbers(8, 3)
    np.savez("batch.npz", x, w)
    words = ["vmap", "p.mlir", "batch.npz", "--in-axes", "0,none"]
    found = results(capsys, *words)["results"]
    np.testing.assert_allclose(found[1]["values"], np.tanh(x @ w), rtol=1e-4, atol=1e-5)
    assert run(capsys, *words, "--size", "4")[0] != 0
    np.savez("batch.npz", x, numbers(6, 8, 3))
    status, _, error = run(capsys, "vmap", "p.mlir", "batch.npz")
    assert status != 0 and "batches of different sizes: batch.npz[arr_0] 5" in error


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_a_table_reads_back_as_the_same_numbers(tmp_path, shape, dtype):
    array = np.asarray(numbers(*shape) * 7).astype(element_type(dtype).dtype)
    file = str(tmp_path / "x.csv")
    write_file(file, {"result": array})
    text = Path(file).read_text().replace("True", "1").replace("False", "0")
    found = np.loadtxt(text.splitlines(), delimiter=",", ndmin=2)
    np.testing.assert_array_equal(found.reshape(shape), array.astype(np.float64))


@pytest.mark.parametrize("form", ["hlo", "stablehlo"])
def test_emitting_a_program(folder, capsys, form):
    status, out, _ = run(capsys, "grad", "p.mlir", "--emit", form)
    assert status == 0
    assert out.startswith("HloModule" if form == "hlo" else "module")
    if form == "stablehlo":
        assert len(mx.import_stablehlo(out).graph.outputs) == 2


CONVERSIONS = ["p2.mlir", "p2.mlirbc", "p2.jax"]


@pytest.mark.parametrize("name", CONVERSIONS)
def test_convert_and_run_again(folder, capsys, name):
    told = results(capsys, "convert", "p.mlir", "--output", name)
    assert told["bytes"] == Path(name).stat().st_size
    found = results(capsys, "run", name, "both.npz")["results"]
    assert found == results(capsys, "run", "p.mlir", "both.npz")["results"]
    again = results(capsys, "grad", name, "both.npz", "--argnums", "0")["results"]
    assert again[0]["shape"] == "f32[4,8]"


def test_convert_to_named_forms(folder, capsys):
    assert results(capsys, "convert", "p.mlir", "--to", "bytecode", "--output", "b")["bytes"]
    assert Path("b").read_bytes().startswith(b"ML\xefR")
    assert results(capsys, "run", "b", "both.npz")["results"][0]["shape"] == "f32[]"
    assert run(capsys, "convert", "p.mlir", "--to", "hlo")[1].startswith("HloModule")
    results(capsys, "convert", "p.mlir", "--output", "p.jax")
    exported = jax.export.deserialize(bytearray(Path("p.jax").read_bytes()))
    np.testing.assert_allclose(exported.call(X, W)[0], expected()[0], rtol=1e-5)


_SHARDED = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %b = stablehlo.optimization_barrier %x : tensor<8xf32>
  %c = sdy.sharding_constraint %b <mesh<["p"=2]>, [{"p"}]> : tensor<8xf32>
  return %c : tensor<8xf32>
}
func.func private @unused(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}"""


@pytest.mark.parametrize("engine", ["native", "shardy"])
def test_convert_runs_passes_of_shardings(folder, capsys, engine):
    Path("sharded.mlir").write_text(_SHARDED)
    words = ["convert", "sharded.mlir", "--engine", engine, "--pass", "sdy-lift-inlined-meshes"]
    status, text, _ = run(capsys, *words)
    assert status == 0
    assert 'sdy.mesh @mesh = <["p"=2]>' in text and "<@mesh, [" in text and "@unused" in text
    more = [*words, "--pass", "sdy-add-data-flow-edges,symbol-dce"]
    status, _, err = run(capsys, *more, "--output", "passed.mlirbc")
    assert status == 2 and "without shardings; use bytecode" in err
    assert run(capsys, *more, "--to", "bytecode", "--output", "passed")[0] == 0
    status, text, _ = run(capsys, "convert", "passed", "--pass", "sdy-manual-axes-cleanup")
    assert status == 0 and text.count("sdy.data_flow_edge") == 1 and "@unused" not in text
    status, _, err = run(capsys, *words, "--pass", "sdy-none")
    assert status == 2 and "pass 'sdy-none'" in err


def test_passes_of_shardings_are_not_for_hlo(folder, capsys):
    Path("p.hlo").write_text("HloModule m\n")
    status, _, err = run(capsys, "convert", "p.hlo", "--pass", "symbol-dce")
    assert status == 2 and "--pass is for StableHLO modules" in err


def test_hlo_text_does_not_leave_constants_out(folder, capsys):
    table = "func.func @main() -> tensor<20xi32> {{\n%0 = {} : tensor<20xi32>\nreturn %0 {}\n}}"
    values = ", ".join(map(str, range(20)))
    text = table.format(f"stablehlo.constant dense<[{values}]>", ": tensor<20xi32>")
    Path("table.mlir").write_text(text)
    status, _, err = run(capsys, "convert", "table.mlir", "--to", "hlo")
    assert status == 2 and "constants of more than 16 elements" in err


def test_hlo_files_are_read_by_import_hlo(folder, capsys, monkeypatch):
    read = []

    def import_hlo(text, shardings):
        read.append(text)
        return mx.import_stablehlo(PROGRAM)

    monkeypatch.setattr(minixla.interop, "import_hlo", import_hlo, raising=False)
    Path("p.hlo").write_text("// a dump\nHloModule p\n")
    assert results(capsys, "run", "p.hlo", "both.npz")["results"][0]["shape"] == "f32[]"
    assert read == ["// a dump\nHloModule p\n"]
    status, _, err = run(capsys, "run", "p.hlo", "--function", "f")
    assert status == 2 and "HLO has one entry" in err


def test_standard_input(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROGRAM.encode())))
    assert results(capsys, "run", "-", "both.npz")["results"][0]["shape"] == "f32[]"


def test_check(folder, capsys, monkeypatch):
    status, out, _ = run(capsys, "check", "p.mlir", "--no-gradients")
    assert status == 0 and out.startswith("cross_check of main: ok")
    assert results(capsys, "check", "p.mlir", "both.npz")["ok"] is True
    monkeypatch.setattr(
        REGISTRY["Tanh"], "reference", lambda self, x: np.tanh(x) * x.dtype.type(1.1)
    )
    status, out, _ = run(capsys, "check", "p.mlir", "--no-gradients", "--json")
    assert status == 1
    (finding,) = json.loads(out)["findings"]
    assert (finding["operation"], finding["suspects"]) == ("tanh", ["reference rule"])
    assert ":5" in finding["source"]  # the program's own line
    status, out, _ = run(capsys, "check", "p.mlir", "--no-gradients")
    assert status == 1 and "suspected: reference rule" in out


def test_show(folder, capsys):
    assert run(capsys, "show", "p.mlir")[1].startswith("HloModule main")
    assert "stablehlo.tanh" in run(capsys, "show", "p.mlir", "--form", "stablehlo")[1]
    assert run(capsys, "show", "p.mlir", "--form", "dot")[1].startswith('digraph "main"')
    told = results(capsys, "show", "p.mlir")
    assert [each["operation"] for each in told["instructions"]] == [
        "dot_general",
        "tanh",
        "constant",
        "reduce",
    ]
    assert told["instructions"][0]["operands"] == [[-1, 0], [-1, 1]]
    assert told["outputs"] == [[3, 0], [1, 0]]
    assert run(capsys, "show", "p.mlir", "--output", "p.dot")[0] == 0
    assert Path("p.dot").read_text().startswith("digraph")


def test_show_draws(folder, capsys):
    assert run(capsys, "show", "p.mlir", "--output", "p.svg")[0] == 0
    assert Path("p.svg").read_text() == run(capsys, "show", "p.mlir", "--form", "svg")[1]
    names = [each.text for each in ElementTree.parse("p.svg").iter(f"{SVG}text")]
    assert {"main", "dot_general", "tanh", "results"} < set(names)
    status, _, err = run(capsys, "show", "p.mlir", "--output", "p.png")
    assert status == 2 and "ends in .svg" in err and not Path("p.png").exists()


def test_output_that_takes_text_only(folder, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["show", "p.mlir"]) == 0 and main(["convert", "p.mlir"]) == 0
    assert out.getvalue().startswith("HloModule") and "stablehlo.tanh" in out.getvalue()


def test_cost(folder, capsys):
    told = results(capsys, "cost", "p.mlir")
    assert told["total"] == {"flops": 203, "transcendentals": 12, "bytes": 424, "is_bound": True}
    assert told["memory"] == {"arguments": 224, "results": 52, "peak": 320}
    assert told["xla"]["flops"] == 203 and told["xla"]["transcendentals"] == 12
    status, out, _ = run(capsys, "cost", "p.mlir", "--no-xla")
    assert status == 0 and "dot_general" in out and "XLA's" not in out


BAD = {
    "no such file": (["run", "nothing.mlir"], "nothing.mlir: No such file"),
    "a folder": (["run", "."], "Is a directory"),
    "no program": (["run", "x.npy"], "x.npy: the bytes are neither text"),
    "shardings of XLA": (["run", "placed.mlir"], "Pass --drop-shardings to import"),
    "shardings of HLO": (["run", "sharded.hlo"], "Pass --drop-shardings to import"),
    "no such function": (["run", "p.mlir", "--function", "f"], "has no function 'f'"),
    "no array": (["run", "p.mlir", "p.mlir"], "p.mlir is not a .npy or .npz file"),
    "an empty array file": (["run", "p.mlir", "empty.npy"], "empty.npy is not a .npy or .npz file"),
    "a folder for an array": (["run", "p.mlir", "."], ".: Is a directory"),
    "an array file cut short": (["run", "p.mlir", "cut.npy"], "cut.npy cannot be read: Failed"),
    "an array file without a header": (["run", "p.mlir", "cut_early.npy"], "cannot be read: EOF"),
    "an archive cut short": (["run", "p.mlir", "cut.npz"], "cut.npz cannot be read"),
    "a damaged archive": (["run", "p.mlir", "damaged.npz"], "damaged.npz cannot be read: Bad CRC"),
    "Python objects": (
        ["run", "p.mlir", "objects.npz"],
        "cannot be read: it holds Python objects",
    ),
    "an archive of something else": (
        ["run", "p.mlir", "texts.npz"],
        "[a.txt] is not an array",
    ),
    "an empty program": (["run", "empty.mlir"], "empty.mlir is empty"),
    "a program cut short": (["check", "cut.mlir"], "cut.mlir: line 6, column"),
    "HLO cut short": (["cost", "cut.hlo"], "cut.hlo: line 2, column 1: found the end"),
    "no file to convert": (["convert", "nothing.mlir"], "nothing.mlir: No such file"),
    "no file to check": (["check", "nothing.mlir"], "nothing.mlir: No such file"),
    "no file to count": (["cost", "nothing.mlir"], "nothing.mlir: No such file"),
    "no file of an array": (["grad", "p.mlir", "x.npy", "no.npy"], "no.npy: No such file"),
    "a folder for the output": (["run", "p.mlir", "--output", "."], ".: Is a directory"),
    "no function called main": (["show", "two.mlir"], "Name one with --function."),
    "a token over a batch": (["vmap", "token.mlir"], "only arrays of fixed size"),
    "a dynamic size over a batch": (["vmap", "dynamic.mlir"], "only arrays of fixed size"),
    "a derivative at a dynamic size": (["grad", "dynamic.mlir"], "only arrays of fixed size"),
    "more than there is memory": (["run", "large.mlir"], "does not fit in memory"),
    "another type": (["run", "p.mlir", "double.npy"], "is float64[4, 8], the program takes float3"),
    "too many": (["run", "p.mlir", "both.npz", "x.npy"], "3 arguments were given"),
    "no derivative": (["grad", "ints.mlir"], "takes no floats"),
    "no such argument": (["grad", "p.mlir", "--argnums", "2"], "argument 2 has no derivative"),
    "an ending of no results": (
        ["run", "p.mlir", "--save", "x.txt"],
        "files for results end in .npy, .npz, .csv",
    ),
    "a table of several": (["run", "p.mlir", "--save", "x.csv"], "x.csv holds one array"),
    "wrong axes": (["vmap", "p.mlir", "--in-axes", "0,0,0"], "3 axes for 2 arguments"),
    "no such axis": (["vmap", "p.mlir", "--in-axes", "5"], "axis 5 is out of range"),
    "no batch": (["vmap", "p.mlir", "--size", "0"], "one element or more, not 0"),
    "no output for --json": (["convert", "p.mlir", "--json"], "--output"),
    "no folder for the output": (["show", "p.mlir", "--output", "no/p.dot"], "No such file"),
    "an interpreter's gap": (["run", "gap.mlir", "--backend", "interpreter"], "cholesky"),
}
TEXTS = {
    "placed.mlir": 'func.func @f(%x: tensor<2xf32> {mhlo.sharding = "{replicated}"}) { return }',
    "cut.mlir": PROGRAM[:300],
    "cut.hlo": "HloModule m\n",
    "two.mlir": "func.func @a() { return }\nfunc.func @b() { return }",
    "token.mlir": "func.func @main(%x: !stablehlo.token) { return }",
    "dynamic.mlir": "func.func @main(%x: tensor<?xf32, #stablehlo.bounds<5>>) { return }",
    "large.mlir": "func.func @main(%x: tensor<100000000000x100000xf32>) { return }",
}
INTEGERS = "func.func @main(%x: tensor<i32>) -> tensor<i32> { return %x : tensor<i32> }"
GAP = """func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}"""


def write_damaged_arrays():
    array, archive = Path("x.npy").read_bytes(), Path("both.npz").read_bytes()
    Path("cut.npy").write_bytes(array[:150])
    Path("cut_early.npy").write_bytes(array[:20])
    Path("cut.npz").write_bytes(archive[:200])
    # Within the data of the first array.
    Path("damaged.npz").write_bytes(archive[:180] + b"####" + archive[184:])
    np.savez("objects.npz", objects=np.array([{}], object))
    with zipfile.ZipFile("texts.npz", "w") as texts:
        texts.writestr("a.txt", "no array")


SHARDED = {
    "mlir": """sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}""",
    "hlo": """HloModule m

ENTRY main {
  ROOT x = f32[2] parameter(0), sharding={devices=[2]<=[2]}
}""",
}


@pytest.mark.parametrize("suffix", SHARDED)
def test_shardings_may_be_dropped(folder, capsys, suffix):
    Path(f"sharded.{suffix}").write_text(SHARDED[suffix])
    np.save("two.npy", X.reshape(-1)[:2])
    found = results(capsys, "run", f"sharded.{suffix}", "two.npy", "--drop-shardings")
    np.testing.assert_array_equal(found["results"][0]["values"], X.reshape(-1)[:2])


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_message(folder, capsys, name):
    words, phrase = BAD[name]
    np.save("double.npy", X.astype("f8"))
    Path("empty.npy").write_bytes(b"")
    Path("empty.mlir").write_bytes(b"")
    for file, text in TEXTS.items():
        Path(file).write_text(text)
    write_damaged_arrays()
    Path("ints.mlir").write_text(INTEGERS)
    Path("gap.mlir").write_text(GAP)
    for suffix, text in SHARDED.items():
        Path(f"sharded.{suffix}").write_text(text)
    status, out, err = run(capsys, *words)
    assert status == 2 and not out, (out, err)
    assert phrase in err and err.startswith(f"minixla {words[0]}: ")
    # Options as they are typed, and no line of whoever started the command.
    for absent in ("Traceback", "function=", "called at", "import_stablehlo"):
        assert absent not in err


def test_the_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"minixla {mx.__version__}\n")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["fly"], ["run", "nothing.mlir"]])
def test_words_and_names_of_files_are_looked_at_before_anything_is_loaded(words):
    script = (
        "import sys\n"
        "from minixla.tools.command_line import main\n"
        f"try: main({words!r})\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    loaded = done.stdout.split("LOADED")[1].split()
    assert "minixla.tools.command_line" in loaded
    assert not {"jax", "jaxlib", "numpy"} & {*loaded}


def test_a_file_that_may_not_be_read(folder, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda name, mode: name != "x.npy")
    status, _, err = run(capsys, "run", "p.mlir", "x.npy")
    assert status == 2 and err == "minixla run: x.npy: Permission denied\n"
    status, _, err = run(capsys, "run", "p.mlir", "--output", "x.npy")
    assert status == 2 and err == "minixla run: x.npy: Permission denied\n"


def test_no_program_names_the_script_that_starts_the_command(folder, capsys):
    status, out, _ = run(capsys, "grad", "p.mlir", "--emit", "hlo")
    assert status == 0
    assert {*re.findall(r'source_file="(.*?)"', out)} == {"<stablehlo>"}


def test_a_process_of_its_own(folder):
    done = subprocess.run(
        [sys.executable, "-m", "minixla", "run", "p.mlir", "--backend", "reference"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout[:14]) == (0, "result0 f32[]:")
    shapes = enumerate(["f32[4,8]", "f32[8,3]"])
    assert done.stderr == "".join(
        f"argument {number} {shape}: generated from seed 0\n" for number, shape in shapes
    )


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")
def test_jax_is_imported_once(folder):
    script = """
import gc, sys
from minixla.tools.command_line import main
sys.argv[1:] = ["run", "p.mlir", "--backend", "reference"]
assert main() == 0
from minixla.engine import readers, subprocesses
assert isinstance(readers._HELPER._child, subprocesses.ForkedChild)
assert gc.isenabled() and gc.get_freeze_count() > 100_000
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)


def test_whoever_reads_may_have_stopped(folder, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert main(["show", "p.mlir"]) == 0
    assert not capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_output_that_cannot_be_written(folder, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["show", "p.mlir"]) == 2
    assert capsys.readouterr().err == "minixla show: No space left on device\n"


def test_pipes_are_files_too(folder, capsys):
    def path_of(data):
        reader, writer = os.pipe()
        with open(writer, "wb") as file:
            file.write(data)
        return f"/dev/fd/{reader}"

    words = [path_of(PROGRAM.encode()), path_of(Path("both.npz").read_bytes())]
    found = results(capsys, "run", *words, "--backend", "reference")["results"]
    assert (
        found == results(capsys, "run", "p.mlir", "both.npz", "--backend", "reference")["results"]
    )


def test_progress_is_shown_on_a_terminal(folder, capsys, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.001)
    assert main(["check", "p.mlir"]) == 0
    assert "\rminixla check [00:0" in terminal.getvalue()
    assert ", the function: " in terminal.getvalue()
    assert " \rargument 0: generated" in terminal.getvalue(), "the line is gone at the end"
