"""Learn how strongly to regularize each weight of a regression, through the solver's loop.

The inner problem is ridge regression with a strength for each feature. Gradient descent solves it
in an `mx.while_loop` that ends when the gradient is small. The number of iterations is known only
at run time, and changes with the strengths. The outer problem is to choose the strengths so that
the error on other data is small. Its gradient is `mx.grad` through that loop, which JAX does not
support. It is compared with finite differences and with the implicit function theorem.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import drawing
import jax
import numpy as np
from tqdm import tqdm

import minixla as mx

#: Where the inner loop ends: the norm of the gradient, and a bound on the iterations.
SMALL = 1e-11
MOST = 100_000
RATE = 0.3


class Data(NamedTuple):
    """Inputs f64[count,features] and outputs f64[count]."""

    x: np.ndarray
    y: np.ndarray


def problem(features: int, seed: int) -> tuple[Data, Data, Data]:
    """Data to solve with, to choose strengths by, and to test with; one feature in four matters."""
    random = np.random.default_rng(seed)
    weights = np.where(np.arange(features) % 4 == 0, random.choice([-1, 1], features), 0.0)

    def drawn(count: int) -> Data:
        x = random.standard_normal((count, features))
        return Data(x, x @ weights + random.standard_normal(count))

    return drawn(2 * features), drawn(4 * features), drawn(2000)


def solve(log_strengths: Any, data: Data) -> tuple[Any, Any]:
    """The weights f64[features] of ridge regression, and the number of iterations."""
    count, features = data.x.shape
    strengths = mx.numpy.exp(log_strengths)
    curvature = data.x.T @ data.x / count
    steepest = np.linalg.eigvalsh(curvature)[-1] + strengths.max()

    def gradient(w: Any) -> Any:
        return data.x.T @ (data.x @ w - data.y) / count + strengths * w

    def is_far(state: tuple[Any, Any, Any]) -> Any:
        _, slope, iteration = state
        return ((slope * slope).sum() > SMALL**2) & (iteration < MOST)

    def descend(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        w, slope, iteration = state
        w = w - slope / steepest
        return w, gradient(w), iteration + 1

    start = np.zeros(features)
    w, _, iterations = mx.while_loop(is_far, descend, (start, gradient(start), 0))
    return w, iterations


def error(w: Any, data: Data) -> Any:
    """Return half the mean squared error."""
    return ((data.x @ w - data.y) ** 2).mean() / 2


def implicit_gradient(log_strengths: np.ndarray, data: Data, other: Data) -> np.ndarray:
    """Compute the gradient of the error on `other` by the implicit function theorem, in NumPy.

    For H w = x^T y / n with H = x^T x / n + diag(s), dw / ds_j = -w_j H^-1 e_j.
    """
    strengths = np.exp(log_strengths)
    count = len(data.y)
    hessian = data.x.T @ data.x / count + np.diag(strengths)
    w = np.linalg.solve(hessian, data.x.T @ data.y / count)
    slope = other.x.T @ (other.x @ w - other.y) / len(other.y)
    return -strengths * w * np.linalg.solve(hessian, slope)


def differences(fun: Callable[[Any], Any], at: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """Compute the gradient by central differences."""
    rows = np.eye(len(at)) * step
    return np.array([float(fun(at + row) - fun(at - row)) / (2 * step) for row in rows])


def main(argv: Sequence[str] | None = None) -> float:
    """Choose strengths, compare gradients, and return their largest relative error."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=60, help="of the outer problem")
    arguments.add_argument("--features", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    data, other, test = problem(options.features, options.seed)

    def outer(log_strengths: Any) -> tuple[Any, Any]:
        w, iterations = solve(log_strengths, data)
        return error(w, other), iterations

    value = mx.jit(outer)
    step = mx.jit(mx.value_and_grad(outer, has_aux=True))
    start = np.full(options.features, np.log(0.1))
    largest = compare(lambda s: value(s)[0], step, start, data, other)
    strengths = choose(step, start, options.steps)
    ends = {"none": np.full(options.features, -30.0), "all 0.1": start, "learned": strengths}
    print("\nstrengths    inner iterations    error on other data    error on test data")
    solved = mx.jit(lambda s: solve(s, data))
    for name, each in ends.items():
        w, iterations = solved(each)
        print(f"{name:<9}{int(iterations):>20}{error(w, other):>23.4f}{error(w, test):>22.4f}")
    matter = np.arange(options.features) % 4 == 0
    print("\nlearned strengths, geometric mean")
    print(f"of features that matter     {np.exp(strengths[matter].mean()):.4f}")
    print(f"of features that do not     {np.exp(strengths[~matter].mean()):.4f}")
    lines = {"features that matter": (np.flatnonzero(matter), np.exp(strengths[matter]))}
    lines |= {"other features": (np.flatnonzero(~matter), np.exp(strengths[~matter]))}
    drawing.curves("meta", lines, "feature", "learned strength", style="o")
    return largest


def compare(fun: Callable[[Any], Any], step: Any, at: np.ndarray, data: Data, other: Data) -> float:
    """Print three gradients; return the largest relative error of minixla's."""
    (_, iterations), found = step(at)
    found, exact = np.asarray(found), implicit_gradient(at, data, other)
    numeric = differences(fun, at)
    print(f"gradient through {int(iterations)} iterations of the inner loop")
    print("feature    mx.grad of the loop    implicit function    finite differences")
    for index in range(min(len(at), 8)):
        row = found[index], exact[index], numeric[index]
        print(f"{index:>7}{row[0]:>23.10f}{row[1]:>21.10f}{row[2]:>22.10f}")
    scale = np.abs(exact).max()
    largest = float(np.abs(found - exact).max() / scale)
    print(f"largest difference from the implicit gradient    {largest:.1e}, relative")
    print(f"... from finite differences    {np.abs(found - numeric).max() / scale:.1e}, relative")
    return largest


def choose(step: Any, start: np.ndarray, steps: int) -> np.ndarray:
    """Return log strengths after gradient descent with rates like Adam's."""
    at, mean, square = start, 0.0, 0.0
    print(f"\n{'step':>5}{'error on other data':>23}{'inner iterations':>20}", flush=True)
    with tqdm(total=steps, unit="step", mininterval=1) as bar:
        for number in range(1, steps + 1):
            (value, iterations), gradient = step(at)
            if number == 1 or number % max(steps // 6, 1) == 0:
                tqdm.write(f"{number:>5}{float(value):>23.4f}{int(iterations):>20}")
            mean = 0.9 * mean + 0.1 * np.asarray(gradient)
            square = 0.99 * square + 0.01 * np.asarray(gradient) ** 2
            scale = np.sqrt(square / (1 - 0.99**number)) + 1e-8
            at = at - RATE * mean / (1 - 0.9**number) / scale
            bar.update()
    return at


if __name__ == "__main__":
    main()
