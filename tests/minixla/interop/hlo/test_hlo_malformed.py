"""HLO that is none: each text ends in an error that says where it is wrong, and what to do."""

from __future__ import annotations

import contextlib
import random
import time

import numpy as np
import pytest
from hypothesis import settings

import minixla as mx
from tests.minixla.interop.hlo.fuzz_hlo import damaged
from tests.minixla.interop.hlo.hlo_programs import PROGRAMS, dump
from tests.minixla.interop.hlo.test_hlo_written import ADD, BODIES, CONSTANTS, MORE, PROCESSES

IS_LONG = settings().max_examples > 100
#: Seeds of damaged texts.
COUNT = 100_000 if IS_LONG else 4_000


def module(*lines):
    """A module whose entry has these lines, from line 4 on."""
    return (
        "HloModule test\n" + ADD.replace("\n", " ") + "\nENTRY main {\n" + "\n".join(lines) + "\n}"
    )


X = "  x = f32[2,3] parameter(0)"

# The text, and what the message says, with dots for what stands between.
TEXTS = {
    "nothing": ("", "line 1, column 1: found the end ... a module begins with: HloModule name"),
    "words": ("hello world", "line 1, column 1: found 'hello world' ... a module begins with"),
    "no computation": ("HloModule x", "none of 0 computations is marked as ENTRY"),
    "no entry": (
        "HloModule x\na {\n x = f32[] parameter(0)\n}\nb {\n x = f32[] parameter(0)\n}",
        "none of 2 computations is marked as ENTRY ... Mark the computation that runs first",
    ),
    "two entries": (
        module(X) + "\nENTRY b {\n x = f32[] parameter(0)\n}",
        "two ENTRY computations",
    ),
    "a name twice": (module(X, X.replace("0", "1")), "line 5, column 3: x is there twice"),
    "a computation twice": (
        module(X) + "\nadd {\n x = f32[] parameter(0)\n}",
        "add is there twice",
    ),
    "no instruction": ("HloModule x\nENTRY a {\n}", "computation a has no instruction"),
    "two roots": (module("ROOT " + X.strip(), "ROOT y = f32[2,3] abs(x)"), "two ROOTs"),
    "no end": (module(X)[:-1], "found the end ... an instruction is: %name = f32"),
    "no operand": (
        module(X, "ROOT y = f32[2,3] abs(y)"),
        "line 5, column 23: abs: there is no value y",
    ),
    "an operand of another computation": (
        module(X, "ROOT y = f32[2,3] abs(a)"),
        "no value a before it ... Operands are defined in the same computation",
    ),
    "an operand before it is there": (
        module("ROOT y = f32[2,3] abs(x)", X.replace("parameter(0)", "constant({...})")),
        "there is no value x before it",
    ),
    "too many operands": (
        module(X, "ROOT y = f32[2,3] abs(x, x)"),
        "line 5, column 1: abs: abs: 2 operands were given",
    ),
    "no operands": (module(X, "ROOT y = f32[2,3] add()"), "add: 0 operands were given"),
    "an unknown opcode": (
        module(X, "ROOT y = f32[2,3] absolute(x)"),
        "opcode absolute is not known ... Opcodes are XLA's",
    ),
    "an unknown element type": (module("x = f33[2] parameter(0)"), "'f33[2]' is not a shape"),
    "a number of thousands of digits": (
        module(f"x = f32[{'9' * 5000}] parameter(0)"),
        "not a shape",
    ),
    "another shape": (
        module(X, "ROOT y = f32[3,2] abs(x)"),
        "the result is declared f32[3,2], but is f32[2,3]",
    ),
    "another element type": (
        module(X, "ROOT y = pred[2,3] add(x, x)"),
        "the result is declared pred[2,3], but is f32[2,3]",
    ),
    "another tuple": (
        module(X, "ROOT y = (f32[2,3], f32[3]) tuple(x, x)"),
        "is declared (f32[2,3], f32[3]), but is (f32[2,3], f32[2,3])",
    ),
    "a tuple in place of an array": (
        module(X, "y = (f32[2,3]) tuple(x)", "ROOT z = f32[2,3] abs(y)"),
        "abs: operand 0 is a tuple, (f32[2,3]) ... Take the members out of it",
    ),
    "a broken rule": (
        module(
            X, "ROOT y = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        ),
        "line 5, column 1: dot: dot_general:  ... lhs f32[2,3]",
    ),
    "a member that is not there": (
        module(X, "y = (f32[2,3]) tuple(x)", "ROOT z = f32[2,3] get-tuple-element(y), index=1"),
        "there is no member 1",
    ),
    "an attribute that is not there": (
        module(X, "ROOT y = f32[3,2] transpose(x)"),
        "transpose: attribute dimensions is missing",
    ),
    "an unknown attribute": (
        module(X, "ROOT y = f32[2,3] abs(x), saturate=true"),
        "column 36: abs: attribute saturate is not known ... It may change what is computed",
    ),
    "an attribute of another form": (
        module(X, "ROOT y = f32[3,2] transpose(x), dimensions={a,b}"),
        "attribute dimensions cannot be {a,b} ... It is such as dimensions={1,0}",
    ),
    "an attribute twice": (
        module(X, "ROOT y = f32[3,2] transpose(x), dimensions={1,0}, dimensions={1,0}"),
        "attribute dimensions is there twice",
    ),
    "an attribute without a value": (
        module(X, "ROOT y = f32[3,2] transpose(x), dimensions="),
        "attribute dimensions has no value",
    ),
    "a wrong choice": (
        module(X, "ROOT y = pred[2,3] compare(x, x), direction=NEQ"),
        "attribute direction cannot be NEQ ... It is one of EQ, NE",
    ),
    "no computation of that name": (
        module(
            X,
            "z = f32[] constant(0)",
            "ROOT y = f32[2] reduce(x, z), dimensions={1}, to_apply=sum",
        ),
        "reduce: there is no computation sum",
    ),
    "a computation of other operands": (
        module(X, "ROOT y = f32[] call(x), to_apply=add"),
        "add is given (f32[2,3]) ... It takes (f32[], f32[])",
    ),
    "a branch of other operands": (
        module(
            X,
            "p = pred[] constant(true)",
            "ROOT y = f32[] conditional(p, x, x), true_computation=add, false_computation=add",
        ),
        "branch 0 is given (f32[2,3])",
    ),
    "recursion": (
        "HloModule x\nENTRY a {\n x = f32[] parameter(0)\n y = f32[] call(x), to_apply=b\n}\n"
        "b {\n x = f32[] parameter(0)\n y = f32[] call(x), to_apply=a\n}",
        "computation a calls itself ... XLA's programs do not recurse: use while",
    ),
    "no parameter": (module(X.replace("(0)", "(1)")), "computation main has no parameter 0"),
    "a parameter twice": (module(X, X.replace("x", "y")), "its number cannot be '0'"),
    "a parameter without a number": (module(X.replace("(0)", "(a)")), "its number cannot be 'a'"),
    "another signature": (
        "HloModule x\n%a (x: f32[3]) -> f32[2] {\n x = f32[2] parameter(0)\n}",
        "a declares other parameters than it has ... declared (f32[3]) ... parameters (f32[2])",
    ),
    "another result": (
        "HloModule x\n%a (x: f32[2]) -> f32[3] {\n x = f32[2] parameter(0)\n}",
        "declares another result than its ROOT ... declared f32[3] ... ROOT f32[2]",
    ),
    "too few numbers": (
        module("ROOT c = s32[2,2] constant({{1, 2}, {3}})"),
        "line 4, column 28: constant: 3 numbers are given for the 4 of s32[2,2]",
    ),
    "other braces": (
        module("ROOT c = s32[2,2] constant({1, 2, 3, 4})"),
        "the braces do not show the dimensions of s32[2,2]",
    ),
    "a number out of range": (
        module("ROOT c = s8[] constant(128)"),
        "128 is out of the range of s8, [-128, 127]",
    ),
    "a float out of range": (
        module("ROOT c = f16[] constant(1e6)"),
        "1e6 is out of the range of f16",
    ),
    "no number": (module("ROOT c = f32[] constant(1_0)"), "'1_0' is no number of type f32"),
    "a float for an integer": (
        module("ROOT c = s32[] constant(1.5)"),
        "'1.5' is no number of type s32",
    ),
    "a huge constant": (
        module(f"ROOT c = f32[{10**17}] constant({{1}})"),
        "1 numbers are given for the 1000000",
    ),
    "half a pair": (module("ROOT c = c64[] constant(1)"), "'1' is no number of type c64"),
    "a wrong layout": (
        module("ROOT c = f32[2,3]{1,1} parameter(0)"),
        "{1,1} is no layout of f32[2,3] ... A layout names each dimension once",
    ),
    "a stretched broadcast": (
        module("a = f32[1] parameter(0)", "ROOT b = f32[2] broadcast(a), dimensions={0}"),
        "other sizes than f32 ... HLO's broadcast adds dimensions and does not stretch",
    ),
    "a window of other dimensions": (
        module(
            X,
            "z = f32[] constant(0)",
            "ROOT r = f32[2] reduce-window(x, z), window={size=2}, to_apply=add",
        ),
        "attribute window cannot be {size=2} ... It has 2 dimensions",
    ),
    "no end of a string": (
        module(X, 'ROOT r = f32[2,3] abs(x), metadata={op_name="a}'),
        "a string has no end",
    ),
    "no end of braces": (
        module(X, "ROOT r = f32[2,3] abs(x), metadata={op_name={"),
        "there is no } for this {",
    ),
    "no end of parentheses": ("HloModule x\nENTRY a {\n x = ((f32[2]", "there is no ) for this ("),
    "nested tuples": (
        "HloModule x\nENTRY a {\n x = " + "(" * 5000 + ")" * 5000 + " parameter(0)\n}",
        "more than 100 tuples within each other",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_message_for_each_mistake(name):
    text, message = TEXTS[name]
    with pytest.raises(mx.ImportError_) as caught:
        mx.import_hlo(text)
    found = str(caught.value)
    assert found.startswith("import_hlo: line ")
    assert found.count("called at ") == 1
    assert "test_hlo_malformed.py:" in found
    position = 0
    for part in message.split(" ... "):
        assert part in found[position:], found
        position = found.index(part, position) + len(part)


@pytest.mark.parametrize("source", [b"\xff\xfe", 3, None, ["HloModule"]])
def test_other_sources(source):
    with pytest.raises(mx.ImportError_, match="Give HLO text, or the path of a file"):
        mx.import_hlo(source)


def texts():
    """Texts to damage."""
    found = []
    for name in ("scan", "max pooling", "gather", "cond", "cholesky"):
        made = dump(*PROGRAMS[name][:2])
        found += [made.unoptimised, made.optimised]
    parameters = "y = f32[2,3] parameter(1)\nx = f32[2,3] parameter(0)\n"
    bodies = [parameters + body for name, (body, _) in BODIES.items() if name != "opt-barrier"]
    bodies += [f"x = f32[4] parameter(0)\n{body}" for body, _ in PROCESSES.values()]
    bodies += [f"ROOT c = {text}" for text, _ in CONSTANTS.values()]
    return found + [f"HloModule test\n\n{MORE}ENTRY main {{\n{body}\n}}\n" for body in bodies]


@pytest.mark.drawn
def test_damaged_texts():
    """Each is refused with a place, or is a program still; none takes long."""
    sources = texts()
    for source in sources:
        mx.import_hlo(source, shardings="drop")
    refused, slowest = 0, 0.0
    for seed in range(COUNT):
        random_ = random.Random(seed)
        text = damaged(random_.choice(sources), random_)
        start = time.perf_counter()
        try:
            mx.import_hlo(text, shardings="drop")
        except mx.ImportError_ as error:
            assert str(error).startswith("import_hlo: line "), seed
            refused += 1
        slowest = max(slowest, time.perf_counter() - start)
    assert COUNT // 2 < refused < COUNT
    assert slowest < 5


# Long texts, each of which a backtracking expression would take hours for.
LONG = {
    "digits": f"f32[{'1' * 200_000}] parameter(0)",
    "blanks in a shape": f"f32[{' ' * 200_000}] parameter(0)",
    "blanks in a layout": f"f32[2]{{{' ' * 200_000}x}} parameter(0)",
    "blanks": f"f32[2] parameter(0), metadata={{a{' ' * 200_000}}}",
    "comments without an end": "/*" * 100_000,
    "strings without an end": r"\"" * 100_000,
    "names in metadata": f"f32[2] parameter(0), metadata={{{'a' * 200_000}}}",
    "braces": "f32[2] parameter(0), metadata=" + "{" * 100_000 + "}" * 100_000,
    "open braces": "f32[2] parameter(0), metadata=" + "{" * 200_000,
    "parentheses": "(" * 200_000,
    "parentheses in a word": "f32[2] parameter(0), sharding=" + "(" * 200_000,
    "a literal of braces": "f32[2] constant(" + "{" * 100_000 + ")",
    "a list": f"f32[2] reverse(x), dimensions={{{'1,' * 100_000}}}",
    "blanks in a list": f"f32[2] reverse(x), dimensions={{1{' ' * 200_000}x}}",
    "a window": f"f32[2] reduce-window(x, x), window={{size={'1x' * 100_000}}}",
    "operands": f"f32[2] add({'x, ' * 100_000}x)",
    "attributes": "f32[2] abs(x)" + "".join([f", a{i}=1" for i in range(50_000)]),
}


@pytest.mark.parametrize("name", LONG)
def test_long_texts_take_no_longer_than_they_are(name):
    text = f"HloModule test\nENTRY main {{\n x = f32[2] parameter(1)\n y = {LONG[name]}\n}}"
    start = time.perf_counter()
    with contextlib.suppress(mx.ImportError_):  # some are programs, though long ones
        mx.import_hlo(text)
    assert time.perf_counter() - start < 5


def test_long_rows_of_tables():
    row = f"1 {{file_location_id={'1' * 200_000}}}"
    lines = ["x = f32[2] parameter(0)", "y = f32[2] sine(x), metadata={stack_frame_id=1}"]
    text = module(*lines).replace("\n", f"\n\nStackFrames\n{row}\n\n", 1)
    start = time.perf_counter()
    assert len(mx.import_hlo(text).graph.instructions) == 1
    assert time.perf_counter() - start < 5


def chain(count):
    """A module of `count` computations, each of which calls the one before."""
    parts = ["HloModule deep\n\nc0 {\n x = f32[] parameter(0)\n ROOT y = f32[] sine(x)\n}"]
    parts += [
        f"c{i} {{\n x = f32[] parameter(0)\n ROOT y = f32[] call(x), to_apply=c{i - 1}\n}}"
        for i in range(1, count)
    ]
    return "\n\n".join([*parts[:-1], f"ENTRY {parts[-1]}"])


def test_computations_within_each_other():
    imported = mx.import_hlo(chain(10_000))
    assert len(imported.functions) == 10_000
    assert hash(imported.graph) == hash(imported.functions["c9999"].graph)
    assert str(imported.graph).count("call(") == 9_999
    for function in (imported, imported.functions["c200"]):
        with pytest.raises(mx.TransformError, match="more than 100 computations call each other"):
            mx.reference(function)(np.float32(1))
    found = mx.reference(imported.functions["c99"])(np.float32(1))
    np.testing.assert_allclose(found, np.sin(np.float32(1)), rtol=1e-6)


def long_module(count):
    lines = ["HloModule long\n\nENTRY %main (x: f32[4,4]) -> f32[4,4] {"]
    lines += ["  %v0 = f32[4,4]{1,0} parameter(0)"]
    for i in range(1, count):
        operation = f"add(%v{i - 1}, %v{max(0, i - 3)})" if i % 2 else f"sine(%v{i - 1})"
        metadata = f'metadata={{op_name="f" source_file="/a.py" source_line={i % 100}}}'
        lines.append(f"  %v{i} = f32[4,4]{{1,0}} {operation}, {metadata}")
    return "\n".join([*lines, "}"])


def test_long_modules():
    """100,000 instructions; the bound is ten times what they take."""
    text = long_module(100_000)
    start = time.perf_counter()
    imported = mx.import_hlo(text)
    assert time.perf_counter() - start < 40
    assert len(imported.graph.instructions) == 99_999


def test_wide_tuples():
    count = 3000
    shape = f"({', '.join(['f32[]'] * count)})"
    members = ", ".join(["x"] * count)
    lines = [f"t{i} = {shape} tuple({members})" for i in range(3)]
    lines += [f"g{i} = f32[] get-tuple-element(t1), index={i}" for i in range(count)]
    text = module("x = f32[] parameter(0)", *lines)
    start = time.perf_counter()
    mx.import_hlo(text)
    assert time.perf_counter() - start < 10
