"""The dialect mhlo, which TensorFlow writes, and custom calls for its operations."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import special

import minixla as mx
from tests.harness import compiled_rows

_FUNCTIONS = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin,
    "asinh": np.arcsinh, "atanh": np.arctanh, "cosh": np.cosh, "cosine": np.cos,
    "erf": special.erf, "exponential": np.exp, "log": np.log, "negate": np.negative,
    "sine": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "copy": np.positive,
}  # fmt: skip
_REAL_ONLY = "abs", "erf", "tan"
_BEYOND = ("acosh",)
_KINDS = {"f32": np.float32, "f64": np.float64, "complex<f32>": np.complex64}
ROWS = [
    (name, kind)
    for name in _FUNCTIONS
    for kind in _KINDS
    if not (kind[0] == "c" and name in _REAL_ONLY)
]
#: Operations that StableHLO has only as custom calls.
_CALLS = "acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "mulhi"


def _program(name: str, kind: str) -> str:
    type_ = f"tensor<2x{kind}>"
    return (
        f"func.func @main(%a: {type_}) -> {type_} {{\n"
        f"  %0 = mhlo.{name} %a : {type_}\n  return %0 : {type_}\n}}"
    )


def _operand(name: str, kind: str) -> np.ndarray:
    return (np.array([0.25, 0.5]) + (name in _BEYOND)).astype(_KINDS[kind])


@pytest.fixture(scope="module")
def found():
    """Run the programs as one compiled program, and in the reference."""
    rows = {}
    with jax.enable_x64(True):
        for row in ROWS:
            rows[row] = mx.import_stablehlo(_program(*row)), [_operand(*row)]
        compiled = compiled_rows(rows)
        return {
            row: (mx.reference(each)(*given), compiled(row)) for row, (each, given) in rows.items()
        }


@pytest.mark.parametrize("row", ROWS, ids=map(" ".join, ROWS))
def test_functions(found, row):
    name, kind = row
    expected = _FUNCTIONS[name](
        _operand(name, kind).astype(np.complex128 if kind[0] == "c" else float)
    )
    for value in found[row]:
        assert value.dtype == _KINDS[kind]
        np.testing.assert_allclose(value, expected, rtol=1e-12 if kind == "f64" else 2e-6)


@pytest.mark.parametrize("name", _CALLS)
def test_custom_calls(name):
    """Portable artifacts contain these calls without the dialect."""
    kind, arguments = ("i32", "%a, %a") if name == "mulhi" else ("f32", "%a")
    type_ = f"tensor<2x{kind}>"
    types = ", ".join([type_] * (arguments.count(",") + 1))
    text = (
        f"func.func @main(%a: {type_}) -> {type_} {{\n"
        f"  %0 = stablehlo.custom_call @mhlo.{name}({arguments}) "
        f"{{mhlo.attributes = {{}}, mhlo.version = 1 : i64}} : ({types}) -> {type_}\n"
        f"  return %0 : {type_}\n}}"
    )
    program = mx.import_stablehlo(text)
    if name == "mulhi":
        np.testing.assert_array_equal(mx.reference(program)(np.int32([1 << 20, -3])), [1 << 8, 0])
    else:
        operand = _operand(name, "f32")
        np.testing.assert_allclose(mx.jit(program)(operand), _FUNCTIONS[name](operand), rtol=2e-6)
        assert np.isfinite(mx.grad(lambda x: program(x).sum())(operand)).all()


_REGIONS = """
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>)
    -> (tensor<2x2xf32>, tensor<2x4xf32>, tensor<3xf32>, tensor<i32>) {
  %v, %i = mhlo.topk(%a, k=2, largest=true) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)
  %d = "mhlo.dot"(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %z = mhlo.constant dense<0.0> : tensor<f32>
  %r = mhlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>)
    -> tensor<3xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
      %s = mhlo.add %x, %y : tensor<f32>
      mhlo.return %s : tensor<f32>
    }
  %n = mhlo.constant dense<0> : tensor<i32>
  %w = mhlo.while(%c = %n) : tensor<i32>
    cond {
      %l = mhlo.constant dense<5> : tensor<i32>
      %t = mhlo.compare LT, %c, %l : (tensor<i32>, tensor<i32>) -> tensor<i1>
      mhlo.return %t : tensor<i1>
    } do {
      %o = mhlo.constant dense<2> : tensor<i32>
      %u = mhlo.add %c, %o : tensor<i32>
      mhlo.return %u : tensor<i32>
    }
  return %v, %d, %r, %w : tensor<2x2xf32>, tensor<2x4xf32>, tensor<3xf32>, tensor<i32>
}"""


def test_programs_and_regions():
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)
    expected = [[2, 1], [5, 4]], a @ b, a.sum(0), 6
    program = mx.import_stablehlo(_REGIONS)
    for run in (mx.reference, mx.jit):
        for value, each in zip(run(program)(a, b), expected, strict=True):
            np.testing.assert_array_equal(value, each)


@pytest.mark.parametrize("name", ["bitcast", "fusion"])
def test_operations_of_passes(name):
    region = "({ ^bb0(%b: tensor<2xf32>): mhlo.return %b : tensor<2xf32> })" * (name == "fusion")
    text = (
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
        f'  %0 = "mhlo.{name}"(%a) {region} : (tensor<2xf32>) -> tensor<2xf32>\n'
        "  return %0 : tensor<2xf32>\n}"
    )
    with pytest.raises(mx.ImportError_, match=rf"line 2.*mhlo.{name}(.|\n)*XLA's passes create"):
        mx.import_stablehlo(text)


def test_every_version_of_the_interface_of_custom_calls():
    for version in range(5):
        config = ", backend_config = {}" if version == 4 else ""
        text = (
            "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
            f"  %0 = stablehlo.custom_call @f(%a) {{api_version = {version} : i32{config}}} "
            ": (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}"
        )
        (step,) = mx.import_stablehlo(text).graph.instructions
        assert step.op.api_version == max(version, 1)
