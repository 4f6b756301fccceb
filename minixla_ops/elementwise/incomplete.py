"""The incomplete gamma and beta functions, as programs that importers recognize.

StableHLO lacks these functions; other frameworks write programs for them.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

import minixla_ops as ops
from minixla.core import REGISTRY, Shape, register
from minixla.core.attributes import Integers, attribute
from minixla.core.element_types import F32, F64, element_type
from minixla.core.hooks import incomplete_program
from minixla.core.tracing import evaluate_graph
from minixla.typing import Array
from minixla_ops.elementwise.families import Elementwise
from minixla_ops.elementwise.operators import power
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.casting import cast
from minixla_ops.helpers.changes import scaled
from minixla_ops.helpers.shorthand import (
    add_cotangents,
    array_shape,
    full_like,
    ones_like,
    zeros_like,
)
from minixla_ops.programs.reference_evaluation import reference_graph


class Incomplete(Elementwise):
    """Base class of functions of parameters and, as the last operand, x.

    The derivative with respect to x is the integrand. With respect to a parameter, it is that of
    the program inside the domain, and 0 at its ends, where parameters have no effect. It is
    computed in forward mode, as each element depends on one element per operand.

    Attributes:
        by: the operands with respect to which it is differentiated, in order.
    """

    spec_names = ()
    by: tuple[int, ...] = attribute(Integers(0), default=())
    element_types = frozenset((F32, F64))
    #: The ends of the domain, and a point inside.
    ends: ClassVar[tuple[float, float]]
    inside: ClassVar[float]
    #: A method: the derivative with respect to x.
    integrand = GIVEN

    def reference(self, *operands):
        graph = incomplete_program(type(self), Shape(F64, operands[0].shape), self.by)
        with np.errstate(all="ignore"):
            result = reference_graph(graph, [cast(operand, F64) for operand in operands])[0]
        return cast(result, element_type(operands[0].dtype))

    def lowered(self, *operands):
        program = incomplete_program(type(self), array_shape(operands[0]), self.by)
        return evaluate_graph(program, operands)[0]

    def jvp(self, primals, tangents, results):
        # Both modes use the same expressions; NaN stays NaN.
        total, last = None, len(primals) - 1
        for number, tangent in enumerate(tangents):
            if tangent is not None:
                is_known = number == last and not self.by
                slope = self.integrand(*primals) if is_known else self._inside(primals, number)
                nan = full_like(slope, math.nan)
                slope = REGISTRY["Undefined"]()(results != results, nan, slope)
                total = add_cotangents(total, scaled(tangent, slope))
        return total

    def _inside(self, primals: Sequence[Array], number: int) -> Array:
        """Return the program's derivative with respect to an operand; 0 at the domain's ends."""
        *parameters, x = primals
        is_end = (x == self.ends[0]) | (x == self.ends[1])
        x = ops.select(is_end, full_like(x, self.inside), x)
        slope = self(*parameters, x, by=(*self.by, number))
        return ops.select(is_end, zeros_like(slope), slope)


@register
class Igamma(Incomplete):
    """The regularized lower incomplete gamma function P(a, x)."""

    spec_names = ()
    operands = ("a", "x")
    ends, inside = (0, math.inf), 1

    def integrand(self, a, x):
        """Compute x**(a - 1) exp(-x) / gamma(a)."""
        is_zero, is_far = x == 0, x == math.inf
        between = ops.select(is_zero | is_far, ones_like(x), x)
        # The power may overflow while exp(-x) is small, so add exponents.
        inner = ops.exp((a - 1) * ops.log(between) - between - ops.lgamma(a))
        near = ops.select(is_zero, x, ones_like(x))
        outer = power(near, a - 1) * ops.exp(-near - ops.lgamma(a))
        return ops.select(is_zero, outer, ops.select(is_far, zeros_like(x), inner))


@register
class Igammac(Igamma):
    """The regularized upper incomplete gamma function Q(a, x)."""

    spec_names = ()

    def integrand(self, a, x):
        return -super().integrand(a, x)


@register
class Betainc(Incomplete):
    """The regularized incomplete beta function I(a, b, x)."""

    spec_names = ()
    operands = ("a", "b", "x")
    ends, inside = (0, 1), 0.5

    def integrand(self, a, b, x):
        """Compute x**(a - 1) (1 - x)**(b - 1) / beta(a, b)."""
        is_end = (x == 0) | (x == 1)
        half = full_like(x, 0.5)
        far = full_like(x, math.inf)
        log_beta = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)
        log_beta = ops.select((a == math.inf) | (b == math.inf), far, log_beta)
        between, end = ops.select(is_end, half, x), ops.select(is_end, x, half)
        inner = ops.exp((a - 1) * ops.log(between) + (b - 1) * ops.log1p(-between) - log_beta)
        outer = power(end, a - 1) * power(1 - end, b - 1) * ops.exp(-log_beta)
        return ops.select(is_end, outer, inner)
