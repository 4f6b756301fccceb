"""Large constants: read as they are written, in every form, in memory of a few times their size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
from minixla.engine.readers import written_constants
from minixla.engine.readers.written_constants import without_constants
from tests.minixla.interop.import_programs import as_artifact, as_bytecode

ROOT = Path(__file__).parents[3]
RANDOM = np.random.default_rng(0)
#: By MLIR's element type.
ARRAYS = {
    "f32": RANDOM.standard_normal((130, 200)).astype(np.float32),
    "f64": RANDOM.standard_normal((130, 70)),
    "f16": RANDOM.standard_normal(70_000).astype(np.float16),
    "bf16": RANDOM.standard_normal((2, 0x8100)).astype(ml_dtypes.bfloat16),
    "f8E4M3FN": RANDOM.standard_normal(70_000).astype(ml_dtypes.float8_e4m3fn),
    "i8": RANDOM.integers(-128, 128, (7, 10_007)).astype(np.int8),
    "ui16": RANDOM.integers(0, 1 << 16, 40_000).astype(np.uint16),
    "i32": RANDOM.integers(-(2**31), 2**31, (3, 5, 7, 1001)).astype(np.int32),
    "i64": RANDOM.integers(-(2**63), 2**63 - 1, 10_000),
    "i1": RANDOM.integers(0, 2, 600_001).astype(bool),
    "i4": RANDOM.integers(-8, 8, 70_000).astype(ml_dtypes.int4),
    "complex<f32>": RANDOM.standard_normal(20_000).astype(np.float32).view(np.complex64),
}


def as_list(array):
    """The numbers as MLIR writes a list."""
    if array.ndim:
        return f"[{', '.join(map(as_list, array))}]"
    if array.dtype == np.bool_:
        return "true" if array else "false"
    if array.dtype.kind == "c":
        return f"({float(array.real)!r}, {float(array.imag)!r})"
    return str(int(array)) if "int" in str(array.dtype) else repr(float(array))


def as_hexadecimal(array):
    return f'"0x{array.tobytes().hex().upper()}"'


def program(kind: str, array: np.ndarray, value: str, generic: bool = False) -> str:
    type_ = f"tensor<{'x'.join(map(str, array.shape))}x{kind}>"
    pretty = f"stablehlo.constant dense<{value}> : {type_}"
    written = f'"stablehlo.constant"() <{{value = dense<{value}> : {type_}}}> : () -> {type_}'
    return f"""func.func @main() -> ({type_}, tensor<2xf32>) {{
      %a = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %b = {written if generic else pretty}
      %c = stablehlo.abs %a : tensor<2xf32>
      return %b, %c : {type_}, tensor<2xf32>
    }}"""


def constant_in(source) -> np.ndarray:
    graph = mx.import_stablehlo(source).graph
    return graph.outputs[0].instruction.op.literal.array


@pytest.mark.parametrize("kind", ARRAYS)
def test_every_form_gives_the_same_bits(kind):
    array = ARRAYS[kind]
    text = program(kind, array, as_hexadecimal(array))
    listed = program(kind, array, as_list(array))
    generic = program(kind, array, as_hexadecimal(array), generic=True)
    binary = [as_bytecode(text), as_artifact(text)]
    for source in (text, text.encode(), generic, listed, *binary):
        found = constant_in(source)
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes()
        assert not found.flags.writeable


@pytest.mark.parametrize("piece", [1000, 1 << 22])
def test_lists_are_read_piece_by_piece(piece, monkeypatch):
    monkeypatch.setattr(written_constants, "_PIECE", piece)
    for kind in ("f32", "i32"):
        text, constants = without_constants(program(kind, ARRAYS[kind], as_list(ARRAYS[kind])))
        assert len(text) < 1000
        (data,) = constants.values()
        assert data.tobytes() == ARRAYS[kind].tobytes()


F32 = ARRAYS["f32"]
#: What is left to MLIR, and what it says; nothing where it reads it.
LEFT = {
    "too short": (program("f32", F32, as_hexadecimal(F32)[:-9] + '"'), "hex data size is invalid"),
    "no digits": (program("f32", F32, as_hexadecimal(F32)[:-2] + 'z"'), "hex digits"),
    "other sizes": (program("f32", F32.T, as_list(F32)), "inferred shape"),
    "a row too long": (program("f32", F32, as_list(F32)[:-2] + ", 1.0]]"), "ranks are not"),
    "integers": (program("f32", F32, as_list(F32.astype(np.int32))), "for a floating"),
    "too large": (program("i8", F32, as_list(np.full(F32.shape, 300))), "out of range"),
    "two numbers": (program("f32", F32, as_list(F32).replace(", ", " ", 1)), "expected"),
    "a number that is no decimal": (
        program("f32", F32, as_list(F32).replace(repr(float(F32[0, 0])), "0x7FC00000", 1)), None),
    "a list in a comment": (
        f"// stablehlo.constant dense<{as_list(F32)}> : tensor<130x200xf32>\n"
        + program("f32", F32[:1], as_list(F32[:1])), None),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_is_not_as_its_type_is_left_to_mlir(name):
    text, message = LEFT[name]
    if message is None:
        assert constant_in(text).dtype == np.float32
    else:
        with pytest.raises(mx.ImportError_, match=message):
            mx.import_stablehlo(text)


def test_a_large_constant_may_have_several_readers():
    value, others = np.arange(70_000, dtype=np.float32), np.ones(70_000, np.float32)
    program = f"""func.func @main(%x: tensor<70000xf32>) -> tensor<70000xf32> {{
      %a = stablehlo.constant dense<{as_hexadecimal(value)}> : tensor<70000xf32>
      %b = stablehlo.constant dense<3.0> : tensor<70000xf32>
      %c = stablehlo.add %x, %a : tensor<70000xf32>
      %d = stablehlo.multiply %b, %c : tensor<70000xf32>
      %e = stablehlo.multiply %d, %b : tensor<70000xf32>
      %f = stablehlo.add %e, %a : tensor<70000xf32>
      return %f : tensor<70000xf32>
    }}"""
    for source in (program, as_bytecode(program)):
        imported = mx.import_stablehlo(source)
        np.testing.assert_array_equal(imported(others), (1 + value) * 9 + value)


def test_a_resource_of_ours_in_the_users_text_is_none():
    text = program("f32", F32, "1.0").replace("dense<1.0>", "dense_resource<minixla_text0>")
    with pytest.raises(mx.ImportError_, match=r"a dense array: dense_resource(.*\n)*.*Write its"):
        mx.import_stablehlo(text)


MEMORY = '''
import subprocess, sys
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
import minixla as mx
from minixla.engine.readers import _HELPER
from tests.minixla.interop import test_large_constants as made

def peak():
    """Kilobytes that this process and the one that reads programs have had, with its child."""
    reader = _HELPER._child.pid
    child = Path(f"/proc/{reader}/task/{reader}/children").read_text().split()
    rows = [Path(f"/proc/{each}/status").read_text() for each in ("self", *child)]
    return sum(int(row.partition("VmHWM:")[2].split()[0]) for row in rows)

weights = np.random.default_rng(0).standard_normal((1 << 11, 1 << 10)).astype(np.float32)
text = made.program("f32", weights, made.as_hexadecimal(weights))
exported = jax.export.export(jax.jit(lambda: weights))()
sources = {
    "text": text,
    "list": made.program("f32", weights[:256], made.as_list(weights[:256])),
    "bytecode": made.as_bytecode(text),
    "artifact": made.as_artifact(text),
    "exported": exported,
    "serialized": bytes(exported.serialize()),
}
mx.import_stablehlo("func.func @main() { return }")
before = peak()
for form, source in sources.items():
    mx.import_stablehlo(source)
    print(form, (peak() - before) // 1024)
'''


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_eight_megabytes_of_weights_take_no_more_than_a_few_copies():
    """To look at each character of the text by itself would take 2 GB."""
    ended = subprocess.run(
        [sys.executable, "-c", MEMORY],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = dict(line.split() for line in ended.stdout.splitlines())
    assert len(found) == 6
    assert max(map(int, found.values())) < 150, found
