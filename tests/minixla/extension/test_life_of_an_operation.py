"""An operation from its first day to its next release."""

import warnings
from typing import Any

import jax
import numpy as np
import pytest

import minixla as mx

X = np.arange(1, 6, dtype=np.float32)
C = """
#include "minixla/op_library.h"
namespace ffi = xla::ffi;
struct Sized {
  int64_t count;
  int64_t element_count() const { return count; }
};
ffi::Error Checked(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, int64_t pretended) {
  OP_REQUIRES_INT32_SIZE(Sized{pretended});
  std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(CheckedF32, Checked, ffi::Ffi::Bind()
    .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attr<int64_t>("pretended"));
MINIXLA_OP("LfChecked").Attr("pretended: int").Input("x: float").Output("y: float")
    .ShapeFn(minixla::UnchangedShape).Kernel("cpu", "CheckedF32");
"""


def zero_out(name: str, types: str = "{float}") -> Any:
    op = mx.register_op(
        name,
        attrs=[f"T: {types}"],
        inputs=["to_zero: T"],
        outputs=["zeroed: T"],
        shape_fn=mx.unchanged_shape,
    )
    op.kernel("reference", lambda ctx, x: np.where(np.arange(x.size) == 0, x, x.dtype.type(0)))
    op.kernel("cpu", lambda ctx, x: x.at[1:].set(0), T="float")
    return op


def test_c2_the_five_steps():
    op = zero_out("LfFive")  # the interface, and kernels
    np.testing.assert_array_equal(mx.jit(op.wrapper)(X), [1, 0, 0, 0, 0])  # the function
    with pytest.raises(mx.DerivativeError, match="LfFive"):
        mx.grad(lambda x: op(x).sum())(X)
    op.gradient(lambda ctx, grad: [op(grad)])  # the gradient
    np.testing.assert_array_equal(mx.grad(lambda x: op(x).sum())(X), [1, 0, 0, 0, 0])
    assert mx.check_op(op, [(X,)], variants=False).ok  # the test


def test_c30_a_type_is_added_later():
    old, new = zero_out("LfOld"), zero_out("LfNew", "{float, int32}")
    stored = mx.make_graph(old)(X).stablehlo().replace(old.name, new.name)
    with pytest.raises(mx.TransformError, match="no kernel is registered for"):
        mx.jit(new.wrapper)(X.astype(np.int32))
    new.kernel("cpu", lambda ctx, x: x.at[1:].set(0), T="int32")
    np.testing.assert_array_equal(mx.jit(new.wrapper)(X.astype(np.int32)), [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(mx.import_stablehlo(stored)(X), [1, 0, 0, 0, 0])
    assert [each.rule for each in mx.check_compatible(old, new).changes] == ["S4"]


def test_c46_kernels_with_indices_of_32_bits_have_a_check():
    library = mx.load_op_library(mx.build_op_library([C]))
    np.testing.assert_array_equal(library.lf_checked(X, 2**31 - 1), X)
    with pytest.raises(mx.KernelError, match="Too many elements in tensor"):
        jax.block_until_ready(library.lf_checked(X, 2**31))


def test_c60_names_clash_within_a_namespace_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = zero_out("lf_one.LfSame"), zero_out("lf_other.LfSame")
    assert (one.name, other.name) == ("lf_one.LfSame", "lf_other.LfSame")
    targets = [each.op.name for op in (one, other) for each in mx.make_graph(op)(X).instructions]
    assert targets == [one.name, other.name]
    with pytest.raises(mx.AttributeValueError, match="registered already"):
        zero_out("lf_one.LfSame")
