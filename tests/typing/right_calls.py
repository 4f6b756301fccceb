"""Calls that type checkers must not refuse; the test runs them, too."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as onp

import minixla as mx
import minixla.numpy as np
from minixla import ops
from minixla.sharding import PartitionSpec
from minixla.typing import Array, ArrayLike, DTypeLike, KeyLike, PyTree, ShapeLike

x = np.ones((2, 3))
v = np.arange(3.0)
key = mx.random.key(0)


class Layer(NamedTuple):
    """A pytree."""

    weights: Array
    bias: Array


def dense(layer: Layer, given: ArrayLike) -> Array:
    return np.tanh(given @ layer.weights + layer.bias)


def loss(layer: Layer, given: ArrayLike, wanted: ArrayLike) -> Array:
    return np.mean((dense(layer, given) - wanted) ** 2)


def scaled(given: Array, factor: float = 2.0, *, shift: float = 0.0) -> Array:
    return given * factor + shift


def made(shape: ShapeLike, dtype: DTypeLike) -> Array:
    return np.zeros(shape, dtype)


def drawn(own: KeyLike) -> Array:
    return mx.random.normal(own, (2,))


def moved(tree: PyTree) -> PyTree:
    return mx.tree.map(lambda leaf: leaf + 1, tree)


layer = Layer(np.ones((3, 1)), np.zeros(1))

# Arrays: operators, attributes, methods, indices.
total: Array = x + 1 - 2.0 * x / v
whole: Array = (x @ x.T) ** 2
compared: Array = (x > 0) & (x <= onp.float32(2))
sizes: tuple[int, ...] = x.shape
count: int = x.ndim + x.size
halves: Array = x.astype("float16").reshape(3, 2).sum(axis=0)
taken: Array = x[0, 1:] + x[..., None][0, :, 0][1:]
updated: Array = x.at[0].set(5.0).at[1, 2].add(1)
number: float = float(x.sum())
rows: list[Any] = [row.max() for row in x]

# mx.numpy.
made((2, 3), np.float32)
made(3, "bfloat16")
made([2, 3], onp.int32)
np.full((2,), 1.5, dtype=float)
np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float16)
np.sum(x, axis=(0, 1), keepdims=True)
np.sum(onp.ones(3), axis=None)
np.mean(x).item()
np.where(x > 0, x, 0.0) + 1
np.concatenate([x, onp.ones((2, 3))], axis=-1)
np.stack((v, v, v)) @ v
np.linspace(0, 1, 5) + np.linspace(0.0, 1.0, num=5)
np.einsum("ij,jk->ik", x, x.T)
np.clip(x, 0, 1).argmax(axis=1)
np.add(x, 1).sum() + np.maximum.reduce(v)
np.split(v, 3)[0] + np.split(x, [1, 2], axis=1)[1].sum()
np.linalg.norm(x, axis=1) + np.linalg.svd(x).S[0]
np.fft.fft(v, n=8).real + 1
np.tensordot(x, x, axes=([0, 1], [0, 1]))
np.pi * np.float32(3)

# Random numbers, layers.
first, second = mx.random.split(key)
drawn(first)
mx.random.uniform(second, shape=(2, 2), dtype=np.float32, minval=-1.0)
mx.random.normal(key)
mx.random.choice(key, 5, (2,), replace=False)
mx.nn.softmax(mx.nn.relu(x), axis=(0, 1))
mx.nn.initializers.glorot_normal()(key, (3, 4), np.float32)
mx.nn.one_hot(np.array([0, 2]), 3, dtype=np.float32)

# Transformations keep what they are given.
value, gradient = mx.value_and_grad(loss)(layer, x, 0.0)
shown: str = value.dtype.name
mx.grad(loss, argnums=(0, 1))(layer, x, wanted=0.0)
mx.jit(scaled)(v, 3.0, shift=1.0).sum()
mx.jit(scaled, static_argnames=("factor",), donate_argnums=())(v, factor=4.0)
mx.vmap(scaled)(x).sum(axis=0)
mx.vmap(dense, in_axes=(None, 0))(layer, x)
mx.jit(mx.vmap(mx.grad(lambda each: each**2)))(v)
result, tangent = mx.jvp(scaled, (v,), (v,))
result.sum() + tangent.sum()
result, pull = mx.vjp(scaled, v)
pull(result)[0]
paired = mx.vjp(lambda given: (scaled(given), {"count": 3}), v, has_aux=True)
paired[2]["count"].bit_length() + mx.jvp(lambda x: (x, 1), (v,), (v,), has_aux=True)[2].bit_length()
mx.hessian(lambda each: (each**3).sum())(v)
mx.checkpoint(scaled)(v, 2.0).sum()
mx.make_graph(scaled)(v).stablehlo()
mx.jit(scaled).graph(v).stablehlo()
mx.reference(scaled, precision="float64")(v)


@mx.jit
def step(own: Layer, given: Array) -> Layer:
    return Layer(own.weights - mx.grad(loss)(own, given, 0.0).weights, own.bias)


@mx.jit(static_argnums=1)
def powered(given: Array, power: int) -> Array:
    return given**power


class Model:
    """A class with a method that is compiled."""

    @partial(mx.jit, static_argnums=0)
    def doubled(self, given: Array) -> Array:
        return given * 2

    @mx.jit(static_argnums=0)
    def halved(self, given: Array) -> Array:
        return given / 2


@mx.custom_vjp
def clipped(given: Array, most: float) -> Array:
    return np.minimum(given, most)


clipped.defvjp(lambda a, m: (clipped(a, m), a < m), lambda mask, ct: (ct * mask, None))


@mx.custom_jvp
def squared(given: Array) -> Array:
    return given**2


@squared.defjvp
def squared_rule(primals: Any, tangents: Any) -> Any:
    return squared(primals[0]), 2 * primals[0] * tangents[0]


@partial(mx.shard_map, mesh=mx.sharding.Mesh(None, ("a",), (1,)), in_specs=None, out_specs=None)
def on_each(given: Array) -> Array:
    return given + 1


step(layer, x).weights.sum()
powered(v, 3).sum()
Model().halved(v).sum()
clipped(v, 1.0).sum()
squared(v).sum()

# Control flow, trees, JAX's functions with ours.
mx.cond(v[0] > 0, lambda each: each + 1, lambda each: each, v).sum()
mx.fori_loop(0, 3, lambda i, each: each + i, v).sum()
mx.while_loop(lambda each: each.sum() < 9, lambda each: each + 1, v).sum()
carry, ys = mx.scan(lambda carry, each: (carry + each, carry), np.zeros(()), v)
mx.map(lambda row: row.sum(), x).sum()
moved({"a": v, "b": [x]})
jnp.sum(x) + np.sum(jnp.ones(3)) + jax.nn.relu(v)
ops.add(v, 1.0).sum() + ops.dot(x, x.T).sum() + ops.reshape(x, [6]).sum()
mx.sharding.PartitionSpec("a", None)
PartitionSpec(None)
mx.cost(scaled, v)


# Collectives keep what they are given; operations of one's own the function's signature.
@mx.custom_op("typing.scaled")
def times(x: Array, factor: float = 2.0) -> Array:
    return x * factor


mx.vmap(lambda each: each / mx.psum(each, "i").sum(), axis_name="i")(x)
mx.vmap(lambda each: mx.psum({"a": each}, ("i",))["a"] + mx.axis_index("i"), axis_name="i")(x)
times(v, factor=3.0).sum()
times.kernel("reference")
