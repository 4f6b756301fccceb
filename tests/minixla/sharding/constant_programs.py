"""Programs for the passes that copy constants, name meshes and complete manual axes.

What is left of them is what Shardy's passes leave. Texts are in the shorthand of
`oracles.shardy_text.written`.
"""

from __future__ import annotations

_LOOP = """%t = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {"""

_ONE = "stablehlo.constant dense<1.> : t4x3"
_ORDER = "[dense<[1, 0]> : tensor<2xindex>]"
_LAYOUTS = f'{{backend_config = "", operand_layouts = {_ORDER}, result_layouts = {_ORDER}'
SPLITTER = {
    "scalars of a loop": f"""
(%x: t4x3) -> t4x3 {{
  %z = stablehlo.constant dense<0> : tensor<i32>
  %w:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i32>, t4x3
    cond {{
      {_LOOP}
      %o = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %o : tensor<i32>
      %k = stablehlo.add %j, %o : tensor<i32>
      %b = stablehlo.broadcast_in_dim %j, dims = [] : (tensor<i32>) -> tensor<4x3xi32>
      %c = stablehlo.convert %b : (tensor<4x3xi32>) -> t4x3
      %s = stablehlo.add %a, %c : t4x3
      %m = stablehlo.multiply %s, %c : t4x3
      stablehlo.return %k, %m : tensor<i32>, t4x3
    }}
  return %w#1 : t4x3
}}""",
    "a constant that is used in a loop and outside": f"""
(%x: t4x3) -> (t4x3, t4x3) {{
  %c = {_ONE}
  %w = stablehlo.while(%a = %c) : t4x3
    cond {{
      {_LOOP}
      %s = stablehlo.add %a, %c : t4x3
      stablehlo.return %c : t4x3
    }}
  %n = stablehlo.negate %c : t4x3
  return %w, %n : t4x3, t4x3
}}""",
    "constants of a body": f"""
(%x: t8x3) -> t8x3 {{
  %m = sdy.manual_computation(%x) in_shardings=[<[{{p}}, {{}}]>] out_shardings=[<[{{p}}, {{}}]>]
      manual_axes={{"p"}} (%a: t4x3) {{
    %c = {_ONE}
    %s = stablehlo.add %a, %c : t4x3
    %u = stablehlo.multiply %s, %c : t4x3
    sdy.return %u : t4x3
  }} : (t8x3) -> t8x3
  return %m : t8x3
}}""",
    "groups and shardings are copied with constants": """
(%x: t4x3) -> (t4x3, t4x3) {
  %c = stablehlo.constant on [{p}, {?}] dense<1.> : t4x3
  sdy.sharding_group %c group_id=3 : t4x3
  %e = stablehlo.exponential %c on [{p}, {}] : t4x3
  sdy.sharding_group %e group_id=4 : t4x3
  sdy.sharding_group %x group_id=4 : t4x3
  %s = stablehlo.add %x, %e : t4x3
  %m = stablehlo.multiply %x, %e : t4x3
  return %s, %m : t4x3, t4x3
}""",
    "a constant that is only in a group": f"""
(%x: t4x3) -> t4x3 {{
  %c = {_ONE}
  sdy.sharding_group %c group_id=3 : t4x3
  return %x : t4x3
}}""",
    "constraints, edges and barriers are users": f"""
(%x: t4x3) -> (t4x3, t4x3, t4x3) {{
  %c = {_ONE}
  %d = sdy.sharding_constraint %c <[{{p}}, {{}}]> : t4x3
  %b = stablehlo.optimization_barrier %c : t4x3
  %e = sdy.data_flow_edge %b : t4x3
  %p = sdy.propagation_barrier %c allowed_direction=NONE : t4x3
  return %d, %e, %p : t4x3, t4x3, t4x3
}}""",
    "a constant that is returned twice, and what is computed of it": f"""
(%x: t4x3) -> (t4x3, t4x3, t4x3) {{
  %c = {_ONE}
  %n = stablehlo.negate %c : t4x3
  return %c, %n, %c : t4x3, t4x3, t4x3
}}""",
    "comparisons, choices, conversions and slices of constants": """
(%x: t2x3) -> (t2x3, t2x3) {
  %c = stablehlo.constant dense<1.> : t4x3
  %i = stablehlo.iota dim = 0 : t4x3
  %p = stablehlo.compare LT, %c, %i : (t4x3, t4x3) -> tensor<4x3xi1>
  %s = stablehlo.select %p, %c, %i : tensor<4x3xi1>, t4x3
  %v = stablehlo.convert %s : (t4x3) -> tensor<4x3xi32>
  %w = stablehlo.convert %v : (tensor<4x3xi32>) -> t4x3
  %l = stablehlo.slice %w [1:3, 0:3] : (t4x3) -> t2x3
  %a = stablehlo.add %x, %l : t2x3
  %m = stablehlo.multiply %x, %l : t2x3
  return %a, %m : t2x3, t2x3
}""",
    "what is not preserved: pads, reductions, products, gathers of constants": """
(%x: t3) -> (t3, t3, t4x4, t6x3) {
  %c = stablehlo.constant dense<1.> : t4x3
  %z = stablehlo.constant dense<0.> : tensor<f32>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0]
      : (t4x3, tensor<f32>) -> t3
  %a = stablehlo.add %x, %r : t3
  %m = stablehlo.multiply %x, %r : t3
  %d = stablehlo.dot_general %c, %c, contracting_dims = [1] x [1] : (t4x3, t4x3) -> t4x4
  %p = stablehlo.pad %c, %z, low = [1, 0], high = [1, 0], interior = [0, 0]
      : (t4x3, tensor<f32>) -> t6x3
  return %a, %m, %d, %p : t3, t3, t4x4, t6x3
}""",
    "a scalar that is no constant": """
(%x: t4x3, %s: tensor<f32>) -> (t4x3, t4x3) {
  %n = stablehlo.negate %s : tensor<f32>
  %b = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> t4x3
  %a = stablehlo.add %x, %b : t4x3
  %m = stablehlo.multiply %x, %b : t4x3
  return %a, %m : t4x3, t4x3
}""",
    "what is computed of a broadcast scalar": """
(%x: t4x3, %s: tensor<f32>) -> (t4x3, t4x3) {
  %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> t4x3
  %n = stablehlo.negate %b : t4x3
  %a = stablehlo.add %x, %n : t4x3
  %m = stablehlo.multiply %x, %n : t4x3
  return %a, %m : t4x3, t4x3
}""",
    "a broadcast of a vector is no expansion": """
(%x: t4x3, %s: t3) -> (t4x3, t4x3) {
  %b = stablehlo.broadcast_in_dim %s, dims = [1] : (t3) -> t4x3
  %a = stablehlo.add %x, %b : t4x3
  %m = stablehlo.multiply %x, %b : t4x3
  return %a, %m : t4x3, t4x3
}""",
    "a vector of one element made a scalar": """
(%x: t4x3, %s: t1) -> (t4x3, t4x3) {
  %r = stablehlo.reshape %s : (t1) -> tensor<f32>
  %b = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> t4x3
  %a = stablehlo.add %x, %b : t4x3
  %m = stablehlo.multiply %x, %b : t4x3
  return %a, %m : t4x3, t4x3
}""",
    "scalars that a loop reads": f"""
(%x: t4x3) -> t4x3 {{
  %z = stablehlo.constant dense<0> : tensor<i32>
  %o = stablehlo.constant dense<1> : tensor<i32>
  %w:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i32>, t4x3
    cond {{
      {_LOOP}
      %j = stablehlo.add %i, %o : tensor<i32>
      %k = stablehlo.add %j, %o : tensor<i32>
      stablehlo.return %k, %a : tensor<i32>, t4x3
    }}
  return %w#1 : t4x3
}}""",
    "functions, each with constants": f"""
func.func private @f(%x: t4x3) -> t4x3 {{
  %c = {_ONE}
  %s = stablehlo.add %x, %c : t4x3
  %m = stablehlo.multiply %s, %c : t4x3
  return %m : t4x3
}}
func.func @main(%x: t4x3) -> (t4x3, t4x3) {{
  %c = {_ONE}
  %f = call @f(%c) : (t4x3) -> t4x3
  %g = call @f(%c) : (t4x3) -> t4x3
  return %f, %g : t4x3, t4x3
}}""",
    "a call of a function of constants": f"""
func.func private @f() -> t4x3 {{
  %c = {_ONE}
  %n = stablehlo.negate %c : t4x3
  return %n : t4x3
}}
func.func @main(%x: t4x3) -> (t4x3, t4x3) {{
  %f = call @f() : () -> t4x3
  %a = stablehlo.add %x, %f : t4x3
  %m = stablehlo.multiply %x, %f : t4x3
  return %a, %m : t4x3, t4x3
}}""",
    "a call that only computes of its operand, a constant": f"""
func.func private @f(%x: t4x3) -> t4x3 {{
  %n = stablehlo.negate %x : t4x3
  return %n : t4x3
}}
func.func @main(%x: t4x3) -> (t4x3, t4x3) {{
  %c = {_ONE}
  %f = call @f(%c) : (t4x3) -> t4x3
  %a = stablehlo.add %x, %f : t4x3
  %m = stablehlo.multiply %x, %f : t4x3
  return %a, %m : t4x3, t4x3
}}""",
    "named computations of constants": f"""
(%x: t4x3) -> (t4x3, t4x3) {{
  %c = {_ONE}
  %f = sdy.named_computation<"f">(%c) (%a: t4x3) {{
    %n = stablehlo.negate %a : t4x3
    sdy.return %n : t4x3
  }} : (t4x3) -> t4x3
  %s = stablehlo.add %x, %f : t4x3
  %m = stablehlo.multiply %x, %f : t4x3
  return %s, %m : t4x3, t4x3
}}""",
    "a named computation of what is no constant": f"""
(%x: t4x3) -> (t4x3, t4x3) {{
  %c = {_ONE}
  %f = sdy.named_computation<"f">(%c, %x) (%a: t4x3, %b: t4x3) {{
    %n = stablehlo.add %a, %b : t4x3
    sdy.return %n : t4x3
  }} : (t4x3, t4x3) -> t4x3
  %s = stablehlo.add %c, %f : t4x3
  %m = stablehlo.multiply %c, %f : t4x3
  return %s, %m : t4x3, t4x3
}}""",
    "named computations of one name, of which one is not constant": """
(%x: t8x4) -> (t8x4, t8x4) {
  %c = stablehlo.iota dim = 0 : t8x4
  %a = sdy.named_computation<"f">(%c) (%u: t8x4) {
    %n = stablehlo.negate %u : t8x4
    sdy.return %n : t8x4
  } : (t8x4) -> t8x4
  %b = sdy.named_computation<"f">(%x) (%u: t8x4) {
    %n = stablehlo.reverse %u, dims = [0] : t8x4
    sdy.return %n : t8x4
  } : (t8x4) -> t8x4
  %d = sdy.named_computation<"g">(%c) (%u: t8x4) {
    %n = stablehlo.negate %u : t8x4
    sdy.return %n : t8x4
  } : (t8x4) -> t8x4
  %s = stablehlo.add %a, %b : t8x4
  %t = stablehlo.add %s, %a : t8x4
  %v = stablehlo.add %t, %d : t8x4
  %w = stablehlo.add %v, %d : t8x4
  return %w, %t : t8x4, t8x4
}""",
    "calls in a named computation of a constant": """
func.func @main(%x: t8x4) -> t8x4 {
  %c = stablehlo.iota dim = 0 : t8x4
  %a = sdy.named_computation<"n">(%c) (%u: t8x4) {
    %n = func.call @f(%u) : (t8x4) -> t8x4
    sdy.return %n : t8x4
  } : (t8x4) -> t8x4
  %s = stablehlo.add %x, %a : t8x4
  %t = stablehlo.add %s, %a : t8x4
  return %t : t8x4
}
func.func private @f(%x: t8x4) -> t8x4 {
  %n = func.call @g(%x) : (t8x4) -> t8x4
  return %n : t8x4
}
func.func private @g(%x: t8x4) -> t8x4 {
  return %x : t8x4
}""",
    "functions that call functions of constants": """
func.func @main(%x: t8x4) -> (t8x4, t8x4) {
  %c = stablehlo.iota dim = 0 : t8x4
  %a = func.call @f(%c) : (t8x4) -> t8x4
  return %a, %a : t8x4, t8x4
}
func.func private @f(%x: t8x4) -> t8x4 {
  %n = func.call @g(%x) : (t8x4) -> t8x4
  %m = func.call @g(%n) : (t8x4) -> t8x4
  return %m : t8x4
}
func.func private @g(%x: t8x4) -> t8x4 {
  return %x : t8x4
}""",
    "groups in branches, of a constant and a broadcast outside": """
(%s: tensor<f32>, %i: tensor<i32>) -> (t8x4, t8x4) {
  %c = stablehlo.iota dim = 0 : t8x4
  %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> t8x4
  %y = "stablehlo.case"(%i) ({
    sdy.sharding_group %b group_id=1 : t8x4
    stablehlo.return %b : t8x4
  }, {
    sdy.sharding_group %c group_id=2 : t8x4
    stablehlo.return %c : t8x4
  }) : (tensor<i32>) -> t8x4
  sdy.sharding_group %b group_id=3 : t8x4
  %t = stablehlo.add %c, %b : t8x4
  return %y, %t : t8x4, t8x4
}""",
    "a constant with attributes of others": """
() -> (t2, t2) {
  %c = stablehlo.constant {mhlo.frontend_attributes = {a = "b"}} dense<1.> : t2
  %n = stablehlo.negate %c : t2
  return %c, %n : t2, t2
}""",
    "constants of booleans, complex numbers, integers": """
() -> (tensor<2xi1>, tensor<2xi1>, tensor<2xcomplex<f32>>, tensor<2xi8>) {
  %c = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %n = stablehlo.not %c : tensor<2xi1>
  %d = stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>
  %i = stablehlo.constant dense<[-1, 7]> : tensor<2xi8>
  return %c, %n, %d, %i : tensor<2xi1>, tensor<2xi1>, tensor<2xcomplex<f32>>, tensor<2xi8>
}""",
    "custom calls and random numbers are not copied": f"""
(%s: tensor<2xui64>) -> (t4x3, t4x3, tensor<4x3xui32>, tensor<4x3xui32>) {{
  %c = {_ONE}
  %u = stablehlo.custom_call @f(%c) {_LAYOUTS}}} : (t4x3) -> t4x3
  %v = stablehlo.custom_call @g(%c) {_LAYOUTS}, has_side_effect = true}} : (t4x3) -> t4x3
  %k = stablehlo.constant dense<[1, 2]> : tensor<2xui64>
  %t, %b = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY
      : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4x3xui32>)
  %n = stablehlo.not %b : tensor<4x3xui32>
  return %u, %v, %n, %b : t4x3, t4x3, tensor<4x3xui32>, tensor<4x3xui32>
}}""",
    "constants that are SDY's": """
(%x: t4x3) -> (t4x3, t4x3) {
  %c = sdy.constant dense<1.> : t4x3
  %a = stablehlo.add %x, %c : t4x3
  %m = stablehlo.multiply %x, %c : t4x3
  return %a, %m : t4x3, t4x3
}""",
}

_GRID = '<["p"=2, "q"=4]>'
MESHES = {
    "meshes in every place": f"""
sdy.mesh @a = {_GRID}
func.func @main(%x: t8x4 {{sdy.sharding = #sdy.sharding<mesh{_GRID}, [{{"p"}}, {{?}}]>}})
    -> (t8x4 {{sdy.sharding = #sdy.sharding<mesh<["r"=8]>, [{{"r"}}, {{}}]>}}) {{
  %n = stablehlo.negate %x
      {{sdy.sharding = #sdy.sharding_per_value<[<mesh<["s"=8]>, [{{"s"}}, {{}}]>]>}} : t8x4
  %c = sdy.sharding_constraint %n <mesh<["u"=2, "v"=4]>, [{{"v"}}, {{"u"}}]> : t8x4
  %m = sdy.manual_computation(%c) in_shardings=[<mesh{_GRID}, [{{"p"}}, {{}}]>]
      out_shardings=[<@a, [{{"p"}}, {{}}]>] manual_axes={{"p"}} (%b: t4x4) {{
    %d = stablehlo.negate %b
        {{sdy.sharding = #sdy.sharding_per_value<[<mesh{_GRID}, [{{"q"}}, {{}}]>]>}} : t4x4
    sdy.return %d : t4x4
  }} : (t8x4) -> t8x4
  %e = sdy.data_flow_edge %m sharding=<mesh<["w"=8]>, [{{"w"}}, {{}}]> : t8x4
  %r = sdy.reshard %e <mesh{_GRID}, [{{}}, {{"q"}}]> : t8x4
  return %r : t8x4
}}""",
    "names that functions and other meshes have": """
sdy.mesh @mesh_0 = <["a"=8]>
sdy.mesh @maximal_mesh_5 = <["b"=8]>
func.func private @mesh(%x: t8 {sdy.sharding = #sdy.sharding<mesh<["c"=8]>, [{"c"}]>}) { return }
func.func @main(%x: t8 {sdy.sharding = #sdy.sharding<mesh<["d"=8]>, [{"d"}]>},
    %y: t8 {sdy.sharding = #sdy.sharding<mesh<[], device_ids=[5]>, []>}) { return }""",
    "meshes behind functions, and unused ones": """
func.func @main(%x: t8 {sdy.sharding = #sdy.sharding<@b, [{"a"}]>},
    %y: t8 {sdy.sharding = #sdy.sharding<mesh<["c"=8]>, [{"c"}]>}) { return }
sdy.mesh @a = <["a"=8]>
sdy.mesh @b = <["a"=8]>
func.func @other() { return }
sdy.mesh @unused = <["z"=8]>""",
    "maximal and empty meshes that have names": """
sdy.mesh @none = <[]>
sdy.mesh @one = <[], device_ids=[5]>
sdy.mesh @same = <[], device_ids=[5]>
func.func @main(%x: t8 {sdy.sharding = #sdy.sharding<mesh<[], device_ids=[5]>, []>},
    %y: t8 {sdy.sharding = #sdy.sharding<@same, []>},
    %z: t8 {sdy.sharding = #sdy.sharding<mesh<[]>, [{}]>},
    %w: t8 {sdy.sharding = #sdy.sharding<mesh<[], device_ids=[0]>, []>}) { return }""",
    "device ids in order, and sizes and orders that differ": """
func.func @main(%x: t8 {sdy.sharding = #sdy.sharding<mesh<["a"=4], device_ids=[0, 1, 2, 3]>,
      [{"a"}]>},
    %y: t8 {sdy.sharding = #sdy.sharding<mesh<["a"=4]>, [{"a"}]>},
    %z: t8 {sdy.sharding = #sdy.sharding<mesh<["a"=2, "b"=2]>, [{"a"}]>},
    %v: t8 {sdy.sharding = #sdy.sharding<mesh<["b"=2, "a"=2]>, [{"a"}]>}) { return }""",
    "three equal meshes, each used": """
sdy.mesh @c = <["a"=8]>
sdy.mesh @b = <["a"=8]>
sdy.mesh @a = <["a"=8]>
func.func @main(%x: t8 {sdy.sharding = #sdy.sharding<@a, [{"a"}]>},
    %y: t8 {sdy.sharding = #sdy.sharding<@b, [{"a"}]>}) -> t8 {
  %n = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@c, [{"a"}]>]>} : t8
  return %n : t8
}""",
    "no mesh": "(%x: t8) -> t8 {\n  return %x : t8\n}",
}


def _manual(mesh: str, shape: str, shardings: str, axes: str, local: str) -> str:
    return f"""sdy.mesh @mesh = <{mesh}>
func.func @main(%x: t{shape}) -> t{shape} {{
  %m = sdy.manual_computation(%x) in_shardings=[<{shardings}>] out_shardings=[<{shardings}>]
      manual_axes={axes} (%a: t{local}) {{
    sdy.return %a : t{local}
  }} : (t{shape}) -> t{shape}
  return %m : t{shape}
}}"""


MANUAL_AXES = {
    "the middle of an axis": _manual('["q"=8]', "8x6", "[{q:(2)2}, {}]", '{"q"}', "4x6"),
    "the end of an axis": _manual('["q"=8]', "8x6", "[{q:(4)2}, {?}]", '{"q"}', "4x6"),
    "two parts of an axis": _manual('["q"=8]', "8x6", "[{q:(4)2}, {q:(1)2}]", '{"q"}', "4x3"),
    "a part of an axis that is replicated": _manual(
        '["q"=8]', "8x6", "[{q:(1)2}, {}], replicated={q:(4)2}", '{"q"}', "4x6"
    ),
    "replicated neighbours": _manual(
        '["o"=2, "q"=8]', "8x6", "[{q:(4)2}, {}], replicated={q:(1)2}", '{"q", "o"}', "4x6"
    ),
    "free axes among replicated ones": _manual(
        '["p"=2, "q"=2, "r"=2]', "8x6", "[{}, {}], replicated={q}", '{"r", "p"}', "8x6"
    ),
    "unreduced axes": _manual(
        '["p"=2, "q"=2]', "8x6", "[{p}, {}], unreduced={q}", '{"q", "p"}', "4x6"
    ),
    "no manual axes": _manual('["p"=2]', "8x6", "[{p}, {}]", "{}", "8x6"),
    "a scalar": """(%x: tensor<f32>) -> tensor<f32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, []>] out_shardings=[<@mesh, []>]
      manual_axes={"q", "p"} (%a: tensor<f32>) {
    sdy.return %a : tensor<f32>
  } : (tensor<f32>) -> tensor<f32>
  return %m : tensor<f32>
}""",
    "a token": """(%x: t8, %k: !stablehlo.token) -> (t8, !stablehlo.token) {
  %m:2 = sdy.manual_computation(%x, %k) in_shardings=[<[{}]>, <@mesh, []>]
      out_shardings=[<[{}]>, <@mesh, []>] manual_axes={"p"} (%a: t8, %b: !stablehlo.token) {
    sdy.return %a, %b : t8, !stablehlo.token
  } : (t8, !stablehlo.token) -> (t8, !stablehlo.token)
  return %m#0, %m#1 : t8, !stablehlo.token
}""",
    "the empty mesh": """sdy.mesh @mesh = <["p"=2, "q"=4]>
sdy.mesh @none = <[]>
func.func @main(%x: t8, %y: t8) -> t8 {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@none, [{}]>, <[{p}]>]
      out_shardings=[<@none, [{?}]>] manual_axes={"p"} (%a: t8, %b: t4) {
    sdy.return %a : t8
  } : (t8, t8) -> t8
  return %m : t8
}""",
    "the empty mesh alone": """sdy.mesh @none = <[]>
func.func @main(%x: t8) -> t8 {
  %m = sdy.manual_computation(%x) in_shardings=[<@none, [{}]>] out_shardings=[<@none, [{?}]>]
      manual_axes={} (%a: t8) {
    sdy.return %a : t8
  } : (t8) -> t8
  return %m : t8
}""",
    "neither operands nor results, and operations": """() -> () {
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={"p"} () {
    %c = stablehlo.constant dense<1.> : t8
    %d = stablehlo.custom_call @f(%c) {has_side_effect = true} : (t8) -> t8
    sdy.return
  } : () -> ()
  return
}""",
    "neither operands nor results, nor operations": """() -> () {
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={"p"} () {
    sdy.return
  } : () -> ()
  return
}""",
    "one within another": """sdy.mesh @mesh = <["p"=2, "q"=2, "r"=2]>
func.func @main(%x: t8x8) -> t8x8 {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p}, {}]>] out_shardings=[<[{p}, {}]>]
      manual_axes={"p"} (%a: t4x8) {
    %n = sdy.manual_computation(%a) in_shardings=[<[{}, {r}]>] out_shardings=[<[{}, {r}]>]
        manual_axes={"r", "q"} (%b: t4x4) {
      sdy.return %b : t4x4
    } : (t4x8) -> t4x8
    sdy.return %n : t4x8
  } : (t8x8) -> t8x8
  return %m : t8x8
}""",
}
