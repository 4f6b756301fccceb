"""Facts about propagation, by name."""

from __future__ import annotations

from tests.minixla.sharding.facts import Fact, loop

BASIC, AGGRESSIVE = "sdy-basic-propagate", "sdy-aggressive-propagate"
BY_OPERATION, BY_USER = "sdy-op-priority-propagate", "sdy-user-priority-propagate"
EVERY = (BASIC, AGGRESSIVE, BY_OPERATION, BY_USER)

_DOT = """(%x: t8x16, %w: t16x12) -> (t8x12) {
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (t8x16, t16x12) -> t8x12
  return %d : t8x12
}"""
_DOT_TANH = """(%x: t8x16 at [{p}, {}], %w: t16x12 at [{}, {q}]) -> (t8x12) {
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (t8x16, t16x12) -> t8x12
  %t = stablehlo.tanh %d : t8x12
  return %t : t8x12
}"""
_NEGATE = """(%x: t8x16 at [{p}, {q, ?}]) -> (t8x16 at [{?}, {?}], replicated={q}) {
  %n = stablehlo.negate %x : t8x16
  return %n : t8x16
}"""
_CONFLICT = """sdy.mesh @mesh = <["p"=2, "q"=2]>
func.func @main(%x: t8x8 at [{p}, {}], %w: t8x8) -> (t8x8 at [{}, {p}]) {
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (t8x8, t8x8) -> t8x8
  %t = stablehlo.tanh %d : t8x8
  return %t : t8x8
}"""


def _sum(x: str, y: str, result: str = "") -> str:
    """A sum of operands of these shardings."""
    on, at = (f" {word} {result}" if result else "" for word in ("on", "at"))
    return f"""(%x: t8x8 at {x}, %y: t8x8 at {y}) -> (t8x8{at}) {{
  %s = stablehlo.add %x, %y{on} : t8x8
  return %s : t8x8
}}"""


def _dotted(x: str, w: str, result: str) -> str:
    """The product, of which these have a sharding."""
    text = _DOT
    for old, sharding in {"%x: t8x16": x, "%w: t16x12": w, "-> (t8x12": result}.items():
        if sharding:
            text = text.replace(old, f"{old} at {sharding}")
    if result:
        text = text.replace("x [0]", f"x [0] on {result}")
    return text


PROPAGATION_FACTS = [
    *(
        Fact(
            f"G1: a product is sharded as the rows and columns it is of, {passes}",
            passes,
            _DOT_TANH,
            {
                "x [0]": "x [0] on [{p, ?}, {q, ?}]",
                "tanh %d": "tanh %d on [{p, ?}, {q, ?}]",
                "-> (t8x12)": "-> (t8x12 at [{p, ?}, {q, ?}])",
            },
        )
        for passes in EVERY
    ),
    Fact(
        "G2: what is summed over passes to the other operand, not to the result",
        BASIC,
        _dotted("", "[{p}, {}]", ""),
        _dotted("[{?}, {p, ?}]", "[{p}, {}]", ""),
    ),
    Fact(
        "G3: the function's result passes back to both operands",
        BASIC,
        _DOT.replace("-> (t8x12)", "-> (t8x12 at [{p}, {q}])"),
        _dotted("[{p, ?}, {?}]", "[{?}, {q, ?}]", "[{p, ?}, {q, ?}]").replace(
            "(t8x12 at [{p, ?}, {q, ?}])", "(t8x12 at [{p}, {q}])"
        ),
    ),
    Fact(
        "G4: two dimensions that want one axis have neither, basic",
        BASIC,
        _dotted("[{p}, {}]", "[{}, {p}]", ""),
    ),
    Fact(
        "G4: of two dimensions that want one axis the larger operand's has it, aggressive",
        AGGRESSIVE,
        _dotted("[{p}, {}]", "[{}, {p}]", ""),
        _dotted("[{p}, {}]", "[{}, {p}]", "[{?}, {p, ?}]"),
    ),
    *(
        Fact(
            f"G5: {closed}, {passes}",
            passes,
            _sum("[{p, q}, {}]", "[{p}, {}]"),
            _sum("[{p, q}, {}]", "[{p}, {}]", result),
        )
        for passes, closed, result in (
            (BASIC, "a closed dimension stops an axis", "[{p, ?}, {?}]"),
            (AGGRESSIVE, "a closed dimension stops an axis for itself alone", "[{p, q, ?}, {?}]"),
        )
    ),
    *(
        Fact(
            f"G6: of two dimensions that want one axis {which} has it, {passes}",
            passes,
            _sum("[{p}, {?}]", "[{?}, {p}]"),
            _sum("[{p}, {?}]", "[{?}, {p}]", result),
        )
        for passes, which, result in (
            (BASIC, "none", ""),
            (AGGRESSIVE, "the first operand's", "[{p, ?}, {?}]"),
        )
    ),
    Fact(
        "G7: a reshape splits an axis",
        BASIC,
        """(%x: t8 at [{q}]) -> (t2x4) {
  %r = stablehlo.reshape %x : (t8) -> t2x4
  return %r : t2x4
}""",
        {
            "reshape %x": "reshape %x on [{q:(1)2, ?}, {q:(2)2, ?}]",
            "(t2x4)": "(t2x4 at [{q:(1)2, ?}, {q:(2)2, ?}])",
        },
    ),
    Fact(
        "G8: an axis does not pass to where it is replicated",
        BASIC,
        _NEGATE,
        {"negate %x": "negate %x on [{p, ?}, {q, ?}]", "[{?}, {?}], rep": "[{p, ?}, {?}], rep"},
    ),
    Fact(
        "G9: nothing passes forward through a barrier that allows backward",
        BASIC,
        """(%x: t8x16 at [{p}, {}]) -> t8x16 {
  %b = sdy.propagation_barrier %x allowed_direction=BACKWARD : t8x16
  %n = stablehlo.negate %b : t8x16
  return %n : t8x16
}""",
    ),
    Fact(
        "G10: an axis need not divide a dimension",
        BASIC,
        """(%x: t7x16 at [{p}, {}]) -> (t7x16) {
  %n = stablehlo.negate %x : t7x16
  return %n : t7x16
}""",
        {
            "negate %x": "negate %x on [{p, ?}, {?}]",
            "-> (t7x16)": "-> (t7x16 at [{p, ?}, {?}])",
        },
    ),
    Fact(
        "G11: what is summed over leaves the result unsharded",
        BASIC,
        """(%x: t4x8 at [{}, {p}], %z: tensor<f32>) -> t4 {
  %r = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
      : (t4x8, tensor<f32>) -> t4
  return %r : t4
}""",
    ),
    *(
        Fact(
            f"G12: operands and results that are wanted differently stay so, {passes}",
            passes,
            _CONFLICT,
            {"x [0]": "x [0] on [{p, ?}, {?}]", "tanh %d": "tanh %d on [{?}, {p, ?}]"},
        )
        for passes in (BASIC, AGGRESSIVE)
    ),
    Fact(
        "G12: element-wise operations come first, by priority of operations",
        BY_OPERATION,
        _CONFLICT,
        {
            "x [0]": "x [0] on [{?}, {p, ?}]",
            "tanh %d": "tanh %d on [{?}, {p, ?}]",
            "%w: t8x8": "%w: t8x8 at [{?}, {p, ?}]",
        },
    ),
    Fact(
        "G13: what is more urgent comes first",
        BY_USER,
        _sum("[{p}p1, {}]", "[{}, {p}p0]"),
        _sum("[{p}, {}]", "[{}, {p}]", "[{?}, {p, ?}]"),
    ),
    Fact(
        "G13: of equally urgent operands the first comes first",
        BY_USER,
        _sum("[{p}, {}]", "[{}, {p}]"),
        _sum("[{p}, {}]", "[{}, {p}]", "[{p, ?}, {?}]"),
    ),
    Fact(
        "G14: a carried value is sharded in the loop and behind it",
        f"sdy-add-data-flow-edges,{BASIC},sdy-sink-data-flow-edges",
        loop("t8x4", " at [{p}, {}]", "(t8x4)"),
        {
            "tensor<i32>\n    cond": "tensor<i32> attributes {sdy.sharding = "
            "#sdy.sharding_per_value<[<[{p, ?}, {?}]>, <@mesh, []>]>}\n    cond",
            "add %a, %a": "add %a, %a on [{p, ?}, {?}]",
            "-> (t8x4)": "-> (t8x4 at [{p, ?}, {?}])",
        },
    ),
    Fact(
        "G15: members of a group are sharded exactly alike",
        BASIC,
        """(%x: t8x2 at [{p}, {q}]) -> (t8x2) {
  %c = stablehlo.constant dense<1.> : t8x2
  sdy.sharding_group %x group_id=0 : t8x2
  sdy.sharding_group %c group_id=0 : t8x2
  return %x : t8x2
}""",
        {
            "constant dense": "constant on [{p}, {q}] dense",
            "-> (t8x2)": "-> (t8x2 at [{p, ?}, {q, ?}])",
        },
    ),
    Fact(
        "G16: propagation enters a manual computation along free axes",
        f"sdy-add-data-flow-edges,{BASIC},sdy-sink-data-flow-edges",
        """sdy.mesh @mesh = <["p"=2, "q"=4, "r"=2]>
func.func @main(%x: t16x8) -> (t16x8 at [{q, p}, {r}]) {
  %m = sdy.manual_computation(%x) in_shardings=[<[{q, ?}, {?}]>]
      out_shardings=[<[{q, ?}, {?}]>] manual_axes={"q"} (%a: t4x8) {
    %n = stablehlo.negate %a : t4x8
    sdy.return %n : t4x8
  } : (t16x8) -> t16x8
  return %m : t16x8
}""",
        {
            "%x: t16x8": "%x: t16x8 at [{q, p, ?}, {r, ?}]",
            "in_shardings=[<[{q, ?}, {?}]>]": "in_shardings=[<[{q, p, ?}, {r, ?}]>]",
            "out_shardings=[<[{q, ?}, {?}]>]": "out_shardings=[<[{q, p, ?}, {r, ?}]>]",
            "negate %a": "negate %a on [{p, ?}, {r, ?}]",
        },
    ),
    Fact(
        "G17: after the whole pipeline shardings are closed, and constraints are reshards",
        "sdy-propagation-pipeline",
        """(%x: t8x16 at [{p}, {?}], %w: t16x12) -> (t8x12) {
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (t8x16, t16x12) -> t8x12
  %c = sdy.sharding_constraint %d <[{p}, {q}]> : t8x12
  %t = stablehlo.tanh %c : t8x12
  return %t : t8x12
}""",
        {
            "[{p}, {?}]": "[{p}, {}]",
            "%w: t16x12": "%w: t16x12 at [{}, {q}]",
            "x [0]": "x [0] on [{p}, {q}]",
            "sdy.sharding_constraint": "sdy.reshard",
            "tanh %c": "tanh %c on [{p}, {q}]",
            "-> (t8x12)": "-> (t8x12 at [{p}, {q}])",
        },
    ),
]
