"""Rules of users' operations that give something wrong: the error names rule and class."""

from __future__ import annotations

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core import Operation, attribute, builder, register
from minixla.core.attributes import Text
from minixla.core.errors import DerivativeError, MinixlaError, TransformError
from minixla_ops.elementwise.families import Elementwise
from minixla_ops.elementwise.transcendental import FloatUnary

X = np.ones(3, np.float32)

# By what is wrong: the rule, what it gives, and what the message says of it.
WRONG = {
    "scalar cotangent": ("vjp", lambda c, *_: [c.sum()], "given (f32[])"),
    "no cotangents": ("vjp", lambda *_: (), "given ()"),
    "a bare cotangent": ("vjp", lambda c, *_: c, "given f32[3]"),
    "two cotangents": ("vjp", lambda c, *_: [c, c], "given (f32[3], f32[3])"),
    "scalar tangent": ("jvp", lambda p, t, r: t[0].sum(), "given f32[]"),
    "a number": ("jvp", lambda p, t, r: 1, "given s32[]"),
    "something else": ("jvp", lambda p, t, r: "zero", "given 'zero'"),
    "scalar transpose": ("transpose", lambda c, *_: [c.sum()], "given (f32[])"),
    "no dimension": ("batch", lambda o, d: ops.tanh(*o), "given f32[3]"),
    "sizes": ("shape", lambda x: (1, 2), "a Shape, or a tuple of a Shape for each result"),
}
ASKED = {
    "jvp": lambda f: mx.jvp(f, (X,), (X,)),
    "vjp": lambda f: mx.grad(lambda x: f(x).sum())(X),
    "transpose": lambda f: mx.grad(lambda x: f(x).sum())(X),
    "batch": lambda f: mx.vmap(f)(X),
    "shape": lambda f: mx.make_graph(f)(X),
}


def operation(rule, given, base=FloatUnary, **space):
    """A builder of an operation whose rule gives what `given` does for its operands."""
    space |= {
        "__doc__": "A user's.",
        "__module__": "wrong_rules",
        "numpy": np.tanh,
        "stablehlo_name": "tanh",
    }
    space |= {"namespace": f"wrong{len(REGISTERED)}", rule: lambda self, *args: given(*args)}
    REGISTERED.append(register(type("Wrong", (base,), space)))
    return builder(REGISTERED[-1])


REGISTERED: list[type] = []


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("is_inherited", [False, True], ids=["own", "inherited"])
def test_the_error_names_the_rule_and_what_it_gave(name, is_inherited):
    rule, given, shown = WRONG[name]
    linear = {"linear_operands": (0,)} if rule == "transpose" else {}
    if is_inherited:
        space = {rule: lambda self, *args: given(*args), "__module__": "wrong_rules"}
        function = operation("unused", given, type("Base", (FloatUnary,), space), **linear)
    else:
        function = operation(rule, given, **linear)
    kind = DerivativeError if rule in ("jvp", "vjp", "transpose") else TransformError
    with pytest.raises(kind) as caught:
        ASKED[rule](function)
    message = str(caught.value)
    for phrase in (f"wrong: its {rule} rule gives", "class Wrong", shown, "test_user_rules.py"):
        assert phrase in message


def test_right_rules_are_as_they_were():
    space = {"vjp": lambda c, o, r, a: [3 * c], "jvp": lambda p, t, r: 3 * t[0]}
    function = operation("vjp", space["vjp"], jvp=lambda self, *args: space["jvp"](*args))
    np.testing.assert_array_equal(ASKED["vjp"](function), 3 * X)
    zero = operation("vjp", lambda c, *_: [None])
    np.testing.assert_array_equal(ASKED["vjp"](zero), 0 * X)


def test_rules_that_a_registered_class_gives_are_checked_once():
    operation("jvp", lambda p, t, r: t[0].sum())
    parent = REGISTERED[-1]
    heir = register(type("Heir", (parent,), {"__doc__": "A user's.", "__module__": "wrong_rules"}))
    assert heir.jvp is parent.jvp
    with pytest.raises(DerivativeError, match="heir: its jvp rule gives something else"):
        ASKED["jvp"](builder(heir))


def test_rules_that_are_missing():
    class Bare(Elementwise):
        """Has a name alone."""

        namespace = "bare"
        operands = ("x",)

    function = builder(register(Bare))
    for asked, rule in ((mx.jit, "stablehlo"), (mx.reference, "reference")):
        with pytest.raises(TransformError, match=f"bare: the operation has no {rule} rule"):
            asked(function)(X)


def test_an_expansion_of_another_type():
    function = operation("unused", None, expansion=lambda self, shape: lambda x: x.sum())
    with pytest.raises(TransformError, match=r"its expansion gives f32\[\], its shape"):
        mx.jit(function)(X)


def test_operations_with_attributes_and_several_results():
    class Pair(Operation):
        """Two of one."""

        namespace = "pair"
        operands = ("x",)
        label: str = attribute(Text(), default="")

        def shape(self, x):
            return (x, x)

        def reference(self, x):
            return x, x

        def jvp(self, primals, tangents, results):
            return (tangents[0], None) if self.label else tangents[0]

    pair = builder(register(Pair))
    with pytest.raises(MinixlaError, match="jvp rule"):
        mx.reference(lambda x: mx.jvp(pair, (x,), (x,)))(X)
    _, (first, second) = mx.reference(lambda x: mx.jvp(lambda y: pair(y, label="a"), (x,), (x,)))(X)
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, 0 * X)
