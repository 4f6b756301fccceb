"""What may change in the definition of an operation: S1..S22 and U1..U16."""

import json

import pytest

from minixla.core.errors import AttributeValueError
from minixla.extension.compatibility import check_compatible
from minixla.extension.definitions import Definition

#: attrs, inputs and outputs before and after, each separated by semicolons.
CHANGES = {
    "S1": ("a: int = 0 | x: int32 | y: int32", "a: int = 0 | x: int32 | y: int32"),
    "S2": ("| x: int32 |", "a: int = 0 | x: int32 |"),
    "S3": ("e: {'apple'} = 'apple' ||", "e: {'apple', 'pear'} = 'apple' ||"),
    "S3 any": ("e: {'apple'} = 'apple' ||", "e: string = 'apple' ||"),
    "S4": ("T: {int32} | x: T |", "T: {int32, bool} | x: T |"),
    "S5": ("T: {int32, bool} | x: T |", "T: type | x: T |"),
    "S6": ("a: int = 0; b: int = 1 ||", "b: int = 1; a: int = 0 ||"),
    "S7": ("| x: int32 | y: int32", "T: type = DT_INT32 | x: T | y: T"),
    "S8": ("| x: int32 |", "N: int = 1 | x: N * int32 |"),
    "S9": ("| x: int32 |", "N: int = 1; T: type = DT_INT32 | x: N * T |"),
    "S10": ("| x: int32 |", "T: list(type) = [DT_INT32] | x: T |"),
    "S11": ("T: type | x: T |", "T: type; N: int = 1 | x: N * T |"),
    "S12": ("| x: int32; y: int32 |", "N: int = 2 | x: N * int32 |"),
    "S13": ("| x: int32; y: float |", "T: list(type) = [DT_INT32, DT_FLOAT] | x: T |"),
    "S14": ("| x: int32 |", "| renamed: int32 |"),
    "S15": ("| x: int32 |", "N: int >= 0 = 0 | x: int32; more: N * int32 |"),
    "S16": ("| x: int32 |", "N: int >= 0 = 0; T: type = DT_FLOAT | x: int32; more: N * T |"),
    "S17": ("T: type | x: T |", "T: type; N: int >= 0 = 0 | x: T; more: N * T |"),
    "S18": ("| x: int32 |", "T: list(type) >= 0 = [] | x: int32; more: T |"),
    "S19": ("N: int >= 3 | x: N * int32 |", "N: int >= 2 | x: N * int32 |"),
    "S19 types": ("T: list(type) >= 3 | x: T |", "T: list(type) >= 2 | x: T |"),
    "S20": ("a: int >= 3 ||", "a: int >= 2 ||"),
    "S20 none": ("a: int >= 3 ||", "a: int ||"),
    "S21": ("| x: Ref(int32) |", "| x: int32 |"),
    "S22": ("|| y: int32", "|| y: Ref(int32)"),
    "U1": ("a: int = 0 ||", "||"),
    "U2": ("||", "a: int ||"),
    "U3": ("| x: int32 |", "| x: int32; more: int32 |"),
    "U3 output": ("|| y: int32", "|| y: int32; more: float"),
    "U4": ("| x: int32 |", "N: int = 1 | x: int32; more: N * int32 |"),
    "U4 types": ("| x: int32 |", "T: list(type) = [DT_FLOAT] | x: int32; more: T |"),
    "U5": ("| x: int32 |", "| x: float |"),
    "U6": ("| x: int32; y: float |", "| y: float; x: int32 |"),
    "U7": ("| x: int32; y: float |", "| x: int32 |"),
    "U7 output": ("|| x: int32; y: float", "|| y: float"),
    "U8": ("a: int = 0 ||", "a: float = 0.0 ||"),
    "U9": ("a: list(int) = [1] ||", "a: int = 1 ||"),
    "U9 list": ("a: int = 1 ||", "a: list(int) = [1] ||"),
    "U10": ("T: type | x: T |", "T: list(type) | x: T |"),
    "U11": ("N: int; T: type | x: N * T |", "T: list(type) | x: T |"),
    "U12": ("T: {int32, bool} | x: T |", "T: {int32} | x: T |"),
    "U12 new": ("e: string ||", "e: {'apple'} ||"),
    "U13": ("a: int >= 2 ||", "a: int >= 3 ||"),
    "U13 new": ("a: int ||", "a: int >= 3 ||"),
    "U13 list": ("T: list(type) >= 2 | x: T |", "T: list(type) >= 3 | x: T |"),
    "U14": ("| x: int32 |", "| x: Ref(int32) |"),
    "U14 output": ("|| y: Ref(int32)", "|| y: int32"),
    "U15": ("|| y: int32", "|| renamed: int32"),
    "U16": ("a: int = 0 ||", "a: int = 1 ||"),
    "U16 gone": ("a: int = 0 ||", "a: int ||"),
    "U16 new": ("a: int ||", "a: int = 0 ||"),
}


def definition(text: str) -> Definition:
    parts = [[x.strip() for x in part.split(";") if x.strip()] for part in text.split("|")]
    return Definition.of("MyOp", *parts, has_references=True)


@pytest.mark.parametrize("name", CHANGES)
def test_c57_c58_each_change_is_recognised(name):
    old, new = map(definition, CHANGES[name])
    report = check_compatible(old, new)
    rule = name.split()[0]
    found = [change.rule for change in report.changes if change.rule != "call"]
    assert rule in found
    assert report.ok == rule.startswith("S"), report
    if rule.startswith("S"):
        assert set(found) == {rule}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("| x: int32 |", "T: type = DT_INT32 | x: T |", "safe"),
        ("| x: int32 |", "a: int = 0 | x: int32 |", "safe"),
        ("| x: int32 |", "| renamed: int32 |", "graph-safe, call-unsafe"),
        ("| x: int32 |", "N: int = 1 | x: N * int32 |", "graph-safe, call-unsafe"),
        ("a: int = 0; b: int = 1 ||", "b: int = 1; a: int = 0 ||", "graph-safe, call-unsafe"),
        ("| x: int32; y: int32 |", "N: int = 2 | x: N * int32 |", "graph-safe, call-unsafe"),
        ("| x: int32 |", "| x: float |", "unsafe"),
    ],
)
def test_c61_callers_are_looked_at_too(old, new, verdict):
    report = check_compatible(definition(old), definition(new))
    assert report.verdict == verdict
    assert verdict in str(report)
    assert report.is_call_safe == (verdict == "safe")


def test_c59_polymorphism_with_a_default_is_safe():
    old = {"name": "ZeroOut", "inputs": ["to_zero: int32"], "outputs": ["zeroed: int32"]}
    attrs = ["T: {float, int32} = DT_INT32"]
    new = {"name": "ZeroOut", "attrs": attrs, "inputs": ["to_zero: T"], "outputs": ["zeroed: T"]}
    report = check_compatible(json.dumps(old), new)
    assert report.ok
    assert [each.rule for each in report.changes] == ["S7", "S7"]
    assert json.loads(json.dumps(report.as_dict()))["verdict"] == "safe"


@pytest.mark.parametrize("name", CHANGES)
def test_definitions_have_a_form_in_json(name):
    for each in map(definition, CHANGES[name]):
        again = Definition.from_dict(json.loads(json.dumps(each.as_dict())))
        assert str(again) == str(each)
        assert check_compatible(each, again).verdict == "safe"


@pytest.mark.parametrize(
    "given", ["{", 3, {}, {"name": "A", "attrs": 3}, [], {"attrs": ["a: int"]}]
)
def test_what_is_no_definition_is_refused(given):
    with pytest.raises(
        AttributeValueError, match=r"check_compatible: .*is not a definition of an operation"
    ):
        check_compatible(given, given)


def test_unsafe_changes_say_what_to_do():
    report = check_compatible(*map(definition, CHANGES["U11"]))
    assert "Register the changed operation under a new name" in str(report)
    assert "N: int >= 1" in str(report)
