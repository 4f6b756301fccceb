"""str(graph) is HLO text: XLA's parser reads it, and what it reads computes the same."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]  # compiled, without stubs

import minixla as mx
import minixla_ops as ops
from minixla.core import Graph, Operation, Shape, parse_shape
from minixla.core.attributes import Instance, attribute
from minixla.core.tracing import trace_to_graph
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import graph_of
from tests.oracles import ALL_TYPES, assert_same, edge_values, run_xla

X = np.arange(6, dtype=np.float32).reshape(2, 3)
PAIR = np.array([3, 1, 2], np.int32)


def read_back(text):
    """The StableHLO of HLO text."""
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))


def check_text(graph, operands, ulp=0):
    results = run_xla(read_back(str(graph)), operands)
    for one, other in zip(reference_graph(graph, operands), results, strict=True):
        assert_same(np.asarray(one), other, ulp=ulp)


def inner(x):
    return [ops.mul(x, x)]


CASES = {
    "an input": (lambda x: x, [X]),
    "one input twice": (lambda x: (x, x), [X]),
    "no outputs": (lambda x: (), [X]),
    "element-wise": (lambda x: ops.sub(ops.mul(x, x), ops.neg(x)), [X]),
    "unused instructions": (lambda x: (ops.neg(x), x)[1], [X]),
    "constants": (lambda: (np.float32(0.1), np.arange(4, dtype=np.int8), X.astype(bool)), []),
    "repeated constant": (lambda x: ops.add(x, np.full((2, 3), 2.5, np.float32)), [X]),
    "iota": (lambda: ops.iota(Shape("u8", (2, 3)), 1), []),
    "reshape": (lambda x: (ops.reshape(x, (3, 2)), ops.collapse(x, (0, 1))), [X]),
    "transpose": (lambda x: ops.transpose(x, (1, 0)), [X]),
    "rev": (lambda x: (ops.rev(x, (1,)), ops.rev(x, (0, 1)), ops.rev(x, ())), [X]),
    "broadcast": (lambda x: ops.broadcast(x, (2, 1)), [X]),
    "broadcast_in_dim": (lambda x: ops.broadcast_in_dim(x, (2, 4, 3), (0, 2)), [X]),
    "broadcast_in_dim, permuted": (lambda x: ops.broadcast_in_dim(x, (3, 4, 2), (2, 0)), [X]),
    "broadcast_in_dim, stretched": (
        lambda x: ops.broadcast_in_dim(x, (2, 4, 3), (1, 0, 2)),
        [X.reshape(1, 2, 3)],
    ),
    "broadcast_in_dim, size 1 kept": (
        lambda x: ops.broadcast_in_dim(x, (1, 3, 1), (0, 2)),
        [X[:1, :1]],
    ),
    "concat_in_dim": (lambda x: ops.concat_in_dim([x, x, ops.rev(x, (0,))], 1), [X]),
    "slice": (lambda x: ops.slice(x, (0, 1), (2, 3), (1, 2)), [X]),
    "slice of a scalar": (lambda x: ops.slice(x, (), ()), [np.float32(3)]),
    "pad": (lambda x: ops.pad(x, np.float32(9), [(1, -1, 0), (-2, 3, 2)]), [X]),
    "pad of a scalar": (lambda x: ops.pad(x, np.float32(9), []), [np.float32(3)]),
    "dynamic_slice": (lambda x, i: ops.dynamic_slice(x, [i, 0], (1, 2)), [X, np.int32(5)]),
    "dynamic_update_slice": (
        lambda x, i: ops.dynamic_update_slice(x, x, [i, 0]),
        [X, np.int32(5)],
    ),
    "tuples": (
        lambda x: ops.get_tuple_element(ops.tuple([x, ops.tuple([x, PAIR])]), 0),
        [X],
    ),
    "calls": (lambda x: ops.call(inner, *ops.call(inner, x)), [X]),
    "call of one result": (lambda x: ops.call(inner, x), [X]),
    "call of several results": (lambda x: ops.call(lambda y: [y, ops.neg(y)], x), [X]),
    "call of no results": (lambda x: (x, ops.call(lambda y: [], x))[0], [X]),
    "call without operands": (lambda: ops.call(lambda: [np.float32(2)]), []),
    "nested calls": (lambda x: ops.call(lambda y: ops.call(inner, y), x), [X]),
    "lambda with an awkward name": (lambda x: ops.call(lambda y: [y], x), [X]),
}


@pytest.mark.parametrize("case", CASES)
def test_text_means_what_the_graph_means(case):
    function, operands = CASES[case]
    check_text(graph_of(function, operands), operands)


def test_derivatives_and_batches_print_too():
    def function(x):
        return ops.get_tuple_element(ops.tuple([*ops.call(inner, ops.transpose(x, (1, 0))), x]), 0)

    for transformed in (
        lambda x: mx.jvp(function, (x,), (x,)),
        lambda x: mx.vjp(function, x)[1](ops.transpose(x, (1, 0))),
        lambda x: mx.vmap(lambda y: function(ops.reshape(y, (1, 3))))(x),
    ):
        check_text(graph_of(transformed, [X]), [X])


# Types whose constants XLA's parser or XLA:CPU does not know in HLO text.
NOT_ON_XLA_CPU = ("f6E2M3FN", "f6E3M2FN")


@pytest.mark.parametrize(
    ("name", "dtype"), [t for t in ALL_TYPES if t[0] not in NOT_ON_XLA_CPU], ids=lambda v: str(v)
)
def test_constants_of_every_type(name, dtype):
    values = edge_values(dtype)
    rows = [values[i : i + 8] for i in range(0, min(len(values), 64), 8)]
    with jax.enable_x64(True):
        graph = graph_of(lambda: [*rows, *values[:4]], [])
    check_text(graph, [])


def test_numbers_read_back_exactly():
    values = np.array([1 / 3, 1e-45, 3.4028235e38, 0.1], np.float32)
    text = str(graph_of(lambda: [values], []))
    listed = text.partition("constant({")[2].partition("})")[0]
    found = [np.float32(each) for each in listed.split(",")]
    assert found == values.tolist()


# The layout of the text.


def test_golden():
    graph, _ = trace_to_graph(
        lambda x, i: [ops.slice(ops.call(inner, x)[0], (0, 1), (2, 3)), i],
        [Shape("f32", (2, 3)), Shape("s32")],
        "example",
    )
    here = rf'metadata={{source_file="{__file__}" source_line='
    text = re.sub(re.escape(here) + r"\d+}", "metadata={...}", str(graph))
    assert (
        text
        == """\
HloModule example

%inner.4 (arg0.7: f32[2,3]) -> f32[2,3] {
  %arg0.7 = f32[2,3] parameter(0)
  ROOT %multiply.8 = f32[2,3] multiply(%arg0.7, %arg0.7), metadata={...}
}

ENTRY %example (arg0.1: f32[2,3], arg1.2: s32[]) -> (f32[2,2], s32[]) {
  %arg0.1 = f32[2,3] parameter(0)
  %arg1.2 = s32[] parameter(1)
  %call.3 = f32[2,3] call(%arg0.1), to_apply=%inner.4, metadata={...}
  %slice.5 = f32[2,2] slice(%call.3), slice={[0:2:1],[1:3:1]}, metadata={...}
  ROOT %tuple.6 = (f32[2,2], s32[]) tuple(%slice.5, %arg1.2)
}
"""
    )


def test_large_constants_are_elided():
    text = str(graph_of(lambda: [np.arange(17, dtype=np.int32)], []))
    assert "constant({...})" in text
    _hlo.hlo_module_from_text(text)


def test_file_names_are_escaped():
    code = compile("def f(x, ops):\n    return ops.neg(x)\n", 'a "quoted" \\ name.py', "exec")
    scope = {}
    exec(code, scope)
    text = str(graph_of(lambda x: scope["f"](x, ops), [X]))
    assert "source_line=2" in text
    assert '\\"quoted\\"' in _hlo.hlo_module_from_text(text).to_string()


def test_dynamic_dimensions_print_as_bounds():
    graph, _ = trace_to_graph(lambda x: [ops.neg(x)], [parse_shape("f32[<=4,3]")])
    assert "negate(%arg0.1)" in str(graph)
    assert "f32[<=4,3]" in _hlo.hlo_module_from_text(str(graph)).to_string()


def test_deep_chains_of_calls():
    graph, _ = trace_to_graph(inner, [Shape("f32")], "f")
    for depth in range(100):
        callee = graph
        graph, _ = trace_to_graph(lambda x: ops.call(callee, x), [Shape("f32")], f"f{depth}")  # noqa: B023
    text = str(graph)
    assert text.count("call(") == 100
    _hlo.hlo_module_from_text(text)


class LoopForTest(Operation):
    """A loop as HLO has it: condition and body take all variables as one tuple."""

    hlo_name = "while"
    operands = ("variables...",)
    condition: Graph = attribute(Instance(Graph))
    body: Graph = attribute(Instance(Graph))

    def shape(self, *variables):
        return self.body.output_shapes

    def reference(self, *variables):
        while reference_graph(self.condition, variables)[0]:
            variables = tuple(reference_graph(self.body, variables))
        return variables

    def hlo(self, emit, operands, shapes, result):
        return emit.instruction(
            "while",
            [emit.pack(operands, shapes)],
            result,
            condition=emit.computation(self.condition, by_tuple=True),
            body=emit.computation(self.body, by_tuple=True),
        )


@pytest.mark.parametrize("names", ["i", "x i", "i x x"])
def test_computations_that_take_one_tuple(names):
    variables = [np.int32(0) if name == "i" else X for name in names.split()]
    at = names.split().index("i")
    shapes = [Shape(v.dtype, v.shape) for v in variables]

    def body(*values):
        return [ops.add(v, np.int32(1)) if k == at else ops.add(v, v) for k, v in enumerate(values)]

    condition = trace_to_graph(lambda *vs: [ops.lt(vs[at], np.int32(3))], shapes)[0]
    loop = LoopForTest(condition, trace_to_graph(body, shapes)[0])
    check_text(graph_of(loop, variables), variables)
