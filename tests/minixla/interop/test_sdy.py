"""Shardy's dialect in programs from outside: kept, left out or refused, and what is wrong in it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import minixla as mx
from minixla.core.errors import ImportError_
from minixla.sharding import operations as sdy

MESH = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
X = np.arange(16, dtype=np.float32).reshape(4, 4)


def module(body, arguments="%x: tensor<8x4xf32>", mesh='<["p"=2, "q"=4]>', result="%x"):
    return (
        f"module {{ sdy.mesh @mesh = {mesh}\nfunc.func @main({arguments}) -> tensor<8x4xf32> {{\n"
        f"{body}\nreturn {result} : tensor<8x4xf32>\n}} }}"
    )


def argument(sharding):
    return f"%x: tensor<8x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, {sharding}>}}"


def constraint(sharding):
    return f"%0 = sdy.sharding_constraint %x {sharding} : tensor<8x4xf32>"


BODY = "%0 = stablehlo.tanh %r : tensor<4x4xf32>\nsdy.return %0 : tensor<4x4xf32>"


def manual(given, axes='{"p"}', body=BODY, shape="4x4"):
    attributes = f"in_shardings=[<@mesh, {given}>] out_shardings=[<@mesh, {given}>]"
    head = f"%1 = sdy.manual_computation(%x) {attributes} manual_axes={axes}"
    type_ = "(tensor<8x4xf32>) -> tensor<8x4xf32>"
    return f"{head} (%r: tensor<{shape}xf32>) {{\n{body}\n}} : {type_}"


# A program that is wrong, and what the error says.
WRONG = {
    "mesh of size 0": (module("", mesh='<["p"=0]>'), "axis size must be at least 1"),
    "an axis twice": (module("", mesh='<["p"=2, "p"=2]>'), "duplicate axis name"),
    "devices twice": (module("", mesh='<["p"=2], device_ids=[0, 0]>'), "iota"),
    "negative device": (module("", mesh="<[], device_ids=[-1]>"), "negative"),
    "cut off": (module("", mesh='<["p"=2'), "expected"),
    "no mesh": (module("", argument("[{}, {}]")).replace("@mesh =", "@other ="), "unknown mesh"),
    "rank": (module("", argument('[{"p"}]')), "doesn't match tensor rank"),
    "unknown axis": (module("", argument('[{"z"}, {}]')), 'unknown axis name: "z"'),
    "an axis for two": (module("", argument('[{"p"}, {"p"}]')), "duplicate axis"),
    "priority": (module("", argument("[{}p1, {}]")), "priority"),
    "part": (module("", argument('[{"q":(1)3}, {}]')), "divide"),
    "text": (module("", argument("[{p}, {}]")), "expected"),
    "no sharding": (module("", "%x: tensor<8x4xf32> {sdy.sharding = 3 : i32}"), "sharding"),
    "constraint": (module(constraint('<@mesh, [{"z"}, {}]>')), "unknown axis"),
    "values": (
        module(
            "%0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[]>} : tensor<8x4xf32>"
        ),
        "sharding",
    ),
    "body": (module(manual('[{"p"}, {}]', shape="8x4")), "4x4"),
    "no divisor": (module(manual('[{}, {"p"}]'), mesh='<["p"=3]>'), "divisible"),
    "free before manual": (module(manual('[{"q", "p"}, {}]', '{"p"}')), "manual axes"),
    "barrier": (
        module("%0 = sdy.propagation_barrier %x allowed_direction=BOTH : tensor<8x4xf32>"),
        "BOTH",
    ),
    "direction": (
        module("%0 = sdy.propagation_barrier %x allowed_direction=UP : tensor<8x4xf32>"),
        "expected",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused(name):
    text, problem = WRONG[name]
    with pytest.raises(mx.MinixlaError) as caught:
        mx.import_stablehlo(text)
    assert problem in str(caught.value), caught.value
    assert "test_sdy.py" in str(caught.value)


def in_jax(x):
    x = jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P("a", P.UNCONSTRAINED)))
    double = jax.shard_map(
        lambda x: 2 * x + jax.lax.psum(x.sum(), "b"),
        mesh=MESH,
        in_specs=P("a", "b"),
        out_specs=P("a", "b"),
    )
    return double(jnp.sin(x))


IN_JAX = jax.jit(in_jax, in_shardings=NamedSharding(MESH, P(None, "b")))


def test_what_jax_writes_is_kept_and_runs():
    text = IN_JAX.lower(X).as_text()
    program = mx.import_stablehlo(text)
    operations = [type(step.op) for step in program.graph.instructions]
    inner = [type(step.op) for each in program.graph.computations for step in each.instructions]
    assert sdy.ShardingConstraint in (*operations, *inner)
    assert '{sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}]>}' in program.graph.stablehlo()
    expected = IN_JAX(X)
    for run in (program, mx.jit(program), mx.reference(program)):
        np.testing.assert_allclose(run(X), expected, rtol=1e-5, atol=1e-5)
    assert mx.jit(program)(X).sharding.is_equivalent_to(expected.sharding, 2)
    again = mx.import_stablehlo(program.graph.stablehlo())
    assert again.graph == program.graph


def test_layouts_are_kept_in_derivatives_and_batches():
    program = mx.import_stablehlo(IN_JAX.lower(X).as_text())
    slope = mx.jit(mx.grad(lambda x: program(x).sum()))(X)
    np.testing.assert_allclose(slope, jax.grad(lambda x: IN_JAX(x).sum())(X), rtol=1e-4, atol=1e-4)
    batch = np.stack([X, -X])
    found = mx.jit(mx.vmap(program))(batch)
    np.testing.assert_allclose(found, jax.vmap(IN_JAX)(batch), rtol=1e-4, atol=1e-4)
    text = mx.make_graph(mx.vmap(program))(batch).stablehlo()
    assert '[{?}, {"a"}, {?}]' in text and '[{?}, {}, {"b"}]' in text


def test_they_are_left_out_or_refused_where_that_is_asked_for():
    constrained = jax.jit(
        lambda x: jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P("a")))
    )
    text = constrained.lower(X).as_text()
    dropped = mx.import_stablehlo(text, shardings="drop").graph
    assert "sdy" not in dropped.stablehlo() and not dropped.meshes
    with pytest.raises(ImportError_, match="a distribution over devices"):
        mx.import_stablehlo(text, shardings="refuse")
    with pytest.raises(mx.AttributeValueError, match='"keep" or "refuse" or "drop"'):
        mx.import_stablehlo(text, shardings="lose")
