"""Attributes, inputs and outputs with names that Python or the library also uses."""

from __future__ import annotations

import inspect
import keyword
import pickle
from itertools import count

import numpy as np
import pytest

import minixla as mx
from minixla.extension.attribute_types import IntegerKind
from minixla.extension.contexts import Context
from minixla.extension.definitions import Definition
from minixla.extension.grammar import AttributeDeclaration
from minixla.extension.operation import CustomOperation
from minixla.extension.registered import RegisteredOperation

_NUMBERS = count()
X = np.float32([1, 2])
RESERVED = {"call", "cls", "registered", "self"}
#: Names of the library's fields, methods and parameters, Python keywords, and pairs that clash.
TAKEN = {
    *dir(CustomOperation),
    *dir(Context),
    *inspect.get_annotations(CustomOperation),
    *inspect.signature(RegisteredOperation.kernel).parameters,
    *keyword.kwlist,
    *keyword.softkwlist,
    *("args", "count", "ctx", "index", "kwargs", "operands", "results", "space", "in_", "class_"),
}
TAKEN = sorted(each for each in TAKEN if not each.startswith("_"))


def define(attrs=(), inputs=("x: float",), outputs=("y: float",), shape_fn=mx.unchanged_shape):
    name = f"NamesTest{next(_NUMBERS)}"
    return mx.register_op(name, attrs=attrs, inputs=inputs, outputs=outputs, shape_fn=shape_fn)


def test_attributes_of_any_name():
    names = [each for each in TAKEN if each not in RESERVED]
    op = define([f"{each}: int = {index}" for index, each in enumerate(names)])
    op.kernel("any", lambda ctx, x: x * sum([ctx.attr(each) for each in names]))
    np.testing.assert_array_equal(op(X), X * sum(range(len(names))))
    parameters = list(inspect.signature(op.wrapper).parameters)[1:]
    assert len(parameters) == len(names) and "in_" in parameters and "in__" in parameters
    given = dict.fromkeys(parameters, 1)
    np.testing.assert_array_equal(mx.reference(op.wrapper)(X, **given), X * len(names))
    graph = mx.make_graph(lambda x: op(x, **given))(X)
    read = mx.make_graph(mx.import_stablehlo(graph.stablehlo()))(X).instructions[0].op.computation
    for same in (read, pickle.loads(pickle.dumps(graph))):
        assert same.instructions[0].op is graph.instructions[0].op
    assert str(graph) and repr(graph.instructions[0].op)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_names_are_refused_at_once(name):
    with pytest.raises(mx.AttributeValueError, match=f"an attribute cannot be named '{name}'"):
        define([f"{name}: int = 1"])


def test_inputs_and_outputs_of_any_name():
    names = [each for each in {*TAKEN, *RESERVED} if each.islower()]
    declared = [f"{each}: float" for each in names]
    op = define(inputs=declared, outputs=declared, shape_fn=lambda ctx, *inputs: inputs)
    op.kernel("reference", lambda ctx, *inputs: [2 * each for each in inputs])
    parameters = list(inspect.signature(op.wrapper).parameters)
    results = mx.reference(op.wrapper)(**dict.fromkeys(parameters, X))
    assert list(results._fields) == parameters and len(results) == len(names)
    np.testing.assert_array_equal(results, [2 * X] * len(names))


def test_an_operation_may_be_called_as_a_word_of_pythons():
    for name in ("None", "True", "Lambda"):
        op = mx.register_op(
            f"names_test{next(_NUMBERS)}.{name}",
            inputs=["x: float"],
            outputs=["y: float", "z: float"],
            shape_fn=mx.unchanged_shape,
        )
        op.kernel("reference", lambda ctx, x: [x, 2 * x])
        np.testing.assert_array_equal(mx.reference(op.wrapper)(X).z, 2 * X)


@pytest.mark.parametrize("name", ["", "1x", "a b", "a-b"])
def test_a_declaration_as_an_object_has_a_name_of_pythons(name):
    with pytest.raises(mx.AttributeValueError, match="is not a name"):
        define([AttributeDeclaration(name, IntegerKind())])


def test_parameters_of_functions_of_any_name_and_kind():
    @mx.custom_op("names_test.any")
    def function(
        X: mx.Array, /, _w: mx.Array, result: mx.Array, *, T_X: int = 3, __slots__: int = 2
    ) -> mx.Array:
        return X * _w * result * T_X * __slots__

    np.testing.assert_array_equal(function(X, X, X, T_X=4), 8 * X**3)
    assert mx.grad(lambda x: function(x, X, X).sum())(X).tolist() == [6, 24]
    stored = Definition.from_dict(function.definition.as_dict())
    assert str(stored) == str(function.definition)

    @mx.custom_op("names_test.every", kind="reference")
    def every(self: np.ndarray, call: int = 2, registered: int = 3) -> np.ndarray:
        return self * np.float32(call * registered)

    np.testing.assert_array_equal(mx.reference(every)(X, call=5), 15 * X)
