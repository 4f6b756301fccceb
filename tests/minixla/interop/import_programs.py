"""Programs in StableHLO for the tests of import_stablehlo, and the forms that they come in."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

MLP = """
module @mlp {
  func.func public @main(%w: tensor<3x2xf32>, %x: tensor<2x3xf32>) -> tensor<f32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %1 = call @act(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<2x2xf32>, tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
  func.func private @act(%arg: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.tanh %arg : tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}
"""


def main(body: str, inputs: str = "%x: tensor<2x3xf32>", result: str = "tensor<2x3xf32>") -> str:
    """A module of one function, whose body ends in `%r`."""
    return f"func.func @main({inputs}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"


def as_bytecode(text: str) -> bytes:
    with make_ir_context():
        stream = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(stream)
        return stream.getvalue()


def as_artifact(text: str) -> bytes:
    return stablehlo.serialize_portable_artifact_str(text, stablehlo.get_minimum_version())


class Program(NamedTuple):
    """The body of a function of %x: tensor<2x3xf32> that gives %r, and the same in NumPy."""

    body: str
    wanted: Callable[[Any], Any]


def _normalised(x: Any, mean: Any, variance: Any) -> Any:
    return (x - mean) / np.sqrt(variance + 0.125) + 0.5


PROGRAMS = {
    "while with a captured bound": Program(
        """
    %n = stablehlo.constant dense<3> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.add %x, %x : tensor<2x3xf32>
    %loop:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<2x3xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %b = stablehlo.multiply %a, %two : tensor<2x3xf32>
      stablehlo.return %j, %b : tensor<i32>, tensor<2x3xf32>
    }
    %r = stablehlo.negate %loop#1 : tensor<2x3xf32>""",
        lambda x: -(x * (2 * x) ** 3),
    ),
    "if in case": Program(
        """
    %i = stablehlo.constant dense<1> : tensor<i32>
    %p = stablehlo.constant dense<true> : tensor<i1>
    %r = "stablehlo.case"(%i) ({
      stablehlo.return %x : tensor<2x3xf32>
    }, {
      %q = "stablehlo.if"(%p) ({
        %s = stablehlo.sine %x : tensor<2x3xf32>
        stablehlo.return %s : tensor<2x3xf32>
      }, {
        stablehlo.return %x : tensor<2x3xf32>
      }) : (tensor<i1>) -> tensor<2x3xf32>
      stablehlo.return %q : tensor<2x3xf32>
    }) : (tensor<i32>) -> tensor<2x3xf32>""",
        np.sin,
    ),
    "map with a captured value": Program(
        """
    %s = stablehlo.constant dense<2.0> : tensor<f32>
    %t = stablehlo.exponential %s : tensor<f32>
    %r = "stablehlo.map"(%x) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: tensor<f32>):
      %b = stablehlo.multiply %a, %t : tensor<f32>
      stablehlo.return %b : tensor<f32>
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>""",
        lambda x: x * np.exp(np.float32(2)),
    ),
    "tuples": Program(
        """
    %t = stablehlo.tuple %x, %x : tuple<tensor<2x3xf32>, tensor<2x3xf32>>
    %r = stablehlo.get_tuple_element %t[1]
        : (tuple<tensor<2x3xf32>, tensor<2x3xf32>>) -> tensor<2x3xf32>""",
        lambda x: x,
    ),
    "deprecated einsum": Program(
        """
    %y = "stablehlo.einsum"(%x, %x) <{einsum_config = "ij,kj->ik"}>
        : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %r = "stablehlo.einsum"(%y, %x) <{einsum_config = "ik,kj->ij"}>
        : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>""",
        lambda x: x @ x.T @ x,
    ),
    "sizes computed from constants": Program(
        """
    %a = stablehlo.constant dense<[2, 1]> : tensor<2xi32>
    %b = stablehlo.constant dense<[0, 2]> : tensor<2xi32>
    %s = stablehlo.add %a, %b : tensor<2xi32>
    %row = stablehlo.slice %x [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
    %flat = stablehlo.reshape %row : (tensor<1x3xf32>) -> tensor<3xf32>
    %d = stablehlo.dynamic_broadcast_in_dim %flat, %s, dims = [1]
        : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
    %z = stablehlo.constant dense<0> : tensor<2xi32>
    %one = stablehlo.constant dense<1> : tensor<2xi32>
    %e = stablehlo.real_dynamic_slice %d, %z, %s, %one
        : (tensor<?x?xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>
    %r = stablehlo.add %e, %x : tensor<2x3xf32>""",
        lambda x: x + x[:1],
    ),
    "a bounded dimension": Program(
        """
    %n = stablehlo.constant dense<2> : tensor<i32>
    %d = stablehlo.set_dimension_size %x, %n, dim = 1
        : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>, tensor<f32>) -> tensor<2xf32>
    %r = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>""",
        lambda x: np.broadcast_to(x[:, :2].sum(1, keepdims=True), (2, 3)),
    ),
    "a bounded reshape": Program(
        """
    %n = stablehlo.constant dense<2> : tensor<i32>
    %m = stablehlo.constant dense<4> : tensor<i32>
    %d = stablehlo.set_dimension_size %x, %n, dim = 1
        : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
    %one = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
    %e = stablehlo.dynamic_reshape %d, %one
        : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>, tensor<1xi32>)
        -> tensor<?xf32, #stablehlo.bounds<6>>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<?xf32, #stablehlo.bounds<6>>, tensor<f32>) -> tensor<f32>
    %r = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2x3xf32>""",
        lambda x: np.full((2, 3), x[:, :2].sum()),
    ),
    "dot and broadcast": Program(
        """
    %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %d = stablehlo.dot %x, %t : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %e = stablehlo.dot %d, %x : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %one = stablehlo.constant dense<1.0> : tensor<3xf32>
    %b = stablehlo.broadcast %one, sizes = [2] : (tensor<3xf32>) -> tensor<2x3xf32>
    %r = stablehlo.add %e, %b : tensor<2x3xf32>""",
        lambda x: x @ x.T @ x + 1,
    ),
    "deprecated unary_einsum and torch_index_select": Program(
        """
    %t = "stablehlo.unary_einsum"(%x) <{einsum_config = "ij->ji"}>
        : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %i = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
    %s = "stablehlo.torch_index_select"(%t, %i) <{batch_dims = 0 : i64, dim = 1 : i64}>
        : (tensor<3x2xf32>, tensor<2xi32>) -> tensor<3x2xf32>
    %r = stablehlo.transpose %s, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>""",
        lambda x: x[::-1],
    ),
    "deprecated cross-replica-sum": Program(
        """
    %r = "stablehlo.cross-replica-sum"(%x) <{replica_groups = dense<0> : tensor<1x1xi64>}>
        : (tensor<2x3xf32>) -> tensor<2x3xf32>""",
        lambda x: x,
    ),
    "batch normalisation": Program(
        """
    %one = stablehlo.constant dense<1.0> : tensor<3xf32>
    %zero = stablehlo.constant dense<0.5> : tensor<3xf32>
    %n:3 = "stablehlo.batch_norm_training"(%x, %one, %zero)
        <{epsilon = 0.125 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>,
        tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
    %r = "stablehlo.batch_norm_inference"(%n#0, %one, %zero, %n#1, %n#2)
        <{epsilon = 0.125 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>,
        tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>""",
        lambda x: _normalised(_normalised(x, x.mean(0), x.var(0)), x.mean(0), x.var(0)),
    ),
    "dynamic operations with constant sizes": Program(
        """
    %size = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
    %i = stablehlo.dynamic_iota %size, dim = 1 : (tensor<2xi32>) -> tensor<?x?xf32>
    %flat = stablehlo.constant dense<6> : tensor<1xi32>
    %f = stablehlo.dynamic_reshape %i, %flat : (tensor<?x?xf32>, tensor<1xi32>) -> tensor<?xf32>
    %g = stablehlo.dynamic_reshape %f, %size : (tensor<?xf32>, tensor<2xi32>) -> tensor<2x3xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %low = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
    %no = stablehlo.constant dense<0> : tensor<2xi32>
    %p = stablehlo.dynamic_pad %g, %zero, %low, %no, %no
        : (tensor<2x3xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>)
        -> tensor<?x?xf32>
    %at = stablehlo.constant dense<1> : tensor<1xi32>
    %slice = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
    %h = "stablehlo.dynamic_gather"(%p, %at, %slice) <{
        dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0]>}>
        : (tensor<?x?xf32>, tensor<1xi32>, tensor<2xi32>) -> tensor<2x3xf32>
    %r = stablehlo.add %h, %x : tensor<2x3xf32>""",
        lambda x: x + np.arange(3, dtype=np.float32),
    ),
    "a convolution whose padding is an operand": Program(
        """
    %a = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %k = stablehlo.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
    %pad = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi32>
    %c = "stablehlo.dynamic_conv"(%a, %k, %pad) <{
        dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
        feature_group_count = 1 : i64, batch_group_count = 1 : i64}>
        : (tensor<2x3x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<2x3x1xf32>
    %r = stablehlo.reshape %c : (tensor<2x3x1xf32>) -> tensor<2x3xf32>""",
        lambda x: 2 * x + np.pad(x, ((0, 0), (1, 0)))[:, :3],
    ),
    "a composite of composites": Program(
        """
    %r = stablehlo.composite "my.twice" %x {decomposition = @twice}
        : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
    }
    func.func private @twice(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %a = stablehlo.composite "my.sine" %x {decomposition = @sine, composite_attributes = {n = 1}}
        : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %r = stablehlo.composite "my.sine" %a {decomposition = @sine, composite_attributes = {n = 2}}
        : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
    }
    func.func private @sine(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %r = stablehlo.sine %x : tensor<2x3xf32>""",
        lambda x: np.sin(np.sin(x)),
    ),
    "chlo": Program(
        """
    %a = chlo.sinh %x : tensor<2x3xf32> -> tensor<2x3xf32>
    %b = chlo.conj %x : tensor<2x3xf32> -> tensor<2x3xf32>
    %r = stablehlo.add %a, %b : tensor<2x3xf32>""",
        lambda x: np.sinh(x) + x,
    ),
}
