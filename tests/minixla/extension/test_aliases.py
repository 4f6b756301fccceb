"""Results in the memory of operands."""

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import AttributeValueError, ShapeError

NAMES = itertools.count()
X = np.arange(1, 5, dtype=np.float32)


@pytest.fixture
def first_kept(library):
    """A function of a kernel's symbol and its aliases: the operation."""
    return partial(_first_kept, library)


def _first_kept(library: Any, symbol: str, aliases: Any) -> Any:
    op = mx.register_op(
        f"AlFirst{next(NAMES)}",
        inputs=["x: float", "other: float"],
        outputs=["same: float", "y: float"],
        shape_fn=lambda context, x, other: [[1], x],
    )
    op.kernel(
        "reference",
        lambda context, x, other: [np.ones(1, np.float32), np.where(np.arange(x.size) == 0, x, 0)],
    )
    op.kernel("cpu", ffi=symbol, library=library, aliases=aliases)
    return op


def test_c34_an_output_may_be_in_the_memory_of_an_input(first_kept):
    same, y = mx.jit(first_kept("careful", {"x": "y"}))(X, X)
    assert same == 1
    np.testing.assert_array_equal(y, [1, 0, 0, 0])
    np.testing.assert_array_equal(X, [1, 2, 3, 4])
    assert mx.jit(first_kept("careful", None))(X, X)[0] == 0


def test_c34_code_that_writes_before_it_reads_is_found(first_kept):
    assert mx.check_op(first_kept("careful", {"x": "y"}), [(X, X)], variants=False).ok
    report = mx.check_op(first_kept("careless", {"x": "y"}), [(X, X)], variants=False)
    assert [check.verdict for check in report.checks if check.check == "XLA"] == ["parts"]


@pytest.mark.parametrize(
    "aliases, says",
    [({"y": "x"}, "y is not a single array"), ({"x": "none"}, "none is not a single array")],
)
def test_aliases_of_what_is_not_there_are_refused(first_kept, aliases, says):
    with pytest.raises(AttributeValueError, match=says):
        first_kept("careful", aliases)


def test_aliases_are_of_compiled_code():
    op = mx.register_op(f"AlNone{next(NAMES)}", inputs=["x: float"], outputs=["y: float"])
    with pytest.raises(AttributeValueError, match="only compiled code"):
        op.kernel("cpu", lambda context, x: x, aliases={"x": "y"})


def test_aliases_of_other_shapes_are_refused(first_kept):
    op = first_kept("careful", {"x": "same"})
    with pytest.raises(ShapeError, match="same cannot be in the memory of x"):
        mx.jit(op)(X, X)
