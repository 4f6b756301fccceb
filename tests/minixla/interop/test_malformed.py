"""Programs that are none: each ends in an error that says where and what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minixla as mx
from tests.minixla.interop.import_programs import main

TEXTS = {
    "no operation": (main("%r = stablehlo.foo %x : tensor<2x3xf32>"),
                     r"line 2, column 6: custom op 'stablehlo.foo' is unknown"),
    "another dialect": (main("%r = arith.addf %x, %x : tensor<2x3xf32>"),
                        r"line 2, column 6: operation arith.addf is not known.*dialects stablehlo"),
    "a wrong type": (main("%r = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<5xf32>",
                          result="tensor<5xf32>"), r"line 2, column 6: number of output elements"),
    "no value": (main("%r = stablehlo.tanh %y : tensor<2x3xf32>"),
                 "use of undeclared SSA value name"),
    "no function": (main("%r = call @other(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
                    "'other' does not reference a valid function"),
    "quantised types": (main(
        "%q = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) "
        "-> tensor<2x3x!quant.uniform<i8:f32, 0.5>>\n  %r = stablehlo.uniform_dequantize %q : "
        "(tensor<2x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x3xf32>"),
        "line 2, column 77: .*unregistered dialect.*must be converted to StableHLO"),
    "a giant attribute": (main('%r = "stablehlo.cross-replica-sum"(%x) <{replica_groups = '
        "dense<0> : tensor<4294967296x1xi64>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
        "line 2, column 6: .* is too large"),
    "a type that MLIR's parser dies of": (
        main("%d = stablehlo.abs %x : tensor<2x, #stablehlo.bounds<?, 3>>"),
        "MLIR's parser dies of the text"),
    "a size that overflows": (main("%r = stablehlo.foo", "%x: tensor<4294967297x4294967297x1xi8>")
        .replace("return", "dense<[1]> : tensor<4294967296x4294967297xi8>"), "import_stablehlo"),
    "recursion": (main("%r = call @main(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
                  "function main calls itself.*use stablehlo.while"),
    "nothing": ("", "the module holds no function"),
    "words": ("hello world", "line 1, column 1: custom op 'hello' is unknown"),
    "a null character": ("func.func\0", "line 1, column 10: a null character"),
    "a name that is no UTF-8": (main('%r = call @"\\FF"(%x) '
                                     ": (tensor<2x3xf32>) -> tensor<2x3xf32>"),
                                "line 2, column 12: a string that is no UTF-8"),
    "half of a character": (main('%r = call @"\ud800"(%x) : (tensor<2x3xf32>) -> '
                                 "tensor<2x3xf32>"), "line 2, column 13: half of a surrogate pair"),
    "an unknown size": ("func.func @main(%x: tensor<2x?xf32>) -> tensor<2x?xf32> {\n"
                        "return %x : tensor<2x?xf32> }",
                        r"tensor<2x\?xf32> has a dimension without a bound.*export for fixed"),
    "an unknown element type": ("func.func @main(%x: tensor<2xi17>) -> tensor<2xi17> {\n"
                                "return %x : tensor<2xi17> }", "element type that XLA programs"),
    "no body": ("func.func private @main(%x: tensor<f32>) -> tensor<f32>", "main has no body"),
    "several functions": ("\n".join(main("%r = stablehlo.tanh %x : tensor<2x3xf32>").replace(
        "@main", f"@f{number}") for number in range(2)),
        "several functions and none is called main.*functions: f0, f1.*function="),
    "a callback": (main("%r = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) "
                        ": (tensor<2x3xf32>) -> tensor<2x3xf32>"),
                   "calls a Python function of the program's maker.*register_custom_call"),
    "a size that is no constant": (
        "func.func @main(%x: tensor<3xf32>, %s: tensor<1xi32>) -> tensor<?xf32> {\n"
        "%r = stablehlo.real_dynamic_slice %x, %s, %s, %s : (tensor<3xf32>, tensor<1xi32>, "
        "tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>\nreturn %r : tensor<?xf32> }",
        "start_indices, operand 1, is not a constant.*export it for fixed shapes"),
    "a fold that reads from outside": (main(
        '%r = "stablehlo.sort"(%x) <{dimension = 1 : i64}> ({\n'
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "%n = stablehlo.slice %x [0:1, 0:1] : (tensor<2x3xf32>) -> tensor<1x1xf32>\n"
        "%m = stablehlo.reshape %n : (tensor<1x1xf32>) -> tensor<f32>\n"
        "%c = stablehlo.compare LT, %a, %m : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "stablehlo.return %c : tensor<i1>\n}) : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
        "region 0 reads values from outside.*pass the values as operands"),
    "all_to_all without groups": (main(
        '%r = "stablehlo.all_to_all"(%x) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, '
        "split_count = 2 : i64, replica_groups = dense<> : tensor<0x0xi64>}> "
        ": (tensor<2x3xf32>) -> tensor<2x3xf32>"), "an all_to_all without replica groups"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_message_for_each_mistake(name):
    text, message = TEXTS[name]
    with pytest.raises(mx.ImportError_, match=re.compile(message, re.DOTALL)) as caught:
        mx.import_stablehlo(text)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("source", [b"\xff\x00 damaged", b"ML\xefR damaged", 5, None])
def test_what_is_no_program(source):
    with pytest.raises(mx.ImportError_, match=r"import_stablehlo: the (bytes|source)"):
        mx.import_stablehlo(source)


DEEP = 10_000
_NESTED = {
    "regions": main(
        "%p = stablehlo.constant dense<true> : tensor<i1>\n" + '%a = "stablehlo.if"(%p) ({\n' * DEEP
    ),
    "types": main("", f"%x: {'tuple<' * DEEP}tensor<f32>{'>' * DEEP}"),
    "brackets": "[" * DEEP,
    "constants": main(f"%r = stablehlo.constant dense<{'[' * DEEP}1.0{']' * DEEP}> : tensor<f32>"),
}


@pytest.mark.parametrize("what", _NESTED)
def test_nesting_is_limited(what):
    with pytest.raises(mx.ImportError_, match=r"line \d+, column \d+: more than \d+ brackets"):
        mx.import_stablehlo(_NESTED[what])


def chain(length: int) -> str:
    """A function that calls one that calls one ..."""
    type_ = "tensor<f32>"
    parts = [f"func.func private @f{length}(%x: {type_}) -> {type_} {{ return %x : {type_} }}"]
    for number in range(length):
        name = "public @main" if number == 0 else f"private @f{number}"
        parts.append(
            f"func.func {name}(%x: {type_}) -> {type_} {{\n%0 = stablehlo.sine %x : {type_}\n"
            f"%1 = call @f{number + 1}(%0) : ({type_}) -> {type_}\nreturn %1 : {type_} }}"
        )
    return "\n".join(parts)


def test_calls_within_each_other_are_limited():
    with pytest.raises(mx.ImportError_, match="more than 100 calls within each other"):
        mx.import_stablehlo(chain(DEEP).replace("\n", " \n"))


def test_what_is_deep_and_within_the_limit_works():
    program = mx.import_stablehlo(chain(90))
    x, wanted = np.float32(1), np.float32(1)
    for _ in range(90):
        wanted = np.sin(wanted)
    np.testing.assert_allclose(mx.reference(program)(x), wanted, rtol=1e-5)
    np.testing.assert_allclose(mx.jit(mx.grad(program))(x), mx.reference(mx.grad(program))(x), 1e-5)


def test_a_large_program_and_a_large_constant():
    steps = [f"%{i + 1} = stablehlo.sine %{i} : tensor<2x3xf32>" for i in range(100_000)]
    text = main("\n".join(steps).replace("%0 ", "%x ", 1)).replace("%r", "%100000")
    assert len(mx.import_stablehlo(text).graph.instructions) == 100_000
    big = "tensor<99999999999x3xf32>"
    text = main(f"%r = stablehlo.constant dense<1.0> : {big}", "", big)
    literal = mx.import_stablehlo(text).graph.instructions[0].attributes["literal"]
    assert literal.is_splat
