"""Element types: names, NumPy dtypes, spellings, what names them, 64-bit mode."""

from __future__ import annotations

import copy
import pickle

import jax
import ml_dtypes
import numpy as np
import pytest
from jaxlib import _hlo  # type: ignore[attr-defined]  # compiled, without stubs

from minixla.core.element_types import (
    ELEMENT_TYPES,
    canonical_element_type,
    element_type,
)
from minixla.core.shapes import Shape
from tests.oracles.values import type_name

# XLA's name, dtype, bits, kind, MLIR's spelling.
TYPES = [
    ("pred", np.bool_, 1, "pred", "i1"),
    ("s2", ml_dtypes.int2, 2, "signed", "i2"),
    ("s4", ml_dtypes.int4, 4, "signed", "i4"),
    ("s8", np.int8, 8, "signed", "i8"),
    ("s16", np.int16, 16, "signed", "i16"),
    ("s32", np.int32, 32, "signed", "i32"),
    ("s64", np.int64, 64, "signed", "i64"),
    ("u2", ml_dtypes.uint2, 2, "unsigned", "ui2"),
    ("u4", ml_dtypes.uint4, 4, "unsigned", "ui4"),
    ("u8", np.uint8, 8, "unsigned", "ui8"),
    ("u16", np.uint16, 16, "unsigned", "ui16"),
    ("u32", np.uint32, 32, "unsigned", "ui32"),
    ("u64", np.uint64, 64, "unsigned", "ui64"),
    ("f4e2m1fn", ml_dtypes.float4_e2m1fn, 4, "float", "f4E2M1FN"),
    ("f6e2m3fn", ml_dtypes.float6_e2m3fn, 6, "float", "f6E2M3FN"),
    ("f6e3m2fn", ml_dtypes.float6_e3m2fn, 6, "float", "f6E3M2FN"),
    ("f8e3m4", ml_dtypes.float8_e3m4, 8, "float", "f8E3M4"),
    ("f8e4m3", ml_dtypes.float8_e4m3, 8, "float", "f8E4M3"),
    ("f8e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, 8, "float", "f8E4M3B11FNUZ"),
    ("f8e4m3fn", ml_dtypes.float8_e4m3fn, 8, "float", "f8E4M3FN"),
    ("f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 8, "float", "f8E4M3FNUZ"),
    ("f8e5m2", ml_dtypes.float8_e5m2, 8, "float", "f8E5M2"),
    ("f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 8, "float", "f8E5M2FNUZ"),
    ("f8e8m0fnu", ml_dtypes.float8_e8m0fnu, 8, "float", "f8E8M0FNU"),
    ("bf16", ml_dtypes.bfloat16, 16, "float", "bf16"),
    ("f16", np.float16, 16, "float", "f16"),
    ("f32", np.float32, 32, "float", "f32"),
    ("f64", np.float64, 64, "float", "f64"),
    ("c64", np.complex64, 64, "complex", "complex<f32>"),
    ("c128", np.complex128, 128, "complex", "complex<f64>"),
]
NAMES = [row[0] for row in TYPES]


def test_the_table_is_complete():
    assert set(NAMES) == set(ELEMENT_TYPES)


@pytest.mark.parametrize(("name", "dtype", "bits", "kind", "stablehlo"), TYPES, ids=NAMES)
def test_declaration(name, dtype, bits, kind, stablehlo):
    declared = ELEMENT_TYPES[name]
    assert (declared.name, declared.dtype, declared.bits) == (name, np.dtype(dtype), bits)
    assert (declared.kind, declared.stablehlo, repr(declared)) == (kind, stablehlo, name)
    assert declared.is_integer == (kind in ("signed", "unsigned"))
    assert declared.is_float == (kind == "float")
    assert declared.is_complex == (kind == "complex")
    assert declared.is_inexact == (kind in ("float", "complex"))


@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_name_a_type_gives_the_same_object(name):
    declared = ELEMENT_TYPES[name]
    for way in (declared, name, declared.dtype, declared.dtype.type):
        assert element_type(way) is declared
    assert pickle.loads(pickle.dumps(declared)) is declared
    assert copy.deepcopy(declared) is copy.copy(declared) is declared


@pytest.mark.parametrize("name", NAMES)
def test_mlir_spelling_is_that_of_the_oracles(name):
    assert type_name(ELEMENT_TYPES[name].dtype) == ELEMENT_TYPES[name].stablehlo


@pytest.mark.parametrize("name", NAMES)
def test_xla_parses_the_hlo_spelling(name):
    module = _hlo.hlo_module_from_text(
        f"HloModule m\n\nENTRY %m (a: {name}[2]) -> {name}[2] {{\n"
        f"  ROOT %a = {Shape(name, (2,))} parameter(0)\n}}\n"
    )
    assert f"{name}[2]" in module.to_string()


WRONG = [None, "f33", "float31", "", 3, object(), [], np.dtype("U3"), np.dtype(object), "M8[s]"]


@pytest.mark.parametrize(
    "value", [*WRONG, jax.dtypes.float0, np.dtype(">f4")], ids=lambda value: type(value).__name__
)
def test_what_is_no_type_is_refused(value):
    with pytest.raises(TypeError, match="is not an element type of XLA; the types are pred, s2"):
        element_type(value)


@pytest.mark.parametrize(
    ("name", "real", "complex_"),
    [("f32", "f32", "c64"), ("f64", "f64", "c128"), ("c64", "f32", "c64"), ("c128", "f64", "c128")],
)
def test_real_and_complex_counterparts(name, real, complex_):
    assert ELEMENT_TYPES[name].real is ELEMENT_TYPES[real]
    assert ELEMENT_TYPES[name].complex is ELEMENT_TYPES[complex_]


@pytest.mark.parametrize("name", ["pred", "s32", "bf16", "f8e5m2"])
def test_types_without_a_complex_counterpart(name):
    with pytest.raises(TypeError, match=f"must be f32 or f64, not {name}"):
        _ = ELEMENT_TYPES[name].complex
    assert ELEMENT_TYPES[name].real is ELEMENT_TYPES[name]


WIDTHS = [
    (bool, "pred", "pred"),
    (int, "s32", "s64"),
    (float, "f32", "f64"),
    (complex, "c64", "c128"),
]


@pytest.mark.parametrize(("python", "narrow", "wide"), WIDTHS)
def test_python_types_follow_the_64_bit_mode(python, narrow, wide):
    assert element_type(python).name == narrow
    with jax.enable_x64(True):
        assert element_type(python).name == wide
    assert element_type(python).name == narrow


@pytest.mark.parametrize("name", NAMES)
def test_canonical_types(name):
    narrow = {"s64": "s32", "u64": "u32", "f64": "f32", "c128": "c64"}.get(name, name)
    assert canonical_element_type(ELEMENT_TYPES[name]).name == narrow
    with jax.enable_x64(True):
        assert canonical_element_type(ELEMENT_TYPES[name]).name == name
