"""Operations of annotated functions."""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from minixla.core import operation_named

X = np.linspace(-2, 2, 5, dtype=np.float32)


@mx.custom_op("decorated_test.soft_sign")
def soft_sign(x: mx.Array, scale: float = 1.0) -> mx.Array:
    """x / (scale + |x|).

    More text.
    """
    return x / (scale + mx.numpy.abs(x))


@mx.custom_op("decorated_test.median")
def median(x: np.ndarray, axis: int = -1) -> np.ndarray:
    values = np.sort(x, axis=axis)
    values[...] = values  # what no tracer does
    return np.median(values, axis=axis)


@mx.custom_op("decorated_test.split")
def split(x: mx.Array, at: int) -> tuple[mx.Array, mx.Array]:
    return x[:at], x[at:] * 2


@mx.custom_op("decorated_test.total")
def total(first: jax.Array, others: list[np.ndarray], last: mx.Array) -> mx.Array:
    return first + sum(others) * last


@mx.custom_op("decorated_test.many")
def many(
    x: mx.Array,
    mode: Literal["twice", "half"],
    shift: tuple[int, ...] = (),
    names: Sequence[str] = ("a",),
    raw: bytes = b"\xff",
    dtype: type = np.float32,
    flag: bool = False,
) -> mx.Array:
    assert isinstance(raw, bytes) and names == ("a",) and flag is False
    result = x * 2 if mode == "twice" else x / 2
    return (result + sum(shift)).astype(dtype.dtype)


def test_a_function_of_operations_is_the_composition():
    np.testing.assert_allclose(soft_sign(X), X / (1 + abs(X)), rtol=1e-6)
    np.testing.assert_allclose(soft_sign(X, scale=2), X / (2 + abs(X)), rtol=1e-6)
    np.testing.assert_allclose(mx.reference(soft_sign)(X), X / (1 + abs(X)), rtol=1e-6)
    found = mx.jit(mx.vmap(mx.grad(mx.grad(soft_sign))))(X[3:])
    np.testing.assert_allclose(found, -2 / (1 + X[3:]) ** 3, rtol=1e-5)
    mx.check_grads(soft_sign.wrapper, (X + 0.1,), order=2)
    assert soft_sign.__doc__.startswith("x / (scale") and soft_sign.__name__ == "soft_sign"
    assert operation_named("decorated_test.SoftSign") is soft_sign.operation
    graph = mx.make_graph(lambda x: soft_sign(x, 3.0))(X)
    assert "soft-sign(%x" in str(graph).replace("%args0", "%x") or "soft-sign" in str(graph)
    assert graph.instructions[0].op.values["scale"] == 3.0


def test_a_function_of_numpys_arrays_is_the_reference():
    rows = np.float32([[5, 1, 9], [4, 4, 2]])
    for function in (median, mx.jit(median), mx.reference(median)):
        found = function(rows)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, [5, 4])
    np.testing.assert_array_equal(mx.jit(mx.vmap(median))(np.stack([rows] * 20)), [[5, 4]] * 20)
    np.testing.assert_array_equal(jax.jit(lambda x: median(x, axis=0))(rows), [4.5, 2.5, 5.5])
    with pytest.raises(mx.DerivativeError, match="median: no derivative is registered"):
        mx.grad(lambda x: median(x).sum())(rows)


def test_rules_are_added_to_a_function():
    @mx.custom_op("decorated_test.host_square", kind="reference", shape_fn=mx.unchanged_shape)
    def square(x: np.ndarray) -> np.ndarray:
        return np.square(x)

    @square.gradient
    def _(ctx, grad):
        return [2 * ctx.inputs[0] * grad]

    np.testing.assert_allclose(mx.hessian(lambda x: square(x).sum())(X), 2 * np.eye(5), rtol=1e-6)
    square.kernel("cpu", lambda ctx, x: x * x + 1)  # now the program's, to tell them apart
    np.testing.assert_allclose(mx.jit(lambda x: square(x) + 0)(X), X**2 + 1, rtol=1e-6)
    np.testing.assert_allclose(mx.reference(square.wrapper)(X), X**2, rtol=1e-6)


def test_several_results_and_lists():
    found = split(X, at=2)
    by_name: Any = found
    np.testing.assert_array_equal(by_name.result_0, X[:2])
    np.testing.assert_array_equal(found[1], 2 * X[2:])
    np.testing.assert_array_equal(total(X, [X, X], last=X), X + 2 * X * X)
    np.testing.assert_allclose(mx.grad(lambda x: total(x, [x], x).sum())(X), 1 + 2 * X, rtol=1e-6)


def test_kinds_of_attributes():
    np.testing.assert_array_equal(many(X, "twice", shift=[1, 2]), 2 * X + 3)
    assert many(X, mode="half", dtype=np.int32).dtype == np.int32
    with pytest.raises(mx.AttributeValueError, match="must be one of 'twice', 'half', not 'third'"):
        many(X, "third")
    with pytest.raises(TypeError, match="missing a required argument: 'mode'"):
        many(X)


def test_a_function_of_jaxs():
    @mx.custom_op("decorated_test.jax_sinc", kind="composition")
    def sinc(x: mx.Array) -> mx.Array:
        return jnp.sinc(x)

    np.testing.assert_allclose(sinc(X), np.sinc(X), rtol=1e-5, atol=1e-6)
    mx.check_grads(sinc.wrapper, (X + 0.3,), order=2)


def unannotated(x, n: int):
    return x


def unknown(x: mx.Array, n: dict):
    return x


def variadic(x: mx.Array, *n: int):
    return x


@pytest.mark.parametrize(
    "function, says",
    [
        (unannotated, "the annotation of parameter x is neither an array nor an attribute: None"),
        (unknown, "the annotation of parameter n is neither an array nor an attribute"),
        (variadic, "the annotation of parameter n is neither an array nor an attribute"),
    ],
)
def test_annotations_that_mean_nothing(function, says):
    with pytest.raises(mx.AttributeValueError, match=says) as caught:
        mx.custom_op("decorated_test.wrong", function)
    assert "Annotate it with one of mx.Array" in str(caught.value)


def test_annotations_are_evaluated_where_the_function_is():
    from minixla import Array as LocalArray

    @mx.custom_op("decorated_test.local")
    def local(x: LocalArray) -> LocalArray:
        return x + 1

    np.testing.assert_array_equal(local(X), X + 1)
    with pytest.raises(
        mx.AttributeValueError, match="an annotation of unnamed cannot be evaluated"
    ):

        @mx.custom_op("decorated_test.unnamed")
        def unnamed(x: Nothing) -> LocalArray:  # noqa: F821  # pyright: ignore[reportUndefinedVariable]  # that is the point
            return x


def test_a_kind_that_there_is_not():
    with pytest.raises(mx.AttributeValueError, match="kind 'numpy' is unknown"):
        mx.custom_op("decorated_test.wrong", unknown, kind="numpy")


def assigning(x):
    found = np.sort(x)
    found[0] = 1
    return found


def filling(x):
    found = np.zeros(5, np.float32)
    found[0] = x[1]
    return found


# Functions of NumPy's arrays, by what it is that traced values have not.
OF_NUMPY = {
    "values": lambda x: x if x[0] > 0 else -x,
    "numbers": lambda x: np.array([math.sin(each) for each in x]),
    "assignment": assigning,
    "assignment to an array of its own": filling,
    "a method": lambda x: x.getfield(np.float32),
    "a property": lambda x: x * x.flags.c_contiguous,
    "a function": lambda x: np.real_if_close(x),
    "a ufunc": lambda x: np.float32(np.frompyfunc(float, 1, 1)(x)),
    "a result": lambda x: np.zeros(x.shape, np.float32),
}


def decorated(function):
    def fun(x: mx.Array) -> mx.Array:
        return function(x)

    return mx.custom_op("decorated_test.any", fun, replace=True)


@pytest.mark.parametrize("name", OF_NUMPY)
def test_what_traced_values_have_not_makes_a_function_the_reference(name):
    op = decorated(OF_NUMPY[name])
    np.testing.assert_array_equal(mx.reference(op.wrapper)(X), np.float32(OF_NUMPY[name](X.copy())))
    assert [each.platform for each in op.kernels.listed] == ["reference"]


def raising(x):
    raise RuntimeError("it is broken")


# Errors of functions, which say nothing of what kind of function it is.
BROKEN = {
    "an error of its own": (raising, RuntimeError, "it is broken"),
    "a name": (lambda x: x + nothing, NameError, "nothing"),  # noqa: F821  # pyright: ignore[reportUndefinedVariable]  # that is the point
    "an attribute": (lambda x: x.nothing, AttributeError, "nothing"),
    "an attribute of something else": (lambda x: "".flags, AttributeError, "flags"),  # pyright: ignore[reportAttributeAccessIssue]  # that is the point
    "shapes": (lambda x: x @ np.ones((4, 4)), mx.ShapeError, "test_decorated.py"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_other_errors_of_a_function_are_raised_as_they_are(name):
    function, kind, says = BROKEN[name]
    op = decorated(function)
    with pytest.raises(kind, match=says) as caught:
        op(X)
    assert type(caught.value) is kind
    assert any('kind="reference"' in each for each in caught.value.__notes__)
    assert function.__code__ in [each.frame.code.raw for each in caught.traceback]
    assert op.kernels.listed == []


def test_what_can_neither_be_traced_nor_called_with_ones():
    @mx.custom_op("decorated_test.failing")
    def failing(x: mx.Array) -> mx.Array:
        raise RuntimeError(f"it is broken for {float(x[0])}")

    with pytest.raises(mx.TransformError, match="called with ones it raises an error") as caught:
        failing(X)
    assert "RuntimeError: it is broken for 1.0" in str(caught.value)
    assert "shape_fn=mx.unchanged_shape" in str(caught.value)
    assert any("a Python float was required" in each for each in caught.value.__notes__)


def test_a_function_of_no_module_is_of_the_callers():
    space = {"mx": mx, "__name__": None}
    exec("def twice(x: mx.Array):\n    return x * 2\n", space)
    assert space["twice"].__module__ is None
    twice = mx.custom_op("decorated_test.twice", space["twice"])
    assert twice.operation.__module__ == __name__ and mx.grad(twice)(1.0) == 2


def test_a_function_that_is_defined_again_replaces_its_operation():
    def cell(factor):
        @mx.custom_op("decorated_test.again")
        def again(x: mx.Array) -> mx.Array:
            return x * factor

        return again

    first, second = cell(2), cell(3)
    assert first(2.0) == 4 and second(2.0) == 6
    assert operation_named("decorated_test.Again") is second.operation
    scaled = [mx.custom_op("decorated_test.scaled", _by(factor)) for factor in (2, 3)]
    assert [op(2.0) for op in scaled] == [4, 6]
    with pytest.raises(mx.AttributeValueError, match="registered already"):

        @mx.custom_op("decorated_test.again")
        def other(x: mx.Array) -> mx.Array:
            return x


def _by(factor):
    def scaled(x: mx.Array) -> mx.Array:
        return x * factor

    return scaled


class Bounds(NamedTuple):
    low: mx.Array
    high: mx.Array


@mx.custom_op("decorated_test.bounds")
def bounds(x: mx.Array, width: float = 2.0) -> Bounds:
    return Bounds(x - width, x + width)


@mx.custom_op("decorated_test.statistics")
def statistics(x: mx.Array) -> dict[str, Any]:
    return {"all": x * 2, "more": (x.sum(), [x.max()])}


@mx.custom_op("decorated_test.multiples")
def multiples(x: mx.Array, count: int = 3) -> list[mx.Array]:
    return [x * i for i in range(count)]


@mx.custom_op("decorated_test.nested")
def nested(x: mx.Array) -> tuple[mx.Array, tuple[mx.Array, mx.Array]]:
    return x, (x + 1, x + 2)


@mx.custom_op("decorated_test.host_statistics")
def host_statistics(x: np.ndarray) -> dict[str, np.ndarray]:
    copy = np.empty_like(x)
    copy[...] = x
    return {"copy": copy, "sum": copy.sum()}


@pytest.mark.parametrize(
    ("function", "meaning"),
    [
        (bounds, lambda x: Bounds(x - 2, x + 2)),
        (statistics, lambda x: {"all": x * 2, "more": (x.sum(), [x.max()])}),
        (multiples, lambda x: [x * 0, x, x * 2]),
        (nested, lambda x: (x, (x + 1, x + 2))),
        (host_statistics, lambda x: {"copy": x, "sum": x.sum()}),
    ],
)
def test_results_are_any_pytree(function, meaning):
    rows = np.float32([[1, -2], [3, 5], [0, 0]])
    expected = jax.tree.map(lambda *leaves: np.stack(leaves), *map(meaning, rows))
    for found in (
        mx.vmap(function)(rows),
        mx.jit(mx.vmap(function))(rows),
        jax.jit(mx.vmap(function))(rows),
        jax.tree.map(lambda *leaves: np.stack(leaves), *map(function, rows)),
        jax.tree.map(lambda *leaves: np.stack(leaves), *map(mx.reference(function), rows)),
    ):
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_the_structure_of_results_must_not_depend_on_values():
    @mx.custom_op("decorated_test.changing", kind="reference")
    def changing(x: np.ndarray) -> dict[str, np.ndarray]:
        result = {"b": x}
        if x.sum() != x.size:
            result["a"] = 2 * x
        return result

    assert list(mx.reference(changing)(np.ones(3, np.float32))) == ["b"]
    with pytest.raises(mx.TransformError, match="structure of its results depends on the values"):
        mx.reference(changing)(np.float32([1, 2]))


def test_results_in_a_container_have_derivatives():
    def loss(x):
        return (statistics(x)["all"] * x).sum() + bounds(x).high.sum()

    x = np.float32([1, -2])
    np.testing.assert_array_equal(mx.grad(loss)(x), 4 * x + 1)
    np.testing.assert_array_equal(mx.jvp(bounds, (x,), (x,))[1].low, x)


def test_a_function_of_jax_is_compiled_into_the_program():
    @mx.custom_op("decorated_test.jax_sine")
    def sine(x: jax.Array) -> jax.Array:
        return jax.numpy.sin(x)

    op = mx.register_op(
        "DecoratedTestSine", inputs=["x: float"], outputs=["y: float"], shape_fn=mx.unchanged_shape
    )
    op.kernel("cpu", jax.jit(lambda ctx, x: jax.numpy.sin(x), static_argnums=0))
    for function in (sine, op):
        text = mx.jit(function).lower(X).as_text()
        assert "stablehlo.sine" in text and "callback" not in text


def test_a_reference_that_computes_with_jax_says_so():
    op = mx.register_op(
        "DecoratedTestJaxReference",
        inputs=["x: float"],
        outputs=["y: float"],
        shape_fn=mx.unchanged_shape,
    )
    op.kernel("reference", lambda ctx, x: jax.numpy.sin(x))
    with pytest.warns(UserWarning, match=r"computes with JAX.*@op.composition"):
        mx.reference(op)(X)


@mx.custom_op("decorated_test.raising_op")
def raising_op(x: mx.Array) -> mx.Array:
    raise ZeroDivisionError("of the author")


def shapes_that_raise(ctx, x):
    raise ZeroDivisionError("of the author")


RAISING_SHAPES = mx.register_op(
    "DecoratedTestRaising", inputs=["x: float"], outputs=["y: float"], shape_fn=shapes_that_raise
)
RAISING_RULES = mx.register_op(
    "DecoratedTestRules", inputs=["x: float"], outputs=["y: float"], shape_fn=mx.unchanged_shape
)
RAISING_RULES.kernel("reference", shapes_that_raise)
RAISING_RULES.kernel("cpu", lambda ctx, x: x)
RAISING_RULES.gradient(shapes_that_raise)
RAISING_RULES.batching(lambda ctx, inputs, dimensions: shapes_that_raise(ctx, inputs))


def gradient_of(function):
    return mx.grad(lambda x: function(x).sum())


BY_RULES = (mx.reference, mx.vmap, gradient_of)


@pytest.mark.parametrize(
    ("op", "transformed"),
    [
        *[(op, transformed) for op in (raising_op, RAISING_SHAPES) for transformed in BY_RULES],
        *[(RAISING_RULES, transformed) for transformed in BY_RULES],
        *[(op, mx.jit) for op in (raising_op, RAISING_SHAPES)],
        *[(op, lambda op: op) for op in (raising_op, RAISING_SHAPES)],
        *[(op, lambda op: op.wrapper) for op in (raising_op, RAISING_SHAPES)],
    ],
)
def test_tracebacks_show_the_users_frames_only(op, transformed, monkeypatch):
    monkeypatch.setenv("MINIXLA_TRACEBACK_FILTERING", "on")
    with pytest.raises(ZeroDivisionError) as raised:
        transformed(op)(X)
    files = {frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)}
    assert files == {__file__}
