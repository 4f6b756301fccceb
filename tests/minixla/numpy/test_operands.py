"""What every function does with its arguments: errors are those that NumPy's programs expect."""

from __future__ import annotations

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
