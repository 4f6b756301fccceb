"""Convolutions worth trying: a table of shapes and attributes, and both libraries' calls."""

import jax
import numpy as np
from jax import lax

import minixla as mx
import minixla_ops as ops
from tests.harness import graph_of

LAST = ("NHWC", "HWIO", "NHWC")

# Shapes of lhs and rhs, and the attributes; `numbers` are the dimension numbers.
CASES = {
    "no spatial dimensions": ((2, 3), (4, 3), {}),
    "one dimension": ((2, 3, 5), (4, 3, 2), {}),
    "two dimensions": ((1, 2, 4, 3), (2, 2, 2, 2), {}),
    "three dimensions": ((1, 1, 3, 2, 2), (2, 1, 2, 1, 2), {}),
    "strides": ((1, 2, 7), (2, 2, 2), {"strides": (3,)}),
    "strides that do not divide": ((1, 1, 6, 5), (1, 1, 3, 2), {"strides": (2, 3)}),
    "padding": ((1, 1, 4), (1, 1, 3), {"padding": [(2, 1)]}),
    "negative padding": ((1, 1, 5, 4), (1, 1, 2, 2), {"padding": [(-1, 2), (1, -2)]}),
    "padding takes all away": ((1, 1, 3), (1, 1, 2), {"padding": [(-2, -1)]}),
    "padding beyond the kernel": ((1, 1, 2), (1, 1, 2), {"padding": [(3, 4)]}),
    "same": ((2, 1, 6, 5), (1, 1, 3, 2), {"padding": "SAME", "strides": (2, 1)}),
    "lhs dilation": ((1, 1, 3), (1, 1, 3), {"lhs_dilation": (2,), "padding": [(1, 2)]}),
    "rhs dilation": ((1, 1, 6), (1, 1, 2), {"rhs_dilation": (3,), "padding": [(1, 0)]}),
    "both dilated, strides": (
        (1, 2, 4, 3),
        (2, 2, 2, 2),
        {
            "lhs_dilation": (2, 3),
            "rhs_dilation": (2, 1),
            "strides": (2, 3),
            "padding": [(1, -1), (0, 2)],
        },
    ),
    "reversal": ((1, 1, 4, 3), (1, 1, 3, 2), {"reversal": (True, False)}),
    "reversal, dilated": (
        (1, 1, 6),
        (1, 1, 3),
        {"reversal": (True,), "rhs_dilation": (2,), "strides": (2,), "padding": [(1, 2)]},
    ),
    "feature groups": ((2, 4, 5), (6, 2, 2), {"groups": 2}),
    "feature groups, strided": (
        (1, 6, 5, 4),
        (3, 2, 2, 2),
        {"groups": 3, "strides": (2, 1), "padding": [(1, 1), (0, 1)], "rhs_dilation": (1, 2)},
    ),
    "depthwise": ((2, 3, 5), (3, 1, 3), {"groups": 3, "padding": "SAME"}),
    "depthwise, multiplied, reversed": (
        (1, 2, 5, 4),
        (4, 1, 2, 3),
        {"groups": 2, "lhs_dilation": (2, 1), "padding": [(1, -1), (2, 1)],
         "reversal": (True, False), "strides": (2, 1)},
    ),
    "batch groups": ((4, 2, 5), (6, 2, 2), {"batch_groups": 2}),
    "batch groups, strided": (
        (6, 1, 5, 4),
        (3, 1, 2, 2),
        {"batch_groups": 3, "strides": (2, 1), "padding": [(1, 1), (0, 1)], "lhs_dilation": (1, 2)},
    ),
    "a batch group a member": (
        (3, 2, 5),
        (3, 2, 3),
        {"batch_groups": 3, "padding": [(1, 1)], "rhs_dilation": (2,), "reversal": (True,)},
    ),
    "groups of many features": ((2, 16, 6), (4, 8, 3), {"groups": 2, "padding": "SAME"}),
    "batch groups of many features": ((4, 9, 4), (2, 9, 2), {"batch_groups": 2}),
    "channels last": ((2, 4, 3, 2), (2, 2, 2, 3), {"numbers": LAST}),
    "any order": (
        (3, 2, 4, 2),
        (2, 2, 3, 3),
        {"numbers": "1b0f_0io1->f01b", "strides": (1, 2), "padding": [(1, 0), (0, 1)]},
    ),
    "any order, feature groups": ((4, 5, 2), (2, 2, 6), {"numbers": "f0b_i0o->0fb", "groups": 2}),
    "any order, batch groups": (
        (5, 2, 4), (2, 4, 2), {"numbers": "0fb_0oi->fb0", "batch_groups": 2},
    ),
    "batch size 0": ((0, 2, 4), (3, 2, 2), {}),
    "input features size 0": ((1, 0, 4), (3, 0, 2), {}),
    "output features size 0": ((1, 2, 4), (0, 2, 2), {}),
    "spatial size 0": ((1, 2, 0), (3, 2, 2), {"padding": [(1, 2)]}),
    "kernel larger than input": ((1, 2, 2), (3, 2, 4), {}),
    "size 1": ((1, 1, 1), (1, 1, 1), {}),
}  # fmt: skip
GROUPED = [case for case, (_, _, given) in CASES.items() if {"groups", "batch_groups"} & {*given}]


def convolution(
    strides=None, padding="VALID", lhs_dilation=None, rhs_dilation=None, numbers=None, groups=1,
    batch_groups=1, reversal=None, **others,
):  # fmt: skip
    def function(x, w):
        return ops.conv_general_dilated(
            x, w, strides or (1,) * (len(np.shape(x)) - 2), padding, lhs_dilation, rhs_dilation,
            numbers, groups, batch_groups, window_reversal=reversal, **others,
        )  # fmt: skip

    return function


def jax_convolution(
    lhs, rhs, strides=None, padding="VALID", lhs_dilation=None, rhs_dilation=None, numbers=None,
    groups=1, batch_groups=1, reversal=None,
):  # fmt: skip
    (instruction,) = graph_of(
        convolution(strides, padding, lhs_dilation, rhs_dilation, numbers, groups, batch_groups,
                    reversal),
        [np.zeros(lhs), np.zeros(rhs)],
    ).instructions  # fmt: skip
    given = instruction.op.values
    numbers = given["dimension_numbers"]
    flags = zip(numbers.kernel_spatial_dimensions, given["window_reversal"], strict=True)
    backwards = [dimension for dimension, flag in flags if flag]

    def function(x, w):
        return lax.conv_general_dilated(
            x, lax.rev(w, backwards), given["window_strides"], given["padding"],
            given["lhs_dilation"], given["rhs_dilation"],
            lax.ConvDimensionNumbers(numbers.lhs, numbers.rhs, numbers.output),
            groups, batch_groups,
        )  # fmt: skip

    return function


def reference(function, *operands):
    with jax.enable_x64(True):
        (result,) = mx.reference(lambda *xs: (function(*xs),))(*operands)
    return result
