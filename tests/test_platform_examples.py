"""The programs of the examples compile for TPU v5e and H100."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.core import Tracer

import minixla as mx
from tests.oracles.far import PLATFORMS, compile_on, require

pytestmark = pytest.mark.far

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch, tmp_path):
    """The examples can be imported, and numbers are of 32 bits."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setenv("MINIXLA_PICTURES", str(tmp_path))
    with jax.enable_x64(False):
        yield


class Recorder:
    """`mx.jit`, whose functions give zeros, and compute nothing: what they are given is kept."""

    def __init__(self) -> None:
        self.programs: list[tuple[Any, Any]] = []
        self._jit = mx.jit
        self._zeros: dict[Any, Any] = {}

    def __call__(self, function: Any = None, **options: Any) -> Any:
        if function is None:
            return lambda function: self(function, **options)
        jitted = self._jit(function, **options)

        def recorded(*args: Any) -> Any:
            leaves, tree = jax.tree.flatten(args)
            if any(isinstance(each, mx.core.Value | Tracer) for each in leaves):
                return jitted(*args)
            shapes = [jax.ShapeDtypeStruct(np.shape(x), jax.numpy.result_type(x)) for x in leaves]
            key = jitted, tree, *[(each.shape, each.dtype) for each in shapes]
            if key not in self._zeros:
                given = jax.tree.unflatten(tree, shapes)
                self.programs.append((jitted, given))
                self._zeros[key] = jax.tree.map(
                    lambda each: jax.numpy.zeros(each.shape, each.dtype),
                    mx.eval_shape(jitted, *given),
                )
            return self._zeros[key]

        return recorded


#: Arguments of examples that compile by `mx.jit` alone; None where there is no `main`.
RECORDED: dict[str, str | None] = {
    "digits": None,
    "mlp": None,
    "plain_numpy": None,
    "kmeans": "--points 60",
    "fft_denoising": "--steps 1",
    "gaussian_process": "--steps 1 --points 10",
    "hamiltonian_monte_carlo": "--warm-up 1 --draws 1",
    "neural_ode": "--steps 1 --points 6",
    "variational_autoencoder": "--steps 1 --batch 8",
    "transformer": "--steps 8 --batch 4",
}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_program_that_an_example_compiles(platform, name, monkeypatch):
    require(platform)
    recorder, arguments = Recorder(), RECORDED[name]
    with monkeypatch.context() as patched:
        patched.setattr(mx, "jit", recorder)
        example = importlib.import_module(name)
        del sys.modules[name]
        if arguments is not None:
            example.main(arguments.split())
    assert recorder.programs
    for jitted, shapes in recorder.programs:
        assert compile_on(platform, jitted, *shapes).text.startswith("HloModule")


def digits(module: Any) -> tuple[Any, tuple[Any, ...]]:
    images, labels = np.zeros((8, 8, 8, 1), np.float32), np.zeros(8, np.int32)
    return module.train_step, (*module.initial_state(0), images, labels, np.float32(0.1))


def characters(module: Any) -> tuple[Any, tuple[Any, ...]]:
    parameters = module.initial_parameters(0, 64, 2, 64, 32)
    adam = (np.float32(0), parameters, parameters)
    window, rate = np.zeros((8, 33), np.int32), np.float32(0.1)

    def step(parameters: Any, adam: Any, window: Any, rate: Any) -> Any:
        return module.train_step(parameters, adam, window, rate, True)

    return mx.jit(step), (parameters, adam, window, rate)


def strengths(module: Any) -> tuple[Any, tuple[Any, ...]]:
    data, other, _ = module.problem(4, 0)
    gradient = mx.grad(lambda s: module.error(module.solve(s, data)[0], other))
    return mx.jit(gradient), (np.zeros(4, np.float32),)


def orbit(module: Any) -> tuple[Any, tuple[Any, ...]]:
    gradient = mx.grad(lambda mean, e: module.anomaly(mean, e).sum(), argnums=(0, 1))
    return mx.jit(gradient), (np.ones(3, np.float32), np.float32(0.3))


def equinox(module: Any) -> tuple[Any, tuple[Any, ...]]:
    import equinox
    import optax

    network, optimizer = module.Network(jax.random.key(0)), optax.adamw(1e-2)
    parameters, structure = equinox.partition(network, equinox.is_array)

    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        scores = jax.vmap(equinox.combine(parameters, structure))(images)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    step = module.training(mx, loss, optimizer)
    images, labels = np.zeros((8, 1, 8, 8), np.float32), np.zeros(8, np.int32)
    return step, (parameters, optimizer.init(parameters), images, labels)


def flax(module: Any) -> tuple[Any, tuple[Any, ...]]:
    import optax

    network, optimizer = module.Network(), optax.adamw(1e-2)
    images, labels = np.zeros((8, 8, 8, 1), np.float32), np.zeros(8, np.int32)
    variables = jax.jit(network.init, static_argnums=2)(jax.random.key(0), images, True)
    step = module.training(mx, module.loss_of(network), optimizer)
    return step, (variables, optimizer.init(variables["params"]), images, labels)


#: Of the others a program, and its arguments.
EXAMPLES = {
    "train_digits": digits,
    "char_transformer": characters,
    "meta": strengths,
    "optax_orbit": orbit,
    "optax_equinox": equinox,
    "flax_digits": flax,
}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_examples(platform, name):
    require(platform)
    jitted, arguments = EXAMPLES[name](importlib.import_module(name))
    assert compile_on(platform, jitted, *arguments).text.startswith("HloModule")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_operations_of_ones_own(platform):
    """The softmax has a kernel for TPUs, and none for GPUs."""
    require(platform)
    module = importlib.import_module("custom_operations")
    images, rows = np.zeros((2, 8, 8), np.float32), np.zeros((3, 4), np.float32)

    def pooled(x: Any) -> Any:
        return mx.value_and_grad(lambda x: module.median_pool(x, size=5).sum())(x)

    assert compile_on(platform, mx.jit(pooled), images).text.startswith("HloModule")
    softmax = mx.jit(lambda x: module.softmax(x))
    if platform == "tpu":
        assert "tpu_custom_call" in compile_on(platform, softmax, rows).text
    else:
        with pytest.raises(
            mx.TransformError, match="no kernel is registered for the platform cuda"
        ):
            compile_on(platform, softmax, rows)


FOUR = ("tpu v5e:2x2", "gpu h100:4")


@pytest.mark.parametrize("platform", FOUR)
def test_training_cut_along_batch_and_layers(platform):
    """`multi_process` runs the same step."""
    require(platform)
    module = importlib.import_module("sharded_mlp")
    step = module.sharded_step(mx.sharding.Mesh(None, ("data", "model"), shape=(2, 2)))
    parameters = module.initial_parameters(0)
    images, labels = np.zeros((128, 64), np.float32), np.zeros(128, np.int32)
    assert "all-reduce" in compile_on(platform, step, parameters, parameters, images, labels).text


@pytest.mark.parametrize("platform", FOUR)
def test_training_with_a_part_of_the_batch_on_each_device(platform):
    require(platform)
    module = importlib.import_module("data_parallel")
    parameters, adam, moments = importlib.import_module("train_digits").initial_state(0)
    axes = {"in_axes": (None, None, None, 0, 0, None), "out_axes": None, "axis_name": "parts"}
    step = module.in_parts(mx.pmap(module.part_step, **axes), 4)
    images, labels = np.zeros((8, 8, 8, 1), np.float32), np.zeros(8, np.int32)
    given = (parameters, adam, moments, images, labels, np.float32(0.1))
    opcodes = {row.opcode for row in mx.cost(step, *given, platform=platform).device_rows}
    assert opcodes & {"all-reduce", "all-reduce-start"}


@pytest.mark.parametrize("chips", [4, pytest.param(256, marks=pytest.mark.full)])
def test_a_training_step_for_a_pod(chips, capsys, monkeypatch):
    require("tpu")
    module = importlib.import_module("far_pod")
    if chips == 4:
        for name, size in {"LAYERS": 2, "WIDTH": 512, "BATCH": 1024}.items():
            monkeypatch.setattr(module, name, size)
    figures = module.main(["--chips", str(chips)])
    side = chips**0.5
    weights = 2 * module.LAYERS * module.WIDTH**2 / side
    assert figures["arguments"] == 4 * (weights + module.BATCH * module.WIDTH / side)
    printed = capsys.readouterr().out
    assert "all-reduce" in printed
    assert "time of a step: " in printed
    assert module.estimated_seconds(figures, 0) >= figures["seconds_by_cycles"] > 0


def test_every_example_has_a_row():
    helpers = {"comparison", "drawing", "losses"}
    others = {"custom_operations", "sharded_mlp", "multi_process", "data_parallel", "far_pod"}
    others |= {"diffrax_fit"}  # in double precision
    found = {each.stem for each in (ROOT / "examples").glob("*.py")}
    assert found == {*RECORDED, *EXAMPLES, *helpers, *others}
