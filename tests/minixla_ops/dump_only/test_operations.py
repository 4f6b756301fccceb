"""Instructions that only XLA makes: run, derived and batched by what they mean; never built."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs

import minixla as mx
from minixla import AttributeValueError, Shape, ShapeError, TransformError, ops
from minixla.core.operation import REGISTRY
from minixla.core.tracing import closed_graph, trace_to_graph
from minixla.reference_evaluator import seed
from minixla_ops.inventory import ENTRIES
from tests.harness import (
    check_batching,
    check_derivatives,
    check_operation,
    check_rejected,
    graph_of,
)
from tests.minixla_ops.processes import check_process_batches, check_processes, check_system

X = np.arange(6, dtype="f4").reshape(2, 3)
F32 = Shape("f32", (2, 3))
NAMES = [entry.name for entry in ENTRIES if entry.number >= 137]


def made(name, *operands, **attributes):
    """The instruction as a program from a dump has it."""
    return REGISTRY[name](**attributes)(*operands)


def program(function, *shapes):
    return closed_graph(function, shapes or (F32,), "test", "fused")


SQUARE = program(lambda x: ops.mul(x, x))


@pytest.mark.parametrize("name", NAMES)
def test_fact_137_to_153_users_do_not_build_it(name):
    entry = next(each for each in ENTRIES if each.name == name)
    assert entry.built_by == "dump-only"
    builder = getattr(ops, entry.builder)
    operation: Any = REGISTRY[name]
    with pytest.raises(TransformError) as caught:
        builder(X)
    message = str(caught.value)
    assert message.startswith(f"{entry.builder}: {operation.hlo_name} is internal to XLA")
    assert "test_operations.py" in message and operation.instead in message
    assert operation.instead in builder.__doc__


def whole_copy(x):
    return made("CopyDone", made("CopyStart", x))


def whole_async(x, computation=SQUARE):
    started = made("AsyncStart", x, computation=computation)
    return made("AsyncDone", made("AsyncUpdate", started))


def layouts(x):
    return made("Bitcast", x, output_shape=Shape("f32", (3, 2)), operand_layout=(0, 1))


def turned(x):
    # Of each [2,3] in memory [3,2]: a transpose; its bytes are read as [6].
    return made(
        "Bitcast", x, output_shape=Shape(x.dtype, (2, 3)), operand_layout=(0, 1),
        result_layout=(0, 1),
    )  # fmt: skip


CASES = {
    "Copy": lambda x: made("Copy", x),
    "CopyStart, CopyDone": whole_copy,
    "the operand of CopyStart": lambda x: ops.get_tuple_element(made("CopyStart", x), 1),
    "Domain": lambda x: made("Domain", x, entry="{replicated}"),
    "AddDependency": lambda x: made("AddDependency", x, ops.after_all(())),
    "Fusion": lambda x: made("Fusion", x, computation=SQUARE)[0],
    "Async": whole_async,
    "Bitcast": lambda x: made("Bitcast", x, output_shape=Shape("f32", (6, 1))),
    "Bitcast, layout": layouts,
    "Bitcast, layouts": turned,
    "Bitcast, narrower": lambda x: made("Bitcast", x, output_shape=Shape("u16", (4, 3))),
    "Bitcast, type": lambda x: made("Bitcast", x, output_shape=Shape("s32", (6,))),
}


@pytest.mark.parametrize("name", CASES)
def test_means_the_same_everywhere(name):
    # StableHLO's interpreter knows neither tuples nor tokens as values.
    interpreter = not any(each in name for each in ("Copy", "Async", "AddDependency"))
    check_operation(CASES[name], [X], interpreter=interpreter)


def test_bitcast_reads_memory():
    x = np.arange(24, dtype="f4").reshape(2, 3, 4)
    ordered = np.asarray(x.transpose(1, 2, 0), order="C")  # layout {0,2,1}: 0 is the fastest
    found = mx.reference(
        lambda x: made("Bitcast", x, output_shape=Shape("f32", (24,)), operand_layout=(0, 2, 1))
    )(x)
    np.testing.assert_array_equal(found, ordered.ravel())
    found = mx.reference(
        lambda x: made("Bitcast", x, output_shape=Shape("f32", (4, 6)), result_layout=(0, 1))
    )(x)
    np.testing.assert_array_equal(found, x.ravel().reshape(6, 4).T)


@pytest.mark.parametrize(
    ("dtype", "to"),
    [("f4", "s32"), ("f8", "u32"), ("u1", "f32"), ("i2", "bf16"), ("u8", "s64"), ("i4", "f16")],
)
def test_bitcast_between_types(dtype, to):
    x = np.arange(1, 9).astype(dtype)
    shape = Shape(to, (x.nbytes // Shape(to).dtype.itemsize,))
    found = check_operation(lambda x: made("Bitcast", x, output_shape=shape), [x])
    assert found[0].tobytes() == x.tobytes()


def test_float64_mode_keeps_the_bits():
    def bits(x):
        return made("Bitcast", x, output_shape=Shape("s32", (6,)))

    np.testing.assert_array_equal(mx.reference(bits, "float64")(X), X.ravel().view("i4"))


def test_a_fusion_of_several_results():
    both = program(lambda x: (ops.sin(x), ops.reduce(x, 0.0, ops.add, [0])))
    check_operation(lambda x: made("Fusion", x, computation=both, kind="kInput"), [X], ulp=4)


@pytest.mark.parametrize("name", [n for n in CASES if "type" not in n and "narrow" not in n])
def test_derivatives_and_batches(name):
    def function(x):
        return ops.sin(CASES[name](x * x))

    if "Bitcast" in name or "Fusion" in name or "Async" in name:
        # They name their types.
        check_batching(lambda x: CASES[name](x), [X])
        slope = mx.reference(mx.grad(lambda x: mx.numpy.sum(function(x))))(X)
        plain = (lambda x: x * x * x * x) if name in ("Fusion", "Async") else lambda x: x * x
        expected = mx.reference(mx.grad(lambda x: mx.numpy.sum(ops.sin(plain(x)))))(X)
        np.testing.assert_allclose(slope, expected, rtol=1e-5)
        np.testing.assert_allclose(
            mx.jit(mx.grad(lambda x: mx.numpy.sum(function(x))))(X), expected, rtol=1e-4
        )
        tangents = mx.reference(lambda x: mx.jvp(function, (x,), (x,)))(X)[1]
        np.testing.assert_allclose(np.sum(tangents), np.sum(expected * X), rtol=1e-4)
        return
    check_derivatives(function, [X.astype("f8")])
    check_batching(function, [X])


def test_a_bitcast_to_another_type_has_derivative_zero():
    def function(x):
        return mx.numpy.sum(made("Bitcast", x, output_shape=Shape("bf16", (2, 3, 2))))

    assert not mx.reference(mx.grad(function))(X).any()


# Collectives: both halves of each.


def gathered(x):
    started = made("AllGatherStart", x, all_gather_dimension=0, shard_count=2)
    return made("AllGatherDone", started)


def reduced(x):
    kind = Shape(x.dtype)
    computation = closed_graph(ops.add, (kind, kind), "test", "add")
    return made(
        "AllReduceDone", made("AllReduceStart", x, computation=computation, replica_groups=[[0, 1]])
    )


def permuted(x):
    pairs = ((0, 1), (1, 0))
    return made(
        "CollectivePermuteDone", made("CollectivePermuteStart", x, source_target_pairs=pairs)
    )


PAIRS = {
    "AllGather": (gathered, lambda x: ops.all_gather(x, 0, 2)),
    "AllReduce": (reduced, lambda x: ops.all_reduce(x, ops.add)),
    "CollectivePermute": (permuted, lambda x: ops.collective_permute(x, [(0, 1), (1, 0)])),
}


@pytest.mark.parametrize("name", PAIRS)
def test_halves_of_collectives(name):
    halves, whole = PAIRS[name]
    given = [(X,), (X + 10,)]
    interpreter = name == "AllReduce"  # it has no tuples
    found = check_processes(halves, given, interpreter=interpreter)
    expected = check_processes(whole, given, interpreter=False, xla=False)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
    check_system(lambda x: halves(x * x), [(X.astype("f8"),), (X.astype("f8") + 1,)])
    check_process_batches(halves, [(np.stack([X, 2 * X]),), (np.stack([X, 3 * X]),)], [0])


# XLA's generator.


def test_rng_get_and_update_state_counts():
    @mx.reference
    def states():
        return [made("RngGetAndUpdateState", delta=5) for _ in range(2)]

    with jax.enable_x64(True):
        seed(0)
        first, second = (int(s[0]) + (int(s[1]) << 64) for s in states())
        assert (second - first) % 2**128 == 5
        seed(0)
        again = states()[0]
        assert int(again[0]) + (int(again[1]) << 64) == first


def test_rng_get_and_update_state_is_kept_and_differs():
    graph, _ = trace_to_graph(lambda: [made("RngGetAndUpdateState") for _ in range(2)][:1], ())
    assert len(graph.pruned().instructions) == 2
    with jax.enable_x64(True):
        one, other = mx.jit(lambda: [made("RngGetAndUpdateState") for _ in range(2)])()
    assert one.shape == (2,) and one.dtype == np.uint64 and not np.array_equal(one, other)


# Text: as XLA prints it, and reads it.

TEXTS = {
    "Copy": (lambda x: made("Copy", x), ["f32[2,3] copy(%arg0.1)"]),
    "pair": (
        whole_copy,
        ["(f32[2,3], f32[2,3], u32[]) copy-start(%arg0.1)", "f32[2,3] copy-done(%copy-start.2)"],
    ),
    "Domain": (
        lambda x: made("Domain", x, entry="{replicated}", exit="{maximal device=0}"),
        ['domain(%arg0.1), domain={kind="sharding", entry={replicated}, exit={maximal device=0}}'],
    ),
    "AddDependency": (
        lambda x: made("AddDependency", x, ops.after_all(())),
        ["f32[2,3] add-dependency(%arg0.1, %after-all.2)"],
    ),
    "Fusion": (
        lambda x: made("Fusion", x, computation=SQUARE),
        ["f32[2,3] fusion(%arg0.1), kind=kLoop, calls=%fused"],
    ),
    "Bitcast": (
        lambda x: made("Bitcast", x, output_shape=Shape("s32", (6,))),
        ["s32[6] bitcast(%arg0.1)"],
    ),
    "Bitcast, layouts": (
        layouts,
        ["f32[3,2] transpose(%arg0.1), dimensions={1,0}", "f32[3,2] bitcast(%transpose.2)"],
    ),
    "Async": (
        whole_async,
        [
            "((f32[2,3]), f32[2,3], s32[]) async-start(%arg0.1), calls=%fused",
            "((f32[2,3]), f32[2,3], s32[]) async-update(%async-start",
            "f32[2,3] async-done(%async-update",
        ],
    ),
    "AllGather": (
        gathered,
        ["(f32[2,3], f32[4,3]) all-gather-start(%arg0.1)", "dimensions={0}",
         "f32[4,3] all-gather-done(%all-gather-start"],
    ),
    "AllReduce": (
        reduced,
        ["f32[2,3] all-reduce-start(%arg0.1)", "to_apply=%add", "f32[2,3] all-reduce-done("],
    ),
    "CollectivePermute": (
        permuted,
        ["(f32[2,3], f32[2,3]) collective-permute-start(%arg0.1)",
         "source_target_pairs={{0,1},{1,0}}", "f32[2,3] collective-permute-done("],
    ),
    "RngGetAndUpdateState": (
        lambda x: made("RngGetAndUpdateState", delta=3),
        ["u64[2] rng-get-and-update-state(), delta=3"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    function, lines = TEXTS[name]
    text = str(graph_of(function, [X]))
    for line in lines:
        assert line in text
    printed = _hlo.hlo_module_from_text(text).to_string()
    opcode = lines[-1].split("(")[0].split()[-1] if name != "Async" else "multiply-done"
    assert name == "Bitcast, layouts" or opcode in printed or opcode.startswith("dimensions")


def test_dumps_of_xla_have_these_opcodes():
    text = jax.jit(lambda x: jax.numpy.sin(x) * 2 + 1).lower(X).compile().as_text()
    assert " fusion(" in text and "kind=kLoop, calls=%" in text


# Checks.


@pytest.mark.parametrize(
    ("function", "error", "phrases"),
    [
        (lambda x: made("AddDependency", x, x), ShapeError, ["(C1)", "must be a token"]),
        (lambda x: made("CopyDone", x), ShapeError, ["(C1)", "must be the result of copy-start"]),
        (lambda x: made("CopyDone", ops.tuple([x, x])), ShapeError, ["(C1)", "copy-start"]),
        (lambda x: made("AllGatherDone", x), ShapeError, ["(C1)", "all-gather-start"]),
        (
            lambda x: made("CollectivePermuteDone", ops.tuple([x])),
            ShapeError,
            ["(C1)", "collective-permute-start"],
        ),
        (lambda x: made("AsyncDone", ops.tuple([x, x])), ShapeError, ["(C1)", "async-start"]),
        (lambda x: made("AsyncUpdate", x), ShapeError, ["(C1)", "async-start"]),
        (
            lambda x: made("AsyncStart", x, computation=program(lambda x: (x, x))),
            AttributeValueError,
            ["(C3)", "one result, not 2"],
        ),
        (lambda x: made("AsyncStart", x, x, computation=SQUARE), ShapeError, ["(C1)"]),
        (lambda x: made("Fusion", x, x, computation=SQUARE), ShapeError, ["(C1)"]),
        (lambda x: made("Fusion", x[0], computation=SQUARE), ShapeError, ["(C2)"]),
        (
            lambda x: made("Fusion", x, computation=SQUARE, kind="kNone"),
            AttributeValueError,
            ["kLoop"],
        ),
        (
            lambda x: made("Bitcast", x, output_shape=Shape("f32", (7,))),
            AttributeValueError,
            ["(C1)", "equal numbers of bits"],
        ),
        (
            lambda x: made("Bitcast", x, output_shape=F32, operand_layout=(0, 0)),
            AttributeValueError,
            ["(C2)", "not a layout"],
        ),
        (
            lambda x: made("AllGatherStart", x, all_gather_dimension=5, shard_count=1),
            AttributeValueError,
            ["all_gather_dimension"],
        ),
    ],
)
def test_checks(function, error, phrases):
    check_rejected(function, [X], error, *phrases)


def test_dynamic_sizes_pass():
    def function(x, n):
        y = ops.set_dimension_size(x, n, 0)
        return ops.reduce(whole_copy(made("Copy", y)), 0.0, ops.add, [0, 1])

    check_operation(function, [X, np.int32(1)], interpreter=False)


def test_small_types():
    x = np.arange(4).astype(ml_dtypes.int4)
    found = mx.reference(lambda x: made("Bitcast", x, output_shape=Shape("u8", (2,))))(x)
    np.testing.assert_array_equal(found, [0x10, 0x32])
