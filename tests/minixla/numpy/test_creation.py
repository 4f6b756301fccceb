"""Functions that make arrays, matrices and dtypes, against jax.numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core.element_types import element_type
from tests.minixla.numpy.tables import (
    Table,
    assert_close,
    call,
    check,
    gradient,
    numbered,
    run,
    values,
)

BF16 = ml_dtypes.bfloat16
F32, S32, PRED = np.float32, np.int32, np.bool_
M = values(F32, 3, 4)
V = values(F32, 3)

CALLS = [
    ("arange", (5,), {}),
    ("arange", (2, 7), {}),
    ("arange", (1, 9, 3), {}),
    ("arange", (5, 0, -2), {}),
    ("arange", (0.5, 3), {}),
    ("arange", (0, 1, 0.1), {}),
    ("arange", (5,), {"dtype": BF16}),
    ("arange", (3, 1), {}),
    ("array", ([1, 2, 3],), {}),
    ("array", ([[1.5, 2], [3, 4]],), {}),
    ("array", ([True, False],), {}),
    ("array", ([],), {}),
    ("array", ([1, 2j],), {}),
    ("array", ([np.float16(1), 2.0],), {}),
    ("array", ([V, V],), {}),
    ("array", (3,), {"ndmin": 2}),
    ("array", (V,), {"dtype": np.int32}),
    ("asarray", (2.5,), {}),
    ("asarray", ([1, 2],), {"dtype": np.uint8}),
    ("empty", ((2, 3),), {}),
    ("empty_like", (M,), {}),
    ("eye", (3,), {}),
    ("eye", (3, 4), {"k": 1, "dtype": np.int32}),
    ("eye", (4, 3), {"k": -2}),
    ("full", ((2, 3), 7), {}),
    ("full", (3, 1.5), {"dtype": BF16}),
    ("full", ((2, 3), V), {}),
    ("full_like", (M, 2), {}),
    ("full_like", (M, 2), {"dtype": np.int32, "shape": (2,)}),
    ("geomspace", (1, 1000, 4), {}),
    ("identity", (3,), {}),
    ("indices", ((2, 3),), {}),
    ("indices", ((2, 3),), {"sparse": True}),
    ("ix_", (np.array([0, 2]), np.array([1, 3, 0])), {}),
    ("linspace", (0, 1, 5), {}),
    ("linspace", (0, 10, 4), {"endpoint": False}),
    ("linspace", (0, 10, 4), {"dtype": np.int32}),
    ("linspace", (V, 2, 3), {"axis": -1}),
    ("linspace", (V, 2, 3), {"retstep": True}),
    ("linspace", (0, 1, 1), {}),
    ("linspace", (0, 1, 0), {}),
    ("logspace", (0, 2, 5), {}),
    ("meshgrid", (V, np.arange(2, dtype=F32)), {}),
    ("meshgrid", (V, V), {"indexing": "ij", "sparse": True}),
    ("ones", (3,), {}),
    ("ones", ((2, 0),), {"dtype": np.bool_}),
    ("ones_like", (M,), {"dtype": BF16}),
    ("tri", (3,), {}),
    ("tri", (3, 5), {"k": 1, "dtype": np.int32}),
    ("zeros", ((2, 3),), {}),
    ("zeros", ((),), {"dtype": np.complex64}),
    ("zeros_like", (M,), {}),
    ("diag", (V,), {}),
    ("diag", (V,), {"k": 2}),
    ("diag", (V,), {"k": -1}),
    ("diag", (M,), {"k": 1}),
    ("diagflat", (M[:2, :2],), {"k": -1}),
    ("diagonal", (values(F32, 3, 4, 2),), {}),
    ("diagonal", (values(F32, 3, 4, 2), 1, 2, 0), {}),
    ("diagonal", (M, -1), {}),
    ("diagonal", (M, 9), {}),
    ("fill_diagonal", (M, 5.0), {"inplace": False}),
    ("fill_diagonal", (M, V), {"inplace": False}),
    ("trace", (M,), {}),
    ("trace", (values(S32, 2, 3, 3), 1, 1, 2), {}),
    ("tril", (M,), {}),
    ("tril", (values(S32, 2, 3, 3), -1), {}),
    ("triu", (M, 1), {}),
    ("triu", (values(PRED, 3, 3),), {}),
    ("tril_indices", (3,), {}),
    ("triu_indices", (3, 1, 4), {}),
    ("diag_indices", (3,), {}),
    ("vander", (V,), {}),
    ("vander", (V, 2), {"increasing": True}),
]


TABLE = numbered(call, CALLS)


@pytest.mark.parametrize("row", TABLE.rows)
def test_call(row: str) -> None:
    TABLE.check(row)


GRADIENTS = Table(
    {
        name: [gradient(name, M), gradient(name, M, 1)]
        for name in ["diag", "diagonal", "tril", "triu", "trace", "diagflat"]
    }
)


@pytest.mark.parametrize("name", GRADIENTS.rows)
def test_gradient(name: str) -> None:
    GRADIENTS.check(name)


def test_gradient_of_linspace() -> None:
    check(gradient("linspace", V, V[::-1].copy(), 4))


@pytest.mark.parametrize("mask", [[True, False, True], [False, False, False]])
def test_a_grid_of_truth_values(mask: list[bool]) -> None:
    found, expected = (library.ix_(np.arange(2), np.array(mask)) for library in (mnp, np))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_lists_of_traced_values() -> None:
    def made(x):
        return mnp.array([[x[0], 2.0], [1, x[1] * x[1]]])

    value, slope = mx.jit(lambda x: (made(x), mx.grad(lambda x: made(x).sum())(x)))(V)
    np.testing.assert_allclose(value, [[V[0], 2], [1, V[1] ** 2]], rtol=1e-6)
    np.testing.assert_allclose(slope, [1, 2 * V[1], 0], rtol=1e-6)


def test_a_traced_function_has_no_large_constants() -> None:
    graph = mx.make_graph(lambda x: x + mnp.arange(1000) * mnp.ones(1000) + mnp.zeros(1000))(
        np.ones(1000, F32)
    )
    names = [instruction.op.name for instruction in graph.instructions]
    assert "Iota" in names
    literals = [i.op.literal for i in graph.instructions if i.op.name == "Constant"]
    assert all(literal.is_splat for literal in literals)


def test_weak_types() -> None:
    half = np.ones(2, BF16)
    assert mx.reference(lambda x: x * mnp.full(2, 1.0))(half).dtype == BF16
    assert mx.reference(lambda x: x * mnp.ones(2))(half).dtype == np.float32
    assert mx.reference(lambda x: x * mnp.asarray(1.0))(half).dtype == BF16


DTYPES = ["bool_", "int8", "uint32", "bfloat16", "float16", "float32", "complex64", "float8_e4m3fn"]


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_names(name: str) -> None:
    ours, theirs = getattr(mnp, name), getattr(jnp, name)
    assert np.dtype(ours) == np.dtype(theirs)
    assert mnp.zeros(2, ours).dtype == ours
    assert ours(1).dtype == theirs
    assert hash(ours) == hash(np.dtype(theirs))


PAIRS = [(F32, S32), (BF16, np.float16), (np.int8, np.uint8), (PRED, np.int8), (np.complex64, F32)]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_promotion(first: type, second: type) -> None:
    assert mnp.promote_types(first, second) == jnp.promote_types(first, second)
    assert mnp.result_type(first, second, 1.0) == jnp.result_type(first, second, 1.0)
    assert mnp.result_type(first, float) == jnp.result_type(first, float)
    x = np.ones(2, first)
    assert mnp.result_type(x, 2) == jnp.result_type(jnp.asarray(x), 2)


def test_dtypes_are_strong() -> None:
    assert mnp.result_type(np.dtype(np.float32), BF16) == np.float32
    assert mnp.result_type(float, BF16) == BF16
    assert mnp.result_type(np.dtype(np.float64), BF16) == np.float32


def test_questions_about_dtypes() -> None:
    abstract = [np.floating, np.integer, np.number, np.inexact, np.complexfloating, np.generic]
    for dtype in (BF16, F32, S32, PRED, np.complex64, np.uint8):
        for kind in (*abstract, np.float32, np.int32):
            assert mnp.issubdtype(dtype, kind) == jnp.issubdtype(dtype, kind)
        for kind in ("bool", "integral", "real floating", "numeric", ("bool", "complex floating")):
            assert mnp.isdtype(np.dtype(dtype), kind) == jnp.isdtype(np.dtype(dtype), kind)
    assert mnp.issubdtype(np.floating, np.inexact)
    assert mnp.finfo(BF16).eps == jnp.finfo(BF16).eps
    assert mnp.iinfo(S32).max == jnp.iinfo(S32).max
    assert mnp.finfo(np.complex64).max == np.finfo(F32).max
    assert mnp.finfo(1.5).max == np.finfo(np.float64).max
    assert mnp.iinfo(7).max == np.iinfo(np.int64).max
    assert mnp.iscomplexobj(np.complex64(1))
    assert mnp.isrealobj(V)
    assert mnp.isscalar(3)
    assert not mnp.isscalar(V)


@pytest.mark.parametrize(
    "name", [n for n in dir(mnp) if isinstance(getattr(mnp, n), mnp.ScalarType)]
)
def test_limits_of_a_dtype_of_an_array_and_of_their_names(name: str) -> None:
    kind = getattr(mnp, name)
    dtype = kind.dtype
    forms = [kind, dtype, dtype.type, dtype.name, np.ones(2, dtype), element_type(dtype)]
    if mnp.isdtype(dtype, "integral"):
        found = {(limits.min, limits.max, limits.bits) for limits in map(mnp.iinfo, forms)}
        assert found == {(int(x.min), int(x.max), x.bits) for x in [ml_dtypes.iinfo(dtype)]}
    elif not mnp.isdtype(dtype, "bool"):
        found = {(float(limits.eps), float(limits.max)) for limits in map(mnp.finfo, forms)}
        assert found == {(float(x.eps), float(x.max)) for x in [jnp.finfo(dtype)]}


ERRORS = [
    ("arange", (None,), mx.ShapeError, "start of type NoneType is not an array"),
    ("array", ([[1, 2], [3]],), TypeError, "the value is not convertible"),
    ("array", (["a"],), TypeError, r"argument object\[0\] of type str is not an array"),
    ("arange", (0, 1, 0), ValueError, "step is 0"),
    ("zeros", (-1,), ValueError, "a size is negative"),
    ("zeros", (2**70,), mx.SizeError, "more than"),
    ("eye", (-1,), ValueError, "N is negative"),
    ("eye", (3, -1), ValueError, "M is negative"),
    ("eye", (2**70,), mx.SizeError, "more than"),
    ("identity", (-1,), ValueError, "N is negative"),
    ("tri", (-1,), ValueError, "N is negative"),
    ("tri", (2.5,), ValueError, "N is not an integer"),
    ("arange", (2**70, 2**70 + 3), mx.IntegerRangeError, "start, a Python int, does not fit s32"),
    ("arange", (0, 3, 2**70), mx.IntegerRangeError, "step, a Python int, does not fit s32"),
    ("arange", (float("inf"),), ValueError, "a bound is not finite"),
    ("arange", (float("nan"),), ValueError, "a bound is not finite"),
    ("arange", (0, 10**400, 0.5), ValueError, "a bound is not finite, or far too large"),
    ("tril", (V,), TypeError, "It must have two"),
    ("array", ([1, 2**70],), mx.IntegerRangeError, "a member, a Python int, does not fit s32.*118"),
    ("array", ([[1], [300]], "int8"), OverflowError, "does not fit s8.*300"),
    ("array", (300, "int8"), OverflowError, "does not fit s8.*300"),
    ("array", (300.0, "int8"), OverflowError, "does not fit s8.*300"),
    ("array", ([np.int32(300)], "int8"), OverflowError, "does not fit s8.*300"),
    ("asarray", (-1, "uint8"), OverflowError, "does not fit u8.*-1"),
    ("array", (float("nan"), "int32"), ValueError, "cannot convert.*numbers that s32 can hold"),
    ("array", (1j, "float32"), TypeError, "must be.*numbers that f32 can hold"),
    ("full", (2, 2**70), mx.IntegerRangeError, "fill_value, a Python int, does not fit s32"),
]


@pytest.mark.parametrize(("name", "args", "kind", "message"), ERRORS)
def test_errors(name: str, args: tuple, kind: type, message: str) -> None:
    with pytest.raises(mx.MinixlaError, match=rf"(?s)(?=.*({message})).*called at") as caught:
        run(name, args, {})
    assert isinstance(caught.value, kind)


def test_diagonals_far_away_are_empty() -> None:
    for far in (2**70, -(2**70)):
        assert not mnp.eye(3, k=far).any()
        for name in ("tril", "triu"):
            is_whole = (name == "tril") == (far > 0)
            assert_close(getattr(mnp, name)(M, far), M if is_whole else np.zeros_like(M))


def test_traced_bounds_are_explained() -> None:
    with pytest.raises(
        mx.ConcretizationError, match="arange: the shape of the result depends on values"
    ):
        mx.jit(mnp.arange)(3)


def test_eager_arrays_are_jax_arrays() -> None:
    for made in (mnp.zeros(3), mnp.arange(3), mnp.eye(2), mnp.array([1, 2]), mnp.linspace(0, 1, 3)):
        assert isinstance(made, jax.Array)
    assert_close(
        mnp.fromfunction(lambda i, j: i + j, (2, 3)), jnp.fromfunction(lambda i, j: i + j, (2, 3))
    )
