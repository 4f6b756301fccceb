"""Programs that are none: each ends in an error that says where and what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minixla as mx
from tests.minixla.interop.import_programs import as_artifact, as_bytecode, main

TEXTS = {
    "no operation": (main("%r = stablehlo.foo %x : tensor<2x3xf32>"),
                     r"line 2, column 6: custom op 'stablehlo.foo' is unknown.*mistyped"),
    "another dialect": (main("%r = arith.addf %x, %x : tensor<2x3xf32>"),
                        r"line 2, column 6: operation arith.addf is not known.*dialects stablehlo"),
    "a wrong type": (main("%r = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<5xf32>",
                          result="tensor<5xf32>"),
                     "line 2, column 6: number of output elements.*breaks a rule of the operation"),
    "no value": (main("%r = stablehlo.tanh %y : tensor<2x3xf32>"),
                 "use of undeclared SSA value name.*defined before their uses"),
    "no function": (main("%r = call @other(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
                    "'other' does not reference a valid function.*Define the function"),
    "quantised types": (main(
        "%q = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) "
        "-> tensor<2x3x!quant.uniform<i8:f32, 0.5>>\n  %r = stablehlo.uniform_dequantize %q : "
        "(tensor<2x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x3xf32>"),
        "line 2, column 77: the quantized type !quant.uniform<i8:f32, 0.5> is not supported.*"
        "legalize-quant-to-math"),
    "a giant attribute": (main('%r = "stablehlo.cross-replica-sum"(%x) <{replica_groups = '
        "dense<0> : tensor<4294967296x1xi64>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
        "line 2, column 6: .* is too large.*Write its numbers out"),
    "a type that MLIR's parser dies of": (
        main("%d = stablehlo.abs %x : tensor<2x, #stablehlo.bounds<?, 3>>"),
        r"line 2, column 1: MLIR's parser crashes on this line: .*\n  %d = .*correct it"),
    "a size that overflows": (main("%r = stablehlo.foo", "%x: tensor<4294967297x4294967297x1xi8>")
        .replace("return", "dense<[1]> : tensor<4294967296x4294967297xi8>"), "import_stablehlo"),
    "recursion": (main("%r = call @main(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
                  "function main calls itself.*use stablehlo.while"),
    "nothing": ("", "the source is empty.*Pass a StableHLO module"),
    "blanks": (" \n\t\n", "the source is empty.*Pass a StableHLO module"),
    "a comment": ("// a program\n", "the module holds no function.*Pass a StableHLO module"),
    "no functions": ("module {}", "the module holds no function.*Pass a StableHLO module"),
    "the beginning of a program": (
        main("%r = stablehlo.tanh %x : tensor<2x3xf32>")[:80],
        "line 2, column 22: .*not all of it"),
    "an operation of another dialect": (
        main("%r = tosa.add %x, %x : tensor<2x3xf32>"),
        "line 2, column 6: .*not found for custom op.*convert operations of"),
    "a mistyped name": (
        main('%r = "stablehlo.addd"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>'),
        "unregistered operation 'stablehlo.addd'.*mistyped"),
    "two types": (main("%r = stablehlo.abs %x : tensor<5xf32>"),
                  "expects different type than prior uses.*A value has one type"),
    "an operation of several lines": (
        main("""%r = "stablehlo.concatenate"(%x, %x) {
          dimension = 0 : i64
        } : (tensor<2x3xf32>,
             tensor<2x3xf32>) -> tensor<5x3xf32>""", result="tensor<5x3xf32>"),
        r"line 2, column 6: .*\n  %r = \"stablehlo.concatenate\"\(%x, %x\) \{\n"
        r"  types \(tensor<2x3xf32>, tensor<2x3xf32>\) -> tensor<5x3xf32>\n.*breaks a rule"),
    "an operation in words over several lines": (
        main("""%r = stablehlo.dot_general %x, %x,
            contracting_dims =
            [1] x [0]
          : (tensor<2x3xf32>, tensor<2x3xf32>)
          -> tensor<2x3xf32>"""),
        r"\n  types \(tensor<2x3xf32>, tensor<2x3xf32>\) -> tensor<2x3xf32>\n.*breaks a rule"),
    "an operation with a region": (
        main("""%z = stablehlo.constant dense<0.0> : tensor<f32>
        %r = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 5>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>""", result="tensor<2xf32>"),
        r"line 3, .*\n  types \(tensor<2x3xf32>, tensor<f32>\) -> tensor<2xf32>\n.*breaks a rule"),
    "a long line": (
        main(f'%r = "stablehlo.abs"(%x) {{a = "{"a" * 200}"}} : (tensor<2x3xf32>) -> tensor<5xf32>',
             result="tensor<5xf32>"),
        r"line 2, column 6: .*\n  types \(tensor<2x3xf32>\) -> tensor<5xf32>\n.*breaks a rule"),
    "a size that changes on its way out": (
        main("""%a = "stablehlo.tanh"(%x) : (tensor<2x3xf32>) -> tensor<?x3xf32>
        %r = "stablehlo.tanh"(%a) : (tensor<?x3xf32>) -> tensor<5x3xf32>""",
             result="tensor<5x3xf32>"),
        r"line 3, column 14: stablehlo.tanh: the result is declared f32\[5,3\], but is f32\[2,3\]"),
    "sizes that differ where they are unknown": (
        main("""%a = "stablehlo.tanh"(%x) : (tensor<2x3xf32>) -> tensor<?x3xf32>
        %b = stablehlo.constant dense<0.0> : tensor<5x3xf32>
        %c = "stablehlo.tanh"(%b) : (tensor<5x3xf32>) -> tensor<?x3xf32>
        %r = stablehlo.add %a, %c : tensor<?x3xf32>""", result="tensor<?x3xf32>"),
        r"line 5, column 14: stablehlo.add: .*f32\[2,3\].*f32\[5,3\].*breaks a rule"),
    "HLO": ("HloModule m\n", "line 1, column 1: .*which mx.import_hlo reads"),
    "words": ("hello world", "line 1, column 1: custom op 'hello' is unknown"),
    "a null character": ("func.func\0", "line 1, column 10: a null character"),
    "a name that is not UTF-8": (main('%r = call @"\\FF"(%x) '
                                     ": (tensor<2x3xf32>) -> tensor<2x3xf32>"),
                                "line 2, column 12: a string that is not UTF-8.*write it as UTF-8"),
    "half of a character": (main('%r = call @"\ud800"(%x) : (tensor<2x3xf32>) -> '
                                 "tensor<2x3xf32>"), r"column 13: half of a surrogate .*\\ud800"),
    "an unknown size": ("func.func @main(%x: tuple<tensor<2x?xf32>>) -> tuple<tensor<2x?xf32>> {\n"
                        "return %x : tuple<tensor<2x?xf32>> }",
                        r"tensor<2x\?xf32> has a dimension without a bound.*export for fixed"),
    "an unknown element type": ("func.func @main(%x: tensor<2xi17>) -> tensor<2xi17> {\n"
                                "return %x : tensor<2xi17> }", "element type that XLA programs"),
    "no body": ("func.func private @main(%x: tensor<f32>) -> tensor<f32>", "main has no body"),
    "several functions": ("\n".join(main("%r = stablehlo.tanh %x : tensor<2x3xf32>").replace(
        "@main", f"@f{number}") for number in range(2)),
        "several functions and none is called main.*functions: f0, f1.*function="),
    "a callback": (main("%r = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) "
                        ": (tensor<2x3xf32>) -> tensor<2x3xf32>"),
                   "calls a Python function of another process.*register_custom_call"),
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
        ": (tensor<2x3xf32>) -> tensor<2x3xf32>"),
        "an all_to_all without replica groups.*list the groups"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_message_for_each_mistake(name):
    text, message = TEXTS[name]
    with pytest.raises(mx.ImportError_, match=re.compile(message, re.DOTALL)) as caught:
        mx.import_stablehlo(text)
    assert isinstance(caught.value, ValueError)
    str(caught.value).encode()


@pytest.mark.parametrize(
    "source",
    [
        b"\xff\x00 damaged",
        b"ML\xefR damaged",
        b"ML\xefR",
        b"",
        bytearray(),
        memoryview(b" "),
        5,
        None,
    ],
)
def test_what_is_no_program(source):
    message = r"import_stablehlo: the (bytes|source)(.*\n)*.*Pass a StableHLO module"
    with pytest.raises(mx.ImportError_, match=message):
        mx.import_stablehlo(source)


@pytest.mark.parametrize("read", [mx.import_stablehlo, mx.import_hlo])
def test_files_that_hold_no_program(read, tmp_path):
    message = rf"{read.__name__}: cannot read (.*\n)*.*Pass the path"
    for path in (tmp_path, str(tmp_path), tmp_path / "no such file"):
        with pytest.raises(mx.ImportError_, match=message):
            read(path)
    for name, content in {"empty": b"", "binary": b"\xff\xfe\x00"}.items():
        path = tmp_path / name
        path.write_bytes(content)
        for each in (path, str(path)):
            with pytest.raises(mx.ImportError_, match=rf"{read.__name__}: (the|line 1,)"):
                read(each)


def test_strings_of_binary_programs_are_utf8():
    """Python's interface to MLIR ends the process over others."""
    text = main('%r = stablehlo.tanh %x : tensor<2x3xf32> loc("caf\\C3\\A9":1:1)')
    (step,) = mx.import_stablehlo(as_bytecode(text)).graph.instructions
    assert str(step.source) == "café:1 (program)"
    with pytest.raises(mx.ImportError_, match="a string that is not UTF-8"):
        mx.import_stablehlo(as_bytecode(text.replace("\\A9", "")))


def test_programs_that_are_cut_off():
    for form in (as_bytecode, as_artifact):
        whole = form(main("%r = stablehlo.tanh %x : tensor<2x3xf32>"))
        for size in (5, 20, len(whole) // 2, len(whole) - 1):
            with pytest.raises(mx.ImportError_, match="the bytes are neither text"):
                mx.import_stablehlo(whole[:size])


def test_the_line_of_which_the_parser_dies_is_found_in_a_long_text():
    steps = [f"%{i + 1} = stablehlo.sine %{i} : tensor<2x3xf32>" for i in range(300)]
    steps[123] = "%124 = stablehlo.abs %123 : tensor<2x, #stablehlo.bounds<?, 3>>"
    text = main("\n".join(steps).replace("%0 ", "%x ", 1)).replace("%r", "%300")
    with pytest.raises(mx.ImportError_, match=r"line 125, column 1: MLIR's parser crashes on"):
        mx.import_stablehlo(text)


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
    with pytest.raises(
        mx.ImportError_, match=r"line \d+, column \d+: more than \d+ nested brackets"
    ):
        mx.import_stablehlo(_NESTED[what])


@pytest.mark.parametrize("mark", ["d0 >= 0", "-d0 <= 0", "text"])
def test_what_only_looks_like_brackets_is_not_counted(mark):
    arrows = ", ".join(["() -> ()"] * 300)
    sets = f"affine_set<(d0) : ({', '.join([mark] * 300)})>" if "d" in mark else repr("<([" * 300)
    module = f"module attributes {{a.types = [{arrows}], a.sets = {sets}}} {{".replace("'", '"')
    text = f"{module} // {'{<' * 300}\n{main('%r = stablehlo.tanh %x : tensor<2x3xf32>')}\n}}"
    assert len(mx.import_stablehlo(text).graph.instructions) == 1


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
    with pytest.raises(mx.ImportError_, match="more than 100 nested calls"):
        mx.import_stablehlo(chain(DEEP).replace("\n", " \n"))


def test_what_is_deep_and_within_the_limit_works():
    program = mx.import_stablehlo(chain(90))
    x, wanted = np.float32(1), np.float32(1)
    for _ in range(90):
        wanted = np.sin(wanted)
    np.testing.assert_allclose(mx.reference(program)(x), wanted, rtol=1e-5)
    np.testing.assert_allclose(mx.jit(mx.grad(program))(x), mx.reference(mx.grad(program))(x), 1e-5)


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_a_large_program(count):
    steps = [f"%{i + 1} = stablehlo.sine %{i} : tensor<2x3xf32>" for i in range(count)]
    text = main("\n".join(steps).replace("%0 ", "%x ", 1)).replace("%r", f"%{count}")
    assert len(mx.import_stablehlo(text).graph.instructions) == count


def test_a_large_constant():
    big = "tensor<99999999999x3xf32>"
    text = main(f"%r = stablehlo.constant dense<1.0> : {big}", "", big)
    literal = mx.import_stablehlo(text).graph.instructions[0].op.literal
    assert literal.is_splat


_LOCATIONS = [
    "{a = loc(unknown)}",
    '{a = [loc("x":1:1)]}',
    "{a = {b = loc(unknown)}}",
    "{a = #place}",
    "{a = [1, #place]}",
    "{mhlo.frontend_attributes = loc(unknown)}",
]


@pytest.mark.parametrize("form", [str, as_bytecode])
@pytest.mark.parametrize("attribute", _LOCATIONS)
def test_locations_as_attributes(attribute, form):
    """MLIR's Python bindings would end the process for these."""
    text = main(f"%r = stablehlo.sine %x {attribute} : tensor<2x3xf32>")
    with pytest.raises(mx.ImportError_, match=r"(location|dies)"):
        mx.import_stablehlo(form(f'#place = loc("x":1:1)\n{text}'))


@pytest.mark.parametrize(
    "attribute", ["mhlo.num_partitions = 1.0 : f32", 'mhlo.num_partitions = "a"']
)
def test_attributes_of_other_kinds(attribute):
    text = main("%r = stablehlo.sine %x {mhlo.sharding = 3 : i32} : tensor<2x3xf32>")
    with pytest.raises(mx.ImportError_, match=r"mhlo\.sharding"):
        mx.import_stablehlo(f"module attributes {{{attribute}}} {{\n{text}\n}}")


_WIDE = ("f64", np.float64, "f32"), ("i64", np.int64, "s32"), ("complex<f64>", np.complex128, "c64")


@pytest.mark.parametrize("written, dtype, narrow", _WIDE)
@pytest.mark.parametrize("run", [lambda p: p, mx.jit, mx.reference, mx.vmap, mx.cost])
def test_wide_programs_without_the_mode_for_them(run, written, dtype, narrow):
    type_ = f"tensor<2x{written}>"
    text = f"func.func @main(%a: {type_}) -> {type_} {{ return %a : {type_} }}"
    given = np.ones((3, 2) if run is mx.vmap else 2, dtype)
    with pytest.raises(mx.ShapeError, match=rf"{narrow}\[2\](.|\n)*jax_enable_x64"):
        if run is mx.cost:
            mx.cost(mx.import_stablehlo(text), given)
        else:
            run(mx.import_stablehlo(text))(given)


def test_other_types_are_to_be_converted():
    text = "func.func @main(%a: tensor<2xf64>) -> tensor<2xf64> { return %a : tensor<2xf64> }"
    with pytest.raises(mx.ShapeError, match=r"Convert or reshape the operand"):
        mx.import_stablehlo(text)(np.int32([1, 2]))
