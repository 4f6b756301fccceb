"""What every function does with its arguments: errors are those that NumPy's programs expect."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp

A = np.ones((2, 3), np.float32)
B = np.ones((4, 5), np.float32)
V = np.ones(3, np.float32)

# Calls for which NumPy raises ValueError; `m` is NumPy or ours.
CALLS: dict[str, Callable[[Any], Any]] = {
    "broadcast_shapes": lambda m: m.broadcast_shapes((2, 3), (4,)),
    "broadcast_arrays": lambda m: m.broadcast_arrays(A, B),
    "broadcast_to": lambda m: m.broadcast_to(A, (5,)),
    "add": lambda m: m.add(A, B),
    "where": lambda m: m.where(A > 0, A, B),
    "clip": lambda m: m.clip(A, B, None),
    "matmul": lambda m: m.matmul(A, B),
    "matmul of a scalar": lambda m: m.matmul(A, 1.0),
    "dot": lambda m: m.dot(A, B),
    "vdot": lambda m: m.vdot(A, B),
    "inner": lambda m: m.inner(A, B),
    "tensordot": lambda m: m.tensordot(A, B, 1),
    "einsum": lambda m: m.einsum("ij,jk->ik", A, B),
    "cross": lambda m: m.cross(np.ones(5), np.ones(5)),
    "concatenate": lambda m: m.concatenate([A, B]),
    "concatenate nothing": lambda m: m.concatenate([]),
    "stack": lambda m: m.stack([A, B]),
    "hstack": lambda m: m.hstack([A, B]),
    "append": lambda m: m.append(A, B, axis=0),
    "block": lambda m: m.block([[A], [B]]),
    "reshape": lambda m: m.reshape(A, (4,)),
    "reshape, two unknown": lambda m: m.reshape(A, (-1, -1)),
    "squeeze": lambda m: m.squeeze(A, 0),
    "transpose": lambda m: m.transpose(A, (0, 0)),
    "moveaxis": lambda m: m.moveaxis(A, (0, 1), (0,)),
    "swapaxes": lambda m: m.swapaxes(A, 0, 5),
    "expand_dims": lambda m: m.expand_dims(A, 5),
    "sum": lambda m: m.sum(A, axis=3),
    "max of nothing": lambda m: m.max(V[:0]),
    "argmax of nothing": lambda m: m.argmax(V[:0]),
    "split": lambda m: m.split(V, 2),
    "repeat": lambda m: m.repeat(A, [1, 2, 3], axis=0),
    "pad": lambda m: m.pad(A, -1),
    "linspace": lambda m: m.linspace(0, 1, -1),
    "take_along_axis": lambda m: m.take_along_axis(A, np.ones(2, int), 1),
    "interp": lambda m: m.interp(V, V, np.ones(2)),
    "diff": lambda m: m.diff(V, n=-1),
    "diagonal": lambda m: m.diagonal(V),
    "rot90": lambda m: m.rot90(V),
    "choose": lambda m: m.choose(np.array([0, 5]), [V[:2], V[:2]]),
    "linalg.norm": lambda m: m.linalg.norm(A, ord="x"),
    "matrix_power": lambda m: m.linalg.matrix_power(A, 2),
    "ragged": lambda m: m.array([[1, 2], [3]]),
}


@pytest.mark.parametrize("name", CALLS)
def test_value_errors_of_numpy_are_value_errors(name: str) -> None:
    with pytest.raises(ValueError):
        CALLS[name](np)
    with pytest.raises(ValueError) as caught:
        CALLS[name](mx.numpy)
    assert isinstance(caught.value, mx.MinixlaError)
    assert "test_operands.py" in str(caught.value)


FLATTENED = {
    "take": ([0],),
    "take_along_axis": (np.array([0]), None),
    "repeat": (2,),
    "delete": (0,),
}


@pytest.mark.parametrize("name", FLATTENED)
@pytest.mark.parametrize("shape", [(2, 2), (3,)])
def test_arrays_without_an_axis_stay_weakly_typed(name, shape):
    found = []

    def program(x):
        found.append(getattr(mnp, name)(mnp.broadcast_to(x, shape), *FLATTENED[name]).weak_type)
        return x

    mx.make_graph(program)(1.0)
    assert found == [True]


# Calls and what their errors name first: what the user called, and then what is wrong within.
NAMED: dict[str, Callable[..., Any]] = {
    "less": lambda a, b: mnp.less(a, b),
    "maximum": lambda a, b: mnp.maximum(a, b),
    "cross: multiply": lambda a, b: mnp.cross(a, np.ones((4, 3), np.float32)),
    "matmul: dot_general": lambda a, b: mnp.matmul(a, b),
    "logical_and": lambda a, b: mnp.logical_and(a, b),
    "norm": lambda a, b: mnp.linalg.norm(a, axis=7),
    "sum": lambda a, b: mnp.asarray(a).sum(axis=7) if isinstance(a, mx.Tracer) else mnp.sum(a, 7),
    "softmax": lambda a, b: mx.nn.softmax(a, axis=7),
    "gammainc": lambda a, b: mx.scipy.special.gammainc(a, b),
    "median": lambda a, b: mnp.median(a, axis=7),
}


@pytest.mark.parametrize("way", ["eager", "traced", "reference"])
@pytest.mark.parametrize("name", NAMED)
def test_errors_name_the_function_that_was_called(name: str, way: str) -> None:
    run: Any = {"eager": lambda f: f, "traced": mx.jit, "reference": mx.reference}[way]
    with pytest.raises(mx.MinixlaError) as caught:
        run(NAMED[name])(A, B)
    assert str(caught.value).startswith(f"{name}: ")


def test_errors_of_operators_name_them() -> None:
    with pytest.raises(mx.ShapeError, match=r"^less: "):
        mx.jit(lambda a, b: a < b)(A, B)
    with pytest.raises(mx.ShapeError, match=r"^subtract: "):
        mx.jit(lambda a, b: a - b)(A, B)


def _with_flags() -> list[tuple[str, str]]:
    found = []
    for name in mnp.__all__:
        function = getattr(mnp, name)
        if "_write" in getattr(function, "__globals__", ()):  # it is one program
            options = inspect.signature(function).parameters.values()
            found += [(name, each.name) for each in options if isinstance(each.default, bool)]
    return found


@pytest.mark.parametrize(("name", "flag"), _with_flags())
def test_flags_are_true_or_false(name: str, flag: str) -> None:
    function = getattr(mnp, name)
    parameters = inspect.signature(function).parameters.values()
    needed = [V for each in parameters if each.default is each.empty]
    for given in (np.ones(2, bool), "yes", np.ones((0,), bool)):
        with pytest.raises(mx.ArgumentTypeError, match=f": {flag} is neither True nor False"):
            function(*needed, **{flag: given})


def test_numbers_and_single_elements_are_flags() -> None:
    for flag in (1, np.True_, np.ones((), bool), np.ones(1, bool)):
        assert mnp.sum(A, keepdims=flag).shape == (1, 1)
    assert mnp.sum(A, keepdims=np.int64(0)).shape == ()


def test_what_is_no_integer_is_a_type_error() -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda m: m.frompyfunc(abs, "x", 1),
        lambda m: m.sum(A, axis="x"),
        lambda m: m.zeros("x"),
        lambda m: m.expand_dims(A, 1.5),
    ]
    for call in calls:
        for module in (np, mnp):
            with pytest.raises(TypeError):
                call(module)
