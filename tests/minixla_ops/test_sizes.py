"""Arrays too large to be counted or held: refused by every way to compute, and never computed."""

from __future__ import annotations

import re
import time

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.shapes import Shape
from minixla.tools.command_line import main
from minixla_ops.products.dot_dimensions import DotDimensionNumbers

ONE = np.float32(1)
ROW = np.ones(3, np.float32)
#: Elements of f32: more bytes than any machine has, and yet a number of 64 bits.
EXABYTES = 2**58


def wide(count):
    """A row of `count` ones."""
    return ops.broadcast(ONE, (count,))


def outer(count):
    return ops.dot_general(wide(count), wide(count), DotDimensionNumbers((), ()))


UNCOUNTABLE = {
    "broadcast": lambda: ops.slice(ops.broadcast(ONE, (2**62, 8)), (0, 0), (1, 1)),
    "iota": lambda: ops.iota(Shape("f32", (2**62,)), 0),
    "pad": lambda: ops.pad(ROW, ONE, [(2**62, 2**62, 0)]),
    "pad between": lambda: ops.pad(ROW, ONE, [(0, 0, 2**62)]),
    "concatenation": lambda: ops.concat_in_dim([wide(2**60)] * 2, 0),
    "outer product": lambda: outer(2**31),
    "convolution": lambda: ops.conv_general_dilated(
        np.ones((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32), (1,), [(2**61, 2**61)]
    ),
    "reshape": lambda: ops.reshape(ops.broadcast(ONE, (2**40, 0)), (2**62, 2, 0)),
    "wider type": lambda: ops.convert_element_type(wide(2**60), "f64"),
    "zeros": lambda: mnp.zeros((2**62, 8)),
    "beside an empty dimension": lambda: ops.broadcast(ONE, (2**63 - 1, 0)),
    "vmap": lambda: mx.vmap(lambda x: ops.broadcast(x, (2**60,)))(ROW),
}


@pytest.mark.parametrize("name", UNCOUNTABLE)
@pytest.mark.parametrize("way", [mx.reference, mx.jit, mx.make_graph], ids=lambda way: way.__name__)
def test_a_result_of_more_bytes_than_64_bits_count_is_refused(way, name):
    with pytest.raises(mx.SizeError, match=r"has more than 2\*\*63 - 1 bytes") as caught:
        way(UNCOUNTABLE[name])()
    assert "test_sizes.py" in str(caught.value)


def test_the_error_names_the_operation_and_its_operands():
    with pytest.raises(mx.SizeError) as caught:
        mx.make_graph(lambda x: ops.pad(x, ONE, [(2**62, 2**62, 0)]))(ROW)
    lines = str(caught.value).splitlines()
    assert lines[0] == "pad: f32[9223372036854775811] has more than 2**63 - 1 bytes."
    assert lines[1:3] == ["  operand f32[3]", "  padding_value f32[]"]
    assert lines[4].endswith("in 64 bits: compute it in parts.")


IMPOSSIBLE = {
    "broadcast": lambda: wide(EXABYTES),
    "iota": lambda: ops.iota(Shape("f32", (EXABYTES,)), 0),
    "pad": lambda: ops.pad(ROW, ONE, [(EXABYTES, 0, 0)]),
    "reshape": lambda: ops.reshape(wide(EXABYTES), (2**29, 2**29)),
    "ones": lambda: mnp.ones(EXABYTES),
    "terabytes": lambda: mnp.arange(2**45),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("way", ["reference", "jit", "eager"])
def test_no_memory_is_our_error_everywhere(way, name):
    function = IMPOSSIBLE[name]
    evaluate = function if way == "eager" else getattr(mx, way)(function)
    with pytest.raises(mx.SizeError) as caught:
        evaluate()
    assert isinstance(caught.value, MemoryError)
    assert "memory" in str(caught.value)
    assert "test_sizes.py" in str(caught.value)


@pytest.mark.parametrize("way", [mx.reference, mx.jit], ids=lambda way: way.__name__)
def test_no_memory_for_a_product_is_our_error(way):
    with pytest.raises(mx.SizeError, match="not enough memory"):
        way(lambda: outer(2**24))()


def test_arrays_of_no_elements_have_any_countable_sizes():
    for way in (mx.reference, mx.jit):
        assert way(lambda: ops.broadcast(ONE, (2**58, 0)))().shape == (2**58, 0)


SUM, PRODUCT, OR = (lambda x, y: x + y), (lambda x, y: x * y), (lambda x, y: x | y)
COUNT = 10**18
REPEATED = [
    (SUM, np.float32(0.5), 1, np.float32(5e17)),
    (SUM, np.float32(np.inf), 1, np.float32(np.inf)),
    (SUM, np.int8(3), 1, (np.int64(3) * COUNT + 1).astype(np.int8)),
    (SUM, np.uint32(7), 5, np.uint32((7 * COUNT + 5) % 2**32)),
    (SUM, np.complex64(1 + 2j), 0, np.complex64((1 + 2j) * COUNT)),
    (
        PRODUCT,
        np.int32(3),
        1,
        np.int32(pow(3, COUNT, 2**32) - 2**32 * (pow(3, COUNT, 2**32) >> 31)),
    ),
    (PRODUCT, np.float32(-1), 2, np.float32(2)),
    (PRODUCT, np.float32(0.5), 1, np.float32(0)),
    (ops.max, np.float32(-3), -7, np.float32(-3)),
    (ops.min, np.uint8(3), 9, np.uint8(3)),
    (OR, np.uint8(5), 2, np.uint8(7)),
    (lambda x, y: x ^ y, np.uint8(5), 2, np.uint8(2)),
]


@pytest.mark.parametrize(("computation", "value", "initial", "expected"), REPEATED)
def test_a_constant_of_any_size_is_reduced_at_once(computation, value, initial, expected):
    def function():
        return ops.reduce(
            np.broadcast_to(value, (COUNT,)), value.dtype.type(initial), computation, (0,)
        )

    start = time.perf_counter()
    result = mx.reference(function)()
    assert time.perf_counter() - start < 5
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_repeated_elements_are_folded_like_others():
    """Sums over the dimension in which elements are repeated, and over both."""
    rows = np.linspace(-1, 1, 4, dtype=np.float32)[:, None]
    count = 200_000
    for axes in ((1,), (0, 1)):

        def function(x, axes=axes):
            return ops.reduce(x, np.float32(0), SUM, axes)

        repeated = mx.reference(lambda: function(np.broadcast_to(rows, (4, count))))()
        written = mx.reference(function)(np.repeat(rows, count, 1))
        np.testing.assert_allclose(repeated, written, rtol=1e-6, atol=1e-3)


def test_a_program_in_which_xla_computes_no_large_array_runs():
    result = mx.jit(lambda: ops.slice(wide(EXABYTES), (0,), (2,)))()
    np.testing.assert_array_equal(result, [1, 1])


def test_shapes_are_not_counted_again_when_they_are_met_again(monkeypatch):
    import minixla.core.shapes as shapes

    known = Shape("f32", (5, 7))
    monkeypatch.setattr(shapes, "math", None)  # with which sizes are counted
    assert Shape("f32", (5, 7)) is known


def test_jax_sees_no_impossible_array():
    with pytest.raises(mx.SizeError, match="is too large for memory"):
        jax.jit(mx.jit(lambda: wide(EXABYTES)))()


DECLARED = {
    "mlir": """func.func @main(%x: tensor<f32>) -> tensor<SIZESf32> {
  %0 = "stablehlo.broadcast_in_dim"(%x) <{broadcast_dimensions = array<i64>}>
    : (tensor<f32>) -> tensor<SIZESf32>
  return %0 : tensor<SIZESf32>
}""".replace("SIZES", f"{2**63 - 1}x{2**63 - 1}x"),
    "hlo": """HloModule large
ENTRY %main (x: f32[]) -> f32[SIZES] {
  %x = f32[] parameter(0)
  ROOT %y = f32[SIZES]{1,0} broadcast(%x), dimensions={}
}""".replace("SIZES", f"{2**63 - 1},{2**63 - 1}"),
}
READERS = {"mlir": mx.import_stablehlo, "hlo": mx.import_hlo}


@pytest.mark.parametrize("form", READERS)
def test_a_declared_type_of_more_bytes_than_64_bits_count_is_refused_with_its_line(form):
    problem = r"line [24], column \d+: .*f32\[\d+,\d+\] has more than 2\*\*63 - 1 bytes\.\n"
    with pytest.raises(mx.ImportError_, match=problem):
        READERS[form](DECLARED[form])


@pytest.mark.parametrize("command", ["run", "cost", "show", "check", "grad", "vmap"])
@pytest.mark.parametrize("form", READERS)
def test_the_command_line_lives_through_sizes_of_any_kind(command, form, tmp_path, capsys):
    """Sizes that cannot be counted are refused; those that no memory holds can be looked at."""
    path = tmp_path / f"p.{form}"
    path.write_text(DECLARED[form])
    assert main([command, str(path)]) == 2
    assert "has more than 2**63 - 1 bytes" in capsys.readouterr().err
    representable = re.sub(r"\d{18,19}x\d{18,19}x", f"{2**29}x{2**29}x", DECLARED[form])
    path.write_text(re.sub(r"\[\d{19},\d{19}\]", f"[{2**29},{2**29}]", representable))
    status = main([command, str(path)])
    printed = capsys.readouterr()
    if command in ("cost", "show"):
        assert status == 0
        assert not printed.err
    else:
        assert status == 2
        assert "memory" in printed.err
