"""Registered operations: names, namespaces, pickles, names that importing uses too, rules checked.

A user's rule that gives something wrong: the error names rule and class.
"""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core import builder
from minixla.core import registry as registry_module
from minixla.core.attributes import Integer, Text, attribute
from minixla.core.errors import DerivativeError, MinixlaError, TransformError
from minixla.core.operation import Operation
from minixla.core.registry import OTHERS, REGISTRY, operation_named, register
from minixla_ops.elementwise.families import Elementwise
from minixla_ops.elementwise.transcendental import FloatUnary


@pytest.fixture
def registry(monkeypatch):
    """The operations of other namespaces, of which a test's additions are taken out again."""
    others = dict(OTHERS)
    monkeypatch.setattr(registry_module, "OTHERS", others)
    return others


def named(name, **declared):
    """A new class of operations, of this package where it declares no namespace."""
    return type(name, (Operation,), {"__doc__": "New here.", "__module__": __name__, **declared})


def test_registering(registry):
    @register
    class Fresh(Operation):
        """New here."""

        size: int = attribute(Integer())

    assert operation_named("Fresh") is Fresh is registry["tests.Fresh"]
    fresh = Fresh(3)
    assert repr(fresh) == "<Operation tests.Fresh size=3>"
    for copied in (pickle.loads(pickle.dumps(fresh)), copy.deepcopy(fresh)):
        assert copied is fresh


def test_a_name_is_registered_once_in_a_namespace(registry):
    before = REGISTRY["Add"]
    with pytest.raises(ValueError, match="an operation named Add is already registered"):
        register(named("Add", namespace="xla"))
    ours, theirs = register(named("Add")), register(named("Add", namespace="their.own"))
    with pytest.raises(ValueError, match=r"an operation named tests\.Add is already registered"):
        register(named("Add"))
    assert REGISTRY["Add"] is before
    assert operation_named("Add") is operation_named("xla.Add") is before
    assert operation_named("tests.Add") is ours and pickle.loads(pickle.dumps(ours())) is ours()
    assert operation_named("their.own.Add") is theirs
    assert (theirs.name, theirs.builder_name, theirs.hlo_name) == ("their.own.Add", "add", "add")


def test_a_declared_namespace_is_inherited(registry):
    base = named("Base", namespace="mine")
    register(type("Member", (base,), {"__doc__": "One of a family."}))
    assert [each for each in registry if each.startswith("mine.")] == ["mine.Member"]
    assert operation_named("Member").name == "mine.Member"


def test_a_name_of_several_namespaces(registry):
    for space in ("mine", "theirs"):
        register(named("Both", namespace=space))
    with pytest.raises(KeyError, match=r"pass one of these names: mine\.Both, theirs\.Both"):
        operation_named("Both")


def test_an_operation_needs_a_docstring(registry):
    with pytest.raises(ValueError, match=r"operation tests\.Silent has no docstring"):
        register(named("Silent", __doc__=""))
    assert "tests.Silent" not in registry


def test_an_unknown_name():
    for name in ("Nothing", "mine.Add", "xla.Sent"):
        with pytest.raises(KeyError, match=f"no operation is named {re.escape(name)}; .*xla"):
            operation_named(name)
    with pytest.raises(KeyError, match=r"similar names: .*DotGeneral"):
        operation_named("DotGenerel")


# A user's operations, before or after importing has been loaded, which has some of these names.
USERS = """
import sys
import numpy as np
import minixla as mx
from minixla.core import builder, register
from minixla_ops.elementwise.families import FLOATS, Unary

class Doubled(Unary):
    element_types = FLOATS
    numpy = staticmethod(lambda x: 2 * x)
    stablehlo = lambda self, emit, operands, shapes, results: emit.same_shape(
        "stablehlo.add", operands * 2, shapes[0])
    derivative = lambda self, x, y: 0 * x + 2

def defined():
    names = "Sinh Atanh Erfc Zeta Polygamma NextAfter Undefined Igamma Betainc Add Constant Call"
    return [builder(register(type(name, (Doubled,), {"__doc__": "Mine."})))
            for name in names.split()]

text = '''func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = chlo.sinh %x : tensor<2xf32> -> tensor<2xf32>
  return %y : tensor<2xf32>
}'''
x = np.float32([1, 2])
if sys.argv[1] == "before":
    builders = defined()
np.testing.assert_allclose(mx.import_stablehlo(text)(x), np.sinh(x), rtol=1e-6)
import minixla.interop.incomplete
if sys.argv[1] == "after":
    builders = defined()
np.testing.assert_allclose(mx.import_stablehlo(text)(x), np.sinh(x), rtol=1e-6)

def everything(x):
    for each in builders:
        x = each(x)
    return x

report = mx.cross_check(everything, x)
assert str(report).splitlines()[0].endswith(": ok"), report
np.testing.assert_array_equal(mx.jit(everything)(x), x * 2.0 ** len(builders))
np.testing.assert_array_equal(mx.jit(mx.grad(lambda x: everything(x)[0]))(x), [4096, 0])
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_users_operations_have_any_names(when):
    command = [sys.executable, "-c", USERS, when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


X = np.ones(3, np.float32)

# By what is wrong: the rule, what it gives, and what the message says of it.
WRONG = {
    "scalar cotangent": ("vjp", lambda c, *_: [c.sum()], "returned (f32[])"),
    "no cotangents": ("vjp", lambda *_: (), "returned ()"),
    "a bare cotangent": ("vjp", lambda c, *_: c, "returned f32[3]"),
    "two cotangents": ("vjp", lambda c, *_: [c, c], "returned (f32[3], f32[3])"),
    "scalar tangent": ("jvp", lambda p, t, r: t[0].sum(), "returned f32[]"),
    "a number": ("jvp", lambda p, t, r: 1, "returned s32[]"),
    "something else": ("jvp", lambda p, t, r: "zero", "returned 'zero'"),
    "scalar transpose": ("transpose", lambda c, *_: [c.sum()], "returned (f32[])"),
    "no dimension": ("batch", lambda o, d: ops.tanh(*o), "returned f32[3]"),
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
    for phrase in (f"wrong: its {rule} rule must return", "class Wrong", shown, "test_registry.py"):
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
    with pytest.raises(DerivativeError, match="heir: its jvp rule must return tangents"):
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


def test_an_operation_lowered_to_another_type():
    function = operation("unused", None, lowered=lambda self, x: x.sum())
    with pytest.raises(TransformError, match=r"lowered returns f32\[\], but the shape"):
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
