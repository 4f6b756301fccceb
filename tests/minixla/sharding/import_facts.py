"""Facts about the six import passes, by name."""

from __future__ import annotations

from tests.minixla.sharding.facts import Fact

EDGES = "sdy-add-data-flow-edges"
CONSTRAINTS = "sdy-apply-sharding-constraints"
SPLITTER = "sdy-constant-splitter"
MESHES = "sdy-lift-inlined-meshes"
MANUAL_AXES = "sdy-manual-axes-cleanup"
GROUPS = "sdy-sharding-group-import"

_WHILE = """(%x: t6x4, %i: tensor<i32>) -> t6x4 {
  %r:2 = stablehlo.while(%a = %x, %j = %i) : t6x4, tensor<i32>
    cond {
      %p = stablehlo.compare LT, %j, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %s = stablehlo.add %a, %a : t6x4
      stablehlo.return %s, %j : t6x4, tensor<i32>
    }
  return %r#0 : t6x4
}"""
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
        _WHILE,
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

_CONSTANT = "stablehlo.constant dense<[[1., 2., 3.], [4., 5., 6.]]> : t2x3"
_COPY = _CONSTANT.replace("stablehlo", "sdy")
_SCALAR = """(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %c = stablehlo.constant dense<1.> : tensor<f32>
  %m = stablehlo.multiply %x, %c : tensor<f32>
  %d = stablehlo.divide %x, %c : tensor<f32>
  return %m, %d : tensor<f32>, tensor<f32>
}"""
_SPLITTER = [
    Fact(
        "P3.1: each use of a constant has its own",
        SPLITTER,
        f"""(%x: t2x3) -> (t2x3, t2x3) {{
  %c = {_CONSTANT}
  %m = stablehlo.multiply %x, %c : t2x3
  %d = stablehlo.divide %x, %c : t2x3
  return %m, %d : t2x3, t2x3
}}""",
        f"""(%x: t2x3) -> (t2x3, t2x3) {{
  %c = {_COPY}
  %e = {_COPY}
  %m = stablehlo.multiply %x, %c : t2x3
  %d = stablehlo.divide %x, %e : t2x3
  return %m, %d : t2x3, t2x3
}}""",
    ),
    Fact(
        "P3.2: what is computed of constants is copied whole, in which a value has several uses",
        SPLITTER,
        """(%x: t4x3) -> (t4x3, t4x3) {
  %i = stablehlo.iota dim = 0 : t3
  %s = stablehlo.add %i, %i : t3
  %b = stablehlo.broadcast_in_dim %s, dims = [1] : (t3) -> t4x3
  %m = stablehlo.multiply %x, %b : t4x3
  %d = stablehlo.divide %x, %b : t4x3
  return %m, %d : t4x3, t4x3
}""",
        """(%x: t4x3) -> (t4x3, t4x3) {
  %i = stablehlo.iota dim = 0 : t3
  %j = stablehlo.iota dim = 0 : t3
  %s = stablehlo.add %i, %i : t3
  %t = stablehlo.add %j, %j : t3
  %b = stablehlo.broadcast_in_dim %s, dims = [1] : (t3) -> t4x3
  %c = stablehlo.broadcast_in_dim %t, dims = [1] : (t3) -> t4x3
  %m = stablehlo.multiply %x, %b : t4x3
  %d = stablehlo.divide %x, %c : t4x3
  return %m, %d : t4x3, t4x3
}""",
    ),
    Fact(
        "P3.3: what is used once is not copied",
        SPLITTER,
        f"""(%x: t2x3) -> t2x3 {{
  %c = {_CONSTANT}
  %n = stablehlo.negate %c : t2x3
  %s = stablehlo.add %c, %n : t2x3
  %m = stablehlo.multiply %x, %s : t2x3
  return %m : t2x3
}}""",
        {"stablehlo.constant": "sdy.constant"},
    ),
    Fact(
        "P3.4: a constant and its negation, each used, are copied apart",
        SPLITTER,
        f"""(%x: t2x3) -> (t2x3, t2x3) {{
  %c = {_CONSTANT}
  %n = stablehlo.negate %c : t2x3
  %m = stablehlo.multiply %x, %n : t2x3
  %d = stablehlo.divide %x, %c : t2x3
  return %m, %d : t2x3, t2x3
}}""",
        f"""(%x: t2x3) -> (t2x3, t2x3) {{
  %c = {_COPY}
  %e = {_COPY}
  %n = stablehlo.negate %c : t2x3
  %m = stablehlo.multiply %x, %n : t2x3
  %d = stablehlo.divide %x, %e : t2x3
  return %m, %d : t2x3, t2x3
}}""",
    ),
    Fact(
        "P3.5: an operation that uses a constant twice has two",
        SPLITTER,
        f"""(%x: t2x3) -> (t4x3, t2x3) {{
  %c = {_CONSTANT}
  %j = stablehlo.concatenate %c, %c, dim = 0 : (t2x3, t2x3) -> t4x3
  %d = stablehlo.divide %x, %c : t2x3
  return %j, %d : t4x3, t2x3
}}""",
        f"""(%x: t2x3) -> (t4x3, t2x3) {{
  %c = {_COPY}
  %e = {_COPY}
  %f = {_COPY}
  %j = stablehlo.concatenate %c, %e, dim = 0 : (t2x3, t2x3) -> t4x3
  %d = stablehlo.divide %x, %f : t2x3
  return %j, %d : t4x3, t2x3
}}""",
    ),
    Fact(
        "P3.6: the transpose of a constant is shared",
        SPLITTER,
        f"""(%x: t3x2) -> (t3x2, t3x2) {{
  %c = {_CONSTANT}
  %t = stablehlo.transpose %c, dims = [1, 0] : (t2x3) -> t3x2
  %m = stablehlo.multiply %x, %t : t3x2
  %d = stablehlo.divide %x, %t : t3x2
  return %m, %d : t3x2, t3x2
}}""",
        {"stablehlo.constant": "sdy.constant"},
    ),
    Fact(
        "P3.7: a constant without users goes",
        SPLITTER,
        f"(%x: t2x3) -> t2x3 {{\n  %c = {_CONSTANT}\n  return %x : t2x3\n}}",
        "(%x: t2x3) -> t2x3 {\n  return %x : t2x3\n}",
    ),
    Fact(
        "P3.8: a scalar constant is shared; by the specification it is copied",
        SPLITTER,
        _SCALAR,
        {"stablehlo.constant": "sdy.constant"},
        specification={
            "stablehlo.constant": "sdy.constant",
            "+ %m =": "%e = sdy.constant dense<1.> : tensor<f32>",
            "divide %x, %c": "divide %x, %e",
        },
    ),
    Fact(
        "P3.9: a broadcast scalar is copied without the scalar; by the specification with it",
        SPLITTER,
        """(%x: t4x3) -> (t4x3, t4x3) {
  %c = stablehlo.constant dense<1.> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> t4x3
  %m = stablehlo.multiply %x, %b : t4x3
  %d = stablehlo.divide %x, %b : t4x3
  return %m, %d : t4x3, t4x3
}""",
        {
            "stablehlo.constant": "sdy.constant",
            "+ %m =": "%e = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> t4x3",
            "divide %x, %b": "divide %x, %e",
        },
        specification={
            "stablehlo.constant": "sdy.constant",
            "+ %b =": "%s = sdy.constant dense<1.> : tensor<f32>",
            "+ %m =": "%e = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> t4x3",
            "divide %x, %b": "divide %x, %e",
        },
    ),
    Fact(
        "P3.10: a reshaped constant is copied; by the specification it is shared",
        SPLITTER,
        f"""(%x: t6) -> (t6, t6) {{
  %c = {_CONSTANT}
  %r = stablehlo.reshape %c : (t2x3) -> t6
  %m = stablehlo.multiply %x, %r : t6
  %d = stablehlo.divide %x, %r : t6
  return %m, %d : t6, t6
}}""",
        {
            _CONSTANT: f"{_COPY}\n  %e = {_COPY}",
            "+ %m =": "%s = stablehlo.reshape %e : (t2x3) -> t6",
            "divide %x, %r": "divide %x, %s",
        },
        specification={"stablehlo.constant": "sdy.constant"},
    ),
]


def _over(meshes: dict[str, str], *uses: str) -> str:
    """A program with mesh operations, and an argument over each of `uses`, written or named."""
    named = "".join(f"sdy.mesh @{name} = <{mesh}>\n" for name, mesh in meshes.items())
    arguments = []
    for number, use in enumerate(uses):
        has_rank = (
            "=" in (use if use.startswith("mesh") else meshes[use[1:]]).partition("device")[0]
        )
        type_, dimensions = ("t8", "{?}") if has_rank else ("tensor<f32>", "")
        sharding = f"#sdy.sharding<{use}, [{dimensions}]>"
        arguments.append(f"%x{number}: {type_} {{sdy.sharding = {sharding}}}")
    return f"{named}func.func @main({', '.join(arguments)}) {{\n  return\n}}"


_GRID, _LINE = '["p"=2, "q"=4]', '["r"=8]'
_BACK = '["r"=8], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]'
_OTHER = [f'["{name}"=8]' for name in "abcde"]
_MESHES = [
    Fact(
        "P4.1: one of equal meshes remains, to which all shardings refer",
        MESHES,
        _over({"grid": _GRID, "dup": _GRID}, "@dup", f"mesh<{_GRID}>"),
        _over({"grid": _GRID}, "@grid", "@grid"),
    ),
    Fact(
        "P4.2: a mesh that is written twice has one name",
        MESHES,
        _over({}, f"mesh<{_LINE}>", f"mesh<{_LINE}>"),
        _over({"mesh": _LINE}, "@mesh", "@mesh"),
    ),
    Fact(
        "P4.3: meshes of different device ids differ",
        MESHES,
        _over({}, f"mesh<{_LINE}>", f"mesh<{_BACK}>"),
        _over({"mesh": _LINE, "mesh_0": _BACK}, "@mesh", "@mesh_0"),
    ),
    Fact(
        "P4.4: a maximal mesh is named by its device",
        MESHES,
        _over({}, "mesh<[], device_ids=[5]>"),
        _over({"maximal_mesh_5": "[], device_ids=[5]"}, "@maximal_mesh_5"),
    ),
    Fact(
        "P4.5: the empty mesh is named so",
        MESHES,
        _over({}, "mesh<[]>"),
        _over({"empty_mesh": "[]"}, "@empty_mesh"),
    ),
    Fact(
        "P4.6: new names are the first that are free, as meshes appear",
        MESHES,
        _over({"mesh": _OTHER[0], "mesh_1": _OTHER[1]}, *(f"mesh<{each}>" for each in _OTHER[2:])),
        _over(
            dict(zip(["mesh", "mesh_1", "mesh_0", "mesh_2", "mesh_3"], _OTHER, strict=True)),
            *("@mesh_0", "@mesh_2", "@mesh_3"),
        ),
    ),
    Fact(
        "P4.7: the first of equal meshes remains where there are no shardings",
        MESHES,
        _over({"grid": _GRID, "dup": _GRID}),
        _over({"grid": _GRID}),
    ),
]

_MANUAL = """sdy.mesh @mesh = <["p"=2, "q"=4, "r"=2]>
func.func @main(%x: t8x6) -> t8x6 {
  %m = sdy.manual_computation(%x) in_shardings=[IN]
      out_shardings=[OUT] manual_axes=AXES (%a: BODY) {
    sdy.return %a : BODY
  } : (t8x6) -> t8x6
  return %m : t8x6
}"""


def _manual(inside: str, outside: str, axes: str, body: str) -> str:
    words = {"IN": f"<{inside}>", "OUT": f"<{outside}>", "AXES": axes, "BODY": body}
    text = _MANUAL
    for word, each in words.items():
        text = text.replace(word, each)
    return text


_MANUAL_AXES = [
    Fact(
        "P5.1: manual axes that a sharding does not mention are replicated in it, in mesh order",
        MANUAL_AXES,
        _manual("[{p}, {?}]", "[{p}, {}], replicated={r}", '{"r", "p"}', "t4x6"),
        _manual("[{p}, {?}], replicated={r}", "[{p}, {}], replicated={r}", '{"p", "r"}', "t4x6"),
    ),
    Fact(
        "P5.2: manual axes that all shardings mention change nothing",
        MANUAL_AXES,
        _manual("[{p}, {r}]", "[{p}, {r}]", '{"p", "r"}', "t4x3"),
    ),
    Fact(
        "P5.3: the rest of an axis of which a part is mentioned is replicated",
        MANUAL_AXES,
        _manual("[{q:(1)2}, {}]", "[{q:(1)2}, {}]", '{"q"}', "t4x6"),
        _manual(
            *["[{q:(1)2}, {}], replicated={q:(2)2}"] * 2,
            *('{"q"}', "t4x6"),
        ),
    ),
    Fact(
        "P5.4: a free axis behind a manual one changes nothing",
        MANUAL_AXES,
        _manual("[{p, q}, {}]", "[{p, q}, {}]", '{"p"}', "t4x6"),
    ),
]


def _grouped(*members: tuple[str, int], types: dict[str, str] | None = None) -> str:
    """A program of arguments in groups."""
    of = {name: (types or {}).get(name, "t8x4") for name, _ in members}
    arguments = ", ".join(f"%{name}: {type_}" for name, type_ in of.items())
    groups = "".join(
        f"  sdy.sharding_group %{name} group_id={number} : {of[name]}\n" for name, number in members
    )
    return f"({arguments}) {{\n{groups}  return\n}}"


_CROSSING = """(%x: t4x4, %y: t8x4) -> t8x4 {
  sdy.sharding_group %x group_id=1 : t4x4
  %m = sdy.manual_computation(%y) in_shardings=[<[{p}, {}]>] out_shardings=[<[{p}, {}]>]
      manual_axes={"p"} (%a: t4x4) {
    sdy.sharding_group %a group_id=1 : t4x4
    sdy.return %a : t4x4
  } : (t8x4) -> t8x4
  return %m : t8x4
}"""
_NESTED = """(%x: t8x4) -> t8x4 {
  %m = sdy.manual_computation(%x) in_shardings=[<[{p}, {}]>] out_shardings=[<[{p}, {}]>]
      manual_axes={"p"} (%a: t4x4) {
    %b = sdy.manual_computation(%a) in_shardings=[<[{}, {q}]>] out_shardings=[<[{}, {q}]>]
        manual_axes={"q"} (%c: t4x1) {
      sdy.sharding_group %c group_id=4 : t4x1
      %d = stablehlo.negate %c : t4x1
      sdy.sharding_group %d group_id=4 : t4x1
      sdy.return %d : t4x1
    } : (t4x4) -> t4x4
    sdy.return %b : t4x4
  } : (t8x4) -> t8x4
  return %m : t8x4
}"""
_GROUPS = [
    Fact(
        "P6.1: groups with a common member are one, of which it is a member once",
        GROUPS,
        _grouped(("a", 40), ("b", 40), ("b", 7), ("c", 7), ("d", 11)),
        _grouped(("a", 0), ("b", 0), ("c", 0), ("d", 1)),
    ),
    Fact(
        "P6.2: a value is a member once",
        GROUPS,
        _grouped(("a", 5), ("a", 5), ("a", 6)),
        _grouped(("a", 0)),
    ),
    Fact(
        "P6.3: groups have the numbers from 0",
        GROUPS,
        _grouped(("a", 9), ("b", 9), ("c", 3), ("d", 100)),
        _grouped(("a", 0), ("b", 0), ("c", 1), ("d", 2)),
    ),
    Fact(
        "P6.4: members of a group have the same shape",
        GROUPS,
        _grouped(("a", 5), ("b", 5), types={"a": "t4", "b": "t5"}),
        refusal="must have the same shape",
    ),
    Fact(
        "P6.5: no group crosses a manual computation",
        GROUPS,
        _CROSSING,
        refusal="cannot cross ManualComputationOp boundaries",
    ),
    Fact(
        "P6.6: values in the same body may be a group",
        GROUPS,
        _NESTED,
        _NESTED.replace("group_id=4", "group_id=0"),
    ),
    Fact("P6.7: a program without groups is left as it is", GROUPS, _ONE),
]

IMPORT_FACTS = [*_EDGES, *_CONSTRAINTS, *_SPLITTER, *_MESHES, *_MANUAL_AXES, *_GROUPS]
