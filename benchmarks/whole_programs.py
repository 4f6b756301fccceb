"""Measure whole programs: time to compile and run them, and their memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp

import minixla as mx
from benchmarks.measure import Comparison, Effort, blocking, interleaved, per_call, ratio_of
from benchmarks.models import (
    FRAMEWORKS,
    JAX,
    MINIXLA,
    Framework,
    Model,
    deep_models,
    deep_transformer,
    models,
    random_array,
)
from benchmarks.programs import Program, programs


def _chosen(effort: Effort) -> list[Program]:
    return programs()[:: 10 if effort.small else 1]


def _compiled(program: Program, framework: Framework) -> Any:
    return framework.jit(program.of(framework)).lower(*program.arguments).compile()


def whole_programs(effort: Effort) -> Iterator[Comparison]:
    """Measure building, compiling and running each program."""
    for program in _chosen(effort):
        variants = {each.name: lambda f=each, p=program: _compiled(p, f) for each in FRAMEWORKS}
        title = f"compile: {program.name}"
        yield interleaved(title, variants, effort.rounds(7), collect=True)
        arguments = jax.tree.map(jnp.asarray, program.arguments)
        runs = {}
        for each in FRAMEWORKS:
            runs[each.name] = blocking(each.jit(program.of(each)), *arguments)
        title = f"run: {program.name}"
        yield per_call(title, runs, effort.rounds(30), 1 if effort.small else 20)


def memory(effort: Effort) -> Iterator[Comparison]:
    """Return the bytes that a compiled program needs beside its arguments and results."""
    steps = [
        Program(f"value_and_grad: {model.name}", _value_and_grad(model.loss), arguments)
        for model in models(effort.small)
        for arguments in [(model.parameters, *model.batch)]
    ]
    size = 8 if effort.small else 256
    weights, rows = [random_array(size, size)] * 12, random_array(8 * size, size)
    blocks = Program("gradient of 12 checkpointed blocks", _checkpointed_gradient, (weights, rows))
    for model in deep_models(effort.small):
        arguments = model.parameters, *model.batch
        steps.append(Program(f"step: {model.name}", _step_of(model, True), arguments))
    for program in [*steps, blocks, *_chosen(effort)]:
        sizes = {each.name: _temporary(program, each) for each in FRAMEWORKS}
        ours, theirs = (size / 1024 for size in sizes.values())
        medians = dict(zip(sizes, (ours, theirs), strict=True))
        title = f"temporary memory: {program.name}"
        yield Comparison(title, "KiB", medians, ratio_of(ours, theirs), 1)


def deep(effort: Effort) -> Iterator[Comparison]:
    """Measure networks of equal layers: unrolled, as calls of one jitted function, or as a loop."""
    for model in deep_models(effort.small):
        arguments = model.parameters, *model.batch
        hows = {"": _step_of(model), ", jitted": _step_of(model, True)}
        hows[", one loop"] = _step_of(model, is_loop=True)
        steps = {how: Program(model.name + how, step, arguments) for how, step in hows.items()}
        plain, jitted, loop = steps.values()
        for step in (plain, jitted):
            pairs = {each.name: (step, each) for each in FRAMEWORKS}
            yield from _beside(step.name, pairs, effort)
        for step in (jitted, loop):
            pairs = {"minixla": (step, MINIXLA), "written out": (plain, MINIXLA)}
            yield from _beside(f"{step.name} or not", pairs, effort)


def _beside(
    title: str, pairs: dict[str, tuple[Program, Framework]], effort: Effort
) -> Iterator[Comparison]:
    """Compare the time to compile and run two programs, and their memory."""
    variants = {name: partial(_compiled, *pair) for name, pair in pairs.items()}
    yield interleaved(f"compile: {title}", variants, effort.rounds(5), collect=True)
    runs = {}
    for name, (step, framework) in pairs.items():
        placed = jax.tree.map(jnp.asarray, step.arguments)
        runs[name] = blocking(framework.jit(step.of(framework)), *placed)
    yield interleaved(f"step: {title}", runs, effort.rounds(30))
    sizes = {name: _temporary(*pair) / 1024 for name, pair in pairs.items()}
    yield Comparison(f"memory: {title}", "KiB", sizes, ratio_of(*sizes.values()), 1)


def _step_of(model: Model, are_jitted: bool = False, is_loop: bool = False) -> Callable[..., Any]:
    """Return `value_and_grad` of a model of equal layers."""

    def step(framework: Framework, *arguments: Any) -> Any:
        loss = model.loss(framework, framework.jit if are_jitted else lambda layer: layer, is_loop)
        return framework.value_and_grad(loss)(*arguments)

    return step


def _checkpointed_gradient(framework: Framework, weights: Any, rows: Any) -> Any:
    """Return the gradient of blocks of four layers, which are recomputed in the backward pass."""

    def block(rows: Any, matrix: Any) -> Any:
        for _ in range(4):
            rows = framework.numpy.tanh(rows @ matrix)
        return rows

    checkpointed = framework.library.checkpoint(block)
    return framework.library.grad(lambda weights: reduce(checkpointed, weights, rows).sum())(
        weights
    )


def _value_and_grad(loss: Callable[[Framework], Callable[..., Any]]) -> Callable[..., Any]:
    return lambda framework, *arguments: framework.value_and_grad(loss(framework))(*arguments)


def _temporary(program: Program, framework: Framework) -> int:
    return _compiled(program, framework).memory_analysis().temp_size_in_bytes


#: JAX code under the transformations of minixla.
_INSIDE = JAX._replace(jit=mx.jit, value_and_grad=mx.value_and_grad, name="minixla")


def scale(effort: Effort) -> Iterator[Comparison]:
    """Transformers of 12 and 48 layers, in minixla's functions and in JAX code, beside JAX."""
    for layers in (1, 2) if effort.small else (12, 48):
        model = deep_transformer(effort.small, layers)
        arguments = model.parameters, *model.batch
        for how, options in {
            "": {},
            ", jitted": {"are_jitted": True},
            ", one loop": {"is_loop": True},
        }.items():
            step = Program(model.name + how, _step_of(model, **options), arguments)
            for name, ours in {"": MINIXLA, "JAX code, ": _INSIDE}.items():
                yield from _once(name + step.name, step, ours, effort)


def _once(title: str, step: Program, ours: Framework, effort: Effort) -> Iterator[Comparison]:
    """Compile a program once for each framework; compare CPU time, steps and memory."""
    seconds, runs, sizes = {}, {}, {}
    placed = jax.tree.map(jnp.asarray, step.arguments)
    for framework in (ours, JAX):
        start = time.process_time()
        compiled = _compiled(step, framework)
        seconds[framework.name] = time.process_time() - start
        runs[framework.name] = blocking(compiled, *placed)
        sizes[framework.name] = compiled.memory_analysis().temp_size_in_bytes / 1024
    yield Comparison(f"compile: {title}", "s", seconds, ratio_of(*seconds.values()), 1)
    yield interleaved(f"step: {title}", runs, effort.rounds(10))
    yield Comparison(f"memory: {title}", "KiB", sizes, ratio_of(*sizes.values()), 1)
