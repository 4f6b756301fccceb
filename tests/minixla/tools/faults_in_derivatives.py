"""Faults in the rules of transformations."""

from __future__ import annotations

import numpy as np

from tests.minixla.tools import faulty_programs as programs
from tests.minixla.tools import faulty_users as users
from tests.minixla.tools.faults import (
    Fault,
    batching,
    batching_within,
    nothing,
    pullback,
    replaced,
    rule,
)
from tests.minixla.tools.faulty_programs import (
    BF16,
    CORNER,
    FORWARD,
    IMAGE,
    KERNEL,
    MATRIX,
    POSITIVE,
    RIGHT_SIDE,
    ROW,
    W,
    X,
    Y,
    Z,
)

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
    "abs beside a corner": Fault(
        rule("Abs", "vjp", lambda t: t * 1.5), programs.quotient, (ROW, CORNER), "abs", "abs(y)"
    ),
    "rem beside a jump": Fault(
        rule("Rem", "vjp", lambda t: t * 2),
        programs.remainder,
        (POSITIVE, np.float32([1, 1, 0.7, 1])),
        "rem",
        "lax.rem(",
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
        (MATRIX, RIGHT_SIDE),
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
    "a scan": Fault(pullback("Scan", lambda t: t * 2), programs.scanned, (X,), "scan", "mx.scan("),
    "a scan in a step": Fault(
        pullback("Scan", lambda t: t * 2),
        programs.step_through_a_scan,
        (ROW, X),
        "scan",
        "mx.scan(",
        FORWARD,
    ),
    "a loop": Fault(
        pullback("While", lambda t: t * 2),
        programs.while_small,
        (POSITIVE,),
        "while_",
        "while_loop(",
    ),
    "a branch": Fault(
        pullback("Conditional", lambda t: -t), programs.branching, (X, Y), "conditional", "mx.cond("
    ),
    "a tangent in the program": Fault(
        rule("Cos", "jvp", lambda t: -t), programs.tangents, (ROW,), "cos", "cos(x)"
    ),
}

BATCHING = {
    "a loop": Fault(
        batching_within("While", lambda x: x * 2),
        programs.rows_in_loops,
        (X,),
        "while_",
        "while_loop(",
    ),
    "a branch": Fault(
        batching_within("Conditional", lambda x: x * 2),
        programs.rows_in_loops,
        (X,),
        "conditional",
        "mx.cond(",
    ),
    "a scan": Fault(
        batching_within("Scan", lambda x: x * 2), programs.rows_in_loops, (X,), "scan", "mx.scan("
    ),
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
    "custom_vjp of two": Fault(nothing, users.uses_product, (X, Y), "custom_vjp", "product(x, y)"),
    "JAX's custom_jvp": Fault(
        nothing, users.uses_jax_square, (ROW,), "custom_jvp", "jax_square(x)"
    ),
    "JAX's custom_vjp": Fault(nothing, users.uses_jax_log, (POSITIVE,), "custom_vjp", "jax_log(x)"),
    "gradient of an operation": Fault(
        nothing, users.uses_soft_sign, (ROW,), "soft_sign", "soft_sign(x)"
    ),
    "tangent of an operation": Fault(nothing, users.uses_swish, (ROW,), "swish", "swish(x)"),
    "kernel of an operation": Fault(
        nothing, users.uses_doubled, (ROW,), "tests_faults_doubled", "doubled(x)"
    ),
    "kernel that shifts": Fault(
        nothing, users.uses_shifted, (ROW,), "tests_faults_shifted", "shifted(x)"
    ),
    "a rule that raises": Fault(nothing, users.uses_raising, (ROW,), None, "raise ValueError"),
    "a wrong rule in a step": Fault(nothing, users.steep_step, (ROW,), "custom_jvp", "cube(x)"),
}
