"""Declarations of attributes, inputs and outputs, in the words of `op_def.proto`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minixla.core import AttributeValueError
from minixla.core.attributes import REQUIRED, Literal
from minixla.core.element_types import ELEMENT_TYPES
from minixla.extension.definitions import Definition
from minixla.extension.grammar import ArgumentDeclaration, AttributeDeclaration

F32, S32, F64, PRED, C64 = map(ELEMENT_TYPES.get, ("f32", "s32", "f64", "pred", "c64"))


def read(text):
    return AttributeDeclaration.read(text, "MyOp")


def argument(text, attributes=()):
    return ArgumentDeclaration.read(text, attributes, "MyOp")


@pytest.mark.parametrize(
    "text",
    [
        "preserve_index: int",
        "i: int >= 1 = 1",
        "a: int >= 2",
        "e: {'apple', 'orange'}",
        "e: {'apple', 'orange'} = 'apple'",
        "t: {int32, float, bool}",
        "t: {numbertype, bool}",
        "n: numbertype",
        "n: realnumbertype = DT_HALF",
        "q: quantizedtype",
        "T: {float, int32} = DT_INT32",
        "T: list({float, double}) >= 2",
        "s: string = 'foo'",
        "s: bytes = b'a\\xff'",
        "f: float = 1.0",
        "b: bool = true",
        "sh: shape = { dim { size: 1 } dim { size: 2 } }",
        "l: list(int) = [2, 3, 5, 7]",
        "l: list(string) >= 1 = ['a', 'b']",
        "l: list(type) = [DT_INT32, DT_BOOL]",
        "l: list(shape)",
        "te: tensor",
    ],
)
def test_c11_to_c23_declarations_print_as_they_were_written(text):
    assert str(read(text)) == text
    assert str(read(str(read(text)))) == text


@pytest.mark.parametrize(
    "text, value",
    [
        ("s: string = 'foo'", "foo"),
        ("s: string = '\\xff'", b"\xff"),
        ("i: int = 0", 0),
        ("i: int = -7", -7),
        ("f: float = 1.0", 1.0),
        ("f: float = -2", -2.0),
        ("f: float = 0.1", float(np.float32(0.1))),
        ("f: float = inf", float("inf")),
        ("b: bool = true", True),
        ("b: bool = False", False),
        ("ty: type = DT_INT32", S32),
        ("ty: type = int32", S32),
        ("sh: shape = { dim { size: 1 } dim { size: 2 } }", (1, 2)),
        ("sh: shape = { dim { size: -1 } }", (None,)),
        ("sh: shape = { }", ()),
        ("sh: shape = (1, 2)", (1, 2)),
        ("l_empty: list(int) = []", ()),
        ("l_int: list(int) = [2, 3, 5, 7]", (2, 3, 5, 7)),
        ("l_int: list(int) = (2, 3)", (2, 3)),
        ("l: list(type) = [DT_FLOAT, DT_BOOL]", (F32, PRED)),
        ("l: list(shape) = [{ dim { size: 3 } }, { }]", ((3,), ())),
        ("l: list(string) = ['a', \"b\"]", ("a", "b")),
    ],
)
def test_c22_defaults_in_text_format_and_as_python_values(text, value):
    declared = read(text)
    assert declared.default == value and type(declared.default) is type(value)
    assert read(str(declared)).default == value


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("{ dtype: DT_INT32 int_val: 5 }", np.int32(5)),
        ("{ dtype: DT_INT4 int_val: -8 }", np.array(-8, ml_dtypes.int4)),
        ("{ dtype: DT_BOOL bool_val: [true, 0] }", np.array([True, False])),
        ("{ dtype: DT_INT32, int_val: 1, int_val: 2 }", np.int32([1, 2])),
        (
            "{ dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 2 } } float_val: 3 }",
            np.full((2, 2), 3, np.float32),
        ),
        ("{ dtype: DT_BOOL bool_val: [true, false] }", np.array([True, False])),
        ("[[1, 2], [3, 4]]", np.int32([[1, 2], [3, 4]])),
    ],
)
def test_c22_constants_of_kind_tensor(text, wanted):
    declared = read(f"te: tensor = {text}")
    assert isinstance(declared.default, Literal)
    for array in (declared.default.array, read(str(declared)).default.array):
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize(
    "declared, good, bad, says",
    [
        ("e: {'apple', 'orange'}", "apple", "pear", "must be one of 'apple', 'orange', not 'pear'"),
        ("t: {int32, float, bool}", np.int32, "double", "one of the types int32, float, bool"),
        ("n: numbertype", "int32", "bool", "must be one of the types"),
        ("n: numerictype", "complex64", "string", "not string"),
        ("r: realnumbertype", "bfloat16", "complex64", "not complex64"),
        ("r: realnumerictype", "half", "qint8", "not qint8"),
        ("q: quantizedtype", "qint8", "int8", "qint8, quint8, qint32, qint16, quint16"),
        ("t: {numbertype, bool}", "bool", "string", "not string"),
        ("a: int >= 2", 2, 1, "must be >= 2, not 1"),
        ("i: int >= 1 = 1", 1, 0, "must be >= 1, not 0"),
        ("a: list({int32, float}) >= 3", ["int32"] * 3, ["int32"] * 2, "length 2, less than the"),
        ("a: list({int32, float}) >= 3", ["float"] * 3, ["bool"] * 3, "not bool"),
        ("b: bool", True, 1, "must be True or False"),
        ("i: int", 3, 2.5, "must be an integer, not a float"),
        ("s: string", b"\xff", 3, "must be a string"),
        ("sh: shape", (2, None), "2", "must be a shape"),
        ("l: list(int)", (1,), 1, "must be a sequence"),
    ],
)
def test_c14_to_c21_constraints(declared, good, bad, says):
    kind = read(declared).kind
    kind.canonical(good)
    with pytest.raises((TypeError, ValueError), match=says.replace("(", r"\(")):
        kind.canonical(bad)


@pytest.mark.parametrize(
    "text, says, advice",
    [
        ("a int", "':' is missing", "Write an attribute as `name: kind`"),
        ("1a: int", "a name is missing", "Write an attribute as"),
        ("_a: int", "'_a' is not a valid name", "Write an attribute as"),
        ("a: intt", "'intt' is not a kind; similar: int", "Write a kind: string, bytes, int"),
        (
            "a: float32",
            "'float32' is not a kind",
            "or the types that it may be in braces: {float32}",
        ),
        ("a: list(list(int))", "lists of lists are not supported", "Lists hold string, int"),
        ("a: list(int", "')' is missing", "Write `list(int)`"),
        ("a: func", "attributes of kind func are not supported", "A Python function is no"),
        ("a: {}", "the set is empty", "Write types, {float, int32, numbertype}"),
        ("a: {'a', int32}", "the set mixes strings and types", "Write types"),
        ("a: {DT_INT32}", "'DT_INT32' is not a type here (int32)", "Write types"),
        ("a: {int32 float}", "'}' or ',' is missing", "Write types"),
        ("a: {floot}", "'floot' is not a type here", "Write types"),
        ("a: float >= 2", "float has no minimum", "Only int and lists have one"),
        ("a: int >= 2.5", "the minimum 2.5 is not an integer", "Write `int >= 2`"),
        ("a: int >= x", "a number is missing", "Write `int >= 2`"),
        ("a: list(int) >= -1", "a list cannot have negative length", "Write `list(int) >= 0`"),
        ("a: int = 1 2", "the declaration goes on where it should end", "Write an attribute"),
        ("i: int >= 1 = 0", "breaks its own declaration: must be >= 1, not 0", "i must be"),
        ("e: {'a'} = 'b'", "breaks its own declaration: must be one of 'a'", "e must be"),
        ("t: {float} = DT_INT32", "breaks its own declaration: must be one of", "t must be"),
        ("l: list(int) >= 2 = [1]", "has length 1, less than the minimum 2", "l must be"),
        ("b: bool = 1", "breaks its own declaration: must be True or False", "b must be"),
        ("s: string = foo", "must be a string, not foo", "s must be a string"),
        ("s: string = 'foo", "a name is missing", "Write a default of kind string"),
        ("te: tensor = { int_val: 1 }", "a tensor must state its dtype", "te must be"),
        ("te: tensor = { dtype: DT_INT8 int_val: 500 }", "s8 cannot hold [500]", "te must be"),
        ("te: tensor = { dtype: DT_INT4 int_val: [7, 8] }", "s4 cannot hold [7, 8]", "te must"),
        ("te: tensor = { dtype: DT_UINT8 int_val: -1 }", "u8 cannot hold [-1]", "te must be"),
        ("te: tensor = { dtype: DT_INT32 int_val: 1.5 }", "s32 cannot hold [1.5]", "te must be"),
        ("te: tensor = { dtype: DT_BOOL bool_val: 2 }", "pred cannot hold [2]", "te must be"),
        ("sh: shape = { unknown_rank: true }", "a shape has a known rank here", "sh must be"),
        ("l: list(int) = [1, 2", "']' is missing", "Write a default of kind list(int)"),
    ],
)
def test_c11_to_c23_a_wrong_declaration_says_where_and_what_to_write(text, says, advice):
    with pytest.raises(AttributeValueError) as caught:
        read(text)
    message = str(caught.value)
    assert message.startswith("MyOp: ")
    assert says in message and advice in message
    assert text in message


def test_c13_lists_of_lists_are_refused():
    with pytest.raises(AttributeValueError, match="lists of lists are not supported"):
        read("a: list(list(int))")


@pytest.mark.parametrize(
    "text", ["to_zero: int32", "x: T", "x: N * int32", "x: N * T", "s: string", "c: complex64"]
)
def test_c7_inputs_print_as_they_were_written(text):
    declared = argument(text, ("T", "N"))
    assert str(declared) == text


@pytest.mark.parametrize(
    "text, says, advice",
    [
        ("x", "':' is missing", "Write an input or output as `name: type`"),
        ("X: float", "'X' is not a valid name", "Write an input or output"),
        ("x: floot", "neither a type nor an attribute; similar: float", "`floot: type`"),
        ("x: U", "U is neither a type nor an attribute", "Declare an attribute `U: type`"),
        (
            "x: M * T",
            "M, the number of arrays, is not a declared attribute",
            "Declare it: `M: int`",
        ),
        ("x: Ref(float", "')' is missing", "Write an input or output"),
        ("x: float float", "the declaration goes on", "Write an input or output"),
    ],
)
def test_c7_and_c34_a_wrong_input_says_where_and_what_to_write(text, says, advice):
    with pytest.raises(AttributeValueError) as caught:
        argument(text, ("T", "N"))
    message = str(caught.value)
    assert message.startswith("MyOp: ")
    assert says in message and advice in message


def define(attributes, inputs, outputs=("y: float",)):
    return Definition.of("MyOp", attributes, inputs, outputs)


def test_c26_attributes_in_input_types_are_inferred():
    found = define(["T: type", "N: int", "a: int", "U: type = DT_FLOAT"], ["x: N * T"], ["y: U"])
    assert found.inferred == ("T", "N")


def test_c33_lists_hold_one_array_unless_they_say_otherwise():
    found = define(
        ["N: int", "T: list(type)", "M: int >= 0"], ["x: N * int32", "y: T", "z: M * float"]
    )
    assert [str(each) for each in found.attributes.values()] == [
        "N: int >= 1",
        "T: list(type) >= 1",
        "M: int >= 0",
    ]


def test_declarations_are_strings_or_objects():
    declared = read("T: {float, int32} = DT_INT32")
    same = define([declared], [argument("x: T", ["T"])], ["y: T"])
    assert str(same) == str(define([str(declared)], ["x: T"], ["y: T"]))
    assert same.attributes["T"].default is S32


@pytest.mark.parametrize(
    "attributes, inputs, says",
    [
        (["a: int", "a: float"], ["x: float"], "a is declared twice"),
        (["x: int"], ["x: float"], "x is declared twice"),
        ([], ["x: float", "x: float"], "x is declared twice"),
        (["T: int"], ["x: T"], "x uses the attribute T, which is of another kind"),
        (["N: float"], ["x: N * float"], "x uses the attribute N, which is of another kind"),
        (["T: list(type)", "N: int"], ["x: N * T"], "which is of another kind"),
        (["N: int = 0"], ["x: N * float"], "breaks its own declaration: must be >= 1"),
        ("a: int", ["x: float"], "a list of declarations is a string"),
        ([], ["x: Ref(float)"], "(?s)Ref.* is not supported.*return the new array as an output"),
    ],
)
def test_c34_declarations_that_do_not_fit_together(attributes, inputs, says):
    with pytest.raises(AttributeValueError, match=says):
        define(attributes, inputs)


def test_values_that_are_required_have_no_default():
    assert read("a: int").default is REQUIRED
    assert read("T: type").kind.canonical(np.float64) is F64
    assert read("T: type").kind.canonical(C64) is C64
