"""Compiled kernels: C++ through XLA's typed foreign function interface."""

from __future__ import annotations

import threading

import jax
import numpy as np
import pytest

import minixla as mx


def define(name, symbol, library, inputs=("x: float",), outputs=("y: float",), attrs=(), **kernel):
    """An operation with a compiled kernel, whose first output is like its first input."""
    op = mx.register_op(
        name, attrs=attrs, inputs=inputs, outputs=outputs, shape_fn=mx.unchanged_shape
    )
    op.kernel("cpu", ffi=symbol, library=library, **kernel)
    return op


@pytest.fixture(scope="module")
def zero_out(library):
    attrs, types = ["T: {float, int32}"], {"T": ["float", "int32"]}
    op = define(
        "ForeignZeroOut", "zero_out", library, ["to_zero: T"], ["zeroed: T"], attrs, **types
    )
    op.kernel("reference")(reference)

    @op.gradient
    def gradient(ctx, grad):
        return [op.wrapper(grad)]

    return op.wrapper


def reference(ctx, to_zero):
    found = np.zeros_like(to_zero)
    found.reshape(-1)[:1] = to_zero.reshape(-1)[:1]
    return found


@pytest.mark.parametrize(
    "given, wanted",
    [
        ([5, 4, 3, 2, 1], [5, 0, 0, 0, 0]),
        ([[1, 2], [3, 4]], [[1, 0], [0, 0]]),
        ([], []),
        (7, 7),
        (np.arange(1, 9).reshape(2, 2, 2), np.eye(8, dtype=int)[0].reshape(2, 2, 2)),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_c40_zero_out(zero_out, given, wanted, dtype):
    given, wanted = np.asarray(given, dtype), np.asarray(wanted, dtype)
    for function in (zero_out, mx.jit(zero_out), mx.reference(zero_out)):
        found = np.asarray(function(given))
        assert found.dtype == dtype and found.shape == wanted.shape
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "upstream, wanted",
    [([10, 20, 30, 40, 50], [10, 0, 0, 0, 0]), ([[7, 8], [9, 10]], [[7, 0], [0, 0]])],
)
def test_c63_the_gradient_of_zero_out(zero_out, upstream, wanted):
    upstream = np.float32(upstream)
    _, pullback = mx.vjp(zero_out, np.ones_like(upstream))
    np.testing.assert_array_equal(pullback(upstream)[0], np.float32(wanted))


def test_c64_zero_out_is_batched_member_by_member(zero_out):
    rows = np.int32([[5, 4], [3, 2]])
    np.testing.assert_array_equal(mx.vmap(zero_out)(rows), [[5, 0], [3, 0]])
    many = np.arange(1, 201, dtype=np.float32).reshape(100, 2)
    found = mx.jit(mx.vmap(mx.grad(lambda x: (zero_out(x) * x).sum())))(many)
    np.testing.assert_array_equal(found, many * [2, 0])


@pytest.fixture(scope="module")
def keep(library):
    sides = ["to_zero: int32"], ["zeroed: int32"]
    return define("ForeignKeep", "keep", library, *sides, attrs=["preserve_index: int"]).wrapper


def test_c24_preserve_index(keep):
    x = np.int32([5, 4, 3, 2, 1])
    np.testing.assert_array_equal(keep(x, 2), [0, 0, 3, 0, 0])
    np.testing.assert_array_equal(keep(x, preserve_index=0), [5, 0, 0, 0, 0])


@pytest.mark.parametrize(
    "index, says", [(-1, "Need preserve_index >= 0, got -1"), (5, "preserve_index out of range")]
)
@pytest.mark.parametrize("transform", [lambda f: f, mx.jit], ids=["eager", "jit"])
def test_c62_an_error_of_a_kernel_names_operation_attributes_and_line(keep, index, says, transform):
    x = np.int32([5, 4, 3, 2, 1])
    with pytest.raises(mx.KernelError, match=says) as caught:
        np.asarray(transform(lambda x: keep(x, preserve_index=index))(x))
    message = str(caught.value)
    assert message.startswith("foreign_keep: ")
    assert f"preserve_index = {index}" in message
    assert "test_foreign.py" in message


def test_c62_an_error_that_only_a_later_call_makes(library):
    positive = define("ForeignPositive", "positive", library).wrapper
    x = np.float32([1, 2])
    np.testing.assert_array_equal(positive(x), x)
    with pytest.raises(mx.KernelError, match="foreign_positive: negative number"):
        positive(-x)
    jitted = mx.jit(positive)
    np.testing.assert_array_equal(jitted(x), x)
    # jax.jit's own code runs the program from here on.
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="negative number"):
        np.asarray(jitted(-x))


def test_c63_two_outputs_and_an_integer_input(library):
    op = mx.register_op(
        "ForeignWeigh",
        inputs=["x: float", "index: int32"],
        outputs=["y: float", "total: int32"],
        shape_fn=lambda ctx, x, index: [x.merge(index), ()],
    )
    op.kernel("cpu", ffi="weigh", library=library)

    @op.kernel("reference")
    def _(ctx, x, index):
        return x * index.astype(x.dtype), index.sum(dtype=np.int32)

    @op.gradient
    def _(ctx, grads):
        assert grads[1] is None  # integers have no gradient
        return [grads[0] * ctx.inputs[1].astype(np.float32), None]

    x, index = np.float32([1, 2, 3]), np.int32([4, 5, 6])
    found = op.wrapper(x, index)
    assert found._fields == ("y", "total")
    np.testing.assert_array_equal(found.y, [4, 10, 18])
    assert found.total == 15
    np.testing.assert_array_equal(mx.grad(lambda x: op(x, index).y.sum())(x), [4, 5, 6])
    rows = np.stack([x] * 20)
    batched = mx.jit(mx.vmap(op.wrapper, in_axes=(0, None)))(rows, index)
    np.testing.assert_array_equal(batched.y, [[4, 10, 18]] * 20)
    np.testing.assert_array_equal(batched.total, [15] * 20)
    assert mx.cross_check(lambda x: op(x, index).y, x).ok


def test_c33_lists_reach_compiled_code(library):
    op = mx.register_op(
        "ForeignAddAll",
        attrs=["N: int >= 1"],
        inputs=["in: N * float"],
        outputs=["out: float"],
        shape_fn=lambda ctx, arrays: arrays[0],
    )
    op.kernel("cpu", ffi="add_all", library=library)

    @op.gradient
    def _(ctx, grad):
        return [[grad] * ctx.attr("N")]

    x = np.float32([1, 2])
    np.testing.assert_array_equal(op.wrapper([x, x, 3 * x]), 5 * x)
    np.testing.assert_array_equal(op.wrapper(in_=[x]), x)
    found = mx.grad(lambda x: op.wrapper([x, x * x]).sum())(x)
    np.testing.assert_array_equal(found, 1 + 2 * x)


def test_c12_each_attribute_arrives_in_one_type(library):
    op = mx.register_op(
        "ForeignAttributes",
        attrs=[
            *("i: int", "f: float", "b: bool", "s: string", "t: type", "sh: shape"),
            *("ints: list(int)", "floats: list(float)", "strings: list(string)"),
        ],
        outputs=["y: float"],
        shape_fn=lambda ctx: (10,),
    )
    op.kernel("cpu", ffi="attributes", library=library)
    fixed = {
        "b": True,
        "s": b'\xff\x00"',
        "t": "int32",
        "sh": (3, 7),
        "ints": [],
        "strings": ["", "ab"],
    }
    # In compiled code equal numbers of several types are one call: each kind has one type.
    for number in (0.5, np.float32(0.5), np.float64(0.5)):
        found = op(i=np.int64(7), f=number, floats=[1, number], **fixed)
        np.testing.assert_array_equal(found, np.float32([7, 0.5, 1, 3, 255, 4, 27, 0, 0.5, 2]))


def test_c42_one_kernel_runs_in_many_threads(zero_out):
    function, failures = mx.jit(zero_out), []
    x = np.arange(1, 6, dtype=np.float32)

    def work(offset):
        for step in range(500):
            found = np.asarray(function(x + offset + step))
            if found[0] != 1 + offset + step or found[1:].any():
                failures.append((offset, step))

    threads = [threading.Thread(target=work, args=(1000 * each,)) for each in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


def test_a_missing_target_names_operation_attributes_and_line():
    op = define("ForeignMissing", "nobody_registered_this", None, attrs=["n: int = 3"])
    with pytest.raises(mx.TransformError, match="foreign_missing: XLA has no code") as caught:
        op(np.ones(3, np.float32))
    assert "n = 3" in str(caught.value) and "test_foreign.py" in str(caught.value)


def test_a_missing_library_or_symbol(library, tmp_path):
    op = mx.register_op("ForeignNowhere", inputs=["x: float"], outputs=["y: float"])
    with pytest.raises(mx.AttributeValueError, match="has no symbol 'nothing'"):
        op.kernel("cpu", ffi="nothing", library=library)
    with pytest.raises(mx.AttributeValueError, match="cannot be loaded"):
        op.kernel("cpu", ffi="nothing", library=tmp_path / "none.so")
    with pytest.raises(
        mx.AttributeValueError, match="compiled code and the host cannot be a kernel for"
    ):
        op.kernel("any", ffi="zero_out", library=library)


def test_two_operations_may_use_one_symbol(library):
    x = np.float32([2, 3])
    for name in ("ForeignTwin", "ForeignOtherTwin"):
        np.testing.assert_array_equal(define(name, "cube", library)(x), x**3)


def test_c25_compiled_code_is_told_what_it_asks_for_of_attributes_that_follow_from_inputs(library):
    op = mx.register_op(
        "ForeignDifference",
        attrs=["N: int >= 0", "M: int >= 0", "T: {float, int32}"],
        inputs=["first: N * T", "others: M * T"],
        outputs=["y: T"],
        shape_fn=lambda ctx, first, others: [*first, *others][0],
    )
    for wrong, options in {
        "nothing is not an attribute that follows from inputs": {"inferred": ["N", "nothing"]},
        "only compiled code takes attributes that follow from": {"ffi": None, "inferred": ["N"]},
    }.items():
        with pytest.raises(mx.AttributeValueError, match=wrong) as caught:
            op.kernel("cpu", **{"ffi": "difference", "library": library, **options})
        assert "these attributes follow from inputs: N, M, T" in str(caught.value)
    op.kernel("cpu", ffi="difference", library=library, T="float", inferred=["N", "T"])
    x, float32 = np.float32([1, 2]), 11  # XLA's number of it
    np.testing.assert_array_equal(op([x, 3 * x], [x]), 3 * x * float32)
    np.testing.assert_array_equal(mx.jit(op)([x], [x, 3 * x]), -3 * x * float32)
    again = mx.import_stablehlo(mx.make_graph(op.wrapper)([x], [x, 3 * x]).stablehlo())
    np.testing.assert_array_equal(again(x, x, 3 * x), -3 * x * float32)
