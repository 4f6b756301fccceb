"""Shapes: one object each, printing, parsing, immutability, pickling, what counts as an array.

Snapshots: one object while the array is unchanged, safe from later writes, forgotten in time.
"""

from __future__ import annotations

import copy
import gc
import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minixla.core import shapes
from minixla.core.element_types import ELEMENT_TYPES, F32
from minixla.core.errors import SizeError
from minixla.core.shapes import (
    TOKEN,
    DeclaredArray,
    Shape,
    TokenShape,
    TupleShape,
    parse_shape,
    shape_of_data,
    snapshot,
)

VECTOR = Shape("f32", (3,))
# The shape, XLA's notation, StableHLO's type.
SHAPES = [
    (Shape("f32"), "f32[]", "tensor<f32>"),
    (Shape("s8", (2, 3)), "s8[2,3]", "tensor<2x3xi8>"),
    (Shape("u4", (0, 1)), "u4[0,1]", "tensor<0x1xui4>"),
    (Shape("c64", (1,)), "c64[1]", "tensor<1xcomplex<f32>>"),
    (Shape("pred", (5,)), "pred[5]", "tensor<5xi1>"),
    (
        Shape("f8e4m3fn", (4, 2), (True, False)),
        "f8e4m3fn[<=4,2]",
        "tensor<?x2xf8E4M3FN, #stablehlo.bounds<4, ?>>",
    ),
    (
        Shape("f32", (4, 2), (True, True)),
        "f32[<=4,<=2]",
        "tensor<?x?xf32, #stablehlo.bounds<4, 2>>",
    ),
    (TOKEN, "token[]", "!stablehlo.token"),
    (TupleShape([]), "()", "tuple<>"),
    (TupleShape([VECTOR]), "(f32[3])", "tuple<tensor<3xf32>>"),
    (
        TupleShape([VECTOR, TOKEN, TupleShape([VECTOR, TupleShape([])])]),
        "(f32[3], token[], (f32[3], ()))",
        "tuple<tensor<3xf32>, !stablehlo.token, tuple<tensor<3xf32>, tuple<>>>",
    ),
]
IDS = [text for _, text, _ in SHAPES]


@pytest.mark.parametrize(("shape", "text", "stablehlo"), SHAPES, ids=IDS)
def test_text(shape, text, stablehlo):
    assert (str(shape), repr(shape), shape.stablehlo) == (text, text, stablehlo)
    assert parse_shape(text) is shape


@pytest.mark.parametrize("shape", [row[0] for row in SHAPES], ids=IDS)
def test_there_is_one_object_for_each_shape(shape):
    for copied in (pickle.loads(pickle.dumps(shape)), copy.copy(shape), copy.deepcopy(shape)):
        assert copied is shape
    assert hash(shape) == hash(copy.copy(shape))


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_ways_to_make_a_shape(name):
    declared = ELEMENT_TYPES[name]
    shape = Shape(declared, (2, 3))
    for dimensions in ([2, 3], np.array([2, 3]), iter((2, 3)), (np.int8(2), np.uint64(3))):
        assert Shape(declared, dimensions) is shape
    for flags in (None, (False, False), [0, 0]):
        assert Shape(name, (2, 3), flags) is shape
    assert Shape(declared.dtype, (2, 3)) is shape
    assert shape != Shape(declared, (3, 2))
    assert shape != Shape(declared, (2, 3), (True, False))


def test_parts():
    shape = Shape("bf16", (2, 0, 3), (0, 0, 1))
    assert (shape.rank, shape.size, shape.dtype) == (3, 0, ml_dtypes.bfloat16)
    assert shape.dynamic == (False, False, True)
    assert shape.is_dynamic
    assert not Shape("bf16", (2,)).is_dynamic
    assert shape.with_element_type(F32) is Shape("f32", (2, 0, 3), (False, False, True))
    assert shape.with_dimensions((4,)) is Shape("bf16", (4,))
    assert shape.without_dimension(0) is Shape("bf16", (0, 3), (False, True))
    assert shape.without_dimension(2) is Shape("bf16", (2, 0))
    assert shape.with_size(1, 5) is Shape("bf16", (2, 5, 3))
    assert Shape("f32").size == 1


WRONG = [
    ({"dimensions": (-1,)}, ValueError, "negative"),
    ({"dimensions": (2.5,)}, TypeError, "float"),
    ({"dimensions": ("2",)}, TypeError, "str"),
    ({"dimensions": (None,)}, TypeError, "NoneType"),
    ({"dimensions": 3}, TypeError, "not iterable"),
    ({"dimensions": (2,), "dynamic": (True, False)}, ValueError, "2 dynamic flags for 1"),
    ({"dimensions": (2,), "dynamic": (False, False)}, ValueError, "2 dynamic flags for 1"),
]


@pytest.mark.parametrize(("arguments", "error", "phrase"), WRONG, ids=lambda row: str(row))
def test_wrong_dimensions(arguments, error, phrase):
    with pytest.raises(error, match=phrase):
        Shape("f32", **arguments)


def test_wrong_members():
    with pytest.raises(TypeError, match="must be a shape, not 3"):
        TupleShape([VECTOR, 3])
    with pytest.raises(TypeError, match="is not an element type"):
        Shape("f33", (2,))


@pytest.mark.parametrize("shape", [VECTOR, TupleShape([VECTOR]), TOKEN], ids=str)
def test_shapes_cannot_be_changed(shape):
    name = "elements" if isinstance(shape, TupleShape) else "dimensions"
    with pytest.raises(AttributeError, match="shapes are immutable"):
        setattr(shape, name, ())
    with pytest.raises(AttributeError, match="shapes are immutable"):
        delattr(shape, name)


def test_there_is_one_token():
    assert TokenShape() is TOKEN


def test_threads_get_the_same_object():
    def make(index):
        return [Shape("f32", (index, n, 7919)) for n in range(300)]

    with ThreadPoolExecutor(8) as pool:
        first, *others = pool.map(make, [11] * 8)
    assert all(one is other for each in others for one, other in zip(first, each, strict=True))


READ = [
    ("  f32[ 2 , 3 ]  ", "f32[2,3]"),
    ("f32[2,3]{1,0}", "f32[2,3]"),
    ("bf16[16,8]{1,0:T(8,128)(2,1)S(1)}", "bf16[16,8]"),
    ("f32[<=2, <= 3]", "f32[<=2,<=3]"),
    ("( f32[] , s32[4]{0} )", "(f32[], s32[4])"),
    ("(f32[], /*index=1*/s32[4], /*index=2*/ token[])", "(f32[], s32[4], token[])"),
    ("/* a comment */f32[]", "f32[]"),
    ("((),())", "((), ())"),
    ("(\nf32[],\n\ttoken[]{}\n)", "(f32[], token[])"),
]


@pytest.mark.parametrize(("text", "printed"), READ)
def test_what_xla_prints_is_read(text, printed):
    assert str(parse_shape(text)) == printed


MALFORMED = [
    "",
    " ",
    "f32",
    "f32[",
    "f32]",
    "f32[]]",
    "f32[2",
    "f32[2,]",
    "f32[,2]",
    "f32[-1]",
    "f32[2.0]",
    "f32[1_0]",
    "f32[+1]",
    "f32[0x2]",
    "f32[٣]",
    "f32[<2]",
    "f32[<=]",
    "f32[<=<=2]",
    "f32[?]",
    "f33[2]",
    "F32[2]",
    "f8[2]",
    "float32[2]",
    "int8[2]",
    "token",
    "token[2]",
    "(",
    ")",
    "())",
    "(()",
    "(f32[]",
    "(f32[] s32[])",
    "(f32[],)",
    "(,f32[])",
    "(,)",
    "f32[] f32[]",
    "f32[]{0",
    "f32[] /* open",
    "f32[" + "9" * 5000 + "]",
]


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: text[:20])
def test_malformed_text(text):
    with pytest.raises(ValueError, match=r"is not a shape, such as .*: invalid at position \d+"):
        parse_shape(text)


def test_the_message_says_where_it_went_wrong():
    with pytest.raises(ValueError, match=re.escape("position 7, at 's32[])'")):
        parse_shape("(f32[] s32[])")
    with pytest.raises(ValueError, match="position 6, at the end"):
        parse_shape("(f32[]")


def test_tuples_nested_10_000_deep():
    depth = 10_000
    text = "(" * depth + "f32[]" + ")" * depth
    shape = parse_shape(text)
    assert str(shape) == text
    assert shape.stablehlo == "tuple<" * depth + "tensor<f32>" + ">" * depth
    assert pickle.loads(pickle.dumps(shape)) is shape
    assert copy.deepcopy(shape) is shape
    for broken in ("(" * depth, text + ")", "(" * depth + "," + ")" * depth):
        with pytest.raises(ValueError, match="is not a shape"):
            parse_shape(broken)


def test_a_wide_tuple():
    text = "(" + ", ".join(["f32[2]"] * 10_000) + ")"
    shape = parse_shape(text)
    assert isinstance(shape, TupleShape)
    assert len(shape.elements) == 10_000
    assert str(shape) == text


DATA = [
    (True, "pred[]"),
    (3, "s32[]"),
    (1.5, "f32[]"),
    (1j, "c64[]"),
    (np.float64(1), "f32[]"),
    (np.bool_(True), "pred[]"),
    (np.zeros((2, 3)), "f32[2,3]"),
    (np.zeros(2, np.uint64), "u32[2]"),
    (np.zeros(2, ml_dtypes.int4), "s4[2]"),
    (np.zeros(2).view(DeclaredArray), "f64[2]"),
    (jnp.zeros((1, 2), jnp.bfloat16), "bf16[1,2]"),
    (jax.ShapeDtypeStruct((4,), jnp.float16), "f16[4]"),
]


@pytest.mark.parametrize(("value", "text"), DATA, ids=[text for _, text in DATA])
def test_shapes_of_data(value, text):
    assert str(shape_of_data(value)) == text


def test_shapes_of_data_in_64_bit_mode():
    with jax.enable_x64(True):
        for value, text in [(3, "s64[]"), (1.0, "f64[]"), (1j, "c128[]"), (np.zeros(2), "f64[2]")]:
            assert str(shape_of_data(value)) == text


NO_DATA = [
    None,
    "text",
    [1.0],
    (1.0,),
    {},
    np.array(["a"]),
    np.array([object()]),
    np.zeros(2, jax.dtypes.float0),
    np.datetime64("2020-01-01"),
    jax.random.key(0),
    np.float32,
    VECTOR,
]


@pytest.mark.parametrize("value", NO_DATA, ids=lambda value: type(value).__name__)
def test_what_is_no_array(value):
    assert shape_of_data(value) is None


MOST = 2**63 - 1
UNCOUNTABLE = [
    ("f32", (MOST, MOST), "f32[9223372036854775807,9223372036854775807] has more than 2**63 - 1"),
    ("f32", (2**62, 8), "f32[4611686018427387904,8] has more than"),
    ("f32", (2**61,), "f32[2305843009213693952] has more than"),
    ("s8", (2**63,), "s8[9223372036854775808] has more than"),
    ("c128", (2**30, 2**29), "c128[1073741824,536870912] has more than"),
    ("s4", (2**32, 2**31), "s4[4294967296,2147483648] has more than"),
    ("f32", (2**61, 0), "2**63 - 1 bytes, where empty dimensions count as one element"),
    ("f32", (0, MOST, MOST), "where empty dimensions count as one element"),
]


@pytest.mark.parametrize(("kind", "sizes", "phrase"), UNCOUNTABLE, ids=lambda each: str(each)[:30])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_shape_of_more_bytes_than_64_bits_count_is_refused(kind, sizes, phrase, dynamic):
    with pytest.raises(SizeError) as caught:
        Shape(kind, sizes, [dynamic] * len(sizes))
    assert phrase in str(caught.value)
    assert "test_shapes.py" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "sizes"), [("s8", (MOST,)), ("f32", (2**61 - 1,)), ("s8", (MOST, 0)), ("f64", (0,))]
)
def test_the_largest_shapes(kind, sizes):
    shape = Shape(kind, sizes)
    assert shape.nbytes in (MOST, MOST - 3, 0)
    assert pickle.loads(pickle.dumps(shape)) is shape
    assert parse_shape(str(shape)) is shape


ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6, dtype=np.float32).reshape(2, 3).T,
    np.arange(6, dtype=np.int64)[::-2],
    np.array(1.5),
    np.zeros((0, 3)),
    np.full(3, np.nan),
    np.arange(4).astype(ml_dtypes.int4),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{list(array.shape)}")
def test_an_unchanged_array_has_one_snapshot(array):
    taken = snapshot(array)
    np.testing.assert_array_equal(taken, array)
    assert taken.dtype == array.dtype
    assert snapshot(array) is taken
    assert snapshot(taken) is taken
    with pytest.raises(ValueError, match="read-only"):
        taken[...] = 0


@pytest.mark.parametrize("before, after", [(0.0, 1.0), (0.0, -0.0), (np.nan, np.float32(-np.nan))])
def test_a_changed_array_has_another(before, after):
    array = np.full(3, before, np.float32)
    first = snapshot(array)
    array[1] = after
    second = snapshot(array)
    assert second is not first
    assert first.tobytes() == np.full(3, before, np.float32).tobytes()
    assert second.tobytes() == array.tobytes()


def test_a_reshaped_array():
    array = np.zeros(6, np.float32)
    first = snapshot(array)
    array.shape = (2, 3)
    assert snapshot(array).shape == (2, 3)
    assert first.shape == (6,)


def test_nothing_is_kept_alive():
    array = np.zeros(3)
    key = id(array)
    snapshot(array)
    assert shapes._TAKEN[key][1]() is None, "nobody else holds the snapshot"
    del array
    gc.collect()
    assert key not in shapes._TAKEN
