"""The values to try: complete, distinct, in range and the same every time."""

import ml_dtypes
import numpy as np
import pytest

from tests.oracles import (
    ALL_TYPES,
    BOOLEANS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    all_values,
    edge_pairs,
    edge_values,
    random_values,
    tensor_type,
    type_name,
)

types = pytest.mark.parametrize(
    "dtype", [dtype for _, dtype in ALL_TYPES], ids=[name for name, _ in ALL_TYPES]
)


@types
def test_edge_values_are_distinct_and_of_their_type(dtype):
    values = edge_values(dtype)
    assert values.dtype == dtype
    assert len({value.tobytes() for value in values}) == len(values) <= 200


@types
def test_edge_pairs_are_all_pairs(dtype):
    values = edge_values(dtype)
    lhs, rhs = edge_pairs(dtype)
    pairs = {(a.tobytes(), b.tobytes()) for a, b in zip(lhs, rhs, strict=True)}
    assert lhs.dtype == rhs.dtype == dtype
    assert len(pairs) == len(lhs) == len(values) ** 2


@types
def test_random_values_are_reproducible_and_within_bounds(dtype):
    low, high = (0.5, 4) if dtype == ml_dtypes.float8_e8m0fnu else (0, 1)
    values = random_values(dtype, (3, 50), 1, low, high)
    assert values.shape == (3, 50)
    assert values.dtype == dtype
    assert values.tobytes() == random_values(dtype, (3, 50), 1, low, high).tobytes()
    free = random_values(dtype, (200,), 1)
    assert free.tobytes() != random_values(dtype, (200,), 2).tobytes()
    for part in (np.real(values), np.imag(values)) if dtype.kind == "c" else (values,):
        wide = part.astype(np.float64)
        assert ((low <= wide) & (wide <= high)).all()


@pytest.mark.parametrize(("name", "dtype"), INTEGERS)
def test_random_integers_reach_the_ends_of_their_range(name, dtype):
    info = ml_dtypes.iinfo(dtype)
    values = random_values(dtype, (2000,), 3).astype(np.float64)
    width = float(info.max) - float(info.min) + 1
    assert values.min() < float(info.min) + width / 4
    assert values.max() >= float(info.max) - width / 4


@pytest.mark.parametrize(("name", "dtype"), INTEGERS)
def test_integer_edges_have_both_ends(name, dtype):
    info = ml_dtypes.iinfo(dtype)
    assert {int(info.min), int(info.max), 0} <= {int(value) for value in edge_values(dtype)}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_float_edges_have_what_breaks_implementations(dtype):
    info = ml_dtypes.finfo(dtype)
    wanted = [0.0, 1, 1 + info.eps, 0.5, 2.5, info.max, info.tiny, info.smallest_subnormal]
    wanted += [2.0 / float(info.eps), np.inf, np.nan]
    found = {value.tobytes() for value in edge_values(dtype)}
    for value in np.array(wanted, np.float64).astype(dtype):
        assert value.tobytes() in found
        assert (-value).tobytes() in found


def test_small_types_have_all_their_values():
    assert edge_values(ml_dtypes.int4).astype(int).tolist() == [*range(8), *range(-8, 0)]
    assert sorted(edge_values(ml_dtypes.float4_e2m1fn).astype(float))[-3:] == [3, 4, 6]
    assert all_values(np.bool_).tolist() == [False, True]
    assert len(all_values(ml_dtypes.bfloat16)) == 65536
    with pytest.raises(ValueError, match=r"2\*\*32 values"):
        all_values(np.float32)


def test_names():
    assert [*BOOLEANS, *INTEGERS, *FLOATS, *COMPLEX] == ALL_TYPES
    assert type_name(ml_dtypes.float8_e4m3fn) == "f8E4M3FN"
    assert tensor_type(np.zeros((2, 0), np.complex64)) == "tensor<2x0xcomplex<f32>>"
    assert tensor_type(np.bool_(True)) == "tensor<i1>"
    with pytest.raises(TypeError, match="no element type for NumPy's object"):
        type_name(object)
