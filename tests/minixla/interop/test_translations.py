"""Operations of StableHLO that become several of ours, or that few programs have."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest
from jax.extend.mlir import ir
from jax.interpreters.mlir import make_ir_context

import minixla as mx
from minixla.core.operation import REGISTRY
from minixla.core.stablehlo_text import attribute_text
from minixla.interop.values import plain
from minixla_ops import register_custom_call
from minixla_ops.elementwise.accuracy import ResultAccuracy
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from minixla_ops.products.dot_dimensions import DotDimensionNumbers
from tests.minixla.interop.import_programs import main
from tests.oracles.interpreter import run_stablehlo
from tests.oracles.xla import run_xla

BYTES = np.array([[100, 101, 102], [3, 120, 5]], np.int8)
SHORT = np.array([[1.5, 2.25, 3], [100, 200, 300]]).astype(ml_dtypes.bfloat16)


def fold(name: str, kind: str = "i32") -> str:
    """The region that adds values of a type."""
    return f"""({{
      ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
        %s = stablehlo.{name} %a, %b : tensor<{kind}>
        stablehlo.return %s : tensor<{kind}>
      }})"""


class Row(NamedTuple):
    body: str
    operand: np.ndarray
    result: str
    wanted: Any


#: The operands have narrower types than the result and the region that adds them.
WIDER = {
    "reduce": Row(
        f"""%z = stablehlo.constant dense<0> : tensor<i8>
        %r = "stablehlo.reduce"(%x, %z) <{{dimensions = array<i64: 1>}}> {fold("add")}
        : (tensor<2x3xi8>, tensor<i8>)""",
        BYTES, "tensor<2xi32>", BYTES.sum(1, dtype=np.int32),
    ),
    "reduce of several": Row(
        """%z = stablehlo.constant dense<0> : tensor<i8>
        %f = stablehlo.constant dense<0.0> : tensor<bf16>
        %y = stablehlo.convert %x : (tensor<2x3xi8>) -> tensor<2x3xbf16>
        %q, %r = "stablehlo.reduce"(%y, %x, %f, %z) <{dimensions = array<i64: 1>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
          %s = stablehlo.add %a, %c : tensor<f32>
          %t = stablehlo.add %b, %d : tensor<i32>
          stablehlo.return %s, %t : tensor<f32>, tensor<i32>
        }) : (tensor<2x3xbf16>, tensor<2x3xi8>, tensor<bf16>, tensor<i8>)
          -> (tensor<2xf32>, tensor<2xi32>)
        %u = stablehlo.convert %r : (tensor<2xi32>) -> tensor<2xf32>
        %v = stablehlo.subtract %q, %u : tensor<2xf32>
        %w = stablehlo.convert %v : (tensor<2xf32>)""",
        BYTES, "tensor<2xi32>", np.zeros(2, np.int32),
    ),
    "reduce_window": Row(
        f"""%z = stablehlo.constant dense<0.0> : tensor<bf16>
        %r = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: 1, 2>}}>
        {fold("add", "f32")} : (tensor<2x3xbf16>, tensor<bf16>)""",
        SHORT, "tensor<2x2xf32>",
        SHORT.astype(np.float32)[:, :2] + SHORT.astype(np.float32)[:, 1:],
    ),
    "scatter": Row(
        f"""%i = stablehlo.constant dense<1> : tensor<1xi32>
        %u = stablehlo.constant dense<100> : tensor<3xi8>
        %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 0>}}> {fold("add")} : (tensor<2x3xi8>, tensor<1xi32>, tensor<3xi8>)""",
        BYTES, "tensor<2x3xi32>", BYTES + np.array([[0], [100]], np.int32),
    ),
    "select_and_scatter": Row(
        f"""%z = stablehlo.constant dense<100> : tensor<i8>
        %u = stablehlo.constant dense<100> : tensor<2x1xi8>
        %r = "stablehlo.select_and_scatter"(%x, %u, %z)
          <{{window_dimensions = array<i64: 1, 3>}}> ({{
        ^bb0(%a: tensor<i8>, %b: tensor<i8>):
          %s = stablehlo.compare GE, %a, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>
          stablehlo.return %s : tensor<i1>
        }}, {fold("add")[1:]} : (tensor<2x3xi8>, tensor<2x1xi8>, tensor<i8>)""",
        BYTES, "tensor<2x3xi32>", np.array([[100, 100, 200], [100, 200, 100]], np.int32),
    ),
    "all_reduce": Row(
        f"""%r = "stablehlo.all_reduce"(%x) <{{
          replica_groups = dense<[[0]]> : tensor<1x1xi64>}}> {fold("maximum")}
        : (tensor<2x3xi8>)""",
        BYTES, "tensor<2x3xi32>", BYTES.astype(np.int32),
    ),
    "reduce_scatter": Row(
        f"""%r = "stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64,
          replica_groups = dense<[[0]]> : tensor<1x1xi64>}}> {fold("add")} : (tensor<2x3xi8>)""",
        BYTES, "tensor<2x3xi32>", BYTES.astype(np.int32),
    ),
    "dot": Row(
        "%r = stablehlo.dot %x, %x : (tensor<3xi8>, tensor<3xi8>)",
        BYTES[0], "tensor<i32>", np.int32(100**2 + 101**2 + 102**2),
    ),
    "einsum": Row(
        """%r = "stablehlo.einsum"(%x, %x) {einsum_config = "ab,cb->ac"}
        : (tensor<2x3xi8>, tensor<2x3xi8>)""",
        BYTES, "tensor<2x2xi32>", BYTES.astype(np.int32) @ BYTES.astype(np.int32).T,
    ),
    "einsum of floats": Row(
        """%r = "stablehlo.einsum"(%x, %x) {einsum_config = "ab,cb->ac"}
        : (tensor<2x3xbf16>, tensor<2x3xbf16>)""",
        SHORT, "tensor<2x2xf32>", SHORT.astype(np.float32) @ SHORT.astype(np.float32).T,
    ),
    "unary_einsum": Row(
        '%r = "stablehlo.unary_einsum"(%x) {einsum_config = "ab->a"} : (tensor<2x3xi8>)',
        BYTES, "tensor<2xi32>", BYTES.sum(1, dtype=np.int32),
    ),
}  # fmt: skip


def text_of(row: Row) -> str:
    kind = {np.dtype(np.int8): "i8", np.dtype(ml_dtypes.bfloat16): "bf16"}[row.operand.dtype]
    sizes = "x".join(map(str, row.operand.shape))
    text = main(f"{row.body} -> {row.result}", f"%x: tensor<{sizes}x{kind}>", row.result)
    return text.replace("return %r :", "return %w :") if "%w =" in text else text


def test_computations_may_be_written_for_wider_types():
    """StableHLO's specification promotes the operands; XLA and the interpreter refuse them."""
    programs = {name: mx.import_stablehlo(text_of(row)) for name, row in WIDER.items()}
    for name, row in WIDER.items():
        found = mx.reference(programs[name])(row.operand)
        assert found.dtype == row.wanted.dtype, name
        np.testing.assert_array_equal(found, row.wanted, name)

    def everything(*operands):
        return [program(x) for program, x in zip(programs.values(), operands, strict=True)]

    found = mx.jit(everything)(*[row.operand for row in WIDER.values()])
    for (name, row), each in zip(WIDER.items(), found, strict=True):
        np.testing.assert_array_equal(each, row.wanted, name)


def test_dots_agree_with_the_interpreter():
    row = WIDER["dot"]
    (wanted,) = run_stablehlo(text_of(row), [row.operand])
    assert wanted == row.wanted


SCAN = """%z = stablehlo.constant dense<1.0> : tensor<2xf32>
  %r, %c = "chlo.scan"(%x, %z) <{{dimension = 1 : i64, is_reverse = {},
    operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}}> ({{
  ^bb0(%i: tensor<2xf32>, %s: tensor<2xf32>):
    %n = stablehlo.multiply %s, %i : tensor<2xf32>
    %o = stablehlo.add %n, %i : tensor<2xf32>
    stablehlo.return %o, %n : tensor<2xf32>, tensor<2xf32>
  }}) : (tensor<2x3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)"""


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_scans_of_chlo(reverse):
    text = main(SCAN.format(reverse))
    x = np.array([[2, 3, 4], [0.5, 1, 2]], np.float32)
    program = mx.import_stablehlo(text)
    assert [step.op.name for step in program.graph.instructions] == ["Constant", "Scan"]
    (wanted,) = run_xla(text, [x])
    for run in (mx.reference(program), mx.jit(program)):
        np.testing.assert_allclose(run(x), wanted, rtol=1e-6)
    slope = mx.grad(lambda x: mx.numpy.sum(program(x)))(x)
    ahead = mx.jacfwd(lambda x: mx.numpy.sum(program(x)))(x)
    np.testing.assert_allclose(slope, ahead, rtol=1e-5)


BITS = {
    "wider": ("3x2xcomplex<f32>", "3xcomplex<f64>", np.arange(12, dtype=np.float32)),
    "narrower": ("3xcomplex<f64>", "3x2xcomplex<f32>", np.linspace(-1, 2, 6)),
}


@pytest.mark.parametrize("name", BITS)
def test_bits_of_complex_numbers(name):
    given, made, parts = BITS[name]
    text = main(f"%r = stablehlo.bitcast_convert %x : (tensor<{given}>) -> tensor<{made}>",
                f"%x: tensor<{given}>", f"tensor<{made}>")  # fmt: skip
    x = parts.view(f"c{2 * parts.itemsize}")
    x = x.reshape([int(size) for size in given.split("x")[:-1] if size.isdecimal()])
    program = mx.import_stablehlo(text)
    (wanted,) = run_stablehlo(text, [x])
    with jax.enable_x64(True):
        np.testing.assert_array_equal(mx.reference(program)(x), wanted)
    (from_xla,) = run_xla(program.graph.stablehlo(), [x])
    np.testing.assert_array_equal(from_xla, wanted)


def split(x):
    return x + 1, np.int32(x.size)


PAIR = "tuple<tensor<2x3xf32>, tensor<i32>>"
CALLS = {
    "tuple": f"""%t = stablehlo.custom_call @tests.translations.split(%x)
        : (tensor<2x3xf32>) -> {PAIR}
    %r = stablehlo.get_tuple_element %t[0] : ({PAIR}) -> tensor<2x3xf32>""",
    "tuple of tuples": f"""%t = stablehlo.custom_call @tests.translations.split(%x)
        : (tensor<2x3xf32>) -> tuple<{PAIR}>
    %u = stablehlo.get_tuple_element %t[0] : (tuple<{PAIR}>) -> {PAIR}
    %r = stablehlo.get_tuple_element %u[0] : ({PAIR}) -> tensor<2x3xf32>""",
}


@pytest.mark.parametrize("name", CALLS)
def test_custom_calls_may_give_a_tuple(name):
    register_custom_call("tests.translations.split", split)
    program = mx.import_stablehlo(main(CALLS[name]))
    call = program.graph.instructions[0]
    assert list(map(str, call.shapes)) == ["f32[2,3]", "s32[]"]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(mx.reference(program)(x), x + 1)
    assert mx.import_stablehlo(program.graph.stablehlo()).graph == program.graph


def test_names_of_composites_may_have_signs_after_the_first_dot():
    text = main("""%r = stablehlo.composite "f00._.$" %x {decomposition = @d}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
    }
    func.func private @d(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %r = stablehlo.abs %x : tensor<2x3xf32>""")
    program = mx.import_stablehlo(text)
    assert program.graph.instructions[0].op.composite_name == "f00._.$"
    assert mx.import_stablehlo(program.graph.stablehlo()).graph == program.graph
    x = -np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(mx.jit(program)(x), -x)


#: An operation, one of its attributes and a value. Of long forms the text here is the short one.
ATTRIBUTES = [
    ("AllReduce", "channel_id", 7),
    ("AllReduce", "replica_groups", ((0, 2), (1,))),
    ("AllReduce", "replica_groups", ()),
    ("AllReduce", "use_global_device_ids", True),
    ("ConvGeneralDilated", "dimension_numbers", "b0f1_1io0->10bf"),
    ("ConvGeneralDilated", "padding", ((1, -2), (0, 3))),
    ("ConvGeneralDilated", "padding", ()),
    ("ConvGeneralDilated", "window_reversal", (True, False)),
    ("DotGeneral", "precision_config", ("HIGH", "DEFAULT")),
    ("Exp", "result_accuracy", ResultAccuracy(atol=1e-5, ulps=3)),
    ("Fft", "fft_type", "IRFFT"),
    ("Gather", "dimension_numbers", GatherDimensionNumbers([1, 2], [0], [0], 1, [3], [0])),
    ("ReducePrecision", "mantissa_bits", 5),
    ("RngBitGenerator", "algorithm", "rng_three_fry"),
    ("Scatter", "dimension_numbers", ScatterDimensionNumbers([], [1], [1], 0, [0], [1])),
    ("Sort", "is_stable", True),
    ("Transpose", "permutation", (1, 0)),
    ("TriangularSolve", "transpose_a", "ADJOINT"),
]


@pytest.mark.parametrize(("name", "field", "value"), ATTRIBUTES)
def test_a_kind_of_attribute_reads_what_it_writes(name, field, value):
    kind = REGISTRY[name].fields[field].kind
    own = kind.canonical(value)
    text = attribute_text(kind.stablehlo(own))
    if name == "ConvGeneralDilated" and field == "dimension_numbers":
        text = f"#stablehlo.conv<{text}>"
    with make_ir_context():
        written = plain(ir.Attribute.parse(text), str)
    assert kind.canonical(kind.read(written)) == own


def test_numbers_of_products_are_read():
    text = "#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [2], "
    text += "lhs_contracting_dimensions = [1, 3], rhs_contracting_dimensions = [0, 1]>"
    wanted = DotDimensionNumbers((1, 3), (0, 1), (0,), (2,))
    assert REGISTRY["DotGeneral"].fields["dimension_numbers"].kind.read(text) == wanted
    ragged = text.replace("#stablehlo.dot<", "#chlo.ragged_dot<lhs_ragged_dimensions = [0], ")
    found = REGISTRY["RaggedDot"].fields["dimension_numbers"].kind.read(ragged)
    assert found == (wanted, (0,), ())


def test_groups_of_a_mesh_are_no_lists():
    kind = REGISTRY["AllReduce"].fields["replica_groups"].kind
    with pytest.raises(ValueError, match="must be a dense array of numbers, not #stablehlo"):
        kind.read("#stablehlo.replica_group_mesh_axes<mesh = @m, axes = []>")
