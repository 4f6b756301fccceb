"""Programs for pipelines, and for passes on calls, axes and after propagation.

See `edge_programs`.
"""

from __future__ import annotations

_CALLS = """func.func private @f(%x: t8x4 at [{?}, {q}]) -> (t8x4 at [{p}, {?}]) {
  %n = stablehlo.negate %x : t8x4
  return %n : t8x4
}
func.func private @g(%x: t8x4) -> t8x4 {
  %c = call @f(%x) : (t8x4) -> t8x4
  %d = call @f(%c) on [{p, ?}, {}] : (t8x4) -> t8x4
  return %d : t8x4
}
func.func private @unused(%x: t8x4) -> t8x4 {
  return %x : t8x4
}
func.func @main(%x: t8x4 at [{p}, {}]) -> t8x4 {
  %g = call @g(%x) : (t8x4) -> t8x4
  %f = call @f(%g) : (t8x4) -> t8x4
  %s = stablehlo.add %f, %g : t8x4
  return %s : t8x4
}"""
_ONES = """sdy.mesh @mesh = <["p"=2, "one"=1, "q"=4, "two"=1]>
func.func @main(%x: t8x4 at [{one, p}, {q, ?}], replicated={two}) -> (t8x4 at [{one}p1, {?}p2]) {
  %n = stablehlo.negate %x on [{p, one}, {?}], replicated={two} : t8x4
  %c = sdy.sharding_constraint %n <[{one, q}, {}], replicated={two}> : t8x4
  %m = sdy.manual_computation(%c) in_shardings=[<[{p}, {one}]>]
      out_shardings=[<[{p}, {}], replicated={one}>] manual_axes={"p", "one"} (%a: t4x4) {
    %b = stablehlo.negate %a on [{two}, {q}] : t4x4
    sdy.return %b : t4x4
  } : (t8x4) -> t8x4
  return %m : t8x4
}"""
_MIXED = """sdy.mesh @other = <["p"=2, "q"=4]>
func.func private @f(%x: t8x4) -> t8x4 {
  %o = stablehlo.constant dense<1.> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<f32>) -> t8x4
  %s = stablehlo.add %x, %b : t8x4
  %m = stablehlo.multiply %s, %b : t8x4
  return %m : t8x4
}
func.func @main(%x: t8x4 {sdy.sharding = #sdy.sharding<mesh<["p"=2, "q"=4]>, [{"p"}, {?}]>})
    -> t8x4 {
  %f = call @f(%x) : (t8x4) -> t8x4
  %w = stablehlo.while(%a = %f) : t8x4
    cond {
      %t = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %c = sdy.sharding_constraint %a <@other, [{"p"}, {"q"}]> : t8x4
      %n = stablehlo.tanh %c : t8x4
      sdy.sharding_group %n group_id=5 : t8x4
      stablehlo.return %n : t8x4
    }
  %m = sdy.manual_computation(%w) in_shardings=[<@other, [{"q"}, {?}]>]
      out_shardings=[<@other, [{"q"}, {?}]>] manual_axes={"q", "p"} (%a: t2x4) {
    %n = stablehlo.exponential %a : t2x4
    sdy.return %n : t2x4
  } : (t8x4) -> t8x4
  sdy.sharding_group %m group_id=9 : t8x4
  sdy.sharding_group %x group_id=9 : t8x4
  return %m : t8x4
}"""
_INPUTS = """sdy.mesh @mesh = <["p"=2, "q"=4, "r"=3]>
func.func @main(%x: t6x4 at [{p, q}, {r}], %y: t7x9 at [{p}, {r, ?}], %z: t8x4 at [{q, p}, {}])
    -> (t6x4 at [{q}, {p}], t7x9 at [{?}, {r, p}], t8x4 at [{p, q, r}, {?}]) {
  return %x, %y, %z : t6x4, t7x9, t8x4
}"""
_PARTS = """(%x: t8x4 at [{q:(1)2}, {q:(2)2, ?}], %y: t8 at [{p, q:(1)2}])
    -> (t8x4 at [{p, q:(2)2}, {}], t8 at [{?}], replicated={q:(1)2}) {
  %n = stablehlo.negate %x on [{q:(2)2}, {?}] : t8x4
  return %n, %y : t8x4, t8
}"""
_CONSTANTS = """(%x: t4 at [{p}]) -> (t4, t4, t4, t4) {
  %c = sdy.constant on [{p}] dense<1.> : t4
  %d = sdy.constant on [{p}] dense<1.> : t4
  %e = sdy.constant on [{q}] dense<1.> : t4
  %f = sdy.constant dense<2.> : t4
  %g = stablehlo.add %c, %x on [{p}] : t4
  %h = stablehlo.add %d, %x on [{p}] : t4
  %i = stablehlo.add %e, %f : t4
  return %g, %h, %i, %f : t4, t4, t4, t4
}"""
_EDGES = """(%x: t8x4) -> (t8x4, t8x4) {
  %w = stablehlo.while(%a = %x) : t8x4
    cond {
      %t = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      stablehlo.return %a : t8x4
    }
  %e = sdy.data_flow_edge %w sharding=<[{p, ?}, {}]> : t8x4
  %b = stablehlo.optimization_barrier %e : t8x4
  %f = sdy.data_flow_edge %b : t8x4
  %m = sdy.manual_computation(%f) in_shardings=[<[{q}, {?}]>] out_shardings=[<[{q}, {?}]>]
      manual_axes={"q"} (%a: t2x4) {
    %g = sdy.data_flow_edge %a sharding=<[{p}, {?}]> : t2x4
    sdy.return %g : t2x4
  } : (t8x4) -> t8x4
  %h = sdy.data_flow_edge %m sharding=<[{q, p}, {?}]> : t8x4
  return %h, %f : t8x4, t8x4
}"""
_CLOSE = """(%x: t8x4 at [{p, ?}, {?}], replicated={q}) -> (t8x4 at [{?}, {q, ?}]) {
  %n = stablehlo.negate %x on [{p, ?}, {?}], unreduced={q} : t8x4
  %c = sdy.sharding_constraint %n <[{p, ?}, {}], replicated={q}> : t8x4
  %m = sdy.manual_computation(%c) in_shardings=[<[{q, ?}, {?}], replicated={p}>]
      out_shardings=[<[{q, ?}, {p, ?}]>] manual_axes={"q"} (%a: t2x4) {
    sdy.return %a : t2x4
  } : (t8x4) -> t8x4
  return %m : t8x4
}"""
_RESHARDS = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: t8x32 at [{x}, {y}], %b: t32x16 at [{y}, {x}]) -> (t8x16 at [{x}, {}]) {
  %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] on [{x}, {}] \
: (t8x32, t32x16) -> t8x16
  return %d : t8x16
}"""


def _reshard(inside: str, outside: str, shape: str = "16x8") -> str:
    return f"""sdy.mesh @mesh = <["x"=2, "y"=2, "z"=4]>
func.func @main(%a: t{shape} at {inside}) -> (t{shape} at {outside}) {{
  %r = sdy.reshard %a <{outside}> : t{shape}
  return %r : t{shape}
}}"""


_JOINED = """(%a: t8x8 at [{p}, {}]) -> (t8x8 at [{q}, {}], t12x8) {
  %s = stablehlo.slice %a [0:4, 0:8] on [{p}, {}] : (t8x8) -> t4x8
  %u = stablehlo.slice %a [4:8, 0:8] on [{q}, {}] : (t8x8) -> t4x8
  %c = stablehlo.concatenate %u, %s, dim = 0 on [{q}, {}] : (t4x8, t4x8) -> t8x8
  %d = stablehlo.concatenate %u, %a, dim = 0 on [{p}, {}] : (t4x8, t8x8) -> t12x8
  return %c, %d : t8x8, t12x8
}"""
_MOVED = """(%a: t8x8 at [{p}, {}], %b: t12x2x4 at [{q}, {}, {p}])
    -> (t8x8 at [{}, {q}], t6x16, t6x16) {
  %r = stablehlo.reverse %a, dims = [0] on [{}, {q}] : t8x8
  %h = sdy.propagation_barrier %r allowed_direction=NONE : t8x8
  %t = stablehlo.transpose %h, dims = [1, 0] on [{p}, {}] : (t8x8) -> t8x8
  %s = stablehlo.reshape %b on [{p}, {}] : (t12x2x4) -> t6x16
  %u = stablehlo.reshape %b on [{}, {p}] : (t12x2x4) -> t6x16
  return %t, %s, %u : t8x8, t6x16, t6x16
}"""
_CARRIED = """(%x: t8x4 at [{p}, {}], %i: tensor<i32>) -> (t8x4 at [{}, {q}], t8x4) {
  %w = stablehlo.while(%a = %x) : t8x4 attributes \
{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"q"}, {}]>]>}
    cond {
      %t = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %n = stablehlo.negate %a on [{}, {q}] : t8x4
      stablehlo.return %n : t8x4
    }
  %m = sdy.manual_computation(%w) in_shardings=[<[{p}, {q}]>]
      out_shardings=[<[{p}, {}]>] manual_axes={"p"} (%a: t4x4) {
    %b = stablehlo.tanh %a on [{q}, {}] : t4x4
    sdy.return %b : t4x4
  } : (t8x4) -> t8x4
  %c = "stablehlo.case"(%i) ({
    stablehlo.return %w : t8x4
  }, {
    stablehlo.return %m : t8x4
  }) on [{p}, {q}] : (tensor<i32>) -> t8x4
  return %c, %m : t8x4, t8x4
}"""
_FULL_RESHARDS = "sdy-insert-explicit-reshards{enable-full-version=true}"
_TO_COLLECTIVES = "sdy-reshard-to-collectives"
#: Passes, names and programs.
_RULE = "#sdy.op_sharding_rule<([i, j])->([i, k]) {i=8, j=4, k=4}"
_RULES = f"""(%x: t8x4 at [{{p}}, {{}}]) -> t8x4 {{
  %n = stablehlo.negate %x {{sdy.sharding_rule = {_RULE}>}} : t8x4
  %a = stablehlo.abs %n {{sdy.sharding_rule = {_RULE}, custom>}} : t8x4
  return %a : t8x4
}}"""
PROGRAMS = [
    ("sdy-drop-sharding-rules", "stated rules", _RULES),
    ("sdy-propagation-pipeline", "stated rules", _RULES),
    ("sdy-import-pipeline", "all there is", _MIXED),
    ("sdy-import-pipeline{dedup-functions-fully=true}", "all there is", _MIXED),
    ("sdy-import-pipeline", "calls", _CALLS),
    ("sdy-import-pipeline", "axes of size one", _ONES),
    ("sdy-propagation-pipeline", "all there is", _MIXED),
    ("sdy-propagation-pipeline{dedup-functions-fully=true}", "all there is", _MIXED),
    ("sdy-propagation-pipeline", "calls", _CALLS),
    ("sdy-propagation-pipeline", "axes of size one", _ONES),
    ("sdy-remove-size-one-axes", "axes of size one", _ONES),
    ("sdy-propagate-sharding-from-func-to-call", "calls", _CALLS),
    ("sdy-add-func-data-flow-edges", "calls", _CALLS),
    ("sdy-add-func-data-flow-edges,sdy-sink-func-data-flow-edges", "edges come and go", _CALLS),
    ("sdy-flatten-call-graph", "calls", _CALLS),
    ("sdy-flatten-call-graph,sdy-unflatten-call-graph", "calls", _CALLS),
    ("sdy-pre-order-funcs", "calls", _CALLS),
    ("symbol-dce", "calls", _CALLS),
    ("sdy-flatten-call-graph,symbol-dce,sdy-import-func-calls", "calls", _CALLS),
    (
        "sdy-flatten-call-graph,symbol-dce,sdy-import-func-calls,sdy-export-named-computations",
        "calls",
        _CALLS,
    ),
    ("sdy-inline-meshes", "axes of size one", _ONES),
    ("sdy-constant-or-scalar-merger", "equal constants", _CONSTANTS),
    ("sdy-sink-data-flow-edges", "edges on a loop, a barrier and a body", _EDGES),
    ("sdy-remove-sharding-groups", "groups", _MIXED),
    ("sdy-sharding-constraint-to-reshard", "a constraint", _CLOSE),
    ("sdy-close-shardings", "open, replicated and unreduced axes", _CLOSE),
    ("sdy-propagate-to-func-results", "calls", _CALLS),
    ("sdy-insert-func-call-reshards", "calls", _CALLS),
    ("sdy-update-non-divisible-input-output-shardings", "axes that do not divide", _INPUTS),
    ("sdy-remove-sub-axes-in-input-output-shardings", "parts of axes", _PARTS),
    ("sdy-insert-explicit-reshards", "a product, of which not all is resharded", _RESHARDS),
    (_FULL_RESHARDS, "a product", _RESHARDS),
    (_FULL_RESHARDS, "pieces are joined", _JOINED),
    (_FULL_RESHARDS, "what is permuted, and axes that do not divide", _MOVED),
    (_FULL_RESHARDS, "what control flow carries", _CARRIED),
    (_FULL_RESHARDS, "calls", _CALLS),
    ("sdy-insert-explicit-reshards", "calls", _CALLS),
    (
        f"{_FULL_RESHARDS},sdy-reshard-to-collectives",
        "a product",
        _RESHARDS,
    ),
    (_TO_COLLECTIVES, "a gather", _reshard("[{x, y, z}, {}]", "[{x}, {}]")),
    (_TO_COLLECTIVES, "a slice", _reshard("[{x}, {}]", "[{x, y}, {z}]")),
    (_TO_COLLECTIVES, "an exchange", _reshard("[{x}, {y}]", "[{}, {y, x}]")),
    (_TO_COLLECTIVES, "a permutation", _reshard("[{x}, {}]", "[{y}, {}]")),
    (_TO_COLLECTIVES, "a permutation and a gather", _reshard("[{x, z}, {}]", "[{y}, {}]")),
    (_TO_COLLECTIVES, "parts of axes", _reshard("[{z:(1)2}, {}]", "[{z:(2)2}, {}]")),
    (_TO_COLLECTIVES, "nothing", _reshard("[{x}, {}]", "[{x}, {}]")),
    ("sdy-close-shardings", "a priority", "(%x: t8 at [{?}p1]) {\n  return\n}"),
    ("sdy-drop-sharding-and-mesh", "shardings", _INPUTS),
]
