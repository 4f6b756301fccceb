"""Registered operations: names, namespaces, pickles, and names that importing uses too."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys

import pytest

from minixla.core import registry as registry_module
from minixla.core.attributes import Integer, attribute
from minixla.core.operation import Operation
from minixla.core.registry import NAMESPACES, operation_named, register


@pytest.fixture
def registry(monkeypatch):
    """Namespaces of which a test's additions are taken out again."""
    spaces = {space: dict(names) for space, names in NAMESPACES.items()}
    monkeypatch.setattr(registry_module, "NAMESPACES", spaces)
    return spaces


def named(name, **declared):
    """A new class of operations, of this package where it declares no namespace."""
    return type(name, (Operation,), {"__doc__": "New here.", "__module__": __name__, **declared})


def test_registering(registry):
    @register
    class Fresh(Operation):
        """New here."""

        size: int = attribute(Integer())

    assert operation_named("Fresh") is Fresh is registry["tests"]["Fresh"]
    fresh = Fresh(3)
    assert repr(fresh) == "<Operation tests.Fresh size=3>"
    for copied in (pickle.loads(pickle.dumps(fresh)), copy.deepcopy(fresh)):
        assert copied is fresh


def test_a_name_is_registered_once_in_a_namespace(registry):
    before = registry["xla"]["Add"]
    with pytest.raises(ValueError, match="an operation named Add is registered already"):
        register(named("Add", namespace="xla"))
    ours, theirs = register(named("Add")), register(named("Add", namespace="their.own"))
    with pytest.raises(ValueError, match=r"an operation named tests\.Add is registered already"):
        register(named("Add"))
    assert registry["xla"]["Add"] is before
    assert operation_named("Add") is operation_named("xla.Add") is before
    assert operation_named("tests.Add") is ours and pickle.loads(pickle.dumps(ours())) is ours()
    assert operation_named("their.own.Add") is theirs
    assert (theirs.name, theirs.builder_name, theirs.hlo_name) == ("their.own.Add", "add", "add")


def test_a_declared_namespace_is_inherited(registry):
    base = named("Base", namespace="mine")
    register(type("Member", (base,), {"__doc__": "One of a family."}))
    assert list(registry["mine"]) == ["Member"] and operation_named("Member").name == "mine.Member"


def test_a_name_of_several_namespaces(registry):
    for space in ("mine", "theirs"):
        register(named("Both", namespace=space))
    with pytest.raises(KeyError, match=r"give one of these names: mine\.Both, theirs\.Both"):
        operation_named("Both")


def test_an_operation_needs_a_docstring(registry):
    with pytest.raises(ValueError, match=r"operation tests\.Silent has no docstring"):
        register(named("Silent", __doc__=""))
    assert "Silent" not in registry.get("tests", {})


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
