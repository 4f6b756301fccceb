"""Reading takes time linear in the length of a text: fragments repeated to a megabyte."""

from __future__ import annotations

import random
import time

import pytest

import minixla as mx

_LENGTH = 1 << 20
# Reading a text of this length in linear time takes a tenth of it.
_SECONDS = 20.0
_FRAGMENTS = [
    *('"', '\\"', '"\\', "\\", "(", "()", "[", "{", "<", "<>", "->", ")", ">", "}", "// ", "//\n"),
    *("/", "\n", " ", "\t", "a", "a ", "a.", "0", "1,", "-", "%a", "%a ", "%a,", "@a", "#a", "^a"),
    *("loc(", 'loc("a":1:1)', '#l = loc("a":1:1)\n', "dense<", "dense<[", "dense<[1,", 'dense<"0x'),
    *("tensor<", "tensor<1x", "1x", "stablehlo.", "all_to_all", "all_to_all replica_groups"),
    *("replica_groups = dense<", "a = 1,", "{a = ", "mhlo.", "func.func @f() { return }\n", "é"),
    *(
        '"a" ',
        '"a":1:1 ',
        '"\\22" ',
        '"\\FF"',
        "%0 = stablehlo.add %a, %a : tensor<f32>\n",
        "^bb0:",
    ),
    *("sdy.sharding", "1e", "0x", "1.", "tensor<?x", "tuple<", "complex<", ":", ",", "?", "*", "'"),
    *("ENTRY ", "HloModule ", "constant({...})", "constant(", "-0,", "get-tuple-element("),
    *("a = get-tuple-element(", "a = f32[] get-tuple-element(b), index=0 ", "sharding={"),
    *(" sharding={", " sharding={{a} ", "calls={", "calls=a ", "/*", "/**/", "f32[", "f32[2]{"),
    *("metadata={", "custom-call(", "ROOT ", "a = ", "%a = f32[] add(", "a (", "a {", "\na {"),
    *("\nENTRY a (", "{\n", "}\n", "num_partitions=2 ", "frontend_attributes={", "index=0"),
]
_HEAD = "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n"
_BLOCK = "HloModule m\nENTRY e {\n a = f32[] parameter(0)\n "
_BEGINNINGS = [
    *("", _HEAD, f'{_HEAD}"', f"{_HEAD}%0 = stablehlo.add ", "func.func @"),
    f"{_HEAD}%0 = stablehlo.constant dense<",
    f'{_HEAD}%0 = "stablehlo.custom_call"(%a) {{a = ',
    'func.func @main() { return } loc("',
    *("HloModule m\n", "HloModule m, ", _BLOCK, f"{_BLOCK}b = f32[] constant("),
    f'{_BLOCK}b = f32[] sine(a), metadata={{op_name="',
    f"{_BLOCK}b = (f32[], f32[]) tuple(a, a)\n ROOT c = f32[] get-tuple-element(b)",
    f"{_BLOCK}ROOT b = f32[] add(a, a), ",
]
#: Texts that once took quadratic time.
_KNOWN = [
    (f'{_HEAD}"', '\\"'),
    (_HEAD, '"\\'),
    (f"{_HEAD}%0 = ", "all_to_all "),
    (f"{_BLOCK}b = f32[] constant(", '"\\'),
    (f"{_BLOCK}b = f32[] add(a, a), ", '"\\'),
    (_BLOCK, "b = f32[] get-tuple-element(a"),
    (_BLOCK, " sharding={"),
    (_BLOCK, " sharding={{a}"),
    ("HloModule m sharding= ", "HloModule "),
    (_BLOCK, "calls={"),
]
_ALL = [(start, fragment) for start in _BEGINNINGS for fragment in _FRAGMENTS]
_SOME = random.Random(0).sample(_ALL, 40)
_MORE = random.Random(1).sample(_ALL, 400)


def _slow(start: str, fragment: str, length: int) -> bool:
    """Return whether reading takes too long."""
    text = start + fragment * (length // len(fragment))
    read = mx.import_hlo if start.startswith("HloModule") else mx.import_stablehlo
    begin = time.monotonic()
    with pytest.raises(mx.ImportError_):
        read(text)
    return time.monotonic() - begin > _SECONDS


@pytest.mark.parametrize("start, fragment", _KNOWN)
def test_known_texts(start, fragment):
    assert not _slow(start, fragment, _LENGTH)


def test_some_repeated_fragments():
    assert not [each for each in _SOME if _slow(*each, _LENGTH)]


@pytest.mark.full
def test_repeated_fragments():
    assert not [each for each in _MORE if _slow(*each, _LENGTH // 4)]


def test_long_programs():
    """Valid programs of a megabyte: names, locations, attributes and strings of every length."""
    count = 8000
    lines = [
        f'  %{n + 1} = stablehlo.add %{n}, %{n} {{a{n} = "\\22{n}\\22"}} : tensor<f32> '
        f'loc("name {n}"("file {n}":{n}:1))'
        for n in range(count)
    ]
    body = "\n".join(lines).replace("%0,", "%a,").replace("%0 ", "%a ")
    text = f"{_HEAD}{body}\n  return %{count} : tensor<f32>\n}}"
    begin = time.monotonic()
    with pytest.warns(UserWarning, match="and 7980 others"):
        program = mx.import_stablehlo(text)
    assert time.monotonic() - begin < _SECONDS
    assert len(program.graph.instructions) == count
