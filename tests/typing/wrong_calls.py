"""Calls that type checkers must refuse, each in a line that says what is wrong with it."""

from typing import Any, NamedTuple

import minixla as mx
import minixla.numpy as np
from minixla import ops
from minixla.typing import Array

x = np.ones((2, 3))
key = mx.random.key(0)


class Layer(NamedTuple):
    """A pytree."""

    weights: Array
    bias: Array


def loss(layer: Layer, given: Array) -> Array:
    return np.mean((given @ layer.weights + layer.bias) ** 2)


def scaled(given: Array, factor: float = 2.0) -> Array:
    return given * factor


layer = Layer(np.ones((3, 1)), np.zeros(1))

# Arrays.
x + "1"  # wrong: text is no operand
x @ [1.0, 2.0, 3.0]  # wrong: nor is a list
x.shape = (3, 2)  # wrong: the shape cannot be assigned
x.sum(axis="rows")  # wrong: an axis is a number
x.astype(32)  # wrong: a number is no type
x.size()  # wrong: the size is no method
x.as_type("float32")  # wrong: there is no such method
x.shape.append(1)  # wrong: the shape is a tuple
x.at[0].assign(1.0)  # wrong: there is no such update

# mx.numpy.
np.zeros("23")  # wrong: text is no shape
np.zeros((2.0, 3))  # wrong: a size is whole
np.zeros(3, dtype=3)  # wrong: a number is no type
np.zeros()  # wrong: the shape is missing
np.zeros((2, 3), type=np.float32)  # wrong: the keyword is dtype
np.sum([1.0, 2.0])  # wrong: a list is no array
np.sum(x, axis="0")  # wrong: an axis is a number
np.sum(x, axis=0.5)  # wrong: an axis is whole
np.sum(x, dim=0)  # wrong: the keyword is axis
np.mean()  # wrong: the array is missing
np.sin(x, x)  # wrong: one array too many
np.sin("x")  # wrong: text is no array
np.add(x)  # wrong: an operand is missing
np.add(x, None)  # wrong: None is no operand
np.concatenate(x, x)  # wrong: the arrays belong into one list
np.concatenate([x, "x"])  # wrong: text is no array
np.reshape(x, "6")  # wrong: text is no shape
np.linspace(0, 1, num=5.0)  # wrong: a number of elements is whole
np.argmax(x, axis=(0, 1))  # wrong: one axis alone
np.clip(x, low=0)  # wrong: the keyword is min
np.split(x)  # wrong: where to split is missing
np.arrange(3)  # wrong: there is no such function
np.linalg.norm(x, axis="rows")  # wrong: an axis is a number
np.linalg.inverse(x)  # wrong: the function is inv
np.fft.fft(x, n=2.5)  # wrong: a length is whole

# Random numbers, layers.
mx.random.normal(0, (3,))  # wrong: a number is no key
mx.random.normal((3,))  # wrong: the key is missing
mx.random.normal(key, shape="3")  # wrong: text is no shape
mx.random.uniform(key, (3,), dtype=32)  # wrong: a number is no type
mx.random.randint(key, (3,))  # wrong: the limits are missing
mx.random.split(key, num="2")  # wrong: a number of keys is a number
mx.nn.softmax(x, axis="last")  # wrong: an axis is a number
mx.nn.one_hot(np.arange(3))  # wrong: the number of classes is missing
mx.nn.relu([1.0])  # wrong: a list is no array

# Transformations.
mx.grad(loss(layer, x))  # wrong: a result is no function
mx.grad(3.0)  # wrong: nor is a number
mx.grad(loss, argnums="layer")  # wrong: arguments are named by number
mx.grad(loss)(layer)  # wrong: an argument is missing
mx.grad(loss)(layer, x, x)  # wrong: one argument too many
mx.grad(loss)("layer", x)  # wrong: text is no layer
mx.value_and_grad(loss)(layer, x).sum()  # wrong: it gives a pair
mx.jit(scaled)(x, power=2)  # wrong: there is no such parameter
mx.jit(scaled)(x).weights  # wrong: an array has no weights
mx.jit(scaled, static_args=1)  # wrong: the keyword is static_argnums
mx.jit(scaled, static_argnums="factor")  # wrong: names belong into static_argnames
mx.jit(scaled)("x")  # wrong: text is no array
mx.vmap(scaled)(factor=2.0)  # wrong: an argument is missing
mx.vmap(scaled, axes=0)  # wrong: the keyword is in_axes
mx.vmap(scaled, in_axes={"given": 0})  # wrong: a list for arguments by position
mx.vmap(scaled, axis_name=["rows"])  # wrong: a list is no name
mx.checkpoint(scaled)(x, "2")  # wrong: text is no number
mx.jvp(scaled, x, x)  # wrong: primals and tangents are sequences
mx.jvp(scaled, (x,))  # wrong: the tangents are missing
mx.vjp(scaled, x, has_aux=True)  # wrong: the function gives no auxiliary data
mx.pmap(scaled)(x, 2.0, 3.0)  # wrong: one argument too many
mx.pmap(scaled, in_axes=0.5)  # wrong: an axis is a whole number
mx.pmap(scaled, in_axis=0)  # wrong: the keyword is in_axes
mx.shard_map(scaled, mesh="x", in_specs=None, out_specs=None)  # wrong: text is no mesh
mx.import_stablehlo(3)  # wrong: a number is no program
mx.shard_map(scaled, in_specs=None)  # wrong: out_specs is missing
mx.hessian(scaled)()  # wrong: the argument is missing
mx.make_graph(scaled)(x).stable_hlo()  # wrong: the method is stablehlo
mx.reference(scaled, precision="float16")  # wrong: float64 alone
mx.while_loop(lambda a: a < 3, 4, 0)  # wrong: a number is no body
mx.fori_loop(0, 3, lambda each: each, x)  # wrong: the body takes the number, too
mx.scan(lambda carry: carry, x, x)  # wrong: the body takes an element, too
mx.cond(True, x, x)  # wrong: branches are functions
mx.sharding.Mesh(None, names=("a",))  # wrong: the keyword is axis_names
mx.sharding.PartitionSpecs("a")  # wrong: there is no such class


@mx.jit
def step(own: Layer, given: Array) -> Layer:
    return own


@mx.custom_vjp
def clipped(given: Array, most: float) -> Array:
    return np.minimum(given, most)


@mx.custom_jvp
def squared(given: Array) -> Array:
    return given**2


def rule(primals: Any, tangents: Any) -> Any:
    return primals, tangents


step(x, layer)  # wrong: the arguments are in the wrong order
step(layer, x).loss  # wrong: a layer has no loss
clipped(x)  # wrong: an argument is missing
clipped.defvjp(rule)  # wrong: the rule of the way back is missing
squared(x, x)  # wrong: one argument too many
squared.defjvp("rule")  # wrong: text is no rule

# Operations.
ops.add(x)  # wrong: an operand is missing
ops.add(x, "1")  # wrong: text is no operand
ops.reshape(x)  # wrong: the sizes are missing
ops.transpose(x, "10")  # wrong: text is no permutation
ops.dot(x, x, precision="high")  # wrong: the keyword is precision_config
ops.tanh(x, accuracy=None)  # wrong: the keyword is result_accuracy


@mx.custom_op("typing.shifted")
def shifted(x: Array, by: float = 2.0) -> Array:
    return x + by


shifted(x, by="2")  # wrong: text is no number
shifted(x).kernel("cpu")  # wrong: an array takes no kernels
mx.psum(x, "i", groups=[[0]])  # wrong: the keyword is axis_index_groups
mx.pmean({"a": x}, "i").sum()  # wrong: a dictionary has no sum
mx.axis_index()  # wrong: the name is missing
