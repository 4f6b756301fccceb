"""Compare the models' steps with PyTorch and autograd, and with the limits of the machine.

PyTorch runs operation by operation, as its users train; both come with the extra `peers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Comparison, Effort, blocking, interleaved, per_call
from benchmarks.models import MINIXLA, Framework, Model, models
from minixla.engine import kernels


def peers(effort: Effort) -> Iterator[Comparison]:
    """Compare each model's step with each peer's, and with the limits of the machine.

    Raises:
        SystemExit: a peer is not installed.
    """
    try:
        torch, autograd = torch_framework(), autograd_framework()
    except ImportError as error:
        raise SystemExit(f"{error}: pip install 'minixla[peers]'") from None
    for model in models(effort.small):
        step, arguments = _step(model)
        ours = blocking(step, *arguments)
        yield _beside("PyTorch", model, ours, _torch_step(torch, model), effort)
        # Its only convolution is SciPy's, which has one channel.
        if "CNN" not in model.name:
            other = autograd.value_and_grad(model.loss(autograd))
            run = partial(other, model.parameters, *model.batch)
            yield _beside("autograd", model, ours, run, effort)
    yield from limits(effort)


def _beside(
    peer: str, model: Model, step: Callable[[], Any], run: Callable[[], Any], effort: Effort
) -> Comparison:
    name = f"step beside {peer}: {model.name}"
    # Run steps in a row, as in training: PyTorch's threads keep waiting for work on the cores that
    # the next step needs, so the next step must be PyTorch's too.
    return per_call(name, {"minixla": step, peer: run}, effort.rounds(20), effort.rounds(10), "ms")


def _step(model: Model) -> tuple[Any, Any]:
    """Return a model's compiled step and its arguments."""
    step = MINIXLA.jit(MINIXLA.value_and_grad(model.loss(MINIXLA)))
    return step, jax.tree.map(jnp.asarray, (model.parameters, *model.batch))


def limits(effort: Effort) -> Iterator[Comparison]:
    """Compare operations and bytes per second with the best of this machine.

    The best are a product of large matrices, and NumPy's copy from one array to another. Here a
    ratio is a part of the best; what only reads may move more.
    """
    size = 64 if effort.small else 2048
    square, vector = jnp.ones((size, size)), jnp.ones(size * size * 4)
    best = _seconds(jax.jit(jnp.matmul), (square, square), effort)
    operations = 2 * size**3 / best / 1e9
    for model in models(effort.small):
        step, arguments = _step(model)
        with kernels.left_out():  # whose operations XLA does not know
            counted = step.lower(*arguments).compile().cost_analysis()["flops"]
        found = counted / _seconds(step, arguments, effort) / 1e9
        name = f"operations of a step: {model.name}"
        yield _part(name, "GFLOP/s", found, "product", operations)
    here, there = np.ones(vector.size, np.float32), np.zeros(vector.size, np.float32)
    best = _seconds(np.copyto, (there, here), effort)
    for name in ("tanh", "sum", "cumsum"):
        function = MINIXLA.jit(getattr(MINIXLA.numpy, name))
        moved = vector.nbytes * (1 if name == "sum" else 2)
        found = moved / _seconds(function, (vector,), effort) / 1e9
        title = f"bytes that {name} of {vector.size:,} numbers moves"
        yield _part(title, "GB/s", found, "copy", 2 * vector.nbytes / best / 1e9)


def _part(name: str, unit: str, ours: float, what: str, best: float) -> Comparison:
    return Comparison(name, unit, {"minixla": ours, what: best}, ours / best, 1)


def _seconds(function: Callable[..., Any], arguments: Any, effort: Effort) -> float:
    """Return the median of a call's time."""
    run = {"minixla": blocking(function, *arguments)}
    return interleaved("", run, effort.rounds(30), "s").medians["minixla"]


def torch_framework() -> Framework:
    """Return PyTorch's functions by the models' names; raise ImportError if it is missing."""
    torch: Any = import_module("torch")
    functional = torch.nn.functional

    def channels_first(x: Any) -> Any:
        return x.permute(0, 3, 1, 2)  # no copy: it is the layout `channels_last`

    def channels_last(x: Any) -> Any:
        return x.permute(0, 2, 3, 1)

    def conv(x: Any, kernel: Any) -> Any:
        own = kernel.permute(3, 2, 0, 1)
        return channels_last(functional.conv2d(channels_first(x), own, padding="same"))

    def batch_norm(x: Any, scale: Any, offset: Any) -> tuple[Any, None, None]:
        own = channels_first(x)
        found = functional.batch_norm(own, None, None, scale, offset, training=True)
        return channels_last(found), None, None

    def max_pool(x: Any, window: Any, strides: Any) -> Any:
        return channels_last(functional.max_pool2d(channels_first(x), window, strides))

    layers = SimpleNamespace(
        relu=torch.relu,
        gelu=lambda x: functional.gelu(x, approximate="tanh"),
        softmax=lambda x, axis: torch.softmax(x, axis),
        conv=conv,
        batch_norm=batch_norm,
        max_pool=max_pool,
        layer_norm=lambda x, scale, offset: functional.layer_norm(x, scale.shape, scale, offset),
        cross_entropy=lambda x, labels: functional.cross_entropy(x, labels, reduction="none"),
    )
    arrays = SimpleNamespace(
        tanh=torch.tanh,
        einsum=torch.einsum,
        tril=torch.tril,
        where=torch.where,
        ones=lambda sizes, _: torch.ones(sizes, dtype=torch.bool),
    )

    def value_and_grad(loss: Callable[..., Any]) -> Callable[..., Any]:
        def derived(parameters: Any, *batch: Any) -> tuple[Any, Any]:
            leaves, tree = jax.tree.flatten(parameters)
            value = loss(parameters, *batch)
            return value.detach(), jax.tree.unflatten(tree, torch.autograd.grad(value, leaves))

        return derived

    return Framework("torch", arrays, layers, lambda f: f, value_and_grad, torch, None)


def torch_arguments(library: Any, model: Model) -> tuple[Any, ...]:
    """Return a model's differentiable parameters and its batch as PyTorch tensors."""

    def tensor(array: np.ndarray) -> Any:
        found = library.from_numpy(array.copy())
        return found.long() if array.dtype == np.int32 else found

    parameters = jax.tree.map(lambda x: tensor(x).requires_grad_(), model.parameters)
    return parameters, *map(tensor, model.batch)


def _torch_step(torch: Framework, model: Model) -> Callable[[], Any]:
    step = torch.value_and_grad(model.loss(torch))
    arguments = torch_arguments(torch.library, model)
    return lambda: step(*arguments)


def autograd_framework() -> Framework:
    """Return autograd's functions by the models' names; raise ImportError if it is missing."""
    autograd: Any = import_module("autograd")
    arrays: Any = import_module("autograd.numpy")

    def softmax(x: Any, axis: int) -> Any:
        powers = arrays.exp(x - arrays.max(x, axis, keepdims=True))
        return powers / arrays.sum(powers, axis, keepdims=True)

    def layer_norm(x: Any, scale: Any, offset: Any) -> Any:
        centred = x - arrays.mean(x, -1, keepdims=True)
        variance = arrays.mean(centred**2, -1, keepdims=True)
        return centred / arrays.sqrt(variance + 1e-5) * scale + offset

    def gelu(x: Any) -> Any:
        return x / 2 * (1 + arrays.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    layers: Mapping[str, Any] = {"softmax": softmax, "layer_norm": layer_norm, "gelu": gelu}
    own = SimpleNamespace(**layers)
    return Framework("autograd", arrays, own, lambda f: f, autograd.value_and_grad, autograd, None)
