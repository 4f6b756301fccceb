"""mx.export: what it writes is read by jax.export where there is no minixla, and by ourselves."""

import dataclasses
import functools
import subprocess
import sys
import textwrap

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from minixla.interop import reading

READER = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("minixla", "minixla_ops"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
try:
    import minixla
except ImportError:
    pass
else:
    raise AssertionError("minixla can be imported")

import jax
import jax.export
import numpy as np

with open(sys.argv[1], "rb") as file:
    exported = jax.export.deserialize(bytearray(file.read()))
with np.load(sys.argv[2]) as given:
    w, x = given["w"], given["x"]
value, (first, second) = exported.call({"w": w}, x)
(gradient, _) = jax.grad(lambda p, x: exported.call(p, x)[0], argnums=(0, 1))({"w": w}, x)
np.savez(sys.argv[3], value=value, first=first, second=second, gradient=gradient["w"])
assert not any(name.partition(".")[0] == "minixla" for name in sys.modules)
"""


def program(parameters, x):
    """A loop, a branch, a product, a convolution's worth of operations: nothing of JAX."""
    y = mx.numpy.tanh(x @ parameters["w"])
    z = mx.fori_loop(0, 3, lambda i, c: mx.numpy.sin(c) + i, y)
    z = mx.cond(mx.numpy.sum(z) > 1e6, lambda z: -z, lambda z: z * z, z)
    return mx.numpy.sum(z), (mx.numpy.cumsum(z, 1), mx.numpy.argmax(z, 1))


RANDOM = np.random.default_rng(0)
W = {"w": RANDOM.normal(size=(3, 4)).astype(np.float32)}
X = RANDOM.normal(size=(5, 3)).astype(np.float32)


BATCH = np.stack([X, 2 * X])


def transformed(function):
    """Values, the derivative with respect to the parameters, and values of a batch."""

    def everything(w, x, batch):
        gradient = mx.grad(lambda p: function(p, x)[0])(w)
        return function(w, x), gradient, mx.vmap(function, (None, 0))(w, batch)

    return mx.jit(everything)(W, X, BATCH)


@functools.cache
def expected():
    return transformed(program)


def check(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.fixture(scope="module")
def data():
    return mx.export(program, W, X, vjp_order=1)


def test_a_process_without_minixla_reads_it(data, tmp_path):
    (tmp_path / "program.bin").write_bytes(data)
    np.savez(tmp_path / "given.npz", w=W["w"], x=X)
    names = [str(tmp_path / name) for name in ("program.bin", "given.npz", "found.npz")]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READER), *names],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with np.load(names[2]) as found:
        values, gradient, _ = expected()
        check([found[name] for name in ("value", "first", "second")], values)
        np.testing.assert_allclose(found["gradient"], gradient["w"], rtol=1e-5, atol=1e-6)


def test_we_read_it(data, tmp_path):
    again = mx.import_stablehlo(data)
    path = tmp_path / "program.bin"
    path.write_bytes(data)
    assert mx.import_stablehlo(path).graph == again.graph
    for run in (again, mx.reference(again)):
        check(run(W, X), expected()[0])
    check(transformed(again), expected())


def test_shapes_are_enough_and_jitted_functions_are_taken():
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (W, X))
    data = mx.export(mx.jit(program), *shapes, platforms=("cpu", "cuda", "tpu"))
    exported = jax.export.deserialize(bytearray(data))
    assert exported.platforms == ("cpu", "cuda", "tpu")
    check(exported.call(W, X), expected()[0])
    again = mx.import_stablehlo(data)
    assert len(again.graph.inputs) == 2  # the number of the platform is none
    check(mx.jit(again)(W, X), expected()[0])


def test_what_jax_says_of_a_program_must_fit_it(data):
    exported = jax.export.deserialize(bytearray(data))
    for changes in ({"module_kept_var_idx": (0,)}, {"module_kept_var_idx": (0, 7)},
                    {"out_tree": jax.tree.structure((0, 0))}):  # fmt: skip
        with pytest.raises(mx.ImportError_, match=r"does not match jax\.export's"):
            mx.import_stablehlo(dataclasses.replace(exported, **changes))


def test_arguments_by_name_and_functions_of_jax():
    def mixed(x, *, scale):
        return jnp.sinh(x) * scale

    exported = jax.export.deserialize(bytearray(mx.export(mixed, X, scale=np.float32(2))))
    check(exported.call(X, scale=np.float32(2)), 2 * np.sinh(X))


def test_what_belongs_to_this_process_is_refused():
    def printing(x):
        mx.debug_print("{}", x)
        return x

    with pytest.raises(mx.TransformError, match="export: printing cannot be written") as caught:
        mx.export(printing, X)
    assert "infeed and outfeed" in str(caught.value)
    with pytest.raises(mx.TransformError, match="export"):
        mx.export(3, X)


def test_without_flatbuffers(data, monkeypatch):
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    message = r"need the package flatbuffers.*\n.*\n.*pip install 'minixla\[export\]'"
    with pytest.raises(mx.TransformError, match=message):
        mx.export(lambda x: x, np.float32(1))
    with pytest.raises(mx.ImportError_, match=message):
        mx.import_stablehlo(data)
