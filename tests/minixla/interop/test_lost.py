"""Attributes that graphs do not hold: one warning names them, their lines and the caller's line."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.tools.command_line import main

_HOST = 'mhlo.frontend_attributes = {_xla_compute_type = "host"}'


def _program(body: str = "", argument: str = "", module: str = "", function: str = "") -> str:
    return (
        f"module {module} {{\nfunc.func @main(%a: tensor<4xf32> {argument}) -> tensor<4xf32> "
        f"{function} {{\n  {body or '%0 = stablehlo.sine %a : tensor<4xf32>'}\n"
        "  return %0 : tensor<4xf32>\n}\n}"
    )


_SUM = """%0 = "stablehlo.all_reduce"(%a) ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y {inner} : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }}) {{{outer}replica_groups = dense<0> : tensor<1x1xi64>}} : (tensor<4xf32>) -> tensor<4xf32>"""
_CALL = "%0 = stablehlo.custom_call @f(%a) {{{}}} : (tensor<4xf32>) -> tensor<4xf32>"
_ALGORITHM = (
    "#stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, "
    "accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, "
    "num_primitive_operations = 3, allow_imprecise_accumulation = false>"
)
_DOT = (
    '%1 = "stablehlo.dot_general"(%a, %a) <{dot_dimension_numbers = #stablehlo.dot<'
    "lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, "
    f"algorithm = {_ALGORITHM}}}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>\n"
    "  %0 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<4xf32>"
)
#: Programs, and a part of the warning.
LOST = {
    "an operation": (
        _program(f"%0 = stablehlo.sine %a {{{_HOST}}} : tensor<4xf32>"),
        r"frontend_attributes \(_xla_compute_type\) of stablehlo.sine \(line 3\)",
    ),
    "two operations": (
        _program(
            f"%1 = stablehlo.sine %a {{{_HOST}}} : tensor<4xf32>\n"
            f"%0 = stablehlo.sine %1 {{{_HOST}}} : tensor<4xf32>"
        ),
        r"_xla_compute_type\) of stablehlo.sine \(line 3\)",
    ),
    "a constant": (
        _program(f"%0 = stablehlo.constant {{{_HOST}}} dense<1.0> : tensor<4xf32>"),
        "_xla_compute_type",
    ),
    "an operation of a region": (
        _program(_SUM.format(inner=f"{{{_HOST}}}", outer="")),
        r"_xla_compute_type\) of stablehlo.add \(line 5\)",
    ),
    "an operation with a region": (
        _program(_SUM.format(inner="", outer=f"{_HOST}, ")),
        r"_xla_compute_type\) of stablehlo.all_reduce \(line 3\)",
    ),
    "a custom call": (
        _program(_CALL.format(_HOST)),
        "_xla_compute_type.* of stablehlo.custom_call",
    ),
    "an attribute of any name": (
        _program("%0 = stablehlo.sine %a {own.hint = 3 : i32} : tensor<4xf32>"),
        "own.hint of stablehlo.sine",
    ),
    "aliased operands": (
        _program(
            _CALL.format(
                "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices "
                "= [], operand_index = 0, operand_tuple_indices = []>]"
            )
        ),
        "output_operand_aliases of stablehlo.custom_call",
    ),
    "an algorithm": (_program(_DOT), "algorithm of stablehlo.dot_general"),
    "an argument": (
        _program(argument='{mhlo.memory_kind = "pinned_host"}'),
        r"mhlo.memory_kind of argument 0 of @main \(line 2\)",
    ),
    "a donated argument": (
        _program(argument="{tf.aliasing_output = 0 : i32}"),
        "tf.aliasing_output of argument 0 of @main",
    ),
    "a function": (_program(function="attributes {own.mark}"), "own.mark of function @main"),
    "the module": (
        _program(module='attributes {mhlo.frontend_attributes = {fast = "yes"}}'),
        r"mhlo.frontend_attributes \(fast\) of the module",
    ),
    "HLO": (
        "HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n"
        '  ROOT c = f32[4] sine(p), frontend_attributes={_xla_compute_type="host",b="c"}\n}',
        r"frontend_attributes \(_xla_compute_type, b\) of sine \(line 4\)",
    ),
    "a fusion of HLO": (
        "HloModule m\nf {\n  p = f32[4] parameter(0)\n  ROOT s = f32[4] sine(p)\n}\n"
        "ENTRY e {\n  p = f32[4] parameter(0)\n"
        '  ROOT c = f32[4] fusion(p), kind=kLoop, calls=f, frontend_attributes={a="b"}\n}',
        r"frontend_attributes \(a\) of fusion \(line 8\)",
    ),
    "an alias of HLO": (
        "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e {\n"
        "  p = f32[4] parameter(0)\n  ROOT s = f32[4] sine(p)\n}",
        "input_output_alias of the module",
    ),
}
#: Programs without lost attributes.
KEPT = {
    "nothing": _program(),
    "what JAX writes": jax.jit(lambda x: jax.nn.softmax(x) @ x).lower(np.ones(4, "f4")).as_text(),
    "an empty attribute": _program(
        "%0 = stablehlo.sine %a {mhlo.frontend_attributes = {}} : tensor<4xf32>"
    ),
    "whether to inline": _program(
        '%0 = stablehlo.sine %a {mhlo.frontend_attributes = {inlineable = "false"}} : tensor<4xf32>'
    ),
    "layouts": _program(
        _CALL.format("result_layouts = [dense<0> : tensor<1xindex>]").replace(
            "result_layouts", "operand_layouts = [dense<0> : tensor<1xindex>], result_layouts"
        )
    ),
    "HLO": jax.jit(lambda x: x @ x).lower(np.ones(4, "f4")).as_text("hlo"),
}


def _read(text: str) -> tuple[list[warnings.WarningMessage], int]:
    """Return the warnings of an import, and the line of the call."""
    read = mx.import_hlo if text.startswith("HloModule") else mx.import_stablehlo
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1
        read(text)
    return issued, line


@pytest.mark.parametrize("text, message", LOST.values(), ids=LOST)
def test_lost(text, message):
    (issued,), line = _read(text)
    assert issued.category is UserWarning
    assert (issued.filename, issued.lineno) == (__file__, line)
    with pytest.warns(UserWarning, match=message):
        warnings.warn_explicit(issued.message, None, __file__, line)


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_kept(text):
    issued, _ = _read(text)
    assert not [str(each.message) for each in issued]


def test_each_kind_is_counted_once():
    (issued,), _ = _read(LOST["two operations"][0])
    assert str(issued.message).count("_xla_compute_type") == 1


def test_what_we_write_is_kept():
    """Reading the text of an imported program does not warn."""
    for text, _ in LOST.values():
        if not text.startswith("HloModule"):
            with pytest.warns(UserWarning):
                graph = mx.import_stablehlo(text).graph
            assert not _read(graph.stablehlo())[0]


def test_passes():
    with pytest.warns(UserWarning, match="run_pass: .*_xla_compute_type.* of stablehlo.sine"):
        mx.sharding.run_pass("symbol-dce", LOST["an operation"][0])


def test_command_line(tmp_path: Path, capsys):
    (tmp_path / "p.mlir").write_text(LOST["an operation"][0])
    assert main(["show", str(tmp_path / "p.mlir")]) == 0
    told = capsys.readouterr().err
    assert told.startswith(f"minixla show: {tmp_path}/p.mlir: the graph does not hold mhlo.front")
