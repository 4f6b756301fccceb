"""What the tests of sums of products share: operands, a bound for errors, narrow types."""

import functools

import ml_dtypes
import numpy as np

from minixla_ops.programs.reference_evaluation import reference_graph
from tests.harness import graph_of, results_together, unwrapped
from tests.oracles import ALL_TYPES, assert_same, run_xla
from tests.oracles.values import is_float


def exact_values(sizes, dtype, seed=0):
    """Small integers of a type, whose sums of a few products are exact in it in every order."""
    generator = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return generator.integers(0, 2, sizes).astype(bool)
    if dtype == np.dtype(ml_dtypes.float8_e8m0fnu):  # powers of two, and no zero
        return np.full(sizes, 2, np.float32).astype(dtype)
    if dtype.kind == "c":
        parts = generator.integers(-3, 4, (2, *np.atleast_1d(sizes).astype(int)))
        return (parts[0] + 1j * parts[1]).reshape(sizes).astype(dtype)
    is_signed = is_float(dtype) or dtype.kind == "i" or dtype.name.startswith("int")
    lowest = -1 if is_signed else 0
    return generator.integers(lowest, 2, sizes).astype(np.int8).astype(dtype)


def rounding_bound(magnitudes, results, terms, dtype):
    """How far a sum of products may be from the exact one.

    Each of `terms` products and sums is rounded in the type that sums, f32 for narrower ones, and
    the result once more in its own: (terms + 1) u_sum * sum |products| + 2 u * |result|.

    Args:
        magnitudes: sums of the products' absolute values.
        results: absolute values of the exact results.
        terms: how many products are added up.
        dtype: the type of the operands and the result.
    """
    own = float(ml_dtypes.finfo(dtype).eps) / 2
    summing = min(own, float(np.finfo(np.float32).eps) / 2)
    return (terms + 1) * summing * magnitudes + 2 * own * results


def rows_of_element_types(function, operands):
    """Rows of `Together`: a sum of products for each element type that either oracle has.

    XLA:CPU has none of 2-bit integers ("unsupported operand type S2"), the interpreter no zero to
    begin with in the exponents' type, and neither has 6-bit floats.

    Args:
        function: from a type's name to a function of the operands.
        operands: from its dtype to these.
    """
    return {
        name: (
            function(name),
            operands(dtype),
            {
                "signed_zeros": False,
                "xla": name not in ("i2", "ui2"),
                "interpreter": name != "f8E8M0FNU",
            },
        )
        for name, dtype in ALL_TYPES
        if not name.startswith("f6")
    }


class NarrowProducts:
    """Sums of products of types of which XLA:CPU has none, in the form for it, in one program.

    It has none of 2-bit integers, and accumulates those of 4 bits in no other type.

    Args:
        function: of a preferred element type; returns a function of the operands.
        operands: from an element type's name to operands.
    """

    def __init__(self, function, operands):
        self.rows = {
            (own, preferred): (function(preferred_element_type=preferred), operands(own))
            for own in ("s2", "u2", "s4", "u4", "f4e2m1fn")
            for preferred in (None, "f32", "s32")
            if (own, preferred) != ("f4e2m1fn", "s32")  # floats are not accumulated in integers
        }

    def check(self, row):
        """Asserts that XLA gives what the reference does; the first call asks about all rows."""
        graph = graph_of(*self.rows[row])
        (result,) = unwrapped(self._results[row])
        assert_same(*reference_graph(graph, self.rows[row][1]), result, signed_zeros=False)
        assert "stablehlo.convert" not in graph.stablehlo()

    @functools.cached_property
    def _results(self):
        return results_together(run_xla, self.rows)
