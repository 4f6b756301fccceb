"""Facts about edges and constraints, by name."""

from __future__ import annotations

from tests.minixla.sharding.facts import Fact, loop

EDGES = "sdy-add-data-flow-edges"
CONSTRAINTS = "sdy-apply-sharding-constraints"

_EDGES = [
    Fact(
        "P1.1: one edge takes all uses of a barrier's result",
        EDGES,
        """(%x: t6x4) -> t6x4 {
  %b = stablehlo.optimization_barrier %x : t6x4
  %s = stablehlo.add %b, %b : t6x4
  return %s : t6x4
}""",
        {
            "+ %s = stablehlo.add %b, %b": "%e = sdy.data_flow_edge %b : t6x4",
            "%s = stablehlo.add %b, %b": "%s = stablehlo.add %e, %e",
        },
    ),
    Fact(
        "P1.2: an edge carries its owner's sharding",
        EDGES,
        """(%x: t8x6, %y: t8) -> (t8x6, t8) {
  %b:2 = stablehlo.optimization_barrier on [{p}, {?}]; [{?}] %x, %y : t8x6, t8
  return %b#0, %b#1 : t8x6, t8
}""",
        {
            "+ return %b": "%e = sdy.data_flow_edge %b#0 sharding=<[{p}, {?}]> : t8x6",
            "+ return": "%f = sdy.data_flow_edge %b#1 sharding=<[{?}]> : t8",
            "return %b#0, %b#1": "return %e, %f",
        },
    ),
    Fact(
        "P1.3: results of while have edges, unused ones and scalars too; arguments have none",
        EDGES,
        loop("t6x4"),
        {
            "+ return %r": "%e = sdy.data_flow_edge %r#0 : t6x4",
            "+ return %r#0": "%f = sdy.data_flow_edge %r#1 : tensor<i32>",
            "return %r#0": "return %e",
        },
    ),
    Fact(
        "P1.4: the result of case has an edge; its branches have none",
        EDGES,
        """(%i: tensor<i32>, %x: t8x4, %y: t8x4) -> t8x4 {
  %c = "stablehlo.case"(%i) ({
    stablehlo.return %x : t8x4
  }, {
    stablehlo.return %y : t8x4
  }) on [{q}, {}] : (tensor<i32>) -> t8x4
  return %c : t8x4
}""",
        {
            "+ return %c": "%e = sdy.data_flow_edge %c sharding=<[{q}, {}]> : t8x4",
            "return %c": "return %e",
        },
    ),
    Fact(
        "P1.5: the edge in a manual computation has no manual axes, the one behind it has all",
        EDGES,
        """(%x: t8x6) -> t8x6 {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p, q}, {?}]>]
      out_shardings=[<[{p}, {?}], replicated={q}>] manual_axes={"p"} (%a: t4x6) {
    %n = stablehlo.negate %a : t4x6
    sdy.return %n : t4x6
  } : (t8x6) -> t8x6
  return %m : t8x6
}""",
        {
            "+ %n = stablehlo.negate %a": "%e = sdy.data_flow_edge %a sharding=<[{q}, {?}]> : t4x6",
            "%n = stablehlo.negate %a": "%n = stablehlo.negate %e",
            "+ return %m": "%f = sdy.data_flow_edge %m "
            "sharding=<[{p}, {?}], replicated={q}> : t8x6",
            "return %m": "return %f",
        },
    ),
    Fact(
        "P1.6: a named computation without shardings has edges without shardings",
        EDGES,
        """(%x: t8x6) -> t8x6 {
  %m = sdy.named_computation<"f">(%x) (%a: t8x6) {
    %n = stablehlo.negate %a : t8x6
    sdy.return %n : t8x6
  } : (t8x6) -> t8x6
  return %m : t8x6
}""",
        {
            "+ %n = stablehlo.negate %a": "%e = sdy.data_flow_edge %a : t8x6",
            "%n = stablehlo.negate %a": "%n = stablehlo.negate %e",
            "+ return %m": "%f = sdy.data_flow_edge %m : t8x6",
            "return %m": "return %f",
        },
    ),
    Fact(
        "P1.7: if, reduce and add have no edges",
        EDGES,
        """(%c: tensor<i1>, %x: t8x6, %z: tensor<f32>) -> t8 {
  %i = "stablehlo.if"(%c) ({
    stablehlo.return %x : t8x6
  }, {
    stablehlo.return %x : t8x6
  }) : (tensor<i1>) -> t8x6
  %s = stablehlo.add %i, %x : t8x6
  %r = stablehlo.reduce(%s init: %z) applies stablehlo.add across dimensions = [1]
      : (t8x6, tensor<f32>) -> t8
  return %r : t8
}""",
    ),
]

_ONE = """(%x: t8x4) -> t8x4 {
  %n = stablehlo.negate %x : t8x4
  %c = sdy.sharding_constraint %n <[{p}, {}]> : t8x4
  return %c : t8x4
}"""
_TWO = """(%x: t8x4) -> (t8x4, t8x4) {
  %n = stablehlo.negate %x : t8x4
  %c = sdy.sharding_constraint %n <[{p}, {}]> : t8x4
  %d = sdy.sharding_constraint %n <[{}, {q}]> : t8x4
  return %c, %d : t8x4, t8x4
}"""
_CHAIN = """(%x: t8x4) -> (t8x4, t8x4) {
  %n = stablehlo.negate %x : t8x4
  %a = stablehlo.abs %n : t8x4
  %c = sdy.sharding_constraint %n <[{p}, {}]> : t8x4
  %d = sdy.sharding_constraint %c <[{}, {q}]> : t8x4
  %b = stablehlo.abs %n : t8x4
  return %a, %b : t8x4, t8x4
}"""
_CHAIN_ONLY = """(%x: t8x4) -> (t8x4, t8x4) {
  %n = stablehlo.negate %x : t8x4
  %c = sdy.sharding_constraint %n <[{p}, {}]> : t8x4
  %d = sdy.sharding_constraint %c <[{}, {q}]> : t8x4
  return %n, %d : t8x4, t8x4
}"""
_APPLIED = {"negate %x": "negate %x on [{p}, {}]"}
_CONSTRAINTS = [
    Fact("P2.1: a closed constraint is copied to its input", CONSTRAINTS, _ONE, _APPLIED),
    Fact(
        "P2.2: an argument that is constrained takes the constraint",
        CONSTRAINTS,
        """(%x: t8x4) -> t8x4 {
  %c = sdy.sharding_constraint %x <[{p}, {}]> : t8x4
  return %c : t8x4
}""",
        {"(%x: t8x4)": "(%x: t8x4 at [{p}, {}])"},
    ),
    Fact(
        "P2.3: what has a sharding keeps it",
        CONSTRAINTS,
        _ONE.replace("negate %x", "negate %x on [{?}, {q, ?}]"),
    ),
    Fact(
        "P2.4: a constraint that is not fully closed is not copied",
        CONSTRAINTS,
        _ONE.replace("[{p}, {}]", "[{p}, {?}]"),
    ),
    Fact("P2.5: of two different constraints none is copied", CONSTRAINTS, _TWO),
    Fact(
        "P2.6: of two equal constraints one is copied",
        CONSTRAINTS,
        _TWO.replace("[{}, {q}]", "[{p}, {}]"),
        _APPLIED,
    ),
    Fact(
        "P2.7: another user still reads what is constrained",
        CONSTRAINTS,
        """(%x: t8x4) -> (t8x4, t8x4) {
  %n = stablehlo.negate %x : t8x4
  %c = sdy.sharding_constraint %n <[{p}, {}]> : t8x4
  %a = stablehlo.abs %n : t8x4
  return %c, %a : t8x4, t8x4
}""",
        _APPLIED,
    ),
    Fact(
        "P2.8: a constraint without uses is copied",
        CONSTRAINTS,
        _ONE.replace("return %c", "return %x"),
        _APPLIED,
    ),
    Fact(
        "P2.9: behind an edge all uses read the constraint, which stands first",
        CONSTRAINTS,
        """(%x: t8x4) -> (t8x4, t8x4) {
  %b = stablehlo.optimization_barrier %x : t8x4
  %e = sdy.data_flow_edge %b : t8x4
  %a = stablehlo.abs %e : t8x4
  %c = sdy.sharding_constraint %e <[{p}, {}]> : t8x4
  return %a, %c : t8x4, t8x4
}""",
        {
            "  %c = sdy.sharding_constraint %e <[{p}, {}]> : t8x4\n": "",
            "+ %a = stablehlo.abs %e": "%c = sdy.sharding_constraint %e <[{p}, {}]> : t8x4",
            "%a = stablehlo.abs %e": "%a = stablehlo.abs %c",
        },
    ),
    Fact(
        "P2.10: uses after a chain of constraints read its last, uses before do not",
        CONSTRAINTS,
        _CHAIN,
        {**_APPLIED, "%b = stablehlo.abs %n": "%b = stablehlo.abs %d"},
    ),
    Fact(
        "P2.11: a constraint with two uses is not within a chain",
        CONSTRAINTS,
        _CHAIN.replace("return %a, %b", "return %c, %b"),
        _APPLIED,
    ),
    Fact(
        "P2.12: a use in a region is not redirected to the chain",
        CONSTRAINTS,
        """(%x: t8x4, %i: tensor<i32>) -> (t8x4, t8x4) {
  %n = stablehlo.negate %x : t8x4
  %c = sdy.sharding_constraint %n <[{p}, {}]> : t8x4
  %d = sdy.sharding_constraint %c <[{}, {q}]> : t8x4
  %b = "stablehlo.case"(%i) ({
    %a = stablehlo.abs %n : t8x4
    stablehlo.return %a : t8x4
  }) : (tensor<i32>) -> t8x4
  return %b, %d : t8x4, t8x4
}""",
        _APPLIED,
    ),
    Fact(
        "P2.13: the function's return is not redirected to the chain; by the specification it is",
        CONSTRAINTS,
        _CHAIN_ONLY,
        _APPLIED,
        specification={**_APPLIED, "return %n, %d": "return %d, %d"},
    ),
    Fact(
        "P2.14: one constraint is no chain",
        CONSTRAINTS,
        """(%x: t8x4) -> (t8x4, t8x4) {
  %n = stablehlo.negate %x : t8x4
  %c = sdy.sharding_constraint %n <[{p}, {?}]> : t8x4
  %a = stablehlo.abs %n : t8x4
  return %c, %a : t8x4, t8x4
}""",
    ),
    Fact(
        "P2.15: shardings of a manual computation's operands are constraints, if closed",
        CONSTRAINTS,
        """(%x: t8x4, %y: t8x4) -> t8x4 {
  %a = stablehlo.abs %x : t8x4
  %b = stablehlo.abs %y : t8x4
  %m = sdy.manual_computation(%a, %b) in_shardings=[<[{p}, {}]>, <[{p}, {?}]>]
      out_shardings=[<[{p}, {}]>] manual_axes={"p"} (%c: t4x4, %d: t4x4) {
    %s = stablehlo.add %c, %d : t4x4
    sdy.return %s : t4x4
  } : (t8x4, t8x4) -> t8x4
  return %m : t8x4
}""",
        {"abs %x": "abs %x on [{p}, {}]"},
    ),
    Fact(
        "P2.16: an argument of a loop's body is a target of the edge behind the loop",
        CONSTRAINTS,
        """(%x: t8x4) -> t8x4 {
  %r = stablehlo.while(%a = %x) : t8x4
    cond {
      %p = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %s = stablehlo.abs %a : t8x4
      %c = sdy.sharding_constraint %a <[{p}, {}]> : t8x4
      %t = stablehlo.add %s, %c : t8x4
      stablehlo.return %t : t8x4
    }
  %e = sdy.data_flow_edge %r : t8x4
  return %e : t8x4
}""",
        {
            "      %c = sdy.sharding_constraint %a <[{p}, {}]> : t8x4\n": "",
            "+ %s = stablehlo.abs %a": "%c = sdy.sharding_constraint %a <[{p}, {}]> : t8x4",
            "%s = stablehlo.abs %a": "%s = stablehlo.abs %c",
        },
    ),
]

EDGE_FACTS = [*_EDGES, *_CONSTRAINTS]
