"""A hundred programs with one planted fault each: where it is, and what must be named."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.minixla.tools import faulty_programs as programs
from tests.minixla.tools import faulty_users as users
from tests.minixla.tools.faults import (
    Fault,
    batching,
    conjugated,
    in_bf16,
    in_text,
    negated,
    nothing,
    of_results,
    off_by_one,
    on_last,
    replaced,
    rolled,
    rule,
    scaled,
    thirds,
    turned,
    where_negative,
    with_last,
    without_last,
)
from tests.minixla.tools.planting import random_arrays, sine_form

_random = random_arrays()
X, Y, ROW, W = _random(3, 4), _random(3, 4), _random(4), _random(4, 4)
SQUARE, POSITIVE = _random(4, 4), np.float32([0.5, 1.5, 2.5, 3.0])
Z = (_random(4) + 1j * _random(4)).astype("c8")
INTEGERS = np.int32([12, -7, 20, 15, 11])
IMAGE, KERNEL = _random(1, 6, 6, 2), _random(3, 3, 2, 2)
BF16, F16 = X.astype(ml_dtypes.bfloat16), X.astype("f2")
LARGE = _random(64, 48)
FORWARD = {"gradients": False}

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
        (LARGE, _random(48, 5)),
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
    "xor": Fault(
        rule("Xor", "reference", np.invert), programs.integers, (INTEGERS,), "xor", "^"
    ),
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
        (_random(3, 3), _random(3, 2)),
        "cholesky",
        "cholesky(",
        FORWARD,
    ),
    "triangular solve": Fault(
        rule("TriangularSolve", "reference", on_last(scaled)),
        programs.solved,
        (_random(3, 3), _random(3, 2)),
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

STABLEHLO_FORMS = {
    "tanh as sine": Fault(
        replaced("Tanh", "stablehlo", sine_form), programs.dense, (X, W), "tanh", "tanh(hidden)"
    ),
    "tanh as sine in a loop": Fault(
        replaced("Tanh", "stablehlo", sine_form), programs.looped, (X, Y), "tanh", "tanh(state)"
    ),
    "exp as sine under vmap": Fault(
        replaced("Exp", "stablehlo", sine_form), programs.per_row, (X, W), "exp", "exp(", FORWARD
    ),
    "max as min": Fault(
        replaced("Max", "stablehlo_name", "minimum"),
        programs.integers,
        (INTEGERS,),
        "max",
        "maximum(",
    ),
    "sqrt as sine twice derived": Fault(
        replaced("Exp", "stablehlo", sine_form),
        programs.second_derivative,
        (ROW,),
        "exp",
        "exp(wave)",
    ),
    "logistic as sine": Fault(
        replaced("Logistic", "stablehlo", sine_form),
        programs.train_step,
        (W, X),
        "logistic",
        "sigmoid(",
        FORWARD,
    ),
}

XLA = {
    "tanh as sine": Fault(
        in_text("stablehlo.tanh", "stablehlo.sine"), programs.dense, (X, W), "tanh", "tanh(hidden)"
    ),
    "exp as expm1": Fault(
        in_text("stablehlo.exponential ", "stablehlo.exponential_minus_one "),
        programs.elementary,
        (ROW,),
        "exp",
        "exp(x)",
    ),
    "log1p as log": Fault(
        in_text("stablehlo.log_plus_one", "stablehlo.log"),
        programs.elementary,
        (ROW,),
        "log1p",
        "log1p(root)",
    ),
    "sub as add": Fault(
        in_text("stablehlo.subtract", "stablehlo.add"), programs.cubes, (ROW,), "sub", "cube -"
    ),
    "div as mul": Fault(
        in_text("stablehlo.divide", "stablehlo.multiply"),
        programs.quotient,
        (X, Y),
        "div",
        "x / size",
    ),
    "lhs transposed": Fault(
        in_text(r"contracting_dims = \[1\] x \[0\]", "contracting_dims = [0] x [0]"),
        programs.dense,
        (SQUARE, W),
        "dot_general",
        "x @ w",
        FORWARD,
    ),
    "sum as maximum": Fault(
        in_text("applies stablehlo.add", "applies stablehlo.maximum"),
        programs.dense,
        (X, W),
        "reduce",
        "sum(axis=1)",
    ),
    "gt as ge": Fault(
        in_text("compare GT", "compare LT"), programs.masked, (ROW,), "gt", "x > 0.5", FORWARD
    ),
    "floor as ceil": Fault(
        in_text("stablehlo.floor", "stablehlo.ceil"), programs.masked, (ROW,), "floor", "floor("
    ),
    "xor as or": Fault(
        in_text("stablehlo.xor", "stablehlo.or"),
        programs.integers,
        (INTEGERS,),
        "xor",
        "rest ^",
    ),
    "logical shift": Fault(
        in_text("shift_right_arithmetic", "shift_right_logical"),
        programs.integers,
        (-INTEGERS,),
        "shift_right_arithmetic",
        ">> 1",
    ),
    "order reversed": Fault(
        in_text(r"compare LT(, %r\d+, %r\d+, SIGNED.*i64)", r"compare GT\1"),
        programs.ordered,
        (ROW,),
        "sort",
        "sort(x)",
        FORWARD,
    ),
    "reversal along nothing": Fault(
        in_text(r"dimensions = array<i64: 0>}> : \(tensor<4xf32>\) -> \(tensor<4xf32>\)",
                r"dimensions = array<i64>}> : (tensor<4xf32>) -> (tensor<4xf32>)"),
        programs.ordered,
        (ROW,),
        "rev",
        "[::-1]",
        FORWARD,
    ),
    "conjugate": Fault(
        in_text("stablehlo.exponential", "stablehlo.cosine"),
        programs.complex_wave,
        (Z,),
        "exp",
        "exp(z)",
    ),
    "narrow conversion": Fault(
        in_text(
            r"(%\d+) = \"stablehlo.convert\"\((%\w+)\) : \(tensor<4xf32>\) -> \(tensor<4xbf16>\)",
            r"%x = stablehlo.negate \2 : tensor<4xf32>"
            "\n"
            r'\1 = "stablehlo.convert"(%x) : (tensor<4xf32>) -> (tensor<4xbf16>)',
        ),
        programs.rounded,
        (ROW,),
        "convert_element_type",
        "astype(mnp.bfloat16)",
        FORWARD,
    ),
    "sine in a scan": Fault(
        in_text("stablehlo.sine", "stablehlo.cosine"), programs.scanned, (X,), "sin", "sin(carry)"
    ),
    "tanh in a branch": Fault(
        in_text("stablehlo.tanh", "stablehlo.sine"), programs.branching, (X, Y), "tanh", "tanh(z)"
    ),
    "tanh in nested jit": Fault(
        in_text("stablehlo.tanh", "stablehlo.sine"), programs.nested, (X, W), "tanh", "tanh(h)"
    ),
    "tanh in an import": Fault(
        in_text("stablehlo.tanh", "stablehlo.sine"), programs.imported, (ROW,), "tanh", ""
    ),
    "sine in JAX's loop": Fault(
        in_text("stablehlo.sine", "stablehlo.cosine"),
        programs.jax_loop,
        (ROW,),
        "sin",
        "jnp.sin(state)",
        FORWARD,
    ),
    "rsqrt as sqrt": Fault(
        in_text("stablehlo.rsqrt", "stablehlo.sqrt"), programs.normalized, (X,), "rsqrt", "rsqrt("
    ),
    "cosine of rank 0": Fault(
        in_text("stablehlo.cosine", "stablehlo.sine"),
        programs.scalar,
        (np.float32(0.7),),
        "cos",
        "cos(x)",
    ),
    "tanh of bf16": Fault(
        in_text("stablehlo.tanh", "stablehlo.exponential"),
        programs.narrow,
        (BF16,),
        "tanh",
        "tanh(x)",
        FORWARD,
    ),
    "sine by the interpreter": Fault(
        in_text("stablehlo.sine", "stablehlo.cosine", "interpreter"),
        programs.elementary,
        (ROW,),
        "sin",
        "sin(x)",
    ),
    "max by the interpreter": Fault(
        in_text("stablehlo.maximum", "stablehlo.minimum", "interpreter"),
        programs.integers,
        (INTEGERS,),
        "max",
        "maximum(",
    ),
    "integers only as a whole": Fault(
        of_results(rolled, least=3),
        programs.integers,
        (INTEGERS,),
        "mul",
        "i * 3",
    ),
    "moves only as a whole": Fault(
        of_results(rolled, least=3), programs.moved, (SQUARE,), "transpose", "x.T", FORWARD
    ),
    "fused only": Fault(
        in_text("stablehlo.tanh", "stablehlo.sine", least=3),
        programs.dense,
        (X, W),
        "tanh",
        "tanh(hidden)",
        FORWARD,
    ),
}

DERIVATIVES = {
    "tanh forward": Fault(
        rule("Tanh", "jvp", lambda t: t * 0.5), programs.dense, (X, W), "tanh", "tanh(hidden)"
    ),
    "tanh reverse": Fault(
        rule("Tanh", "vjp", lambda t: -t), programs.dense, (X, W), "tanh", "tanh(hidden)"
    ),
    "sin reverse by a thousandth": Fault(
        rule("Sin", "vjp", lambda t: t * 1.001), programs.elementary, (ROW,), "sin", "sin(x)"
    ),
    "sqrt forward": Fault(
        rule("Sqrt", "jvp", lambda t: -t), programs.elementary, (ROW,), "sqrt", "sqrt(power)"
    ),
    "one element of exp": Fault(
        rule("Exp", "vjp", lambda t: t * np.float32([1, 1, 1, 1.01])),
        programs.elementary,
        (ROW,),
        "exp",
        "exp(x)",
    ),
    "abs where negative": Fault(
        replaced("Abs", "vjp", lambda self, cotangent, *more: [cotangent]),
        programs.quotient,
        (X, Y),
        "abs",
        "abs(y)",
    ),
    "a dropped term": Fault(
        replaced(
            "Mul",
            "vjp",
            lambda self, cotangent, operands, result, active: [
                cotangent * operands[1] if active[0] else None,
                cotangent * 0 if active[1] else None,
            ],
        ),
        programs.cubes,
        (ROW,),
        "mul",
        "x * x",
    ),
    "the product's transpose": Fault(
        rule("DotGeneral", "vjp", lambda t: t * 2), programs.dense, (X, W), "dot_general", "x @ w"
    ),
    "tanh in a loop": Fault(
        rule("Tanh", "jvp", lambda t: t * 0.5), programs.looped, (X, Y), "tanh", "tanh(state)"
    ),
    "tanh in a branch": Fault(
        rule("Tanh", "vjp", lambda t: -t), programs.branching, (X, Y), "tanh", "tanh(z)"
    ),
    "sin in a scan": Fault(
        rule("Sin", "vjp", lambda t: t * 0.9), programs.scanned, (X,), "sin", "sin(carry)"
    ),
    "exp in a while": Fault(
        rule("Exp", "jvp", lambda t: -t), programs.while_small, (POSITIVE,), "exp", "exp(state"
    ),
    "tanh in nested jit": Fault(
        rule("Tanh", "vjp", lambda t: t * 2), programs.nested, (X, W), "tanh", "tanh(h)"
    ),
    "exp under vmap": Fault(
        rule("Exp", "jvp", lambda t: t * 2), programs.per_row, (X, W), "exp", "exp(hidden"
    ),
    "complex exp": Fault(
        rule("Complex", "jvp", lambda t: t * 2), programs.complex_wave, (Z,), "complex", "conj("
    ),
    "triangular solve": Fault(
        rule("TriangularSolve", "vjp", lambda t: t * 2),
        programs.solved,
        (_random(3, 3), _random(3, 2)),
        "triangular_solve",
        "triangular_solve(",
    ),
    "convolution": Fault(
        rule("ConvGeneralDilated", "vjp", lambda t: t * 2),
        programs.images,
        (IMAGE, KERNEL),
        "conv_general_dilated",
        "conv(",
    ),
    "rsqrt": Fault(
        rule("Rsqrt", "vjp", lambda t: t * 2), programs.normalized, (X,), "rsqrt", "rsqrt("
    ),
    "a cosine of rank 0": Fault(
        rule("Cos", "jvp", lambda t: -t), programs.scalar, (np.float32(0.7),), "cos", "cos(x)"
    ),
    "tanh of an import": Fault(
        rule("Tanh", "vjp", lambda t: -t), programs.imported, (ROW,), "tanh", ""
    ),
    "tanh of bf16": Fault(
        rule("Tanh", "vjp", lambda t: -t), programs.narrow, (BF16,), "tanh", "tanh(x)"
    ),
    "a gradient in the program": Fault(
        rule("Tanh", "vjp", lambda t: -t), programs.loss_gradient, (X, W), "tanh", "tanh(hidden)"
    ),
    "a gradient of a gradient": Fault(
        rule("Sin", "vjp", lambda t: t * 1.01),
        programs.second_derivative,
        (ROW,),
        "sin",
        "sin(x)",
    ),
    "a step of descent": Fault(
        rule("Logistic", "vjp", lambda t: -t), programs.train_step, (W, X), "logistic", "sigmoid("
    ),
    "gradients of rows": Fault(
        rule("Tanh", "vjp", lambda t: -t), programs.row_gradients, (ROW, X), "tanh", "tanh(hidden)"
    ),
    "a tangent in the program": Fault(
        rule("Cos", "jvp", lambda t: -t), programs.tangents, (ROW,), "cos", "cos(x)"
    ),
}

BATCHING = {
    "exp": Fault(
        batching("Exp", lambda x: x * 1.01), programs.per_row, (X, W), "exp", "exp(hidden"
    ),
    "sort": Fault(
        batching("Sort", lambda x: x[..., ::-1]), programs.per_row, (X, W), "sort", "sort(active)"
    ),
    "product of matrices": Fault(
        batching("DotGeneral", lambda x: x * 2), programs.per_row, (X, W), "dot_general", "each @"
    ),
    "sum": Fault(
        batching("Reduce", lambda x: x[::-1]), programs.rows_shifted, (X,), "reduce", "sum(axis=0)"
    ),
    "padding": Fault(
        batching("Pad", lambda x: x[::-1]), programs.rows_shifted, (X,), "pad", "pad(head"
    ),
    "cumsum": Fault(
        batching("ReduceWindow", lambda x: -x), programs.rows_shifted, (X,), "reduce_window", "cums"
    ),
    "gradients of rows": Fault(
        batching("Tanh", lambda x: x * 2), programs.row_gradients, (ROW, X), "tanh", "tanh(hidden)"
    ),
}

USERS = {
    "custom_jvp": Fault(nothing, users.uses_cube, (ROW,), "custom_jvp", "cube(wave)"),
    "custom_jvp in a loop": Fault(
        nothing, users.cube_in_a_loop, (ROW,), "custom_jvp", "cube(state)"
    ),
    "custom_jvp under vmap": Fault(nothing, users.cube_over_rows, (X,), "custom_jvp", "cube(each)"),
    "custom_jvp in jit": Fault(nothing, users.cube_in_jit, (ROW,), "custom_jvp", "cube(each)"),
    "custom_vjp": Fault(nothing, users.uses_clipped, (ROW,), "custom_vjp", "clipped(scaled)"),
    "custom_vjp of two": Fault(
        nothing, users.uses_product, (X, Y), "custom_vjp", "product(x, y)"
    ),
    "JAX's custom_jvp": Fault(
        nothing, users.uses_jax_square, (ROW,), "custom_jvp", "jax_square(x)"
    ),
    "JAX's custom_vjp": Fault(nothing, users.uses_jax_log, (POSITIVE,), "custom_vjp", "jax_log(x)"),
    "gradient of an operation": Fault(
        nothing, users.uses_soft_sign, (ROW,), "soft_sign", "soft_sign(x)"
    ),
    "tangent of an operation": Fault(
        nothing, users.uses_swish, (ROW,), "swish", "swish(x)"
    ),
    "kernel of an operation": Fault(
        nothing, users.uses_doubled, (ROW,), "tests_faults_doubled", "doubled(x)"
    ),
    "kernel that shifts": Fault(
        nothing, users.uses_shifted, (ROW,), "tests_faults_shifted", "shifted(x)"
    ),
    "a rule that raises": Fault(nothing, users.uses_raising, (ROW,), None, "raise ValueError"),
    "a wrong rule in a step": Fault(nothing, users.steep_step, (ROW,), "custom_jvp", "cube(x)"),
}

FAULTS: dict[str, Fault] = {
    f"{group}: {name}": fault
    for group, table in [
        ("reference", REFERENCE_RULES),
        ("StableHLO", STABLEHLO_FORMS),
        ("XLA", XLA),
        ("derivative", DERIVATIVES),
        ("batching", BATCHING),
        ("user", USERS),
    ]
    for name, fault in table.items()
}
