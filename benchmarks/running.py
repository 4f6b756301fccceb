"""Measure running: calls, operations outside jit, compiled steps and layers, the reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
from benchmarks.measure import Comparison, Effort, blocking, interleaved, per_call
from benchmarks.models import (
    FRAMEWORKS,
    JAX,
    MINIXLA,
    Framework,
    deep_transformer,
    digits_cnn,
    models,
    small_mlp,
)


def calls(effort: Effort) -> Iterator[Comparison]:
    """Measure a call of a small jitted function."""
    rounds, count = effort.rounds(60), 10 if effort.small else 500
    x = jnp.ones((64, 64))
    ours, theirs = mx.jit(lambda x: mx.numpy.tanh(x)), jax.jit(lambda x: jnp.tanh(x))
    variants = {"minixla": lambda: ours(x), "jax": lambda: theirs(x)}
    yield per_call("call of a jitted tanh, f32[64,64]", variants, rounds, count)
    for many in (2,) if effort.small else (20, 200):
        parameters = {f"p{index}": jnp.ones(8) for index in range(many)}
        yield _incremented(f"{many} arrays", parameters, rounds, count)
    layers = [{"weights": (jnp.ones(8),) * 2, "norm": {"scale": jnp.ones(8)}} for _ in range(6)]
    yield _incremented("18 nested arrays", layers, rounds, count)
    yield from mapped_calls(rounds, count)


def _incremented(what: str, arrays: Any, rounds: int, count: int) -> Comparison:
    """Measure calls of a jitted function that adds one to each array."""
    ours, theirs = (
        module.jit(lambda xs: jax.tree.map(lambda x: x + 1, xs)) for module in (mx, jax)
    )
    variants = {"minixla": lambda: ours(arrays), "jax": lambda: theirs(arrays)}
    return per_call(f"call of a jitted function of {what}", variants, rounds, count)


def mapped_calls(rounds: int, count: int) -> Iterator[Comparison]:
    """Measure calls of small functions mapped over all devices, outside of jit."""
    devices, auto = f"{jax.device_count()} devices", (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=auto)
    x = jax.device_put(jnp.ones((mesh.size, 64)), jax.NamedSharding(mesh, jax.P("d")))
    members = {f"p{index}": x for index in range(20)}
    ours, theirs = (module.pmap(lambda x: x + 1) for module in (mx, jax))
    variants = {"minixla": lambda: ours(x), "jax": lambda: theirs(x)}
    yield per_call(f"call of a pmap, {devices}", variants, rounds, count)
    own, other = (
        module.pmap(lambda p: {name: v + 1 for name, v in p.items()}) for module in (mx, jax)
    )
    variants = {"minixla": lambda: own(members), "jax": lambda: other(members)}
    yield per_call(f"call of a pmap of 20 arrays, {devices}", variants, rounds, count)
    specs = {"mesh": mesh, "in_specs": jax.P("d"), "out_specs": jax.P("d")}
    mapped = mx.shard_map(lambda x: x + 1, **specs)
    jitted = jax.jit(jax.shard_map(lambda x: x + 1, **specs))
    variants = {"minixla": lambda: mapped(x), "jax": lambda: jitted(x)}
    yield per_call(f"call of a shard_map, {devices}", variants, rounds, count)


def eager(effort: Effort) -> Iterator[Comparison]:
    """Measure operations and derivatives outside jit."""
    rounds, count = effort.rounds(60), 10 if effort.small else 200
    x, row, y = jnp.ones((64, 64)), jnp.ones(64), np.ones((64, 64), np.float32)
    programs: dict[str, Callable[[Any], Any]] = {
        "tanh, f32[64,64]": lambda np_: np_.tanh(x),
        "add, f32[64,64] and f32[64,64]": lambda np_: np_.add(x, x),
        "add, f32[64,64] and f32[64]": lambda np_: np_.add(x, row),
        "add, f32[64,64] and a number": lambda np_: np_.add(x, 2.0),
        "add, f32[64,64] and a NumPy array": lambda np_: np_.add(x, y),
        "sum over rows of f32[64,64]": lambda np_: np_.sum(x, axis=1),
        "f32[64,64] @ f32[64,64]": lambda np_: np_.matmul(x, x),
    }
    for name, program in programs.items():
        variants = {each.name: lambda np_=each.numpy, p=program: p(np_) for each in FRAMEWORKS}
        yield per_call(f"eager {name}", variants, rounds, count)
    model = small_mlp()
    arguments = jax.tree.map(jnp.asarray, (model.parameters, *model.batch))
    variants = {
        each.name: partial(each.value_and_grad(model.loss(each)), *arguments) for each in FRAMEWORKS
    }
    yield per_call(f"eager value_and_grad: {model.name}", variants, rounds, max(1, count // 40))


def steps(effort: Effort) -> Iterator[Comparison]:
    """Measure one compiled value_and_grad of each model."""
    for model in models(effort.small):
        arguments = jax.tree.map(jnp.asarray, (model.parameters, *model.batch))
        variants = {
            each.name: blocking(each.jit(each.value_and_grad(model.loss(each))), *arguments)
            for each in FRAMEWORKS
        }
        yield interleaved(f"step: {model.name}", variants, effort.rounds(100))


def layers(effort: Effort) -> Iterator[Comparison]:
    """Measure compiled gradients of max pooling, 2x2 and 3x3, and of batch normalization."""
    sizes = (2, 8, 8, 2) if effort.small else (128, 28, 28, 32)
    x = jnp.asarray(np.random.default_rng(0).standard_normal(sizes), jnp.float32)
    vectors = jnp.ones(sizes[-1]), jnp.zeros(sizes[-1])
    shape = f"f32[{','.join(map(str, sizes))}]"
    rounds = effort.rounds(40)

    def pooled(framework: Framework, size: int = 2) -> Any:
        def loss(x: Any) -> Any:
            return (framework.nn.max_pool(x, (size, size), (2, 2)) ** 2).sum()

        return blocking(framework.jit(framework.value_and_grad(loss)), x)

    def normed(framework: Framework) -> Any:
        def loss(x: Any, scale: Any, offset: Any) -> Any:
            return (framework.nn.batch_norm(x, scale, offset)[0] ** 3).sum()

        derived = framework.value_and_grad(loss, argnums=(0, 1, 2))
        return blocking(framework.jit(derived), x, *vectors)

    variants = {each.name: pooled(each) for each in FRAMEWORKS}
    yield interleaved(f"gradient of max pooling, {shape}", variants, rounds)
    # Ties share the gradient there, so the functions differ at ties.
    variants["jax"] = pooled(JAX._replace(nn=_ReshapedPool))
    yield interleaved("  against reshape and max in JAX", variants, rounds)
    variants = {each.name: pooled(each, 3) for each in FRAMEWORKS}
    name = f"gradient of 3x3 max pooling, {shape}"
    yield interleaved(name, variants, effort.rounds(10))
    variants = {each.name: normed(each) for each in FRAMEWORKS}
    yield interleaved(f"gradient of batch norm, {shape}", variants, rounds)


class _ReshapedPool:
    """Run max pooling of windows that do not overlap, in the fastest form in JAX."""

    @staticmethod
    def max_pool(x: Any, window: Any, strides: Any) -> Any:
        batch, height, width, features = x.shape
        rows, columns = window
        split = (batch, height // rows, rows, width // columns, columns, features)
        return x.reshape(split).max((2, 4))


def reference(effort: Effort) -> Iterator[Comparison]:
    """Compare evaluation in NumPy by mx.reference with XLA."""
    batch = 1 if effort.small else 8
    random = np.random.default_rng(0)
    shapes = ((batch, 32, 32, 16), (3, 3, 16, 32), (4 * batch, 28, 28, 32), (256, 256))
    x, kernel, wide, square = (random.standard_normal(sizes, np.float32) for sizes in shapes)
    rows: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        (f"conv, f32[{batch},32,32,16] with f32[3,3,16,32]", mx.nn.conv, (x, kernel)),
        (
            f"2x2 max pool, f32[{4 * batch},28,28,32]",
            lambda x: mx.nn.max_pool(x, (2, 2), (2, 2)),
            (wide,),
        ),
        (
            f"gradient of that pool, f32[{4 * batch},28,28,32]",
            mx.grad(lambda x: mx.nn.max_pool(x, (2, 2), (2, 2)).sum()),
            (wide,),
        ),
        ("matrix product, f32[256,256]", mx.numpy.matmul, (square, square)),
    ]
    for model in (*models(effort.small), digits_cnn(8 * batch)):
        gradient = mx.value_and_grad(model.loss(MINIXLA))
        rows.append((f"value_and_grad: {model.name}", gradient, (model.parameters, *model.batch)))
    for name, function, arguments in rows:
        variants = {
            "minixla": partial(mx.reference(function), *arguments),
            "jax": blocking(mx.jit(function), *arguments),
        }
        yield interleaved(f"NumPy: {name}", variants, effort.rounds(10))
    model = deep_transformer(effort.small)
    arguments = model.parameters, *model.batch
    checks = {"minixla": lambda: mx.cross_check(model.loss(MINIXLA), *arguments)}
    title = f"cross_check: {model.name}, CPU time"
    yield interleaved(title, checks, effort.rounds(3), clock=time.process_time)


def interpreter(effort: Effort) -> Iterator[Comparison]:
    """Compare evaluation in NumPy by mx.reference with StableHLO's interpreter."""
    random = np.random.default_rng(0)
    batch, size = (1, 4) if effort.small else (8, 32)
    x = random.standard_normal((batch, size, size, 16), np.float32)
    kernel = random.standard_normal((3, 3, 16, 32), np.float32)
    wide = random.standard_normal((4 * batch, size - 4, size - 4, 32), np.float32)
    rows: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        (f"conv, f32[{batch},{size},{size},16]", mx.nn.conv, (x, kernel)),
        (
            f"2x2 max pool, f32[{4 * batch},{size - 4},{size - 4},32]",
            lambda x: mx.nn.max_pool(x, (2, 2), (2, 2)),
            (wide,),
        ),
    ]
    for name, function, arguments in rows:
        variants = {
            "minixla": partial(mx.reference(function), *arguments),
            "interpreter": _interpreted(mx.make_graph(function)(*arguments), arguments),
        }
        # The interpreter takes most of a minute for one evaluation of the convolution.
        yield interleaved(f"interpreter: {name}", variants, effort.rounds(2))


def _interpreted(graph: mx.Graph, arguments: tuple[Any, ...]) -> Callable[[], Any]:
    """Return a function that evaluates a graph in StableHLO's interpreter."""
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo
    from jax.interpreters import mlir

    context = mlir.make_ir_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse(graph.stablehlo())
        elements = [ir.DenseElementsAttr.get(each) for each in arguments]

    def evaluate() -> Any:
        with context, ir.Location.unknown():
            return stablehlo.eval_module(module, elements)

    return evaluate
