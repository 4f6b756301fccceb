"""Pairs of edge values for the tests of operations of two operands."""

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from minixla.core.element_types import ELEMENT_TYPES, element_type
from minixla.core.errors import ShapeError
from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import check_rejected, graph_of
from tests.oracles.values import edge_values

PRED = ["pred"]
SIGNED = [name for name, kind in ELEMENT_TYPES.items() if kind.kind == "signed"]
UNSIGNED = [name for name, kind in ELEMENT_TYPES.items() if kind.kind == "unsigned"]
INTEGERS = [*SIGNED, *UNSIGNED]
FLOATS = [name for name, kind in ELEMENT_TYPES.items() if kind.is_float]
COMPLEX = ["c64", "c128"]
NUMERIC = [*INTEGERS, *FLOATS, *COMPLEX]
ALL = [*PRED, *NUMERIC]
# XLA:CPU has no types of 6 bits.
WITHOUT_XLA = ("f6e2m3fn", "f6e3m2fn")
# Of zero, of negative numbers and of NaN StableHLO's interpreter makes the least f8e8m0fnu.
WITHOUT_INTERPRETER = ("f8e8m0fnu",)
# These cannot hold an infinity; the interpreter makes 0 of it, XLA and the reference the greatest.
WITHOUT_INFINITY = ("f4e2m1fn", "f6e2m3fn", "f6e3m2fn")


def pairs(kind: str, count: int = 26) -> list[np.ndarray]:
    """Every pair of `count` edge values of an element type, zeros, ones and NaN among them."""
    dtype = ELEMENT_TYPES[kind].dtype
    values = edge_values(dtype)
    if len(values) > count:
        picked = np.unique(np.linspace(0, len(values) - 1, count).astype(int))
        special = np.array([0, 1]) if dtype.kind in "iu" else np.array([0, -0.0, 1, np.inf, np.nan])
        values = np.concatenate([values[picked], special.astype(dtype)])
    return [np.repeat(values, len(values)), np.tile(values, len(values))]


def normal(function, operands: list[np.ndarray]) -> list[np.ndarray]:
    """The operands where neither they nor the results are denormal, which XLA:CPU flushes to zero.

    The least normal number counts as denormal: XLA flushes what rounding makes it.
    """
    (result,) = reference_graph(graph_of(function, operands), operands)
    return without_denormals([*operands, result])[:-1]


def without_denormals(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The arrays where none of them is denormal."""
    kept = ~np.any([is_denormal(each) for each in arrays], axis=0)
    return [each[kept] for each in arrays]


def rows_of_values(
    function: Callable[..., Any], operands: Mapping[str, list[np.ndarray]]
) -> dict[tuple[str, str], tuple[Callable[..., Any], list[np.ndarray], dict[str, bool]]]:
    """Rows of `Together` by element type and oracle; XLA, which flushes denormals, gets none."""
    return {
        (kind, oracle): (function, arrays, options)
        for kind, given in operands.items()
        for oracle, arrays, options in [
            ("interpreter", given, {"xla": False}),
            (
                "XLA",
                without_denormals(given),
                {"xla": kind not in WITHOUT_XLA, "interpreter": False},
            ),
        ]
    }


def is_denormal(array: np.ndarray) -> np.ndarray:
    """Which elements XLA:CPU flushes to zero, or may make of what it flushes."""
    kind = element_type(array.dtype)
    if kind.is_complex:
        return is_denormal(np.real(array)) | is_denormal(np.imag(array))
    if kind.name == "f8e8m0fnu":  # it computes in f32, where 2**-127 is denormal
        return array.view(np.uint8) == 0
    if kind.name not in ("bf16", "f32", "f64"):
        return np.zeros(array.shape, bool)
    least = float(ml_dtypes.finfo(array.dtype).smallest_normal)
    return (array != 0) & (np.abs(array.astype(np.float64)) <= least)


def check_element_types(name, function, kinds):
    """Asserts that a builder of two operands takes these element types and no others."""
    for kind, element in ELEMENT_TYPES.items():
        operands = [np.ones(2, element.dtype)] * 2
        if kind in kinds:
            graph_of(function, operands)
        else:
            check_rejected(
                lambda x, y: function(x, y), operands, ShapeError, "(C2)", name, f"{kind}[2]"
            )
