"""Code of other libraries in programs: LAPACK's is made ready, unknown targets are reported."""

from __future__ import annotations

import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
import minixla_ops as ops
from minixla.core.attributes import Text, attribute
from minixla.core.operation import Operation
from minixla.core.shapes import Shape
from minixla.engine.foreign_code import prepare_target

X = np.ones(3, np.float32)
FRESH = """
import sys
import numpy as np
import minixla as mx

with open(sys.argv[1]) as file:
    text = file.read()
read = mx.import_hlo if text.startswith("HloModule") else mx.import_stablehlo
for result in mx.jit(read(text))(np.array([[2, 1], [1, 3]], np.float32)):
    print(*[f"{abs(each):.3f}" for each in np.asarray(result).ravel()])
"""


@pytest.mark.parametrize("form", [pytest.param("mlir", marks=pytest.mark.full), "hlo"])
def test_lapack_runs_in_a_process_in_which_jax_has_not_used_it(form, tmp_path):
    function = jax.jit(lambda a: (*jnp.linalg.eigh(a), *jnp.linalg.svd(a)))
    lowered = function.lower(np.eye(2, dtype=np.float32))
    text = lowered.as_text() if form == "mlir" else lowered.compile().as_text()
    (tmp_path / f"p.{form}").write_text(text)
    found = subprocess.run(
        [sys.executable, "-c", FRESH, str(tmp_path / f"p.{form}")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    up, down = "0.851 0.526 0.526 0.851", "0.526 0.851 0.851 0.526"
    assert found.stdout.splitlines() == ["1.382 3.618", up, down, "3.618 1.382", down]


@pytest.mark.parametrize("version", [1, 4])
@pytest.mark.parametrize("way", ["eager", "jit", "in jax.jit", "vmap"])
def test_a_target_that_xla_does_not_know_is_reported(way, version):
    def function(x):
        return ops.custom_call("tests.nowhere", [x], Shape("f32", (3,)), api_version=version)

    evaluate = {
        "eager": function,
        "jit": mx.jit(function),
        "in jax.jit": jax.jit(function),
        "vmap": lambda x: mx.vmap(function)(np.stack([x, x])),
    }[way]
    with pytest.raises(mx.TransformError) as caught:
        evaluate(X)
    message = str(caught.value)
    assert "custom_call: XLA has no code for the target 'tests.nowhere'" in message
    assert "test_foreign_code.py" in message
    assert "jax.ffi.register_ffi_target" in message
    assert "minixla_ops.register_custom_call" in message


def test_nothing_runs_before_an_unknown_target_is_reported():
    seen = []
    ops.register_custom_call("tests.seen", lambda x: seen.append(x) or ())

    @mx.jit
    def function(x):
        ops.custom_call("tests.seen", [x], [], has_side_effect=True)
        return ops.custom_call("tests.nowhere", [x], Shape("f32", (3,)))

    with pytest.raises(mx.TransformError, match="no code for the target"):
        function(X)
    assert seen == []


def test_other_errors_of_xla_stay_what_they_are():
    def function(x):
        return ops.custom_call("lapack_sgetrf_ffi", [x], Shape("f32", (3,)))

    with pytest.raises(jax.errors.JaxRuntimeError, match="Wrong number of results"):
        np.asarray(mx.jit(function)(X))


@pytest.mark.parametrize("target", ["TopK", "SliceToDynamic"])
def test_targets_that_end_the_process_are_refused(target):
    """XLA's passes take such calls apart without looking whether they made them."""
    with pytest.raises(mx.TransformError, match="reserved for calls that XLA's compiler inserts"):
        mx.jit(lambda x: ops.custom_call(target, [x], Shape("f32", (3,))))(X)


class Called(Operation):
    """Stands for an operation that is lowered to a call of compiled code."""

    name_of_state: str = attribute(Text())


def test_operations_that_were_lowered_to_compiled_code_are_not_kept_alive():
    operation = Called("a state of one's own")
    prepare_target("tests.called", None, operation)
    seen = weakref.ref(operation)
    del operation
    Called._given.clear()  # what callers gave is found again, up to a number
    assert seen() is None
