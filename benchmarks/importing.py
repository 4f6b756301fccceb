"""Measure importing programs, and compare their derivatives with JAX's."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

import minixla as mx
from benchmarks.measure import Comparison, Effort, blocking, interleaved
from benchmarks.models import JAX, Model, models


def importing(effort: Effort) -> Iterator[Comparison]:
    """Measure reading StableHLO; compare derivatives of an exported JAX program with JAX's."""
    for length in (10,) if effort.small else (1_000, 10_000):
        for form, source in _chain(length).items():
            yield interleaved(
                f"import of StableHLO, {form}: {length:,} operations",
                {"minixla": partial(mx.import_stablehlo, source)},
                effort.rounds(10),
                collect=True,
            )
            if isinstance(source, str):
                bare = str(_parsed(source))
                for which, text in (("text", source), ("text without lines", bare)):
                    yield from _beside_the_parser(f"{which}: {length:,} operations", text, effort)
    yield from _weights(1 if effort.small else 100, effort)
    for model in models(effort.small)[: 1 if effort.small else None]:
        loss, arguments = model.loss(JAX), (model.parameters, *model.batch)
        text = jax.jit(jax.value_and_grad(loss)).lower(*arguments).as_text()
        yield from _beside_the_parser(f"value_and_grad, {model.name}", text, effort)
        yield from _derivatives(model, effort)


def _chain(length: int) -> dict[str, Any]:
    """Return a chain of operations as text, and as the bytes of jax.export."""

    def chain(x: Any) -> Any:
        for _ in range(length // 2):
            x = jnp.tanh(x) * x
        return x

    exported = jax.export.export(jax.jit(chain))(np.ones(8, np.float32))
    return {"text": exported.mlir_module(), "bytes": bytes(exported.serialize())}


def _beside_the_parser(title: str, text: str, effort: Effort) -> Iterator[Comparison]:
    """Measure the CPU time of importing a text and of jaxlib's parser."""
    for which, clock in (("import, CPU", time.process_time), ("import, CPU of all", _cpu_of_all)):
        yield interleaved(
            f"{which}, {title}",
            {"minixla": partial(mx.import_stablehlo, text), "jax": partial(_parsed, text)},
            effort.rounds(30),
            collect=True,
            clock=clock,
        )


def _cpu_of_all() -> float:
    """Return the CPU seconds of this process and its children, on Linux."""
    pending, total = [os.getpid()], 0.0
    while pending:
        pid = pending.pop()
        # Linux's number of another process's clock; see clock_getcpuclockid(3).
        total += time.clock_gettime((~pid << 3) | 2)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            pending += map(int, children.read_text().split())
    return total


def _parsed(text: str) -> Any:
    with make_ir_context():
        return ir.Module.parse(text)


def _weights(megabytes: int, effort: Effort) -> Iterator[Comparison]:
    """Measure reading ten constants of f32 in each form; lists have a tenth of the numbers."""
    for form in ("list", "text", "bytecode", "artifact", "exported"):
        amount = megabytes / 10 if form == "list" else megabytes
        source = _constants(form, round(amount * 25_000))
        yield interleaved(
            f"import of StableHLO, {form}: {amount:g} MB of weights",
            {"minixla": partial(mx.import_stablehlo, source)},
            effort.rounds(3),
            "s",
            collect=True,
        )


def _constants(form: str, size: int) -> Any:
    """Return a program that adds ten constants of `size` numbers."""
    weights = np.random.default_rng(0).standard_normal((10, size)).astype(np.float32)
    if form == "exported":
        return jax.export.export(jax.jit(lambda x: sum(weights, x)))(weights[0])
    kind, steps = f"tensor<{size}xf32>", []
    for number, each in enumerate(weights):
        value = f'"0x{each.tobytes().hex()}"' if form != "list" else str(each.tolist())
        steps += [
            f"%w{number} = stablehlo.constant dense<{value}> : {kind}",
            f"%{number + 1} = stablehlo.add %{number}, %w{number} : {kind}",
        ]
    body = "\n".join(steps)
    text = f"func.func @main(%0: {kind}) -> {kind} {{\n{body}\nreturn %10 : {kind}\n}}"
    if form == "artifact":
        return stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version())
    if form != "bytecode":
        return text
    stream = io.BytesIO()
    _parsed(text).operation.write_bytecode(stream)
    return stream.getvalue()


def _derivatives(model: Model, effort: Effort) -> Iterator[Comparison]:
    """Measure value_and_grad of a model's exported loss, lowered and run."""
    loss = model.loss(JAX)
    arguments = jax.tree.map(jnp.asarray, (model.parameters, *model.batch))
    exported = jax.export.export(jax.jit(loss))(*arguments)
    variants = {
        "minixla": lambda: mx.jit(mx.value_and_grad(mx.import_stablehlo(exported))),
        "jax": lambda: jax.jit(jax.value_and_grad(lambda *args: loss(*args))),
    }
    lowered = {name: partial(_lowered, make, arguments) for name, make in variants.items()}
    title = f"grad + lower, imported: {model.name}"
    yield interleaved(title, lowered, effort.rounds(10), collect=True)
    steps = {name: blocking(make(), *arguments) for name, make in variants.items()}
    yield interleaved(f"step, imported: {model.name}", steps, effort.rounds(50))


def _lowered(make: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
    return make().lower(*arguments)
