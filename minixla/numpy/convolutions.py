"""Convolutions and correlations of vectors."""

from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.whole_programs import one_program
from minixla.numpy import operands
from minixla.numpy.element_functions import named
from minixla.numpy.operands import convert, lifted
from minixla_ops.elementwise.promotion import inexact_type

_ARGUMENTS = """

Args:
    a: a vector.
    v: a vector; both are converted to one type, at least float.
    mode: "full" all sums of products, "same" as many as the longer vector has elements, from the
        middle, "valid" those where the vectors overlap entirely.
    precision: DEFAULT, HIGH or HIGHEST; see `minixla_ops.conv_general_dilated`.
    preferred_element_type: the type to sum in and return, for which integers stay integers.

Raises:
    ShapeError: one is no vector, or has no elements.
    AttributeValueError: the mode is unknown."""


def _sliding(name: str, text: str, default: str) -> Any:
    @one_program("a", "v")
    def public(
        a: Any,
        v: Any,
        mode: str = default,
        *,
        precision: Any = None,
        preferred_element_type: Any = None,
    ) -> Any:
        operands.refuse_others(mode, ("full", "same", "valid"), name, "mode")
        shapes = [operands.shape_of_rank(each, (1,), name, "Give vectors.") for each in (a, v)]
        if not all(each.size for each in shapes):
            problem, given = "a vector has no elements", map(str, shapes)
            raise operands.shape_error(name, problem, "Check for size 0 first.", *given)
        common = operands.common_type(name, a, v)
        kind = inexact_type(common) if preferred_element_type is None else common
        image, kernel = (lifted(convert(each, kind)) for each in (a, v))
        is_correlation, is_turned = name == "correlate", shapes[0].size < shapes[1].size
        kernel = mnp.conjugate(kernel) if is_correlation else kernel
        image, kernel = (kernel, image) if is_turned else (image, kernel)
        size = kernel.shape[0]
        low, high = {"full": (size - 1, size - 1), "same": (size // 2, (size - 1) // 2)}.get(
            mode, (0, 0)
        )
        found = ops.conv_general_dilated(
            mnp.reshape(image, (1, 1, -1)),
            mnp.reshape(kernel if is_correlation else mnp.flip(kernel), (1, 1, -1)),
            (1,),
            [(low, high)],
            precision_config=precision,
            preferred_element_type=preferred_element_type,
        )
        return mnp.flip(found[0, 0]) if is_correlation and is_turned else found[0, 0]

    return named(public, name, text + _ARGUMENTS)


convolve = _sliding("convolve", "The sums of products of a vector and one reversed.", "full")
_CORRELATE = "The sums of products of a vector and the conjugate of another, moved along it."
correlate = _sliding("correlate", _CORRELATE, "valid")
