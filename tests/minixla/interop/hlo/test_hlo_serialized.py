"""Serialized HLO modules: HloModuleProto and HloProto."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from minixla.tools.command_inputs import is_hlo

X = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)
TABLE = np.sin(np.arange(6e4, dtype=np.float32)).reshape(3, -1)


def function(x: Any) -> Any:
    """A program with a loop, a branch, and a constant that text would leave out."""
    looped = jax.lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c) + jnp.sinh(x[0, 0]), x)
    return looped, jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x) @ TABLE


def in_hlo_proto(module: bytes) -> bytes:
    """An HloProto whose first field is the module."""
    size, length = len(module), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return b"\n" + length + bytes([size]) + module


def modules() -> dict[str, bytes]:
    lowered = jax.jit(function).lower(X)
    computation: Any = lowered.compiler_ir("hlo")
    (optimized,) = lowered.compile().runtime_executable().hlo_modules()
    found = {
        "unoptimized": computation.as_serialized_hlo_module_proto(),
        "optimized": optimized.as_serialized_hlo_module_proto(),
    }
    return found | {f"{name} HloProto": in_hlo_proto(data) for name, data in found.items()}


@pytest.mark.parametrize("name", [*modules()])
def test_modules_are_read(name, tmp_path):
    data, expected = modules()[name], jax.jit(function)(X)
    path = tmp_path / "program.pb"
    path.write_bytes(data)
    for source in (data, bytearray(data), path, str(path)):
        found = mx.import_hlo(source)(X)
        for result, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(result, wanted, 2e-6)
    assert is_hlo(data)
    gradient = mx.grad(lambda x: sum(y.sum() for y in mx.import_hlo(data)(x)))(X)
    wanted = jax.grad(lambda x: sum(y.sum() for y in function(x)))(X)
    np.testing.assert_allclose(gradient, wanted, 1e-4, 1e-4)
    step = mx.import_hlo(data).graph.instructions[-1]
    assert step.source is not None and __file__.endswith(step.source.file.rpartition("/")[2])


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00abc",
        b"\n\x03abc\x12\x01",
        b"\n\x01",
        modules()["optimized"][:500],
        np.random.default_rng(0).bytes(1000),
    ],
)
def test_other_bytes_name_the_formats(data):
    problem = "neither HLO text nor a serialized HloModuleProto or HloProto"
    with pytest.raises(mx.ImportError_, match=problem) as caught:
        mx.import_hlo(data)
    assert f"{len(data)} bytes that begin with" in str(caught.value)
    assert "a serialized HloModuleProto or HloProto as bytes" in str(caught.value)
