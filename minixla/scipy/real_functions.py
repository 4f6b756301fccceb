"""Element-wise functions of real numbers, of any shapes and types, from formulas for floats."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.docstrings import documented
from minixla.core.tracing import one_program
from minixla.numpy.element_functions import Function, named, refuse_complex, with_derivatives
from minixla.numpy.operands import marked, promoted
from minixla_ops.elementwise.families import in_f32
from minixla_ops.elementwise.promotion import inexact_type

#: Sections that these functions share.
SHARED = """
Args:
    x: an array of reals.
    y: an array of reals, which broadcasts with `x`.
    a: an array of reals.
    b: an array of reals, which broadcasts with `a`.
    p: an array of reals.
    q: an array of reals, which broadcasts with `p`.
    lmbda: the exponent, an array of reals that broadcasts with `x`.

Returns:
    An array of floats, of the shape that the arguments broadcast to.

Raises:
    ShapeError: an argument is complex, or the shapes do not broadcast.
"""


def of_reals(*derivatives: Function | None) -> Callable[[Function], Any]:
    """Extend a formula for floats of one shape and type, f32 or f64, to any real numbers.

    Args:
        derivatives: one for each operand: a function of the result and the operands, or None if
            the operand counts as a constant. Without any, differentiate the formula.

    `SHARED` supplies the sections that the docstring omits.
    """

    def made(function: Function) -> Any:
        name, declared = function.__name__.removeprefix("_"), signature(function)
        derived = with_derivatives(function, *derivatives) if derivatives else function

        def converted(*operands: Any) -> Any:
            operands_converted, kind, weak = promoted(name, operands, inexact_type)
            refuse_complex(name, kind)
            return marked(in_f32(derived, *operands_converted), weak)

        converted.__name__ = name
        whole = one_program()(converted)

        @wraps(function)
        def public(*args: Any, **kwargs: Any) -> Any:
            if kwargs or len(args) != len(declared.parameters):
                args = declared.bind(*args, **kwargs).args
            return whole(*args)

        text = function.__doc__ or ""
        return documented(SHARED)(named(public, name, text, "minixla.scipy.special"))

    return made


def upper_digits(x: Any) -> Any:
    """Round floats to half of their digits, so that products of two of them have no error."""
    kind = mnp.finfo(x.dtype)
    return ops.reduce_precision(x, kind.nexp, (kind.nmant - 1) // 2)
