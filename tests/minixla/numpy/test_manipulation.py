"""Functions that arrange, join, split, repeat and pad arrays, against jax.numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import Row, Table, call, check, gradient, numbered, run, values

BF16 = ml_dtypes.bfloat16
F32, S32, PRED = np.float32, np.int32, np.bool_

X = values(F32, 2, 3, 4)
M = values(F32, 3, 4)
V = values(F32, 5)
EMPTY = np.zeros((0, 3), F32)

CALLS = [
    ("append", (M, M[:1], 0), {}),
    ("append", (M, V), {}),
    ("array_split", (V, 3), {}),
    ("array_split", (X, [1, 3], 2), {}),
    ("atleast_1d", (np.float32(2),), {}),
    ("atleast_2d", (V,), {}),
    ("atleast_3d", (M,), {}),
    ("atleast_3d", (V,), {}),
    ("atleast_2d", (V, np.float32(1)), {}),
    ("block", ([[M, M], [M, M]],), {}),
    ("broadcast_arrays", (V, np.float32(2), values(F32, 3, 1)), {}),
    ("broadcast_to", (V, (2, 3, 5)), {}),
    ("column_stack", ([V, V],), {}),
    ("column_stack", ([M, M],), {}),
    ("concatenate", ([M, values(S32, 3, 2)],), {"axis": 1}),
    ("concatenate", ([M, V],), {"axis": None}),
    ("concatenate", ([M, M],), {"dtype": np.int32}),
    ("concatenate", (X,), {}),
    ("concatenate", ([EMPTY, EMPTY],), {}),
    ("delete", (V, 1), {}),
    ("delete", (M, slice(0, 2)), {"axis": 1}),
    ("delete", (M, np.array([0, 2])), {"axis": 1}),
    ("dsplit", (X, 2), {}),
    ("dstack", ([M, M],), {}),
    ("expand_dims", (M, (0, -1)), {}),
    ("expand_dims", (M, 1), {}),
    ("flip", (X,), {}),
    ("flip", (X, (0, -1)), {}),
    ("fliplr", (M,), {}),
    ("flipud", (M,), {}),
    ("hsplit", (M, 2), {}),
    ("hsplit", (V, 5), {}),
    ("hstack", ([V, V],), {}),
    ("hstack", ([M, M],), {}),
    ("insert", (V, 1, 7.0), {}),
    ("insert", (M, 1, V[:3]), {"axis": 1}),
    ("insert", (M, np.array([0, 2]), 5.0), {"axis": 1}),
    ("matrix_transpose", (X,), {}),
    ("moveaxis", (X, 0, -1), {}),
    ("moveaxis", (X, (0, 1), (2, 0)), {}),
    ("pad", (M, 2), {}),
    ("pad", (M, (1, 2)), {"constant_values": 5}),
    ("pad", (M, ((1, 0), (2, 3))), {"constant_values": ((1, 2), (3, 4))}),
    ("pad", (EMPTY, 1), {"constant_values": (1, 2)}),
    ("pad", (M, ((1, 0), (2, 3))), {"mode": "edge"}),
    ("pad", (M, ((4, 5), (2, 7))), {"mode": "reflect"}),
    ("pad", (M, ((2, 2), (5, 6))), {"mode": "symmetric"}),
    ("pad", (M, ((2, 2), (1, 1))), {"mode": "reflect", "reflect_type": "odd"}),
    ("pad", (M, ((4, 0), (5, 9))), {"mode": "wrap"}),
    ("pad", (M, 1), {"mode": "mean"}),
    ("pad", (values(S32, 3), 2), {"mode": "maximum"}),
    ("pad", (V, 1), {"mode": "empty"}),
    ("pad", (M, ((1, 0), (2, 3))), {"mode": "linear_ramp", "end_values": ((1, 2), (3, 4))}),
    ("pad", (M, ((1, 0), (2, 3))), {"mode": "minimum", "stat_length": 1}),
    ("pad", (M, 2), {"mode": "median", "stat_length": ((1, 2), (2, 3))}),
    ("pad", (V, (1, 2)), {"mode": lambda row, widths, axis, _: row.at[: widths[0]].set(axis + 7)}),
    ("permute_dims", (X, (2, 0, 1)), {}),
    ("ravel", (X,), {}),
    ("ravel", (X,), {"order": "F"}),
    ("repeat", (M, 2), {}),
    ("repeat", (M, 3), {"axis": 1}),
    ("repeat", (M, np.array([1, 0, 2])), {"axis": 0}),
    ("reshape", (X, (4, -1)), {}),
    ("reshape", (X, -1), {}),
    ("reshape", (X, (3, 8)), {"order": "F"}),
    ("reshape", (EMPTY, (3, 0)), {}),
    ("resize", (V, (2, 4)), {}),
    ("roll", (V, 2), {}),
    ("roll", (M, -1), {"axis": 1}),
    ("roll", (M, (1, 2)), {"axis": (0, 1)}),
    ("roll", (M, 5), {}),
    ("rollaxis", (X, 2), {}),
    ("rollaxis", (X, 0, 3), {}),
    ("rot90", (M,), {}),
    ("rot90", (X, 3, (0, 2)), {}),
    ("rot90", (X, 2), {}),
    ("split", (M, 3), {}),
    ("split", (X, [1, 2, 4]), {"axis": -1}),
    ("squeeze", (values(F32, 1, 3, 1),), {}),
    ("squeeze", (values(F32, 1, 3, 1), -1), {}),
    ("stack", ([M, M],), {"axis": -1}),
    ("stack", ([values(S32, 3), values(F32, 3)],), {}),
    ("swapaxes", (X, 0, -1), {}),
    ("tile", (V, 3), {}),
    ("tile", (M, (2, 1, 2)), {}),
    ("transpose", (X,), {}),
    ("transpose", (X, (1, 0, 2)), {}),
    ("unstack", (M,), {"axis": 1}),
    ("vsplit", (M, [1]), {}),
    ("vstack", ([V, V],), {}),
    ("shape", (X,), {}),
    ("ndim", (X,), {}),
    ("size", (X,), {}),
    ("broadcast_shapes", ((2, 1), (3,), 1), {}),
]


TABLE = numbered(call, CALLS)


@pytest.mark.parametrize("row", TABLE.rows)
def test_call(row: str) -> None:
    TABLE.check(row)


BLOCKS = Table(
    {
        "number": call("block", 2.5),
        "scalar": call("block", np.float32(2.5)),
        "matrix": call("block", M),
        "list": call("block", [1, 2.5]),
    }
)


@pytest.mark.parametrize("arrays", BLOCKS.rows)
def test_blocks_of_few_dimensions(arrays: str) -> None:
    BLOCKS.check(arrays)


DIFFERENTIABLE = [
    each
    for each in CALLS
    if each[0]
    in [
        "append",
        "array_split",
        "block",
        "broadcast_to",
        "flip",
        "pad",
        "repeat",
        "roll",
        "rot90",
        "tile",
        "unstack",
        "moveaxis",
    ]
    # Of integers there is no derivative.
    and each[2].get("mode") != "maximum"
]
GRADIENTS = numbered(gradient, DIFFERENTIABLE)


@pytest.mark.parametrize("row", GRADIENTS.rows)
def test_gradient(row: str) -> None:
    GRADIENTS.check(row)


def of_type(dtype: type) -> list[Row]:
    x = values(dtype, 2, 3)
    return [
        call("roll", x, 1),
        call("stack", [x, x]),
        call("tile", x, (2, 2)),
        call("pad", x, 1, mode="reflect"),
    ]


OTHER_TYPES = Table({dtype: of_type(dtype) for dtype in [BF16, S32, PRED, np.complex64]})


@pytest.mark.parametrize("dtype", OTHER_TYPES.rows)
def test_other_types(dtype: type) -> None:
    OTHER_TYPES.check(dtype)


def test_compiled() -> None:
    check(
        call("pad", M, 1, mode="edge", jit=True),
        call("roll", M, (1, 2), axis=(0, 1), jit=True),
    )
    repeated = mx.jit(lambda x: mnp.repeat(x, [1, 0, 2], 0))(M)
    np.testing.assert_array_equal(repeated, np.repeat(M, [1, 0, 2], 0))


def test_traced_shift() -> None:
    rolled = mx.jit(lambda x, n: mnp.roll(x, n, 1))
    for shift in (-7, -1, 0, 2, 5):
        np.testing.assert_array_equal(rolled(M, np.int32(shift)), np.roll(M, shift, 1))
    actual = mx.jit(lambda x, n: mnp.roll(x, n, (0, 1)))(M, np.array([1, 2], S32))
    np.testing.assert_array_equal(actual, np.roll(M, (1, 2), (0, 1)))


def test_traced_repeats() -> None:
    counts = np.array([1, 0, 2], S32)
    check(*(call("repeat", M, counts, axis=0, total_repeat_length=total) for total in (2, 3, 5)))
    with pytest.raises(mx.ConcretizationError, match=r"repeat: (.*\n)*.*Pass total_repeat_length"):
        mx.jit(lambda x, n: mnp.repeat(x, n, 0))(M, counts)


CONVERSIONS = Table(
    {
        dtype: [
            call("astype", values(source, 2, 3), np.dtype(dtype)) for source in (F32, S32, PRED)
        ]
        for dtype in [np.float16, BF16, S32, PRED, np.complex64, np.int8]
    }
)


@pytest.mark.parametrize("dtype", CONVERSIONS.rows)
def test_astype(dtype: type) -> None:
    CONVERSIONS.check(dtype)


def test_astype_of_complex_numbers() -> None:
    check(call("astype", np.array([1j, 0, 2], np.complex64), np.bool_))


ERRORS = [
    ("reshape", (X, (5, 5)), TypeError, "24 elements do not fit this shape"),
    ("reshape", (X, (-1, 5)), TypeError, "the size for -1 cannot be inferred"),
    ("reshape", (X, (-1, -1)), TypeError, "the size for -1 cannot be inferred"),
    ("squeeze", (X, 0), TypeError, "an axis whose size is not 1 cannot be removed"),
    ("broadcast_to", (V, (2,)), TypeError, "dimensions do not broadcast"),
    (
        "broadcast_to",
        (values(F32, 2, 1), (1, 3)),
        TypeError,
        "the array cannot be broadcast to this shape",
    ),
    ("broadcast_to", (V, (-1, 3)), ValueError, "a size is negative"),
    ("broadcast_shapes", ((-2, 1), 3), ValueError, "a size is negative"),
    ("broadcast_shapes", ((2.5,),), ValueError, "shape is not an integer"),
    ("repeat", (V[:2], [1, 2**70]), ValueError, "a count is negative or not an integer"),
    ("repeat", (V[:2], [1, -1]), ValueError, "a count is negative or not an integer"),
    ("insert", (V, 2**70, 1.0), mx.IndexingError, "an index does not fit the axis"),
    ("transpose", (X, (0, 1)), ValueError, "axes names 2 of 3"),
    ("concatenate", ([M, V],), TypeError, "different ranks"),
    ("concatenate", ([],), ValueError, "no array is given"),
    ("stack", ([M, V],), TypeError, "equal shapes"),
    ("split", (V, 2), ValueError, "cannot be split into 2 equal sections"),
    ("moveaxis", (X, (0, 1), 0), ValueError, "must be equally long"),
    ("expand_dims", (X, 5), np.exceptions.AxisError, "axis 5 is out of bounds"),
    ("swapaxes", (X, 0, -4), IndexError, "axis -4 is out of bounds"),
    ("astype", (X, "nonsense"), TypeError, "dtype is not an element type"),
]


@pytest.mark.parametrize(("name", "args", "kind", "message"), ERRORS)
def test_errors(name: str, args: tuple, kind: type, message: str) -> None:
    with pytest.raises(kind, match=rf"{name}: .*{message}") as caught:
        run(name, args, {})
    assert "called at" in str(caught.value)


def test_traced_sizes_are_explained() -> None:
    with pytest.raises(mx.ConcretizationError, match=r"reshape: shape must be known"):
        mx.jit(lambda x, n: mnp.reshape(x, (n, -1)))(X, 3)


def test_narrowing_of_dtypes_warns() -> None:
    with pytest.warns(UserWarning, match="zeros: dtype float64 was requested and becomes float32"):
        assert mnp.zeros(2, np.float64).dtype == np.float32
