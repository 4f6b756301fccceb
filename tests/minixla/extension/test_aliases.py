"""Results in the memory of operands."""

import itertools
from typing import Any

import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import AttributeValueError, ShapeError

NAMES = itertools.count()
X = np.arange(1, 5, dtype=np.float32)
C = """
#include <cstring>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
using In = ffi::Buffer<ffi::F32>;
using Out = ffi::ResultBuffer<ffi::F32>;
// Element 0 of x; the other result says whether the memory is the same.
template <bool clears_first>
ffi::Error Run(In x, In, Out same, Out y) {
  const float first = x.element_count() && !clears_first ? x.typed_data()[0] : 0;
  for (int64_t i = 0; i < same->element_count(); ++i)
    same->typed_data()[i] = x.untyped_data() == y->untyped_data();
  std::memset(y->untyped_data(), 0, y->size_bytes());
  if (x.element_count()) y->typed_data()[0] = clears_first ? x.typed_data()[0] : first;
  return ffi::Error::Success();
}
#define RUN(name, kind) XLA_FFI_DEFINE_HANDLER_SYMBOL(name, Run<kind>, \\
    ffi::Ffi::Bind().Arg<In>().Arg<In>().Ret<In>().Ret<In>())
RUN(Careful, false); RUN(Careless, true);
"""


def first_kept(symbol: str, aliases: Any) -> Any:
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
    op.kernel("cpu", ffi=symbol, library=mx.build_op_library([C]), aliases=aliases)
    return op


def test_c34_an_output_may_be_in_the_memory_of_an_input():
    same, y = mx.jit(first_kept("Careful", {"x": "y"}))(X, X)
    assert same == 1
    np.testing.assert_array_equal(y, [1, 0, 0, 0])
    np.testing.assert_array_equal(X, [1, 2, 3, 4])
    assert mx.jit(first_kept("Careful", None))(X, X)[0] == 0


def test_c34_code_that_writes_before_it_reads_is_found():
    assert mx.check_op(first_kept("Careful", {"x": "y"}), [(X, X)], variants=False).ok
    report = mx.check_op(first_kept("Careless", {"x": "y"}), [(X, X)], variants=False)
    assert [check.verdict for check in report.checks if check.check == "XLA"] == ["parts"]


@pytest.mark.parametrize(
    "aliases, says",
    [({"y": "x"}, "y is no single array"), ({"x": "none"}, "none is no single array")],
)
def test_aliases_of_what_is_not_there_are_refused(aliases, says):
    with pytest.raises(AttributeValueError, match=says):
        first_kept("Careful", aliases)


def test_aliases_are_of_compiled_code():
    op = mx.register_op(f"AlNone{next(NAMES)}", inputs=["x: float"], outputs=["y: float"])
    with pytest.raises(AttributeValueError, match="only compiled code"):
        op.kernel("cpu", lambda context, x: x, aliases={"x": "y"})


def test_aliases_of_other_shapes_are_refused():
    op = first_kept("Careful", {"x": "same"})
    with pytest.raises(ShapeError, match="same cannot be in the memory of x"):
        mx.jit(op)(X, X)
