"""Faults in what backends read and compute."""

from __future__ import annotations

import numpy as np

from tests.minixla.tools import faulty_programs as programs
from tests.minixla.tools.faults import Fault, in_text, of_results, on_last, replaced, rolled, scaled
from tests.minixla.tools.faulty_programs import (
    BF16,
    FORWARD,
    INTEGERS,
    LARGE,
    ROW,
    SQUARE,
    W,
    X,
    Y,
    Z,
)
from tests.minixla.tools.planting import sine_form

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
        in_text(
            r"dimensions = array<i64: 0>}> : \(tensor<4xf32>\) -> \(tensor<4xf32>\)",
            r"dimensions = array<i64>}> : (tensor<4xf32>) -> (tensor<4xf32>)",
        ),
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
    "one element of many": Fault(
        of_results(on_last(scaled), least=1), programs.large_map, (LARGE,), "sin", "sin(x)", FORWARD
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
