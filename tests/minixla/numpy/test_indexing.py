"""array[index] and array.at[index] against JAX: every kind of index, bounds, derivatives."""

from __future__ import annotations

import cProfile
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import minixla as mx
import minixla.numpy as mnp
from tests.harness import by_jax
from tests.minixla.numpy.tables import assert_close, values

BF16 = ml_dtypes.bfloat16
F32, S32 = np.float32, np.int32
X = np.arange(60, dtype=F32).reshape(3, 4, 5) + 1
I2 = np.array([0, 2])
MASK = np.array([True, False, True])
GRID = (X[:, :, 0] % 2) == 0

STATIC = [
    0,
    -1,
    (1, 2),
    (0, -1, 3),
    slice(1, 3),
    slice(None, None, -1),
    (slice(None), slice(1, 3)),
    (slice(None), slice(3, 0, -2), 1),
    (slice(2, 1), 0),
    (Ellipsis, 0),
    (0, Ellipsis, slice(1, 4, 2)),
    (None, 1, None, slice(None), None),
    Ellipsis,
    (),
    (slice(-2, None), slice(None), slice(None, -1)),
    (np.int64(1), np.uint8(2)),
    7,  # clamped, as in JAX
    -9,
]
ARRAYS = [
    I2,
    np.array([[0, 1], [2, -1]]),
    (slice(None), I2),
    (I2, np.array([1, 3])),
    (I2, slice(None), np.array([1, 3])),
    (slice(None), I2, np.array([1, 3])),
    (0, slice(None), I2),
    (0, I2),
    (I2, None, 1),
    (I2[:, None], np.array([0, 1, 3])),
    (Ellipsis, I2, slice(1, 3)),
    (slice(1, 3), I2, slice(4, 0, -2)),
    (None, I2, Ellipsis, I2),
    np.array([5, -7]),  # clamped
    np.array([], S32),
    (np.array(1), np.array(2, np.uint8)),
    MASK,
    (slice(None), np.array([True, False, True, True])),
    (MASK, I2),
    GRID,
    (GRID, 0),
    (Ellipsis, np.array([True, False, True, True, False])),
    True,
    (False,),
    (slice(None), True, 0),
    (np.array(0), slice(0, 2)),
]


def for_jax(index: Any) -> Any:
    return jax.tree.map(
        lambda leaf: (
            jnp.asarray(leaf) if isinstance(leaf, np.ndarray) and leaf.dtype != bool else leaf
        ),
        index,
        is_leaf=lambda leaf: leaf is None or isinstance(leaf, slice),
    )


def shown(index: Any) -> str:
    return repr(index).replace("\n", "")[:50]


def over(indices: Sequence[Any]) -> Any:
    """Parametrises a test over the places in a list of indices."""
    return pytest.mark.parametrize("place", range(len(indices)), ids=list(map(shown, indices)))


@functools.cache
def reads() -> list[Any]:
    """What JAX reads at each of STATIC and ARRAYS."""
    return by_jax(lambda x: [x[for_jax(index)] for index in STATIC + ARRAYS], X)


@over(STATIC + ARRAYS)
def test_read(place: int) -> None:
    index = (STATIC + ARRAYS)[place]
    assert_close(mx.reference(lambda x: x[index])(X), reads()[place])


@over(ARRAYS[:16])
def test_read_with_traced_indices(place: int) -> None:
    index = ARRAYS[place]
    members = index if isinstance(index, tuple) else (index,)
    arrays = [each for each in members if isinstance(each, np.ndarray)]

    def read(x, *traced):
        waiting = iter(traced)
        return x[tuple(next(waiting) if isinstance(each, np.ndarray) else each for each in members)]

    assert_close(mx.reference(read)(X, *arrays), reads()[len(STATIC) + place])


@pytest.mark.parametrize("index", STATIC[:16] + ARRAYS[:12] + ARRAYS[16:20], ids=shown)
def test_gradient_of_read(index: Any) -> None:
    def loss(x):
        return (x[index] ** 2).sum()

    expected = np.zeros_like(X)
    np.add.at(expected, index, 2 * X[index])
    assert_close(mx.reference(mx.grad(loss))(X), expected)


UPDATES = ["set", "add", "subtract", "multiply", "divide", "min", "max", "power"]
UPDATED = [
    0,
    (1, 2, 3),
    (slice(None), slice(1, 3)),
    (slice(None, None, 2), 1),
    (Ellipsis, slice(None, None, -1)),
    (None, 1),
    I2,
    np.array([0, 2, 0]),
    (slice(None), I2, slice(1, 4)),
    (I2, slice(None), np.array([1, 3])),
    MASK,
    (GRID, 2),
    9,  # dropped
    np.array([0, 5, -8]),  # the last two are dropped
    np.array([], S32),
    slice(2, 1),
]


def updated(method: str, index: Any, x: Any) -> Any:
    # Values broadcast over the first axis, so that an element named twice gets one value.
    taken = jax.eval_shape(lambda x: x[for_jax(index)], X).shape
    return getattr(x.at[for_jax(index) if isinstance(x, jax.Array) else index], method)(
        values(F32, *taken[1:])
    )


@functools.cache
def updates_by_jax(method: str) -> list[Any]:
    return by_jax(lambda x: [updated(method, index, x) for index in UPDATED], X)


@over(UPDATED)
@pytest.mark.parametrize("method", ["set", "add"])
def test_update(method: str, place: int) -> None:
    actual = mx.reference(lambda x: updated(method, UPDATED[place], x))(X)
    assert_close(actual, updates_by_jax(method)[place])


def methods_of_at(x: Any, method: str) -> list[Any]:
    indices = I2, (slice(0, 2), 1), np.array([1, 1])
    return [getattr(x.at[index], method)(2.0) for index in indices]


@functools.cache
def methods_by_jax() -> dict[str, list[Any]]:
    return by_jax(lambda x: {method: methods_of_at(x, method) for method in UPDATES}, X)


@pytest.mark.parametrize("method", UPDATES)
def test_methods_of_at(method: str) -> None:
    actual = mx.reference(lambda x: methods_of_at(x, method))(X)
    assert_close(actual, methods_by_jax()[method])


def test_apply() -> None:
    def applied(x, sin):
        return [x.at[index].apply(sin) for index in (I2, (0, slice(1, 3)))]

    actual = mx.reference(lambda x: applied(x, mnp.sin))(X)
    assert_close(actual, by_jax(lambda x: applied(x, jnp.sin), X))


MODES = [None, "clip", "drop", "fill", "promise_in_bounds"]


def in_mode(x: Any, mode: str | None) -> list[Any]:
    indices = np.array([0, 7, -9]), 8, (I2, np.array([1, 9]))
    found = [x.at[index].get(mode=mode) for index in indices]
    if mode != "promise_in_bounds":
        found += [x.at[index].set(7.0, mode=mode) for index in indices]
    # Negative ones may be out of bounds, too.
    for index in (np.array([0, -1, -9], np.int8), -1, (I2, np.array([-1, 1])), (..., -2)):
        place = x.at[index]
        found += [place.get(mode=mode, wrap_negative_indices=False)]
        found += [place.add(7.0, mode=mode, wrap_negative_indices=False)]
    return found


@functools.cache
def modes_by_jax() -> list[list[Any]]:
    return by_jax(lambda x: [in_mode(x, mode) for mode in MODES], X)


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str | None) -> None:
    actual = mx.reference(lambda x: in_mode(x, mode))(X)
    assert_close(actual, modes_by_jax()[MODES.index(mode)])


FILLED = [F32, BF16, S32, np.uint8, np.bool_, np.complex64]


def filled(x: Any) -> list[Any]:
    index = np.array([1, 4])
    found = [x.at[index].get(mode="fill")]
    if x.dtype == F32:
        found.append(x.at[index].get(mode="fill", fill_value=3))
    return found


@functools.cache
def filled_by_jax() -> list[list[Any]]:
    arrays = [values(dtype, 3, 2) for dtype in FILLED]
    return by_jax(lambda arrays: list(map(filled, arrays)), arrays)


@pytest.mark.parametrize("dtype", FILLED)
def test_fill(dtype: type) -> None:
    actual = mx.reference(filled)(values(dtype, 3, 2))
    assert_close(actual, filled_by_jax()[FILLED.index(dtype)])


def test_types_of_updates() -> None:
    new = [(S32, 2), (S32, np.int8(3)), (BF16, 2.5), (np.bool_, True), (F32, S32(2))]

    def set_in_each(arrays):
        return [x.at[1].set(value) for x, (_, value) in zip(arrays, new, strict=True)]

    arrays = [values(dtype, 3, 2) for dtype, _ in new]
    assert_close(mx.reference(set_in_each)(arrays), by_jax(set_in_each, arrays))


DIFFERENTIATED = UPDATED[:6] + UPDATED[8:12]


def gradients_of_update(
    grad: Callable[..., Any], method: str, index: Any, x: Any, new: Any
) -> tuple[Any, Any]:
    def loss(x, new):
        return (getattr(x.at[index], method)(new, unique_indices=True) ** 2).sum()

    return grad(loss, (0, 1))(x, new)


@functools.cache
def gradients_by_jax(method: str) -> list[Any]:
    def gradients(x, new):
        return [
            gradients_of_update(jax.grad, method, for_jax(index), x, each)
            for index, each in zip(DIFFERENTIATED, new, strict=True)
        ]

    return by_jax(gradients, X, [values(F32, *X[index].shape) for index in DIFFERENTIATED])


@over(DIFFERENTIATED)
@pytest.mark.parametrize("method", ["set", "add", "multiply"])
def test_gradient_of_update(method: str, place: int) -> None:
    index = DIFFERENTIATED[place]
    actual = mx.reference(lambda x, new: gradients_of_update(mx.grad, method, index, x, new))(
        X, values(F32, *X[index].shape)
    )
    assert_close(actual, gradients_by_jax(method)[place], 64)


def test_dynamic_indices_become_dynamic_slices() -> None:
    graph = mx.make_graph(lambda x, i: x[i, :, 1:3])(X, S32(1))
    names = [each.op.name for each in graph.instructions]
    assert "DynamicSlice" in names
    assert "Gather" not in names
    places = [S32(at) for at in (-9, -1, 0, 2, 7)]
    expected = by_jax(lambda x, places: [x[at, :, 1:3] for at in places], X, places)
    sliced = mx.jit(lambda x, i: x[i, :, 1:3])
    for at, wanted in zip(places, expected, strict=True):
        assert_close(sliced(X, at), wanted)


def test_static_indices_become_slices() -> None:
    def names(function):
        return [each.op.name for each in mx.make_graph(function)(X).instructions]

    assert names(lambda x: x[0]) == ["Slice", "Reshape"]
    assert names(lambda x: x[:, 1:3]) == ["Slice"]
    assert names(lambda x: x[::-1]) == ["Rev"]
    assert names(lambda x: x[None]) == ["Reshape"]
    assert names(lambda x: x[...]) == []


def test_compiled_and_batched() -> None:
    def both(x, i):
        return x[i], x[i, 1:3], x[:, i], x.at[i].add(1.0), x.at[i, ::2].set(0.0)

    single = (X, np.array([2, 0]))
    many = (np.stack([X, X * 2]), np.array([[2, 0], [1, 1]]))
    expected, *members = by_jax(
        lambda single, many: [both(*single), *map(both, *many)], single, many
    )
    assert_close(mx.jit(both)(*single), expected)
    actual = mx.reference(mx.vmap(both))(*many)
    for at in range(2):
        assert_close(tuple(each[at] for each in actual), members[at])
    scalars = mx.reference(mx.vmap(lambda x, i: (x[i], x.at[i].set(0.0))))(
        many[0], np.array([2, 0])
    )
    assert_close(scalars[0], np.stack([many[0][0, 2], many[0][1, 0]]))


def test_lists_in_indices_hold_numbers_and_values() -> None:
    x = np.arange(6.0, dtype=np.float32)
    taken = mx.jit(lambda x, i: (x[[0, -1]], x[[True, False] * 3], x[[]], x[[i, 1]]))(x, 2)
    expected = x[[0, -1]], x[[True, False] * 3], x[:0], x[[2, 1]]
    for pair in zip(taken, expected, strict=True):
        np.testing.assert_array_equal(*pair)
    for index, message in (
        ([1.0], "is not an index"),
        ([[1, 2], [3]], "the value is not convertible"),
    ):
        with pytest.raises(mx.ShapeError, match=message):
            mx.reference(lambda x, index=index: x[index])(x)


def test_eager_derivatives_take_masks() -> None:
    x = np.float32([1, -2, 3])
    np.testing.assert_array_equal(mx.grad(lambda x: (x[x > 0] ** 2).sum())(x), [2, 0, 6])


def test_iteration_and_length() -> None:
    assert mx.reference(lambda x: [len(x), *[row.sum() for row in x]])(X)[0] == 3
    with pytest.raises(TypeError, match="iteration: a scalar is not iterable"):
        mx.reference(lambda x: list(x))(F32(1))


@st.composite
def indices(draw: Any) -> Any:
    """An index that NumPy takes, of every kind of member, for an array of shape (3, 4, 5)."""
    sizes = [3, 4, 5]
    members: list[Any] = []
    length = draw(st.integers(1, 3))
    while sizes:
        size = sizes[0]
        places = st.integers(-size, size - 1)
        kind = draw(st.sampled_from(["int", "slice", "array", "mask", "new", "ellipsis", "stop"]))
        if kind == "stop" or (kind == "ellipsis" and any(each is Ellipsis for each in members)):
            break
        if kind == "int":
            members.append(draw(places))
        elif kind == "slice":
            bound = st.none() | st.integers(-6, 6)
            members.append(slice(draw(bound), draw(bound), draw(bound.filter(lambda x: x != 0))))
        elif kind == "array":
            shape = draw(st.sampled_from([(length,), (1,), (2, length), (2, 1)]))
            count = int(np.prod(shape))
            drawn = draw(st.lists(places, min_size=count, max_size=count))
            members.append(np.array(drawn, S32).reshape(shape))
        elif kind == "mask":
            members.append(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))))
        elif kind == "new":
            members.append(None)
        else:
            members.append(Ellipsis)
            sizes = sizes[draw(st.integers(0, len(sizes))) :]
            continue
        sizes = sizes[kind != "new" :]
    return tuple(members)


@given(indices())
def test_any_index_reads_and_adds_as_numpy(index: Any) -> None:
    try:
        expected = X[index]
    except IndexError:
        assume(False)
    actual = mx.reference(lambda x: x[index])(X)
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)
    added = X.copy()
    np.add.at(added, index, 1.0)
    np.testing.assert_allclose(mx.reference(lambda x: x.at[index].add(1.0))(X), added)


ERRORS = [
    ((0, 0, 0, 0), IndexError, "there are 4 indices for 3 dimensions"),
    ((Ellipsis, Ellipsis), IndexError, "two ellipses"),
    (
        np.array([True, False]),
        IndexError,
        r"a mask of shape \(2,\) does not fit axes of sizes \(3,\)",
    ),
    (1.5, TypeError, r"f32\[\] is not an index"),
    ("name", TypeError, "str is not an index"),
    (np.array([0.5]), TypeError, r"f32\[1\] is not an index"),
    (slice(None, None, 0), IndexError, "the step of a slice is 0"),
    (slice(0.5, 2), TypeError, "a bound of a slice is not an integer"),
]


@pytest.mark.parametrize(("index", "kind", "message"), ERRORS, ids=lambda x: shown(x))
def test_errors(index: Any, kind: type, message: str) -> None:
    with pytest.raises((IndexError, TypeError, ValueError)) as numpys:
        X[index]
    for function in (lambda x: x[index], lambda x: x.at[index].set(0.0)):
        with pytest.raises(kind, match=f"indexing: .*{message}") as caught:
            mx.reference(function)(X)
        assert isinstance(caught.value, numpys.type)
        assert "called at" in str(caught.value)


def test_an_axis_of_size_0_has_no_element() -> None:
    with pytest.raises(IndexError, match="size 0 has no element"):
        mx.reference(lambda x: x[0])(np.ones((0, 2), F32))
    with pytest.raises(IndexError, match="size 0 has no element"):
        mx.reference(lambda x: x[I2])(np.ones((0, 2), F32))


def test_traced_masks_are_explained() -> None:
    with pytest.raises(mx.ConcretizationError, match=r"(?s)indexing: .*mx\.numpy\.where") as caught:
        mx.jit(lambda x: x[x > 0])(X)
    assert "test_indexing.py" in str(caught.value)


def test_traced_bounds_are_explained() -> None:
    with pytest.raises(mx.ConcretizationError, match=r"(?s)a bound of a slice .*dynamic_slice"):
        mx.jit(lambda x, n: x[:n])(X, 2)


def test_assignment_is_explained() -> None:
    def assign(x):
        x[0] = 1

    says = r"(?s)cannot be assigned to.*x = x\.at\[0\]\.set\(1\)"
    with pytest.raises(mx.AssignmentError, match=says):
        mx.jit(assign)(X)


@pytest.mark.parametrize("index", [0, (slice(None), slice(1, 3))], ids=shown)
def test_static_indexing_is_cheap_to_trace(index: Any) -> None:
    def many(x):
        for _ in range(500):
            x[index]
        return x

    mx.make_graph(many)(X)  # what is computed once
    profile = cProfile.Profile()
    with profile:
        mx.make_graph(many)(X)
    # Through gathers or slices of each dimension it would be several hundreds.
    assert sum(each.callcount for each in profile.getstats()) / 500 < 100
