"""Programs for propagation, by every strategy; see `edge_programs`."""

from __future__ import annotations

_PARTS = 'sdy.mesh @mesh = <["p"=8, "q"=2]>\n'
_THREE = 'sdy.mesh @mesh = <["p"=2, "q"=2, "r"=2]>\n'


def _of(operation: str, arguments: str, result: str, mesh: str = "", at: str = "") -> str:
    """A program of one operation."""
    start = f"{mesh}func.func @main" if mesh else ""
    body = f"  %y = {operation}\n  return %y : {result}"
    return f"{start}({arguments}) -> ({result}{at}) {{\n{body}\n}}"


_WHILE = """  %w = stablehlo.while(%a = %x) : t8x8
    cond {
      %t = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      BODY
    }
  %e = sdy.data_flow_edge %w : t8x8
"""


def _loop(body: str, x: str = "", result: str = "") -> str:
    return (
        f"(%x: t8x8{x}) -> (t8x8{result}) {{\n{_WHILE.replace('BODY', body)}  return %e : t8x8\n}}"
    )


_SQUARE = """%s = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (t8x8, t8x8) -> t8x8
      stablehlo.return %s : t8x8"""
_ORDER = "[dense<[1, 0]> : tensor<2xindex>]"
_LAYOUTS = f'{{backend_config = "", operand_layouts = {_ORDER}, result_layouts = {_ORDER}}}'


def _with_rule(rule: str) -> str:
    """An operation of which the program says how its operands and results are split."""
    stated = f"{{sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}}"
    arguments = "%x: t4x8 at [{p}, {}], %z: t4x8"
    return _of(f"stablehlo.add %x, %z {stated} : t4x8", arguments, "t4x8")


_RULES = {
    "without a factor of the result": "([i, j], [k, j])->([i, j]) {i=4, j=8, k=4}",
    "with nothing in common": "([i, j], [k, l])->([m, n]) {i=4, j=8, k=4, l=8, m=4, n=8}",
    "that replicates": "([i, j], [i, j])->([i, j]) {i=4, j=8} need_replication={i}",
    "that is blocked": "([i, j], [i, j])->([i, j]) {i=4, j=8} blocked_propagation={i}",
    "of users": "([i, j], [k, j])->([i, j]) {i=4, j=8, k=4}, custom",
}

PROGRAMS = {f"a stated rule {name}": _with_rule(rule) for name, rule in _RULES.items()} | {
    # Operations.
    "a batched product": _of(
        "stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1]\n"
        "      : (t4x8x16, t4x16x12) -> t4x8x12",
        "%x: t4x8x16 at [{p}, {}, {q}], %w: t4x16x12",
        "t4x8x12",
    ),
    "a product of one array with itself": _of(
        "stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (t8x8, t8x8) -> t8x8",
        "%x: t8x8 at [{p}, {?}]",
        "t8x8",
    ),
    "a product whose operands want one axis, and its result": _of(
        "stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (t8x16, t16x8) -> t8x8",
        "%x: t8x16 at [{?}, {p, ?}], %w: t16x8 at [{?}, {p, ?}]",
        "t8x8",
        at=" at [{p}, {?}]",
    ),
    "a broadcast": _of(
        "stablehlo.broadcast_in_dim %x, dims = [1] : (t8) -> t4x8", "%x: t8 at [{p}]", "t4x8"
    ),
    "a broadcast, from its result": _of(
        "stablehlo.broadcast_in_dim %x, dims = [1] : (t8) -> t4x8",
        "%x: t8",
        "t4x8",
        at=" at [{q}, {p}]",
    ),
    "a broadcast of a dimension of size one": _of(
        "stablehlo.broadcast_in_dim %x, dims = [0, 1] : (t8x1) -> t8x4",
        "%x: t8x1 at [{p}, {q}]",
        "t8x4",
    ),
    "a transpose": _of(
        "stablehlo.transpose %x, dims = [1, 2, 0] : (t2x4x8) -> t4x8x2",
        "%x: t2x4x8 at [{p}, {?}, {q}]",
        "t4x8x2",
    ),
    "a reduction": _of(
        "stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]\n"
        "      : (t8x4, tensor<f32>) -> t8",
        "%x: t8x4 at [{q}, {p}], %z: tensor<f32>",
        "t8",
    ),
    "a concatenation": _of(
        "stablehlo.concatenate %x, %y0, dim = 1 : (t8x4, t8x2) -> t8x6",
        "%x: t8x4 at [{p}, {q}], %y0: t8x2",
        "t8x6",
    ),
    "a slice": _of(
        "stablehlo.slice %x [0:8, 0:2] : (t8x4) -> t8x2", "%x: t8x4 at [{p}, {q}]", "t8x2"
    ),
    "a slice that keeps a dimension": _of(
        "stablehlo.slice %x [0:8, 0:2] : (t8x4) -> t8x2", "%x: t8x4", "t8x2", at=" at [{p}, {q}]"
    ),
    "a padding": _of(
        "stablehlo.pad %x, %z, low = [0, 1], high = [0, 1], interior = [0, 0]\n"
        "      : (t8x4, tensor<f32>) -> t8x6",
        "%x: t8x4 at [{p}, {q}], %z: tensor<f32>",
        "t8x6",
    ),
    "a reverse": _of("stablehlo.reverse %x, dims = [1] : t8x4", "%x: t8x4 at [{p}, {q}]", "t8x4"),
    "a dynamic slice": _of(
        "stablehlo.dynamic_slice %x, %i, %i, sizes = [8, 2]\n"
        "      : (t8x4, tensor<i32>, tensor<i32>) -> t8x2",
        "%x: t8x4 at [{p}, {q}], %i: tensor<i32>",
        "t8x2",
    ),
    "a dynamic update": _of(
        "stablehlo.dynamic_update_slice %x, %u, %i, %i\n"
        "      : (t8x4, t8x2, tensor<i32>, tensor<i32>) -> t8x4",
        "%x: t8x4, %u: t8x2 at [{p}, {q}], %i: tensor<i32>",
        "t8x4",
    ),
    "rows that are gathered": _of(
        '"stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], '
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
        "indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}\n"
        "      : (t16x8, tensor<4x1xi32>) -> t4x8",
        "%x: t16x8 at [{p}, {q}], %i: tensor<4x1xi32> {sdy.sharding = "
        '#sdy.sharding<@mesh, [{"p"}, {}]>}',
        "t4x8",
    ),
    "a choice among arrays": _of(
        "stablehlo.select %c, %x, %y0 : tensor<8x4xi1>, t8x4",
        '%c: tensor<8x4xi1> {sdy.sharding = #sdy.sharding<@mesh, [{"p", ?}, {?}]>}, %x: t8x4, '
        "%y0: t8x4 at [{?}, {q}]",
        "t8x4",
    ),
    "a choice by one boolean": _of(
        "stablehlo.select %c, %x, %y0 : tensor<i1>, t8x4",
        "%c: tensor<i1>, %x: t8x4 at [{p}, {?}], %y0: t8x4",
        "t8x4",
    ),
    "a clamp": _of(
        "stablehlo.clamp %z, %x, %z : (tensor<f32>, t8x4, tensor<f32>) -> t8x4",
        "%z: tensor<f32>, %x: t8x4 at [{p}, {q}]",
        "t8x4",
    ),
    "an unknown call": _of(
        "stablehlo.custom_call @unknown(%x) " + _LAYOUTS + " : (t8x4) -> t8x4",
        "%x: t8x4 at [{p}, {q}]",
        "t8x4",
    ),
    "a Fourier transform": _of(
        "stablehlo.fft %x, type = FFT, length = [4]\n"
        "      : (tensor<8x4xcomplex<f32>>) -> tensor<8x4xcomplex<f32>>",
        '%x: tensor<8x4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"p"}, {"q"}]>}',
        "tensor<8x4xcomplex<f32>>",
    ),
    # Reshapes, and parts of axes.
    "a reshape that splits two axes": _of(
        "stablehlo.reshape %x : (t32x4) -> t4x8x4", "%x: t32x4 at [{p, q}, {?}]", "t4x8x4", _PARTS
    ),
    "a reshape that joins": _of(
        "stablehlo.reshape %x : (t4x8x4) -> t32x4", "%x: t4x8x4 at [{q}, {p}, {}]", "t32x4"
    ),
    "a reshape that joins, its major dimension not whole": _of(
        "stablehlo.reshape %x : (t4x8) -> t32", "%x: t4x8 at [{p}, {q}]", "t32"
    ),
    "a reshape that joins, its major dimension whole": _of(
        "stablehlo.reshape %x : (t4x8) -> t32", "%x: t4x8 at [{q}, {p}]", "t32"
    ),
    "a reshape of what an axis does not divide": _of(
        "stablehlo.reshape %x : (t12) -> t6x2", "%x: t12 at [{q}]", "t6x2"
    ),
    "a reshape of what parts of an axis divide": _of(
        "stablehlo.reshape %x : (t24) -> t2x3x4", "%x: t24 at [{p}]", "t2x3x4", _PARTS
    ),
    "a reshape, from its result": _of(
        "stablehlo.reshape %x : (t32) -> t4x8", "%x: t32", "t4x8", at=" at [{q}, {p}]"
    ),
    "parts of an axis that overlap": _of(
        "stablehlo.add %x, %y0 : t16x8",
        "%x: t16x8 at [{p:(1)4}, {?}], %y0: t16x8 at [{p:(1)2, q}, {?}]",
        "t16x8",
        _PARTS,
    ),
    "parts of an axis, one behind the other": _of(
        "stablehlo.add %x, %y0 : t16x8",
        "%x: t16x8 at [{p:(1)2, ?}, {?}], %y0: t16x8 at [{?}, {p:(2)4}]",
        "t16x8",
        _PARTS,
    ),
    "parts of an axis against the whole": _of(
        "stablehlo.add %x, %y0 : t16x8",
        "%x: t16x8 at [{p:(1)2, ?}, {?}], %y0: t16x8 at [{?}, {p, ?}]",
        "t16x8",
        _PARTS,
    ),
    # Open, closed, replicated.
    "three operands, one prefix": """(%x: t8x8 at [{p, q}, {?}], %y: t8x8 at [{p, ?}, {?}],
    %z: t8x8 at [{?}, {q}]) -> t8x8 {
  %s = stablehlo.add %x, %y : t8x8
  %t = stablehlo.multiply %s, %z : t8x8
  return %t : t8x8
}""",
    "axes that are replicated, and unreduced ones": """(%x: t8x8 at [{p}, {?}],
    %y: t8x8 at [{?}, {?}], replicated={p}, %z: t8x8 at [{?}, {?}], unreduced={q}) -> t8x8 {
  %s = stablehlo.add %x, %y : t8x8
  %t = stablehlo.add %s, %z : t8x8
  return %t : t8x8
}""",
    "a value of two uses": """(%x: t8x8 at [{p}, {?}]) -> (t8x8 at [{?}, {p}], t8x8) {
  %n = stablehlo.negate %x : t8x8
  %a = stablehlo.abs %n : t8x8
  %b = stablehlo.tanh %n : t8x8
  return %a, %b : t8x8, t8x8
}""",
    "an argument that is returned twice": """(%x: t8x8)
    -> (t8x8 at [{p}, {?}], t8x8 at [{?}, {q}]) {
  return %x, %x : t8x8, t8x8
}""",
    "two layers of a network": f"""{_THREE}
func.func @main(%x: t16x8 at [{{p}}, {{?}}],
    %v: t8x32 at [{{?}}, {{q}}], %w: t32x8 at [{{q}}, {{?}}])
    -> t16x8 {{
  %h = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (t16x8, t8x32) -> t16x32
  %a = stablehlo.tanh %h : t16x32
  %o = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (t16x32, t32x8) -> t16x8
  %r = stablehlo.add %o, %x : t16x8
  return %r : t16x8
}}""",
    # Priorities.
    "priorities of dimensions": """(%x: t8x8 at [{p}p1, {q}p0],
    %y: t8x8 at [{q}p0, {?}p2]) -> t8x8 {
  %s = stablehlo.add %x, %y : t8x8
  return %s : t8x8
}""",
    "priorities with a gap, on a constraint and a result": """(%x: t8x8 at [{p, ?}p5, {?}])
    -> (t8x8 at [{?}, {p}p2]) {
  %n = stablehlo.negate %x : t8x8
  %c = sdy.sharding_constraint %n <[{q, ?}p3, {?}]> : t8x8
  %a = stablehlo.abs %c : t8x8
  return %a : t8x8
}""",
    # Constraints, barriers, groups.
    "an open constraint": """(%x: t8x8 at [{p}, {?}]) -> t8x8 {
  %n = stablehlo.negate %x : t8x8
  %c = sdy.sharding_constraint %n <[{p, ?}, {q, ?}]> : t8x8
  %a = stablehlo.abs %c : t8x8
  return %a : t8x8
}""",
    "a closed constraint against its operand": """(%x: t8x8 at [{p}, {?}]) -> t8x8 {
  %c = sdy.sharding_constraint %x <[{}, {q}]> : t8x8
  %a = stablehlo.abs %c : t8x8
  return %a : t8x8
}""",
    "barriers": """(%x: t8x8 at [{p}, {?}]) -> (t8x8 at [{?}, {q}], t8x8, t8x8) {
  %n = stablehlo.negate %x : t8x8
  %f = sdy.propagation_barrier %n allowed_direction=FORWARD : t8x8
  %b = sdy.propagation_barrier %n allowed_direction=BACKWARD : t8x8
  %o = sdy.propagation_barrier %n allowed_direction=NONE : t8x8
  %t = stablehlo.tanh %b : t8x8
  return %t, %f, %o : t8x8, t8x8, t8x8
}""",
    "a group of what is computed": """(%x: t8x8 at [{p}, {?}], %y: t8x8) -> (t8x8, t8x8) {
  %n = stablehlo.negate %x : t8x8
  sdy.sharding_group %n group_id=0 : t8x8
  %t = stablehlo.transpose %y, dims = [1, 0] : (t8x8) -> t8x8
  sdy.sharding_group %t group_id=0 : t8x8
  return %n, %t : t8x8, t8x8
}""",
    "a group whose members differ": """(%x: t8x8 at [{p}, {?}],
    %y: t8x8 at [{q}, {?}]) -> (t8x8, t8x8) {
  sdy.sharding_group %x group_id=0 : t8x8
  sdy.sharding_group %y group_id=0 : t8x8
  %n = stablehlo.negate %x : t8x8
  %m = stablehlo.negate %y : t8x8
  sdy.sharding_group %m group_id=0 : t8x8
  return %n, %m : t8x8, t8x8
}""",
    # Meshes.
    "two meshes, and one of one device": """sdy.mesh @mesh = <["p"=2, "q"=4]>
sdy.mesh @other = <["p"=2, "q"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
sdy.mesh @one = <[], device_ids=[3]>
func.func @main(%x: t8x8 at [{p}, {?}],
    %y: t8x8 {sdy.sharding = #sdy.sharding<@other, [{"p"}, {}]>},
    %z: t8x8 {sdy.sharding = #sdy.sharding<@one, []>}) -> (t8x8, t8x8, t8x8) {
  %a = stablehlo.negate %x : t8x8
  %b = stablehlo.add %x, %y : t8x8
  %c = stablehlo.add %a, %z : t8x8
  return %a, %b, %c : t8x8, t8x8, t8x8
}""",
    # Control flow.
    "a loop, forward": _loop(
        "%s = stablehlo.negate %a : t8x8\n      stablehlo.return %s : t8x8", " at [{p}, {?}]"
    ),
    "a loop, backward": _loop(
        "%s = stablehlo.negate %a : t8x8\n      stablehlo.return %s : t8x8", "", " at [{p}, {?}]"
    ),
    "a loop of products": _loop(_SQUARE, " at [{p}, {?}]"),
    "a loop, from within": _loop(
        "%c = sdy.sharding_constraint %a <[{?}, {q, ?}]> : t8x8\n      stablehlo.return %c : t8x8",
        " at [{p, ?}, {?}]",
    ),
    "branches": """(%i: tensor<i32>, %x: t8x8 at [{p}, {?}], %y: t8x8) -> t8x8 {
  %c = "stablehlo.case"(%i) ({
    %n = stablehlo.negate %x : t8x8
    stablehlo.return %n : t8x8
  }, {
    %n = stablehlo.abs %y : t8x8
    stablehlo.return %n : t8x8
  }) : (tensor<i32>) -> t8x8
  %e = sdy.data_flow_edge %c : t8x8
  return %e : t8x8
}""",
    "a barrier of several": """(%x: t8x8 at [{p}, {?}], %y: t8) -> (t8x8, t8 at [{q}]) {
  %b:2 = stablehlo.optimization_barrier %x, %y : t8x8, t8
  %e = sdy.data_flow_edge %b#0 : t8x8
  %f = sdy.data_flow_edge %b#1 : t8
  return %e, %f : t8x8, t8
}""",
    "a manual computation, along free axes": f"""{_THREE}
func.func @main(%x: t16x16 at [{{p, q}}, {{?}}]) -> (t16x16 at [{{?}}, {{r}}]) {{
  %m = sdy.manual_computation(%x) in_shardings=[<[{{p, ?}}, {{?}}]>]
      out_shardings=[<[{{p, ?}}, {{?}}]>] manual_axes={{"p"}} (%a: t8x16) {{
    %e = sdy.data_flow_edge %a sharding=<[{{?}}, {{?}}]> : t8x16
    %n = stablehlo.negate %e : t8x16
    sdy.return %n : t8x16
  }} : (t16x16) -> t16x16
  %f = sdy.data_flow_edge %m sharding=<[{{p, ?}}, {{?}}]> : t16x16
  return %f : t16x16
}}""",
    "a manual computation, closed": f"""{_THREE}
func.func @main(%x: t16x16 at [{{p, q}}, {{?}}]) -> t16x16 {{
  %m = sdy.manual_computation(%x) in_shardings=[<[{{p}}, {{?}}]>] out_shardings=[<[{{p}}, {{}}]>]
      manual_axes={{"p"}} (%a: t8x16) {{
    %e = sdy.data_flow_edge %a sharding=<[{{}}, {{?}}]> : t8x16
    %n = sdy.sharding_constraint %e <[{{?}}, {{r, ?}}]> : t8x16
    sdy.return %n : t8x16
  }} : (t16x16) -> t16x16
  %f = sdy.data_flow_edge %m sharding=<[{{p}}, {{}}]> : t16x16
  return %f : t16x16
}}""",
    "a named computation": """(%x: t8x8 at [{p}, {?}]) -> (t8x8 at [{?}, {q}]) {
  %m = sdy.named_computation<"f">(%x) (%a: t8x8) {
    %e = sdy.data_flow_edge %a : t8x8
    %n = stablehlo.negate %e : t8x8
    sdy.return %n : t8x8
  } : (t8x8) -> t8x8
  %f = sdy.data_flow_edge %m : t8x8
  return %f : t8x8
}""",
    "functions apart": """func.func private @f(%x: t8x8 at [{p}, {?}]) -> t8x8 {
  %n = stablehlo.negate %x : t8x8
  return %n : t8x8
}
func.func @main(%x: t8x8 at [{?}, {q}]) -> t8x8 {
  %c = call @f(%x) : (t8x8) -> t8x8
  %n = stablehlo.abs %x : t8x8
  %s = stablehlo.add %n, %c : t8x8
  return %s : t8x8
}""",
}
