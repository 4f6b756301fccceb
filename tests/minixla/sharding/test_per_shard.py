"""Operations that XLA does not split: on four devices each runs them on its own pieces."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import minixla as mx
import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.shapes import parse_shape
from minixla.sharding.manual_computation import ManualComputation
from minixla.sharding.mesh import Mesh
from minixla.sharding.per_shard import on_pieces
from minixla.sharding.tensor_sharding import TensorSharding

_NUMBERS = count()
_COLLECTIVE = re.compile(r" (all-gather|all-reduce|all-to-all|collective-permute)\(")
MESH = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
A, B = np.random.default_rng(0).normal(size=(2, 8, 8)).astype(np.float32)
STACK = np.stack([A, B, A + B, A - B])

C = r"""
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

ffi::Error Product(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y,
                   ffi::ResultBuffer<ffi::F32> z) {
  const int64_t rows = x.dimensions()[0], inner = x.dimensions()[1], columns = y.dimensions()[1];
  if (rows * inner && x.typed_data()[0] < -99) return ffi::Error::InvalidArgument("too small");
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < inner; ++k) {
        sum += x.typed_data()[i * inner + k] * y.typed_data()[k * columns + j];
      }
      z->typed_data()[i * columns + j] = sum;
    }
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(product, Product, ffi::Ffi::Bind()
    .Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

ffi::Error Negative(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = -x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(negative, Negative, ffi::Ffi::Bind()
    .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"""


def define(inputs: int, shape_fn: Any, **options: Any) -> Any:
    """An operation of some arrays of floats, which gives one."""
    names = [f"x{index}: float" for index in range(inputs)]
    name = f"PerShardTest{next(_NUMBERS)}"
    outputs = options.pop("outputs", ["y: float"])
    return mx.register_op(name, inputs=names, outputs=outputs, shape_fn=shape_fn, **options)


def of_product(ctx: Any, x: Any, y: Any) -> Any:
    return (*x[:-1], y[-1])


def product_gradient(op: Any) -> Any:
    def gradient(ctx: Any, grad: Any) -> list[Any]:
        x, y = (mnp.matrix_transpose(each) for each in ctx.inputs)
        return [op(grad, y), op(x, grad)]

    return gradient


def with_code(op: Any, symbol: str) -> Any:
    """An operation with a kernel in C++."""
    try:
        op.kernel("cpu", ffi=symbol, library=mx.build_op_library(C))
    except mx.BuildError as error:
        if "there is no C++ compiler" not in str(error):
            raise
        pytest.skip("there is no C++ compiler")
    return op


def in_c() -> Any:
    op = with_code(define(2, of_product), "product")
    op.sharding_rule("rows inner, inner columns -> rows columns", reduction="inner")
    return op


def in_numpy() -> Any:
    op = define(2, of_product)
    op.kernel("cpu", host=True)
    op.batching("broadcast_all")
    rule = "... rows inner, ... inner columns -> ... rows columns"
    op.sharding_rule(rule, reduction="inner")
    return op


def in_pallas() -> Any:
    def kernel(x: Any, y: Any, out: Any) -> None:
        out[...] = x[...] @ y[...]

    def call(x: Any, y: Any) -> Any:
        made = jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype)
        return pallas.pallas_call(kernel, out_shape=made, interpret=True)(x, y)

    op = define(2, of_product)
    op.kernel("cpu", lambda ctx, x, y: call(x, y))
    op.sharding_rule("rows inner, inner columns -> rows columns", reduction="inner")
    return op


@pytest.fixture(name="product", scope="module", params=[in_c, in_numpy, in_pallas])
def fixture_product(request: Any) -> Any:
    """A matrix product by a kernel of some kind."""
    op = request.param()
    op.kernel("reference", lambda ctx, x, y: x @ y)
    op.gradient(product_gradient(op))
    return op


def put(x: Any, *spec: Any, mesh: Any = MESH) -> Any:
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def collectives_of(function: Any, *args: Any) -> list[str]:
    """The kinds of collectives in what XLA makes of a function, whose results must be right."""
    wanted = mx.reference(function)(*map(np.asarray, args))
    compiled = mx.jit(function).lower(*args).compile()
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4),
        compiled(*args),
        wanted,
    )
    return _COLLECTIVE.findall(compiled.as_text())


def squares(product: Any) -> Any:
    return lambda x, y: (product(x, y) * product(x, y)).sum()


# What is made of the product, how its arguments lie, and which collectives it needs.
PROGRAMS = {
    "rows": (lambda op: op, (P("x"), P()), []),
    "columns": (lambda op: op, (P(), P(None, "x")), []),
    "what is summed over": (lambda op: op, (P(None, "x"), P("x")), ["all-reduce"]),
    "gradient": (lambda op: mx.grad(squares(op)), (P("x"), P()), []),
    "gradients": (lambda op: mx.grad(squares(op), (0, 1)), (P("x"), P()), ["all-reduce"]),
    "scan": (
        lambda op: lambda x, y: mx.scan(lambda c, _: (op(c, y) / 8, None), x, None, 3)[0],
        (P("x"), P()),
        [],
    ),
    "calls": (
        lambda op: lambda x, y: mx.jit(lambda x: mnp.sin(mx.jit(op)(x, y)))(mnp.cos(x)),
        (P("x"), P()),
        [],
    ),
    "checkpoint": (
        lambda op: mx.grad(lambda x, y: mx.checkpoint(lambda x: op(mnp.sin(x), y))(x).sum()),
        (P("x"), P()),
        [],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_operands_are_not_gathered(name: str, product: Any):
    make, specs, wanted = PROGRAMS[name]
    function = make(product)
    args = [put(x, *spec) for x, spec in zip((A, B), specs, strict=True)]
    assert collectives_of(function, *args) == wanted
    predicted = mx.jit(function).shardings(*args).collectives()
    assert {each.kind for each in predicted} == set(wanted)


def test_members_of_a_batch_are_not_gathered(product: Any):
    assert collectives_of(mx.vmap(product, (0, None)), put(STACK, None, "x"), B) == []


def test_a_batch_that_is_one_call_is_not_gathered():
    op = in_numpy()
    op.kernel("reference", lambda ctx, x, y: x @ y)
    assert collectives_of(mx.vmap(op, (0, None)), put(STACK, "x"), B) == []


def test_each_device_computes_its_piece_alone():
    seen = []

    def meaning(ctx: Any, x: Any) -> Any:
        seen.append(x.shape)
        return 2 * x

    op = define(1, mx.unchanged_shape)
    op.kernel("reference", meaning)
    op.kernel("cpu", host=True)
    op.sharding_rule("... rows -> ... rows")
    np.testing.assert_array_equal(op(put(A, "x")), 2 * A)
    assert seen == [(2, 8)] * 4


def test_without_a_stated_rule_operands_are_gathered():
    op = define(2, of_product)
    op.kernel("reference", lambda ctx, x, y: x @ y)
    op.kernel("cpu", host=True)
    args = put(A, "x"), B
    assert op.operation().sharding_rule(parse_shape("f32[8,8]"), parse_shape("f32[8,8]"))
    assert collectives_of(op, *args) == ["all-gather"]
    assert [each.kind for each in mx.jit(op).shardings(*args).collectives()] == ["all-gather"]


def test_options_and_constraints_say_how_values_lie():
    op = in_numpy()
    op.kernel("reference", lambda ctx, x, y: x @ y)
    mesh = mx.sharding.Mesh(jax.devices(), ("data", "model"), shape=(2, 2))
    sides = {"in_shardings": (P("data", "model"), P("model")), "out_shardings": P("data")}
    functions = [
        mx.jit(op, mesh=mesh, **sides),
        mx.jit(lambda x, y: op(mx.sharding.constrain(x, P("data", "model")), y), mesh=mesh),
    ]
    for function in functions:
        made = function.lower(A, B).compile()
        assert _COLLECTIVE.findall(made.as_text()) == ["all-reduce"]
        np.testing.assert_allclose(made(A, B), A @ B, rtol=1e-4, atol=1e-4)


def test_empty_arrays_run_whole():
    op = in_numpy()
    op.kernel("reference", lambda ctx, x, y: x @ y)
    assert collectives_of(op, put(A[:, :0], "x"), B[:0]) == []


def test_constants_are_cut():
    op = in_numpy()
    op.kernel("reference", lambda ctx, x, y: x @ y)
    mesh = mx.sharding.Mesh(jax.devices(), ("x",))
    function = mx.jit(lambda x: mx.sharding.constrain(op(A, B), P("x")) + x, mesh=mesh)
    compiled = function.lower(put(A, "x")).compile()
    assert not _COLLECTIVE.findall(compiled.as_text())
    assert re.search(r"f32\[2,8\]\S* custom-call", compiled.as_text())
    np.testing.assert_allclose(compiled(put(A, "x")), A @ B + A, rtol=1e-4, atol=1e-4)


def test_in_jax_types_say_how_values_lie():
    op = in_numpy()
    op.kernel("reference", lambda ctx, x, y: x @ y)
    op.gradient(product_gradient(op))
    args = put(A, "x", mesh=jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,))), B
    functions = [
        lambda x, y: jnp.cos(op(jnp.sin(x), y)),
        lambda x, y: jax.jvp(op, (x, y), (x, y))[1],
    ]
    whole = [lambda x, y: jnp.cos(jnp.sin(x) @ y), lambda x, y: 2 * x @ y]
    for ours, theirs in zip(functions, whole, strict=True):
        compiled = jax.jit(ours).lower(*args).compile()
        assert not _COLLECTIVE.findall(compiled.as_text())
        np.testing.assert_allclose(compiled(*args), theirs(A, B), rtol=1e-4, atol=1e-4)


def test_xla_splits_batches_of_compiled_code_where_only_it_knows_how_they_lie():
    op = with_code(define(1, mx.unchanged_shape), "negative")
    op.sharding_rule("... columns -> ... columns")
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = put(STACK, "y", "x", mesh=mesh)
    within = jax.jit(lambda x: mx.jit(op)(jnp.sin(x))).lower(x).compile()
    assert not _COLLECTIVE.findall(within.as_text())
    assert re.search(r"f32\[2,4,8\]\S* custom-call", within.as_text())
    np.testing.assert_allclose(within(x), -np.sin(STACK), rtol=1e-6)


def test_xla_splits_no_batches_of_a_size_that_is_insisted_on():
    sizes = {"attrs": ["size: int"]}
    op = with_code(define(1, lambda ctx, x: (ctx.attr("size"), x[1]), **sizes), "negative")
    op.sharding_rule("rows columns -> rows columns")
    function = jax.jit(lambda x: mx.jit(lambda x: op(x, size=8))(jnp.sin(x)))
    x = put(A, "x")
    assert "num_batch_dims" not in function.lower(x).as_text()
    np.testing.assert_allclose(function(x), -np.sin(A), rtol=1e-6)


def test_devices_may_be_in_another_order():
    op = in_numpy()
    op.kernel("reference", lambda ctx, x, y: x @ y)
    mesh = jax.sharding.Mesh(np.array(jax.devices())[[2, 0, 3, 1]], ("x",))
    assert collectives_of(op, put(A, None, "x", mesh=mesh), put(B, "x", mesh=mesh)) == [
        "all-reduce"
    ]


def test_errors_of_a_devices_kernel_come_with_the_results():
    op = in_c()
    with pytest.raises(jax.errors.JaxRuntimeError, match="too small"):
        np.asarray(op(put(A - 200, "x"), B))


TRANSFORMS = {
    "FFT": (lambda x: ops.fft(mnp.astype(x, np.complex64), "FFT", (8,)), jnp.fft.fft),
    "IFFT of two dimensions": (
        lambda x: ops.fft(mnp.astype(x, np.complex64), "IFFT", (8, 8)),
        jnp.fft.ifft2,
    ),
    "RFFT": (lambda x: ops.fft(x, "RFFT", (8,)), jnp.fft.rfft),
    "gradient of RFFT": (mx.grad(lambda x: mnp.abs(ops.fft(x, "RFFT", (8,))).sum()), None),
    "Cholesky": (lambda x: ops.cholesky(mnp.matmul(x, mnp.matrix_transpose(x))), None),
    "triangular system": (lambda x: ops.triangular_solve(x, x, True, True), None),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_batches_of_matrices_are_not_gathered(name: str):
    function, theirs = TRANSFORMS[name]
    x = put(STACK + 8 * np.eye(8, dtype=np.float32), "x")
    assert collectives_of(function, x) == []
    if theirs is not None:
        np.testing.assert_allclose(mx.jit(function)(x), theirs(x), rtol=1e-4, atol=1e-4)


# A rule, the operands' sizes and how they lie, and how each device's operands are cut then; none
# where the operation runs on whole arrays.
CUTS: dict[str, tuple[str, dict[str, Any], list[str], list[P], list[Any]]] = {
    "passing through": ("i j -> i j", {}, ["8,8"], [P("x", "y")], [("x", "y")]),
    "two axes": ("i -> i", {}, ["8"], [P(("x", "y"))], [(("x", "y"),)]),
    "an axis that does not divide": ("i -> i", {}, ["6"], [P(("x", "y"))], [("x",)]),
    "nothing divides": ("i -> i", {}, ["5"], [P("x")], []),
    "one size divides": ("i j -> i j", {}, ["5,8"], [P("x", "y")], [(None, "y")]),
    "replication": ("i j -> i j", {"need_replication": "j"}, ["8,8"], [P(None, "x")], []),
    "permutation": ("i j -> i j", {"permutation": "j"}, ["8,8"], [P("x", "y")], [("x", None)]),
    "blocked": ("i j -> i j", {"blocked": "i"}, ["8,8"], [P("x", "y")], [(None, "y")]),
    "not in the result": ("i j, j -> j", {}, ["8,8", "8"], [P("x"), P()], []),
    "major": ("(i j) -> (i j)", {"sizes": {"i": 2, "j": 4}}, ["8"], [P("x")], [("x",)]),
    "both": ("(i j) -> (i j)", {"sizes": {"i": 2}}, ["8"], [P(("x", "y"))], [(("x", "y"),)]),
    "minor alone": ("(i j), j -> (i j)", {}, ["8", "4"], [P(), P("x")], []),
    "an operand without": (
        "i j, j -> i j",
        {},
        ["8,8", "8"],
        [P("x", "y"), P()],
        [("x", "y"), ("y",)],
    ),
    "a sum": (
        "i j, j k -> i k",
        {"reduction": "j"},
        ["8,8", "8,8"],
        [P("x", "y"), P("y")],
        [("x", "y"), ("y", None)],
    ),
    "one axis for two": (
        "i j, j k -> i k",
        {"reduction": "j"},
        ["8,8", "8,8"],
        [P("x"), P("x")],
        [("x", None), (None, None)],
    ),
}
CUTS["both"][1]["sizes"]["j"] = 4
GRID = Mesh(None, ("x", "y"), shape=(2, 2))


def by_rule(text: str) -> Any:
    """The shape function of an operation of which a rule says what sizes are."""
    taken, given = (re.split(r"\s*,\s*", side.strip()) for side in text.split("->"))
    names = [re.findall(r"\(.*?\)|\w+", each) for each in (*taken, *given)]

    def shape(ctx: Any, *inputs: Any) -> Any:
        pairs = [
            pair for each in zip(names, inputs, strict=False) for pair in zip(*each, strict=True)
        ]
        return [dict(pairs)[name] for name in names[-1]]

    return shape


def cut_operands(op: Any, sizes: list[str], specs: list[P], **attributes: Any) -> list[Any]:
    """How the operands of an operation are cut for the devices; none where they are not."""
    shapes = [parse_shape(f"f32[{each}]") for each in sizes]
    pairs = zip(specs, shapes, strict=True)
    shardings = [
        TensorSharding.from_spec(GRID, spec, getattr(shape, "rank", 0)) for spec, shape in pairs
    ]
    graph = mx.make_graph(lambda *x: op.wrapper(*x, **attributes))(*shapes)
    found = on_pieces(graph, shardings)
    (step,) = found.instructions
    is_cut = isinstance(step.op, ManualComputation)
    assert is_cut or found is graph
    return [each.spec() for each in step.op.in_shardings] if is_cut else []


@pytest.mark.parametrize("name", CUTS)
def test_the_rule_says_what_is_cut(name: str):
    text, sets, sizes, specs, wanted = CUTS[name]
    op = define(len(sizes), by_rule(text))
    op.sharding_rule(text, **sets)
    assert cut_operands(op, sizes, specs) == wanted


def test_what_a_result_is_without_runs_on_whole_arrays():
    op = define(1, lambda ctx, x: (x, (1,)), outputs=["scaled: float", "total: float"])
    op.sharding_rule("i -> i, one")
    assert cut_operands(op, ["8"], [P("x")]) == []


def test_truth_values_are_not_added_up():
    op = define(1, lambda ctx, x: x[:1], outputs=["any: bool"])
    op.sharding_rule("i j -> i", reduction="j")
    assert cut_operands(op, ["8,8"], [P("x", "y")]) == [("x", None)]


def test_an_operation_that_insists_on_a_size_runs_on_whole_arrays():
    op = define(1, lambda ctx, x: (ctx.attr("size"),), attrs=["size: int"])
    op.sharding_rule("i -> i")
    assert cut_operands(op, ["8"], [P("x")], size=8) == []


def test_without_devices_a_program_stays_as_it_is():
    op = define(1, mx.unchanged_shape)
    op.sharding_rule("i -> i")
    graph = mx.make_graph(op.wrapper)(parse_shape("f32[8]"))
    assert on_pieces(graph) is graph
    assert on_pieces(graph, [None]) is graph


@pytest.mark.full
@pytest.mark.parametrize("seed", range(60))
def test_any_sum_of_products_on_any_layout(seed: int):
    random = np.random.default_rng(seed)
    sizes = dict(zip("ijkl", random.choice([2, 3, 4, 6, 8], 4).tolist(), strict=True))
    operands = [random.permutation([*"ijkl"])[: random.integers(1, 4)].tolist() for _ in "xy"]
    used = sorted({name for each in operands for name in each})
    result = random.permutation(used)[: random.integers(1, len(used) + 1)].tolist()
    text = f"{', '.join(map(' '.join, operands))} -> {' '.join(result)}"
    subscripts = text.replace(" ", "")
    op = define(2, by_rule(text))
    op.kernel("reference", lambda ctx, x, y: np.einsum(subscripts, x, y))
    op.kernel("cpu", host=True)
    op.sharding_rule(text, reduction=[name for name in used if name not in result])
    mesh = mx.sharding.Mesh(jax.devices(), ("x", "y"), shape=(2, 2))

    def layout(names: list[str]) -> P:
        entries: list[Any] = [None] * len(names)
        for axis in ("x", "y"):
            at = int(random.integers(-1, len(names)))
            if at >= 0:
                entries[at] = (*(entries[at] or ()), axis)
        return P(*entries)

    specs = [layout(each) for each in (*operands, result)]
    arrays = [random.normal(size=[sizes[name] for name in each]) for each in operands]
    x, y = (each.astype(np.float32) for each in arrays)

    def function(x: Any, y: Any) -> Any:
        x, y = map(mx.sharding.constrain, (x, y), specs[:2])
        return mx.sharding.constrain(mnp.sin(op(mnp.cos(x), y)), specs[2])

    found = mx.jit(function, mesh=mesh)(x, y)
    np.testing.assert_allclose(found, np.sin(np.einsum(subscripts, np.cos(x), y)), 1e-4, 1e-4)
