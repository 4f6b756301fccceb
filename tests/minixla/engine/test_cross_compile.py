"""Names of platforms, and what is said where their compilers are missing."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import AttributeValueError, TransformError
from minixla.engine.cross_compile import (
    Platform,
    analysed,
    compile_for,
    exported_for,
    platform_named,
)

X = jax.ShapeDtypeStruct((2, 3), np.float32)
NAMES = {
    "tpu": Platform("tpu", "v5e", "2x2"),
    "TPU v5e": Platform("tpu", "v5e", "2x2"),
    "tpu v5e:16x16": Platform("tpu", "v5e", "16x16"),
    "gpu": Platform("cuda", "h100", "1x1"),
    " gpu h100 ": Platform("cuda", "h100", "1x1"),
    "gpu h100:4": Platform("cuda", "h100", "1x4"),
    "gpu h100:32x8": Platform("cuda", "h100", "32x8"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert platform_named(name) == NAMES[name]
    assert platform_named(str(NAMES[name])) == NAMES[name]


def test_how_many_devices_there_are():
    assert {name: platform_named(name).size for name in NAMES} == {
        "tpu": 4,
        "TPU v5e": 4,
        "tpu v5e:16x16": 256,
        "gpu": 1,
        " gpu h100 ": 1,
        "gpu h100:4": 4,
        "gpu h100:32x8": 256,
    }


@pytest.mark.parametrize(
    "name", ["", "cpu", "gpu a100", "tpu v5e:axb", "tpu v5e:2x", "gpu h100:a", "gpu h100:1x1x2"]
)
def test_names_that_are_no_platforms(name):
    with pytest.raises(AttributeValueError, match="is not a platform") as caught:
        platform_named(name)
    assert "tpu v5e:2x2" in str(caught.value)


@pytest.mark.parametrize("name", ["tpu", "gpu"])
def test_missing_packages_are_named_with_what_to_install(name, tmp_path, monkeypatch):
    monkeypatch.setenv("MINIXLA_FAR", str(tmp_path))
    platform = platform_named(name)._replace(topology="1x1" if name == "gpu" else "4x4")
    with pytest.raises(TransformError, match="the compiler for ") as caught:
        compile_for(platform, exported_for(platform, mx.jit(lambda x: x + 1), [X]))
    assert "pip install" in str(caught.value)
    assert "MINIXLA_FAR" in str(caught.value)


def test_what_no_file_can_hold_is_refused():
    def noted(x):
        mx.debug_print("{}", x)
        return x

    with pytest.raises(TransformError, match="Python"):
        exported_for(platform_named("gpu"), mx.jit(noted), [X])


def test_structures_and_keywords_are_taken_apart():
    jitted = mx.jit(lambda x, *, scale: {"y": x * scale})
    data = exported_for(platform_named("tpu"), jitted, [X], {"scale": X})
    exported = jax.export.deserialize(bytearray(data))
    assert exported.platforms == ("tpu",)
    assert exported.in_tree == jax.tree.structure(((0, 1), {}))
    assert exported.out_tree == jax.tree.structure((0,))


def test_custom_calls_without_guarantees_are_sent():
    jitted = jax.jit(lambda x: jax.ffi.ffi_call("tests.unknown", X)(x))
    data = exported_for(platform_named("tpu"), jitted, [X])
    assert "tests.unknown" in str(jax.export.deserialize(bytearray(data)).mlir_module())


def test_what_a_compiled_program_says_of_itself():
    found = analysed(jax.jit(lambda x: x @ x.T).lower(X).compile())
    assert found.numbers["flops"] == 2 * 2 * 2 * 3
    assert found.numbers["arguments"] == 24
    assert found.numbers["results"] == 16
    assert found.numbers["peak"] >= 40
    assert found.text.startswith("HloModule")
