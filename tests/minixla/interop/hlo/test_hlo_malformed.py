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
COUNT = 10_000 if IS_LONG else 500


def module(*lines):
    """A module whose entry has these lines, from line 4 on."""
    return (
        "HloModule test\n" + ADD.replace("\n", " ") + "\nENTRY main {\n" + "\n".join(lines) + "\n}"
    )


X = "  x = f32[2,3] parameter(0)"

# The text, and what the message says, with dots for what stands between.
TEXTS = {
    "nothing": ("", "line 1, column 1: found the end ... a module begins with HloModule name"),
    "words": (
        "hello world",
        "line 1, column 6: expects '=' in instruction ... hello world ... Pass HLO text",
    ),
    "no computation": ("HloModule x", "line 1, column 11: a name is expected"),
    "no entry": (
        "HloModule x\na {\n x = f32[] parameter(0)\n}\nb {\n x = f32[] parameter(0)\n}",
        "none of 2 computations is marked as ENTRY ... Mark the computation that runs first",
    ),
    "two entries": (
        module(X) + "\nENTRY b {\n x = f32[] parameter(0)\n}",
        "line 6, column 1: expects only one ENTRY",
    ),
    "a name twice": (
        module(X, X.replace("0", "1")),
        "line 5, column 3: parameter: instruction already exists: x",
    ),
    "a computation twice": (
        module(X) + "\nadd {\n x = f32[] parameter(0)\n}",
        "line 6, column 1: computation already exists: add",
    ),
    "no instruction": ("HloModule x\nENTRY a {\n}", "line 3, column 1: a name is expected"),
    "two roots": (
        module("ROOT " + X.strip(), "ROOT y = f32[2,3] abs(x)"),
        "line 5, column 1: abs: one computation should have only one ROOT",
    ),
    "no end": (module(X)[:-1], "found the end: a name is expected"),
    "no operand": (
        module(X, "ROOT y = f32[2,3] abs(y)"),
        "line 5, column 23: abs: value y is not defined before it",
    ),
    "an operand of another computation": (
        module(X, "ROOT y = f32[2,3] abs(a)"),
        "abs: value a is not defined before it ... Operands are defined in the same computation",
    ),
    "an operand before it is there": (
        module("ROOT y = f32[2,3] abs(x)", X.replace("parameter(0)", "constant({...})")),
        "line 4, column 23: abs: value x is not defined before it",
    ),
    "too many operands": (
        module(X, "ROOT y = f32[2,3] abs(x, x)"),
        "line 5, column 22: abs: expects 1 operands, but has 2 operands",
    ),
    "no operands": (
        module(X, "ROOT y = f32[2,3] add()"),
        "line 5, column 22: add: expects 2 operands, but has 0 operands",
    ),
    "an unknown opcode": (
        module(X, "ROOT y = f32[2,3] absolute(x)"),
        "column 19: absolute: absolute is neither a type nor an opcode ... Opcodes are XLA's",
    ),
    "an unknown element type": (
        module("x = f33[2] parameter(0)"),
        "line 4, column 5: parameter: f33 is neither a type nor an opcode",
    ),
    "a number of thousands of digits": (
        module(f"x = f32[{'9' * 5000}] parameter(0)"),
        "line 4, column 9: parameter: expects integer",
    ),
    "another shape": (
        module(X, "ROOT y = f32[3,2] abs(x)"),
        "line 5, column 1: abs: all non-scalar operands/results must ... f32[3,2] abs(x)",
    ),
    "another element type": (
        module(X, "ROOT y = pred[2,3] add(x, x)"),
        "line 5, column 1: add: operand #0 must be ... but got 'tensor<2x3xf32>'",
    ),
    "another tuple": (
        module(X, "ROOT y = (f32[2,3], f32[3]) tuple(x, x)"),
        "line 5, column 1: tuple: type of return operand 1 ('tensor<2x3xf32>') doesn't",
    ),
    "a tuple in place of an array": (
        module(X, "y = (f32[2,3]) tuple(x)", "ROOT z = f32[2,3] abs(y)"),
        "line 6, column 1: abs: operand #0 must be ... but got 'tuple<tensor<2x3xf32>>'",
    ),
    "a broken rule": (
        module(
            X, "ROOT y = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        ),
        "line 5, column 1: dot: expected both lhs/rhs ranks to be either 1 or 2",
    ),
    "a member that is not there": (
        module(X, "y = (f32[2,3]) tuple(x)", "ROOT z = f32[2,3] get-tuple-element(y), index=1"),
        "line 6, column 1: get-tuple-element: index 1 in a tuple of 1 ... begin at 0",
    ),
    "a member of no tuple": (
        module(X, "y = () tuple()", "ROOT z = f32[2,3] get-tuple-element(() %y), index=0"),
        "line 6, column 1: get-tuple-element: index 0 in a tuple of 0",
    ),
    "a member of a tuple of tuples": (
        module(
            X,
            "y = (f32[2,3]{1,0}) tuple(x)",
            "z = ((f32[2,3]{1,0}), /*index=1*/f32[2,3]) tuple(y, x)",
            "u = f32[2,3] get-tuple-element(z), index=1",
            'ROOT v = f32[2,3] get-tuple-element(z), metadata={op_name="a(b), c"}, index=2',
        ),
        "line 8, column 1: get-tuple-element: index 2 in a tuple of 2",
    ),
    "an attribute that is not there": (
        module(X, "ROOT y = f32[3,2] transpose(x)"),
        "line 5, column 1: transpose: attribute dimensions is expected but not seen",
    ),
    "an unknown attribute": (
        module(X, "ROOT y = f32[2,3] abs(x), saturate=true"),
        'line 5, column 27: abs: unexpected attribute "saturate". Allowed attributes: ',
    ),
    "an attribute of another form": (
        module(X, "ROOT y = f32[3,2] transpose(x), dimensions={a,b}"),
        "line 5, column 45: transpose: expects integer ... dimensions={a,b}",
    ),
    "an attribute twice": (
        module(X, "ROOT y = f32[3,2] transpose(x), dimensions={1,0}, dimensions={1,0}"),
        "line 5, column 51: transpose: attribute dimensions already exists",
    ),
    "an attribute without a value": (
        module(X, "ROOT y = f32[3,2] transpose(x), dimensions="),
        "line 5, column 1: transpose: expects a list to end",
    ),
    "a wrong choice": (
        module(X, "ROOT y = pred[2,3] compare(x, x), direction=NEQ"),
        "line 5, column 45: compare: expects comparison direction but sees: NEQ",
    ),
    "no computation of that name": (
        module(
            X,
            "z = f32[] constant(0)",
            "ROOT y = f32[2] reduce(x, z), dimensions={1}, to_apply=sum",
        ),
        "line 6, column 56: reduce: computation sum does not exist ... Define it in the module",
    ),
    "a computation of other operands": (
        module(X, "ROOT y = f32[] call(x), to_apply=add"),
        "line 5, column 1: call: incorrect number of operands for callee",
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
    "no parameter": (
        module(X.replace("(0)", "(1)")),
        "line 4, column 3: parameter: XLA's parser crashes on this: it gives up",
    ),
    "a parameter twice": (
        module(X, X.replace("x", "y")),
        "line 5, column 27: parameter: Duplicate parameter number 0",
    ),
    "a parameter without a number": (
        module(X.replace("(0)", "(a)")),
        "line 4, column 26: parameter: expects integer",
    ),
    "another result": (
        "HloModule x\n%a (x: f32[2]) -> f32[3] {\n x = f32[2] parameter(0)\n}",
        "line 2, column 19: Shape of computation a, f32[3], is not compatible",
    ),
    "too few numbers": (
        module("ROOT c = s32[2,2] constant({{1, 2}, {3}})"),
        "line 4, column 39: constant: expects 2 elements in the [1]th element, but sees 1",
    ),
    "other braces": (
        module("ROOT c = s32[2,2] constant({1, 2, 3, 4})"),
        "line 4, column 29: constant: expects nested array in rank 2",
    ),
    "a number out of range": (
        module("ROOT c = s8[] constant(128)"),
        "constant: value 128 is out of range for literal's primitive type S8 namely [-128, 127]",
    ),
    "a float out of range": (
        module("ROOT c = f16[] constant(1e6)"),
        "constant: value 1e+06 is out of range for literal's primitive type F16",
    ),
    "no number": (
        module("ROOT c = f32[] constant(1_0)"),
        "line 4, column 25: constant: unexpected token type in a literal",
    ),
    "a float for an integer": (
        module("ROOT c = s32[] constant(1.5)"),
        "line 4, column 25: constant: expects integer",
    ),
    "a huge constant": (
        module(f"ROOT c = f32[{10**17}] constant({{1}})"),
        "line 4, column 1: constant: Failed to allocate buffer for Literal",
    ),
    "half a pair": (
        module("ROOT c = c64[] constant(1)"),
        "line 4, column 25: constant: unsupported primitive type C64",
    ),
    "a wrong layout": (
        module("ROOT c = f32[2,3]{1,1} parameter(0)"),
        "line 4, column 1: parameter: layout minor_to_major field has duplicate values: {1, 1}",
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
        "line 6, column 1: reduce-window: expects window-dimensions size == input rank",
    ),
    "no end of a string": (
        module(X, 'ROOT r = f32[2,3] abs(x), metadata={op_name="a}'),
        "line 5, column 45: abs: expects string",
    ),
    "no end of braces": (
        module(X, "ROOT r = f32[2,3] abs(x), metadata={op_name={"),
        "line 5, column 45: abs: expects string",
    ),
    "no end of parentheses": (
        "HloModule x\nENTRY a {\n x = ((f32[2]",
        "found the end: expects ')' at the end of tuple",
    ),
    "nested tuples": (
        "HloModule x\nENTRY a {\n x = " + "(" * 1000 + ")" * 1000 + " parameter(0)\n}",
        "line 3, column 2: parameter: Failed to deserialize HloModuleProto",
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
    with pytest.raises(mx.ImportError_, match=r"Pass HLO text.* a serialized"):
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
@pytest.mark.parametrize("part", range(4) if IS_LONG else range(1))
def test_damaged_texts(part):
    """Each is refused with a place, or is a program still; none takes long."""
    sources = texts()
    for source in sources:
        mx.import_hlo(source, shardings="drop")
    refused, slowest = 0, 0.0
    seeds = range(part, COUNT, 4) if IS_LONG else range(COUNT)
    for seed in seeds:
        random_ = random.Random(seed)
        text = damaged(random_.choice(sources), random_)
        start = time.perf_counter()
        try:
            mx.import_hlo(text, shardings="drop")
        except mx.ImportError_ as error:
            assert str(error).startswith("import_hlo: line "), seed
            refused += 1
        slowest = max(slowest, time.perf_counter() - start)
    assert len(seeds) // 2 < refused < len(seeds)
    assert slowest < 5


@pytest.mark.parametrize("line", ["2147483647", "18446744073709551614"])
def test_lines_that_no_file_has(line):
    metadata = f'metadata={{op_name="f" source_file="/a.py" source_line={line}}}'
    body = f"x = f32[2] parameter(0)\nROOT y = f32[2] sine(x), {metadata}"
    text = f"HloModule m\n\nENTRY e {{\n{body}\n}}\n"
    (step,) = mx.import_hlo(text).graph.instructions
    assert str(step.source).startswith("/a.py:0 ")


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
    with pytest.raises(mx.ImportError_, match="line 3"):
        mx.import_hlo(text)
    assert time.perf_counter() - start < 5


def chain(count):
    """A module of `count` computations, each of which calls the one before."""
    parts = ["HloModule deep\n\nstep0 {\n x = f32[] parameter(0)\n ROOT y = f32[] sine(x)\n}"]
    parts += [
        f"step{i} {{\n x = f32[] parameter(0)\n ROOT y = f32[] call(x), to_apply=step{i - 1}\n}}"
        for i in range(1, count)
    ]
    return "\n\n".join([*parts[:-1], f"ENTRY {parts[-1]}"])


def test_computations_within_each_other():
    imported = mx.import_hlo(chain(3_000))
    assert len(imported.functions) == 3_000
    assert hash(imported.graph) == hash(imported.functions["step2999"].graph)
    assert str(imported.graph).count("call(") == 2_999
    for function in (imported, imported.functions["step200"]):
        with pytest.raises(mx.TransformError, match="more than 100 nested calls of computations"):
            mx.reference(function)(np.float32(1))
    found = mx.reference(imported.functions["step99"])(np.float32(1))
    np.testing.assert_allclose(found, np.sin(np.float32(1)), rtol=1e-6)


def long_module(count):
    lines = ["HloModule long\n\nENTRY %main (x: f32[4,4]) -> f32[4,4] {"]
    lines += ["  %v0 = f32[4,4]{1,0} parameter(0)"]
    for i in range(1, count):
        operation = f"add(%v{i - 1}, %v{max(0, i - 3)})" if i % 2 else f"sine(%v{i - 1})"
        metadata = f'metadata={{op_name="f" source_file="/a.py" source_line={i % 100}}}'
        lines.append(f"  %v{i} = f32[4,4]{{1,0}} {operation}, {metadata}")
    return "\n".join([*lines, "}"])


@pytest.mark.full
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
