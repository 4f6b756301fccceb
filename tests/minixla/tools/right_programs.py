"""A hundred right programs that a check could mistake for faulty ones: all must pass."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import minixla as mx
import minixla.numpy as mnp
from benchmarks.models import MINIXLA
from benchmarks.programs import Program, programs
from tests.minixla.tools.planting import random_arrays

_EXAMPLES = str(Path(__file__).parents[3] / "examples")
_random = random_arrays()
bf16, f32, f16, f64 = ml_dtypes.bfloat16, np.float32, np.float16, np.float64


class Right(NamedTuple):
    """A right program, its arguments, and the options of its check."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = {}


FORWARD = {"gradients": False}

# Benchmarks.


def smaller(x: Any) -> Any:
    """Return a part of an array that has an eighth of each long dimension."""
    if not isinstance(x, np.ndarray):
        return x
    return np.ascontiguousarray(x[tuple([slice(n // 8 if n >= 16 else n) for n in x.shape])])


#: Programs whose derivatives are not checked: they have many steps, which StableHLO's interpreter
#: runs slowly, or they are steps of training, which contain a derivative.
_FORWARD_ONLY = {
    "step of a CNN",
    "linear regression",
    "logistic regression",
    "epoch of Adam",
    "meta-learning",
    "neural ODE",
    "Lorenz attractor",
    "bodies that attract",
    "optimal transport",
    "step of an LSTM",
    "step of an autoencoder",
    "hidden Markov model",
    "k-means",
    "heat equation",
    "Newton with Hessian",
}
#: Programs of which a part of the data is another program, or that take seconds.
_LEFT_OUT = {
    "Hamiltonian Monte Carlo",
    "Metropolis",
    "bootstrap",
    "fit of a polynomial",
}


def _benchmark(program: Program) -> Right:
    arguments = jax.tree.map(smaller, program.arguments)
    options = FORWARD if program.name in _FORWARD_ONLY else {}
    return Right(program.of(MINIXLA), tuple(arguments), options)


BENCHMARKS = {
    program.name: _benchmark(program) for program in programs() if program.name not in _LEFT_OUT
}

# Examples.

_LAYER = {
    "norm1": np.ones((2, 8), f32),
    "attention": _random(2, 8, 24) * f32(0.3),
    "mixed": _random(2, 8, 8) * f32(0.3),
    "norm2": np.ones((2, 8), f32),
    "expanded": _random(2, 8, 16) * f32(0.3),
    "contracted": _random(2, 16, 8) * f32(0.3),
}
_CHARACTERS = {
    "characters": _random(5, 8),
    "positions": _random(6, 8),
    "layers": _LAYER,
    "norm": np.ones(8, f32),
    "scores": _random(8, 5),
}
_WINDOW = np.int32([[0, 1, 4, 2, 3], [3, 3, 1, 0, 2]])
_GAUSSIAN = {"length": f32(0.1), "amplitude": f32(0.2), "noise": f32(-1.0)}
_PLACES, _CURVE = np.linspace(0, 3, 7, dtype="f4"), np.sin(np.linspace(0, 3, 7, dtype="f4"))
_POINTS = _random(12, 2)


def example(module: str, name: str, **settings: Any) -> Callable[..., Any]:
    """Return a function of an example, which is imported when it is called.

    Args:
        module: the name of the example.
        name: the name of the function.
        settings: constants of the module that are other ones during the call.
    """

    def run(*arguments: Any) -> Any:
        if _EXAMPLES not in sys.path:
            sys.path.append(_EXAMPLES)  # for modules that examples share
        imported = importlib.import_module(f"examples.{module}")
        previous = {key: getattr(imported, key) for key in settings}
        vars(imported).update(settings)
        try:
            return getattr(imported, name)(*arguments)
        finally:
            vars(imported).update(previous)

    return run


def autoencoder_loss(parameters: Any, images: Any) -> Any:
    """Compute the loss of the variational autoencoder."""
    loss = example("variational_autoencoder", "loss")
    return loss(parameters, jax.random.key(0), images)


def leapfrog(place: Any, momentum: Any) -> Any:
    """Follow Hamilton's equations for a few steps."""
    leapt = example("hamiltonian_monte_carlo", "leapt", LEAPS=2)
    return leapt(lambda x: -(x**4).sum() / 4, place, momentum, 0.1)


def blocks(parameters: Any, images: Any) -> Any:
    """Scan over the blocks of a network."""

    def block(x: Any, matrices: Any) -> Any:
        up, down = matrices
        return x + mx.nn.gelu(x @ up) @ down, None

    x, _ = mx.scan(block, images, parameters)
    return mx.nn.log_softmax(x)


def _autoencoder() -> dict[str, Any]:
    sizes = {"in": (64, 6), "code": (6, 4), "back": (2, 6), "out": (6, 64)}
    return {
        name: {"weights": _random(*size) * f32(0.1), "bias": np.zeros(size[1], f32)}
        for name, size in sizes.items()
    }


_TRANSFORMER = example("char_transformer", "loss", HEADS=2)
_POD = ([(_random(4, 6), _random(6, 4))] * 2, _random(3, 4))
_IMAGES = (np.ones((8, 5), f32), _random(2, 8, 8), _random(2, 8, 8))
_FIELD = {"in": _random(2, 6), "bias": _random(6), "out": _random(6, 2)}

EXAMPLES = {
    "character transformer": Right(_TRANSFORMER, (_CHARACTERS, _WINDOW)),
    "gradient of the transformer": Right(mx.grad(_TRANSFORMER), (_CHARACTERS, _WINDOW), FORWARD),
    "Gaussian process": Right(example("gaussian_process", "loss"), (_GAUSSIAN, _PLACES, _CURVE)),
    "Gaussian process, predicted": Right(
        example("gaussian_process", "predicted"),
        (_GAUSSIAN, _PLACES, _CURVE, _PLACES[:3] + f32(0.2)),
        FORWARD,
    ),
    "clusters": Right(example("kmeans", "clustered"), (_POINTS, f32([0.1, 0.5, 0.8])), FORWARD),
    "distances": Right(example("kmeans", "distances"), (_POINTS, _POINTS[:3])),
    "denoising": Right(example("fft_denoising", "loss"), _IMAGES),
    "step of denoising": Right(example("fft_denoising", "train_step"), _IMAGES, FORWARD),
    "log density": Right(
        example("hamiltonian_monte_carlo", "log_density"),
        (_random(4), _random(9, 3), _random(9) > 0),
    ),
    "leapfrog": Right(leapfrog, (_random(3), _random(3)), FORWARD),
    "field of the neural ODE": Right(example("neural_ode", "network"), (_FIELD, _random(5, 2))),
    "loss of a pod": Right(example("far_pod", "loss"), _POD),
    "step of a pod": Right(example("far_pod", "step"), _POD, FORWARD),
    "blocks": Right(blocks, ((_random(2, 6, 8), _random(2, 8, 6)), _random(4, 6))),
    "variational autoencoder": Right(
        autoencoder_loss, (_autoencoder(), np.abs(_random(3, 64)) / f32(4))
    ),
    "dropout": Right(
        lambda x: example("transformer", "dropped")(jax.random.key(3), x, 0.25), (_random(4, 4),)
    ),
    "Kepler's equation": Right(
        lambda m: example("optax_orbit", "anomaly_in_jax")(m, 0.3),
        (np.linspace(0.2, 3, 5, dtype="f4"),),
    ),
}

# Programs with corners, ties, large and tiny values, and masks.


def softmax_loss(x: Any, labels: Any) -> Any:
    """Compute a cross-entropy."""
    return -(mx.nn.log_softmax(x) * labels).sum(-1).mean()


def layer_norm(x: Any) -> Any:
    """Normalize rows."""
    return mx.nn.layer_norm(x, np.ones(x.shape[-1], "f4"))


def safe_norm(x: Any) -> Any:
    """Compute a norm that has a derivative at 0."""
    square = (x * x).sum()
    is_zero = square == 0
    return mnp.where(is_zero, 0.0, mnp.sqrt(mnp.where(is_zero, 1.0, square)))


def masked_mean(x: Any) -> Any:
    """Compute the mean of what is not NaN."""
    is_number = ~mnp.isnan(x)
    total = mnp.where(is_number, x, 0.0).sum()
    return total / mnp.maximum(is_number.sum(), 1)


def attention(q: Any, k: Any) -> Any:
    """Attend to what came before."""
    mask = mnp.tril(mnp.ones((4, 4), bool))
    scores = mnp.where(mask, q @ k.T, -mnp.inf)
    return mx.nn.softmax(scores * 30) @ k


def half_step(w: Any, x: Any) -> Any:
    """Take a step of training with scaled losses in f16."""
    scale = mnp.float16(128)

    def loss(w: Any) -> Any:
        return (mnp.tanh(x @ w) ** 2).mean() * scale

    return w - mnp.float16(0.1) * mx.grad(loss)(w) / scale


def long_scan(x: Any) -> Any:
    """Scan many steps."""
    return mx.scan(lambda c, y: (0.9 * c + y, mnp.tanh(c)), x[0], x)[1]


def straight(x: Any) -> Any:
    """Round, with the derivative of what is rounded."""
    return x + mx.stop_gradient(mnp.round(x) - x)


def symmetric(x: Any) -> Any:
    """Return a symmetric matrix with distinct eigenvalues."""
    return (x + x.T) / 2 + mnp.diag(mnp.arange(len(x)) * 3.0)


DELICATE = {
    "softmax of large logits": Right(mx.nn.softmax, (f32([1e4, 9.999e3, -1e4]),)),
    "loss of large logits": Right(
        softmax_loss, (f32([[500, -500, 3], [2, 900, 1]]), np.eye(2, 3, dtype="f4"))
    ),
    "logsumexp": Right(mx.nn.logsumexp, (f32([[1e4, 1e4], [-1e4, -1e4]]),)),
    "log_softmax in f16": Right(mx.nn.log_softmax, (f16([600, 1, -600]),)),
    "layer norm of constants": Right(layer_norm, (np.ones((2, 4), f32) * 3,)),
    "layer norm of large values": Right(layer_norm, (_random(2, 8) * f32(1e4) + f32(1e5),)),
    "norm at 0": Right(safe_norm, (np.zeros(4, f32),)),
    "norm of tiny values": Right(safe_norm, (f32([1e-15, 2e-15]),)),
    "long sum": Right(lambda x: x.sum(), (np.abs(_random(20_000)),)),
    "long sum of both signs": Right(lambda x: (x * 3).sum(), (_random(5000),)),
    "long mean in bf16": Right(lambda x: x.mean(), (np.abs(_random(3000)).astype(bf16),)),
    "variance far from 0": Right(lambda x: x.var(), (_random(64) + f32(100),)),
    "cumsum": Right(mnp.cumsum, (_random(200),)),
    "cumprod": Right(mnp.cumprod, (np.abs(_random(12)) + f32(0.5),)),
    "cumulative logsumexp": Right(lambda x: jax.lax.cumlogsumexp(x), (_random(9) * f32(50),)),
    "fft and back": Right(lambda x: mnp.fft.ifft(mnp.fft.fft(x)).real, (_random(8),)),
    "rfft": Right(lambda x: mnp.abs(mnp.fft.rfft(x)) ** 2, (_random(9),)),
    "cholesky": Right(lambda x: mnp.linalg.cholesky(x @ x.T + 3 * mnp.eye(4)), (_random(4, 4),)),
    "qr": Right(lambda x: mnp.abs(mnp.linalg.qr(x)[1]), (_random(4, 3),)),
    "eigh": Right(lambda x: mnp.linalg.eigh(symmetric(x))[0], (_random(4, 4),)),
    "singular values": Right(
        lambda x: mnp.linalg.svd(x, compute_uv=False), (_random(3, 3) + 2 * np.eye(3, dtype="f4"),)
    ),
    "inverse": Right(mnp.linalg.inv, (_random(3, 3) + 4 * np.eye(3, dtype="f4"),)),
    "determinant": Right(mnp.linalg.det, (_random(3, 3),)),
    "solution of a linear system": Right(
        mnp.linalg.solve, (_random(4, 4) + 5 * np.eye(4, dtype="f4"), _random(4))
    ),
    "sort with ties": Right(mnp.sort, (f32([2, 1, 2, 1, 3]),)),
    "argsort with ties": Right(lambda x: mnp.argsort(x), (f32([2, 1, 2, 1, 3]),)),
    "argmax with ties": Right(mnp.argmax, (f32([1, 3, 3, 2]),)),
    "top_k with ties": Right(lambda x: mx.lax.top_k(x, 3)[0], (f32([2, 5, 5, 1, 2]),)),
    "median": Right(mnp.median, (f32([4, 1, 3, 2]),)),
    "relu at 0": Right(mx.nn.relu, (f32([0, -0.0, 1, -1]),)),
    "abs at 0": Right(mnp.abs, (f32([0, 1, -2]),)),
    "clip at its edges": Right(lambda x: mnp.clip(x, -1, 1), (f32([-1, 1, 0.5, 3]),)),
    "maximum of equals": Right(mnp.maximum, (f32([1, 2, 3]), f32([1, 3, 2]))),
    "largest of equals": Right(lambda x: x.max(axis=1), (f32([[1, 1, 0], [2, 3, 3]]),)),
    "max pool with ties": Right(
        lambda x: mx.nn.max_pool(x, (2, 2), (2, 2)), (np.ones((1, 4, 4, 1), f32),)
    ),
    "sign and floor": Right(lambda x: mnp.sign(x) + mnp.floor(x), (f32([0.5, -1.5, 2.2]),)),
    "fewer digits": Right(lambda x: mx.lax.reduce_precision(x, 8, 7) * 2, (f32([0.3, 1.7]),)),
    "rounding with a derivative": Right(straight, (f32([0.2, 1.7, -0.6]),)),
    "step of training in f16": Right(
        half_step, (_random(4, 3, dtype="f2"), _random(2, 4, dtype="f2")), FORWARD
    ),
    "softmax in bf16": Right(mx.nn.softmax, (_random(6).astype(bf16),)),
    "product of matrices in bf16": Right(
        lambda x, w: mnp.tanh(x @ w), (_random(4, 6).astype(bf16), _random(6, 3).astype(bf16) / 4)
    ),
    "bf16 with sums in f32": Right(
        lambda x: (x.astype("float32") ** 2).mean(), (_random(50).astype(bf16),)
    ),
    "long scan": Right(long_scan, (_random(100),)),
    "masked mean": Right(masked_mean, (f32([1, np.nan, 3]),)),
    "nanmax": Right(mnp.nanmax, (f32([1, np.nan, 3]),)),
    "attention with a mask": Right(attention, (_random(4, 3), _random(4, 3))),
    "double where": Right(
        lambda x: mnp.where(x > 0, mnp.log(mnp.where(x > 0, x, 1.0)), -1.0), (f32([0, -2, 3]),)
    ),
    "division with a mask": Right(
        lambda x, y: mnp.where(y == 0, 0.0, x / mnp.where(y == 0, 1.0, y)),
        (f32([1, 2]), f32([0, 4])),
    ),
    "expm1 and log1p": Right(lambda x: mnp.expm1(mnp.log1p(x)), (f32([1e-7, 1e-3, 5]),)),
    "logaddexp": Right(mnp.logaddexp, (f32([1000, -1000, 0]), f32([1000, -999, 1e-3]))),
    "sigmoid of large values": Right(mx.nn.sigmoid, (f32([-200, 200, 0]),)),
    "softplus": Right(mx.nn.softplus, (f32([-90, 0, 90]),)),
    "gelu": Right(mx.nn.gelu, (f32([-10, -1, 0, 1, 10]),)),
    "erf": Right(jax.scipy.special.erf, (f32([-4, 0, 1e-4, 3]),)),
    "lgamma": Right(jax.scipy.special.gammaln, (f32([0.5, 2.5, 30]),)),
    "powers": Right(lambda x: x**3 + x**-2, (f32([0.5, -2, 3]),)),
    "arctan2": Right(mnp.arctan2, (f32([1, -1, 0.5]), f32([0.0, -2, 0.1]))),
    "hypot of large values": Right(mnp.hypot, (f32([3e25, 1]), f32([4e25, 1e-3]))),
    "complex roots": Right(lambda z: mnp.sqrt(z * z + 1), (np.complex64([1 + 2j, -0.5j]),)),
    "complex division": Right(lambda z: 1 / (z + 2), (np.complex64([1 + 2j, -0.5j]),)),
    "overflow of integers": Right(lambda i: i * i, (np.int32([70000, -3]),)),
    "unsigned wrap": Right(lambda i: i - 3, (np.uint8([1, 250]),)),
    "integer division": Right(lambda i: i // 3 + i % -4, (np.int32([-7, 7, 0]),)),
    "large indices": Right(lambda x: x[np.array([0, -1, 2])], (_random(3),)),
    "repeated indices": Right(
        lambda x: mnp.zeros(3).at[np.array([0, 0, 2, 0])].add(x), (_random(4),)
    ),
    "no elements": Right(lambda x: mnp.exp(x).sum(axis=0), (np.zeros((0, 3), f32),)),
    "rank 0": Right(lambda x: mnp.tanh(x) * x, (f32(0.3),)),
    "size 1": Right(lambda x: x / x.sum(), (f32([[2.0]]),)),
    "zero times a large value": Right(lambda x: (x - x) * 1e30, (f32([1, 2]),)),
    "gradient of a gradient": Right(
        lambda x: mx.grad(lambda y: mx.grad(lambda z: (z**4).sum())(y).sum())(x), (_random(3),)
    ),
    "gradients of rows": Right(
        lambda w, x: mx.vmap(mx.grad(lambda w, r: mnp.tanh(w @ r)), (None, 0))(w, x),
        (_random(3), _random(4, 3)),
    ),
    "Hessian": Right(mx.hessian(lambda x: (mnp.sin(x) * x[::-1]).sum()), (_random(3),)),
    "Jacobian": Right(mx.jacfwd(lambda x: mnp.cumsum(mnp.exp(x))), (_random(3),)),
    "checkpoint": Right(mx.checkpoint(lambda x: mnp.sin(mnp.sin(x))), (_random(4),)),
    "vmap of vmap": Right(
        mx.vmap(mx.vmap(lambda x, y: mnp.sort(x) @ y, (0, None)), (None, 0)),
        (_random(3, 4), _random(2, 4)),
    ),
    "vmap of a branch": Right(
        mx.vmap(lambda x: mx.cond(x.sum() > 0, mnp.exp, mnp.negative, x)), (_random(4, 3),)
    ),
    "vmap of a loop": Right(
        mx.vmap(lambda x: mx.while_loop(lambda y: y.sum() < 9, lambda y: y * 2 + 1, x)),
        (np.abs(_random(3, 2)),),
    ),
    "jvp of a loop": Right(
        lambda x: mx.jvp(lambda y: mx.fori_loop(0, 3, lambda i, z: mnp.sin(z), y), (x,), (x,))[1],
        (_random(3),),
    ),
    "JAX: a dense net": Right(
        lambda x, w: jax.nn.gelu(jnp.dot(x, w)).sum(), (_random(3, 4), _random(4, 2))
    ),
    "JAX: a scan": Right(
        lambda x: jax.lax.scan(lambda c, y: (c * y, jnp.sin(c)), x[0], x), (_random(5),)
    ),
    "JAX: a gradient": Right(jax.grad(lambda x: jax.nn.logsumexp(x * x)), (_random(4),)),
    "JAX: a vmap": Right(jax.vmap(lambda x: jnp.linalg.norm(x)), (_random(3, 4),)),
    "JAX: relu6 and silu": Right(lambda x: jax.nn.relu6(x) + jax.nn.silu(x), (f32([0, 6, -1, 3]),)),
}

PROGRAMS: dict[str, Right] = {
    f"{group}: {name}": program
    for group, table in [("benchmark", BENCHMARKS), ("example", EXAMPLES), ("delicate", DELICATE)]
    for name, program in table.items()
}
