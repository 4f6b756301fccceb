"""SDY's operations: text and back, values, derivatives, batches, errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import AttributeValueError, MinixlaError, ShapeError, ShardingError
from minixla.core.tracing import evaluate_graph
from minixla.sharding import operations as sdy
from minixla.sharding import parse_sharding
from minixla.sharding.axes import AxisRef
from minixla.sharding.explicit import explicit
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.program import Program

MESH = mx.sharding.Mesh(None, ("p", "q"), (2, 2))
ROWS = parse_sharding('<@mesh, [{"p"}, {}]>', {"mesh": MESH})
X = np.arange(12, dtype=np.float32).reshape(4, 3)

# Every operation and place of an annotation, in the form in which ours are printed.
PROGRAM = """module @main {
  sdy.mesh @mesh = <["p"=2, "q"=2]>
  func.func public @main(%arg0: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"p"}, {?}]>}, %arg1: tensor<i32>) -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"p"}, {}]>}) {
    %0 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"q", ?}]>]>} dense<1.0> : tensor<8x6xf32>
    %1 = stablehlo.add %arg0, %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"p"}, {?}p2], replicated={"q"}>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, k])->([i, j]) {i=8, j=6, k=6}>} : tensor<8x6xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{}, {}]> : tensor<8x6xf32>
    sdy.sharding_group %2 group_id=3 : tensor<8x6xf32>
    %5 = "sdy.manual_computation"(%2) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"p"}, {?}], replicated={"q"}>]>, manual_axes = #sdy<manual_axes{"p", "q"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"p"}, {}], replicated={"q"}>]>}> ({
    ^bb0(%r3: tensor<4x6xf32>):
    %4 = stablehlo.tanh %r3 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, k]) {i=4, j=6, k=6}, custom>} : tensor<4x6xf32>
    sdy.return %4 : tensor<4x6xf32>
    }) : (tensor<8x6xf32>) -> (tensor<8x6xf32>)
    %6 = "stablehlo.optimization_barrier"(%5) : (tensor<8x6xf32>) -> (tensor<8x6xf32>)
    %7 = sdy.data_flow_edge %6 sharding=<@mesh, [{"p"}, {}]> : tensor<8x6xf32>
    %8 = "stablehlo.optimization_barrier"(%7) : (tensor<8x6xf32>) -> (tensor<8x6xf32>)
    %9 = sdy.data_flow_edge %8 : tensor<8x6xf32>
    %10 = sdy.propagation_barrier %9 allowed_direction=BACKWARD : tensor<8x6xf32>
    %11 = sdy.constant dense<2.0> : tensor<8x6xf32>
    %12, %13 = "stablehlo.optimization_barrier"(%10, %11) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"p"}, {}]>, <@mesh, [{?}, {?}]>]>} : (tensor<8x6xf32>, tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<8x6xf32>)
    %16 = "sdy.named_computation"(%12) <{name = "foo", in_shardings = #sdy.sharding_per_value<[<@mesh, [{"p"}, {?}]>]>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"p"}, {}]>]>}> ({
    ^bb0(%r14: tensor<8x6xf32>):
    %15 = stablehlo.tanh %r14 : tensor<8x6xf32>
    sdy.return %15 : tensor<8x6xf32>
    }) : (tensor<8x6xf32>) -> (tensor<8x6xf32>)
    %17 = func.call @g(%16) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"p"}, {}]>]>} : (tensor<8x6xf32>) -> (tensor<8x6xf32>)
    %18 = sdy.func_data_flow_edge %17 : tensor<8x6xf32>
    %19 = sdy.reshard %18 <@mesh, [{}, {"p"}]> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=6}>} : tensor<8x6xf32>
    %20 = sdy.all_reduce {"q"} %19 out_sharding=<@mesh, [{}, {"p"}]> : tensor<8x6xf32>
    %22 = "stablehlo.case"(%arg1) ({
    ^bb0():
    %21 = stablehlo.negate %20 : tensor<8x6xf32>
    stablehlo.return %21 : tensor<8x6xf32>
    }, {
    ^bb0():
    stablehlo.return %18 : tensor<8x6xf32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"q"}, {}]>]>} : (tensor<i32>) -> (tensor<8x6xf32>)
    return %22 : tensor<8x6xf32>
  }
  func.func private @g(%arg0: tensor<8x6xf32>) -> (tensor<8x6xf32>) {
    %0 = stablehlo.tanh %arg0 : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}
"""  # noqa: E501 - what is printed has long lines


def meaning(x, n):
    y = np.tanh(np.tanh(np.tanh(x + 1)))
    return -y if n == 0 else y


def test_a_program_with_everything_comes_back():
    graph = mx.import_stablehlo(PROGRAM).graph
    assert graph.stablehlo() == PROGRAM
    assert str(Program.of_graph(graph)) == PROGRAM
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    assert again.stablehlo() == PROGRAM
    for old, new in (('[{}, {"q", ?}]', '[{}, {"q"}]'), ("{i=8, j=6}", "{i=8, j=6}, custom")):
        assert mx.import_stablehlo(PROGRAM.replace(old, new)).graph != graph


def test_a_program_without_some_of_its_annotated_steps_is_one():
    read = 'stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"p"}]>]>}'
    text = f"""sdy.mesh @mesh = <["p"=2]>
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %y = {read} : tensor<8xf32>
      %z = {read.replace("tanh", "abs")} : tensor<8xf32>
      return %z : tensor<8xf32>
    }}"""
    graph = mx.import_stablehlo(text).graph.pruned()
    assert len(graph.instructions) == 1
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert (
        graph
        == mx.import_stablehlo(text.replace(f"%y = {read}", "%y = stablehlo.abs %x")).graph.pruned()
    )


def test_it_runs_everywhere():
    function = mx.import_stablehlo(PROGRAM)
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(8, 6)
    for n in (0, 1):
        given = x, np.int32(n)
        for run in (function, mx.jit(function), mx.reference(function)):
            np.testing.assert_allclose(run(*given), meaning(*given), rtol=1e-5, atol=1e-6)
    slope = mx.jit(mx.grad(lambda x: function(x, np.int32(1)).sum()))(x)
    expected = mx.grad(lambda x: mx.numpy.tanh(mx.numpy.tanh(mx.numpy.tanh(x + 1))).sum())(x)
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-6)
    batch = mx.jit(mx.vmap(function, (0, None)))(np.stack([x, -x]), np.int32(0))
    np.testing.assert_allclose(batch[1], meaning(-x, 0), rtol=1e-5, atol=1e-6)


def test_annotations_become_instructions_that_transformations_keep():
    graph = explicit(mx.import_stablehlo(PROGRAM).graph)
    assert graph.annotations is None
    # Argument, result, and five operations; what is open and empty says nothing.
    assert graph.stablehlo().count("sdy.sharding_constraint") == 1 + 7
    assert explicit(graph) is graph
    plain = mx.make_graph(mx.numpy.sin)(X)
    assert explicit(plain) is plain


IDENTITIES = {
    "sharding_constraint": sdy.ShardingConstraint(ROWS),
    "reshard": sdy.Reshard(ROWS),
    "all_reduce": sdy.AllReduce(ROWS, (AxisRef("q"),)),
    "func_data_flow_edge": sdy.FuncDataFlowEdge(),
    "data_flow_edge": sdy.DataFlowEdge(ROWS),
    "propagation_barrier": sdy.PropagationBarrier("NONE"),
    "sharding_group": sdy.ShardingGroup(4),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities(name):
    op = IDENTITIES[name]
    assert op is type(op)(*op.values.values())
    np.testing.assert_array_equal(mx.reference(op)(X), X)
    graph = mx.make_graph(mx.grad(lambda x: (op(x) * x).sum()))(X)
    np.testing.assert_array_equal(mx.reference(lambda x: evaluate_graph(graph, [x])[0])(X), 2 * X)
    assert graph.stablehlo().count(f"sdy.{name}") == 2
    assert f'custom_call_target="sdy.{name}"' in str(graph)
    primal, tangent = mx.reference(lambda x: mx.jvp(op, (x,), (x,)))(X)
    np.testing.assert_array_equal(primal, tangent)
    batched = mx.make_graph(mx.vmap(op, 1, 1))(np.stack([X, X], 1)).stablehlo()
    if hasattr(op, "sharding"):
        assert '[{"p"}, {?}, {}]' in batched
    whole = mx.reference(mx.vmap(op))(np.stack([X, -X]))
    np.testing.assert_array_equal(whole, [X, -X])


def test_groups_of_derivatives_and_batches_are_others():
    def alike(x):
        return sdy.ShardingGroup(1)(x) * 2

    text = mx.make_graph(mx.vmap(mx.grad(lambda x: alike(x).sum())))(np.stack([X, X])).stablehlo()
    numbers = {
        line.split("group_id=")[1].split()[0] for line in text.splitlines() if "group_id" in line
    }
    assert len(numbers) == 2 and "1" not in numbers


def test_a_constant_is_none_that_folds():
    def function(x):
        return sdy.SdyConstant(X)() + x

    graph = mx.make_graph(function)(X)
    assert "sdy.constant dense<[[0.0, 1.0, 2.0]" in graph.stablehlo()
    for run in (mx.jit(function), mx.reference(function)):
        np.testing.assert_array_equal(run(X), 2 * X)
    np.testing.assert_array_equal(mx.jit(mx.grad(lambda x: function(x).sum()))(X), np.ones((4, 3)))


def test_a_named_computation_is_what_it_runs():
    body = mx.make_graph(lambda x: mx.numpy.sin(x) * 2)(X)
    op = sdy.NamedComputation(body, "twice", (ROWS,), None)

    def total(x):
        return op(x)[0].sum()

    for run in (mx.jit, mx.reference):
        np.testing.assert_allclose(run(total)(X), (2 * np.sin(X)).sum(), rtol=1e-5)
        np.testing.assert_allclose(run(mx.grad(total))(X), 2 * np.cos(X), rtol=1e-5, atol=1e-6)
    text = mx.make_graph(mx.vmap(total))(np.stack([X, X])).stablehlo()
    assert 'name = "twice"' in text


def manual(given='[{"p"}, {}], replicated={"q"}', wanted=None, axes=("p", "q"), sizes=(2, 3)):
    shardings = [
        (parse_sharding(f"<@mesh, {each}>", {"mesh": MESH}),) for each in (given, wanted or given)
    ]
    body = mx.make_graph(lambda x: x * 2)(np.zeros(sizes, np.float32))
    return ManualComputation(body, *shardings, axes)


REFUSED = {
    "sharding of another rank": (
        lambda: sdy.ShardingConstraint(ROWS)(np.zeros(3, np.float32)),
        ShardingError,
        ["a sharding of 2 dimensions for an array of 1"],
    ),
    "both ways": (
        lambda: sdy.PropagationBarrier("BOTH"),
        AttributeValueError,
        ["one of FORWARD, BACKWARD, NONE"],
    ),
    "group": (lambda: sdy.ShardingGroup("a"), AttributeValueError, ["group_id"]),
    "no sharding": (
        lambda: sdy.ShardingConstraint("p"),
        AttributeValueError,
        ["a TensorSharding"],
    ),
    "two operands": (lambda: manual()(X, X), ShapeError, ["2 operands, 1 shardings"]),
    "pieces": (
        lambda: manual(sizes=(4, 3))(X),
        ShapeError,
        ["operand 0 of shape f32[4,3] has pieces f32[2,3], and input 0 is f32[4,3]"],
    ),
    "no divisor": (
        lambda: manual('[{}, {"p"}], replicated={"q"}', sizes=(4, 1))(X),
        ShapeError,
        ["dimension 1 of operand 0, of size 3, has no 2 equal parts"],
    ),
    "manual after free": (
        lambda: manual('[{"q", "p"}, {}]', axes=("p",))(X),
        ShapeError,
        ["in dimension 0 of operand 0 a manual axis comes after a free one"],
    ),
    "unknown axis": (
        lambda: manual(axes=("p", "q", "r"))(X),
        ShapeError,
        ["has no axis r"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_breaks_a_rule_is_refused(name):
    call, kind, phrases = REFUSED[name]
    with pytest.raises(MinixlaError) as caught:
        mx.reference(call)()
    assert isinstance(caught.value, kind)
    for phrase in [*phrases, "test_operations.py"]:
        assert phrase in str(caught.value)
