"""StableHLO text: golden programs, constants of every type, names, locations, nested functions."""

from __future__ import annotations

import gc
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.attributes import Integer, Literal, attribute
from minixla.core.element_types import ELEMENT_TYPES
from minixla.core.graph import Graph
from minixla.core.operation import Operation
from minixla.core.shapes import DeclaredArray, Shape
from minixla.core.stablehlo_text import Emitter, attribute_text, literal_text
from minixla.core.tracing import trace_to_graph
from minixla_ops.programs.call import Call
from tests.oracles import assert_same, edge_values, run_stablehlo, run_xla

X = np.arange(3, dtype=np.float32)


def test_a_program():
    def layer(x, weights):
        return [ops.tanh(ops.dot(x, weights)), x]

    graph, _ = trace_to_graph(layer, [Shape("f32", (2, 3)), Shape("f32", (3, 2))], "layer")
    assert graph.stablehlo().splitlines()[:2] == [
        "module @layer {",
        "  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3x2xf32>) -> "
        "(tensor<2x2xf32>, tensor<2x3xf32>) {",
    ]
    assert graph.stablehlo().splitlines()[-4:] == [
        "    %1 = stablehlo.tanh %0 : tensor<2x2xf32>",
        "    return %1, %arg0 : tensor<2x2xf32>, tensor<2x3xf32>",
        "  }",
        "}",
    ]
    assert graph.stablehlo() == graph.stablehlo()


def test_calls():
    def function(x):
        return ops.call(lambda y: [ops.add(y, y)], ops.neg(x))

    graph, _ = trace_to_graph(function, [Shape("f32", (3,))], "main")
    assert graph.stablehlo() == (
        "module @main {\n"
        "  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>) {\n"
        "    %0 = stablehlo.negate %arg0 : tensor<3xf32>\n"
        "    %1 = func.call @_lambda_(%0) : (tensor<3xf32>) -> (tensor<3xf32>)\n"
        "    return %1 : tensor<3xf32>\n"
        "  }\n"
        "  func.func private @_lambda_(%arg0: tensor<3xf32>) -> (tensor<3xf32>) {\n"
        "    %0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>\n"
        "    return %0 : tensor<3xf32>\n"
        "  }\n"
        "}\n"
    )


def test_regions():
    emit = Emitter()
    adds, _ = trace_to_graph(lambda x, y: [ops.add(x, y)], [Shape("f32")] * 2)
    name = emit.name()
    assert emit.region(adds) == (
        "{\n"
        "    ^bb0(%r2: tensor<f32>, %r3: tensor<f32>):\n"
        "    %4 = stablehlo.add %r2, %r3 : tensor<f32>\n"
        "    stablehlo.return %4 : tensor<f32>\n"
        "    }"
    )
    assert (name, emit.name()) == ("%1", "%5"), "names go on after a region"


def test_operations_in_generic_form():
    emit = Emitter()
    vector, scalar = Shape("f32", (3,)), Shape("s32")
    names = emit.operation("a.b", ["%x"], [vector], [vector, scalar], ["{}"], n=3, skipped=None)
    nothing = emit.operation("a.c", [], [], [])
    assert (names, nothing) == (["%1", "%2"], [])
    assert emit._lines == [
        '    %1, %2 = "a.b"(%x) <{n = 3 : i64}> ({}) : '
        "(tensor<3xf32>) -> (tensor<3xf32>, tensor<i32>)",
        '    "a.c"() : () -> ()',
    ]


def test_inlining():
    adds, _ = trace_to_graph(lambda x, y: [ops.add(x, y)], [Shape("f32")] * 2)
    emit = Emitter()
    assert emit.expand(adds, ["%a", "%b"]) == ["%1"]
    assert emit._lines == ["    %1 = stablehlo.add %a, %b : tensor<f32>"]


def test_one_function_for_one_graph():
    inner, _ = trace_to_graph(lambda x: [ops.neg(x)], [Shape("f32", (3,))], "inner")
    same_name, _ = trace_to_graph(lambda x: [ops.tanh(x)], [Shape("f32", (3,))], "inner")

    def function(x):
        for graph in (inner, inner, same_name, inner):
            (x,) = ops.call(graph, x)
        return [x]

    text = trace_to_graph(function, [Shape("f32", (3,))])[0].stablehlo()
    assert text.count("func.func private @inner(") == 1
    assert text.count("func.func private @inner_0(") == 1
    assert text.count("func.call @inner(") == 3
    np.testing.assert_allclose(run_xla(text, [X])[0], -np.tanh(X), rtol=1e-6)


class _Repeated(Operation):
    """Write a call of a program that is made while it is written, as loops do, and then freed."""

    operands = ("operand",)
    count: int = attribute(Integer(1))

    def shape(self, operand):
        return operand

    def inner(self, shape):
        gc.collect()
        graph, _ = trace_to_graph(lambda *x: [ops.neg(x[0])], [shape] * self.count, "inner")
        return Call(graph)

    def stablehlo(self, emit, operands, shapes, results):
        operands, shapes = [*operands] * self.count, [*shapes] * self.count
        return self.inner(shapes[0]).stablehlo(emit, operands, shapes, results)

    def hlo(self, emit, operands, shapes, result):
        operands, shapes = [*operands] * self.count, [*shapes] * self.count
        return self.inner(shapes[0]).hlo(emit, operands, shapes, result)


def test_graphs_that_are_freed_while_others_are_written():
    def several(x):
        for count in range(1, 9):
            x = _Repeated(count)(x)
        return [x]

    graph, _ = trace_to_graph(several, [Shape("f32", (3,))], "several")
    for _ in range(20):
        function = partial(lambda each, x: several(*ops.call(each, x)), graph)
        graph, _ = trace_to_graph(function, [Shape("f32", (3,))], "several")
    text = graph.stablehlo()
    assert text.count("func.func private @inner") == 8 * 21
    assert str(graph).count("\n%inner") == 8 * 21
    assert_same(run_xla(text, [X])[0], X)


NAMES = ["<lambda>", "f.g", "1st", "", "ü", 'quote"', "main"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_becomes_a_symbol(name):
    graph, _ = trace_to_graph(lambda x: ops.call(Graph(*one_call(name)), x), [Shape("f32")], name)
    assert run_xla(graph.stablehlo(), [np.float32(2)])[0] == -2


def one_call(name):
    graph, _ = trace_to_graph(lambda x: [ops.neg(x)], [Shape("f32")], name)
    return graph.inputs, graph.instructions, graph.outputs, name


# Constants.


@pytest.mark.parametrize("name", ELEMENT_TYPES)
@pytest.mark.parametrize("form", ["scalar", "list", "bytes", "splat", "empty"])
def test_constants_of_every_type(name, form):
    dtype = ELEMENT_TYPES[name].dtype
    values = edge_values(dtype)
    array = {
        "scalar": values[-1].reshape(()),
        "list": values[:30].reshape(-1),
        "bytes": np.resize(values, (5, 11)),
        "splat": np.broadcast_to(values[0], (3, 2)),
        "empty": np.zeros((0, 2), dtype),
    }[form]
    graph, _ = trace_to_graph(lambda: [np.asarray(array).view(DeclaredArray)], [])
    assert str(graph.output_shapes[0]).startswith(f"{name}[")
    # XLA:CPU has no types of 6 bits.
    run = run_stablehlo if name.startswith("f6") else run_xla
    (found,) = run(graph.stablehlo(), [])
    if dtype.kind in "fcV" and "int" not in dtype.name:
        assert_same(found, np.asarray(array), signed_zeros=True)
    else:
        np.testing.assert_array_equal(found, array)


TEXTS = [
    (np.float32(1), "dense<1.0> : tensor<f32>"),
    (np.float32(1e20), "dense<1.0000000200408773e+20> : tensor<f32>"),
    (np.float32("nan"), "dense<0x7FC00000> : tensor<f32>"),
    (np.float32("-inf"), "dense<0xFF800000> : tensor<f32>"),
    (np.float32(-0.0), "dense<-0.0> : tensor<f32>"),
    (ml_dtypes.bfloat16("inf"), "dense<0x7F80> : tensor<bf16>"),
    (np.array([True, False]), "dense<[true, false]> : tensor<2xi1>"),
    (np.array([[1, 2], [3, 4]], np.int8), "dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>"),
    (np.complex64(1 - 2j), "dense<(1.0, -2.0)> : tensor<complex<f32>>"),
    (np.zeros((2, 0), np.float32), "dense<> : tensor<2x0xf32>"),
    (np.broadcast_to(np.uint8(7), (1000, 1000)), "dense<7> : tensor<1000x1000xui8>"),
    (
        np.arange(33, dtype=np.uint8),
        f'dense<"0x{bytes(range(33)).hex().upper()}"> : tensor<33xui8>',
    ),
]


@pytest.mark.parametrize(("array", "text"), TEXTS, ids=[text[:30] for _, text in TEXTS])
def test_texts_of_constants(array, text):
    assert literal_text(Literal(array)) == text


@pytest.mark.parametrize(
    "array",
    [
        np.arange(40.0, dtype="f4").reshape(5, 8).T,
        np.arange(80, dtype="i2")[::-2],
        np.arange(100) % 3 == 0,
    ],
    ids=["transposed", "reversed", "pred"],
)
def test_layout_of_bytes(array):
    graph, _ = trace_to_graph(lambda: [array], [])
    np.testing.assert_array_equal(run_xla(graph.stablehlo(), [])[0], array)


ATTRIBUTES = [
    ("#stablehlo<x y>", "#stablehlo<x y>"),
    (True, "true"),
    (False, "false"),
    (3, "3 : i64"),
    (-0.5, "-0.5 : f32"),
    (1e-20, "1.0e-20 : f32"),
    ((), "array<i64>"),
    ((1, -2), "array<i64: 1, -2>"),
    ((True, False), "array<i1: true, false>"),
    (((1, 2), (3, 4)), "dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>"),
]


@pytest.mark.parametrize(("value", "text"), ATTRIBUTES)
def test_texts_of_attributes(value, text):
    assert attribute_text(value) == text


# Locations.


def located(x):
    y = ops.tanh(x)
    return ops.reduce([y], [np.float32(0)], ops.add, [0])


def test_locations():
    graph = mx.make_graph(located)(X)
    text = Emitter(locations=True).module(graph)
    first = located.__code__.co_firstlineno
    for line, operation in [(1, "stablehlo.tanh"), (2, "stablehlo.reduce"), (2, "constant")]:
        (alias,) = {
            each.split("loc(#")[1].rstrip(")")
            for each in text.splitlines()
            if operation in each or (operation == "stablehlo.reduce" and each.startswith("    })"))
        } - {""}
        assert f'#{alias} = loc("{__file__}":{first + line}:0)' in text
    assert "loc(" not in graph.stablehlo()


def test_locations_parse():
    text = Emitter(locations=True).module(mx.make_graph(mx.grad(mx.jit(located)))(X))
    cotangent = run_xla(text, [X])[0]
    np.testing.assert_allclose(cotangent, 1 - np.tanh(X) ** 2, rtol=1e-5, atol=1e-6)
