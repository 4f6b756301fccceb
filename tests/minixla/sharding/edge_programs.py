"""Programs for the passes that add edges, apply constraints and import groups.

What is left of them is what Shardy's passes leave. Texts are in the shorthand of
`oracles.shardy_text.written`.
"""

from __future__ import annotations

_LOOP = """%t = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {"""

_OPEN_LOOP = """
(%x: t8x4, %t: tensor<i1>, %y: t8x4) -> t8x4 {
  %w = stablehlo.while(%a = %x) : t8x4
    cond {
      stablehlo.return %t : tensor<i1>
    } do {
      %s = stablehlo.add %a, %y : t8x4
      %c = sdy.sharding_constraint %s <[{p}, {}]> : t8x4
      stablehlo.return %c : t8x4
    }
  return %w : t8x4
}"""
EDGES = {
    "a loop that reads what is outside": _OPEN_LOOP,
    "tokens have none": """
(%x: t4, %k: !stablehlo.token) -> (t4, !stablehlo.token) {
  %b:2 = stablehlo.optimization_barrier %x, %k : t4, !stablehlo.token
  return %b#0, %b#1 : t4, !stablehlo.token
}""",
    "bounded sizes have none": """
(%i: tensor<i32>, %x: tensor<?x4xf32, #stablehlo.bounds<8, ?>>)
    -> tensor<?x4xf32, #stablehlo.bounds<8, ?>> {
  %b = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<?x4xf32, #stablehlo.bounds<8, ?>>
  }) : (tensor<i32>) -> tensor<?x4xf32, #stablehlo.bounds<8, ?>>
  return %b : tensor<?x4xf32, #stablehlo.bounds<8, ?>>
}""",
    "dynamic sizes have none": """
(%x: t4, %d: t?x4) -> (t4, t?x4) {
  %b:2 = stablehlo.optimization_barrier %x, %d : t4, t?x4
  return %b#0, %b#1 : t4, t?x4
}""",
    "a loop that carries a token": f"""
(%x: t4, %k: !stablehlo.token) -> t4 {{
  %w:2 = stablehlo.while(%a = %k, %b = %x) : !stablehlo.token, t4
    cond {{
      {_LOOP}
      stablehlo.return %a, %b : !stablehlo.token, t4
    }}
  return %w#1 : t4
}}""",
    "loops within loops, with shardings": f"""
(%x: t8x4, %y: t4) -> t8x4 {{
  %w:2 = stablehlo.while(%a = %x, %b = %y) : t8x4, t4
    attributes {{sdy.sharding = #sdy.sharding_per_value<[<[{{p, ?}}, {{}}]>, <[{{q}}]>]>}}
    cond {{
      {_LOOP}
      %v = stablehlo.while(%c = %a) : t8x4
        cond {{
          {_LOOP}
          %n = stablehlo.negate %c : t8x4
          stablehlo.return %n : t8x4
        }}
      %s = stablehlo.add %v, %v : t8x4
      stablehlo.return %s, %b : t8x4, t4
    }}
  return %w#0 : t8x4
}}""",
    "branches of several results, and a barrier in one": """
(%i: tensor<i32>, %x: t8x4, %y: t4) -> (t8x4, t4) {
  %c:2 = "stablehlo.case"(%i) ({
    %b = stablehlo.optimization_barrier on [{p}, {?}] %x : t8x4
    stablehlo.return %b, %y : t8x4, t4
  }, {
    stablehlo.return %x, %y : t8x4, t4
  }, {
    %n = stablehlo.negate %x : t8x4
    stablehlo.return %n, %y : t8x4, t4
  }) on [{?}, {q}p2]; [{}], replicated={p} : (tensor<i32>) -> (t8x4, t4)
  return %c#0, %c#1 : t8x4, t4
}""",
    "an owner that is used in a region and returned twice": """
(%i: tensor<i32>, %x: t4) -> (t4, t4, t4) {
  %b = stablehlo.optimization_barrier %x : t4
  %c = "stablehlo.case"(%i) ({
    %n = stablehlo.negate %b : t4
    stablehlo.return %n : t4
  }) : (tensor<i32>) -> t4
  return %b, %c, %b : t4, t4, t4
}""",
    "manual computations within each other": """
(%x: t8x8) -> t8x8 {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p, ?}, {q, ?}]>]
      out_shardings=[<[{p}, {q}]>] manual_axes={"p"} (%a: t4x8) {
    %n = sdy.manual_computation(%a) in_shardings=[<[{?}, {q, ?}]>]
        out_shardings=[<[{}, {q}]>] manual_axes={"q"} (%b: t4x2) {
      %o = stablehlo.optimization_barrier %b : t4x2
      sdy.return %o : t4x2
    } : (t4x8) -> t4x8
    sdy.return %n : t4x8
  } : (t8x8) -> t8x8
  return %m : t8x8
}""",
    "a manual computation of several operands, unused, of rank 0, over parts of axes": """
(%x: t8x8, %y: t4, %z: tensor<f32>) -> (t8x8, tensor<f32>) {
  %m:2 = sdy.manual_computation(%x, %y, %z)
      in_shardings=[<[{q:(1)2, p}, {q:(2)2}]>, <[{?}], replicated={q}>, <@mesh, []>]
      out_shardings=[<[{q:(1)2, p}, {q:(2)2}]>, <@mesh, [], replicated={"p", "q"}>]
      manual_axes={"p", "q"} (%a: t2x4, %b: t4, %c: tensor<f32>) {
    %n = stablehlo.negate %a : t2x4
    sdy.return %n, %c : t2x4, tensor<f32>
  } : (t8x8, t4, tensor<f32>) -> (t8x8, tensor<f32>)
  return %m#0, %m#1 : t8x8, tensor<f32>
}""",
    "a priority of a dimension with manual axes": """(%x: t8) -> t8 {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p}p1]>] out_shardings=[<[{p}]>]
      manual_axes={"p"} (%a: t4) {
    sdy.return %a : t4
  } : (t8) -> t8
  return %m : t8
}""",
    "priorities of open and of free dimensions": """(%x: t8x8) -> t8x8 {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p, ?}p1, {q}p2]>]
      out_shardings=[<[{p, q}p3, {?}p4]>] manual_axes={"p"} (%a: t4x8) {
    sdy.return %a : t4x8
  } : (t8x8) -> t8x8
  return %m : t8x8
}""",
    "a manual computation without manual axes": """
(%x: t8x8) -> t8x8 {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p, ?}, {q}]>] out_shardings=[<[{?}, {?}]>]
      manual_axes={} (%a: t8x8) {
    sdy.return %a : t8x8
  } : (t8x8) -> t8x8
  return %m : t8x8
}""",
    "a manual computation in a loop": f"""
(%x: t8x8) -> t8x8 {{
  %w = stablehlo.while(%a = %x) : t8x8
    cond {{
      {_LOOP}
      %m = sdy.manual_computation(%a) in_shardings=[<[{{p}}, {{}}]>] out_shardings=[<[{{p}}, {{}}]>]
          manual_axes={{"p"}} (%b: t4x8) {{
        %n = stablehlo.negate %b : t4x8
        sdy.return %n : t4x8
      }} : (t8x8) -> t8x8
      stablehlo.return %m : t8x8
    }}
  return %w : t8x8
}}""",
    "a named computation with shardings": """
(%x: t8x6, %k: !stablehlo.token) -> t8x6 {
  %m:2 = sdy.named_computation<"f">(%x, %k)
      in_shardings=[<[{p}, {?}]>, <@mesh, []>]
      out_shardings=[<[{?}, {?}], replicated={q}>, <@mesh, []>]
      (%a: t8x6, %b: !stablehlo.token) {
    %n = stablehlo.negate %a : t8x6
    sdy.return %n, %b : t8x6, !stablehlo.token
  } : (t8x6, !stablehlo.token) -> (t8x6, !stablehlo.token)
  return %m#0 : t8x6
}""",
    "declarations": """
func.func private @other(t4) -> t4
func.func @main(%x: t4) -> t4 {
  %d = call @other(%x) : (t4) -> t4
  %b = stablehlo.optimization_barrier %d : t4
  return %b : t4
}""",
    "private functions": """
func.func private @inner(%x: t4) -> t4 {
  %b = stablehlo.optimization_barrier %x : t4
  return %b : t4
}
func.func @main(%x: t4) -> t4 {
  %c = call @inner(%x) : (t4) -> t4
  %b = stablehlo.optimization_barrier %c : t4
  return %b : t4
}""",
    "edges that are there": """
(%x: t4) -> t4 {
  %b = stablehlo.optimization_barrier %x : t4
  %e = sdy.data_flow_edge %b sharding=<[{p}]> : t4
  return %e : t4
}""",
}

_LINK = "(%x: t8x4) -> (t8x4, t8x4) {\n  %n = stablehlo.negate %x : t8x4\n"
_OPEN_LINK = _LINK.replace("negate %x", "negate %x on [{?}, {?}]")
_BOTH = f"""{_LINK}
  %c = sdy.sharding_constraint %n <[AXES, {{}}]> : t8x4
  %m = sdy.manual_computation(%n) in_shardings=[<[{{p}}, {{}}]>] out_shardings=[<[{{p}}, {{}}]>]
      manual_axes={{"p"}} (%a: t4x4) {{
    sdy.return %a : t4x4
  }} : (t8x4) -> t8x4
  return %c, %m : t8x4, t8x4
}}"""
CONSTRAINTS = {
    "a loop that reads what is outside": _OPEN_LOOP,
    "a chain of three, whose last has no use": f"""{_LINK}
  %c = sdy.sharding_constraint %n <[{{p}}, {{}}]> : t8x4
  %d = sdy.sharding_constraint %c <[{{}}, {{q}}]> : t8x4
  %e = sdy.sharding_constraint %d <[{{q}}, {{}}]> : t8x4
  %a = stablehlo.abs %n : t8x4
  return %a, %x : t8x4, t8x4
}}""",
    "a chain of open constraints": f"""{_LINK}
  %c = sdy.sharding_constraint %n <[{{p, ?}}, {{}}]> : t8x4
  %d = sdy.sharding_constraint %c <[{{}}, {{q, ?}}]> : t8x4
  %a = stablehlo.abs %n : t8x4
  return %a, %d : t8x4, t8x4
}}""",
    "a chain behind what has a sharding": f"""{_OPEN_LINK}
  %c = sdy.sharding_constraint %n <[{{p}}, {{}}]> : t8x4
  %d = sdy.sharding_constraint %c <[{{}}, {{q}}]> : t8x4
  %a = stablehlo.abs %n : t8x4
  return %a, %d : t8x4, t8x4
}}""",
    "a chain behind an argument": """(%x: t8x4) -> (t8x4, t8x4) {
  %c = sdy.sharding_constraint %x <[{p}, {}]> : t8x4
  %d = sdy.sharding_constraint %c <[{}, {q}]> : t8x4
  %a = stablehlo.abs %x : t8x4
  return %a, %d : t8x4, t8x4
}""",
    "two chains of one tensor": f"""{_LINK}
  %c = sdy.sharding_constraint %n <[{{p}}, {{}}]> : t8x4
  %d = sdy.sharding_constraint %c <[{{}}, {{q}}]> : t8x4
  %e = sdy.sharding_constraint %n <[{{q}}, {{}}]> : t8x4
  %f = sdy.sharding_constraint %e <[{{}}, {{p}}]> : t8x4
  %a = stablehlo.abs %n : t8x4
  return %a, %f : t8x4, t8x4
}}""",
    "a chain that ends in a manual computation": f"""{_LINK}
  %c = sdy.sharding_constraint %n <[{{p}}, {{}}]> : t8x4
  %d = sdy.sharding_constraint %c <[{{}}, {{q}}]> : t8x4
  %m = sdy.manual_computation(%d) in_shardings=[<[{{p}}, {{}}]>] out_shardings=[<[{{p}}, {{}}]>]
      manual_axes={{"p"}} (%b: t4x4) {{
    sdy.return %b : t4x4
  }} : (t8x4) -> t8x4
  %a = stablehlo.abs %n : t8x4
  return %a, %m : t8x4, t8x4
}}""",
    "a chain, and a use of its first in a later operation of two operands": f"""{_LINK}
  %c = sdy.sharding_constraint %n <[{{p}}, {{}}]> : t8x4
  %b = stablehlo.add %n, %n : t8x4
  %d = sdy.sharding_constraint %c <[{{}}, {{q}}]> : t8x4
  %a = stablehlo.add %n, %n : t8x4
  return %a, %b : t8x4, t8x4
}}""",
    "a chain, and a group and a reshard behind it": f"""{_LINK}
  %c = sdy.sharding_constraint %n <[{{p}}, {{}}]> : t8x4
  %d = sdy.sharding_constraint %c <[{{}}, {{q}}]> : t8x4
  sdy.sharding_group %n group_id=0 : t8x4
  %r = sdy.reshard %n <[{{q}}, {{}}]> : t8x4
  return %r, %d : t8x4, t8x4
}}""",
    "an edge whose constraint is in a region": """
(%x: t8x4, %i: tensor<i32>) -> (t8x4, t8x4) {
  %b = stablehlo.optimization_barrier %x : t8x4
  %e = sdy.data_flow_edge %b : t8x4
  %a = stablehlo.abs %e : t8x4
  %d = "stablehlo.case"(%i) ({
    %c = sdy.sharding_constraint %e <[{p}, {}]> : t8x4
    stablehlo.return %c : t8x4
  }) : (tensor<i32>) -> t8x4
  return %a, %d : t8x4, t8x4
}""",
    "an edge and a manual computation": """
(%x: t8x4) -> (t8x4, t8x4) {
  %b = stablehlo.optimization_barrier %x : t8x4
  %e = sdy.data_flow_edge %b : t8x4
  %a = stablehlo.abs %e : t8x4
  %m = sdy.manual_computation(%e) in_shardings=[<[{p}, {}]>] out_shardings=[<[{p}, {}]>]
      manual_axes={"p"} (%c: t4x4) {
    sdy.return %c : t4x4
  } : (t8x4) -> t8x4
  return %a, %m : t8x4, t8x4
}""",
    "an edge with two equal constraints": """
(%x: t8x4) -> (t8x4, t8x4) {
  %b = stablehlo.optimization_barrier %x : t8x4
  %e = sdy.data_flow_edge %b : t8x4
  %c = sdy.sharding_constraint %e <[{p}, {}]> : t8x4
  %d = sdy.sharding_constraint %e <[{p}, {}]> : t8x4
  return %c, %d : t8x4, t8x4
}""",
    "an edge with a sharding": """
(%x: t8x4) -> (t8x4, t8x4) {
  %b = stablehlo.optimization_barrier %x : t8x4
  %e = sdy.data_flow_edge %b sharding=<[{?}, {?}]> : t8x4
  %c = sdy.sharding_constraint %e <[{p}, {}]> : t8x4
  return %c, %e : t8x4, t8x4
}""",
    "an argument of a loop's body without an edge": f"""
(%x: t8x4) -> t8x4 {{
  %w = stablehlo.while(%a = %x) : t8x4
    cond {{
      {_LOOP}
      %s = stablehlo.abs %a : t8x4
      %c = sdy.sharding_constraint %a <[{{p}}, {{}}]> : t8x4
      %u = stablehlo.add %s, %c : t8x4
      stablehlo.return %u : t8x4
    }}
  return %w : t8x4
}}""",
    "a constraint and a manual computation that agree": _BOTH.replace("AXES", "{p}"),
    "a constraint and a manual computation that do not": _BOTH.replace("AXES", "{q}"),
    "a manual computation with one operand twice": f"""{_LINK}
  %m:2 = sdy.manual_computation(%n, %n) in_shardings=[<[{{p}}, {{}}]>, <[{{}}, {{p}}]>]
      out_shardings=[<[{{p}}, {{}}]>, <[{{}}, {{p}}]>] manual_axes={{"p"}} (%a: t4x4, %b: t8x2) {{
    sdy.return %a, %b : t4x4, t8x2
  }} : (t8x4, t8x4) -> (t8x4, t8x4)
  return %m#0, %m#1 : t8x4, t8x4
}}""",
    "a manual computation's manual axes among those of a constraint": f"""{_LINK}
  %m = sdy.manual_computation(%n) in_shardings=[<[{{p, q}}, {{}}], replicated={{}}>]
      out_shardings=[<[{{p}}, {{}}]>] manual_axes={{"p"}} (%a: t4x4) {{
    %b = stablehlo.negate %a : t4x4
    %c = sdy.sharding_constraint %b <[{{}}, {{q}}]> : t4x4
    sdy.return %c : t4x4
  }} : (t8x4) -> t8x4
  return %n, %m : t8x4, t8x4
}}""".replace(", replicated={}", ""),
    "an operation of two results, one with a sharding": """
(%x: t8x4, %y: t8x4) -> (t8x4, t8x4) {
  %b:2 = stablehlo.optimization_barrier %x, %y : t8x4, t8x4
  %c = sdy.sharding_constraint %b#1 <[{p}, {}]> : t8x4
  return %b#0, %c : t8x4, t8x4
}""",
    "an operation of two results with shardings": """
(%x: t8x4, %y: t8x4) -> (t8x4, t8x4) {
  %b:2 = stablehlo.optimization_barrier on [{q}, {?}]; [{?}, {?}] %x, %y : t8x4, t8x4
  %c = sdy.sharding_constraint %b#1 <[{p}, {}]> : t8x4
  return %b#0, %c : t8x4, t8x4
}""",
    "replicated axes, parts of axes, priorities": """
(%x: t8x4, %y: t8x4, %z: t8x4, %s: tensor<f32>) -> () {
  %a = sdy.sharding_constraint %x <[{p}, {}], replicated={q}> : t8x4
  %b = sdy.sharding_constraint %y <[{q:(2)2}, {}]> : t8x4
  %c = sdy.sharding_constraint %z <[{p}p1, {q}p2]> : t8x4
  %d = sdy.sharding_constraint %s <@mesh, []> : tensor<f32>
  return
}""",
    "a constraint behind a constraint that is used twice": f"""{_LINK}
  %c = sdy.sharding_constraint %n <[{{p}}, {{}}]> : t8x4
  %d = sdy.sharding_constraint %c <[{{p}}, {{}}]> : t8x4
  %e = sdy.sharding_constraint %c <[{{}}, {{q}}]> : t8x4
  return %d, %e : t8x4, t8x4
}}""",
    "a constraint in a region on what is outside": """
(%x: t8x4, %i: tensor<i32>) -> (t8x4, t8x4) {
  %n = stablehlo.negate %x : t8x4
  %d = "stablehlo.case"(%i) ({
    %c = sdy.sharding_constraint %n <[{p}, {}]> : t8x4
    stablehlo.return %c : t8x4
  }) : (tensor<i32>) -> t8x4
  return %n, %d : t8x4, t8x4
}""",
    "constraints of maximal meshes": """
sdy.mesh @mesh = <["p"=2, "q"=4]>
sdy.mesh @one = <[], device_ids=[3]>
func.func @main(%x: t8x4) -> t8x4 {
  %n = stablehlo.negate %x : t8x4
  %c = sdy.sharding_constraint %n <@one, []> : t8x4
  return %c : t8x4
}""",
}

GROUPS = {
    "a chain of groups, and another": """(%a: t8, %b: t8, %c: t8, %d: t8, %e: t8) {
  sdy.sharding_group %a group_id=10 : t8
  sdy.sharding_group %b group_id=10 : t8
  sdy.sharding_group %e group_id=2 : t8
  sdy.sharding_group %c group_id=20 : t8
  sdy.sharding_group %d group_id=20 : t8
  sdy.sharding_group %b group_id=15 : t8
  sdy.sharding_group %c group_id=15 : t8
  return
}""",
    "a circle of groups": """(%a: t8, %b: t8, %c: t8) {
  sdy.sharding_group %a group_id=1 : t8
  sdy.sharding_group %b group_id=1 : t8
  sdy.sharding_group %b group_id=2 : t8
  sdy.sharding_group %c group_id=2 : t8
  sdy.sharding_group %c group_id=3 : t8
  sdy.sharding_group %a group_id=3 : t8
  return
}""",
    "numbers below 0": """(%a: t8, %b: t8) {
  sdy.sharding_group %a group_id=-5 : t8
  sdy.sharding_group %b group_id=3 : t8
  return
}""",
    "other element types": """(%a: t8, %b: tensor<8xi32>, %c: t4) {
  sdy.sharding_group %a group_id=5 : t8
  sdy.sharding_group %b group_id=5 : tensor<8xi32>
  sdy.sharding_group %c group_id=0 : t4
  return
}""",
    "groups of several functions": """func.func @f(%a: t8) {
  sdy.sharding_group %a group_id=7 : t8
  return
}
func.func @g(%a: t8, %b: t8) {
  sdy.sharding_group %a group_id=7 : t8
  sdy.sharding_group %b group_id=3 : t8
  return
}""",
    "loops and branches are no bounds": f"""
(%x: t8) -> t8 {{
  sdy.sharding_group %x group_id=4 : t8
  %w = stablehlo.while(%a = %x) : t8
    cond {{
      {_LOOP}
      sdy.sharding_group %a group_id=4 : t8
      %i = stablehlo.constant dense<0> : tensor<i32>
      %c = "stablehlo.case"(%i) ({{
        %n = stablehlo.negate %a : t8
        sdy.sharding_group %n group_id=6 : t8
        stablehlo.return %n : t8
      }}) : (tensor<i32>) -> t8
      sdy.sharding_group %c group_id=6 : t8
      stablehlo.return %c : t8
    }}
  return %w : t8
}}""",
    "a shape that differs after merging": """(%a: t8, %b: t4, %c: t8) {
  sdy.sharding_group %a group_id=1 : t8
  sdy.sharding_group %c group_id=1 : t8
  sdy.sharding_group %b group_id=2 : t4
  return
}""",
    "a body and the body around it": """(%x: t8x8) -> t8x8 {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p}, {}]>] out_shardings=[<[{p}, {}]>]
      manual_axes={"p"} (%a: t4x8) {
    %d = stablehlo.slice %a [0:4, 0:2] : (t4x8) -> t4x2
    sdy.sharding_group %d group_id=1 : t4x2
    %n = sdy.manual_computation(%a) in_shardings=[<[{}, {q}]>] out_shardings=[<[{}, {q}]>]
        manual_axes={"q"} (%b: t4x2) {
      sdy.sharding_group %b group_id=1 : t4x2
      sdy.return %b : t4x2
    } : (t4x8) -> t4x8
    sdy.return %n : t4x8
  } : (t8x8) -> t8x8
  return %m : t8x8
}""",
    "two bodies": """(%x: t8x8) -> (t8x8, t8x8) {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p}, {}]>] out_shardings=[<[{p}, {}]>]
      manual_axes={"p"} (%a: t4x8) {
    sdy.sharding_group %a group_id=1 : t4x8
    sdy.return %a : t4x8
  } : (t8x8) -> t8x8
  %n = sdy.manual_computation(%x) in_shardings=[<[{p}, {}]>] out_shardings=[<[{p}, {}]>]
      manual_axes={"p"} (%a: t4x8) {
    sdy.sharding_group %a group_id=1 : t4x8
    sdy.return %a : t4x8
  } : (t8x8) -> t8x8
  return %m, %n : t8x8, t8x8
}""",
    "a loop in a body": f"""(%x: t8x8) -> t8x8 {{
  %m = sdy.manual_computation(%x) in_shardings=[<[{{p}}, {{}}]>] out_shardings=[<[{{p}}, {{}}]>]
      manual_axes={{"p"}} (%a: t4x8) {{
    sdy.sharding_group %a group_id=1 : t4x8
    %w = stablehlo.while(%b = %a) : t4x8
      cond {{
        {_LOOP}
        sdy.sharding_group %b group_id=1 : t4x8
        stablehlo.return %b : t4x8
      }}
    sdy.return %w : t4x8
  }} : (t8x8) -> t8x8
  return %m : t8x8
}}""",
}
