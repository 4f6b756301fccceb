"""Shapes of which not all is known, and shape functions of them."""

from __future__ import annotations

import pytest

import minixla as mx
from minixla import PartialShape
from minixla.extension.partial_shapes import add_sizes, multiply_sizes


def merged(ctx, x, y):
    return x.with_rank(2).merge(y.with_rank(2))


def infer(shape_fn, given, attrs=()):
    """What a shape function says: `"[2,?];[?,3]"` of two inputs."""
    shapes = list(map(PartialShape, given.split(";")))
    op = mx.register_op(
        "PartialShapeTest",
        attrs=attrs,
        inputs=[f"x{i}: float" for i in range(len(shapes))],
        outputs=["y: float"],
        shape_fn=shape_fn,
        replace=True,
    )
    return op.operation().partial_shapes(shapes)[0]


@pytest.mark.parametrize(
    "function, given, wanted",
    [
        (mx.unchanged_shape, "[10,20]", "[10,20]"),
        (mx.unchanged_shape, "?", "?"),
        (lambda ctx, x: x.with_rank(1), "?", "[?]"),
        (lambda ctx, x: x.with_rank(1), "[10]", "[10]"),
        (lambda ctx, x: x.with_rank(1), "[10,20]", "shape must be rank 1 but is rank 2"),
        (merged, "[2,?];[?,3]", "[2,3]"),
        (merged, "?;[?,3]", "[?,3]"),
        (merged, "[2,3];[2,4]", "dimension 1 must be equal, but is 3 and 4"),
        (merged, "[2];[2,3]", "shape must be rank 2 but is rank 1"),
        (lambda ctx, x: (x[0], 3), "[7,9]", "[7,3]"),
        (lambda ctx, x: (x[0], 3), "?", "[?,3]"),
        (lambda ctx, x: (x[0], 3), "[?,2,2]", "[?,3]"),
        (lambda ctx, x: x.with_size(1, 4), "[?,?]", "[?,4]"),
        (lambda ctx, x: x.with_size(1, 4), "[2,3]", "dimension 1 must be equal, but is 3 and 4"),
        (lambda ctx, x: [add_sizes(x[0], 2), multiply_sizes(x[1], 3)], "[5,?]", "[7,?]"),
        (lambda ctx, x: [multiply_sizes(x[0], 0)], "?", "[0]"),
        (lambda ctx, x: x[1:], "[5,6,7]", "[6,7]"),
        (lambda ctx, x: x[1:], "?", "?"),
    ],
)
def test_c65_shape_functions(function, given, wanted):
    if wanted[0] in "?[":
        assert str(infer(function, given)) == wanted
        assert infer(function, given) == wanted
        return
    with pytest.raises(mx.ShapeError, match=wanted) as caught:
        infer(function, given)
    assert str(caught.value).startswith("partial_shape_test: (shapes) ")


def test_c65_a_shape_that_is_never_known():
    op = mx.register_op(
        "PartialShapeUnknown",
        inputs=["x: float"],
        outputs=["y: float"],
        shape_fn=lambda ctx, x: (None, 3),
    )
    with pytest.raises(mx.ShapeError, match=r"does not know the shape of output 0: \[\?,3\]"):
        mx.make_graph(op.wrapper)(1.0)


def test_shapes_are_sequences_of_sizes():
    shape = PartialShape((2, None))
    assert list(shape) == [2, None] and len(shape) == shape.rank == 2
    assert shape == "[2,?]" and shape == [2, None] and shape != "?"
    assert len({shape, PartialShape("[2, ?]")}) == 1
    with pytest.raises(ValueError, match="the number of dimensions is not known"):
        len(PartialShape("?"))
    with pytest.raises(ValueError, match="written as"):
        PartialShape("2,3")
    with pytest.raises(ValueError, match="a size is negative"):
        PartialShape([-2])
