"""What factorisations share: calls of libraries by platform, layouts over devices, texts."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import minixla as mx
import minixla_ops as ops
from minixla.core.registry import REGISTRY
from minixla.core.shapes import Shape
from minixla_ops.linear_algebra.factorization import Factorization
from tests.harness import graph_of
from tests.minixla_ops.linear_algebra.test_eigen import normal

#: Our function, JAX's.
PAIRS = {
    "lu": (lambda a: ops.lu(a), lax.linalg.lu),
    "qr": (lambda a: ops.qr(a, False), lambda a: lax.linalg.qr(a, full_matrices=False)),
}


def calls_of(text):
    """The targets of custom calls, sorted, and the layouts and rules of each."""
    found = re.findall(r"custom_call.*?\n", text)
    return sorted(
        (
            re.findall(r'(?:call_target_name = "|@)(\w+)', each)[0],
            re.findall(r"dense<(\[?[\d, ]*\]?)> : tensor<\dxindex>", each),
            re.findall(r"op_sharding_rule<(.*?custom)>", each),
        )
        for each in found
    )


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_calls_are_those_that_jax_makes(name, platform):
    ours, theirs = PAIRS[name]
    a = normal((2, 4, 3), np.float32)
    text = graph_of(ours, [a]).stablehlo(platform)
    lowered = jax.jit(theirs).trace(a).lower(lowering_platforms=(platform,)).as_text()
    found, expected = calls_of(text), calls_of(lowered)
    assert [each[0] for each in found] == [each[0] for each in expected]
    for one, other in zip(found, expected, strict=True):
        if one[0].startswith(("lapack", "cusolver")):
            layouts = [[re.sub(r"[\[\]]", "", each) for each in side[1]] for side in (one, other)]
            assert layouts[0] == layouts[1]
            assert one[2] == other[2]


def test_every_factorisation_is_no_entry_of_xlas_and_has_a_target():
    kinds = [kind for kind in REGISTRY.values() if issubclass(kind, Factorization)]
    assert {kind.name for kind in kinds} >= {"Lu", "Qr", "Geqrf", "HouseholderProduct"}
    assert all(kind.spec_names == () for kind in kinds)
    assert len({kind.target for kind in kinds}) == len(kinds)


def test_stacks_are_split_over_devices_and_matrices_are_not():
    shape = Shape("f32", (8, 4, 3))
    rule = REGISTRY["Lu"]().sharding_rule(shape)
    assert str(rule) == (
        "([i, j, k])->([i, l, m], [i, n], [i, o]) {i=8, j=4, k=3, l=4, m=3, n=3, o=4} "
        "need_replication={j, k, l, m, n, o}"
    )


def test_a_stack_that_is_split_stays_split():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    a = normal((8, 3, 3), np.float32)
    placed = jax.device_put(a, split)
    for function in (ops.lu, lambda a: ops.qr(a, True)):
        compiled = mx.jit(function)
        for found, expected in zip(compiled(placed), function(a), strict=True):
            assert found.sharding.is_equivalent_to(split, found.ndim)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert "all-gather" not in compiled.lower(placed).compile().as_text()


@pytest.mark.parametrize("form", ["stablehlo", "hlo"])
def test_texts_for_no_platform_come_back(form):
    a = normal((2, 4, 3), np.float32)
    function = lambda a: (*ops.lu(a), *ops.qr(a, False))  # noqa: E731
    graph = graph_of(function, [a])
    text = graph.stablehlo() if form == "stablehlo" else str(graph)
    read = (mx.import_stablehlo if form == "stablehlo" else mx.import_hlo)(text)
    for found, expected in zip(mx.jit(read)(a), mx.jit(function)(a), strict=True):
        np.testing.assert_array_equal(found, expected)
    loss = lambda f: lambda a: mx.numpy.sum(mx.numpy.sin(f(a)[3] * f(a)[0]))  # noqa: E731
    np.testing.assert_allclose(
        mx.grad(loss(read))(a), mx.grad(loss(function))(a), rtol=1e-4, atol=1e-5
    )


def test_matrices_without_elements_call_nothing():
    graph = graph_of(lambda a: (ops.lu(a), ops.qr(a)), [np.zeros((2, 3, 0), np.float32)])
    assert "custom_call" not in graph.stablehlo("cpu")


def test_programs_of_jax_become_operations():
    a = normal((3, 3), np.float32)
    read = mx.import_stablehlo(jax.jit(jnp.linalg.solve).lower(a, a[:, :2]).as_text())
    names = {
        step.op.name
        for graph in [read.graph, *[each.graph for each in read.functions.values()]]
        for step in graph.instructions
    }
    assert "Lu" in names
    assert "LapackCall" not in names
    loss = lambda a: mx.numpy.sum(mx.numpy.sin(read(a, a[:, :2] * 2)))  # noqa: E731
    theirs = lambda a: jnp.sum(jnp.sin(jnp.linalg.solve(a, a[:, :2] * 2)))  # noqa: E731
    np.testing.assert_allclose(mx.grad(loss)(a), jax.grad(theirs)(a), rtol=1e-3, atol=1e-4)
