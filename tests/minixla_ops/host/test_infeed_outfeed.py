"""AfterAll, Infeed and Outfeed."""

from __future__ import annotations

import numpy as np
import pytest
from jax.extend.mlir import ir

import minixla as mx
import minixla_ops as ops
from minixla.core.errors import (
    AttributeValueError,
    DeadlockError,
    ShapeError,
    TransformError,
)
from minixla.core.shapes import TOKEN, Shape, TupleShape
from minixla.tools.worker import make_context
from tests.harness import check_rejected, graph_of
from tests.oracles.parallel import interpret_parallel

F2, S1 = Shape("f32", (2,)), Shape("s32")
X = np.array([1, 2], np.float32)
ITEMS = [X, np.int32(3)]


def run(function, *arguments, infeed=ITEMS):
    """One process's result, and what it wrote."""
    outfeed = []
    result = mx.simulate(function, [[arguments]], infeed=infeed, outfeed=outfeed)
    return result[0][0], outfeed[0][0]


def parsed(graph):
    """The text of the graph, which jaxlib parses and verifies."""
    text = graph.stablehlo()
    with make_context(), ir.Location.unknown():
        assert ir.Module.parse(text).operation.verify()
    return text


def test_fact_infeed_reads_the_next_item():
    result, _ = run(lambda: (ops.infeed(F2), ops.infeed(S1)))
    np.testing.assert_array_equal(result[0], X)
    assert result[1] == 3


def test_infeed_as_stablehlos_interpreter_has_it():
    def function(x):
        token = ops.create_token()
        first, token = ops.infeed(F2, token=token)
        second, token = ops.infeed(F2, token=token)
        return x + first - second

    items = [X, X[::-1].copy()]
    (result,) = interpret_parallel([[graph_of(function, [X])]], [[X]], items)[0]
    np.testing.assert_array_equal(result, run(function, X, infeed=items)[0])


def test_infeed_of_a_tuple():
    shape = TupleShape([F2, S1])

    def function():
        both = ops.infeed(shape)
        return ops.get_tuple_element(both, 0), ops.get_tuple_element(both, 1)

    result, _ = run(function, infeed=[tuple(ITEMS)])
    assert result[0].tolist() == [1, 2]
    text = parsed(mx.make_graph(function)())
    assert "(tensor<2xf32>, tensor<i32>, !stablehlo.token)" in text


def test_fact_an_empty_tuple_reads_nothing():
    def function():
        ops.infeed(TupleShape([]))
        return ops.infeed(F2)

    np.testing.assert_array_equal(run(function)[0], X)
    parsed(mx.make_graph(function)())


def test_fact_two_loops_in_order():
    # The second loop starts from the first one's result.
    def body(state):
        return state + ops.infeed(S1)

    def function(x):
        once = ops.while_(lambda s: s < 5, body, x)
        return ops.while_(lambda s: s < 50, body, once * 2)

    result, _ = run(function, np.int32(0), infeed=[np.int32(i) for i in (4, 3, -10, 40, 11)])
    assert int(result) == 55
    parsed(mx.make_graph(function)(np.int32(0)))


def test_items_have_the_shape_that_is_read():
    for item in (np.int32(3), np.ones(3, "f4"), (X,), (X, X)):
        with pytest.raises(ShapeError, match=r"infeed: \(C3\) the shape of the item must match"):
            run(lambda: ops.infeed(F2), infeed=[item])
    assert run(lambda: ops.infeed(Shape("f32")), infeed=[1.5])[0] == 1.5


def test_an_infeed_that_runs_dry():
    with pytest.raises(DeadlockError, match=r"waits in infeed[\s\S]*after reading all 2 items"):
        run(lambda: [ops.infeed(F2), ops.infeed(S1), ops.infeed(S1)])
    with pytest.raises(DeadlockError, match=r"infeed: it would block forever[\s\S]*mx\.simulate"):
        mx.reference(lambda: ops.infeed(F2))()


def test_outfeed_writes_arrays_and_tuples():
    def function(x):
        assert ops.outfeed(x) is None
        ops.outfeed((x, x + 1), TupleShape([F2, F2]), "config")
        ops.outfeed(ops.tuple([x]))
        return x

    _, (one, two, three) = run(function, X)
    assert one.tolist() == [1, 2]
    assert [x.tolist() for x in two] == [[1, 2], [2, 3]]
    assert type(three) is tuple and len(three) == 1
    np.testing.assert_array_equal(mx.reference(function)(X), X)
    parsed(mx.make_graph(function)(X))


def test_order_is_that_of_the_program():
    def function(x):
        y = ops.infeed(F2)
        ops.outfeed(x)
        token = ops.outfeed(y, token=ops.after_all([ops.create_token(), ops.create_token()]))
        z, token = ops.infeed(S1, "here", token)
        ops.outfeed(z, token=token)
        return x

    graph = mx.make_graph(function)(X)
    lines = [line.strip() for line in parsed(graph).splitlines() if "feed" in line]
    # Those without a token are in a chain of their own.
    assert lines[1].startswith('%3 = "stablehlo.outfeed"(%arg0, %2)')
    assert '"stablehlo.infeed"(%7) <{infeed_config = "here"}>' in lines[3]
    assert '"stablehlo.outfeed"(%8, %9)' in lines[4]
    # None is dropped where nothing depends on it.
    names = [step.op.name for step in graph.pruned().instructions]
    assert names.count("Outfeed") == 3 and names.count("Infeed") == 2
    _, written = run(function, X)
    assert [np.asarray(each).tolist() for each in written] == [[1, 2], [1, 2], 3]


def test_batches_and_derivatives():
    def function(x):
        ops.outfeed(x)
        token = ops.outfeed(x * 2, token=ops.create_token())
        ops.after_all([token])
        return (x * ops.infeed(F2)).sum()

    batch = np.arange(4, dtype=np.float32).reshape(2, 2)
    result, written = run(mx.vmap(function), batch)
    # The members one after the other; the item is everybody's.
    assert [each.tolist() for each in written] == [[0, 1], [2, 3], [0, 2], [4, 6]]
    np.testing.assert_array_equal(result, batch @ X)
    slope, written = run(mx.grad(function), X + 1)
    assert slope.tolist() == [1, 2] and len(written) == 2
    _, tangent = run(lambda x: mx.jvp(function, (x,), (x,)), X)[0]
    assert tangent == 5
    assert run(mx.vmap(function), np.ones((0, 2), "f4"))[1] == []


def test_hlo():
    def function(x):
        y = ops.infeed(F2, "in")
        ops.outfeed((x, y))
        ops.infeed(F2, token=ops.outfeed(y, None, "out", ops.create_token()))
        return y

    lines = str(mx.make_graph(function)(X)).splitlines()
    wanted = [
        '(f32[2], token[]) infeed(%after-all.2), infeed_config="in"',
        "token[] outfeed(%tuple",
        "outfeed_shape=(f32[2], f32[2])",
        'outfeed_shape=f32[2], outfeed_config="out"',
        "(f32[2], token[]) infeed(%outfeed",
    ]
    for phrase in wanted:
        assert any(phrase in line for line in lines), phrase


def test_after_all():
    graph = mx.make_graph(
        lambda x: (ops.outfeed(x, token=ops.after_all([ops.create_token()])), x)[1]
    )(X)
    assert graph.instructions[1].shapes == (TOKEN,)
    assert '"stablehlo.after_all"(%0) : (!stablehlo.token) -> (!stablehlo.token)' in parsed(graph)
    assert "token[] after-all(%after-all.2)" in str(graph)
    with pytest.raises(TransformError, match=r"token\[\] cannot be passed to JAX"):
        ops.create_token()


@pytest.mark.parametrize(
    ("function", "error", "phrases"),
    [
        (lambda x: ops.after_all([x]), ShapeError, ["after_all: (C1) operands must be tokens"]),
        (
            lambda x: ops.infeed(TupleShape([TupleShape([F2])])),
            AttributeValueError,
            ["infeed: (C1) nested tuples are not supported", "Pass a tuple of array shapes"],
        ),
        (lambda x: ops.infeed(F2, token=x), ShapeError, ["infeed: (C2)", "token[0] f32[2]"]),
        (
            lambda x: ops.outfeed(ops.create_token(), token=ops.create_token()),
            ShapeError,
            ["outfeed: (C1)", "operands[0] token[]"],
        ),
        (lambda x: ops.outfeed(x, S1), ShapeError, ["outfeed: (C2)", "shape_with_layout s32[]"]),
    ],
)
def test_rejected(function, error, phrases):
    check_rejected(function, [X], error, *phrases)
