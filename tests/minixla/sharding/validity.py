"""Meshes, axes, shardings and operations that are right, and what is said of those that are not.

Words are Shardy's. Texts of programs are in the shorthand of `oracles.shardy_text.written`.
"""

from __future__ import annotations

from typing import NamedTuple

_GRID, _LINE = '"p"=2, "q"=4', '"p"=8'


class Sharding(NamedTuple):
    """A mesh, and the sharding of an argument over it."""

    mesh: str
    sharding: str
    refusal: str = ""  # nothing of what is right
    shape: str = "8x8"


SHARDINGS = [
    Sharding(f"[{mesh}]", sharding, refusal)
    for mesh, rows in {
        _GRID: {
            '[{"p"}, {"q"}]': "",
            '[{"q", "p"}, {}]': "",
            '[{"p", ?}, {?}]': "",
            '[{"p"}]': "sharding doesn't match tensor rank: 1 != 2",
            '[{"p"}, {}, {}]': "sharding doesn't match tensor rank: 3 != 2",
            '[{"z"}, {}]': 'unknown axis name: "z"',
            '[{"p"}, {"p"}]': 'duplicate axis ref: "p"',
            '[{"p", "p"}, {}]': 'duplicate axis ref: "p"',
            # Priorities.
            '[{"p"}p3, {"q"}p7]': "",
            '[{"p"}p0, {}]': "",
            "[{?}p1, {}]": "",
            "[{}p1, {}]": "dim 0 is empty and closed but has a priority",
            "[{}, {}p0]": "dim 1 is empty and closed but has a priority",
            '[{"p"}p-1, {}]': "expecting priority in format 'p<number>', got: p",
            # Replicated and unreduced axes.
            '[{}, {}], replicated={"p", "q"}': "",
            '[{}, {}], replicated={"q", "p"}': "replicated axes are not ordered w.r.t. mesh",
            '[{}, {}], replicated={"p", "p"}': 'duplicate axis ref: "p"',
            '[{}, {}], replicated={"z"}': 'unknown axis name: "z"',
            '[{"p"}, {}], replicated={"p"}': 'duplicate axis ref: "p"',
            '[{}, {}], unreduced={"p"}': "",
            '[{}, {}], unreduced={"q", "p"}': "unreduced axes are not ordered w.r.t. mesh",
            '[{"p"}, {}], unreduced={"p"}': 'duplicate axis ref: "p"',
            '[{}, {}], replicated={"p"}, unreduced={"q"}': "",
            '[{}, {}], replicated={"p"}, unreduced={"p"}': 'duplicate axis ref: "p"',
        },
        _LINE: {
            '[{"p":(1)4}, {"p":(4)2}]': "",
            '[{"p":(4)2, "p":(1)4}, {}]': "",
            '[{"p":(1)4}, {"p":(2)4}]': 'overlapping sub-axes: "p":(1)4, "p":(2)4',
            '[{"p":(1)4}, {"p"}]': 'both sub-axis and full-axis are used for axis name: "p"',
            '[{"p":(1)2, "p":(2)2}, {}]': (
                'two consecutive sub-axes can be merged: "p":(1)2, "p":(2)2'
            ),
            '[{"p":(1)8}, {}]': 'sub-axis size is equal to the full axis size: "p":(1)8',
            '[{"p":(2)1}, {}]': 'sub-axis sizes must be greater than 1: "p":(2)1',
            '[{"p":(0)2}, {}]': 'sub-axis pre-size must be at least 1: "p":(0)2',
            '[{"p":(4)4}, {}]': (
                'sub-axis next pre-size 16 doesn\'t divide the size of the full axis 8: "p":(4)4'
            ),
            '[{"p":(1)3}, {}]': (
                'sub-axis next pre-size 3 doesn\'t divide the size of the full axis 8: "p":(1)3'
            ),
            '[{"p":(1)2}, {}], replicated={"p":(2)4}': "",
            '[{"p":(1)2}, {}], replicated={"p":(4)2}': "",
            '[{}, {}], replicated={"p":(1)2, "p":(4)2}': "",
            '[{}, {}], replicated={"p":(4)2, "p":(1)2}': (
                "replicated axes are not ordered w.r.t. mesh"
            ),
            '[{}, {}], replicated={"p":(1)2, "p":(2)2}': (
                'two consecutive sub-axes can be merged: "p":(1)2, "p":(2)2'
            ),
        },
        '"p"=3': {'[{"p"}, {}]': ""},
        '"p"=16': {'[{"p"}, {}]': ""},
        '"p"=1': {'[{"p"}, {}]': ""},
        '"p"=2, "p"=2': {"[{}, {}]": 'duplicate axis name: "p"'},
        '"p"=0': {"[{}, {}]": "axis size must be at least 1, got: 0"},
        '"p"=-2': {"[{}, {}]": "axis size must be at least 1, got: -2"},
        "": {"[{}, {}]": "", '[{"p"}, {}]': 'unknown axis name: "p"'},
    }.items()
    for sharding, refusal in rows.items()
] + [
    Sharding(f"[{mesh}], device_ids=[{devices}]", sharding, refusal, shape)
    for mesh, devices, shape, sharding, refusal in [
        ("", "3", "", "[]", ""),
        ("", "3", "8x8", "[]", ""),
        ("", "3", "8x8", "[{}, {}]", "a maximal sharding can only have a sharding with rank 0"),
        ("", "3", "", '[], replicated={"p"}', "and no replicated or unreduced axes"),
        ("", "-1", "", "[]", "device id must be non-negative, got: -1"),
        ("", "1, 2", "", "[]", "axes is empty and device_ids has more than one element"),
        ('"p"=4', "3, 1, 2, 0", "8", '[{"p"}]', ""),
        ('"p"=4', "0, 1, 2, 3", "8", '[{"p"}]', ""),
        ('"p"=1', "0", "8", '[{"p"}]', ""),
        ('"p"=1', "1", "8", '[{"p"}]', "sorted device ids must be iota(product(axes)), got: 1"),
        ('"p"=2', "1, 2", "8", "[{}]", "sorted device ids must be iota(product(axes)), got: 1, 2"),
        ('"p"=4', "0, 0, 2, 3", "8", "[{}]", "must be iota(product(axes)), got: 0, 0, 2, 3"),
        (
            *('"p"=4', "1, 0", "8", "[{}]"),
            "total product of axis sizes must match total number of device ids, got: 4 != 2",
        ),
    ]
]


class Relation(NamedTuple):
    """How two parts of an axis are to each other: words of `contains`, `prefix` ... that hold.

    `contains`: the first the second; `prefix`: the first is one of the second; `overlap`;
    `coexist`: in one mesh; `merge`: in this order.
    """

    size: int
    first: str
    second: str
    holds: frozenset[str]


RELATIONS = [
    Relation(size, first, second, frozenset(words.split()))
    for size, first, second, words in [
        (16, '"a"', '"a":(2)2', "contains overlap coexist"),
        (16, '"a":(1)8', '"a":(1)4', "contains overlap coexist"),
        (64, '"a":(2)16', '"a":(4)2', "contains overlap coexist"),
        (16, '"a":(1)4', '"a":(2)4', "overlap coexist"),
        (16, '"a":(1)2', '"a"', "prefix overlap coexist"),
        (16, '"a":(2)2', '"a":(2)4', "prefix overlap coexist"),
        (32, '"a":(1)4', '"a":(2)8', "overlap coexist"),
        (16, '"a":(1)4', '"a":(4)2', "coexist merge"),
        (16, '"a":(4)2', '"a":(1)4', "coexist"),
        (32, '"a":(2)4', '"a":(8)2', "coexist merge"),
        (16, '"a":(1)2', '"a":(4)2', "coexist"),
        (12, '"a":(1)2', '"a":(1)3', "prefix overlap"),
        (12, '"a":(1)2', '"a":(3)2', ""),
        (24, '"a":(2)3', '"a":(3)2', "contains overlap"),
        (12, '"a":(1)2', '"a":(2)3', "coexist merge"),
    ]
]


class LocalShape(NamedTuple):
    """What one device has of an array."""

    mesh: str
    shape: str
    sharding: str
    local: str
    is_divided: bool = True  # without a rest


LOCAL_SHAPES = [
    LocalShape('["x"=2, "y"=4, "z"=2]', "4x8", '[{"x"}, {"z", "y"}]', "2x1"),
    LocalShape('["x"=2, "y"=4, "z"=2]', "4x8", '[{"x"}, {?}], replicated={"y"}', "2x8"),
    LocalShape('["x"=2, "y"=8, "z"=2]', "4x8", '[{"x"}, {"y":(2)2}]', "2x4"),
    LocalShape('["x"=8, "y"=2, "z"=3]', "7x3x8", '[{"x"}, {"y"}, {"z"}]', "1x2x3", False),
]


class Program(NamedTuple):
    """A program that is right, or refused."""

    name: str
    text: str
    refusal: str = ""


_MESH = 'sdy.mesh @mesh = <["p"=2, "q"=4, "r"=3]>\n'


def _manual(inside: str, axes: str, body: str, outside: str = "") -> str:
    return f"""{_MESH}func.func @main(%x: t8x6) -> t8x6 {{
  %m = sdy.manual_computation(%x) in_shardings=[<{inside}>]
      out_shardings=[<{outside or inside}>] manual_axes={axes} (%a: t{body}) {{
    sdy.return %a : t{body}
  }} : (t8x6) -> t8x6
  return %m : t8x6
}}"""


def _in_manual(body: str) -> str:
    """A manual computation over p of 8x8, with operations in its body."""
    return f"""{_MESH}func.func @main(%x: t8x8) -> t8x8 {{
  %m = sdy.manual_computation(%x) in_shardings=[<[{{p}}, {{}}]>] out_shardings=[<[{{p}}, {{}}]>]
      manual_axes={{"p"}} (%a: t4x8) {{
    {body}
    sdy.return %y : t4x8
  }} : (t8x8) -> t8x8
  return %m : t8x8
}}"""


def _nested(axis: str, inner: str, body: str) -> str:
    return _in_manual(f"""%y = sdy.manual_computation(%a) in_shardings=[<{inner}>]
        out_shardings=[<{inner}>] manual_axes={{"{axis}"}} (%b: t{body}) {{
      sdy.return %b : t{body}
    }} : (t4x8) -> t4x8""")


def _with(operation: str) -> str:
    return f"{_MESH}func.func @main(%x: t8) {{\n  {operation}\n  return\n}}"


def _takes(type_: str, attribute: str) -> str:
    return f"{_MESH}func.func @main(%x: {type_} {{sdy.sharding = #sdy.{attribute}}}) {{ return }}"


_LATE = "must have all manual axes come before free axes in its dimension sharding at index 0. Saw"
PROGRAMS = [
    Program("manual axes divide", _manual("[{p}, {}]", '{"p"}', "4x6")),
    Program("manual axes of another dimension", _manual("[{}, {r}]", '{"r"}', "8x2")),
    Program("a free axis stays in the body", _manual("[{p, q}, {}]", '{"p"}', "4x6")),
    Program("two manual axes of a dimension", _manual("[{p, q}, {}]", '{"p", "q"}', "1x6")),
    Program("a manual axis that is not mentioned", _manual("[{}, {}]", '{"p"}', "8x6")),
    Program("a replicated one", _manual("[{}, {}], replicated={p}", '{"p"}', "8x6")),
    Program("manual axes out of order", _manual("[{p}, {}]", '{"q", "p"}', "4x6")),
    Program("open shardings", _manual("[{p, ?}, {?}]", '{"p"}', "4x6")),
    Program("no manual axes", _manual("[{p}, {}]", "{}", "8x6")),
    Program(
        "a manual axis behind a free one",
        _manual("[{q, p}, {}]", '{"p"}', "4x6"),
        f'{_LATE} manual axis "p" after free axis "q"',
    ),
    Program(
        "a body that is not local",
        _manual("[{p}, {}]", '{"p"}', "8x6"),
        "Expected local shape 'tensor<4x6xf32>', actual local shape 'tensor<8x6xf32>'",
    ),
    Program(
        "a dimension that manual axes do not divide",
        _manual("[{r}, {}]", '{"r"}', "3x6"),
        "operand dimension size 8 is not divisible by the manual axes size 3",
    ),
    Program(
        "an unknown manual axis", _manual("[{p}, {}]", '{"z"}', "8x6"), 'unknown manual axis: "z"'
    ),
    Program(
        "a sharding of another rank",
        _manual("[{p}]", '{"p"}', "4x6", "[{p}, {}]"),
        "operand - sharding doesn't match tensor rank: 1 != 2",
    ),
    Program(
        "shardings over two meshes",
        _manual("[{p}, {}]", '{"p"}', "4x6")
        .replace(_MESH, f'{_MESH}sdy.mesh @other = <["p"=2]>\n')
        .replace("out_shardings=[<[{p}, {}]>]", 'out_shardings=[<@other, [{"p"}, {}]>]'),
        "all in and out shardings must be bound to the same mesh or an empty mesh",
    ),
    Program("one within another over another axis", _nested("q", "[{}, {q}]", "4x2")),
    Program(
        "one within another over the same axis",
        _nested("p", "[{}, {p}]", "4x4"),
        'operates on axis "p" which is already bound by a parent sdy.manual_computation op',
    ),
    Program(
        "a sharding over a free axis in a body",
        _in_manual("%y = stablehlo.negate %a on [{q}, {}] : t4x8"),
    ),
    Program(
        "a sharding over a manual axis in its body",
        _in_manual("%y = stablehlo.negate %a on [{p}, {}] : t4x8"),
        'result - operates on axis "p" which is already bound by a parent',
    ),
    Program(
        "a body that reads what is outside",
        _in_manual("%z = stablehlo.negate %x : t8x8\n    %y = stablehlo.negate %a : t4x8"),
        "using value defined outside the region",
    ),
    Program("a token with a sharding", _takes("!stablehlo.token", "sharding<@mesh, []>")),
    Program(
        "a token with dimensions",
        _takes("!stablehlo.token", "sharding<@mesh, [{}]>"),
        "non-shaped tensors can only have a sharding with rank 0",
    ),
    Program("a dynamic dimension", _takes("t?", 'sharding<@mesh, [{"p"}]>')),
    Program("a dimension of size 0", _takes("t0", 'sharding<@mesh, [{"p"}]>')),
    Program(
        "a tensor without a rank",
        _takes("tensor<*xf32>", "sharding<@mesh, [{}]>"),
        "only ranked tensors can have a sharding",
    ),
    Program("an unknown mesh", _takes("t8", "sharding<@no, [{}]>"), "unknown mesh: @no"),
    Program(
        "shardings of results on an argument",
        _takes("t8", "sharding_per_value<[<@mesh, [{}]>]>"),
        "should have a sharding attribute of type TensorShardingAttr",
    ),
    Program(
        "the sharding of an argument on an operation",
        _with("%y = stablehlo.negate %x at [{}] : t8"),
        "should have a sharding attribute of type TensorShardingPerValueAttr",
    ),
    Program(
        "two shardings of one result",
        _with("%y = stablehlo.negate %x on [{}]; [{}] : t8"),
        "result shardings don't match number of values: 2 shardings vs 1 values",
    ),
    Program("a barrier", _with("%y = sdy.propagation_barrier %x allowed_direction=NONE : t8")),
    Program(
        "a barrier that stops nothing",
        _with("%y = sdy.propagation_barrier %x allowed_direction=BOTH : t8"),
        "cannot specify `BOTH` as the direction",
    ),
    Program(
        "a constraint of another rank",
        _with("%y = sdy.sharding_constraint %x <[{}, {}]> : t8"),
        "sharding doesn't match tensor rank: 2 != 1",
    ),
    Program("a reshard over no axis", _with("%y = sdy.reshard %x <[{z}]> : t8"), 'axis name: "z"'),
    Program("a group of any number", _with("sdy.sharding_group %x group_id=-1 : t8")),
    Program(
        "a named computation of another type",
        _with('%y = sdy.named_computation<"f">(%x) (%a: t4) { sdy.return %a : t4 } : (t8) -> t8'),
        "inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation",
    ),
    Program("a mesh in a function", _with('sdy.mesh @m = <["p"=2]>'), "expects parent op"),
    Program("two meshes of one name", _MESH * 2, "redefinition of symbol named 'mesh'"),
    Program(
        "meshes of different numbers of devices",
        _with("sdy.sharding_group %x group_id=0 : t8").replace(
            _MESH, f'{_MESH}sdy.mesh @other = <["p"=2]>\n'
        ),
    ),
]
