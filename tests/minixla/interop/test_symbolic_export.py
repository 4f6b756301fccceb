"""mx.export of functions with symbolic sizes."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import minixla as mx
from minixla.interop.symbolic_text import Polynomial, symbolic_text

np_ = mx.numpy
F32 = np.float32


def specs(*shapes, constraints=()):
    """Descriptions of f32 arrays whose shapes are texts such as "b, 4"."""
    scope = jax.export.SymbolicScope(constraints)
    return [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), F32) for shape in shapes
    ]


def array(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(F32)


def network(x, w):
    """A layer, and what moves its results."""
    h = mx.nn.softmax(np_.tanh(x @ w + 1))
    moved = {"twice": np_.concatenate([h, h]), "flat": h.reshape(-1), "padded": np_.pad(h, 1)}
    return moved | {"mean": h.mean(0), "rest": h[:-1], "numbers": np_.arange(x.shape[0])}


def scanned(x):
    return mx.scan(lambda c, y: (c + y, c * y), np_.zeros(4), x)


#: A function, shapes as text, and shapes of the arrays of each call.
FUNCTIONS = {
    "network": (network, ["b, 4", "4, 2"], [[(2, 4), (4, 2)], [(70, 4), (4, 2)]]),
    "jax.numpy": (lambda x: jnp.tanh(x)[::2], ["b, 4"], [[(3, 4)]]),
    "scan": (scanned, ["b, 4"], [[(1, 4)], [(5, 4)]]),
    "gradient": (mx.grad(lambda x: np_.sum(np_.tanh(x) ** 2)), ["b, 4"], [[(3, 4)]]),
    "batch": (mx.vmap(np_.sort), ["b, 4"], [[(3, 4)]]),
    "jit": (mx.jit(np_.tanh), ["b"], [[(3,)]]),
    "while": (
        lambda x: mx.while_loop(lambda c: np_.sum(c) < 99, lambda c: abs(c) * 2 + 1, x),
        ["b"],
        [[(3,)]],
    ),
    "two sizes": (lambda x, y: np_.tanh(x @ y), ["a, b", "b, c"], [[(2, 3), (3, 4)]]),
    "product of sizes": (lambda x: np_.ravel(np_.tanh(x)), ["a, b"], [[(2, 3)]]),
    "attention": (
        lambda q: mx.nn.dot_product_attention(q, q, q),
        ["b, t, 2, 4"],
        [[(2, 3, 2, 4)]],
    ),
    "polynomial": (lambda x: np_.mean(np_.exp(x), 0), ["2*b + 1, 3"], [[(5, 3)]]),
    "rows": (lambda x: np_.take(np_.tanh(x), np.array([0, 1]), axis=0), ["b, 3"], [[(4, 3)]]),
    "complex numbers": (
        lambda x: np_.real(np_.concatenate([x + 1j, np_.pad(x, 1)[1:-1, 1:-1] * 2j])),
        ["b, 3"],
        [[(4, 3)]],
    ),
    "static size": (lambda x: np_.eye(x.shape[0]) @ x, ["b, b"], [[(4, 4)]]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_for_all_sizes(name):
    fun, texts, calls = FUNCTIONS[name]
    data = mx.export(fun, *specs(*texts))
    again, program = jax.export.deserialize(bytearray(data)), mx.import_stablehlo(data)
    for shapes in calls:
        arrays = [array(*shape) for shape in shapes]
        wanted = jax.tree.leaves(fun(*arrays))
        for found in (jax.jit(again.call)(*arrays), program(*arrays)):
            for left, right in zip(jax.tree.leaves(found), wanted, strict=True):
                np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-5)


def test_constraints_and_other_platforms():
    data = mx.export(
        np_.tanh, *specs("b", constraints=["mod(b, 2) == 0", "b >= 4"]), platforms=("cpu", "tpu")
    )
    program = mx.import_stablehlo(data)
    np.testing.assert_allclose(program(array(6)), np.tanh(array(6)), rtol=1e-5)
    with pytest.raises(mx.TransformError, match="b >= 4"):
        program(array(2))
    assert jax.export.deserialize(bytearray(data)).platforms == ("cpu", "tpu")


#: A function that does not allow symbolic sizes, the shape of its argument, and the error.
INVALID = {
    "windows": (lambda x: np_.cumsum(x), "b", "reduce_window does not allow symbolic sizes"),
    "a size in an if": (lambda x: x if x.shape[0] > 7 else -x, "b", "'b' > '7' is inconclusive"),
    "a size in a later if": (
        lambda x: np_.tanh(x) if x.shape[0] > 2000 else np_.tanh(-x),
        "b",
        "'b' > '2000' is inconclusive",
    ),
    "a size that is read as a number": (
        lambda x: np_.tanh(x) * np_.eye(x.shape[0])[0] * (3 if len(np_.ones(x.shape)) > 99 else 2),
        "b",
        "depends on the symbolic sizes",
    ),
    "a table": (mx.hessian(lambda x: np_.sum(x**3)), "b", "stablehlo.constant differs"),
}


@pytest.mark.parametrize("name", INVALID)
def test_functions_that_do_not_allow_symbolic_sizes(name):
    fun, shape, match = INVALID[name]
    with pytest.raises(mx.TransformError, match=f"(?s){match}.*test_symbolic_export.py") as caught:
        mx.export(fun, *specs(shape))
    assert "one program for each size" in str(caught.value).replace("\n", " ")


def test_errors_of_arguments_and_of_the_function():
    with pytest.raises(mx.ShapeError, match="export: argument y of type str is not an array"):
        mx.export(lambda x, y: np_.tanh(x), *specs("b"), "text")
    with pytest.raises(TypeError, match="dot_general requires contracting dimensions"):
        mx.export(lambda x: jnp.dot(x, np.ones((5, 5))), *specs("b, 3"))


def test_derivatives_of_our_programs_are_not_written():
    with pytest.raises(mx.TransformError, match="vjp_order=0"):
        mx.export(np_.tanh, *specs("b"), vjp_order=1)
    data = mx.export(jnp.tanh, *specs("b"), vjp_order=1)
    call = jax.export.deserialize(bytearray(data)).call
    np.testing.assert_allclose(
        jax.grad(lambda x: call(x).sum())(array(3)), 1 - np.tanh(array(3)) ** 2, rtol=1e-5
    )


def test_numbers_become_polynomials():
    def text(sizes):
        a, b = sizes["a"], sizes["b"]
        return f"x{a}, {a * b}, {2 * b + 1}, 7\n"

    samples = [{"a": a, "b": b} for a, b in [(3, 5), (5, 3), (7, 11), (2, 9), (8, 4), (6, 13)]]
    marked = symbolic_text("f", text, samples, [{"a": 20, "b": 30}])
    assert marked.at({"a": 10, "b": 4}) == "x10, 40, 9, 7\n"
    assert marked.polynomials[1] == Polynomial(((("a", "b"), 1),))
    with pytest.raises(mx.TransformError, match="depends on the symbolic sizes"):
        symbolic_text("f", lambda sizes: f"{sizes['a'] // 2}", samples, [])


def test_numbers_that_depend_on_sizes_do_not_overflow():
    with mx.enable_x64(True):
        scope = jax.export.symbolic_shape("b")
        spec = jax.ShapeDtypeStruct(scope, np.float64)
        program = mx.import_stablehlo(
            mx.export(lambda x: np_.tanh(x).sum() / (x.shape[0] * (x.shape[0] - 1)), spec)
        )
        x = np.full(50_000, 0.5)
        np.testing.assert_allclose(program(x), np.tanh(x).sum() / (50_000 * 49_999), rtol=1e-12)


def test_sizes_with_few_valid_values_are_compared_too():
    (spec,) = specs("b", constraints=["mod(b, 12) == 0", "b <= 84"])
    program = mx.import_stablehlo(mx.export(lambda x: np_.tanh(x) * x.shape[0], spec))
    x = array(60)
    np.testing.assert_allclose(program(x), np.tanh(x) * 60, rtol=1e-6)
    with pytest.raises(mx.TransformError):
        mx.export(lambda x: np_.tanh(x) if x.shape[0] == 60 else -np_.tanh(x), spec)


def test_a_function_that_was_traced_before_at_one_of_the_sizes():
    function = mx.jit(lambda x: np_.tanh(x) * 2)
    function(array(3))
    assert mx.import_stablehlo(mx.export(function, *specs("b")))(array(5)).shape == (5,)


@mx.custom_op("symbolic_export_test.twice")
def twice(x: mx.Array) -> mx.Array:
    return np_.tanh(x) * 2


def test_a_custom_operation_becomes_a_call():
    program = mx.import_stablehlo(mx.export(lambda x: twice(x) + 1, *specs("b")))
    np.testing.assert_allclose(program(array(3)), 2 * np.tanh(array(3)) + 1, rtol=1e-6)
    program = mx.import_stablehlo(mx.export(lambda x, y: np_.tanh(x) + twice(y), *specs("b", "1")))
    x, y = array(3), array(1)
    np.testing.assert_allclose(program(x, y), np.tanh(x) + 2 * np.tanh(y), rtol=1e-6)


def test_a_program_over_a_mesh_has_no_symbolic_sizes():
    mesh = jax.make_mesh((1,), ("i",))
    sharding = jax.NamedSharding(mesh, jax.P("i"))
    with pytest.raises(
        mx.TransformError, match=r"over a mesh cannot have symbolic sizes\.\n  mesh:"
    ):
        mx.export(mx.jit(lambda x: x * 2, in_shardings=sharding), *specs("b"))
