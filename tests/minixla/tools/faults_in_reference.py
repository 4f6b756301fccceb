"""Faults in reference rules: the programs, and what findings must name."""

from __future__ import annotations

import numpy as np

from tests.minixla.tools import faulty_programs as programs
from tests.minixla.tools.faults import (
    Fault,
    conjugated,
    in_bf16,
    negated,
    off_by_one,
    on_last,
    rolled,
    rule,
    scaled,
    thirds,
    turned,
    where_negative,
    with_last,
    without_last,
)
from tests.minixla.tools.faulty_programs import (
    BF16,
    F16,
    FORWARD,
    IMAGE,
    INTEGERS,
    KERNEL,
    LARGE,
    MATRIX,
    POSITIVE,
    RIGHT_SIDE,
    ROW,
    SQUARE,
    TALL,
    W,
    X,
    Y,
    Z,
)

REFERENCE_RULES = {
    "exp scaled": Fault(
        rule("Exp", "reference", scaled), programs.elementary, (ROW,), "exp", "exp(x)", FORWARD
    ),
    "sin negated": Fault(
        rule("Sin", "reference", negated), programs.elementary, (ROW,), "sin", "sin(x)"
    ),
    "sin where negative": Fault(
        rule("Sin", "reference", where_negative), programs.elementary, (ROW,), "sin", "sin(x)"
    ),
    "sqrt in bf16": Fault(
        rule("Sqrt", "reference", in_bf16), programs.elementary, (ROW,), "sqrt", "sqrt(power)"
    ),
    "log1p with NaN": Fault(
        rule("Log1p", "reference", with_last(np.nan)),
        programs.elementary,
        (ROW,),
        "log1p",
        "log1p(root)",
    ),
    "logistic with inf": Fault(
        rule("Logistic", "reference", with_last(np.inf)),
        programs.elementary,
        (ROW,),
        "logistic",
        "sigmoid(x)",
    ),
    "product of matrices, turned": Fault(
        rule("DotGeneral", "reference", turned), programs.dense, (W, SQUARE), "dot_general", "@"
    ),
    "last element of a product": Fault(
        rule("DotGeneral", "reference", on_last(scaled)),
        programs.dense,
        (X, W),
        "dot_general",
        "@",
    ),
    "last term of a sum": Fault(
        rule("Reduce", "reference", without_last), programs.dense, (X, W), "reduce", "sum(axis=1)"
    ),
    "sum of many": Fault(
        rule("Reduce", "reference", scaled),
        programs.dense,
        (LARGE, TALL),
        "reduce",
        "sum(axis=1)",
        FORWARD,
    ),
    "tanh in a loop": Fault(
        rule("Tanh", "reference", scaled), programs.looped, (X, Y), "tanh", "tanh(state)"
    ),
    "exp in a while": Fault(
        rule("Exp", "reference", scaled), programs.while_small, (POSITIVE,), "exp", "exp(state"
    ),
    "tanh in a branch": Fault(
        rule("Tanh", "reference", negated), programs.branching, (X, Y), "tanh", "tanh(z)"
    ),
    "sin in a scan": Fault(
        rule("Sin", "reference", on_last(scaled)), programs.scanned, (X,), "sin", "sin(carry)"
    ),
    "tanh in nested jit": Fault(
        rule("Tanh", "reference", scaled), programs.nested, (X, W), "tanh", "tanh(h)"
    ),
    "sort under vmap": Fault(
        rule("Sort", "reference", rolled), programs.per_row, (X, W), "sort", "sort(active)"
    ),
    "pad under vmap": Fault(
        rule("Pad", "reference", rolled), programs.rows_shifted, (X,), "pad", "pad(head", FORWARD
    ),
    "sin twice derived": Fault(
        rule("Sin", "reference", scaled), programs.second_derivative, (ROW,), "sin", "sin(x)"
    ),
    "integer quotient": Fault(
        rule("Div", "reference", off_by_one), programs.integers, (INTEGERS,), "div", "lax.div("
    ),
    "integer shift": Fault(
        rule("ShiftRightArithmetic", "reference", on_last(off_by_one)),
        programs.integers,
        (INTEGERS,),
        "shift_right_arithmetic",
        ">> 1",
    ),
    "xor": Fault(rule("Xor", "reference", np.invert), programs.integers, (INTEGERS,), "xor", "^"),
    "comparison": Fault(
        rule("Gt", "reference", np.invert), programs.masked, (ROW,), "gt", "x > 0.5", FORWARD
    ),
    "choice": Fault(
        rule("Select", "reference", where_negative), programs.masked, (ROW,), "select", "where("
    ),
    "floor": Fault(
        rule("Floor", "reference", off_by_one), programs.masked, (ROW,), "floor", "floor("
    ),
    "complex exp": Fault(
        rule("Exp", "reference", conjugated), programs.complex_wave, (Z,), "exp", "exp(z)"
    ),
    "complex product": Fault(
        rule("Mul", "reference", on_last(scaled)),
        programs.complex_wave,
        (Z,),
        "mul",
        "power * z",
    ),
    "fft": Fault(
        rule("Fft", "reference", conjugated), programs.spectrum, (ROW,), "fft", "fft.fft", FORWARD
    ),
    "cholesky": Fault(
        rule("Cholesky", "reference", scaled),
        programs.solved,
        (MATRIX, RIGHT_SIDE),
        "cholesky",
        "cholesky(",
        FORWARD,
    ),
    "triangular solve": Fault(
        rule("TriangularSolve", "reference", on_last(scaled)),
        programs.solved,
        (MATRIX, RIGHT_SIDE),
        "triangular_solve",
        "triangular_solve(",
    ),
    "gather": Fault(
        rule("Gather", "reference", rolled), programs.moved, (SQUARE,), "gather", "wide[", FORWARD
    ),
    "concatenation": Fault(
        rule("ConcatInDim", "reference", rolled),
        programs.moved,
        (SQUARE,),
        "concat_in_dim",
        "concatenate(",
    ),
    "write of a slice": Fault(
        rule("DynamicUpdateSlice", "reference", without_last),
        programs.updated,
        (np.ones(5, "f4"),),
        "dynamic_update_slice",
        "update_slice(",
    ),
    "convolution": Fault(
        rule("ConvGeneralDilated", "reference", scaled),
        programs.images,
        (IMAGE, KERNEL),
        "conv_general_dilated",
        "conv(",
        FORWARD,
    ),
    "max pool": Fault(
        rule("ReduceWindow", "reference", scaled),
        programs.images,
        (IMAGE, KERNEL),
        "reduce_window",
        "max_pool(",
        FORWARD,
    ),
    "tanh in bf16": Fault(
        rule("Tanh", "reference", thirds), programs.narrow, (BF16,), "tanh", "tanh(x)", FORWARD
    ),
    "tanh in f16": Fault(
        rule("Tanh", "reference", thirds), programs.narrow, (F16,), "tanh", "tanh(x)"
    ),
    "conversion": Fault(
        rule("ConvertElementType", "reference", thirds),
        programs.rounded,
        (ROW,),
        "convert_element_type",
        "astype(mnp.bfloat16)",
        FORWARD,
    ),
    "rsqrt": Fault(
        rule("Rsqrt", "reference", scaled), programs.normalized, (X,), "rsqrt", "rsqrt("
    ),
    "tanh of JAX": Fault(
        rule("Tanh", "reference", scaled), programs.in_jax, (ROW,), "tanh", "jnp.tanh", FORWARD
    ),
    "cos of rank 0": Fault(
        rule("Cos", "reference", scaled), programs.scalar, (np.float32(0.7),), "cos", "cos(x)"
    ),
    "tanh of an import": Fault(
        rule("Tanh", "reference", scaled), programs.imported, (ROW,), "tanh", ""
    ),
}
