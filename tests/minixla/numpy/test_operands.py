"""What every function does with its arguments: errors are those that NumPy's programs expect."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp
from minixla.core import whole_programs

A = np.ones((2, 3), np.float32)
B = np.ones((4, 5), np.float32)
V = np.ones(3, np.float32)

# Calls that NumPy refuses; `m` is NumPy or ours.
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
    "einsum": lambda m: m.einsum("ij,jk->ik", A, B),
    "concatenate": lambda m: m.concatenate([A, B]),
    "concatenate nothing": lambda m: m.concatenate([]),
    "stack": lambda m: m.stack([A, B]),
    "hstack": lambda m: m.hstack([A, B]),
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
    "interp": lambda m: m.interp(V, V, np.ones(2)),
    "repeat": lambda m: m.repeat(A, [1, 2, 3], axis=0),
    "diff": lambda m: m.diff(V, n=-1),
    "repeat, None": lambda m: m.repeat(V, None),
    "histogram without bins": lambda m: m.histogram(V, 0),
    "histogram, edges": lambda m: m.histogram(V, np.array([3, 1, 2])),
    "histogram, range": lambda m: m.histogram(V, 3, range=(2, 1)),
    "histogram, infinite range": lambda m: m.histogram(V, 3, range=(0, np.inf)),
    "histogram2d": lambda m: m.histogram2d(V, V, 0),
    "histogramdd": lambda m: m.histogramdd(A, [2, 2, 0]),
    "asarray": lambda m: m.asarray([1.0], copy=False),
    "asarray, dtype": lambda m: m.asarray(V, dtype=np.int32, copy=False),
    "cbrt": lambda m: m.cbrt(A * 1j),
    "heaviside": lambda m: m.heaviside(A * 1j, 1),
    "fabs": lambda m: m.fabs(A * 1j),
    "nextafter": lambda m: m.nextafter(A * 1j, A),
    "gcd": lambda m: m.gcd(A, A),
    "take of floats": lambda m: m.take(V, np.ones(2)),
    "matrix_transpose": lambda m: m.matrix_transpose(V),
    "stack of a number": lambda m: m.stack(1.0),
    "concatenate a number": lambda m: m.concatenate(np.float32(1)),
    "einsum without text": lambda m: m.einsum(1.5, A),
    "select": lambda m: m.select(None, [A]),
    "ravel": lambda m: m.ravel(A, order=1),
    "zeros of a dictionary": lambda m: m.zeros({}),
    "insert, fraction": lambda m: m.insert(V, 1.5, 0),
    "insert, place": lambda m: m.insert(V, 7, 0),
    "quantile, complex": lambda m: m.quantile(V, 0.5j),
    "tensorinv": lambda m: m.linalg.tensorinv(np.ones((2, 3, 4)), 1),
    "tensorsolve": lambda m: m.linalg.tensorsolve(A, V),
    "linalg.norm": lambda m: m.linalg.norm(A, ord="x"),
    "ragged": lambda m: m.array([[1, 2], [3]]),
    "compress": lambda m: m.compress(np.ones(4), V),
    "extract": lambda m: m.extract(np.ones(4), V),
    "percentile of nothing": lambda m: m.percentile(V[:0], 50),
    "lexsort of a number": lambda m: m.lexsort(1),
    "lexsort of nothing": lambda m: m.lexsort([]),
    "partition": lambda m: m.partition(V, []),
    "argpartition": lambda m: m.argpartition(V, []),
    "interp of complex numbers": lambda m: m.interp(V * 1j, V, V),
    "can_cast": lambda m: m.can_cast(None, float),
    "can_cast to": lambda m: m.can_cast(float, None),
    "array_split of a number": lambda m: m.array_split(1.5, 2),
    "split of a number": lambda m: m.split(np.float32(1), 2),
    "round of booleans": lambda m: m.round(A > 0, -2),
    "moveaxis, None": lambda m: m.moveaxis(A, None, 0),
    "permute_dims by a flag": lambda m: m.permute_dims(A, True),
    "histogram2d, text": lambda m: m.histogram2d(V, V, bins="text"),
    "histogramdd without edges": lambda m: m.histogramdd(A.T, [V[:0], V]),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_are_of_numpys_types(name: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError)) as wanted:
        CALLS[name](np)
    with pytest.raises(mx.MinixlaError) as caught:
        CALLS[name](mx.numpy)
    kinds = ValueError, TypeError, IndexError, np.exceptions.AxisError, np.linalg.LinAlgError
    for kind in kinds:
        assert isinstance(caught.value, kind) or not isinstance(wanted.value, kind)
    assert "test_operands.py" in str(caught.value)


TRUTH = np.array([True, False])


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.take(V, TRUTH),
        lambda m: m.take(A, TRUTH, axis=1),
        lambda m: m.unravel_index(TRUTH, (2, 2)),
        lambda m: m.bincount(TRUTH),
        lambda m: m.histogram(V, bins=2, range=(1, 1)),
        lambda m: m.histogram(V, bins=np.array([0, 1, 1, 2])),
        lambda m: m.asarray(V, copy=False),
        lambda m: m.can_cast(V, np.float64),
        lambda m: m.roll(A, []),
        lambda m: m.roll(A, [], 0),
    ],
)
def test_what_numpy_takes_is_taken(call: Callable[[Any], Any]) -> None:
    for found, wanted in zip(mx.tree.leaves(call(mnp)), mx.tree.leaves(call(np)), strict=True):
        np.testing.assert_allclose(found, wanted)


def test_edges_that_are_not_known_may_be_anything() -> None:
    edges = np.array([3.0, 1.0], np.float32)
    with pytest.raises(ValueError, match="bins do not ascend"):
        mnp.histogram(V, edges)
    mx.jit(lambda v, edges: mnp.histogram(v, edges))(V, edges)
    mx.jit(lambda v, high: mnp.histogram(v, 2, (0, high)))(V, -1.0)


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
        code = getattr(function, "__code__", None)
        if code is not None and code.co_filename == whole_programs.__file__:  # compiled whole
            options = inspect.signature(function).parameters.values()
            found += [(name, each.name) for each in options if isinstance(each.default, bool)]
    return found


@pytest.mark.parametrize(("name", "flag"), _with_flags())
def test_flags_are_true_or_false(name: str, flag: str) -> None:
    function = getattr(mnp, name)
    parameters = inspect.signature(function).parameters.values()
    needed = [V for each in parameters if each.default is each.empty]
    for given in (np.ones(2, bool), "yes", np.ones((0,), bool)):
        with pytest.raises(mx.ArgumentTypeError, match=f": {flag} must be True or False"):
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
