"""Products, einsum and norms against jax.numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.minixla.numpy.tables import Row, Table, call, check, gradient, numbered, run, values

BF16 = ml_dtypes.bfloat16
F32, S32, PRED, C64 = np.float32, np.int32, np.bool_, np.complex64


def a(*shape: int, dtype: type = F32) -> np.ndarray:
    return values(dtype, *shape)


def b(*shape: int, dtype: type = F32) -> np.ndarray:
    return values(dtype, *shape, seed=1)


CALLS = [
    ("cross", (a(2, 3), b(2, 3)), {}),
    ("cross", (a(2, 2), b(2, 3)), {}),
    ("cross", (a(4, 2), b(4, 2)), {}),
    ("cross", (a(3, 2), b(3, 2)), {"axis": 0}),
    ("dot", (a(3), b(3)), {}),
    ("dot", (a(2, 3), b(3)), {}),
    ("dot", (a(2, 3), b(4, 3, 2)), {}),
    ("dot", (a(2, 3), np.float32(2)), {}),
    ("inner", (a(2, 3), b(4, 3)), {}),
    ("inner", (a(2, 3), np.float32(2)), {}),
    ("kron", (a(2, 3), b(3, 2)), {}),
    ("kron", (a(2), b(3, 2)), {}),
    ("matmul", (a(2, 3), b(3, 4)), {}),
    ("matmul", (a(3), b(3)), {}),
    ("matmul", (a(3), b(5, 3, 2)), {}),
    ("matmul", (a(5, 2, 3), b(3)), {}),
    ("matmul", (a(5, 2, 3), b(3, 4)), {}),
    ("matmul", (a(5, 2, 3), b(5, 3, 4)), {}),
    ("matmul", (a(5, 1, 2, 3), b(4, 3, 2)), {}),
    ("matmul", (a(1, 2, 3), b(5, 3, 2)), {}),
    ("matmul", (a(2, 5, 2, 3), b(2, 1, 3, 2)), {}),
    ("matmul", (a(1, 1, 2, 3), b(1, 3, 2)), {}),
    ("matmul", (a(2, 0), b(0, 3)), {}),
    ("matvec", (a(5, 2, 3), b(3)), {}),
    ("outer", (a(2, 2), b(3)), {}),
    ("tensordot", (a(2, 3, 4), b(3, 4, 5)), {}),
    ("tensordot", (a(2, 3), b(4)), {"axes": 0}),
    ("tensordot", (a(2, 3, 4), b(4, 2)), {"axes": ([0, 2], [1, 0])}),
    ("tensordot", (a(2, 3), b(3, 2)), {"axes": (1, 0)}),
    ("vdot", (a(2, 3), b(2, 3)), {}),
    ("vdot", (a(3, dtype=C64), b(3, dtype=C64)), {}),
    ("vecdot", (a(4, 3, dtype=C64), b(3, dtype=C64)), {}),
    ("vecdot", (a(3, 4), b(3, 4)), {"axis": 0}),
    ("vecmat", (a(3), b(5, 3, 2)), {}),
    ("linalg.cross", (a(2, 3), b(3)), {}),
    ("linalg.cross", (a(3, 2), b(3, 1)), {"axis": 0}),
    ("linalg.outer", (a(2), b(3)), {}),
    ("linalg.matrix_power", (a(3, 3), 3), {}),
    ("linalg.matrix_power", (a(2, 3, 3), 0), {}),
    ("linalg.multi_dot", ([a(2, 3), b(3, 4), a(4, 2)],), {}),
    ("linalg.multi_dot", ([a(3), b(3, 4), a(4)],), {}),
    ("linalg.norm", (a(2, 3),), {}),
    ("linalg.norm", (a(2, 3, dtype=C64),), {"axis": 1}),
    ("linalg.norm", (a(2, 3),), {"ord": np.inf, "axis": 1}),
    ("linalg.norm", (a(2, 3),), {"ord": -np.inf, "axis": 0}),
    ("linalg.norm", (a(2, 3),), {"ord": 3, "axis": 1, "keepdims": True}),
    ("linalg.norm", (a(2, 3),), {"ord": 1}),
    ("linalg.norm", (a(2, 3),), {"ord": np.inf}),
    ("linalg.norm", (a(4, 2, 3),), {"ord": "fro", "axis": (1, 2), "keepdims": True}),
    ("linalg.norm", (a(4, 2, 3),), {"ord": -1, "axis": (0, 2)}),
    ("linalg.norm", (a(5),), {"ord": 0}),
    ("linalg.vector_norm", (a(2, 3),), {"ord": 1}),
    ("linalg.matrix_norm", (a(4, 2, 3),), {}),
]


TABLE = numbered(call, CALLS, units=64)


@pytest.mark.parametrize("row", TABLE.rows)
def test_call(row: str) -> None:
    TABLE.check(row)


SUBSCRIPTS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("bij,bkj->ibk", (5, 2, 3), (5, 4, 3)),
    ("...ij,jk->...ik", (5, 2, 3), (3, 4)),
    ("...i,...i", (5, 3), (3,)),
    ("i,i->", (3,), (3,)),
    ("i,j->ij", (3,), (2,)),
    ("i,j->ji", (3,), (2,)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij->ji", (3, 3, 2)),
    ("iii->i", (2, 2, 2)),
    ("ijk->kj", (2, 3, 4)),
    ("ij->", (2, 3)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ii,ij->j", (3, 3), (3, 2)),
    ("ijk,k->i", (2, 3, 4), (4,)),
    ("ij,kl->", (2, 3), (3, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ab,bc,cd,de->ae", (2, 3), (3, 2), (2, 4), (4, 3)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 3, 4)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("i...->...", (2, 3, 4)),
    ("ij, j -> i", (2, 3), (3,)),
]


def summed(subscripts: str, *shapes: tuple[int, ...]) -> Row:
    arrays = [values(F32, *shape, seed=at) for at, shape in enumerate(shapes)]
    return call("einsum", subscripts, *arrays, units=64)


EINSUMS = Table({row[0] + str(at): summed(*row) for at, row in enumerate(SUBSCRIPTS)})


@pytest.mark.parametrize("row", EINSUMS.rows)
def test_einsum(row: str) -> None:
    EINSUMS.check(row)


@pytest.mark.parametrize("subscripts", ["bij,bjk->bik", "ij,jk,kl->li"])
def test_einsum_compiled_and_differentiated(subscripts: str) -> None:
    rank = subscripts.index(",")
    arrays = [values(F32, *(2, 3, 3)[-rank:], seed=at) for at in range(subscripts.count(",") + 1)]
    check(
        call("einsum", subscripts, *arrays, units=64, jit=True),
        gradient("einsum", subscripts, *arrays, units=256),
    )


def test_forms_of_einsum() -> None:
    x, y = a(2, 3), b(3, 4)
    narrow = x.astype(BF16), y.astype(BF16)
    check(
        call("einsum", x, [0, 1], y, [1, 2], [0, 2]),
        call("einsum", x, [Ellipsis, 1], y, [1, 2]),
        *(
            call("einsum", "ij,jk,k->i", x, y, b(4), optimize=optimize, units=64)
            for optimize in (False, True, "greedy", [(0, 1), (0, 1)])
        ),
        call("einsum", "ij,jk->ik", *narrow, preferred_element_type=np.float32),
        call("einsum", "ij,jk->ik", narrow[0], values(S32, 3, 4)),
    )
    path, _ = mnp.einsum_path("ij,jk,kl->il", x, y, b(4, 2))
    assert sorted(len(step) for step in path) == [2, 2]
    for text, given in (("ij->i", [x]), ("ij,jk->ik", [x, y])):
        path, _ = mnp.einsum_path(text, *given, optimize=False)
        assert path == jnp.einsum_path(text, *given, optimize=False)[0]


def test_a_batch_of_matrices_is_one_product() -> None:
    graph = mx.make_graph(mnp.matmul)(a(5, 2, 3), b(5, 3, 4))
    assert [each.op.name for each in graph.instructions] == ["DotGeneral"]


def test_einsum_is_one_product_without_transposition() -> None:
    graph = mx.make_graph(lambda x, y: mnp.einsum("bqd,bkd->bqk", x, y))(a(2, 3, 4), b(2, 5, 4))
    assert [each.op.name for each in graph.instructions] == ["DotGeneral"]


@pytest.mark.parametrize("sizes", [[(2, 3, 4), (4,)], [(4,), (2, 4, 3)], [(3, 4), (4,)]])
def test_products_with_a_vector_keep_the_order_of_operands(sizes: list[tuple[int, ...]]) -> None:
    # In the other one XLA:CPU transposes a stack in memory.
    graph = mx.make_graph(mnp.matmul)(*[a(*each) for each in sizes])
    (product,) = graph.instructions
    assert list(product.operands) == list(graph.inputs)


TYPES = [(BF16, BF16), (S32, S32), (F32, S32), (PRED, PRED), (C64, F32), (BF16, F32)]


PRODUCTS = Table(
    {
        (first, second): [
            call(
                name,
                a(2, 3, dtype=first),
                b(3, 3, dtype=second),
                **({"axes": 1} if name == "tensordot" else {}),
            )
            for name in ("matmul", "dot", "tensordot", "inner")
        ]
        for first, second in TYPES
    }
)


@pytest.mark.parametrize(("first", "second"), TYPES)
def test_types(first: type, second: type) -> None:
    PRODUCTS.check((first, second))


def test_accumulation_type() -> None:
    x, y = a(2, 3, dtype=BF16), b(3, 2, dtype=BF16)
    bytes_ = values(np.int8, 2, 3), values(np.int8, 3, 2)
    check(
        call("matmul", x, y, preferred_element_type=np.float32),
        call("dot", x, y, preferred_element_type=np.float32, jit=True),
        call("matmul", *bytes_, preferred_element_type=np.int32),
    )


GRADIENTS = Table(
    {
        name: gradient(name, a(3, 3), b(3, 3), units=256)
        for name in ["matmul", "dot", "inner", "outer", "kron", "vdot", "cross"]
    }
)


@pytest.mark.parametrize("name", GRADIENTS.rows)
def test_gradient(name: str) -> None:
    GRADIENTS.check(name)


def test_gradient_of_a_broadcast_product() -> None:
    check(
        gradient("matmul", a(5, 1, 2, 3), b(4, 3, 2), units=256),
        gradient("linalg.norm", a(2, 3), axis=1),
    )


def test_operators() -> None:
    x, y = a(2, 3), b(3, 2)
    expected = x @ y
    for left in (lambda x: x @ y, lambda x: x @ mnp.asarray(y), lambda x: (y.T @ x.T).T):
        np.testing.assert_allclose(mx.reference(left)(x), expected, rtol=1e-5)


ERRORS = [
    ("matmul", (a(2, 3), b(2, 3)), TypeError, "contracting dimensions must be equal"),
    ("matmul", (np.float32(2), b(2, 3)), TypeError, "an operand is a scalar"),
    ("matmul", (a(2, 2, 3), b(3, 3, 2)), TypeError, "do not broadcast"),
    ("matmul", (a(5, 2, 1), b(5, 4, 2)), TypeError, "matmul: contracting dimensions must be equal"),
    ("matmul", (a(3), b(5, 2, 3)), TypeError, "matmul: contracting dimensions must be equal"),
    ("einsum", ("ij,jk->ik", a(2, 3), b(2, 3)), ValueError, "subscripts do not fit"),
    ("einsum", ("ijk->i", a(2, 3)), ValueError, "subscripts do not fit"),
    ("einsum", ("ij->q", a(2, 3)), ValueError, "subscripts do not fit"),
    ("einsum", (a(2, 3), b(2, 3)), ValueError, "the subscripts must be text, or operands that"),
    (
        "einsum",
        (a(2, 3), [0, 1], [2]),
        ValueError,
        "the subscripts must be text, or operands that",
    ),
    ("einsum", ("ij",), ValueError, "no operands"),
    ("linalg.norm", (a(2, 2), "nuclear"), ValueError, "ord='nuclear' is not a norm of matrices"),
    ("linalg.norm", (a(2, 2, 2), 2), ValueError, "3 axes"),
    ("linalg.lstsq", (a(2, 2), b(2), "x"), TypeError, "argument rcond"),
]


@pytest.mark.parametrize(("name", "args", "kind", "message"), ERRORS)
def test_errors(name: str, args: tuple, kind: type, message: str) -> None:
    with pytest.raises(kind, match=f"(?s)(?=.*{message}).*called at"):
        run(name, args, {})


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("float32", "HIGHEST"),
        ("bfloat16_3x", "HIGH"),
        ("tensorfloat32", "HIGH"),
        ("bfloat16", "DEFAULT"),
        ("fastest", "DEFAULT"),
    ],
)
def test_precisions_have_the_names_of_jaxs(name, wanted):
    x = np.ones((2, 2), np.float32)
    text = mx.make_graph(lambda x: mnp.matmul(x, x, precision=name))(x).stablehlo()
    assert f"precision = [{wanted}, {wanted}]" in text
    theirs = jax.jit(lambda x: jnp.matmul(x, x, precision=name)).lower(x).as_text()
    assert wanted == "DEFAULT" or f"precision = [{wanted}, {wanted}]" in theirs
