"""The stub: what editors and type checkers see is what there is."""

from __future__ import annotations

import inspect

import minixla_ops as ops
from minixla_ops.stubs import PATH, stub_text


def test_the_stub_is_what_the_classes_give():
    assert PATH.read_text() == stub_text(), "run python -m minixla_ops.stubs"


def test_derived_builders_have_the_signature_of_their_class():
    signature = inspect.signature(ops.reduce_precision)
    assert list(signature.parameters) == ["operand", "exponent_bits", "mantissa_bits"]
    assert signature.parameters["mantissa_bits"].annotation == "int"
    assert inspect.signature(ops.tanh).parameters["result_accuracy"].default is None
    assert "XLA: Tanh" in (inspect.getdoc(ops.tanh) or "")
    assert ops.tanh.__name__ == "tanh"
