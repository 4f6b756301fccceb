"""Shape functions: the forms in which they may state sizes, and forms that raise an error."""

from __future__ import annotations

from itertools import count
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx

_NUMBERS = count()
X = np.zeros((2, 3), np.float32)
PARSE = mx.core.parse_shape


def sizes_of(outputs, shape_fn, attrs=(), **given):
    """Return the result shapes of an operation on `X`."""
    op = mx.register_op(
        f"ShapeFunctionTest{next(_NUMBERS)}",
        attrs=attrs,
        inputs=["x: float"],
        outputs=outputs,
        shape_fn=shape_fn,
    )
    shapes: Any = mx.make_graph(lambda x: op(x, **given))(X).output_shapes
    return [each.dimensions for each in shapes]


def yielded(ctx, x):
    yield from x


# Ways to state [2,3] for one array.
SIZES = {
    "the input": lambda ctx, x: x,
    "a tuple": lambda ctx, x: (2, 3),
    "a list": lambda ctx, x: [2, 3],
    "NumPy's integers": lambda ctx, x: (np.int64(2), np.uint8(3)),
    "an array": lambda ctx, x: np.array([2, 3]),
    "elements of an array": lambda ctx, x: tuple(np.array([2, 3])),
    "a JAX array": lambda ctx, x: jax.numpy.array([2, 3]),
    "a generator": lambda ctx, x: (size for size in x),
    "a generator function": yielded,
    "a map": lambda ctx, x: map(int, "23"),
    "a range": lambda ctx, x: range(2, 4),
    "a text": lambda ctx, x: "[2,3]",
    "PartialShape": lambda ctx, x: mx.PartialShape((2, 3)),
    "Shape": lambda ctx, x: PARSE("f32[2,3]"),
    "ShapeDtypeStruct": lambda ctx, x: jax.ShapeDtypeStruct((2, 3), np.float32),
    "eval_shape": lambda ctx, x: jax.eval_shape(lambda: jax.numpy.zeros((2, 3))),
}


@pytest.mark.parametrize("form", SIZES)
def test_sizes_of_one_array(form):
    function = SIZES[form]
    assert sizes_of(["y: float"], function) == [(2, 3)]
    assert sizes_of(["y: float"], lambda *given: [function(*given)]) == [(2, 3)]
    assert sizes_of(["y: float"], lambda *given: (each for each in [function(*given)])) == [(2, 3)]
    two = ["y: float", "z: float"]
    for listed in (list, tuple, iter):
        both = sizes_of(two, lambda ctx, x, listed=listed: listed([function(ctx, x), ()]))
        assert both == [(2, 3), ()]
    attrs = ["N: int >= 0"]
    for several, length in ((["y: N * float"], 1), (["y: N * float"], 2)):
        for nested in (False, True):

            def members(ctx, x, nested=nested, length=length):
                own = [function(ctx, x) for _ in range(length)]
                return [own] if nested else own

            assert sizes_of(several, members, attrs, N=length) == [(2, 3)] * length
    mixed = sizes_of(["y: float", "z: N * float"], lambda *g: [4, [function(*g)]], attrs, N=1)
    assert mixed == [(4,), (2, 3)]


@pytest.mark.parametrize("scalar", [(), [], "[]", np.array([], int), [()], [[]], ([],)])
def test_sizes_of_a_scalar(scalar):
    assert sizes_of(["y: float"], lambda ctx, x: scalar) == [()]


@pytest.mark.parametrize("size", [5, np.int32(5), np.array(5), (5,), [5], [(5,)]])
def test_one_size(size):
    assert sizes_of(["y: float"], lambda ctx, x: size) == [(5,)]


def test_no_arrays():
    attrs = ["N: int >= 0"]
    for empty in ([], [[]], ()):
        assert sizes_of(["y: N * float"], lambda ctx, x, empty=empty: empty, attrs, N=0) == []


Y, YZ = ["y: float"], ["y: float", "z: float"]
# The outputs, the returned value, and parts of the error.
REFUSED = {
    "floats": (Y, (2.0, 3.0), "returned: (2.0, 3.0)", "Return the sizes of y: a sequence of int"),
    "a boolean": (Y, True, "returned: True", "Return the sizes of y"),
    "a function": (Y, abs, "returned: <built-in function abs>", "Return the sizes of y"),
    "a dictionary": (Y, {"y": (2,)}, "returned: {'y': (2,)}", "Return the sizes of y"),
    "too many": (Y, [(2,), (3,)], "returned: [(2,), (3,)]", "Return the sizes of y"),
    "too few": (YZ, [(2,)], "returned: [(2,)]", "Return a list of the sizes of each of y, z."),
    "one of two": (YZ, 5, "returned: 5", "Return a list of the sizes of each of y, z."),
    "a negative size": (Y, (2, -1), "a size is negative: -1", ""),
    "a text": (Y, "2,3", "a shape is written as", ""),
    "an unknown size": (Y, (2, None), "does not know the shape of output 0: [2,?]", ""),
    "an unknown shape": (YZ, [(2,), None], "does not know the shape of output 1: ?", ""),
    "another type": (
        Y,
        PARSE("s32[2]"),
        "returns type s32 for y, but f32 is declared",
        "sizes only",
    ),
}


@pytest.mark.parametrize("form", REFUSED)
def test_what_states_no_sizes_is_refused(form):
    outputs, returned, *says = REFUSED[form]
    with pytest.raises(mx.MinixlaError) as caught:
        sizes_of(outputs, lambda ctx, x: returned)
    assert all(part in str(caught.value) for part in says) and "test_shape_functions.py" in str(
        caught.value
    )


def test_the_types_of_a_function_of_numpys_arrays_may_be_stated():
    def shape_fn(ctx, x):
        return [jax.ShapeDtypeStruct(x[:1], np.int32), x]

    @mx.custom_op(f"shape_test.f{next(_NUMBERS)}", kind="reference", shape_fn=shape_fn)
    def rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert x[0, 0] != 1, "called with ones"
        return x.sum(1).astype(int), x

    graph = mx.make_graph(rows)(X)
    assert [*map(str, graph.output_shapes)] == ["s32[2]", "f32[2,3]"]
    assert mx.reference(rows)(X)[0].dtype == np.int32
