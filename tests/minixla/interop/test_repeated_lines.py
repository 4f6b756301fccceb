"""Long texts, of which MLIR reads each form of a line once: the same programs and errors."""

import re

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minixla as mx
from minixla.interop import importing
from minixla.interop.operations import SIMPLE
from minixla.interop.reading import opened
from minixla.interop.repeated_lines import folded


def _as_jax_writes(function, *shapes, places=False):
    given = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return jax.jit(function).lower(*given).as_text(debug_info=places)


def _layers(x, w):
    for step in range(20):
        y = jax.nn.gelu(x @ w) + step * jnp.arange(4.0)
        x = jax.nn.softmax(y) * jnp.where(y > 0, x, y)
    return x.sum()


def _loops(x, w):
    def body(carry):
        i, x = carry
        for _ in range(60):
            x = jnp.tanh(x * w) + jnp.float32(1)
        return i + 1, x

    x = jax.lax.while_loop(lambda carry: carry[0] < 3, body, (0, x))[1]
    branches = [lambda x: jax.jit(body)((0, x))[1], lambda x: body((0, x * x))[1]]
    return jax.lax.switch(x.size, branches, x)


_HEAD = "func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> {\n"


def _chain(*, broken: str = "", end: str = "%400") -> str:
    """A chain of 400 operations; one of its last lines is another one."""
    lines = [
        f"  %{number} = stablehlo.{'add' if number % 2 else 'multiply'} "
        f"%{number - 1 if number > 1 else 'arg0'}, %arg1 : tensor<4xf32>"
        for number in range(1, 401)
    ]
    if broken:
        lines[390] = f"  {broken}"
    return _HEAD + "\n".join(lines) + f"\n  return {end} : tensor<4xf32>\n}}\n"


def _of_several() -> str:
    """Results of operations that have several, names of a region and of functions, used again."""
    pair = "(tensor<4xf32>, tensor<4xf32>)"
    lines = [
        f"  %p{n}:2 = call @pair(%{f'q{n - 1}' if n else 'arg0'}) : (tensor<4xf32>) -> {pair}\n"
        f"  %a{n} = stablehlo.add %p{n}#0, %p{n}#1 : tensor<4xf32>\n"
        f"  %b{n} = stablehlo.tanh %a{n} : tensor<4xf32>\n"
        f"  %c{n} = stablehlo.compare  LT, %a{n}, %p{n}#1 : {pair} -> tensor<4xi1>\n"
        f"  %d{n} = stablehlo.convert %c{n} : (tensor<4xi1>) -> tensor<4xf32>\n"
        f'  %q{n} = "stablehlo.slice"(%d{n}) <{{limit_indices = array<i64: 4>, start_indices = '
        "array<i64: 0>, strides = array<i64: 1>}> : (tensor<4xf32>) -> tensor<4xf32>"
        for n in range(60)
    ]
    inner = "  %b0 = stablehlo.tanh %arg0 : tensor<4xf32>\n" + "".join(
        f"  %b{n} = stablehlo.tanh %b{n - 1} : tensor<4xf32>\n" for n in range(1, 40)
    )
    return (
        f"func.func private @pair(%arg0: tensor<4xf32>) -> {pair} {{\n{inner}"
        f"  return %b39, %b20 : tensor<4xf32>, tensor<4xf32>\n}}\n"
        + _HEAD
        + "\n".join(lines)
        + "\n  return %q59 : tensor<4xf32>\n}\n"
    )


_PROGRAMS = {
    "a chain": _chain(),
    "layers": _as_jax_writes(_layers, (2, 4), (4, 4)),
    "layers, with places": _as_jax_writes(_layers, (2, 4), (4, 4), places=True),
    "a gradient": _as_jax_writes(jax.value_and_grad(_layers), (2, 4), (4, 4)),
    "loops and branches": _as_jax_writes(_loops, (4,), (4,)),
    "loops, with places": _as_jax_writes(_loops, (4,), (4,), places=True),
    "several results and functions": _of_several(),
    "bytecode": jax.export.export(jax.jit(_layers))(
        np.zeros((2, 4), np.float32), np.zeros((4, 4), np.float32)
    ),
    "comments": re.sub("\n  %2(.)", "\n  // %2\\1 = stablehlo.add %7, %8\n  %2\\1", _chain()),
}


@pytest.mark.parametrize("text", _PROGRAMS.values(), ids=_PROGRAMS)
def test_programs_are_the_same(monkeypatch, text):
    assert sum(len(run.lines) for run in opened(text, SIMPLE).runs) > 100
    found = mx.import_stablehlo(text)
    monkeypatch.setattr(importing, "SIMPLE", frozenset())
    expected = mx.import_stablehlo(text)
    assert found.functions.keys() == expected.functions.keys()
    for name, function in found.functions.items():
        other = expected.functions[name].graph
        assert function.graph == other
        for step, alike in zip(function.graph.instructions, other.instructions, strict=True):
            assert step.source == alike.source


def test_mlir_reads_each_form_once():
    short, runs = folded(_PROGRAMS["a chain"], SIMPLE)
    assert short.count("\n") == _PROGRAMS["a chain"].count("\n")
    assert len(re.findall("stablehlo", short)) == 2
    assert [len(run.lines) for run in runs] == [398]


#: What is wrong with one line of a chain.
_BROKEN = {
    "twice defined": "%17 = stablehlo.add %390, %arg1 : tensor<4xf32>",
    "defined as an argument": "%arg1 = stablehlo.add %390, %arg1 : tensor<4xf32>",
    "not defined": "%391 = stablehlo.add %1000, %arg1 : tensor<4xf32>",
    "defined later": "%391 = stablehlo.add %395, %arg1 : tensor<4xf32>",
    "of another type": "%391 = stablehlo.add %390, %arg1 : tensor<5xf32>",
    "of another element type": "%391 = stablehlo.add %390, %arg1 : tensor<4xi32>",
    "a number of a result": "%391 = stablehlo.add %390#1, %arg1 : tensor<4xf32>",
    "too few operands": "%391 = stablehlo.add %390 : tensor<4xf32>",
    "no operation": "%391 = stablehlo.nothing %390, %arg1 : tensor<4xf32>",
    "no end": "%391 = stablehlo.add %390,",
    "a bracket": "%391 = stablehlo.add (%390, %arg1 : tensor<4xf32>",
}


def _message(source: str) -> str:
    with pytest.raises(mx.ImportError_) as caught:
        mx.import_stablehlo(source)
    return str(caught.value)


@pytest.mark.parametrize("line", _BROKEN.values(), ids=_BROKEN)
def test_errors_are_the_same(monkeypatch, line):
    text = _chain(broken=line)
    found = _message(text)
    monkeypatch.setattr(importing, "SIMPLE", frozenset())
    assert found == _message(text)


_LINES = st.integers(0, 1 << 16)
_DAMAGE = st.tuples(st.sampled_from(["drop", "copy", "swap", "rename", "insert"]), _LINES, _LINES)


def _damaged(text: str, kind: str, first: int, second: int) -> str:
    lines, names = text.split("\n"), re.findall(r"%[\w.$-]+", text)
    first, other = first % len(lines), second % len(lines)
    if kind == "drop":
        del lines[first]
    elif kind == "copy":
        lines.insert(first, lines[other])
    elif kind == "swap":
        lines[first], lines[other] = lines[other], lines[first]
    elif kind == "rename":
        lines[first] = re.sub(r"%[\w.$-]+", names[second % len(names)], lines[first], count=1)
    else:
        at = second % (len(lines[first]) + 1)
        lines[first] = lines[first][:at] + '{}%/": \n'[second % 8] + lines[first][at:]
    return "\n".join(lines)


def _outcome(text: str) -> tuple[str, object]:
    try:
        functions = mx.import_stablehlo(text).functions
    except mx.ImportError_ as error:
        return str(error), None
    return "", {name: each.graph for name, each in functions.items()}


@given(
    st.sampled_from(["a chain", "layers, with places", "several results and functions"]), _DAMAGE
)
def test_damaged_texts_are_read_or_refused_alike(name, damage):
    text = _damaged(_PROGRAMS[name], *damage)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importing, "SIMPLE", frozenset())
        expected = _outcome(text)
    assert _outcome(text) == expected


def test_a_name_that_two_regions_define():
    """Values of one region are none of another's: their names may be the same, or wrong."""

    def region(count: int, last: str) -> str:
        lines = [
            f"    %r{n} = stablehlo.add %{f'r{n - 1}' if n else 'arg0'}, %arg0 : tensor<4xf32>\n"
            for n in range(count)
        ]
        return "".join(lines) + f"    stablehlo.return {last} : tensor<4xf32>\n"

    def program(last: str) -> str:
        return (
            "func.func @main(%p: tensor<i1>, %arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
            '  %0 = "stablehlo.if"(%p) ({\n' + region(300, "%r299") + "  }, {\n"
            f"{region(200, last)}  }}) : (tensor<i1>) -> tensor<4xf32>\n"
            "  return %0 : tensor<4xf32>\n}\n"
        )

    assert folded(program("%r199"), SIMPLE)[1]
    found, x = mx.import_stablehlo(program("%r199")), np.float32([0.25, 0.5, -1, 3])
    for choice, count in ((True, 300), (False, 200)):
        assert (np.asarray(found(np.bool_(choice), x)) == (count + 1) * x).all()
    assert "undeclared" in _message(program("%r250"))


def test_what_depends_on_values_is_read_line_by_line():
    """A choice between a value and NaN becomes another operation than other choices."""
    lines = [
        f"  %s{n} = stablehlo.select %p, %{'nan' if n % 2 else 'arg0'}, %arg1 : "
        "tensor<4xi1>, tensor<4xf32>\n"
        for n in range(300)
    ]
    text = (
        _HEAD
        + "  %nan = stablehlo.constant dense<0x7FC00000> : tensor<4xf32>\n"
        + "  %p = stablehlo.compare  LT, %arg0, %arg1 : (tensor<4xf32>, tensor<4xf32>)"
        + " -> tensor<4xi1>\n"
        + "".join(lines)
        + "  return %s299 : tensor<4xf32>\n}\n"
    )
    names = {step.op.name for step in mx.import_stablehlo(text).graph.instructions}
    assert {"Select", "Undefined"} <= names


@pytest.mark.parametrize("mark", ["sdy.sharding", "minixla_run"])
def test_annotated_lines_are_read_by_mlir(mark):
    attribute = {
        "sdy.sharding": '{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}]>]>}',
        "minixla_run": "{minixla_run = 0}",
    }[mark]
    text = re.sub(r" : tensor<4xf32>$", f" {attribute} : tensor<4xf32>", _chain(), flags=re.M)
    assert not folded(text, SIMPLE)[1]
    mesh = 'sdy.mesh @mesh = <["a"=2]>\n' if mark == "sdy.sharding" else ""
    graph = mx.import_stablehlo(mesh + text.replace(f"%400 {attribute}", "%400")).graph
    assert len(graph.instructions) == 400
    assert (graph.annotations is not None) == bool(mesh)
