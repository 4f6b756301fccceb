"""Small whole programs as users write them, each written once and run on either framework.

They are the programs of the examples that one device and both frameworks can run, and what
tutorials are made of: nets, loops, solvers, samplers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.models import Framework, models, random_array


class Program(NamedTuple):
    """A program of a framework, and its arguments."""

    name: str
    function: Callable[..., Any]  # of the framework, and of the arguments
    arguments: tuple[Any, ...]

    def of(self, framework: Framework) -> Callable[..., Any]:
        """Return the program on a framework, as a new function that is not cached."""
        return lambda *arguments: self.function(framework, *arguments)


def _descent(
    framework: Framework, loss: Callable[..., Any], parameters: Any, steps: int, rate: float
) -> Any:
    gradient = framework.library.grad(loss)

    def step(_: Any, parameters: Any) -> Any:
        moved = jax.tree.map(lambda p, g: p - rate * g, parameters, gradient(parameters))
        return moved

    return framework.control.fori_loop(0, steps, step, parameters)


def _linear_regression(framework: Framework, x: Any, y: Any) -> Any:
    start = framework.numpy.zeros(x.shape[1])
    return _descent(framework, lambda w: ((x @ w - y) ** 2).mean(), start, 100, 0.1)


def _logistic_regression(framework: Framework, x: Any, labels: Any) -> Any:
    np_ = framework.numpy
    start = np_.zeros((x.shape[1], 10)), np_.zeros(10)

    def loss(parameters: Any) -> Any:
        weights, bias = parameters
        return framework.nn.cross_entropy(x @ weights + bias, labels).mean()

    return _descent(framework, loss, start, 50, 0.5)


def _mlp_training(framework: Framework, parameters: Any, x: Any, y: Any) -> Any:
    """Epochs of Adam, a scan over batches."""
    np_ = framework.numpy

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        for weights, bias in parameters:
            x = np_.tanh(x @ weights + bias)
        return ((x - y) ** 2).mean()

    def step(state: Any, batch: Any) -> Any:
        parameters, mean, square = state
        value, gradient = framework.value_and_grad(loss)(parameters, *batch)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
        parameters = jax.tree.map(
            lambda p, m, s: p - 1e-3 * m / (np_.sqrt(s) + 1e-8), parameters, mean, square
        )
        return (parameters, mean, square), value

    zeros = jax.tree.map(np_.zeros_like, parameters)
    return framework.control.scan(step, (parameters, zeros, zeros), (x, y))


def _lstm_step(framework: Framework, weights: Any, inputs: Any) -> Any:
    np_ = framework.numpy

    def sigmoid(x: Any) -> Any:
        return 0.5 * (np_.tanh(0.5 * x) + 1)

    def loss(weights: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            hidden, cell = carry
            i, f, g, o = np_.split(np_.concatenate([x, hidden], -1) @ weights, 4, -1)
            cell = sigmoid(f) * cell + sigmoid(i) * np_.tanh(g)
            hidden = sigmoid(o) * np_.tanh(cell)
            return (hidden, cell), (hidden**2).mean()

        start = np_.zeros(inputs.shape[1:])
        return framework.control.scan(step, (start, start), inputs)[1].sum()

    return framework.value_and_grad(loss)(weights)


def _autoencoder(framework: Framework, parameters: Any, x: Any, key: Any) -> Any:
    """A step of a variational autoencoder."""
    np_ = framework.numpy

    def loss(p: Any) -> Any:
        hidden = framework.nn.relu(x @ p["encode"])
        mean, deviation = hidden @ p["mean"], hidden @ p["deviation"]
        noise = framework.library.random.normal(key, mean.shape)
        latent = mean + np_.exp(deviation) * noise
        decoded = framework.nn.relu(latent @ p["decode"]) @ p["out"]
        divergence = 0.5 * (np_.exp(2 * deviation) + mean**2 - 1 - 2 * deviation)
        return ((decoded - x) ** 2).sum(-1).mean() + divergence.sum(-1).mean()

    return framework.value_and_grad(loss)(parameters)


def _meta_learning(framework: Framework, weights: Any, x: Any, y: Any) -> Any:
    """The gradient through three steps of learning, for each of several tasks."""
    library = framework.library

    def loss(weights: Any, x: Any, y: Any) -> Any:
        hidden = framework.numpy.tanh(x[:, None] * weights["in"] + weights["bias"])
        return ((hidden @ weights["out"] - y) ** 2).mean()

    def after(weights: Any, x: Any, y: Any) -> Any:
        for _ in range(3):
            gradient = library.grad(loss)(weights, x, y)
            weights = jax.tree.map(lambda p, g: p - 0.1 * g, weights, gradient)
        return loss(weights, x, y)

    tasks = library.vmap(after, (None, 0, 0))
    return framework.value_and_grad(lambda weights: tasks(weights, x, y).mean())(weights)


def _neural_ode(framework: Framework, weights: Any, y: Any) -> Any:
    """The gradient of a solution by fixed steps of Runge and Kutta."""

    def velocity(weights: Any, y: Any) -> Any:
        return framework.numpy.tanh(y**3 @ weights["in"]) @ weights["out"]

    def loss(weights: Any) -> Any:
        def step(y: Any, _: Any) -> Any:
            k1 = velocity(weights, y)
            k2 = velocity(weights, y + 0.05 * k1)
            k3 = velocity(weights, y + 0.05 * k2)
            k4 = velocity(weights, y + 0.1 * k3)
            y = y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return y, y

        return (framework.control.scan(step, y, None, length=30)[1] ** 2).mean()

    return framework.value_and_grad(loss)(weights)


def _gaussian_process(framework: Framework, scales: Any, x: Any, y: Any) -> Any:
    """The likelihood of observations, and its gradient."""
    np_, solve = framework.numpy, framework.library.scipy.linalg.solve_triangular

    def likelihood(scales: Any) -> Any:
        length, height, noise = np_.exp(scales)
        distances = ((x[:, None] - x[None, :]) / length) ** 2
        covariance = height * np_.exp(-0.5 * distances) + noise * np_.eye(len(x))
        factor = np_.linalg.cholesky(covariance)
        whitened = solve(factor, y, lower=True)
        return 0.5 * (whitened**2).sum() + np_.log(np_.diagonal(factor)).sum()

    return framework.value_and_grad(likelihood)(scales)


def _hamiltonian_samples(framework: Framework, x: Any, key: Any) -> Any:
    """Chains of Hamiltonian Monte Carlo."""
    np_, random, control = framework.numpy, framework.library.random, framework.control

    def energy(x: Any) -> Any:
        return 0.5 * (x**2).sum() + (x[0] ** 2 - x[1]) ** 2

    slope = framework.library.grad(energy)

    def chain(x: Any, key: Any) -> Any:
        def sample(x: Any, key: Any) -> Any:
            first, second = random.split(key)
            momentum = random.normal(first, x.shape)

            def leap(_: Any, state: Any) -> Any:
                x, momentum = state
                momentum = momentum - 0.05 * slope(x)
                x = x + 0.1 * momentum
                return x, momentum - 0.05 * slope(x)

            after, final = control.fori_loop(0, 8, leap, (x, momentum))
            change = energy(x) - energy(after) + 0.5 * ((momentum**2).sum() - (final**2).sum())
            is_taken = np_.log(random.uniform(second)) < change
            x = np_.where(is_taken, after, x)
            return x, x

        return control.scan(sample, x, random.split(key, 50))[1]

    return framework.library.vmap(chain)(x, random.split(key, len(x)))


def _metropolis(framework: Framework, key: Any) -> Any:
    np_, random = framework.numpy, framework.library.random

    def step(x: Any, key: Any) -> Any:
        first, second = random.split(key)
        moved = x + random.normal(first, x.shape)
        is_taken = np_.log(random.uniform(second, x.shape)) < 0.5 * (x**2 - moved**2)
        x = np_.where(is_taken, moved, x)
        return x, x.mean()

    start = np_.zeros(64)
    return framework.control.scan(step, start, random.split(key, 200))


def _monte_carlo(framework: Framework, key: Any) -> Any:
    points = framework.library.random.uniform(key, (100_000, 2))
    return 4 * ((points**2).sum(1) < 1).mean()


def _kmeans(framework: Framework, points: Any, centres: Any) -> Any:
    np_ = framework.numpy

    def step(_: Any, centres: Any) -> Any:
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(-1)
        member = np_.argmin(distances, 1)[:, None] == np_.arange(len(centres))
        weights = member.astype(points.dtype)
        return weights.T @ points / np_.maximum(weights.sum(0), 1)[:, None]

    return framework.control.fori_loop(0, 10, step, centres)


def _denoising(framework: Framework, signal: Any) -> Any:
    np_ = framework.numpy
    spectrum = np_.fft.rfft(signal)
    size = np_.abs(spectrum)
    return np_.fft.irfft(np_.where(size > 0.2 * size.max(), spectrum, 0), len(signal))


def _newton(framework: Framework, targets: Any) -> Any:
    """Roots of x**3 + x = a, as many steps as each needs."""

    def polynomial(x: Any, target: Any) -> Any:
        return x**3 + x - target

    def root(target: Any) -> Any:
        def goes_on(state: Any) -> Any:
            x, count = state
            return (framework.numpy.abs(polynomial(x, target)) > 1e-4) & (count < 30)

        def step(state: Any) -> Any:
            x, count = state
            slope = framework.library.grad(polynomial)(x, target)
            return x - polynomial(x, target) / slope, count + 1

        return framework.control.while_loop(goes_on, step, (target, 0))[0]

    return framework.library.vmap(root)(targets)


def _conjugate_gradients(framework: Framework, matrix: Any, target: Any) -> Any:
    def goes_on(state: Any) -> Any:
        return (state[3] > 1e-8) & (state[4] < 50)

    def step(state: Any) -> Any:
        x, residual, way, square, count = state
        image = matrix @ way
        length = square / (way @ image)
        x, residual = x + length * way, residual - length * image
        after = residual @ residual
        return x, residual, residual + after / square * way, after, count + 1

    start = framework.numpy.zeros_like(target)
    state = start, target, target, target @ target, 0
    return framework.control.while_loop(goes_on, step, state)[0]


def _heat(framework: Framework, field: Any) -> Any:
    np_ = framework.numpy

    def step(_: Any, field: Any) -> Any:
        wide = np_.pad(field, 1)
        around = wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2]
        return field + 0.2 * (around - 4 * field)

    return framework.control.fori_loop(0, 100, step, field)


def _lorenz(framework: Framework, starts: Any) -> Any:
    np_ = framework.numpy

    def velocity(p: Any) -> Any:
        x, y, z = p[..., 0], p[..., 1], p[..., 2]
        return np_.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)

    def step(p: Any, _: Any) -> Any:
        middle = p + 0.005 * velocity(p)
        p = p + 0.01 * velocity(middle)
        return p, p

    return framework.control.scan(step, starts, None, length=200)[1]


def _bodies(framework: Framework, positions: Any) -> Any:
    """Bodies that attract each other: forces are the gradient of the energy."""
    np_ = framework.numpy

    def energy(positions: Any) -> Any:
        apart = positions[:, None] - positions[None, :]
        return -(1 / np_.sqrt((apart**2).sum(-1) + 0.01)).sum() / 2

    force = framework.library.grad(energy)

    def step(_: Any, state: Any) -> Any:
        positions, speeds = state
        speeds = speeds - 1e-4 * force(positions)
        return positions + 1e-2 * speeds, speeds

    state = positions, np_.zeros_like(positions)
    return framework.control.fori_loop(0, 50, step, state)


def _life(framework: Framework, cells: Any) -> Any:
    np_ = framework.numpy

    def step(_: Any, cells: Any) -> Any:
        rows = cells + np_.roll(cells, 1, 0) + np_.roll(cells, -1, 0)
        around = rows + np_.roll(rows, 1, 1) + np_.roll(rows, -1, 1) - cells
        return ((around == 3) | ((cells == 1) & (around == 2))).astype(cells.dtype)

    return framework.control.fori_loop(0, 50, step, cells)


def _mandelbrot(framework: Framework, points: Any) -> Any:
    np_ = framework.numpy

    def step(_: Any, state: Any) -> Any:
        z, count = state
        is_near = np_.abs(z) < 2
        z = np_.where(is_near, z * z + points, z)
        return z, count + is_near

    start = np_.zeros_like(points), np_.zeros(points.shape, np.int32)
    return framework.control.fori_loop(0, 50, step, start)[1]


def _kalman(framework: Framework, observations: Any) -> Any:
    np_ = framework.numpy
    moves = np_.array([[1.0, 0.1], [0.0, 1.0]])
    seen = np_.array([[1.0, 0.0]])

    def step(state: Any, observed: Any) -> Any:
        mean, covariance = state
        mean, covariance = moves @ mean, moves @ covariance @ moves.T + 0.01 * np_.eye(2)
        gain = covariance @ seen.T / (seen @ covariance @ seen.T + 0.1)
        mean = mean + gain[:, 0] * (observed - (seen @ mean)[0])
        return (mean, (np_.eye(2) - gain @ seen) @ covariance), mean

    return framework.control.scan(step, (np_.zeros(2), np_.eye(2)), observations)


def _hidden_markov(framework: Framework, transitions: Any, likelihoods: Any) -> Any:
    """The gradient of the likelihood by the forward algorithm."""
    np_ = framework.numpy

    def total(x: Any, axis: int) -> Any:
        most = x.max(axis, keepdims=True)
        return np_.log(np_.exp(x - most).sum(axis)) + most.squeeze(axis)

    def likelihood(transitions: Any) -> Any:
        def step(state: Any, seen: Any) -> Any:
            return total(state[:, None] + transitions, 0) + seen, None

        start = np_.zeros(len(transitions))
        return total(framework.control.scan(step, start, likelihoods)[0], 0)

    return framework.value_and_grad(likelihood)(transitions)


def _power_iteration(framework: Framework, matrix: Any) -> Any:
    def step(_: Any, vector: Any) -> Any:
        vector = matrix @ vector
        return vector / framework.numpy.sqrt((vector**2).sum())

    return framework.control.fori_loop(0, 50, step, framework.numpy.ones(len(matrix)))


def _valley(x: Any) -> Any:
    """Rosenbrock's function."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def _rosenbrock(framework: Framework, x: Any) -> Any:
    return framework.library.hessian(_valley)(x)


def _newton_with_hessian(framework: Framework, x: Any) -> Any:
    """Minimize Rosenbrock's function."""
    slope, curvature = framework.library.grad(_valley), framework.library.hessian(_valley)

    def step(_: Any, x: Any) -> Any:
        return x - framework.numpy.linalg.solve(curvature(x), slope(x))

    return framework.control.fori_loop(0, 20, step, x)


def _sinkhorn(framework: Framework, costs: Any) -> Any:
    """Optimal transport: alternating factors of rows and columns, and the gradient of the cost."""
    np_ = framework.numpy

    def price(costs: Any) -> Any:
        kernel, size = np_.exp(-costs), len(costs)

        def step(state: Any, _: Any) -> Any:
            right = 1 / size / (kernel.T @ state[0])
            return (1 / size / (kernel @ right), right), None

        start = np_.ones(size), np_.ones(size)
        (left, right), _ = framework.control.scan(step, start, None, length=30)
        return (left[:, None] * kernel * right * costs).sum()

    return framework.value_and_grad(price)(costs)


def _bootstrap(framework: Framework, values: Any, key: Any) -> Any:
    random = framework.library.random

    def mean(key: Any) -> Any:
        return values[random.randint(key, values.shape, 0, len(values))].mean()

    means = framework.library.vmap(mean)(random.split(key, 200))
    return framework.numpy.sort(means)[framework.numpy.array([5, 194])]


def _polynomial(framework: Framework, x: Any, y: Any) -> Any:
    np_ = framework.numpy
    powers = x[:, None] ** np_.arange(6)
    return np_.linalg.solve(powers.T @ powers, powers.T @ y)


def _training(name: str, index: int) -> Program:
    """One step of gradient descent of a model of the benchmarks, made small."""
    model = models(small=True)[index]

    def step(framework: Framework, parameters: Any, *batch: Any) -> Any:
        value, gradient = framework.value_and_grad(model.loss(framework))(parameters, *batch)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)

    return Program(name, step, (model.parameters, *model.batch))


def programs() -> list[Program]:
    """Return all programs."""
    key = jax.random.key(0)
    labels = (np.arange(256) % 10).astype(np.int32)
    line = np.linspace(-1, 1, 64, dtype=np.float32)
    layers = [(random_array(32, 32), np.zeros(32, np.float32)) for _ in range(3)]
    tasks = np.tile(line[:10], (8, 1))
    spring = {"in": random_array(2, 16), "out": random_array(16, 2)}
    curve = {"in": random_array(1, 32)[0], "bias": random_array(32), "out": random_array(32)}
    coder = {"encode": random_array(64, 128), "mean": random_array(128, 8)}
    coder |= {"deviation": random_array(128, 8) / 10, "decode": random_array(8, 128)}
    coder |= {"out": random_array(128, 64)}
    matrix = random_array(64, 64)
    positive = matrix @ matrix.T + np.eye(64, dtype=np.float32)
    plane = line[None] * 1.5 + 1j * line[:, None] * 1.5
    cells = (random_array(64, 64) > 0).astype(np.int32)
    return [
        _training("step of an MLP", 0),
        _training("step of a CNN", 1),
        _training("step of a transformer", 2),
        Program("linear regression", _linear_regression, (random_array(256, 8), line.repeat(4))),
        Program("logistic regression", _logistic_regression, (random_array(256, 64), labels)),
        Program("epoch of Adam", _mlp_training, (layers, *[random_array(20, 16, 32)] * 2)),
        Program("step of an LSTM", _lstm_step, (random_array(64, 128), random_array(30, 16, 32))),
        Program("step of an autoencoder", _autoencoder, (coder, random_array(32, 64), key)),
        Program("meta-learning", _meta_learning, (curve, tasks, np.sin(3 * tasks))),
        Program("neural ODE", _neural_ode, (spring, random_array(16, 2))),
        Program(
            "Gaussian process",
            _gaussian_process,
            (np.array([-1.0, 0.0, -2.0], np.float32), line, np.sin(3 * line)),
        ),
        Program("Hamiltonian Monte Carlo", _hamiltonian_samples, (random_array(8, 2), key)),
        Program("Metropolis", _metropolis, (key,)),
        Program("pi by Monte Carlo", _monte_carlo, (key,)),
        Program("k-means", _kmeans, (random_array(1000, 2), random_array(8, 2))),
        Program("denoising by FFT", _denoising, (np.sin(np.arange(4096, dtype=np.float32)),)),
        Program("Newton's method", _newton, (line * 10,)),
        Program("Newton with Hessian", _newton_with_hessian, (line,)),
        Program("conjugate gradients", _conjugate_gradients, (positive, line)),
        Program("heat equation", _heat, (random_array(128, 128),)),
        Program("Lorenz attractor", _lorenz, (random_array(64, 3),)),
        Program("bodies that attract", _bodies, (random_array(64, 3),)),
        Program("game of life", _life, (cells,)),
        Program("Mandelbrot set", _mandelbrot, (plane.astype(np.complex64),)),
        Program("Kalman filter", _kalman, (line.repeat(4),)),
        Program(
            "hidden Markov model", _hidden_markov, (random_array(16, 16), random_array(50, 16))
        ),
        Program("power iteration", _power_iteration, (positive,)),
        Program("Hessian of Rosenbrock's function", _rosenbrock, (line,)),
        Program("optimal transport", _sinkhorn, (np.abs(random_array(64, 64)) * 10,)),
        Program("bootstrap", _bootstrap, (random_array(200), key)),
        Program("fit of a polynomial", _polynomial, (line, np.exp(line))),
    ]
