"""Products of two element types: read, evaluated, compiled, differentiated and batched."""

from __future__ import annotations

from itertools import permutations

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.element_types import BY_STABLEHLO, ElementType
from tests.harness import compiled_rows

_FLOATS = "f4E2M1FN", "f8E4M3FN", "f8E5M2", "bf16", "f16", "f32", "f64"
_OTHERS = ("i8", "ui8"), ("ui8", "i4"), ("i8", "i32"), ("i1", "i32"), ("ui16", "i64")
_MIXED = ("i8", "bf16"), ("f32", "i32"), ("i1", "f16")
_COMPLEX = ("complex<f32>", "f32"), ("f64", "complex<f32>")
PAIRS = [*permutations(_FLOATS, 2), *_OTHERS, *_MIXED, *_COMPLEX]
_LHS, _RHS = np.array([[0, 1, 2], [1, 3, 1]]), np.array([[1, 0], [1, 2], [1, 1]])
_RANK = {"pred": 0, "signed": 1, "unsigned": 1, "float": 2, "complex": 3}


def _result(lhs: ElementType, rhs: ElementType) -> ElementType:
    """Return the type of the product: the later kind of the two, then the wider type."""
    return max(lhs, rhs, key=lambda each: (_RANK[each.kind], each.bits))


def _program(lhs: str, rhs: str, result: str, body: str = "") -> str:
    """Write a program with a matrix product."""
    a, b, out = f"tensor<2x3x{lhs}>", f"tensor<3x2x{rhs}>", f"tensor<2x2x{result}>"
    body = body or "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]"
    return (
        f"func.func @main(%a: {a}, %b: {b}) -> {out} {{\n"
        f"  %0 = {body} : ({a}, {b}) -> {out}\n  return %0 : {out}\n}}"
    )


def _operands(lhs: ElementType, rhs: ElementType) -> tuple[np.ndarray, np.ndarray]:
    return _LHS.astype(lhs.dtype), _RHS.astype(rhs.dtype)


def _expected(operands: tuple[np.ndarray, np.ndarray], result: ElementType) -> np.ndarray:
    wide = [each.astype(np.complex128) for each in operands]
    product = np.matmul(*wide)
    return (product if result.is_complex else np.real(product)).astype(result.dtype)


def _inexact(pair: tuple[str, str]) -> list[int]:
    return [at for at, each in enumerate(pair) if BY_STABLEHLO[each].is_inexact]


def _every_way(program, pair):
    """Compute the product, batches of both operands and of one, and the gradients."""

    def total(lhs, rhs):
        return program(lhs, rhs).sum().astype("float64")

    def compute(lhs, rhs):
        both = mx.vmap(program)(mx.numpy.stack([lhs, lhs]), mx.numpy.stack([rhs, rhs]))
        one = mx.vmap(program, (None, 0))(lhs, mx.numpy.stack([rhs, rhs]))
        slopes = ()
        if _inexact(pair) and pair not in _COMPLEX:
            slopes = mx.grad(total, _inexact(pair))(lhs, rhs)
        return program(lhs, rhs), both, one, slopes

    return compute


@pytest.fixture(scope="module")
def compiled():
    """Compute the programs of all pairs in every way, in one compiled program."""
    rows = {}
    with jax.enable_x64(True):
        for pair in PAIRS:
            lhs, rhs = (BY_STABLEHLO[each] for each in pair)
            program = mx.import_stablehlo(_program(*pair, _result(lhs, rhs).stablehlo))
            rows[pair] = _every_way(program, pair), _operands(lhs, rhs)
        found = compiled_rows(rows)
    return rows, found


def _check(found, pair):
    lhs, rhs = (BY_STABLEHLO[each] for each in pair)
    operands, result = _operands(lhs, rhs), _result(lhs, rhs)
    expected = _expected(operands, result)
    value, both, one, slopes = found
    np.testing.assert_array_equal(value, expected)
    assert value.dtype == result.dtype
    for batch in (both, one):
        np.testing.assert_array_equal(batch, np.stack([expected, expected]))
    left, right = (np.real(each.astype(np.complex128)) for each in operands)
    sums = np.tile(right.sum(1), (2, 1)), np.tile(left.sum(0)[:, None], (1, 2))
    for at, slope in zip(_inexact(pair), slopes, strict=bool(slopes)):
        assert slope.dtype == operands[at].dtype
        np.testing.assert_array_equal(slope, sums[at].astype(slope.dtype))


@pytest.mark.parametrize("pair", PAIRS, ids=map(" x ".join, PAIRS))
def test_products(compiled, pair):
    rows, found = compiled
    function, operands = rows[pair]
    with jax.enable_x64(True):
        _check(mx.reference(function)(*operands), pair)
        _check(found(pair), pair)


_FORMS = {
    "dot": "stablehlo.dot %a, %b",
    "einsum": '"stablehlo.einsum"(%a, %b) {einsum_config = "ij,jk->ik"}',
    "dot_general": "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]",
}


@pytest.mark.parametrize("result", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("form", _FORMS)
def test_forms(form, result):
    """The result may have the type of one operand or another type."""
    pair = [BY_STABLEHLO[each] for each in ("f16", "bf16")]
    program = mx.import_stablehlo(_program("f16", "bf16", result, _FORMS[form]))
    expected = _expected(_operands(*pair), BY_STABLEHLO[result])
    np.testing.assert_array_equal(mx.reference(program)(*_operands(*pair)), expected)
    np.testing.assert_array_equal(mx.jit(program)(*_operands(*pair)), expected)


def test_ragged_dot():
    text = """
func.func @main(%a: tensor<3x2xbf16>, %b: tensor<2x2x2xf32>, %n: tensor<2xi32>)
    -> tensor<3x2xf32> {
  %0 = "chlo.ragged_dot"(%a, %b, %n) {precision_config = [], ragged_dot_dimension_numbers =
    #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [],
    lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
    lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}
    : (tensor<3x2xbf16>, tensor<2x2x2xf32>, tensor<2xi32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}"""
    program = mx.import_stablehlo(text)
    lhs, rhs = np.arange(6).reshape(3, 2), np.arange(8).reshape(2, 2, 2)
    given = lhs.astype(BY_STABLEHLO["bf16"].dtype), rhs.astype("f4"), np.int32([1, 2])
    expected = np.concatenate([lhs[:1] @ rhs[0], lhs[1:] @ rhs[1]]).astype("f4")
    for run in (mx.reference, mx.jit):
        np.testing.assert_array_equal(run(program)(*given), expected)


def test_the_text_keeps_both_types():
    """Conversions are written only for platforms without mixed products."""
    graph = mx.import_stablehlo(_program("bf16", "f32", "f32")).graph
    assert "(tensor<2x3xbf16>, tensor<3x2xf32>) -> tensor<2x2xf32>" in graph.stablehlo()
    assert mx.import_stablehlo(graph.stablehlo()).graph == graph
