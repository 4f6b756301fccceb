"""Facts about constants, meshes, manual axes and groups, by name."""

from __future__ import annotations

from tests.minixla.sharding.facts import Fact

SPLITTER = "sdy-constant-splitter"
MESHES = "sdy-lift-inlined-meshes"
MANUAL_AXES = "sdy-manual-axes-cleanup"
GROUPS = "sdy-sharding-group-import"

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
        {_CONSTANT: f"{_COPY}\n  %e = {_COPY}", "divide %x, %c": "divide %x, %e"},
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
        {
            "+ %s =": "%j = stablehlo.iota dim = 0 : t3",
            "+ %b =": "%t = stablehlo.add %j, %j : t3",
            "+ %m =": "%c = stablehlo.broadcast_in_dim %t, dims = [1] : (t3) -> t4x3",
            "divide %x, %b": "divide %x, %c",
        },
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
        {_CONSTANT: f"{_COPY}\n  %e = {_COPY}", "divide %x, %c": "divide %x, %e"},
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
        {
            _CONSTANT: f"{_COPY}\n  %e = {_COPY}\n  %f = {_COPY}",
            "concatenate %c, %c": "concatenate %c, %e",
            "divide %x, %c": "divide %x, %f",
        },
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
    Fact("P6.7: a program without groups is left as it is", GROUPS, _SCALAR),
]

CONSTANT_FACTS = [*_SPLITTER, *_MESHES, *_MANUAL_AXES, *_GROUPS]
